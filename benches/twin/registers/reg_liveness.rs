//! Live ranges of registers.

use crate::twin::graph::Program;
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;
use murre_systems::place::loop_hull::LoopHulls;

/// The pass.
pub struct RegLiveness;

impl Pass for RegLiveness {
    fn name(&self) -> &'static str {
        "reg_liveness"
    }

    fn run(&self, program: &mut Program) {
        let mut hulls = LoopHulls::new(program.registers.len());
        for (position, instruction) in (0..).zip(&program.instructions) {
            match instruction.op.get() {
                Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => hulls.enter(position, false),
                Opcode::Terminator => drop(hulls.leave(position)),
                _ => {}
            }
            instruction.reads(|r| hulls.access(r.number as usize, position, false));
            if let Some(d) = &instruction.registers.borrow().destination {
                hulls.access(d.number as usize, position, true);
            }
        }
        for register in &program.registers {
            register.live.set(hulls.interval(register.number as usize));
        }
    }
}
