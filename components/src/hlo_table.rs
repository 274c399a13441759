//! The HLO instructions of a module being compiled, as entities: row `k` is instruction `HloId(k)` of the simplified
//! module.

use crate::dtype::HloType;
use crate::hlo::HloOp;
use crate::ids::{CompId, LocId, RegId};
use bevy_ecs::prelude::{Bundle, Component};

/// Operation and result type.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct HloHead {
    /// Operation.
    pub op: HloOp,
    /// Element type of an array result, `Tuple` of a tuple.
    pub ty: HloType,
    /// Rank of an array result.
    pub rank: u8,
    /// Unused.
    pub flags: u8,
    /// Computation.
    pub computation: CompId,
}

/// Operands as a range of a flat edge array, and how many instructions read the result.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct HloEdges {
    pub first: u32,
    pub count: u16,
    pub users: u16,
}

/// Where the first leaf of the result lives; written in place by `lower_hlo`.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct HloHome {
    /// Control scalar.
    pub reg: RegId,
    /// Memory.
    pub loc: LocId,
}

/// The archetype of an HLO instruction.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct HloRow {
    pub head: HloHead,
    pub edges: HloEdges,
    pub home: HloHome,
}

const _: () = assert!(size_of::<HloHead>() == 8);
const _: () = assert!(size_of::<HloEdges>() == 8);
const _: () = assert!(size_of::<HloHome>() == 8);
