//! `assemble_dynamic_info`: the run-time half of each dynamic operand.
//!
//! In: physical patterns of dynamic copies and the addresses of their nodes. Out: in DRAM a [`DynamicApInfo`] on the
//! physical pattern, its coefficients in elements; on chip a symbolic pattern whose address is an affine expression over
//! loop axes and run-time values. An address in a register is a kind 7 term (kind 6 if the register is an induction
//! variable), a vector of offsets in memory one kind 3 term with argument id 1. Exactly one of the two exists per pattern.
//!
//! ```text
//! L0[c + r3 * 8 ...]  DRAM: dynamic_ap_info { c, [(r3, 8)] }     SBUF: symbolic { tile: 8 * r3 + c, block: 0 }
//! ```
//!
//! Facts: `spec/ir.md 3.8, 4`, D12: a coefficient is a row stride, of a dense tensor the accumulated shape.

use super::select_instructions::{Pending, PendingDynamic};
use crate::compile::Lean;
use arrayvec::ArrayVec;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::{DYNAMIC_MAX_INDEX, DYNAMIC_OFFSET_KIND};
use murre_components::diag::{Code, Diagnostic, Diagnostics};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::ids::{ApId, AxisId, ExprId, RegId};
use murre_components::penguin::{DynamicCopies, NodeOperand, OperandPool, TensorCopyDynamic};

/// The id of every index argument, until `expand_dynamic_ap_info` renumbers them.
pub const INDEX_ARGUMENT: i32 = 1;

/// Code and words of a refusal.
type Fault = (Code, String);

/// The pass.
pub fn assemble_dynamic_info(
    aps: Query<&mut ApHead>,
    locs: Query<&LocHead>,
    insts: Query<&InstFrom>,
    axes: Query<&AxisRegs>,
    pending: Res<PendingDynamic>,
    mut copies: ResMut<DynamicCopies>,
    mut pool: ResMut<OperandPool>,
    lean: Option<Res<Lean>>,
    mut payloads: ResMut<Payloads>,
    mut exprs: ResMut<Exprs>,
    diagnostics: Res<Diagnostics>,
) {
    if !pending.0.is_empty() {
        assemble(
            aps,
            locs,
            insts,
            axes,
            &pending.0,
            &copies.0,
            &pool.0,
            &mut payloads,
            &mut exprs,
            &diagnostics,
        );
    }
    if lean.is_some() {
        // Instructions stand for the nodes now.
        (pool.0, copies.0) = Default::default();
    }
}

/// Hangs its run-time half on each pattern that waits.
fn assemble(
    mut aps: Query<&mut ApHead>,
    locs: Query<&LocHead>,
    insts: Query<&InstFrom>,
    axes: Query<&AxisRegs>,
    pending: &[Pending],
    copies: &[TensorCopyDynamic],
    pool: &[NodeOperand],
    payloads: &mut Payloads,
    exprs: &mut Exprs,
    diagnostics: &Diagnostics,
) {
    let (locs, from) = (crate::columns!(locs), crate::columns!(insts));
    let mut induction = seeded_map::<RegId, AxisId>();
    for (k, axis) in crate::columns!(axes).iter().enumerate().filter(|(_, a)| a.iv.is_some()) {
        induction.insert(axis.iv, AxisId::new(k));
    }
    let Ok(mut tables) = aps.contiguous_iter_mut() else { return };
    let Some(mut heads) = tables.next() else { return };
    let heads = heads.bypass_change_detection();
    for &Pending { ap, operands, copy } in pending {
        let (head, copy) = (&mut heads[ap.index()], &copies[copy as usize]);
        let addrs = &pool[operands.first as usize + 2..(operands.first + operands.count) as usize];
        let space = locs[head.loc.index()].space;
        // The offsets of a vector are the last operand of the instruction: behind result and source.
        let index = ApId(ap.0 + 1 + u32::from(head.output));
        let made = offset_kind(addrs, index).and_then(|kind| {
            let terms = terms(copy, addrs, kind, &induction, exprs)?;
            if space != Space::Dram {
                let tile = exprs.affine(terms.iter().map(|t| (t.expr, t.coef)), head.offset as i64);
                let block = exprs.constant(0);
                return Ok(Payload::Symbolic(SymbolicAddress { tile, block }));
            }
            Ok(Payload::Dynamic(info(copy, addrs, kind, terms, head.offset as i64)))
        });
        match made {
            Ok(payload) => {
                if matches!(payload, Payload::Symbolic(_)) {
                    head.kind = ApKind::Symbolic;
                }
                head.dynamic.payload = payloads.0.insert(payload);
            }
            Err((code, what)) => {
                diagnostics.push(Diagnostic::error(code, what).ordered(from[head.inst.index()].hlo.0));
            }
        }
    }
}

/// Scalar or vector (`check_xor`): an error if the addresses are of both kinds or there are none.
fn offset_kind(addrs: &[NodeOperand], index: ApId) -> Result<OffsetKind, Fault> {
    let scalar = addrs.iter().any(|a| matches!(a, NodeOperand::Scalar(..)));
    let vector = addrs.iter().any(|a| matches!(a, NodeOperand::Access(_)));
    match (scalar, vector) {
        (true, false) => Ok(OffsetKind::Scalar),
        (false, true) => Ok(OffsetKind::Vector(index)),
        (both, _) => {
            let which = if both { "a scalar and a vector" } else { "neither a scalar nor a vector" };
            Err((&DYNAMIC_OFFSET_KIND, format!("the run-time offset of a pattern is {which}")))
        }
    }
}

/// The terms: one a run-time dimension.
fn terms(
    copy: &TensorCopyDynamic,
    addrs: &[NodeOperand],
    kind: OffsetKind,
    induction: &SeededMap<RegId, AxisId>,
    exprs: &mut Exprs,
) -> Result<ArrayVec<DynamicTerm, 8>, Fault> {
    if copy.max_index == 0 {
        return Err((&DYNAMIC_MAX_INDEX, "a run-time index with an empty range".to_string()));
    }
    if matches!(kind, OffsetKind::Vector(_)) && copy.indices.first().is_some_and(|i| i.dim != 0) {
        let what = "a vector of offsets indexes another dimension than 0".to_string();
        return Err((&DYNAMIC_OFFSET_KIND, what));
    }
    let mut expr = |addr: &NodeOperand| -> ExprId {
        match addr {
            NodeOperand::Scalar(r, _) => match induction.get(r) {
                Some(axis) => exprs.intern(Expr::AxisIv(*axis)),
                None => exprs.intern(Expr::RuntimeInt(*r)),
            },
            _ => exprs.intern(Expr::IndirectArg { arg_id: INDEX_ARGUMENT }),
        }
    };
    Ok(copy
        .indices
        .iter()
        .zip(addrs)
        .map(|(i, addr)| {
            let dense = accumulated_shape(&copy.shape, i.dim as usize + 1).filter(|_| !copy.shape.is_empty());
            let coef = dense.map_or(i64::from(i.scale), |stride| stride as i64);
            DynamicTerm { expr: expr(addr), coef }
        })
        .collect())
}

/// The dynamic info of a DRAM side.
fn info(
    copy: &TensorCopyDynamic,
    addrs: &[NodeOperand],
    kind: OffsetKind,
    terms: ArrayVec<DynamicTerm, 8>,
    c: i64,
) -> DynamicApInfo {
    let offsets = addrs.first().and_then(|a| a.access()).map_or(0, |a| a.pattern.elements());
    let vector = matches!(kind, OffsetKind::Vector(_));
    DynamicApInfo {
        kind,
        terms,
        c,
        indirect_dim: copy.indices.first().map_or(0, |i| i.dim as u8),
        indirect_dim_max_index: copy.max_index,
        tensor_indirect_arg_id: if vector { INDEX_ARGUMENT } else { -1 },
        num_tensor_indirect_indices: if vector { offsets as u32 } else { 0 },
        offset_reg: RegId::NONE,
        bound_reg: RegId::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::ids::LocId;
    use murre_components::penguin::{Access, AccessMode, DynamicIndex};

    fn scalar(r: u32) -> NodeOperand {
        NodeOperand::Scalar(RegId(r), DType::I32)
    }

    fn vector() -> NodeOperand {
        let pattern = ApPattern::of([(5, 1), (1, 5)]);
        NodeOperand::Access(Access {
            loc: LocId(0),
            offset: 0,
            dtype: DType::U32,
            pattern,
            mode: AccessMode::Load,
        })
    }

    fn copy(dims: &[(u32, u32)], shape: &[u64]) -> TensorCopyDynamic {
        TensorCopyDynamic {
            indices: dims.iter().map(|(dim, scale)| DynamicIndex { dim: *dim, scale: *scale }).collect(),
            shape: shape.iter().copied().collect(),
            max_index: 10,
            ..Default::default()
        }
    }

    #[test]
    fn a_lean_world_gives_the_nodes_operands_back() {
        for lean in [false, true] {
            let mut world = World::new();
            world.insert_resource(PendingDynamic::default());
            world.insert_resource(DynamicCopies(vec![copy(&[(0, 4)], &[])]));
            world.insert_resource(OperandPool(vec![scalar(1)]));
            world.init_resource::<Payloads>();
            world.init_resource::<Exprs>();
            world.init_resource::<Diagnostics>();
            if lean {
                world.insert_resource(Lean);
            }
            world.run_system_cached(assemble_dynamic_info).expect("runs");
            assert_eq!(world.resource::<OperandPool>().0.is_empty(), lean);
            assert_eq!(world.resource::<DynamicCopies>().0.is_empty(), lean);
        }
    }

    #[test]
    fn exactly_one_of_scalar_and_vector() {
        assert_eq!(offset_kind(&[scalar(1), scalar(2)], ApId(3)), Ok(OffsetKind::Scalar));
        assert_eq!(offset_kind(&[vector()], ApId(3)), Ok(OffsetKind::Vector(ApId(3))));
        for wrong in [&[scalar(1), vector()][..], &[]] {
            assert_eq!(offset_kind(wrong, ApId(3)).unwrap_err().0.id, "MUR0412");
        }
    }

    #[test]
    fn registers_are_kind_7_induction_variables_kind_6_and_vectors_kind_3_with_argument_1() {
        let mut exprs = Exprs::default();
        let mut induction = seeded_map();
        induction.insert(RegId(2), AxisId(9));
        let (c, addrs) = (copy(&[(0, 12), (1, 4)], &[7, 3, 4]), [scalar(1), scalar(2)]);
        let made = terms(&c, &addrs, OffsetKind::Scalar, &induction, &mut exprs).unwrap();
        let seen: Vec<_> = made.iter().map(|t| (exprs.get(t.expr).clone(), t.coef)).collect();
        assert_eq!(seen, [(Expr::RuntimeInt(RegId(1)), 12), (Expr::AxisIv(AxisId(9)), 4)]);
        let kind = OffsetKind::Vector(ApId(3));
        let c = copy(&[(0, 16)], &[]);
        let made = terms(&c, &[vector()], kind, &induction, &mut exprs).unwrap();
        assert_eq!(exprs.get(made[0].expr), &Expr::IndirectArg { arg_id: 1 });
        let info = info(&c, &[vector()], kind, made, 6);
        assert_eq!((info.tensor_indirect_arg_id, info.num_tensor_indirect_indices, info.c), (1, 5, 6));
    }

    #[test]
    fn an_empty_range_and_a_vector_on_an_inner_dimension_are_refused() {
        let (mut exprs, none) = (Exprs::default(), seeded_map());
        let mut c = copy(&[(0, 1)], &[]);
        c.max_index = 0;
        let fault = terms(&c, &[scalar(1)], OffsetKind::Scalar, &none, &mut exprs).unwrap_err();
        assert_eq!(fault.0.id, "MUR0413");
        let c = copy(&[(1, 1)], &[]);
        let fault = terms(&c, &[vector()], OffsetKind::Vector(ApId(0)), &none, &mut exprs).unwrap_err();
        assert_eq!(fault.0.id, "MUR0412");
    }

    /// D12: `c + coef * index` is where a reference gather reads, also for a dimension inside others and a static start.
    #[test]
    fn the_coefficient_finds_the_rows_of_a_reference_gather() {
        let shape = [6u64, 5, 4];
        let (mut exprs, none) = (Exprs::default(), seeded_map());
        let data: Vec<u64> = (0..120).map(|i| 1000 + i).collect();
        for dim in 0..3u32 {
            let scale = shape[dim as usize + 1..].iter().product::<u64>() as u32;
            let made =
                terms(&copy(&[(dim, scale)], &shape), &[scalar(1)], OffsetKind::Scalar, &none, &mut exprs)
                    .unwrap();
            for index in 0..shape[dim as usize] {
                let mut at = [3, 2, 1];
                at[dim as usize] = index;
                let reference = data[(at[0] * 20 + at[1] * 4 + at[2]) as usize];
                at[dim as usize] = 0;
                let c = at[0] * 20 + at[1] * 4 + at[2];
                assert_eq!(data[(c as i64 + made[0].coef * index as i64) as usize], reference);
            }
        }
    }
}
