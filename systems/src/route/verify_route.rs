//! The checker of the route stage: every live copy has a route and a queue, the queue is of its engine, software
//! generation is Pool's, hardware generation needs generation 3, and registers of a dynamic copy belong to its engine.
//! Facts: `spec/ir.md 7.5`, 8.3.

use super::blame;
use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;

/// The system.
pub fn verify_route(
    insts: Query<(&InstHead, &InstRegs, &InstFrom)>,
    dmas: Res<InstDmas>,
    queues: Query<&QueueHead>,
    regs: Query<&RegHead>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let (queues, regs) = (columns!(queues), columns!(regs));
    let (heads, regfields, from) = columns!(insts);
    for (row, h) in heads.iter().enumerate().filter(|(_, h)| h.op == Opcode::DmaCopy && h.live()) {
        let queue = queues.get(dmas.of(row).queue.index());
        let foreign =
            |r: murre_components::ids::RegId| regs.get(r.index()).is_some_and(|r| r.engine != h.engine);
        let fault = if h.dge == DgeType::Unassigned {
            "has no route"
        } else if queue.is_none() {
            "has no queue"
        } else if queue.is_some_and(|q| q.engine != h.engine) {
            "stands on another engine than its queue"
        } else if h.dge == DgeType::Swdge && h.engine != EngineId::Pool {
            "is software-generated but not on Pool"
        } else if h.dge == DgeType::Hwdge && options.target.arch() <= 29 {
            "is hardware-generated on a target without that generator"
        } else if h.dge == DgeType::None && h.flags & InstHead::DYNAMIC != 0 {
            "is dynamic but has no generator"
        } else if foreign(regfields[row].src0) || foreign(regfields[row].src1) {
            "reads a register of another engine"
        } else {
            continue;
        };
        let message = format!("DMACopy {row} {fault}");
        sink.push(blame(&lower::ROUTE_INCONSISTENT, message, &module, from[row].hlo, InstId::new(row)));
    }
}
