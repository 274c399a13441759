//! Program order, kept apart from storage.

use crate::ids::InstId;
use bevy_ecs::prelude::Resource;

/// Instructions in program order: one sequence for all engines, dead ones left out. A loop body stands between its
/// head and its Terminator.
#[derive(Resource, Default, Clone, Debug)]
pub struct Order(pub Vec<InstId>);

impl Order {
    /// Position by instruction id; `u32::MAX` for instructions that are not in the program.
    pub fn positions(&self, rows: usize) -> Vec<u32> {
        let mut pos = vec![u32::MAX; rows];
        for (p, id) in self.0.iter().enumerate() {
            pos[id.index()] = p as u32;
        }
        pos
    }
}

/// Basic blocks of the lowered program: block `b` is positions `starts[b]..starts[b + 1]` of [`Order`].
#[derive(Resource, Default, Clone, Debug)]
pub struct Blocks {
    /// First position of each block, and the number of positions as the last entry.
    pub starts: Vec<u32>,
    /// Loop extents in positions `(first, last)`, inclusive, inner loops after the outer ones that hold them.
    pub loops: Vec<(u32, u32)>,
}
