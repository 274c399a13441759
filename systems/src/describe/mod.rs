//! Stage `describe`.

use crate::pass::Pass;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[];
