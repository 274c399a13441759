//! The program's boundary: what the host does not see. Behind the visible inputs stands one `s32[]` for the extent of each
//! dynamic dimension; behind the visible outputs the extents of theirs, and the first failed check with its size.
//! Facts: `spec/dynamic_shapes.md 6`.

use super::sizes::Check;
use bevy_ecs::prelude::Resource;

/// A dimension of an array that goes in or comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// Position among the visible inputs or outputs.
    pub array: usize,
    /// The dimension.
    pub dimension: usize,
}

/// The hidden inputs and outputs, in their order.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct Boundary {
    /// Which extents the hidden inputs are.
    pub inputs: Vec<Leaf>,
    /// Which extents the hidden outputs are.
    pub outputs: Vec<Leaf>,
    /// Whether two outputs more say which check failed first, 0 for none, and what the size was.
    pub reports: bool,
    /// The checks, and the names of their instructions.
    pub checks: Vec<(Check, String)>,
}
