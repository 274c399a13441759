//! HLO to HLO: what the lowering has no rule for becomes what it has rules for. The module resource is rewritten; ids are
//! dense again after each pass.

pub mod split_wide_integers;
mod wide;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[pass!(
    Stage::Simplify,
    split_wide_integers,
    "64-bit integers become narrow ones or pairs of words, constant f64 is folded",
    "spec/hlo.md 5, 7"
)];
