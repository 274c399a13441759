//! Generated DMAs have to be single records. A copy that needs several is refused.

use super::shape;
use crate::twin::graph::Program;
use crate::twin::instruction::{Address, Instruction, Operand};
use crate::twin::pass::Pass;
use murre_components::bir::Space;
use murre_systems::route::dge_instruction_type::ring_depth;
use std::rc::Rc;

/// The pass.
pub struct LowerDynamicDma;

impl Pass for LowerDynamicDma {
    fn name(&self) -> &'static str {
        "lower_dynamic_dma"
    }

    fn run(&self, program: &mut Program) {
        let mut inline: Vec<Rc<Instruction>> = Vec::new();
        for instruction in &program.instructions {
            let Some((to, from, transfer)) = instruction.copy() else { continue };
            if !transfer.is_generated() {
                continue;
            }
            let depth = u64::from(ring_depth(transfer.route.get()));
            if shape(to, from).is_none_or(|s| !s.single() || s.rows() > depth) {
                program.faults.push("a generated copy of several records".into());
            }
            inline.push(instruction.clone());
        }
        for instruction in &inline {
            if !is_legal(instruction) {
                program.faults.push("a generated copy that no generator takes".into());
            }
        }
    }
}

/// What a generator takes, once all of them are cut.
fn is_legal(instruction: &Instruction) -> bool {
    let Some((to, from, transfer)) = instruction.copy() else { return false };
    if instruction.operands.len() != 2 || !to.output || from.output {
        return false;
    }
    let (a, b) = (&to.pattern.0, &from.pattern.0);
    if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.num != b.num) {
        return false;
    }
    let survives = |o: &Operand| match &*o.address.borrow() {
        Address::Static => true,
        Address::Dynamic(d) => d.register.is_some() && o.location.head.space == Space::Dram,
        Address::Symbolic(_) | Address::Register(_) => false,
    };
    let depth = u64::from(ring_depth(transfer.route.get()));
    shape(to, from).is_some_and(|s| s.single() && s.rows() <= depth) && survives(to) && survives(from)
}
