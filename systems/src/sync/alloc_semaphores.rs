//! `alloc_semaphores`: one semaphore an engine and one a queue (D20). A producer that somebody waits for increments the
//! semaphore of its channel when it completes; what a waiter compares with is the number of such producers of the
//! channel up to that one in the block, so no threshold depends on a trip count. A record waits on one semaphore; further
//! waits stand in EventSemaphores before it, two in each (`spec/isa.md 5.6, 8.2`).
//!
//! Error `MUR0503` when there are more channels than semaphores.

use super::{ENGINES, Edges, INCREMENT, WAIT_GE, channel};
use crate::columns;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::{internal::INTERNAL, resource::RES_SEMAPHORES};
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{RESERVED_SEMAPHORES, SEMAPHORES};

/// The pass.
pub fn alloc_semaphores(
    world: &mut World,
    queue_heads: &mut QueryState<&mut QueueHead>,
    insts: &mut QueryState<(&InstHead, &InstFrom)>,
    dma_blocks: &mut QueryState<&BlockHead>,
    descs: &mut QueryState<&mut DescHead>,
) {
    if world.resource::<Diagnostics>().has_errors() {
        return;
    }
    let Some(edges) = world.remove_resource::<Edges>() else {
        return;
    };
    // Each module's queues have the semaphores behind the engines'.
    let parts = world.resource::<Parts>();
    let modules: Vec<_> = parts.ranges(queue_heads.iter(world).count(), |p| p.queue).collect();
    let queues = modules.iter().map(|m| m.len()).max().unwrap_or(0);
    let channels = ENGINES + queues;
    let limit = (SEMAPHORES - RESERVED_SEMAPHORES) as usize;
    if channels > limit {
        let d = Diagnostic::error(&RES_SEMAPHORES, "engines and queues need more semaphores than there are")
            .found(format!("{ENGINES} engines and {queues} queues"))
            .expected(format!("at most {limit} together"));
        world.resource::<Diagnostics>().push(d);
        return;
    }
    let semaphore = |c: usize| (RESERVED_SEMAPHORES as usize + c) as u8;
    let numbers = modules.into_iter().flat_map(|m| 0..m.len());
    for (q, mut head) in numbers.zip(queue_heads.iter_mut(world)) {
        head.semaphore = semaphore(ENGINES + q);
    }
    let order = std::mem::take(&mut world.resource_mut::<Order>().0);
    let old_blocks = std::mem::take(&mut *world.resource_mut::<Blocks>());
    let mut rows = Staging::new(world);
    // One record of two waits for each two beside the inline one.
    let events = edges.starts.windows(2).map(|w| (w[1] - w[0]) as usize / 2).sum::<usize>();
    rows.insts.reserve_exact(events);
    let block_heads: Vec<BlockHead> = {
        let heads: &[BlockHead] = columns!(dma_blocks, world);
        heads.to_vec()
    };
    // Last descriptors of awaited blocks, and their semaphores.
    let mut completions: Vec<(usize, u8)> = Vec::new();
    let mut faults = Vec::new();
    let mut new_order = Vec::with_capacity(order.len() + events);
    let mut moved = vec![0u32; order.len() + 1];
    // Of the rows that there are, then of the new ones.
    let mut syncs = Vec::with_capacity(rows.next_inst().index() + events);
    syncs.resize(rows.next_inst().index(), InstSync::default());
    {
        let (heads, froms) = columns!(insts, world);
        let dmas = world.resource::<InstDmas>();
        let mut counts = vec![0u32; channels];
        let mut value = vec![0u32; order.len()];
        let mut block = 0;
        for (position, &id) in order.iter().enumerate() {
            while old_blocks.starts.get(block).is_some_and(|&s| s as usize <= position) {
                counts.fill(0);
                block += 1;
            }
            moved[position] = new_order.len() as u32;
            let (head, dma) = (heads[id.index()], dmas.of(id.index()));
            let waits = &edges.items[edges.starts[position] as usize..edges.starts[position + 1] as usize];
            let mut sync = InstSync::default();
            if let Some((&(c, p), rest)) = waits.split_last() {
                for pair in rest.chunks(2) {
                    let mut row = InstRow::new(Opcode::EventSemaphore, head.engine, froms[id.index()].hlo);
                    row.from.owner = id;
                    row.args.op0 = pair.len() as u8;
                    syncs.push(InstSync {
                        wait_mode: WAIT_GE,
                        wait_sem: semaphore(pair[0].0 as usize),
                        value: value[pair[0].1 as usize],
                        ..InstSync::default()
                    });
                    if let Some(second) = pair.get(1) {
                        row.args.imm0 = (semaphore(second.0 as usize) as u32) << 8 | WAIT_GE as u32;
                        row.args.imm1 = value[second.1 as usize];
                    }
                    new_order.push(rows.inst(row, &[], &[]));
                }
                (sync.wait_mode, sync.wait_sem) = (WAIT_GE, semaphore(c as usize));
                sync.value = value[p as usize];
            }
            // Every DMA block completes with an update, awaited or not (XCG001-003, spec/ir.md 9.6).
            if (edges.awaited[position] || head.op == Opcode::DmaTrigger)
                && let Some((_, c)) = channel(head, dma)
            {
                counts[c] += 1;
                value[position] = counts[c];
                if head.op == Opcode::DmaTrigger {
                    match block_heads.get(dma.block.index()).filter(|b| b.count > 0) {
                        Some(b) => completions.push((b.first.index() + b.count as usize - 1, semaphore(c))),
                        None => faults.push(id.0),
                    }
                } else {
                    (sync.update_mode, sync.update_sem) = (INCREMENT, semaphore(c));
                }
            }
            if !waits.is_empty() || edges.awaited[position] {
                syncs[id.index()] = sync;
            }
            new_order.push(id);
        }
    }
    moved[order.len()] = new_order.len() as u32;
    if let Ok(mut tables) = descs.contiguous_iter_mut(world)
        && let Some(mut heads) = tables.next()
    {
        let heads = heads.bypass_change_detection();
        for (row, sem) in completions {
            match heads.get_mut(row) {
                Some(d) => (d.sem, d.sem_inc) = (sem, 1),
                None => faults.push(row as u32),
            }
        }
    } else if !completions.is_empty() {
        faults.push(0);
    }
    for f in faults {
        let d =
            Diagnostic::error(&INTERNAL, format!("trigger {f} has no descriptors to wait for")).ordered(f);
        world.resource::<Diagnostics>().push(d);
    }
    let at = |p: u32| moved.get(p as usize).copied().unwrap_or(p);
    let blocks = Blocks {
        starts: old_blocks.starts.iter().map(|&p| at(p)).collect(),
        loops: old_blocks.loops.iter().map(|&(a, b)| (at(a), at(b))).collect(),
    };
    rows.flush(world);
    world.insert_resource(InstSyncs(syncs));
    world.insert_resource(Order(new_order));
    world.insert_resource(blocks);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::pass::Stage;
    use crate::staging::Operand;
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;
    use murre_components::ids::*;

    fn at(loc: u32) -> Operand {
        Operand {
            loc: LocId(loc),
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::default(),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        }
    }

    /// Four engines write a tile each, twice; the fifth reads all four, twice.
    #[test]
    fn one_wait_is_inline_and_the_others_stand_before_it() {
        let mut c = Compiler::new(HloModule::default(), Default::default());
        let mut rows = Staging::new(&c.world);
        let mut order = Vec::new();
        for k in 0..4 {
            let mut row = LocRow::new(Space::Sbuf, DType::F32, 128, 16, HloId::NONE);
            row.place.address = k * 64;
            rows.loc(row);
        }
        let writers = [EngineId::Pool, EngineId::Activation, EngineId::Pe, EngineId::Sp];
        for _ in 0..2 {
            for (k, e) in writers.into_iter().enumerate() {
                order.push(rows.inst(InstRow::new(Opcode::Memset, e, HloId::NONE), &[at(k as u32)], &[]));
            }
        }
        let reads = [at(0), at(1), at(2), at(3)];
        for _ in 0..2 {
            let row = InstRow::new(Opcode::TensorTensor, EngineId::Dve, HloId::NONE);
            order.push(rows.inst(row, &[], &reads));
        }
        let reader = order[8];
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        c.world.resource_mut::<crate::CompileOptions>().verify = true;
        c.run(&[Stage::Sync]);
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        let order = c.world.resource::<Order>().0.clone();
        let mut q = c.world.query::<(&InstHead, &InstArgs)>();
        let syncs = &c.world.resource::<InstSyncs>().0;
        let all: Vec<(InstHead, InstArgs, InstSync)> =
            q.iter(&c.world).zip(syncs).map(|((h, a), s)| (*h, *a, *s)).collect();
        // Only the second write of each is waited for, and it is the first of its engine that counts.
        for (k, id) in order[..8].iter().enumerate() {
            let s = all[id.index()].2;
            assert_eq!((s.update_mode, s.wait_mode), (if k < 4 { 0 } else { INCREMENT }, 0));
        }
        let events: Vec<_> = order[8..10].iter().map(|id| all[id.index()]).collect();
        assert!(events.iter().all(|e| e.0.op == Opcode::EventSemaphore && e.0.engine == EngineId::Dve));
        assert_eq!((events[0].1.op0, events[1].1.op0), (2, 1));
        assert_eq!((events[0].2.wait_sem, events[0].2.value), (3, 1));
        assert_eq!((events[0].1.imm0, events[0].1.imm1), (4 << 8 | WAIT_GE as u32, 1));
        assert_eq!(events[1].2.wait_sem, 5);
        assert_eq!(order[10], reader);
        let s = all[reader.index()].2;
        assert_eq!((s.wait_mode, s.wait_sem, s.value, s.update_mode), (WAIT_GE, 7, 1, 0));
        assert_eq!(all[order[11].index()].2.wait_mode, 0, "nothing to wait for a second time");
    }
}
