//! Access patterns (`spec/ir.md 3.8`).
//!
//! A pattern walks the *element space* of a location: a location of P partitions with F elements a partition has
//! elements `0..P*F`, element `e` standing in partition `e / F` at position `e % F` (DRAM: one partition, so `e` is
//! the element index). `offset` and steps count elements of that space. Pair 0 of an engine operand is the partition
//! pair, its step is F; the pairs after it run from the slowest to the fastest free dimension. A DMA operand may
//! have several pairs that cross partitions: each pair either crosses (its step is a multiple of F) or does not.

use super::dynamic::PayloadKey;
use crate::dtype::DType;
use crate::ids::{ApId, InstId, LocId, RegId};
use arrayvec::ArrayVec;
use bevy_ecs::prelude::{Bundle, Component, Resource};

/// Kind of an access pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum ApKind {
    /// Static geometry; may carry a [`super::DynamicApInfo`] (DMA only).
    Physical = 1,
    /// The address is an expression over loop axes and run-time values; SBUF and PSUM only.
    Symbolic = 2,
    /// The address is in a register.
    Register = 3,
}

/// One dimension: step in elements, number of elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct ApPair {
    pub step: i32,
    pub num: u32,
}

/// What is accessed and from where.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ApHead {
    /// The location.
    pub loc: LocId,
    /// Static element offset in the location's element space.
    pub offset: u32,
    /// The instruction whose operand this is.
    pub inst: InstId,
    /// Element type of the access.
    pub dtype: DType,
    /// Kind, rewritten in place by `lower_ap`.
    pub kind: ApKind,
    /// 1 for an output.
    pub output: u8,
    /// [`ApHead::KEEP_DIMS`], [`ApHead::TABLE_ENTRY`].
    pub flags: u8,
    /// The dynamic part.
    pub dynamic: ApDynamic,
}

impl ApHead {
    /// The innermost `args.op1 - 1` dimensions keep their slots although their count may be 1 (reduce sources).
    pub const KEEP_DIMS: u8 = 1;
    /// Dynamic side of a DMA piece: `offset` is its entry of the DGE address table, not an element offset.
    pub const TABLE_ENTRY: u8 = 2;
}

/// The dimensions, slowest first.
#[derive(Component, Clone, PartialEq, Eq, Debug, Default)]
pub struct ApPattern(pub ArrayVec<ApPair, 5>);

impl ApPattern {
    /// From pairs, slowest first; pairs past the fifth are not representable and make this `None`.
    pub fn new(pairs: impl IntoIterator<Item = (i32, u32)>) -> Option<Self> {
        let mut out = ArrayVec::new();
        for (step, num) in pairs {
            out.try_push(ApPair { step, num }).ok()?;
        }
        Some(ApPattern(out))
    }

    /// From at most five pairs, which the compiler checks.
    pub fn of<const N: usize>(pairs: [(i32, u32); N]) -> Self {
        const { assert!(N <= 5) };
        ApPattern(pairs.into_iter().map(|(step, num)| ApPair { step, num }).collect())
    }

    /// Number of elements visited.
    pub fn elements(&self) -> u64 {
        self.0.iter().map(|p| p.num as u64).product()
    }

    /// Distance from the first to the last element visited, and the lowest, both in elements: `(lowest, highest)`
    /// relative to the offset.
    pub fn span(&self) -> (i64, i64) {
        self.0.iter().fold((0, 0), |(lo, hi), p| {
            let d = p.step as i64 * (p.num as i64 - 1);
            if d < 0 { (lo + d, hi) } else { (lo, hi + d) }
        })
    }
}

/// The dynamic part of an access, null where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct ApDynamic {
    /// The payload: a [`super::DynamicApInfo`] or a [`super::SymbolicAddress`].
    pub payload: PayloadKey,
    /// Register pattern: the final address (`RegAPAddr`). Physical with dynamic info, after expansion: the byte offset.
    pub address: RegId,
}

/// The registers that the address of a register pattern was made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct ApOrigin {
    /// The pattern.
    pub ap: ApId,
    /// Flat element offset (`RegAPOffset`).
    pub ap_offset: RegId,
    /// Sub-tensor ordinal (`RegSubTensorId`).
    pub sub_tensor: RegId,
}

/// The origin of each register pattern, ascending by pattern. On no wire: only reports read it.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct ApOrigins(pub Vec<ApOrigin>);

impl ApOrigins {
    /// The one of a pattern.
    pub fn of(&self, ap: ApId) -> Option<&ApOrigin> {
        self.0.binary_search_by_key(&ap, |o| o.ap).ok().and_then(|k| self.0.get(k))
    }
}

/// The packed ADDR4 word of each pattern by [`crate::ids::ApId`], 0 for DRAM operands. Empty until the bulk sweep of
/// stage 9: no row begins with a word, so it is a column beside the table and not a component that each row is spawned
/// with.
#[derive(Resource, Clone, PartialEq, Eq, Debug, Default)]
pub struct ApWords(pub Vec<u32>);

/// The archetype of an access pattern.
#[derive(Bundle, Clone, Debug)]
#[allow(missing_docs)]
pub struct ApRow {
    pub head: ApHead,
    pub pattern: ApPattern,
}

const _: () = assert!(size_of::<ApHead>() == 28);
const _: () = assert!(size_of::<ApPattern>() == 44);
const _: () = assert!(size_of::<ApDynamic>() == 12);
