//! Random programs over arrays of many shapes, compiled for each target, simulated with seeded interleavings and the race
//! check, and compared with the reference evaluator. Programs that the compiler refuses are few.

mod shape_programs;
mod support;

use shape_programs::{Kind, generate};
use std::ops::Range;
use support::{Verdict, judge};

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
