//! Stage `encode`: address words in one sweep, records scattered into the five streams, descriptors, and the program
//! (`spec/isa.md`, `spec/isa_compute.md 12`, `spec/decisions.md D6..D10`).

use crate::pass::{Pass, Stage};
use bevy_ecs::prelude::World;

pub mod assemble_program;
pub mod compute_record;
pub mod control_record;
pub mod dma_record;
pub mod encode_descriptors;
pub mod encode_records;
pub mod layout_records;
pub mod pack_addr4;
#[cfg(test)]
mod tests;
pub mod verify_encode;
pub mod verify_transfers;

pub use encode_records::Encoded;
pub use layout_records::RecordLayout;

/// The results of this stage's passes, empty. They are there from the beginning, so that passes write them in place and
/// those without a conflict can run side by side.
pub fn init(world: &mut World) {
    world.init_resource::<RecordLayout>();
    world.init_resource::<Encoded>();
    world.init_resource::<encode_descriptors::DescriptorRecords>();
}

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(Stage::Encode, pack_addr4, "every operand gets its address word", "spec/isa.md 1"),
    crate::pass!(Stage::Encode, layout_records, "every instruction gets its record index", "spec/isa.md 8"),
    crate::pass!(Stage::Encode, encode_records, "instructions become records", "spec/isa_compute.md 12"),
    crate::pass!(Stage::Encode, encode_descriptors, "descriptors become records", "spec/decisions.md D6"),
    crate::pass!(
        Stage::Encode,
        assemble_program,
        "streams and tables become the program",
        "spec/decisions.md D6, D8"
    ),
    crate::pass!(
        Stage::Encode,
        verify_encode,
        "every record decodes to its instruction",
        "spec/isa_compute.md 12.1",
        verify
    ),
    crate::pass!(
        Stage::Encode,
        verify_transfers,
        "operands, transfers, blocks and triggers are legal on the target",
        "spec/ir.md 9.6, spec/isa.md 4",
        verify
    ),
];
