//! Stage `simplify`: repeated and dead instructions dropped. The module resource is rewritten; ids are
//! dense again after each pass.

pub mod eliminate_common_subexpressions;
pub mod eliminate_dead_code;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(
        Stage::Simplify,
        eliminate_common_subexpressions,
        "equal instructions of a computation become one",
        "design 3"
    ),
    pass!(
        Stage::Simplify,
        eliminate_dead_code,
        "instructions without readers and unreached computations go",
        "design 3"
    ),
];
