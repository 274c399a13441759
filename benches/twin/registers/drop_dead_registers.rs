//! Drops register instructions whose result nothing needs.

use crate::twin::graph::{Program, Register};
use crate::twin::instruction::Instruction;
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;
use std::rc::Rc;

/// The pass.
pub struct DropDeadRegisters;

impl Pass for DropDeadRegisters {
    fn name(&self) -> &'static str {
        "drop_dead_registers"
    }

    fn run(&self, program: &mut Program) {
        let mut work: Vec<Rc<Register>> = Vec::new();
        for instruction in program.instructions.iter().filter(|i| !is_pure(i)) {
            need(instruction, &mut work);
        }
        while let Some(register) = work.pop() {
            for definition in register.definitions.borrow().iter().filter_map(|d| d.upgrade()) {
                if is_pure(&definition) {
                    need(&definition, &mut work);
                }
            }
        }
        program.instructions.retain(|i| {
            !is_pure(i) || i.registers.borrow().destination.as_ref().is_some_and(|d| d.needed.get())
        });
    }
}

/// An operation that does nothing but write its register.
fn is_pure(instruction: &Instruction) -> bool {
    matches!(instruction.op.get(), Opcode::RegisterAlu | Opcode::RegisterMove | Opcode::TensorLoad)
}

/// What an instruction reads is needed.
fn need(instruction: &Instruction, work: &mut Vec<Rc<Register>>) {
    instruction.reads(|r| {
        if !r.needed.replace(true) {
            work.push(r.clone());
        }
    });
}
