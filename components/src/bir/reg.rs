//! Virtual registers (`spec/ir.md 3.6, 6`).

use crate::engine::EngineId;
use crate::ids::{HloId, InstId, LocId, RegId};
use bevy_ecs::prelude::{Bundle, Component, Resource};

/// What a register is for; gives it its name in text forms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum RegRole {
    /// A control scalar of the program.
    Scalar,
    /// Induction variable.
    Induction,
    /// Loop limit or guard.
    Limit,
    ApOffset,
    SubTensorId,
    Temp,
    DramAddr0,
    ApAddr,
    /// Sum of a dynamic DMA's byte offset.
    DynamicOffset,
    /// An index of it that is more than a register.
    DynamicIndex,
    /// One term of it.
    DynamicTerm,
    /// Bound of a dynamic DMA.
    Bound,
}

impl RegRole {
    /// The role's part of a register name (`spec/ir.md 5.4, 5.5`).
    pub fn suffix(self) -> &'static str {
        match self {
            RegRole::Scalar => "Scalar",
            RegRole::Induction => "Iv",
            RegRole::Limit => "Limit",
            RegRole::ApOffset => "RegAPOffset",
            RegRole::SubTensorId => "RegSubTensorId",
            RegRole::Temp => "RegTemp",
            RegRole::DramAddr0 => "RegDramAddr0",
            RegRole::ApAddr => "RegAPAddr",
            RegRole::DynamicOffset => "dynamic-offset-reg",
            RegRole::DynamicIndex => "dynamic-index-reg",
            RegRole::DynamicTerm => "reg-mult-out",
            RegRole::Bound => "bound-reg",
        }
    }

    /// The same for the high lane of a pair, where it has a name of its own.
    pub fn high_suffix(self) -> &'static str {
        match self {
            RegRole::DramAddr0 => "RegDramAddr1",
            RegRole::Temp => "RegTemp1",
            other => other.suffix(),
        }
    }
}

/// Engine, width, colour.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct RegHead {
    /// Whose register file.
    pub engine: EngineId,
    /// 1 for 32 bits, 2 for 64 (an even-aligned pair).
    pub width: u8,
    /// Physical id of the (low) lane, [`RegHead::UNCOLOURED`] before stage 5.
    pub colour: u8,
    /// Role.
    pub role: RegRole,
}

impl RegHead {
    /// No physical id yet.
    pub const UNCOLOURED: u8 = 0xFF;
}

/// Whence a register comes.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct RegFrom {
    /// HLO instruction whose value it holds or serves.
    pub hlo: HloId,
    /// The ALL-engine register that this is the engine's copy of.
    pub all: RegId,
    /// The instruction it was minted for.
    pub inst: InstId,
    /// The location it addresses.
    pub loc: LocId,
}

/// Proved range of the value, inclusive; what `max_tripcount` rests on (D5).
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RegBounds {
    pub lo: i64,
    pub hi: i64,
}

/// Live range in program positions, inclusive, after loop extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RegLive {
    pub first: u32,
    pub last: u32,
}

impl RegLive {
    /// The range of a register that nothing touches.
    pub const NEVER: RegLive = RegLive { first: u32::MAX, last: 0 };
}

/// The live range of each register by [`RegId`]. Empty until `reg_liveness`, which makes all of them at once: a column
/// beside the table, since no row begins with it.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct RegLives(pub Vec<RegLive>);

/// The archetype of a register.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct RegRow {
    pub head: RegHead,
    pub from: RegFrom,
    pub bounds: RegBounds,
}

impl RegRow {
    /// An uncoloured 32-bit register.
    pub fn new(engine: EngineId, role: RegRole, hlo: HloId) -> Self {
        RegRow {
            head: RegHead { engine, width: 1, colour: RegHead::UNCOLOURED, role },
            from: RegFrom { hlo, all: RegId::NONE, inst: InstId::NONE, loc: LocId::NONE },
            bounds: RegBounds { lo: i32::MIN as i64, hi: u32::MAX as i64 },
        }
    }
}

const _: () = assert!(size_of::<RegHead>() == 4);
const _: () = assert!(size_of::<RegFrom>() == 16);
const _: () = assert!(size_of::<RegBounds>() == 16);
const _: () = assert!(size_of::<RegLive>() == 8);
