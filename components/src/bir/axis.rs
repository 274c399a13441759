//! Loop axes (`spec/ir.md 2.4, 3.4`).

use crate::ids::{AxisId, ExprId, InstId, RegId};
use bevy_ecs::prelude::{Bundle, Component};

/// Kind of a loop, by the IR number of its head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum LoopKind {
    /// Compile-time bounds.
    Static = 105,
    /// Run-time upper bound, counts up.
    DynamicFor = 106,
    /// Runs while a register is not 0, behind a guard that tests the first trip.
    DoWhile = 108,
}

/// Place of an axis in the program.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AxisHead {
    /// The enclosing axis.
    pub parent: AxisId,
    /// Head instruction.
    pub begin: InstId,
    /// Terminator instruction.
    pub end: InstId,
    /// Kind.
    pub kind: LoopKind,
    /// 1 when the comparison of counter and limit is unsigned.
    pub unsigned: u8,
    /// Nesting depth from 0.
    pub depth: u16,
}

/// Bounds: `iv = lb; while iv < ub { body; iv += step }`. `NONE` for do-while.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AxisBounds {
    /// Constant.
    pub lb: ExprId,
    /// Exactly `coef * register + const` for a dynamic axis.
    pub ub: ExprId,
    /// Constant, positive.
    pub step: ExprId,
    /// Conservative maximum of the trip count (D5); the type's maximum when nothing bounds it.
    pub max_trip: u64,
}

/// Registers of an axis on engine ALL, and after `expand_all_engine` per engine (order of `EngineId::STREAMS`).
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct AxisRegs {
    /// Counter (dynamic-for: the induction variable).
    pub iv: RegId,
    /// Limit (dynamic-for), or the guard of the first trip (do-while).
    pub limit: RegId,
    /// Condition of another trip (do-while), written by the body.
    pub condition: RegId,
    /// Induction register per engine.
    pub per_engine: [RegId; 5],
}

/// The archetype of an axis.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct AxisRow {
    pub head: AxisHead,
    pub bounds: AxisBounds,
    pub regs: AxisRegs,
}

const _: () = assert!(size_of::<AxisHead>() == 16);
const _: () = assert!(size_of::<AxisBounds>() == 24);
const _: () = assert!(size_of::<AxisRegs>() == 32);
