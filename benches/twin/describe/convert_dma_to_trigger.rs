//! Copies that have a block become its trigger.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;

/// The pass.
pub struct ConvertDmaToTrigger;

impl Pass for ConvertDmaToTrigger {
    fn name(&self) -> &'static str {
        "convert_dma_to_trigger"
    }

    fn run(&self, program: &mut Program) {
        for instruction in &program.instructions {
            if instruction.transfer.as_ref().is_some_and(|t| t.block.get().is_some()) {
                instruction.op.set(Opcode::DmaTrigger);
            }
        }
    }
}
