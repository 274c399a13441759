//! Drops moves between equal ids.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;

/// The pass.
pub struct DropIdentityMoves;

impl Pass for DropIdentityMoves {
    fn name(&self) -> &'static str {
        "drop_identity_moves"
    }

    fn run(&self, program: &mut Program) {
        program.instructions.retain(|i| {
            let registers = i.registers.borrow();
            match (&registers.sources[0], &registers.destination) {
                (Some(s), Some(d)) if i.op.get() == Opcode::RegisterMove => s.colour != d.colour,
                _ => true,
            }
        });
    }
}
