//! No block may hold more descriptors than the ring. A larger one is refused.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::DgeType;
use murre_systems::route::dge_instruction_type::ring_depth;

/// The pass.
pub struct SplitLargeDmas;

impl Pass for SplitLargeDmas {
    fn name(&self) -> &'static str {
        "split_large_dmas"
    }

    fn run(&self, program: &mut Program) {
        let depth = ring_depth(DgeType::None) as usize;
        if program.blocks.iter().any(|b| b.descriptors.borrow().len() > depth) {
            program.faults.push("a block of more descriptors than the ring holds".into());
        }
    }
}
