//! Stage `loops`: every axis obeys the rules of its kind before anything is lowered from it. [`verify_nests`] and
//! [`verify_control_flow`] belong to stage `address`, in front of and behind the lowering of loops to branches.

pub mod verify_control_flow;
pub mod verify_loops;
pub mod verify_nests;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[pass!(
    Stage::Loops,
    verify_loops,
    "bounds of dynamic for-loops are constant, constant, and coef * register + const; steps are positive",
    "spec/ir.md 3.4"
)];
