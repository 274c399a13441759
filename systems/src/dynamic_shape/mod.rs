//! Stage `dynamic_shape`: run-time indices become scalars; arrays with run-time extents become arrays at their bounds, with
//! sizes beside them. HLO before and HLO after.
//!
//! [`rewrite`] and [`carried`] take sizes through the module, [`rules`] infers and pads, [`rebuilt`] and [`reshape`] move what hangs on a
//! size, [`calls`] and [`normalize`] know what has a rule of its own, [`row_groups`] and [`row_forms`] find what a loop over
//! live rows may do, [`story`] says where sizes come from. What the host has to give and to cut is the `Extents` resource.

mod calls;
mod carried;
pub mod loop_over_live_rows;
mod normalize;
pub mod pad_dynamic_dimensions;
mod padding;
mod rebuilt;
mod reshape;
mod rewrite;
pub mod row_forms;
pub mod row_groups;
mod rules;
pub mod sizes;
pub mod split_dynamic_indices;
pub mod story;

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
        pad_dynamic_dimensions,
        "arrays with run-time extents go to their bounds, sizes and neutral elements beside them",
        "spec/dynamic_shapes.md"
    ),
    pass!(
        Stage::DynamicShape,
        loop_over_live_rows,
        "work on rows of which a size says how many are live becomes a loop of as many trips",
        "spec/ir.md 3.4"
    ),
];
