//! Stage `dynamic_shape`: run-time indices become scalars; what still has a run-time extent is refused.

pub mod refuse_dynamic_extents;
pub mod split_dynamic_indices;

use crate::pass;
use crate::pass::{Pass, Stage};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    pass!(
        Stage::DynamicShape,
        split_dynamic_indices,
        "index vectors of dynamic slices become one scalar a dimension",
        "spec/ir.md 1.4"
    ),
    pass!(
        Stage::DynamicShape,
        refuse_dynamic_extents,
        "dimensions with a run-time extent are named and refused",
        "spec/ir.md 1.1"
    ),
];
