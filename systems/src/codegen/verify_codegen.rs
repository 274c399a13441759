//! `verify_codegen`: every pattern stays inside its location, has 1 to 5 pairs with non-zero counts, and both sides of a
//! copy visit the same number of elements.
//!
//! A run-time address is evaluated at both ends of its indices' proved ranges (D17); its coefficients are positive, so all
//! that it can be lies between. On chip an address that can leave the first partition splits at partition borders
//! (`spec/ir.md 3.5`). Rows that a vector of offsets finds are checked where they are read.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::ids::{ExprId, RegId};

/// The pass.
pub fn verify_codegen(
    insts: Query<(&InstHead, &InstOperands, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    axes: Query<&AxisRegs>,
    regs: Query<&RegBounds>,
    payloads: Res<Payloads>,
    exprs: Res<Exprs>,
    diagnostics: Res<Diagnostics>,
) {
    let (insts, operands, from) = crate::columns!(insts);
    let (heads, patterns) = crate::columns!(aps);
    let locs = crate::columns!(locs);
    let ends = Ends { exprs: &exprs, axes: crate::columns!(axes), bounds: crate::columns!(regs) };
    let fault = |inst: usize, what: String| {
        diagnostics.push(Diagnostic::error(&INTERNAL, what).ordered(from[inst].hlo.0));
    };
    let indexed = |d: &ApDynamic| {
        payloads.dynamic(d.payload).is_some_and(|info| matches!(info.kind, OffsetKind::Vector(_)))
    };
    for (head, pattern) in heads.iter().zip(patterns) {
        if indexed(&head.dynamic) {
            // Its rows stand where the offsets say.
            continue;
        }
        // In elements of the access, which may be narrower or wider than the location's.
        let loc = locs[head.loc.index()];
        let size = loc.partitions as i64 * loc.part_bytes() as i64 / head.dtype.bytes() as i64;
        let (mut low, mut high) = pattern.span();
        let free = high;
        let mut at = head.offset as i64;
        match payloads.0.get(head.dynamic.payload).map(|p| ends.of(p)) {
            // The expression has the offset in it.
            Some(Ok(Some((lowest, highest)))) => {
                at = 0;
                (low, high) = (low + lowest, high.saturating_add(highest));
            }
            Some(Ok(None)) => {
                fault(head.inst.index(), "a run-time address over an index without bounds".to_string());
                continue;
            }
            Some(Err(d)) => {
                diagnostics.push(d.ordered(from[head.inst.index()].hlo.0));
                continue;
            }
            None => {}
        }
        if let Some(s) = payloads.symbolic(head.dynamic.payload) {
            let step = pattern.0.first().map_or(0, |p| i64::from(p.step));
            let inside = high - free + pattern.0.iter().skip(1).map(|p| span_of(*p)).sum::<i64>() < step;
            if !inside && !exprs.is_legal_delinearized_address(s.tile, step, true, true) {
                fault(
                    head.inst.index(),
                    "an on-chip address does not split at partition borders".to_string(),
                );
            }
        }
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

/// From the first to the last element of a pair, elements.
fn span_of(pair: ApPair) -> i64 {
    i64::from(pair.step.max(0)) * (i64::from(pair.num) - 1)
}

/// The ends of run-time addresses.
struct Ends<'a> {
    exprs: &'a Exprs,
    axes: &'a [AxisRegs],
    bounds: &'a [RegBounds],
}

impl Ends<'_> {
    /// The lowest and highest value of a payload's address, elements.
    fn of(&self, payload: &Payload) -> Result<Option<(i64, i64)>, Diagnostic> {
        let mut ends = [Some(0i64); 2];
        for (k, end) in ends.iter_mut().enumerate() {
            match payload {
                Payload::Symbolic(s) => *end = self.at(s.tile, k == 1)?,
                Payload::Dynamic(info) => {
                    *end = Some(info.c);
                    for t in &info.terms {
                        let term = self.at(t.expr, k == 1)?.and_then(|v| v.checked_mul(t.coef));
                        *end = end.zip(term).and_then(|(e, t)| e.checked_add(t));
                    }
                }
            }
        }
        Ok(ends[0].zip(ends[1]))
    }

    /// An affine address with every index at its lowest or highest value.
    fn at(&self, e: ExprId, highest: bool) -> Result<Option<i64>, Diagnostic> {
        let mut env = Env::default();
        for (index, _) in self.exprs.as_affine(e).map_or(Vec::new(), |a| a.0) {
            let reg = match self.exprs.get(index) {
                Expr::RuntimeInt(r) => *r,
                Expr::AxisIv(axis) => self.axes.get(axis.index()).map_or(RegId::NONE, |a| a.iv),
                _ => RegId::NONE,
            };
            if let Some(b) = self.bounds.get(reg.index()) {
                let value = if highest { b.hi } else { b.lo };
                env.set(index, IndexValue { value, lo: b.lo, hi: b.hi.saturating_add(1) });
            }
        }
        self.exprs.eval(e, &env).map_err(|d| *d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::options::CompileOptions;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;
    use murre_components::ids::HloId;

    /// What is wrong with a run-time read of 8 elements from `[4, 96]`, its index in `0..=most` times `coef`.
    fn faults(space: Space, most: i64, coef: i64, c: i64) -> Vec<String> {
        let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = Staging::new(&world);
        let dram = space == Space::Dram;
        let (parts, elems) = if dram { (1, 384) } else { (4, 96) };
        let loc = s.loc(LocRow::new(space, DType::F32, parts, elems, HloId(0)));
        let mut row = RegRow::new(EngineId::All, RegRole::Scalar, HloId(0));
        row.bounds = RegBounds { lo: 0, hi: most };
        let reg = s.reg(row);
        let mut exprs = world.resource_mut::<Exprs>();
        let expr = exprs.intern(Expr::RuntimeInt(reg));
        let (tile, block) = (exprs.affine([(expr, coef)], c), exprs.constant(0));
        let payload = if dram {
            Payload::Dynamic(DynamicApInfo {
                kind: OffsetKind::Scalar,
                terms: [DynamicTerm { expr, coef }].into_iter().collect(),
                c,
                indirect_dim: 0,
                indirect_dim_max_index: 10,
                tensor_indirect_arg_id: -1,
                num_tensor_indirect_indices: 0,
                offset_reg: RegId::NONE,
                bound_reg: RegId::NONE,
            })
        } else {
            Payload::Symbolic(SymbolicAddress { tile, block })
        };
        let payload = world.resource_mut::<Payloads>().0.insert(payload);
        let kind = if dram { ApKind::Physical } else { ApKind::Symbolic };
        let pattern = ApPattern::of([(96, 1), (1, 8)]);
        let side = Operand { loc, offset: c as u32, dtype: DType::F32, pattern, kind, payload, flags: 0 };
        s.inst(InstRow::new(Opcode::NoOp, EngineId::Dve, HloId(0)), &[], &[side]);
        s.flush(&mut world);
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_codegen);
        schedule.run(&mut world);
        world.resource::<Diagnostics>().take().into_iter().map(|d| d.message).collect()
    }

    #[test]
    fn addresses_are_checked_at_the_ends_of_their_ranges() {
        assert!(faults(Space::Dram, 47, 8, 0).is_empty());
        assert_eq!(faults(Space::Dram, 47, 8, 1), ["NoOp: elements 1..=384 of a location of 384"]);
        assert!(faults(Space::Sbuf, 11, 8, 0).is_empty());
        assert_eq!(
            faults(Space::Dram, i64::MAX - 1, 8, 0),
            ["a run-time address over an index without bounds"]
        );
    }

    #[test]
    fn an_address_over_partitions_is_a_multiple_of_them() {
        assert!(faults(Space::Sbuf, 3, 96, 0).is_empty());
        let split = "an on-chip address does not split at partition borders";
        assert_eq!(faults(Space::Sbuf, 12, 8, 0), [split]);
        assert_eq!(faults(Space::Sbuf, 2, 96, 4), [split]);
    }
}
