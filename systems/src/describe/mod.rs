//! Stage `describe`.

use crate::pass::Pass;

pub mod shape;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[];
