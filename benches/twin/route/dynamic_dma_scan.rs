//! Every DMA gets its route, and why.

use crate::twin::graph::{Location, Program};
use crate::twin::instruction::{Instruction, Operand};
use crate::twin::pass::Pass;
use murre_components::bir::{ApKind, DgeType, InstHead, Space};
use murre_components::program::VarKind;
use murre_systems::describe::shape::copy_shape;
use murre_systems::route::dge_instruction_type::{DmaFacts, Flavour, Purpose, chosen, fits};
use murre_systems::route::{RouteReason, dge_instruction_type};
use murre_systems::{CompileOptions, DgeLevels};

/// The pass.
pub struct DynamicDmaScan;

impl Pass for DynamicDmaScan {
    fn name(&self) -> &'static str {
        "dynamic_dma_scan"
    }

    fn run(&self, program: &mut Program) {
        let options = &program.options;
        for instruction in &program.instructions {
            let Some((to, from, transfer)) = instruction.copy() else { continue };
            if transfer.route.get() != DgeType::Unassigned {
                transfer.explain(|why| why.route = RouteReason::Preset);
                continue;
            }
            let facts = facts(instruction, to, from, options);
            match dge_instruction_type(&facts, options.dge_levels, options.target.arch()) {
                Ok(route) if facts.dynamic.is_none() || route.reason != RouteReason::LevelsOff => {
                    let (route, reason) = chosen(route, &facts, options.dge_route);
                    transfer.route.set(route);
                    transfer.explain(|why| why.route = reason);
                }
                _ => program.faults.push("a copy that no route may take".into()),
            }
        }
    }
}

/// What the predicate looks at.
pub fn facts(instruction: &Instruction, to: &Operand, from: &Operand, o: &CompileOptions) -> DmaFacts {
    let symbolic = |side: &Operand| side.address.borrow().kind() == ApKind::Symbolic;
    let mut facts = DmaFacts {
        copy: true,
        operands: true,
        dynamic: (to.is_dynamic() || from.is_dynamic()).then_some(Flavour::Scalar),
        tensor_indirect: symbolic(to) || symbolic(from),
        cast: to.dtype != from.dtype,
        ..Default::default()
    };
    if facts.dynamic.is_none() {
        facts.purpose = purpose(instruction, &to.location, &from.location);
        if facts.purpose != Purpose::Other && o.dge_levels != DgeLevels::NONE {
            let shape = copy_shape(
                (&to.head(), &to.pattern, &to.location.head),
                (&from.head(), &from.pattern, &from.location.head),
            );
            facts.fits_sw = o.dge_scratch_bytes > 0 && fits(shape.as_ref(), DgeType::Swdge, facts.cast);
            facts.fits_hw = fits(shape.as_ref(), DgeType::Hwdge, facts.cast);
        }
    }
    facts
}

fn purpose(instruction: &Instruction, to: &Location, from: &Location) -> Purpose {
    let internal = |l: &Location| l.head.space == Space::Dram && l.head.kind == VarKind::Internal;
    let sbuf = |l: &Location| l.head.space == Space::Sbuf;
    if instruction.flags & InstHead::IO != 0 {
        Purpose::Io
    } else if (internal(to) && sbuf(from)) || (internal(from) && sbuf(to)) {
        Purpose::Spill
    } else {
        Purpose::Other
    }
}
