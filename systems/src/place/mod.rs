//! Stage `place`: locations get addresses. In: instructions with their patterns in structured program order. Out:
//! live ranges, a byte offset for every SBUF and PSUM tile, a variable id for every DRAM location, and which locations
//! take over whose bytes ([`Reuse`]), which stage `sync` turns into waits.

use crate::pass::{Pass, Stage};
use crate::route::bind_dynamic_dma;
use bevy_ecs::prelude::Resource;
use murre_components::hlo::HloModule;
use murre_components::ids::{HloId, LocId};

pub mod arena;
pub mod assign_dram;
pub mod color_psum;
pub mod color_sbuf;
pub mod dram_classes;
pub mod dynamic_dma_setup;
pub mod loc_liveness;
pub mod loop_hull;
pub mod spill_code;
pub mod spill_sbuf;
pub mod verify_place;
pub mod verify_spill;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(Stage::Place, dynamic_dma_setup, "Reserve the dynamic-DMA scratch", "spec/ir.md 10.3"),
    crate::pass!(Stage::Place, loc_liveness, "Live ranges of locations, loops included", "spec/ir.md 10.4"),
    crate::pass!(
        Stage::Place,
        spill_sbuf,
        "Move tiles that do not fit beside each other to DRAM",
        "spec/ir.md 10"
    ),
    crate::pass!(Stage::Place, color_psum, "Give PSUM tiles a bank and an offset", "spec/ir.md 10.4"),
    crate::pass!(Stage::Place, color_sbuf, "Give SBUF tiles a byte offset", "spec/ir.md 10"),
    crate::pass!(
        Stage::Place,
        assign_dram,
        "Give DRAM locations variables and table entries",
        "spec/decisions.md D8"
    ),
    crate::pass!(
        Stage::Place,
        bind_dynamic_dma,
        "hardware-generated dynamic DMAs get their engine before their registers",
        "spec/ir.md 8.2, 14-y"
    ),
    crate::pass!(
        Stage::Place,
        verify_place,
        "Check placement against liveness, range and alignment",
        "spec/ir.md 10",
        verify
    ),
    crate::pass!(
        Stage::Place,
        verify_spill,
        "Check that what a spilled tile loads was saved before",
        "spec/ir.md 10",
        verify
    ),
];

/// Alignment of tiles in SBUF and PSUM, bytes.
pub const TILE_ALIGN: u32 = 64;

/// Whose bytes a location takes over: the locations that stood last on some of its bytes, all of them dead when it
/// begins. Filled by the colouring passes.
#[derive(Resource, Default, Debug, Clone)]
pub struct Reuse {
    ranges: Vec<(u32, u32)>,
    predecessors: Vec<LocId>,
}

impl Reuse {
    /// The predecessors of a location.
    pub fn of(&self, loc: LocId) -> &[LocId] {
        match self.ranges.get(loc.index()) {
            Some(&(a, b)) => self.predecessors.get(a as usize..b as usize).unwrap_or_default(),
            None => &[],
        }
    }

    /// Sets the predecessors of a location.
    pub fn set(&mut self, loc: LocId, predecessors: &[LocId]) {
        if self.ranges.len() <= loc.index() {
            self.ranges.resize(loc.index() + 1, (0, 0));
        }
        let begin = self.predecessors.len() as u32;
        self.predecessors.extend_from_slice(predecessors);
        self.ranges[loc.index()] = (begin, self.predecessors.len() as u32);
    }
}

/// The name of an HLO instruction, for diagnostics.
pub(crate) fn hlo_name(module: &HloModule, hlo: HloId) -> &str {
    module.get(hlo).map_or("(none)", |i| i.name())
}

/// The user's source line of an HLO instruction.
pub(crate) fn hlo_source(module: &HloModule, hlo: HloId) -> Option<String> {
    module.get(hlo).and_then(|i| i.source())
}
