//! Every instruction gets the index of its first record, every label its place in each stream.

use crate::twin::graph::Program;
use crate::twin::instruction::Link;
use crate::twin::pass::Pass;
use murre_components::bir::{InstHead, Opcode};
use murre_components::isa::ActFunc;
use murre_components::isa::act::TABLE_SETS;

/// The pass.
pub struct LayoutRecords;

impl Pass for LayoutRecords {
    fn name(&self) -> &'static str {
        "layout_records"
    }

    fn run(&self, program: &mut Program) {
        let mut lengths = [0u32; 5];
        let mut resident: Option<u8> = None;
        for instruction in &program.instructions {
            if let Link::Label(label) = &instruction.link {
                label.at.set(lengths);
                resident = None;
                continue;
            }
            let Some(stream) = instruction.engine.get().stream() else {
                program.faults.push("an instruction without a stream".into());
                continue;
            };
            let mut weight = 1;
            match instruction.op.get() {
                Opcode::Matmult | Opcode::Gather => weight = 2,
                Opcode::LoadActFuncSet => resident = Some(instruction.args.get().op0),
                Opcode::Activation => {
                    let function = ActFunc::from_code(instruction.args.get().op0);
                    if let Some(f) =
                        function.filter(|f| !resident.is_some_and(|r| f.in_set(r)) && !f.hardwired())
                        && let Some(set) = TABLE_SETS.iter().position(|s| s.contains(&f))
                    {
                        resident = Some(set as u8);
                        instruction.load.set(resident);
                        lengths[stream] += 1;
                    }
                }
                _ if instruction.flags & InstHead::ENDS_BLOCK != 0 => resident = None,
                _ => {}
            }
            instruction.index.set(lengths[stream]);
            lengths[stream] += weight;
        }
        program.lengths = lengths;
    }
}
