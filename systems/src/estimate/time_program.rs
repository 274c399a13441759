//! In: the finished program, its transfers and trips. Out: [`Times`]: the clocks behind the last instruction.
//!
//! Assumes what stage `sync` promises: producers stand before those that wait for them, and each block with memory accesses
//! ends in a fence. A matmult's weights load behind the one before it when that is the instruction just before on PE and
//! PE has not waited in between (`spec/isa_compute.md 10`). Table loads are where the encoder puts them.

use super::assume_trips::Trips;
use super::clocks::{Clocks, Start};
use super::instruction_cost::instruction_cost;
use super::measure_traffic::Traffic;
use super::nest::Nest;
use super::operand_shape::{OperandShape, Patterns};
use super::transfer::Rates;
use crate::columns;
use crate::encode::RecordLayout;
use crate::options::CompileOptions;
use crate::sync::{INCREMENT, WAIT_GE};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;

/// The clocks at the end.
#[derive(Resource, Debug)]
pub struct Times(pub Clocks);

/// The system.
pub fn time_program(
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstFrom)>,
    dmas: Res<InstDmas>,
    syncs: Res<InstSyncs>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    blocks: Query<&BlockHead>,
    descs: Query<&DescHead>,
    layout: Option<Res<RecordLayout>>,
    traffic: Res<Traffic>,
    trips: Res<Trips>,
    order: Res<Order>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    mut commands: Commands,
) {
    let model = options.estimate.unwrap_or_default().model;
    let costs = options.target.costs();
    let rates = Rates::new(model, &costs);
    let (heads, operands, args, froms) = columns!(insts);
    let (ap_heads, patterns) = columns!(aps);
    let patterns = Patterns { heads: ap_heads, patterns, locs: columns!(locs) };
    let block_heads: &[BlockHead] = columns!(blocks);
    let desc_heads: &[DescHead] = columns!(descs);
    let loads: &[(u32, u8)] = layout.as_ref().map_or(&[], |l| &l.loads);
    let mut loads = loads.iter().peekable();
    let mut transfers = traffic.transfers.iter();
    let mut clocks = Clocks::new(traffic.queues.len(), module.len());
    let mut nest = Nest::new(&trips.by_axis);
    // When the last instruction of PE was a matmult: when it ended.
    let mut matmult_until = None;
    for (position, &id) in order.0.iter().enumerate() {
        let row = id.index();
        let Some(head) = heads.get(row) else { continue };
        let (args, hlo, sync) = (&args[row], froms[row].hlo, syncs.of(row));
        if head.op.is_structure() {
            let label = nest.pass(head, args);
            clocks.label(label, nest.weight);
            matmult_until = None;
            continue;
        }
        let Some(stream) = head.engine.stream() else { continue };
        if sync.wait_mode == WAIT_GE {
            clocks.wait(stream, sync.wait_sem, sync.value);
        }
        if head.op == Opcode::EventSemaphore && args.op0 == 2 {
            clocks.wait(stream, (args.imm0 >> 8) as u8, args.imm1);
        }
        if head.op.is_dma() {
            let t = transfers.next().copied().unwrap_or_default();
            let (busy, generation) = match head.dge {
                DgeType::Swdge => (rates.swdge, 0.0),
                DgeType::Hwdge => (costs.issue_cycles / costs.clock[stream], rates.hwdge),
                DgeType::None | DgeType::Unassigned => (costs.issue_cycles / costs.clock[stream], 0.0),
            };
            clocks.run(stream, busy, 0.0, hlo);
            let queue = dmas.of(row).queue.index();
            let delay = generation + rates.start;
            let start = Start { queue, delay, duration: t.duration, occupancy: t.occupancy };
            let end = clocks.transfer(stream, start, hlo);
            if head.op == Opcode::DmaTrigger {
                let block = block_heads.get(dmas.of(row).block.index()).filter(|b| b.count > 0);
                let last = block.and_then(|b| desc_heads.get(b.first.index() + b.count as usize - 1));
                if let Some(d) = last.filter(|d| d.sem_inc > 0) {
                    clocks.increment(d.sem, end);
                }
            } else if sync.update_mode == INCREMENT {
                clocks.increment(sync.update_sem, end);
            }
            continue;
        }
        let shape = OperandShape::of(head.op, operands[row], &patterns);
        let mut cost = instruction_cost(model, head, args, &shape, &costs);
        if loads.next_if(|(p, _)| *p as usize == position).is_some() {
            cost.busy += costs.table_load_ns;
        }
        if head.op == Opcode::Matmult && matmult_until != Some(clocks.engines[stream]) {
            cost.busy += cost.hidden;
        }
        match head.op {
            Opcode::Drain => clocks.drain(stream),
            Opcode::GroupResetSemaphores => clocks.reset(),
            _ => {}
        }
        if matches!(head.op, Opcode::Drain | Opcode::AllEngineBarrier | Opcode::GroupResetSemaphores) {
            clocks.fence(stream, cost.busy, hlo);
            if head.op == Opcode::AllEngineBarrier {
                clocks.barrier(stream, costs.barrier_ns, hlo);
            }
            continue;
        }
        let done = clocks.run(stream, cost.busy, cost.result, hlo);
        if sync.update_mode == INCREMENT {
            clocks.increment(sync.update_sem, done);
        }
        if head.op == Opcode::Matmult {
            matmult_until = Some(clocks.engines[stream]);
        } else if head.engine == EngineId::Pe {
            matmult_until = None;
        }
    }
    commands.insert_resource(Times(clocks));
}
