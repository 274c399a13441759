//! Loops with run-time bounds, and more scalars alive than an engine has registers: compiled for the targets, simulated,
//! and compared with what the bounds say or with the reference evaluator.

mod support;

use murre::array::HostArray;
use murre::components::bir::{AxisBounds, Expr, Exprs, RuntimeBound};
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::systems::{CompileOptions, Compiler, Stage, compile};
use std::fmt::Write;
use support::{Lcg, Verdict, judge, module, simulate_and_evaluate, simulated, wide_loop};

/// Counts its trips and sums its counter.
const TRIPS: &str = "HloModule trips

cond { t = (s32[], s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=3
  ROOT c = pred[] compare(i, n), direction=LT }

body { t = (s32[], s32[], s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  trips = s32[] get-tuple-element(t), index=1
  sum = s32[] get-tuple-element(t), index=2
  n = s32[] get-tuple-element(t), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  more = s32[] add(trips, one)
  total = s32[] add(sum, i)
  ROOT r = (s32[], s32[], s32[], s32[]) tuple(next, more, total, n) }

ENTRY main { p = s32[] parameter(0)
  zero = s32[] constant(0)
  four = s32[] constant(4)
  n = s32[] clamp(zero, p, four)
  t = (s32[], s32[], s32[], s32[]) tuple(zero, zero, zero, n)
  w = (s32[], s32[], s32[], s32[]) while(t), condition=cond, body=body
  trips = s32[] get-tuple-element(w), index=1
  sum = s32[] get-tuple-element(w), index=2
  ROOT r = (s32[], s32[]) tuple(trips, sum) }
";

fn word(v: i32) -> HostArray {
    HostArray { ty: HloType::S32, dims: Vec::new(), data: v.to_le_bytes().to_vec() }
}

/// The loop of [`TRIPS`] with other bounds: `for (i: range(lb, coef * n + c, step))`.
fn with_bounds(
    lb: i64,
    coef: i64,
    c: i64,
    step: i64,
) -> (murre::components::program::Program, AxisBounds, Exprs) {
    let options = CompileOptions { target: Target::Trn2, verify: true, ..CompileOptions::default() };
    let mut compiler = Compiler::new(module(TRIPS), options);
    let (early, late): (Vec<Stage>, Vec<Stage>) = Stage::ALL.into_iter().partition(|s| *s < Stage::Loops);
    compiler.run(&early);
    let mut axes = compiler.world.query::<&mut AxisBounds>();
    let mut exprs = std::mem::take(&mut *compiler.world.resource_mut::<Exprs>());
    let mut bounds = axes.single_mut(&mut compiler.world).expect("one loop");
    let RuntimeBound { register, .. } = bounds.runtime_bound(&exprs).expect("a run-time bound");
    let index = exprs.intern(Expr::RuntimeInt(register));
    *bounds = AxisBounds {
        lb: exprs.constant(lb),
        ub: exprs.affine([(index, coef)], c),
        step: exprs.constant(step),
        max_trip: u64::MAX,
    };
    let most = bounds.max_tripcount(&exprs, |_| (0, 4)).expect("it has a largest trip count");
    bounds.max_trip = most;
    let bounds = *bounds;
    let mut copy = Exprs::default();
    std::mem::swap(&mut copy, &mut exprs);
    let mut again = Exprs::default();
    for k in 0..copy.len() {
        again.intern(copy.get(murre::components::ids::ExprId::new(k)).clone());
    }
    compiler.world.insert_resource(copy);
    compiler.run(&late);
    let outcome = compiler.finish();
    (outcome.program.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics)), bounds, again)
}

#[test]
fn trips_are_what_the_bounds_say() {
    for (lb, coef, c, step) in [
        (0, 1, 0, 1),
        (2, 1, 0, 1),
        (0, 1, 0, 3),
        (-3, 1, 0, 2),
        (0, -1, 4, 1),
        (1, -2, 9, 3),
        (5, 1, 0, 1),
        (0, 3, -20, 1),
        (-7, 3, -5, 4),
    ] {
        let (program, bounds, exprs) = with_bounds(lb, coef, c, step);
        let mut most = 0;
        for n in 0..=4i64 {
            let (mut i, mut trips, mut sum) = (lb, 0, 0);
            while i < coef * n + c {
                (trips, sum, i) = (trips + 1, sum + i, i + step);
            }
            most = most.max(trips);
            assert_eq!(bounds.tripcount_at(&exprs, n), Some(trips), "range({lb}, {coef}*{n} + {c}, {step})");
            let got = simulated(&program, &[word(n as i32)], Some(n as u64));
            let want = [word(trips as i32), word(sum as i32)];
            assert_eq!(got, want, "range({lb}, {coef}*{n} + {c}, {step})");
        }
        assert_eq!(bounds.max_trip, most, "the largest is reached");
    }
}

/// `count` indices computed before anything else, each used at the end. `index` says what index `k` is.
fn late_slices(count: usize, parameters: usize, index: impl Fn(usize) -> String) -> String {
    let mut s = String::from(
        "HloModule late\nENTRY main {\n x = f32[128,4] parameter(0)\n zero = s32[] constant(0)\n",
    );
    for k in 0..parameters {
        writeln!(s, " p{k} = s32[] parameter({})", k + 1).expect("writing to a string");
    }
    for k in 0..count {
        writeln!(s, " k{k}_ = s32[] constant({})\n{}", k % 60, index(k)).expect("writing to a string");
    }
    writeln!(s, " y0_ = f32[1,4] dynamic-slice(x, zero, zero), dynamic_slice_sizes={{1,4}}")
        .expect("writing to a string");
    for k in 0..count {
        writeln!(
            s,
            " d{k} = f32[1,4] dynamic-slice(x, i{k}, zero), dynamic_slice_sizes={{1,4}}\n y{}_ = f32[1,4] add(y{k}_, d{k})",
            k + 1
        )
        .expect("writing to a string");
    }
    writeln!(s, " ROOT r = f32[1,4] copy(y{count}_)\n}}").expect("writing to a string");
    s
}

#[test]
fn many_indices_of_one_position_are_computed_again_where_they_are_used() {
    simulate_and_evaluate(&late_slices(90, 1, |k| format!(" i{k} = s32[] add(p0, k{k}_)")), 1);
}

#[test]
fn many_parameters_are_loaded_again_where_they_are_used() {
    simulate_and_evaluate(&late_slices(80, 80, |k| format!(" i{k} = s32[] add(p{k}, k{k}_)")), 2);
}

#[test]
fn chains_of_clamps_and_products_are_computed_again() {
    let chain = |k| {
        format!(
            " m{k} = s32[] multiply(p{}, k{k}_)\n a{k} = s32[] add(m{k}, p{})\n i{k} = s32[] clamp(zero, a{k}, k{k}_)",
            k % 7,
            (k + 3) % 7
        )
    };
    simulate_and_evaluate(&late_slices(75, 7, chain), 3);
}

#[test]
fn a_loop_reads_more_scalars_than_there_are_registers() {
    simulate_and_evaluate(&wide_loop(70, 0), 4);
    simulate_and_evaluate(&wide_loop(50, 30), 5);
}

#[test]
fn carried_scalars_are_made_where_they_live() {
    simulate_and_evaluate(&wide_loop(0, 45), 6);
}

#[test]
fn what_cannot_be_computed_again_is_refused_with_what_is_alive() {
    let outcome = compile(module(&wide_loop(0, 70)), CompileOptions::default());
    let d = &outcome.diagnostics[0];
    assert_eq!(d.code.id, "MUR0502");
    let found = d.found.as_deref().unwrap_or_default();
    assert!(found.contains(" alive at ") && found.contains(" of w ("), "{found}");
}

/// Two nested run-time loops that share many scalars and an array, which they update at random places.
fn nested(seed: u64) -> (String, usize) {
    let mut rng = Lcg(seed);
    let (carried, invariant) = (1 + rng.below(6) as usize, 10 + rng.below(60) as usize);
    let x = "f32[6,5]";
    let mut parts = vec!["s32[]".to_string(); 1 + carried];
    parts.push(x.to_string());
    parts.extend(vec!["s32[]".to_string(); 1 + invariant]);
    let tuple = format!("({})", parts.join(", "));
    let (at_x, at_n) = (1 + carried, 2 + carried);
    let mut s = String::from("HloModule nested\n");
    let line = |s: &mut String, text: String| {
        s.push_str(&text);
        s.push('\n');
    };
    line(
        &mut s,
        format!(
            "cond {{\n t = {tuple} parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] get-tuple-element(t), index={at_n}\n ROOT c = pred[] compare(i, n), direction=LT\n}}"
        ),
    );
    for (name, inner) in [("inner", None), ("outer", Some("inner"))] {
        line(
            &mut s,
            format!(
                "{name} {{\n t = {tuple} parameter(0)\n one = s32[] constant(1)\n zero = s32[] constant(0)\n three = s32[] constant(3)"
            ),
        );
        line(
            &mut s,
            format!(
                " i = s32[] get-tuple-element(t), index=0\n n = s32[] get-tuple-element(t), index={at_n}\n x0 = {x} get-tuple-element(t), index={at_x}\n next = s32[] add(i, one)"
            ),
        );
        let mut scalars = vec!["i".to_string()];
        for k in 0..carried {
            line(&mut s, format!(" a{k} = s32[] get-tuple-element(t), index={}", k + 1));
            scalars.push(format!("a{k}"));
        }
        for k in 0..invariant {
            line(&mut s, format!(" v{k} = s32[] get-tuple-element(t), index={}", k + at_n + 1));
            scalars.push(format!("v{k}"));
        }
        let mut array = "x0".to_string();
        let mut values: Vec<String> = (0..carried).map(|k| format!("a{k}")).collect();
        let mut fresh = 0;
        let steps = 4 + rng.below(20);
        for k in 0..steps {
            let pick = |rng: &mut Lcg| scalars[rng.below(scalars.len() as u64) as usize].clone();
            let (a, b, c, d) = (pick(&mut rng), pick(&mut rng), pick(&mut rng), pick(&mut rng));
            match rng.below(3) {
                0 => {
                    let op = ["add", "subtract", "multiply", "minimum", "maximum"][rng.below(5) as usize];
                    line(&mut s, format!(" q{fresh} = s32[] {op}({a}, {b})"));
                    let into = rng.below(carried as u64) as usize;
                    values[into] = format!("q{fresh}");
                    scalars.push(format!("q{fresh}"));
                    fresh += 1;
                }
                _ => {
                    line(
                        &mut s,
                        format!(
                            " d{k} = f32[1,2] dynamic-slice({array}, {a}, {b}), dynamic_slice_sizes={{1,2}}\n x{} = {x} dynamic-update-slice({array}, d{k}, {c}, {d})",
                            k + 1
                        ),
                    );
                    array = format!("x{}", k + 1);
                }
            }
        }
        let invariants: Vec<String> = (0..invariant).map(|k| format!("v{k}")).collect();
        if let Some(inner) = inner {
            line(
                &mut s,
                format!(
                    " m = s32[] clamp(zero, {}, three)\n u = {tuple} tuple(zero, {}, {array}, m, {})",
                    values[0],
                    values.join(", "),
                    invariants.join(", ")
                ),
            );
            line(
                &mut s,
                format!(
                    " w = {tuple} while(u), condition=cond, body={inner}\n xw = {x} get-tuple-element(w), index={at_x}"
                ),
            );
            array = "xw".to_string();
            for (k, v) in values.iter_mut().enumerate() {
                line(&mut s, format!(" z{k} = s32[] get-tuple-element(w), index={}", k + 1));
                *v = format!("z{k}");
            }
        }
        line(
            &mut s,
            format!(
                " ROOT r = {tuple} tuple(next, {}, {array}, n, {})\n}}",
                values.join(", "),
                invariants.join(", ")
            ),
        );
    }
    line(
        &mut s,
        format!(
            "ENTRY main {{\n x = {x} parameter(0)\n m = s32[] parameter(1)\n zero = s32[] constant(0)\n four = s32[] constant(4)\n n = s32[] clamp(zero, m, four)"
        ),
    );
    for k in 0..carried + invariant {
        line(&mut s, format!(" p{k} = s32[] parameter({})", k + 2));
    }
    let names = |range: std::ops::Range<usize>| range.map(|k| format!("p{k}")).collect::<Vec<_>>().join(", ");
    line(
        &mut s,
        format!(
            " t = {tuple} tuple(zero, {}, x, n, {})",
            names(0..carried),
            names(carried..carried + invariant)
        ),
    );
    line(
        &mut s,
        format!(
            " w = {tuple} while(t), condition=cond, body=outer\n y = {x} get-tuple-element(w), index={at_x}"
        ),
    );
    let mut results = Vec::new();
    for k in 0..carried {
        line(&mut s, format!(" r{k} = s32[] get-tuple-element(w), index={}", k + 1));
        results.push(format!("r{k}"));
    }
    let shapes = vec!["s32[]"; carried].join(", ");
    line(&mut s, format!(" ROOT r = ({shapes}, {x}) tuple({}, y)\n}}", results.join(", ")));
    (s, carried + 1)
}

#[test]
fn nested_loops_of_many_scalars_equal_the_evaluator_or_are_refused() {
    let mut equal = 0;
    for seed in 0..24 {
        let (text, results) = nested(seed);
        match judge(&text, &vec![true; results], seed) {
            Verdict::Equal => equal += 1,
            Verdict::Refused(why) => assert!(why.contains("MUR0502"), "seed {seed}: {why}"),
            Verdict::Wrong(what) => panic!("seed {seed}: {what}\n{text}"),
        }
    }
    assert!(equal >= 20, "only {equal} of 24 compile");
}
