//! A copy that stores an on-chip value is issued by the engine that wrote the value last in the same block.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::{DgeType, InstHead, Opcode, Space};
use murre_components::engine::EngineId;
use murre_components::program::VarKind;
use murre_systems::route::EngineReason;

/// The pass.
pub struct AssignTriggerEngine;

impl Pass for AssignTriggerEngine {
    fn name(&self) -> &'static str {
        "assign_trigger_engine"
    }

    fn run(&self, program: &mut Program) {
        let (mut block, mut depth) = (0u32, 0u32);
        // Engines with hardware-generated copies, a bit each.
        let mut hardware = 0u8;
        for instruction in &program.instructions {
            let engine = &instruction.engine;
            if instruction.operands.first().is_none_or(|o| !o.output) {
                let label = instruction.label();
                if instruction.flags & InstHead::ENDS_BLOCK != 0 || label.is_some() {
                    block += 1;
                }
                if label.is_some_and(|l| l.axis.max_trip > 1) {
                    let ends = instruction.op.get() == Opcode::Terminator;
                    depth = if ends { depth.saturating_sub(1) } else { depth + 1 };
                }
                continue;
            }
            if let Some((to, from, transfer)) = instruction.copy() {
                transfer.explain(|why| why.in_loop = depth > 0);
                if engine.get() == EngineId::Dma
                    && from.location.head.space != Space::Dram
                    && to.location.head.space == Space::Dram
                    && to.location.head.kind != VarKind::Output
                    && let Some((at, writer)) = from.location.last_engine.get()
                    && at == block
                    && writer.stream().is_some()
                {
                    engine.set(writer);
                    transfer.explain(|why| why.engine = EngineReason::Writer);
                }
                if transfer.route.get() == DgeType::Hwdge {
                    hardware |= 1 << engine.get() as u8;
                }
            }
            for output in instruction.operands.iter().filter(|o| o.output) {
                output.location.last_engine.set(Some((block, engine.get())));
            }
        }
        if hardware.count_ones() > 1 {
            to_sp(program);
        }
    }
}

/// Inputs and outputs go to SP when hardware-generated copies stand on several engines.
fn to_sp(program: &Program) {
    for instruction in &program.instructions {
        let Some((_, _, transfer)) = instruction.copy() else { continue };
        let (route, engine) = (transfer.route.get(), instruction.engine.get());
        let bound = route == DgeType::Hwdge && !matches!(engine, EngineId::Dma | EngineId::Unassigned);
        if !bound && route != DgeType::Swdge && instruction.flags & InstHead::IO != 0 {
            instruction.engine.set(EngineId::Sp);
            transfer.explain(|why| why.engine = EngineReason::IoToSp);
        }
    }
}
