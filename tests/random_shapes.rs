//! Random programs over arrays of many shapes, compiled for each target, simulated with seeded interleavings and the race
//! check, and compared with the reference evaluator. Programs that the compiler refuses are few.

mod shape_programs;
mod support;

use shape_programs::{Kind, generate};
use std::ops::Range;
use support::{Verdict, judge, simulate_and_evaluate};

/// Judges a program per seed: none may be wrong, and nine in ten must compile.
fn check(seeds: Range<u64>, kind: Kind) {
    let total = seeds.end - seeds.start;
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for seed in seeds {
        let program = generate(seed, kind);
        match judge(&program.text, &program.exact, seed) {
            Verdict::Equal => {}
            Verdict::Refused(why) => refused.push(format!("seed {seed}: {why}")),
            Verdict::Wrong(why) => wrong.push(format!("seed {seed}: {why}\n{}", program.text)),
        }
    }
    assert!(wrong.is_empty(), "{} of {total} wrong\n{}", wrong.len(), wrong.join("\n"));
    println!("{} of {total} refused\n{}", refused.len(), refused.join("\n"));
    assert!(refused.len() as u64 * 10 <= total, "too many refused:\n{}", refused.join("\n"));
}

#[test]
fn straight_line_programs_equal_the_evaluator() {
    check(0..60, Kind::Straight);
}

#[test]
fn loops_and_conditionals_equal_the_evaluator() {
    check(1000..1060, Kind::Control);
}

#[test]
fn large_arrays_equal_the_evaluator() {
    check(2000..2030, Kind::Large);
}

#[test]
#[ignore = "minutes; a longer search with the same generator"]
fn many_more_programs_equal_the_evaluator() {
    check(10_000..10_300, Kind::Straight);
    check(20_000..20_300, Kind::Control);
    check(30_000..30_100, Kind::Large);
}

#[test]
fn a_seed_always_gives_the_same_program() {
    assert_eq!(generate(7, Kind::Control).text, generate(7, Kind::Control).text);
    assert_ne!(generate(7, Kind::Control).text, generate(8, Kind::Control).text);
}

#[test]
fn the_programs_use_every_operation() {
    let mut all = String::new();
    for (seeds, kind) in [(0..60, Kind::Straight), (1000..1060, Kind::Control), (2000..2030, Kind::Large)] {
        all.extend(seeds.map(|seed| generate(seed, kind).text));
    }
    let ops = "add subtract multiply maximum minimum negate abs exponential clamp transpose reshape slice concatenate \
               pad reverse broadcast dynamic-slice dynamic-update-slice reduce dot compare select convert remainder \
               while conditional get-tuple-element tuple";
    for op in ops.split_whitespace() {
        assert!(all.contains(&format!(" {op}(")), "no {op}");
    }
    assert!(all.contains("branch_computations=") && all.contains("true_computation="));
}

/// What the search found first, made small: the result's register had no value on the path around the branches.
#[test]
fn a_conditionals_scalar_is_an_index() {
    let text = "HloModule m

a {
  x = s32[] parameter(0)
  ROOT r = s32[] copy(x)
}

b {
  x = s32[] parameter(0)
  ROOT c = s32[] constant(1)
}

ENTRY main {
  p = s32[] parameter(0)
  q = s32[] parameter(1)
  z = f32[5] parameter(2)
  w = s32[] conditional(p, q, q), branch_computations={a,b}
  s = f32[1] dynamic-slice(z, w), dynamic_slice_sizes={1}
  ROOT r = (f32[1], s32[]) tuple(s, q)
}
";
    for seed in 0..8 {
        simulate_and_evaluate(text, seed);
    }
}
