//! `share_addresses`: dynamic copies whose addresses are the same arithmetic on the same values use one of them.
//!
//! In: nodes, operands. Out: the same, with uses of addresses replaced. Every dynamic-slice and dynamic-update-slice clamps
//! its own starts, so the caches of a layer, updated at one position, clamp that position again and again. What nothing
//! uses any more costs nothing: `expand_all_engine` clones only what is demanded.
//!
//! Two operations have the same value if operator, type and immediate are equal, their operands have the same value, and
//! they stand in the same loop body, where neither is carried nor written twice.
//!
//! ```text
//! r5 = min r2, 63 ; copy_dst a, at r5 ; r9 = min r2, 63 ; copy_dst b, at r9     ->     ... copy_dst b, at r5
//! ```
//!
//! Facts: `spec/ir.md 2.1, 2.2` (replaceUseOfWith).

use bevy_ecs::prelude::*;
use murre_components::bir::RegHead;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::ids::{AxisId, RegId};
use murre_components::penguin::*;

/// What makes two operations one: operator, operands, immediate, type, loop.
type Key = (u8, RegId, RegId, u32, u8, AxisId);

/// The pass.
pub fn share_addresses(
    nodes: Query<(&NodeHead, &NodeOperands, &NodeScalars)>,
    regs: Query<&RegHead>,
    copies: Res<DynamicCopies>,
    mut pool: ResMut<OperandPool>,
) {
    if copies.0.is_empty() {
        return;
    }
    let (heads, ranges, scalars) = crate::columns!(nodes);
    let mut writes = vec![0u8; crate::columns!(regs).len()];
    for s in scalars {
        if let Some(w) = writes.get_mut(s.dst.index()) {
            *w = w.saturating_add(1);
        }
    }
    // The register whose value a register has.
    let mut same: Vec<RegId> = (0..writes.len()).map(RegId::new).collect();
    let mut first: SeededMap<Key, RegId> = seeded_map();
    for ((head, range), s) in heads.iter().zip(ranges).zip(scalars) {
        match head.kind {
            NodeKind::ScalarAlu => {
                let once = |r: RegId| writes.get(r.index()).is_none_or(|w| *w <= 1);
                if [s.dst, s.a, s.b].into_iter().all(once) {
                    let of = |r: RegId| same.get(r.index()).copied().unwrap_or(r);
                    let key = (head.sub, of(s.a), of(s.b), s.imm, s.tag, head.axis);
                    let known = *first.entry(key).or_insert(s.dst);
                    if let Some(slot) = same.get_mut(s.dst.index()) {
                        *slot = known;
                    }
                }
            }
            NodeKind::TensorCopyDynamicSrc | NodeKind::TensorCopyDynamicDst => {
                let at = range.first as usize..(range.first + range.count) as usize;
                let Some(operands) = pool.bypass_change_detection().0.get_mut(at) else { continue };
                for k in 2..operands.len() {
                    let Some(NodeValue::Scalar(reg)) = operands[k].value() else { continue };
                    match same.get(reg.index()) {
                        Some(known) if *known != reg => {
                            replace_use_of_with(operands, NodeValue::Scalar(reg), NodeValue::Scalar(*known));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompileOptions;
    use murre_components::bir::RegRole;
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::{HloModule, HloOp};
    use murre_components::ids::{HloId, LocId};

    /// Two copies at `r0 min imm`, the second operation in `axis`; `writes` more moves to r0. The address of the second.
    fn second_address(imms: [u32; 2], axis: AxisId, writes: usize) -> RegId {
        let mut world = crate::Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = crate::staging::Staging::new(&world);
        for _ in 0..3 {
            s.reg(murre_components::bir::RegRow::new(EngineId::All, RegRole::Scalar, HloId(0)));
        }
        s.flush(&mut world);
        let pattern = murre_components::bir::ApPattern::of([(1, 8)]);
        let access = |mode| {
            let pattern = pattern.clone();
            NodeOperand::Access(Access { loc: LocId(0), offset: 0, dtype: DType::F32, pattern, mode })
        };
        let mut operands = Vec::new();
        let mut spawn = |kind, axis, count, scalars: NodeScalars| {
            let head = NodeHead { kind, op: HloOp::Add, sub: 9, flags: 0, hlo: HloId(0), axis };
            let first = operands.len() as u32;
            if count > 0 {
                operands.extend([access(AccessMode::Store), access(AccessMode::Load)]);
                operands.push(NodeOperand::Scalar(RegId(1 + scalars.imm), DType::I32));
            }
            world.spawn(NodeRow { head, operands: NodeOperands { first, count }, scalars });
        };
        let none = AxisId::NONE;
        for _ in 0..writes {
            let scalars = NodeScalars { dst: RegId(0), ..Default::default() };
            spawn(NodeKind::ScalarMove, none, 0, scalars);
        }
        for (k, axis) in [(0, none), (1, axis)] {
            let (dst, a, imm) = (RegId(1 + k), RegId(0), imms[k as usize]);
            spawn(NodeKind::ScalarAlu, axis, 0, NodeScalars { dst, a, imm, ..Default::default() });
            let payload = NodeScalars { imm: k, ..Default::default() };
            spawn(NodeKind::TensorCopyDynamicDst, axis, 3, payload);
        }
        world.insert_resource(OperandPool(operands));
        world.insert_resource(DynamicCopies(vec![TensorCopyDynamic::default(); 2]));
        let mut schedule = Schedule::default();
        schedule.add_systems(share_addresses);
        schedule.run(&mut world);
        let pool = world.resource::<OperandPool>();
        assert_eq!(pool.0[2].value(), Some(NodeValue::Scalar(RegId(1))), "the first one stays");
        match pool.0[5].value() {
            Some(NodeValue::Scalar(r)) => r,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_clamps_in_one_body_are_one_and_others_are_not() {
        let none = AxisId::NONE;
        assert_eq!(second_address([63, 63], none, 1), RegId(1));
        assert_eq!(second_address([63, 62], none, 1), RegId(2), "another immediate");
        assert_eq!(second_address([63, 63], AxisId(0), 1), RegId(2), "another loop body");
        assert_eq!(second_address([63, 63], none, 2), RegId(2), "an operand that is written again");
    }
}
