//! Words, records, and the program.

mod assemble_program;
mod compute_record;
mod control_record;
mod dma_record;
mod encode_descriptors;
mod encode_records;
mod layout_records;
mod pack_addr4;

pub use assemble_program::AssembleProgram;
pub use encode_descriptors::EncodeDescriptors;
pub use encode_records::EncodeRecords;
pub use layout_records::LayoutRecords;
pub use pack_addr4::PackAddr4;
