//! Sizes that cannot be are faults of the run, in the evaluator and on the simulator: which instruction, which dimension.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{agree, f32s, fails, s32};
use support::Lcg;

#[test]
fn sizes_outside_their_bounds() {
    let x = f32s(&[8], &mut Lcg(1));
    let set = "ENTRY e { x = f32[8] parameter(0) n = s32[] parameter(1) z = f32[] constant(0)
  d = f32[<=8] set-dimension-size(x, n), dimensions={0}
  ROOT s = f32[] reduce(d, z), dimensions={0}, to_apply=add }";
    agree(set, &[0, 1, 7, 8].map(|n| vec![x.clone(), s32(n)]));
    let call = set.replace(
        "set-dimension-size(x, n), dimensions={0}",
        "custom-call(x, n), custom_call_target=\"SliceToDynamic\"",
    );
    let reshape = set.replace("set-dimension-size(x, n), dimensions={0}", "dynamic-reshape(x, n)");
    for text in [set, &call, &reshape] {
        for n in [-1, 9, i32::MIN, i32::MAX] {
            fails(text, &[x.clone(), s32(n)], "MUR0711", "d");
        }
    }
}

#[test]
fn sizes_that_would_be_negative() {
    let mut rng = Lcg(2);
    let of = |n: u64, rng: &mut Lcg| vec![f32s(&[n, 2], rng)];
    let text = "ENTRY e { x = f32[<=8,2] parameter(0) z = f32[] constant(0)
  s = f32[<=5,2] slice(x), slice={[3:8], [0:2]}
  p = f32[<=3,2] pad(s, z), padding=-1_-1x0_0
  ROOT r = f32[2] reduce(p, z), dimensions={0}, to_apply=add }";
    agree(text, &[of(5, &mut rng), of(8, &mut rng)]);
    fails(text, &of(2, &mut rng), "MUR0711", "s");
    fails(text, &of(4, &mut rng), "MUR0711", "p");
    fails(text, &of(0, &mut rng), "MUR0711", "s");
}

#[test]
fn arrays_that_are_read_side_by_side() {
    let mut rng = Lcg(3);
    let of = |n: u64, m: u64, rng: &mut Lcg| vec![f32s(&[n, 2], rng), f32s(&[m, 2], rng)];
    let before = "two { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT p = pred[] compare(a, b), direction=LT }
both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  x = f32[] maximum(a, c) y = f32[] add(b, d) ROOT t = (f32[], f32[]) tuple(x, y) }
ENTRY e { x = f32[<=4,2] parameter(0) y = f32[<=4,2] parameter(1) i = f32[] constant(-inf) z = f32[] constant(0)
  ROOT s = ";
    for operation in [
        "f32[<=4,4] concatenate(x, y), dimensions={1} }",
        "(f32[<=4,2], f32[<=4,2]) sort(x, y), dimensions={0}, to_apply=two }",
        "f32[<=4,2,2] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={}, rhs_contracting_dims={} }",
        "(f32[<=4], f32[<=4]) reduce(x, y, i, z), dimensions={1}, to_apply=both }",
    ] {
        let text = format!("{before}{operation}");
        agree(&text, &[of(0, 0, &mut rng), of(3, 3, &mut rng), of(4, 4, &mut rng)]);
        fails(&text, &of(2, 3, &mut rng), "MUR0712", "s");
    }
    let sorted = format!("{before}(f32[<=4,2], f32[<=4,2]) sort(x, y), dimensions={{0}}, to_apply=two }}");
    fails(&sorted, &of(3, 2, &mut rng), "MUR0712", "s");
}

#[test]
fn in_loops_the_first_one_is_told() {
    let text = "body { t = (s32[], f32[<=8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0 x = f32[<=8] get-tuple-element(t), index=1
  one = s32[] constant(1) j = s32[] add(i, one) z = f32[] constant(0)
  p = f32[<=8] pad(x, z), padding=0_1
  q = f32[<=8] slice(p), slice={[3:9]}
  ROOT r = (s32[], f32[<=8]) tuple(j, q) }
cond { t = (s32[], f32[<=8]) parameter(0) i = s32[] get-tuple-element(t), index=0
  m = s32[] constant(2) ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { x = f32[<=8] parameter(0) z = s32[] constant(0)
  t = (s32[], f32[<=8]) tuple(z, x)
  w = (s32[], f32[<=8]) while(t), condition=cond, body=body
  ROOT y = f32[<=8] get-tuple-element(w), index=1 }"
        .replace("p = f32[<=8] pad", "p = f32[<=9] pad")
        .replace("q = f32[<=8] slice(p)", "c = f32[<=6] slice(p)")
        .replace(
            "  ROOT r = (s32[], f32[<=8]) tuple(j, q) }",
            "  q = f32[<=8] pad(c, z), padding=0_2
  d = s32[] get-dimension-size(c), dimensions={0} u = f32[<=8] set-dimension-size(q, d), dimensions={0}
  ROOT r = (s32[], f32[<=8]) tuple(j, u) }",
        );
    let of = |n: u64| vec![f32s(&[n], &mut Lcg(n))];
    agree(&text, &[of(4), of(5), of(8)]);
    fails(&text, &of(1), "MUR0711", "c");
    fails(&text, &of(3), "MUR0711", "c");
}

/// The size is cut to its bound, so the condition alone would hold for ever.
#[test]
fn a_failure_ends_a_loop_that_waits_for_a_size() {
    let text = "body { x = f32[<=4] parameter(0) one = s32[] constant(1)
  n = s32[] get-dimension-size(x), dimensions={0} m = s32[] add(n, one)
  ROOT y = f32[<=4] set-dimension-size(x, m), dimensions={0} }
cond { x = f32[<=4] parameter(0) n = s32[] get-dimension-size(x), dimensions={0}
  m = s32[] constant(LIMIT) ROOT c = pred[] compare(n, m), direction=LT }
ENTRY e { x = f32[4] parameter(0) k = s32[] parameter(1)
  d = f32[<=4] set-dimension-size(x, k), dimensions={0}
  ROOT w = f32[<=4] while(d), condition=cond, body=body }";
    let of = |k: i32| vec![f32s(&[4], &mut Lcg(1)), s32(k)];
    agree(&text.replace("LIMIT", "3"), &[of(0), of(3), of(4)]);
    fails(&text.replace("LIMIT", "5"), &of(2), "MUR0711", "y");
}

/// What a window makes of too few rows is told by neither way of running, whatever takes it.
#[test]
fn a_size_that_is_negative_already_is_no_new_failure() {
    for taken in ["f32[<=6] slice(w), slice={[0:6]}", "f32[<=7] pad(w, z), padding=0_1"] {
        let text = format!(
            "ENTRY e {{ x = f32[<=6] parameter(0) z = f32[] constant(0)
  w = f32[<=6] reduce-window(x, z), window={{size=3 pad=0_2}}, to_apply=add
  ROOT r = {taken} }}"
        );
        let of = |n: u64| vec![f32s(&[n], &mut Lcg(n))];
        agree(&text, &[of(0), of(1), of(2), of(6)]);
    }
}

#[test]
fn a_size_that_nobody_needs_does_not_fail() {
    let text = "ENTRY e { x = f32[4] parameter(0) n = s32[] parameter(1)
  d = f32[<=4] set-dimension-size(x, n), dimensions={0}
  ROOT y = f32[4] negate(x) }";
    agree(text, &[vec![f32s(&[4], &mut Lcg(1)), s32(9)]]);
}
