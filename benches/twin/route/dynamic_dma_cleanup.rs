//! Routes are checked against the predicate again.

use super::dynamic_dma_scan::facts;
use crate::twin::graph::Program;
use crate::twin::instruction::{Instruction, Operand};
use crate::twin::pass::Pass;
use murre_components::bir::DgeType;
use murre_components::engine::EngineId;
use murre_systems::route::assign_hwdge_engine::valid_engines;
use murre_systems::route::dge_instruction_type;
use murre_systems::{CompileOptions, DgeLevels};

/// The pass.
pub struct DynamicDmaCleanup;

impl Pass for DynamicDmaCleanup {
    fn name(&self) -> &'static str {
        "dynamic_dma_cleanup"
    }

    fn run(&self, program: &mut Program) {
        let options = &program.options;
        for instruction in &program.instructions {
            let Some((to, from, transfer)) = instruction.copy() else { continue };
            let (route, engine) = (transfer.route.get(), instruction.engine.get());
            if options.dge_levels == DgeLevels::NONE {
                transfer.route.set(DgeType::None);
            }
            let scratch = route != DgeType::Swdge || options.dge_scratch_bytes > 0;
            let bound = route != DgeType::Hwdge
                || matches!(engine, EngineId::Dma | EngineId::Unassigned)
                || valid_engines(options.target.arch()).contains(&engine);
            if !scratch || !bound || !is_eligible(instruction, to, from, route, options) {
                program.faults.push("a copy on a route that it may not take".into());
            }
        }
    }
}

fn is_eligible(
    instruction: &Instruction,
    to: &Operand,
    from: &Operand,
    route: DgeType,
    options: &CompileOptions,
) -> bool {
    if !to.is_dynamic() && !from.is_dynamic() || options.dge_levels == DgeLevels::NONE {
        return true;
    }
    let facts = facts(instruction, to, from, options);
    dge_instruction_type(&facts, options.dge_levels, options.target.arch())
        .is_ok_and(|r| r.eligible.has(route) || route == DgeType::None)
}
