//! Descriptors become records.

use crate::soa::record;
use crate::twin::graph::Program;
use crate::twin::pass::Pass;

/// The pass.
pub struct EncodeDescriptors;

impl Pass for EncodeDescriptors {
    fn name(&self) -> &'static str {
        "encode_descriptors"
    }

    fn run(&self, program: &mut Program) {
        let count = program.blocks.iter().map(|b| b.descriptors.borrow().len()).sum();
        let mut records = Vec::with_capacity(count);
        for block in &program.blocks {
            for row in block.descriptors.borrow().iter() {
                match record(&row.head, &row.src.0, &row.dst.0) {
                    Ok(record) => records.push(record),
                    Err(fault) => program.faults.push(format!("a descriptor: {}", fault.code.title)),
                }
            }
        }
        program.records.descriptors = records;
    }
}
