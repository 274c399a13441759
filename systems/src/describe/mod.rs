//! Stage `describe`: DMA copies become single-record dynamic DMAs, or descriptors in blocks behind triggers
//! (`spec/ir.md 9`).

use crate::pass::{Pass, Stage};

pub mod check;
pub mod convert_dma_to_trigger;
pub mod family;
pub mod lower_dma;
pub mod lower_dynamic_dma;
pub mod peel;
pub mod shape;
pub mod split;
pub mod split_large_dmas;
pub mod unroll;
pub mod verify_describe;

pub use lower_dynamic_dma::TableEntries;
pub use split_large_dmas::BlockRoots;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(
        Stage::Describe,
        lower_dynamic_dma,
        "generated DMAs are cut into single records",
        "spec/ir.md 9.1"
    ),
    crate::pass!(Stage::Describe, lower_dma, "other DMAs become blocks of 2-D descriptors", "spec/ir.md 9.4"),
    crate::pass!(
        Stage::Describe,
        split_large_dmas,
        "blocks past the ring depth become several",
        "spec/ir.md 9.5"
    ),
    crate::pass!(
        Stage::Describe,
        convert_dma_to_trigger,
        "copies with a block become its trigger",
        "spec/ir.md 9.4"
    ),
    crate::pass!(
        Stage::Describe,
        verify_describe,
        "descriptors move exactly what the patterns say",
        "spec/ir.md 9.6",
        verify
    ),
];
