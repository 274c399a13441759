//! Loop axes (`spec/ir.md 2.4, 3.4`) and their trip counts.
//!
//! Bounds are three quasi-affine expressions. A static axis (105) has constants; of a dynamic one (106) the upper bound is
//! `coef * register + const`, its static trip count is unknown and [`AxisBounds::max_tripcount`] takes its place
//! wherever something must be sized (`spec/ir.md 10.2`, D5).
//!
//! ```text
//! for (i: range(2, 3*r1 + 1, 4)), r1 in 0..=10   ->   at most (31 - 1 - 2) / 4 + 1 = 8 trips; at r1 = 0 none
//! ```

use crate::bir::{Expr, Exprs};
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

/// Trips of `for (i = lb; i < ub; i += step)`, counting down for a negative step; a step of 0 makes none (`spec/ir.md 3.4`).
/// Exact for every input.
pub fn tripcount(lb: i64, ub: i64, step: i64) -> u64 {
    let span = (ub as i128 - lb as i128) * (step as i128).signum();
    // The widest span by a step of 1 is 2^64 - 1.
    if span <= 0 { 0 } else { ((span - 1) / (step as i128).abs() + 1) as u64 }
}

/// The upper bound of a dynamic axis: `coef * register + constant`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct RuntimeBound {
    pub register: RegId,
    pub coef: i64,
    pub constant: i64,
}

impl RuntimeBound {
    /// The bound for a value of the register. Saturates.
    pub fn at(self, value: i64) -> i64 {
        let exact = self.coef as i128 * value as i128 + self.constant as i128;
        exact.clamp(i64::MIN as i128, i64::MAX as i128) as i64
    }

    /// The smallest and the largest bound for a register in `lo..=hi`. Saturates.
    pub fn range(self, lo: i64, hi: i64) -> (i64, i64) {
        let (a, b) = (self.at(lo), self.at(hi));
        (a.min(b), a.max(b))
    }
}

impl AxisBounds {
    fn constant(exprs: &Exprs, e: ExprId) -> Option<i64> {
        match e.is_some().then(|| exprs.get(e)) {
            Some(Expr::Affine { terms, c }) if terms.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// The upper bound when it is one run-time value, its register not null.
    pub fn runtime_bound(&self, exprs: &Exprs) -> Option<RuntimeBound> {
        let Expr::Affine { terms, c } = exprs.get(self.ub.is_some().then_some(self.ub)?) else { return None };
        let [(index, coef)] = terms[..] else { return None };
        match exprs.get(index) {
            Expr::RuntimeInt(register) if register.is_some() => {
                Some(RuntimeBound { register: *register, coef, constant: *c })
            }
            _ => None,
        }
    }

    /// Whether the trip count is only known at run time: what tells a 106 from a 105.
    pub fn has_runtime_value(&self, exprs: &Exprs) -> bool {
        self.runtime_bound(exprs).is_some()
    }

    /// The trip count of an axis whose bounds are constants.
    pub fn static_tripcount(&self, exprs: &Exprs) -> Option<u64> {
        let constant = |e| Self::constant(exprs, e);
        Some(tripcount(constant(self.lb)?, constant(self.ub)?, constant(self.step)?))
    }

    /// The trip count for a value of the register in the upper bound (`spec/ir.md 12.2`: read once, before the loop).
    pub fn tripcount_at(&self, exprs: &Exprs, value: i64) -> Option<u64> {
        let constant = |e| Self::constant(exprs, e);
        Some(tripcount(constant(self.lb)?, self.runtime_bound(exprs)?.at(value), constant(self.step)?))
    }

    /// The largest trip count there can be, from the range that the run-time value carries (D5). `None` when the
    /// bounds have another form.
    pub fn max_tripcount(&self, exprs: &Exprs, range: impl Fn(RegId) -> (i64, i64)) -> Option<u64> {
        let Some(bound) = self.runtime_bound(exprs) else { return self.static_tripcount(exprs) };
        let (lo, hi) = range(bound.register);
        let (lb, step) = (Self::constant(exprs, self.lb)?, Self::constant(exprs, self.step)?);
        let (least, most) = bound.range(lo, hi);
        Some(tripcount(lb, if step < 0 { least } else { most }, step))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_trips_are_exact_at_the_borders() {
        for (lb, ub, step, trips) in [
            (0, 8, 1, 8),
            (0, 8, 3, 3),
            (0, 9, 3, 3),
            (2, 3, 100, 1),
            (3, 3, 1, 0),
            (4, 3, 1, 0),
            (8, 0, -1, 8),
            (8, 0, -3, 3),
            (0, 8, -1, 0),
            (0, 8, 0, 0),
            (i64::MIN, i64::MAX, 1, u64::MAX),
            (i64::MAX, i64::MIN, -1, u64::MAX),
            (i64::MAX, i64::MIN, i64::MIN, 2),
        ] {
            assert_eq!(tripcount(lb, ub, step), trips, "range({lb}, {ub}, {step})");
        }
        for lb in -4..5 {
            for ub in -4..5 {
                for step in [-3, -2, -1, 1, 2, 3] {
                    let (mut i, mut trips) = (lb, 0);
                    while if step > 0 { i < ub } else { i > ub } {
                        (i, trips) = (i + step, trips + 1);
                    }
                    assert_eq!(tripcount(lb, ub, step), trips, "range({lb}, {ub}, {step})");
                }
            }
        }
    }

    fn bounds(x: &mut Exprs, lb: i64, coef: i64, c: i64, step: i64) -> AxisBounds {
        let r = x.intern(Expr::RuntimeInt(RegId(3)));
        let ub = x.affine([(r, coef)], c);
        AxisBounds { lb: x.constant(lb), ub, step: x.constant(step), max_trip: 0 }
    }

    #[test]
    fn the_maximum_is_the_largest_count_over_the_declared_range() {
        let mut x = Exprs::default();
        for lb in [-2, 0, 5] {
            for coef in [-3, -1, 1, 4] {
                for c in [-7, 0, 9] {
                    for step in [1, 2, 5] {
                        let b = bounds(&mut x, lb, coef, c, step);
                        assert!(b.has_runtime_value(&x) && b.static_tripcount(&x).is_none());
                        let most = (-4..=6).filter_map(|v| b.tripcount_at(&x, v)).max();
                        assert_eq!(b.max_tripcount(&x, |_| (-4, 6)), most, "{lb} {coef} {c} {step}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_maximum_saturates_and_does_not_wrap() {
        let mut x = Exprs::default();
        let b = bounds(&mut x, i64::MIN, i64::MAX, i64::MAX, 1);
        assert_eq!(b.max_tripcount(&x, |_| (i64::MIN, i64::MAX)), Some(u64::MAX));
        let b = bounds(&mut x, 0, i64::MIN, 0, 1);
        assert_eq!(b.max_tripcount(&x, |_| (-1, 1)), Some(i64::MAX as u64));
        assert_eq!(b.tripcount_at(&x, 1), Some(0));
    }

    #[test]
    fn constants_have_a_static_count_and_no_runtime_value() {
        let mut x = Exprs::default();
        let b = AxisBounds { lb: x.constant(1), ub: x.constant(8), step: x.constant(2), max_trip: 0 };
        assert!(!b.has_runtime_value(&x));
        assert_eq!((b.static_tripcount(&x), b.max_tripcount(&x, |_| (0, 9))), (Some(4), Some(4)));
    }
}
