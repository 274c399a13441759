//! Stage `address`: everything that is still symbolic becomes register arithmetic: loops and branches, control scalars
//! per engine, byte offsets of dynamic DMAs, addresses of on-chip dynamic copies.

pub mod affine;
pub mod expand_all_engine;
pub mod expand_dynamic_ap_info;
pub mod lower_ap;
pub mod lower_branch;
pub mod pointer_base;
pub mod rewire_dynamic_ap_registers;
pub mod verify_address;
pub mod walk;

use crate::loops::{verify_control_flow, verify_nests};
use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(
        Stage::Address,
        verify_nests,
        "loops pair up and stand where their axes say; addresses use the loops around them",
        "spec/ir.md 3.4",
        verify
    ),
    pass!(
        Stage::Address,
        lower_branch,
        "loops become counters, limits and branches; their heads and ends stay as labels",
        "spec/ir.md 5.9, spec/isa.md 5.5"
    ),
    pass!(
        Stage::Address,
        expand_all_engine,
        "control operations are cloned for each engine that needs their result",
        "spec/ir.md 5.7 (L19)"
    ),
    pass!(
        Stage::Address,
        verify_control_flow,
        "control flow is reducible and the same on every engine",
        "spec/ir.md 3.4, CFG015 to CFG019",
        verify
    ),
    pass!(
        Stage::Address,
        rewire_dynamic_ap_registers,
        "run-time values in expressions name the register of the engine that reads them",
        "spec/ir.md 5.6"
    ),
    pass!(
        Stage::Address,
        expand_dynamic_ap_info,
        "byte offset and bound of each dynamic DMA in registers",
        "spec/ir.md 5.5"
    ),
    pass!(
        Stage::Address,
        lower_ap,
        "symbolic access patterns become register access patterns",
        "spec/ir.md 5.2 to 5.4"
    ),
    pass!(
        Stage::Address,
        verify_address,
        "nothing symbolic and nothing on engine ALL is left; registers belong to their engine",
        "spec/ir.md 3.4",
        verify
    ),
];
