//! `assemble_dynamic_info`: the run-time half of each dynamic operand.
//!
//! In: physical patterns of dynamic copies and their indices. A copy whose offsets are a vector in memory gets one kind 3
//! term, whose coefficient is what an offset counts. Out: in DRAM a [`DynamicApInfo`] on the physical pattern
//! (kind 7 terms, one a run-time index, coefficients in elements); on chip a symbolic pattern whose address is an affine
//! expression over loop axes and run-time values. Exactly one of scalar and vector offset exists per pattern.
//!
//! ```text
//! L0[c + r3 * 8 ...]  DRAM: dynamic_ap_info { c, [(r3, 8)] }     SBUF: symbolic { tile: 8 * r3 + c, block: 0 }
//! ```
//!
//! Facts: `spec/ir.md 3.8, 4`; the arg id of a register value is -1 (D11 applies to index tensors).

use super::select_instructions::PendingDynamic;
use arrayvec::ArrayVec;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::ids::ApId;
use murre_components::penguin::DynamicCopies;

/// The pass.
pub fn assemble_dynamic_info(
    mut aps: Query<(&mut ApHead, &ApPattern, &mut ApDynamic)>,
    locs: Query<&LocHead>,
    pending: Res<PendingDynamic>,
    copies: Res<DynamicCopies>,
    mut payloads: ResMut<Payloads>,
    mut exprs: ResMut<Exprs>,
    diagnostics: Res<Diagnostics>,
) {
    let locs = crate::columns!(locs);
    let Ok(mut tables) = aps.contiguous_iter_mut() else { return };
    let Some((mut heads, steps, mut dynamic)) = tables.next() else { return };
    let (heads, dynamic) = (heads.bypass_change_detection(), dynamic.bypass_change_detection());
    for &(ap, row) in &pending.0 {
        let (head, copy) = (&mut heads[ap.index()], &copies.0[row as usize]);
        if copy.indices_in_vector > 0 {
            // The offsets are the last operand: behind result and source.
            let index = ApId(ap.0 + 1 + u32::from(head.output));
            let granule = steps[ap.index()].0.first().map_or(1, |p| i64::from(p.step));
            let expr = exprs.intern(Expr::IndirectArg { arg_id: 0 });
            let info = DynamicApInfo {
                kind: OffsetKind::Vector(index),
                terms: [DynamicTerm { expr, coef: granule }].into_iter().collect(),
                c: head.offset as i64,
                indirect_dim: 0,
                indirect_dim_max_index: copy.max_index,
                tensor_indirect_arg_id: 0,
                num_tensor_indirect_indices: copy.indices_in_vector,
                offset_reg: Default::default(),
                bound_reg: Default::default(),
            };
            dynamic[ap.index()].payload = payloads.0.insert(Payload::Dynamic(info));
            continue;
        }
        if copy.indices.is_empty() {
            // The degenerate form: a static address.
            continue;
        }
        if locs[head.loc.index()].space == Space::Dram {
            let terms: ArrayVec<DynamicTerm, 8> =
                copy.indices.iter().map(|i| DynamicTerm { expr: i.expr, coef: i.scale as i64 }).collect();
            let info = DynamicApInfo {
                kind: OffsetKind::Scalar,
                terms,
                c: head.offset as i64,
                indirect_dim: copy.indices[0].dim as u8,
                indirect_dim_max_index: copy.max_index,
                tensor_indirect_arg_id: -1,
                num_tensor_indirect_indices: 0,
                offset_reg: Default::default(),
                bound_reg: Default::default(),
            };
            if info.indirect_dim_max_index == 0 {
                diagnostics.push(Diagnostic::error(&INTERNAL, "a run-time index with an empty range"));
            }
            dynamic[ap.index()].payload = payloads.0.insert(Payload::Dynamic(info));
        } else {
            let terms = copy.indices.iter().map(|i| (i.expr, i.scale as i64));
            let tile = exprs.affine(terms, head.offset as i64);
            let block = exprs.constant(0);
            head.kind = ApKind::Symbolic;
            dynamic[ap.index()].payload =
                payloads.0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
        }
    }
}
