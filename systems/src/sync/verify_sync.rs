//! `verify_sync`: replays the final program with vector clocks and checks every pair of accesses on overlapping bytes.
//!
//! It reads placed addresses, waits and increments as they stand on instructions and descriptors, and shares nothing
//! with the passes that made them. Granule: 64 bytes of a partition in SBUF and PSUM, a variable in DRAM. Engines and
//! queues are actors; an engine's clock goes over to a queue when it issues a DMA. At labels and branches everything
//! must be fenced. A violation is our bug: `MUR1001`.

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{EngineId, PSUM_BANK_BYTES, PSUM_BANKS};
use murre_components::ids::InstId;

const GRANULE: u64 = 64;

/// Accesses of one granule since the last fence: actor and its time.
#[derive(Clone, Default)]
struct Cell {
    epoch: u32,
    writer: Option<(usize, u32)>,
    readers: Vec<(usize, u32)>,
}

/// What a semaphore has seen since the last fence.
#[derive(Default, Clone)]
struct Semaphore {
    actor: Option<usize>,
    /// The clock of the actor at each increment.
    clocks: Vec<Vec<u32>>,
}

/// The pass.
pub fn verify_sync(
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands, &InstArgs)>,
    dmas: Res<InstDmas>,
    syncs: Res<InstSyncs>,
    aps: Query<&ApHead>,
    locs: Query<(&LocHead, &LocPlace)>,
    blocks: Query<&BlockHead>,
    descs: Query<&DescHead>,
    queues: Query<&QueueHead>,
) {
    if diagnostics.has_errors() {
        return;
    }
    let (heads, operands, args): (&[InstHead], &[InstOperands], &[InstArgs]) = columns!(insts);
    let ap_heads: &[ApHead] = columns!(aps);
    let (loc_heads, places): (&[LocHead], &[LocPlace]) = columns!(locs);
    let (block_heads, desc_heads): (&[BlockHead], &[DescHead]) = (columns!(blocks), columns!(descs));
    let queue_heads: &[QueueHead] = columns!(queues);
    let fault = |id: InstId, what: String| {
        let m = format!("synchronisation is wrong at instruction {}: {what}", id.0);
        diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(id.0));
    };

    let actors = 5 + queue_heads.len();
    let sbuf = loc_heads
        .iter()
        .zip(places)
        .filter(|(h, p)| h.space == Space::Sbuf && p.address != u32::MAX)
        .map(|(h, p)| (p.address as u64 + h.part_bytes()).div_ceil(GRANULE))
        .max()
        .unwrap_or(0) as usize;
    let psum = (PSUM_BANKS * PSUM_BANK_BYTES) as usize / GRANULE as usize;
    let drams = loc_heads.iter().filter(|h| h.space == Space::Dram).count();
    let mut cells = vec![Cell::default(); sbuf + psum + drams];
    let mut clocks = vec![vec![0u32; actors]; actors];
    let mut semaphores = vec![Semaphore::default(); 256];
    let mut epoch = 0;
    // Fence state by engine: 0 open, 1 drained, 2 met, 3 met again; and whether SP has reset between.
    let (mut fence, mut reset, mut dirty) = ([0u8; 5], false, false);

    for &id in &order.0 {
        let (row, head) = (id.index(), heads[id.index()]);
        let leaves = matches!(head.op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch | Opcode::Exit);
        if leaves || head.op.is_structure() {
            if dirty {
                fault(id, "the block before it is not fenced".into());
                dirty = false;
            }
            continue;
        }
        let Some(engine) = head.engine.stream() else {
            fault(id, format!("no stream: engine {}", head.engine.name()));
            continue;
        };
        match head.op {
            Opcode::Drain => fence[engine] = 1,
            Opcode::AllEngineBarrier => {
                if fence[engine] == 0 || fence[engine] == 2 && !reset {
                    fault(id, "a barrier without a drain or a reset before it".into());
                }
                fence[engine] += 1;
                if fence == [3; 5] {
                    (fence, reset, dirty) = ([0; 5], false, false);
                    epoch += 1;
                    semaphores.fill(Semaphore::default());
                }
            }
            Opcode::GroupResetSemaphores => {
                reset = fence == [2; 5] && head.engine == EngineId::Sp;
                let all = args[row].mode == 1 && args[row].imm0 == 3 && args[row].imm1 == 255;
                if !reset || !all {
                    fault(id, "a reset outside of a fence or of a part only".into());
                }
            }
            _ if fence[engine] != 0 => fault(id, "work between the parts of a fence".into()),
            _ => {}
        }
        // Waits.
        let s = syncs.of(row);
        let inline = (s.wait_mode != 0).then_some((s.wait_mode, s.wait_sem as usize, s.value));
        let second = (head.op == Opcode::EventSemaphore && args[row].op0 == 2).then_some((
            args[row].imm0 as u8,
            (args[row].imm0 >> 8) as usize & 0xFF,
            args[row].imm1,
        ));
        for (mode, sem, value) in inline.into_iter().chain(second) {
            match semaphores[sem].clocks.get((value as usize).wrapping_sub(1)) {
                Some(clock) if mode == 0x05 && sem >= 3 => {
                    for (mine, theirs) in clocks[engine].iter_mut().zip(clock) {
                        *mine = (*mine).max(*theirs);
                    }
                }
                _ => fault(id, format!("semaphore {sem} never reaches {value} before it")),
            }
        }
        let actor = if head.op.is_dma() { 5 + dmas.of(row).queue.index() } else { engine };
        if actor >= actors {
            fault(id, "a DMA without a queue".into());
            continue;
        }
        if actor != engine {
            let issuer = clocks[engine].clone();
            for (mine, theirs) in clocks[actor].iter_mut().zip(&issuer) {
                *mine = (*mine).max(*theirs);
            }
        }
        clocks[actor][actor] += 1;
        let now = &clocks[actor];
        // Accesses.
        for ap in &ap_heads[operands[row].range()] {
            dirty = true;
            let (l, p) = (loc_heads[ap.loc.index()], places[ap.loc.index()]);
            let begin = p.address as u64;
            let end = begin + l.part_bytes().max(1);
            let range = match l.space {
                Space::Sbuf => (begin / GRANULE) as usize..end.div_ceil(GRANULE) as usize,
                Space::Psum => {
                    sbuf + (begin / GRANULE) as usize..sbuf + (end.div_ceil(GRANULE) as usize).min(psum)
                }
                Space::Dram => sbuf + psum + begin as usize..sbuf + psum + begin as usize + 1,
            };
            let Some(range) = cells.get_mut(range) else {
                fault(id, format!("location {} has no place", ap.loc.0));
                continue;
            };
            let mut race = None;
            for cell in range {
                if cell.epoch != epoch {
                    *cell = Cell { epoch, ..Default::default() };
                }
                let before = |&(a, t): &(usize, u32)| now[a] >= t;
                race = race.or(cell.writer.filter(|w| !before(w)));
                if ap.output == 1 {
                    race = race.or(cell.readers.iter().copied().find(|r| !before(r)));
                    cell.readers.clear();
                    cell.writer = Some((actor, now[actor]));
                } else {
                    cell.readers.retain(|r| r.0 != actor);
                    cell.readers.push((actor, now[actor]));
                }
            }
            if let Some((a, t)) = race {
                fault(id, format!("location {} races with step {t} of actor {a}", ap.loc.0));
            }
        }
        // Increments.
        let completion = if head.op == Opcode::DmaTrigger {
            let last = block_heads
                .get(dmas.of(row).block.index())
                .map(|b| b.first.index() + b.count.max(1) as usize - 1);
            last.and_then(|d| desc_heads.get(d)).filter(|d| d.sem_inc == 1).map(|d| d.sem)
        } else {
            (s.update_mode == 0x13).then_some(s.update_sem)
        };
        if let Some(sem) = completion {
            let sem_state = &mut semaphores[sem as usize];
            if *sem_state.actor.get_or_insert(actor) != actor || sem < 3 {
                fault(id, format!("semaphore {sem} is not its own"));
            }
            sem_state.clocks.push(now.clone());
        }
    }
    if dirty {
        diagnostics.push(Diagnostic::error(&INTERNAL, "the program ends without a fence"));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::options::CompileOptions;
    use crate::pass::Stage;
    use crate::staging::Staging;
    use crate::synth::synthetic;
    use murre_components::ids::*;

    fn run(c: &mut Compiler) -> Vec<Diagnostic> {
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_sync);
        schedule.run(&mut c.world);
        c.world.resource::<Diagnostics>().take()
    }

    /// A placed synthetic program, lowered just far enough for this stage: scalar work on SP, a queue for static
    /// loads, one for stores and one for dynamic copies, five branches around each loop, five exits.
    fn lowered(n: u32, seed: u64) -> Compiler {
        let mut c = synthetic(n, seed);
        c.world.resource_mut::<CompileOptions>().verify = true;
        c.run(&[Stage::Place]);
        let order = c.world.resource::<Order>().0.clone();
        let mut rows = Staging::new(&c.world);
        let queues: Vec<QueueId> = [QueueKind::Input, QueueKind::Output, QueueKind::Dynamic]
            .into_iter()
            .map(|kind| rows.queue(QueueHead { engine: EngineId::Sp, kind, instance: 0, semaphore: 0 }))
            .collect();
        let spaces: Vec<Space> = c.world.query::<&LocHead>().iter(&c.world).map(|l| l.space).collect();
        let targets: Vec<LocId> = c.world.query::<&ApHead>().iter(&c.world).map(|a| a.loc).collect();
        let mut new_order = Vec::new();
        let mut q = c.world.query::<(&mut InstHead, &InstOperands)>();
        let mut dmas = InstDmas::default();
        for (k, (mut head, o)) in q.iter_mut(&mut c.world).enumerate() {
            let id = InstId::new(k);
            assert_eq!(order[k], id);
            let mut five = |op| {
                for engine in EngineId::STREAMS {
                    new_order.push(rows.inst(InstRow::new(op, engine, HloId::NONE), &[], &[]));
                }
            };
            match head.op {
                Opcode::DynamicForLoop | Opcode::Terminator => five(Opcode::CompareAndBranch),
                Opcode::Exit => {
                    five(Opcode::Exit);
                    continue;
                }
                Opcode::DmaCopy if head.flags & InstHead::DYNAMIC != 0 => {
                    dmas.put(id, InstDma { queue: queues[2], ..Default::default() });
                }
                Opcode::DmaCopy => {
                    (head.op, head.engine) = (Opcode::DmaTrigger, EngineId::Sp);
                    let store = spaces[targets[o.output(0).index()].index()] == Space::Dram;
                    let queue = queues[store as usize];
                    let side = DescSide::default();
                    let block = DmaBlockId(rows.blocks.len() as u32);
                    let head =
                        DescHead { block, hlo: HloId::NONE, src_tag: 0, dst_tag: 0, sem: 0, sem_inc: 0 };
                    let first = rows.desc(DescRow { head, src: DescSrc(side), dst: DescDst(side) });
                    rows.desc(DescRow { head, src: DescSrc(side), dst: DescDst(side) });
                    let block = rows.block(BlockHead {
                        queue,
                        first,
                        count: 2,
                        trigger: id,
                        family: DmaFamily::Copy,
                    });
                    dmas.put(id, InstDma { queue, block });
                }
                _ if head.engine == EngineId::All => head.engine = EngineId::Sp,
                _ => {}
            }
            new_order.push(id);
        }
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(new_order));
        c.world.insert_resource(dmas);
        c
    }

    #[test]
    fn synthetic_programs_are_ordered() {
        let small = (100..140).map(|seed| (700, seed));
        for (n, seed) in [(100, 1), (3000, 3), (10_000, 5)].into_iter().chain(small) {
            let mut c = lowered(n, seed);
            c.run(&[Stage::Sync]);
            let found = c.world.resource::<Diagnostics>().take();
            assert!(found.is_empty(), "{n} {seed}: {} {:?}", found.len(), &found[..found.len().min(3)]);
            let blocks = c.world.resource::<Blocks>().clone();
            let order = c.world.resource::<Order>().0.clone();
            assert_eq!(blocks.starts.last().copied(), Some(order.len() as u32));
            assert!(blocks.starts.windows(2).all(|w| w[0] < w[1]));
            let heads: Vec<InstHead> = c.world.query::<&InstHead>().iter(&c.world).copied().collect();
            for (a, b) in blocks.loops {
                assert_eq!(heads[order[a as usize].index()].op, Opcode::DynamicForLoop);
                assert_eq!(heads[order[b as usize].index()].op, Opcode::Terminator);
                assert!(blocks.starts.contains(&a) && blocks.starts.contains(&b));
            }
        }
    }

    /// Every single wait that is taken away must be missed by the checker, or it was not needed.
    #[test]
    fn most_waits_are_needed() {
        let mut c = lowered(250, 9);
        c.run(&[Stage::Sync]);
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        let n = c.world.resource::<InstSyncs>().0.len();
        let (mut waits, mut missed) = (0, 0);
        for k in 0..n {
            let saved = c.world.resource::<InstSyncs>().of(k);
            if saved.wait_mode == 0 {
                continue;
            }
            c.world.resource_mut::<InstSyncs>().0[k].wait_mode = 0;
            waits += 1;
            missed += !run(&mut c).is_empty() as u32;
            c.world.resource_mut::<InstSyncs>().0[k] = saved;
        }
        assert!(waits > 50 && missed * 2 > waits, "{missed} of {waits}");
    }

    #[test]
    fn without_byte_reuse_the_checker_finds_races() {
        let mut races = 0;
        for seed in 0..8 {
            let mut c = lowered(600, seed);
            c.world.insert_resource(crate::place::Reuse::default());
            c.run(&[Stage::Sync]);
            races += c.world.resource::<Diagnostics>().take().len();
        }
        assert!(races > 0);
    }

    #[test]
    fn too_many_queues_are_refused() {
        let mut c = lowered(60, 1);
        let mut rows = Staging::new(&c.world);
        for instance in 0..250 {
            rows.queue(QueueHead { engine: EngineId::Sp, kind: QueueKind::Data, instance, semaphore: 0 });
        }
        rows.flush(&mut c.world);
        c.run(&[Stage::Sync]);
        assert_eq!(c.world.resource::<Diagnostics>().take()[0].code.id, "MUR0503");
    }
}
