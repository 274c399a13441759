//! `lower_control`: cuts the program into blocks and closes each with a fence (`spec/ir.md 5.9`).
//!
//! A block begins at a label and behind a group of branches. No dependence crosses the end of a block: there every
//! engine drains its DMAs, all meet, SP sets the semaphores back to 0, all meet again. A block without memory
//! accesses has nothing to fence.

use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::engine::{EngineId, RESERVED_SEMAPHORES, SEMAPHORES};
use murre_components::ids::*;

fn push(
    rows: &mut Staging,
    order: &mut Vec<InstId>,
    op: Opcode,
    engine: EngineId,
    args: InstArgs,
    owner: InstId,
) {
    let mut row = InstRow::new(op, engine, HloId::NONE);
    row.args = args;
    row.from.owner = owner;
    order.push(rows.inst(row, &[], &[]));
}

fn fence(rows: &mut Staging, order: &mut Vec<InstId>, owner: InstId) {
    for engine in EngineId::STREAMS {
        push(rows, order, Opcode::Drain, engine, InstArgs::default(), owner);
    }
    for engine in EngineId::STREAMS {
        push(rows, order, Opcode::AllEngineBarrier, engine, InstArgs::default(), owner);
    }
    let all = InstArgs { mode: 1, imm0: RESERVED_SEMAPHORES, imm1: SEMAPHORES - 1, ..Default::default() };
    push(rows, order, Opcode::GroupResetSemaphores, EngineId::Sp, all, owner);
    for engine in EngineId::STREAMS {
        push(rows, order, Opcode::AllEngineBarrier, engine, InstArgs::default(), owner);
    }
}

/// Whether it leaves a block.
pub fn ends_block(head: InstHead) -> bool {
    head.flags & InstHead::ENDS_BLOCK != 0
        || matches!(head.op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch | Opcode::Exit)
}

/// The pass.
pub fn lower_control(world: &mut World, insts: &mut QueryState<(&InstHead, &InstOperands)>) {
    let old = std::mem::take(&mut world.resource_mut::<Order>().0);
    let (heads, operands): (&[InstHead], &[InstOperands]) = crate::columns!(insts, world);
    let mut rows = Staging::new(world);
    let mut order = Vec::with_capacity(old.len() + old.len() / 4);
    let mut blocks = Blocks { starts: vec![0], loops: Vec::new() };
    let (mut dirty, mut leaving) = (false, false);
    let mut open = Vec::new();
    for id in old {
        let head = heads[id.index()];
        let (label, leaves) = (head.op.is_structure(), ends_block(head));
        if dirty && (label || leaves) {
            fence(&mut rows, &mut order, id);
            dirty = false;
        }
        let at = order.len() as u32;
        if (label || leaving && !leaves) && blocks.starts.last() != Some(&at) {
            blocks.starts.push(at);
        }
        leaving = leaves;
        if head.op == Opcode::Terminator {
            if let Some(k) = open.pop()
                && let Some(l) = blocks.loops.get_mut::<usize>(k)
            {
                l.1 = at;
            }
        } else if label {
            open.push(blocks.loops.len());
            blocks.loops.push((at, at));
        }
        dirty |= !operands[id.index()].range().is_empty();
        order.push(id);
    }
    if dirty {
        fence(&mut rows, &mut order, InstId::NONE);
    }
    blocks.starts.push(order.len() as u32);
    rows.flush(world);
    world.insert_resource(Order(order));
    world.insert_resource(blocks);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::staging::Operand;
    use bevy_ecs::system::RunSystemOnce;
    use murre_components::dtype::DType;
    use murre_components::hlo::HloModule;

    #[test]
    fn a_block_with_accesses_is_fenced_and_one_without_is_not() {
        let mut c = Compiler::new(HloModule::default(), Default::default());
        let mut rows = Staging::new(&c.world);
        let loc = rows.loc(LocRow::new(Space::Sbuf, DType::F32, 128, 16, HloId::NONE));
        let o = [Operand {
            loc,
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::default(),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        }];
        let mut order = Vec::new();
        for op in [
            Opcode::RegisterMove,
            Opcode::CompareAndBranch,
            Opcode::DynamicForLoop,
            Opcode::Memset,
            Opcode::RegisterAlu,
            Opcode::CompareAndBranch,
            Opcode::Terminator,
            Opcode::Exit,
        ] {
            let row = InstRow::new(op, EngineId::Dve, HloId::NONE);
            order.push(rows.inst(row, if op == Opcode::Memset { &o } else { &[] }, &[]));
        }
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        c.world.run_system_once(lower_control).expect("it runs");
        let blocks = c.world.resource::<Blocks>().clone();
        assert_eq!(blocks.starts, [0, 2, 22, 24]);
        assert_eq!(blocks.loops, [(2, 22)]);
        let order = c.world.resource::<Order>().0.clone();
        let mut q = c.world.query::<(&InstHead, &InstArgs)>();
        let all: Vec<(InstHead, InstArgs)> = q.iter(&c.world).map(|(h, a)| (*h, *a)).collect();
        let ops: Vec<Opcode> = order[5..21].iter().map(|id| all[id.index()].0.op).collect();
        assert_eq!(ops[..5], [Opcode::Drain; 5]);
        assert_eq!(ops[5..10], [Opcode::AllEngineBarrier; 5]);
        assert_eq!(ops[10], Opcode::GroupResetSemaphores);
        assert_eq!(ops[11..], [Opcode::AllEngineBarrier; 5]);
        let reset = all[order[15].index()];
        assert_eq!((reset.0.engine, reset.1.imm0, reset.1.imm1), (EngineId::Sp, 3, 255));
    }
}
