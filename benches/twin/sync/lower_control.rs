//! Cuts the program into blocks and closes each with a fence.

use crate::twin::graph::Program;
use crate::twin::instruction::{Instruction, Registers};
use crate::twin::pass::Pass;
use crate::twin::walk::{Site, Walk};
use murre_components::bir::{InstArgs, InstHead, Opcode};
use murre_components::engine::{EngineId, RESERVED_SEMAPHORES, SEMAPHORES};
use murre_components::ids::{HloId, InstId};

/// The pass.
pub struct LowerControl;

impl Pass for LowerControl {
    fn name(&self) -> &'static str {
        "lower_control"
    }

    fn run(&self, program: &mut Program) {
        let (old, mut walk) = Walk::over(program);
        let (mut starts, mut loops) = (vec![0u32], Vec::<(u32, u32)>::new());
        let mut open: Vec<usize> = Vec::new();
        let (mut dirty, mut leaving) = (false, false);
        for instruction in old {
            let (label, leaves) = (instruction.label().is_some(), ends_block(&instruction));
            if dirty && (label || leaves) {
                fence(&mut walk, InstId(instruction.number));
                dirty = false;
            }
            let at = walk.out.len() as u32;
            if (label || leaving && !leaves) && starts.last() != Some(&at) {
                starts.push(at);
            }
            leaving = leaves;
            if instruction.op.get() == Opcode::Terminator {
                if let Some(l) = open.pop().and_then(|k| loops.get_mut(k)) {
                    l.1 = at;
                }
            } else if label {
                open.push(loops.len());
                loops.push((at, at));
            }
            dirty |= !instruction.operands.is_empty();
            walk.out.push(instruction);
        }
        if dirty {
            fence(&mut walk, InstId::NONE);
        }
        starts.push(walk.out.len() as u32);
        walk.end();
        (program.starts, program.loops) = (starts, loops);
    }
}

/// Whether it leaves a block.
fn ends_block(instruction: &Instruction) -> bool {
    instruction.flags & InstHead::ENDS_BLOCK != 0
        || matches!(
            instruction.op.get(),
            Opcode::CompareAndBranch | Opcode::UnconditionalBranch | Opcode::Exit
        )
}

fn fence(walk: &mut Walk<'_>, owner: InstId) {
    let mut push = |op, engine, args| {
        let site = Site { engine, hlo: HloId::NONE, owner };
        walk.emit(op, site, args, Registers::default());
    };
    for engine in EngineId::STREAMS {
        push(Opcode::Drain, engine, InstArgs::default());
    }
    for engine in EngineId::STREAMS {
        push(Opcode::AllEngineBarrier, engine, InstArgs::default());
    }
    let all = InstArgs { mode: 1, imm0: RESERVED_SEMAPHORES, imm1: SEMAPHORES - 1, ..Default::default() };
    push(Opcode::GroupResetSemaphores, EngineId::Sp, all);
    for engine in EngineId::STREAMS {
        push(Opcode::AllEngineBarrier, engine, InstArgs::default());
    }
}
