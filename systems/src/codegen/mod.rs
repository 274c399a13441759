//! Stage `codegen`: nodes become BIR instructions on engines, with physical access patterns; dynamic copies get their
//! run-time halves.

pub mod assemble_dynamic_info;
pub mod elementwise;
pub mod emit;
pub mod select_instructions;
pub mod verify_codegen;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(
        Stage::Codegen,
        select_instructions,
        "nodes become instructions on engines, operands become access patterns",
        "spec/ir.md 2.5, spec/isa_compute.md 12.3"
    ),
    pass!(
        Stage::Codegen,
        assemble_dynamic_info,
        "run-time offsets hang on their access patterns: dynamic info in DRAM, symbolic addresses on chip",
        "spec/ir.md 4"
    ),
    pass!(
        Stage::Codegen,
        verify_codegen,
        "every operand stays inside its location",
        "spec/ir.md 3.8",
        verify
    ),
];
