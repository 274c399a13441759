//! In: the loop axes. Out: [`Trips`], how often each body is counted, and why.
//!
//! A constant trip count is exact; so is one whose limit register has one proved value. The caller's `trips` stands for
//! every other loop, up to its proved bound, and the estimate says where it was cut to that. Without it a bound of at most [`BOUND_CAP`] counts, and a loop with none such
//! counts once. A conditional's branch is a loop of at most one trip and counts as taken, so that a conditional costs
//! all its branches. A dynamic loop costs its body times its trips (`spec/ir.md 11.3`).

use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::estimate::{LoopTrips, TripBasis};
use murre_components::hlo::HloModule;
use murre_components::ids::ExprId;

/// Largest bound that stands for the trips of a loop; larger ones are mostly the range of a type.
pub const BOUND_CAP: u64 = 65_536;

/// Trips by axis, and the loops as the estimate shows them.
#[derive(Resource, Default, Debug)]
#[allow(missing_docs)]
pub struct Trips {
    pub by_axis: Vec<f64>,
    pub loops: Vec<LoopTrips>,
}

/// The value of an expression that has only one.
fn known(e: ExprId, exprs: &Exprs, bounds: &[RegBounds]) -> Option<i64> {
    if e.is_none() || e.index() >= exprs.len() {
        return None;
    }
    let (terms, c) = exprs.as_affine(e)?;
    terms.iter().try_fold(c, |sum, &(index, coef)| match exprs.get(index) {
        Expr::RuntimeInt(r) => {
            let b = bounds.get(r.index()).filter(|b| b.lo == b.hi)?;
            sum.checked_add(b.lo.checked_mul(coef)?)
        }
        _ => None,
    })
}

/// Trips of a loop and whence they come.
pub fn trips_of(
    kind: LoopKind,
    axis: &AxisBounds,
    exprs: &Exprs,
    regs: &[RegBounds],
    given: Option<u64>,
) -> (u64, TripBasis) {
    if kind != LoopKind::DoWhile
        && let (Some(lb), Some(ub), Some(step)) =
            (known(axis.lb, exprs, regs), known(axis.ub, exprs, regs), known(axis.step, exprs, regs))
        && step > 0
    {
        let span = ub.saturating_sub(lb).max(0) as u64;
        return (span.div_ceil(step as u64), TripBasis::Exact);
    }
    if kind == LoopKind::DoWhile && axis.max_trip <= 1 {
        return (axis.max_trip, TripBasis::Branch);
    }
    match given {
        Some(n) if n > axis.max_trip => (axis.max_trip, TripBasis::Capped),
        Some(n) => (n, TripBasis::Given),
        None if axis.max_trip <= BOUND_CAP => (axis.max_trip, TripBasis::Bound),
        None => (1, TripBasis::Once),
    }
}

/// The system.
pub fn assume_trips(
    axes: Query<(&AxisHead, &AxisBounds)>,
    regs: Query<&RegBounds>,
    insts: Query<&InstFrom>,
    order: Res<Order>,
    heads: Query<(&InstHead, &InstArgs)>,
    exprs: Res<Exprs>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    mut commands: Commands,
) {
    let given = options.estimate.and_then(|e| e.trips);
    let (axis_heads, axis_bounds) = columns!(axes);
    let bounds: &[RegBounds] = columns!(regs);
    let from: &[InstFrom] = columns!(insts);
    let (inst_heads, args) = columns!(heads);
    let mut out = Trips::default();
    let mut bases = Vec::with_capacity(axis_heads.len());
    for (head, axis) in axis_heads.iter().zip(axis_bounds) {
        let (trips, basis) = trips_of(head.kind, axis, &exprs, bounds, given);
        out.by_axis.push(trips as f64);
        bases.push((trips, basis));
    }
    for &id in &order.0 {
        let Some(head) = inst_heads.get(id.index()) else { continue };
        if !head.op.is_structure() || head.op == Opcode::Terminator {
            continue;
        }
        let axis = args[id.index()].axis().index();
        let (Some(&(trips, basis)), Some(axis)) = (bases.get(axis), axis_heads.get(axis)) else { continue };
        let name = from.get(id.index()).and_then(|f| module.get(f.hlo)).map(|h| h.name().to_owned());
        out.loops.push(LoopTrips { name: name.unwrap_or_default(), depth: axis.depth, trips, basis });
    }
    commands.insert_resource(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::ids::RegId;

    #[test]
    fn trips_are_exact_given_bounded_or_one() {
        let mut x = Exprs::default();
        let (zero, two, ten) = (x.constant(0), x.constant(2), x.constant(9));
        let r = x.intern(Expr::RuntimeInt(RegId(0)));
        let run_time = x.affine([(r, 1)], 0);
        let axis = |ub, max_trip| AxisBounds { lb: zero, ub, step: two, max_trip };
        let open = [RegBounds { lo: 0, hi: 100 }];
        let of = |axis: &AxisBounds, regs: &[RegBounds], given| {
            trips_of(LoopKind::DynamicFor, axis, &x, regs, given)
        };
        assert_eq!(of(&axis(ten, 7), &open, Some(3)), (5, TripBasis::Exact));
        assert_eq!(of(&axis(run_time, 50), &[RegBounds { lo: 6, hi: 6 }], None), (3, TripBasis::Exact));
        assert_eq!(of(&axis(run_time, 50), &open, Some(20)), (20, TripBasis::Given));
        assert_eq!(of(&axis(run_time, 50), &open, Some(80)), (50, TripBasis::Capped));
        assert_eq!(of(&axis(run_time, 50), &open, None), (50, TripBasis::Bound));
        assert_eq!(of(&axis(run_time, 1 << 31), &open, None), (1, TripBasis::Once));
        let none = ExprId::NONE;
        let branch = AxisBounds { lb: none, ub: none, step: none, max_trip: 1 };
        assert_eq!(trips_of(LoopKind::DoWhile, &branch, &x, &open, Some(9)), (1, TripBasis::Branch));
    }
}
