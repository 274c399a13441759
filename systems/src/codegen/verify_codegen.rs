//! `verify_codegen`: every static pattern stays inside its location, has 1 to 5 pairs with non-zero counts, and both
//! sides of a copy visit the same number of elements.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};

/// The pass.
pub fn verify_codegen(
    insts: Query<(&InstHead, &InstOperands, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern, &ApDynamic)>,
    locs: Query<&LocHead>,
    payloads: Res<Payloads>,
    diagnostics: Res<Diagnostics>,
) {
    let (insts, operands, from) = crate::columns!(insts);
    let (heads, patterns, dynamics) = crate::columns!(aps);
    let locs = crate::columns!(locs);
    let fault = |inst: usize, what: String| {
        diagnostics.push(Diagnostic::error(&INTERNAL, what).ordered(from[inst].hlo.0));
    };
    let indexed = |d: &ApDynamic| {
        payloads.dynamic(d.payload).is_some_and(|info| matches!(info.kind, OffsetKind::Vector(_)))
    };
    for ((head, pattern), dynamic) in heads.iter().zip(patterns).zip(dynamics) {
        if indexed(dynamic) {
            // Its rows stand where the offsets say.
            continue;
        }
        // In elements of the access, which may be narrower or wider than the location's.
        let loc = locs[head.loc.index()];
        let size = loc.partitions as i64 * loc.part_bytes() as i64 / head.dtype.bytes() as i64;
        let (low, high) = pattern.span();
        let at = head.offset as i64;
        let whole = pattern.0.is_empty() || pattern.0.iter().any(|p| p.num == 0);
        if whole || at + low < 0 || at + high >= size {
            let name = insts[head.inst.index()].op.name();
            fault(
                head.inst.index(),
                format!("{name}: elements {}..={} of a location of {size}", at + low, at + high),
            );
        }
    }
    for (k, (inst, ops)) in insts.iter().zip(operands).enumerate() {
        let copies = matches!(
            inst.op,
            Opcode::DmaCopy
                | Opcode::TensorCopy
                | Opcode::TensorCopyDynamicSrc
                | Opcode::TensorCopyDynamicDst
        );
        if copies && inst.live() {
            let (o, i) = (&patterns[ops.output(0).index()], &patterns[ops.input(0).index()]);
            if o.elements() != i.elements() {
                fault(k, format!("{}: {} elements out of {}", inst.op.name(), o.elements(), i.elements()));
            }
        }
    }
}
