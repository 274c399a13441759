//! Memory locations (`spec/ir.md 3.7, 10`).

use crate::dtype::DType;
use crate::ids::HloId;
use crate::program::VarKind;
use bevy_ecs::prelude::{Bundle, Component, Resource};

/// Memory space, by the IR's memory type flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Space {
    Dram = 8,
    Sbuf = 16,
    Psum = 32,
}

/// Geometry. Sizes are those of the bounds: a run-time value never shrinks a location.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct LocHead {
    /// Space.
    pub space: Space,
    /// What a DRAM location is for; `Internal` elsewhere.
    pub kind: VarKind,
    /// Element type.
    pub dtype: DType,
    /// [`LocHead::SCRATCH`], [`LocHead::PINNED`].
    pub flags: u8,
    /// Partitions used, from partition 0; 1 in DRAM.
    pub partitions: u32,
    /// Elements of a partition; in DRAM of the whole location.
    pub part_elems: u64,
}

impl LocHead {
    /// The dynamic-DMA scratch.
    pub const SCRATCH: u8 = 1;
    /// Has its address from its creation.
    pub const PINNED: u8 = 2;

    /// Bytes of one partition (DRAM: of the whole).
    #[inline]
    pub fn part_bytes(self) -> u64 {
        self.part_elems * self.dtype.bytes() as u64
    }
}

/// Where it was put.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct LocPlace {
    /// SBUF: byte offset inside each partition. PSUM: `bank * 2048 + offset`. DRAM: variable id. `u32::MAX` before.
    pub address: u32,
    /// DRAM: entry in the DGE address table for displacement 0, `u32::MAX` when there is none.
    pub table_entry: u32,
}

impl LocPlace {
    /// Not placed yet.
    pub const UNPLACED: LocPlace = LocPlace { address: u32::MAX, table_entry: u32::MAX };
}

/// Live range in program positions, inclusive, after loop extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct LocLive {
    pub first: u32,
    pub last: u32,
}

impl LocLive {
    /// The range of a location that nothing touches.
    pub const NEVER: LocLive = LocLive { first: u32::MAX, last: 0 };
}

/// The live range of each location by [`crate::ids::LocId`]. Empty until `loc_liveness`, which makes all of them at once:
/// a column beside the table, since no row begins with it.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct LocLives(pub Vec<LocLive>);

/// Identity.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct LocFrom {
    /// HLO instruction whose value it holds.
    pub hlo: HloId,
    /// Inputs and outputs: leaf number. Constants: byte offset in [`ConstPool`]. Else `u32::MAX`.
    pub ordinal: u32,
}

/// The archetype of a location.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LocRow {
    pub head: LocHead,
    pub place: LocPlace,
    pub from: LocFrom,
}

impl LocRow {
    /// An unplaced location.
    pub fn new(space: Space, dtype: DType, partitions: u32, part_elems: u64, hlo: HloId) -> Self {
        LocRow {
            head: LocHead { space, kind: VarKind::Internal, dtype, flags: 0, partitions, part_elems },
            place: LocPlace::UNPLACED,
            from: LocFrom { hlo, ordinal: u32::MAX },
        }
    }
}

/// Bytes of all constants, each constant once, aligned to its element size.
#[derive(Resource, Default)]
pub struct ConstPool(pub Vec<u8>);

const _: () = assert!(size_of::<LocHead>() == 16);
const _: () = assert!(size_of::<LocPlace>() == 8);
const _: () = assert!(size_of::<LocLive>() == 8);
const _: () = assert!(size_of::<LocFrom>() == 8);
