//! Stage `registers`: physical ids. In: lowered control (labels, branches, one engine an instruction) over virtual
//! registers. Out: a colour for every register, needless instructions and identity moves gone. Each engine has its own file of 62 allocatable ids.

use crate::pass::{Pass, Stage};

pub mod coalesce_moves;
pub mod color_registers;
pub mod drop_dead_registers;
pub mod drop_identity_moves;
pub mod reg_liveness;
pub mod register_rules;
pub mod relieve_pressure;
pub mod rematerialize;
pub mod verify_registers;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(
        Stage::Registers,
        drop_dead_registers,
        "Drop register instructions that nothing needs",
        "spec/ir.md 5.8"
    ),
    crate::pass!(
        Stage::Registers,
        coalesce_moves,
        "Make one register of two that a move joins; drop repeated constants",
        "spec/ir.md 5.8, 6"
    ),
    crate::pass!(Stage::Registers, reg_liveness, "Live ranges of registers, loops included", "spec/ir.md 6"),
    crate::pass!(
        Stage::Registers,
        color_registers,
        "Give registers physical ids, per engine",
        "spec/ir.md 6"
    ),
    crate::pass!(
        Stage::Registers,
        verify_registers,
        "Follow every physical id through the control flow",
        "spec/ir.md 6",
        verify
    ),
    crate::pass!(Stage::Registers, drop_identity_moves, "Drop moves between equal ids", "spec/ir.md 5.8"),
];
