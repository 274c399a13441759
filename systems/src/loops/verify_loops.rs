//! `verify_loops`: the rules of a static loop (105), a dynamic for-loop (106) and a do-while (108), axis by axis.
//!
//! In: axes, expressions and the ranges of registers. Out: nothing, or a diagnostic per broken rule. The number in brackets
//! is the rule's code in the source compiler (`spec/ir.md 3.4`, LUR005 to LUR007).
//!
//! ```text
//! for (i: range(0, r1 + r2, 1))     ->  MUR0422 axis 0: the upper bound has not exactly one term [185]
//! ```
//!
//! What an axis is in the program, its head, end and users, is [`super::verify_nests`]'s.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::*;
use murre_components::diag::{Code, Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// A broken rule: our code, the source compiler's number, what is wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Broken {
    pub code: Code,
    pub rule: &'static str,
    pub what: &'static str,
}

fn broken<T>(code: Code, rule: &'static str, what: &'static str) -> Result<T, Broken> {
    Err(Broken { code, rule, what })
}

/// The pass.
pub fn verify_loops(
    axes: Query<(&AxisHead, &AxisBounds, &AxisRegs)>,
    regs: Query<(&RegHead, &RegBounds)>,
    exprs: Res<Exprs>,
    diagnostics: Res<Diagnostics>,
) {
    let (heads, bounds, axis_regs) = crate::columns!(axes);
    let (reg_heads, ranges) = crate::columns!(regs);
    for k in 0..heads.len() {
        let faults = [
            check(&heads[k], &bounds[k], &axis_regs[k], &exprs),
            check_limit(&heads[k], &bounds[k], &exprs, ranges),
            check_place(k, heads, axis_regs),
            check_engine(&axis_regs[k], reg_heads),
        ];
        for b in faults.into_iter().filter_map(Result::err) {
            diagnostics.push(
                Diagnostic::error(b.code, format!("axis {k}: {} [{}]", b.what, b.rule))
                    .help("this is a loop that the front end should not have built; please report it")
                    .ordered(k as u32),
            );
        }
    }
}

fn terms(exprs: &Exprs, e: ExprId) -> Option<(&[(ExprId, i64)], i64)> {
    match e.is_some().then(|| exprs.get(e)) {
        Some(Expr::Affine { terms, c }) => Some((terms, *c)),
        _ => None,
    }
}

/// Checks the bounds and registers of one axis.
pub fn check(head: &AxisHead, bounds: &AxisBounds, regs: &AxisRegs, exprs: &Exprs) -> Result<(), Broken> {
    match head.kind {
        LoopKind::DoWhile => {
            if regs.limit.is_none() {
                return broken(&LOOP_CONDITION, "070", "a do-while without a guard register");
            }
            if regs.condition.is_none() {
                return broken(&LOOP_CONDITION, "071", "a do-while without a condition register");
            }
        }
        LoopKind::DynamicFor => {
            let Some((lb, _)) = terms(exprs, bounds.lb) else {
                return broken(&LOOP_LOWER_BOUND, "182", "the lower bound is not affine");
            };
            if !lb.is_empty() {
                return broken(&LOOP_LOWER_BOUND, "183", "the lower bound is not constant");
            }
            let Some((step, by)) = terms(exprs, bounds.step) else {
                return broken(&LOOP_STEP, "187", "the step is not affine");
            };
            if !step.is_empty() {
                return broken(&LOOP_STEP, "188", "the step is not constant");
            }
            if by <= 0 {
                return broken(&LOOP_STEP, "188", "the step is not positive");
            }
            let Some((ub, _)) = terms(exprs, bounds.ub) else {
                return broken(&LOOP_UPPER_BOUND, "184", "the upper bound is not affine");
            };
            let [(index, _)] = ub else {
                return broken(&LOOP_UPPER_BOUND, "185", "the upper bound has not exactly one term");
            };
            match exprs.get(*index) {
                Expr::RuntimeInt(r) if r.is_some() => {}
                Expr::RuntimeInt(_) => {
                    return broken(&LOOP_UPPER_BOUND, "195", "the upper bound's register is null");
                }
                _ => return broken(&LOOP_UPPER_BOUND, "186", "the upper bound's term is no run-time value"),
            }
            if regs.iv.is_none() {
                return broken(&LOWER_LOOP_RULE, "137", "no induction register");
            }
        }
        LoopKind::Static => {
            if bounds.has_runtime_value(exprs) {
                return broken(&LOWER_LOOP_RULE, "LUR007", "a run-time bound on a static axis");
            }
            let Some(trips) = bounds.static_tripcount(exprs) else {
                return broken(&LOWER_LOOP_RULE, "105", "a bound of a static loop is not constant");
            };
            // Counters count up.
            if trips == 0 || terms(exprs, bounds.step).is_none_or(|s| s.1 <= 0) {
                return broken(&LOWER_LOOP_RULE, "105", "a static loop makes no trip");
            }
            if regs.iv.is_none() {
                return broken(&LOWER_LOOP_RULE, "137", "no induction register");
            }
        }
    }
    Ok(())
}

/// The limit and the counter fit into 32 bits for all values of the bound, and the largest trip count is large enough (D5).
pub fn check_limit(
    head: &AxisHead,
    bounds: &AxisBounds,
    exprs: &Exprs,
    ranges: &[RegBounds],
) -> Result<(), Broken> {
    let range = |r: RegId| ranges.get(r.index()).map_or((i64::MIN, i64::MAX), |b| (b.lo, b.hi));
    if head.kind == LoopKind::DynamicFor
        && let Some(bound) = bounds.runtime_bound(exprs)
    {
        let (lo, hi) = range(bound.register);
        let (least, most) = bound.range(lo, hi);
        let step = terms(exprs, bounds.step).map_or(1, |s| s.1);
        let (low, high) =
            if head.unsigned != 0 { (0, u32::MAX as i64) } else { (i32::MIN as i64, i32::MAX as i64) };
        if least < low || most.saturating_add(step - 1) > high {
            return broken(&LOOP_LIMIT, "D5", "the limit or the counter behind it does not fit into 32 bits");
        }
    }
    match bounds.max_tripcount(exprs, range) {
        Some(most) if most > bounds.max_trip => {
            broken(&LOOP_LIMIT, "D5", "it may make more trips than its largest trip count says")
        }
        _ => Ok(()),
    }
}

/// The axis stands behind and one level inside its parent, and shares its induction register with no axis around it.
pub fn check_place(k: usize, heads: &[AxisHead], regs: &[AxisRegs]) -> Result<(), Broken> {
    let mut at = heads[k].parent;
    if at.is_none() {
        return Ok(());
    }
    if at.index() >= k {
        return broken(&LOOP_NEST, "LUR006", "its parent comes after it");
    }
    if heads[k].depth != heads[at.index()].depth + 1 {
        return broken(&LOOP_NEST, "149", "it is not one level deeper than its parent");
    }
    let iv = regs[k].iv;
    // Parents come before their children, so the walk ends.
    while at.is_some() && at.index() < k {
        if iv.is_some() && regs[at.index()].iv == iv {
            return broken(&LOOP_NEST, "LUR005", "it shares its induction register with an axis around it");
        }
        let parent = heads[at.index()].parent;
        at = if parent.is_some() && parent.index() < at.index() { parent } else { AxisId::NONE };
    }
    Ok(())
}

/// The registers of an axis are on engine ALL.
pub fn check_engine(axis: &AxisRegs, regs: &[RegHead]) -> Result<(), Broken> {
    for r in [axis.iv, axis.limit, axis.condition].into_iter().filter(|r| r.is_some()) {
        if regs.get(r.index()).is_none_or(|r| r.engine != EngineId::All) {
            return broken(&LOOP_AXIS_ENGINE, "EIL011", "a register of the axis is not one of engine ALL");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(exprs: &mut Exprs, f: impl Fn(&mut Exprs) -> (ExprId, ExprId, ExprId)) -> Result<(), Broken> {
        let head = AxisHead {
            parent: AxisId::NONE,
            begin: InstId::NONE,
            end: InstId::NONE,
            kind: LoopKind::DynamicFor,
            unsigned: 0,
            depth: 0,
        };
        let (lb, ub, step) = f(exprs);
        let regs = AxisRegs {
            iv: RegId(1),
            limit: RegId::NONE,
            condition: RegId::NONE,
            per_engine: [RegId::NONE; 5],
        };
        check(&head, &AxisBounds { lb, ub, step, max_trip: 8 }, &regs, exprs)
    }

    fn rule(f: impl Fn(&mut Exprs) -> (ExprId, ExprId, ExprId)) -> &'static str {
        match axis(&mut Exprs::default(), f) {
            Ok(()) => "ok",
            Err(b) => b.rule,
        }
    }

    #[test]
    fn a_static_loop_has_constant_bounds_and_makes_a_trip() {
        let run = |lb: i64, ub: i64, step: i64, iv: RegId| {
            let mut x = Exprs::default();
            let bounds =
                AxisBounds { lb: x.constant(lb), ub: x.constant(ub), step: x.constant(step), max_trip: 1 };
            let head = AxisHead {
                parent: AxisId::NONE,
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::Static,
                unsigned: 0,
                depth: 0,
            };
            let none = RegId::NONE;
            let regs = AxisRegs { iv, limit: none, condition: none, per_engine: [none; 5] };
            check(&head, &bounds, &regs, &x).map_err(|e| {
                assert_eq!(e.code.id, "MUR0407");
                e.rule
            })
        };
        assert_eq!(run(0, 8, 4, RegId(1)), Ok(()));
        assert_eq!(run(8, 8, 4, RegId(1)), Err("105"));
        assert_eq!(run(0, 8, 0, RegId(1)), Err("105"));
        assert_eq!(run(0, 8, 4, RegId::NONE), Err("137"));
    }

    #[test]
    fn a_broken_rule_is_a_coded_diagnostic() {
        let mut compiler = crate::Compiler::new(Default::default(), Default::default());
        let mut staging = crate::staging::Staging::new(&compiler.world);
        let none = ExprId::NONE;
        staging.axis(AxisRow {
            head: AxisHead {
                parent: AxisId::NONE,
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::DoWhile,
                unsigned: 0,
                depth: 0,
            },
            bounds: AxisBounds { lb: none, ub: none, step: none, max_trip: 1 },
            regs: AxisRegs {
                iv: RegId::NONE,
                limit: RegId::NONE,
                condition: RegId::NONE,
                per_engine: [RegId::NONE; 5],
            },
        });
        staging.flush(&mut compiler.world);
        compiler.run(&[crate::Stage::Loops]);
        assert_eq!(compiler.finish().diagnostics[0].code.id, "MUR0425");
    }

    #[test]
    fn each_rule_has_a_failing_axis() {
        let run = |x: &mut Exprs, r: u32| x.intern(Expr::RuntimeInt(RegId(r)));
        let ub = |x: &mut Exprs| {
            let r = run(x, 0);
            x.affine([(r, 1)], 0)
        };
        assert_eq!(rule(|x| (x.constant(0), ub(x), x.constant(1))), "ok");
        assert_eq!(rule(|x| (ub(x), ub(x), x.constant(1))), "183");
        assert_eq!(rule(|x| (run(x, 0), ub(x), x.constant(1))), "182");
        assert_eq!(rule(|x| (x.constant(0), ub(x), ub(x))), "188");
        assert_eq!(rule(|x| (x.constant(0), ub(x), x.constant(0))), "188");
        assert_eq!(rule(|x| (x.constant(0), run(x, 0), x.constant(1))), "184");
        assert_eq!(rule(|x| (x.constant(0), x.constant(9), x.constant(1))), "185");
        let two = |x: &mut Exprs| {
            let (a, b) = (run(x, 0), run(x, 1));
            x.affine([(a, 1), (b, 1)], 0)
        };
        assert_eq!(rule(|x| (x.constant(0), two(x), x.constant(1))), "185");
        let axis_term = |x: &mut Exprs| {
            let i = x.intern(Expr::AxisIv(AxisId(0)));
            x.affine([(i, 1)], 0)
        };
        assert_eq!(rule(|x| (x.constant(0), axis_term(x), x.constant(1))), "186");
        let null = |x: &mut Exprs| {
            let r = x.intern(Expr::RuntimeInt(RegId::NONE));
            x.affine([(r, 1)], 0)
        };
        assert_eq!(rule(|x| (x.constant(0), null(x), x.constant(1))), "195");
    }

    #[test]
    fn each_group_of_rules_has_its_code() {
        let code = |f: &dyn Fn(&mut Exprs) -> (ExprId, ExprId, ExprId)| {
            axis(&mut Exprs::default(), f).map_or_else(|b| b.code.id, |()| "ok")
        };
        let ub = |x: &mut Exprs| {
            let r = x.intern(Expr::RuntimeInt(RegId(0)));
            x.affine([(r, 1)], 0)
        };
        assert_eq!(code(&|x| (ub(x), ub(x), x.constant(1))), "MUR0420");
        assert_eq!(code(&|x| (x.constant(0), ub(x), x.constant(-1))), "MUR0421");
        assert_eq!(code(&|x| (x.constant(0), x.constant(9), x.constant(1))), "MUR0422");
    }

    #[test]
    fn a_limit_that_could_wrap_and_a_trip_count_that_is_too_small_are_refused() {
        let run = |coef: i64, c: i64, step: i64, unsigned: u8, hi: i64, max_trip: u64| {
            let mut x = Exprs::default();
            let r = x.intern(Expr::RuntimeInt(RegId(0)));
            let ub = x.affine([(r, coef)], c);
            let bounds = AxisBounds { lb: x.constant(0), ub, step: x.constant(step), max_trip };
            let head = AxisHead {
                parent: AxisId::NONE,
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::DynamicFor,
                unsigned,
                depth: 0,
            };
            check_limit(&head, &bounds, &x, &[RegBounds { lo: 0, hi }]).map_err(|b| b.code.id)
        };
        let most = i32::MAX as i64;
        assert_eq!(run(1, 0, 1, 0, most, most as u64), Ok(()));
        assert_eq!(run(1, 0, 2, 0, most, most as u64), Err("MUR0429"), "the counter passes 2^31");
        assert_eq!(run(4, 0, 1, 0, 1_000_000_000, u64::MAX), Err("MUR0429"));
        assert_eq!(run(4, 0, 1, 1, 1_000_000_000, u64::MAX), Ok(()), "as unsigned it fits");
        assert_eq!(run(-1, 0, 1, 1, 3, 0), Err("MUR0429"), "a negative limit is large as an unsigned one");
        assert_eq!(run(3, 1, 4, 0, 10, 8), Ok(()));
        assert_eq!(run(3, 1, 4, 0, 10, 7), Err("MUR0429"));
    }

    #[test]
    fn an_axis_stands_inside_its_parent_with_a_register_of_its_own() {
        let head = |parent: u32, depth: u16| AxisHead {
            parent: AxisId(parent),
            begin: InstId::NONE,
            end: InstId::NONE,
            kind: LoopKind::DynamicFor,
            unsigned: 0,
            depth,
        };
        let none = RegId::NONE;
        let regs = |iv: u32| AxisRegs { iv: RegId(iv), limit: none, condition: none, per_engine: [none; 5] };
        let outer = head(u32::MAX, 0);
        let code = |heads: &[AxisHead], regs: &[AxisRegs]| {
            check_place(heads.len() - 1, heads, regs).map_err(|b| (b.code.id, b.rule))
        };
        assert_eq!(code(&[outer, head(0, 1)], &[regs(1), regs(2)]), Ok(()));
        assert_eq!(code(&[outer, head(1, 1)], &[regs(1), regs(2)]), Err(("MUR0423", "LUR006")));
        assert_eq!(code(&[outer, head(0, 2)], &[regs(1), regs(2)]), Err(("MUR0423", "149")));
        assert_eq!(code(&[outer, head(0, 1)], &[regs(1), regs(1)]), Err(("MUR0423", "LUR005")));
        let mut row = RegRow::new(EngineId::Sp, RegRole::Induction, HloId::NONE).head;
        assert_eq!(check_engine(&regs(0), &[row]).map_err(|b| b.code.id), Err("MUR0428"));
        row.engine = EngineId::All;
        assert_eq!(check_engine(&regs(0), &[row]), Ok(()));
    }
}
