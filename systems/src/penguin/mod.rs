//! Stage `penguin`: HLO becomes Penguin nodes. Homes are chosen here: registers for control scalars, SBUF tiles for
//! intermediates, DRAM for parameters, results and what is too large.

pub mod branches;
pub mod control;
pub mod copies;
pub mod donated;
pub mod dot;
pub mod dot_operand;
pub mod dot_rows;
pub mod dot_tiles;
pub mod dynamic;
pub mod elementwise;
pub mod fuse_elementwise;
pub mod indexed;
pub mod iota;
pub mod leaf;
pub mod lower;
pub mod lower_hlo;
pub mod pool_gather;
pub mod reduce;
pub mod reinterpret;
pub mod rolled;
pub mod scalar;
pub mod shape_ops;
pub mod share_addresses;
pub mod spawn_hlo;
pub mod tiling;
pub mod turned;
pub mod uses;
pub mod values;
pub mod verify_penguin;
pub mod view;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(Stage::Penguin, spawn_hlo, "HLO instructions become entities", "spec/ecs.md 8"),
    pass!(
        Stage::Penguin,
        lower_hlo,
        "HLO operations become nodes on homes; offsets are clamped",
        "spec/ir.md 2"
    ),
    pass!(
        Stage::Penguin,
        fuse_elementwise,
        "two steps with constants, or steps and a function, become one record",
        "spec/isa_compute.md 4.1, 5.1"
    ),
    pass!(
        Stage::Penguin,
        share_addresses,
        "dynamic copies whose addresses are the same arithmetic use one of them",
        "spec/ir.md 2.1, 2.2"
    ),
    pass!(
        Stage::Penguin,
        verify_penguin,
        "dynamic copies hold together and their addresses stay inside",
        "spec/ir.md 2.2",
        verify
    ),
];
