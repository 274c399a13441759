//! `verify_loops`: the rules of a static loop (105), a dynamic for-loop (106) and a do-while (108).
//!
//! In: axes and expressions. Out: nothing, or a diagnostic per broken rule. The number in brackets is the rule's code in
//! the source compiler (`spec/ir.md 3.4`).

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::LOWER_LOOP_RULE;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::ids::ExprId;

/// The pass.
pub fn verify_loops(
    axes: Query<(&AxisHead, &AxisBounds, &AxisRegs)>,
    exprs: Res<Exprs>,
    diagnostics: Res<Diagnostics>,
) {
    let (heads, bounds, regs) = crate::columns!(axes);
    for (k, ((head, bounds), regs)) in heads.iter().zip(bounds).zip(regs).enumerate() {
        if let Err((rule, what)) = check(head, bounds, regs, &exprs) {
            diagnostics.push(
                Diagnostic::error(&LOWER_LOOP_RULE, format!("axis {k}: {what} [{rule}]"))
                    .help("this is a loop that the front end should not have built; please report it")
                    .ordered(k as u32),
            );
        }
        if head.parent.is_some() && head.parent.index() >= k {
            diagnostics
                .push(Diagnostic::error(&LOWER_LOOP_RULE, format!("axis {k}: its parent comes after it")));
        }
    }
}

fn terms(exprs: &Exprs, e: ExprId) -> Option<(&[(ExprId, i64)], i64)> {
    match e.is_some().then(|| exprs.get(e)) {
        Some(Expr::Affine { terms, c }) => Some((terms, *c)),
        _ => None,
    }
}

/// Checks one axis.
pub fn check(
    head: &AxisHead,
    bounds: &AxisBounds,
    regs: &AxisRegs,
    exprs: &Exprs,
) -> Result<(), (&'static str, &'static str)> {
    match head.kind {
        LoopKind::DoWhile => {
            if regs.condition.is_none() || regs.limit.is_none() {
                return Err(("070", "a do-while without a condition register"));
            }
        }
        LoopKind::DynamicFor => {
            let (lb, _) = terms(exprs, bounds.lb).ok_or(("182", "the lower bound is not affine"))?;
            if !lb.is_empty() {
                return Err(("183", "the lower bound is not constant"));
            }
            let (step, by) = terms(exprs, bounds.step).ok_or(("187", "the step is not affine"))?;
            if !step.is_empty() {
                return Err(("188", "the step is not constant"));
            }
            if by <= 0 {
                return Err(("188", "the step is not positive"));
            }
            let (ub, _) = terms(exprs, bounds.ub).ok_or(("184", "the upper bound is not affine"))?;
            let [(index, _)] = ub else {
                return Err(("185", "the upper bound has not exactly one term"));
            };
            match exprs.get(*index) {
                Expr::RuntimeInt(r) if r.is_some() => {}
                Expr::RuntimeInt(_) => return Err(("195", "the upper bound's register is null")),
                _ => return Err(("186", "the upper bound's term is no run-time value")),
            }
            if regs.iv.is_none() {
                return Err(("137", "no induction register"));
            }
        }
        LoopKind::Static => {
            let constant = |e| match terms(exprs, e) {
                Some(([], c)) => Ok(c),
                _ => Err(("105", "a bound of a static loop is not constant")),
            };
            if constant(bounds.step)? <= 0 || constant(bounds.lb)? >= constant(bounds.ub)? {
                return Err(("105", "a static loop makes no trip"));
            }
            if regs.iv.is_none() {
                return Err(("137", "no induction register"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::ids::{AxisId, InstId, RegId};

    fn axis(
        exprs: &mut Exprs,
        f: impl Fn(&mut Exprs) -> (ExprId, ExprId, ExprId),
    ) -> Result<(), (&'static str, &'static str)> {
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
            Err((rule, _)) => rule,
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
            check(&head, &bounds, &regs, &x).map_err(|e| e.0)
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
        assert_eq!(compiler.finish().diagnostics[0].code.id, "MUR0407");
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
}
