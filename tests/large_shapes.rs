//! Programs over arrays that do not fit into one tile: extents that no partition count divides, shares of a partition past
//! 48 KiB, dots of many tiles. Compiled for each target, simulated and compared with the reference evaluator.

mod support;

use murre::systems::CompileOptions;
use support::{Verdict, judge_with};

const REGIONS: &str = "add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}

imax {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] maximum(a, b)
}
";

/// Judges an entry computation; `exact` says of each result whether it has to be equal bit by bit. Once more with dots as
/// loops.
fn equal(entry: &str, exact: &[bool]) {
    let text = format!("HloModule m\n\n{REGIONS}\nENTRY main {{\n{entry}}}\n");
    let rolled = CompileOptions { unroll_limit: 2, ..CompileOptions::default() };
    let again = if entry.contains(" dot(") { vec![CompileOptions::default(), rolled] } else { vec![rolled] };
    for options in again {
        match judge_with(&text, exact, 7, &options) {
            Verdict::Equal => {}
            other => panic!("unrolled up to {}: {other:?}\n{text}", options.unroll_limit),
        }
    }
}

#[test]
fn elementwise_on_awkward_extents() {
    equal(
        "  x = f32[50257] parameter(0)
  y = s32[3,1009,23] parameter(1)
  i = f32[50257] iota(), iota_dimension=0
  c = f32[] constant(2)
  cb = f32[50257] broadcast(c), dimensions={}
  a = f32[50257] add(x, i)
  b = f32[50257] multiply(a, cb)
  s = f32[50257] select(p, b, x)
  p = pred[50257] compare(x, cb), direction=LT
  u = u32[3,1009,23] convert(y)
  ROOT r = (f32[50257], u32[3,1009,23]) tuple(s, u)
"
        .replace("  s = f32[50257] select(p, b, x)\n", "")
        .replace("  u = u32", "  s = f32[50257] select(p, b, x)\n  u = u32")
        .as_str(),
        &[true, true],
    );
}

#[test]
fn shares_of_a_partition_past_the_tile() {
    equal(
        "  x = f32[99991] parameter(0)
  i = s32[99991] iota(), iota_dimension=0
  d = s32[99991] add(i, i)
  n = f32[99991] negate(x)
  j = s32[3,99991] iota(), iota_dimension=1
  ROOT r = (s32[99991], f32[99991], s32[3,99991]) tuple(d, n, j)
",
        &[true, true, true],
    );
}

#[test]
fn reductions_in_pieces() {
    equal(
        "  x = f32[3,1009,200] parameter(0)
  y = f32[200003] parameter(1)
  z = f32[] constant(0)
  low = f32[] constant(-inf)
  w = s32[40009] parameter(2)
  l = s32[] constant(-2147483648)
  a = f32[1009] reduce(x, z), dimensions={0,2}, to_apply=add
  b = f32[3,200] reduce(x, low), dimensions={1}, to_apply=max
  c = f32[] reduce(y, z), dimensions={0}, to_apply=add
  d = s32[] reduce(w, l), dimensions={0}, to_apply=imax
  ROOT r = (f32[1009], f32[3,200], f32[], s32[]) tuple(a, b, c, d)
",
        &[true, true, false, true],
    );
}

#[test]
fn broadcasts_and_constants_of_any_size() {
    equal(
        "  x = f32[300] parameter(0)
  b = f32[300,401] broadcast(x), dimensions={0}
  v = f32[300,401] broadcast(y), dimensions={1}
  y = f32[401] parameter(1)
  s = f32[300,401] add(b, v)
  c = f32[] constant(3)
  f = f32[100003] broadcast(c), dimensions={}
  t = f32[401,300] transpose(s), dimensions={1,0}
  e = f32[401,300] exponential(t)
  k = f32[401,300] subtract(t, t)
  ROOT r = (f32[300,401], f32[100003], f32[401,300]) tuple(s, f, k)
"
        .replace("  v = f32[300,401] broadcast(y), dimensions={1}\n", "")
        .replace(
            "  s = f32[300,401] add",
            "  v = f32[300,401] broadcast(y), dimensions={1}\n  s = f32[300,401] add",
        )
        .as_str(),
        &[true, true, true],
    );
}

#[test]
fn vector_times_matrix_streams_the_matrix() {
    equal(
        "  x = bf16[1,384] parameter(0)
  w = bf16[384,5000] parameter(1)
  d = bf16[1,5000] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  y = f32[1,131] parameter(2)
  v = f32[131,600] parameter(3)
  e = f32[1,600] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (bf16[1,5000], f32[1,600]) tuple(d, e)
",
        &[false, false],
    );
}

#[test]
fn rows_along_the_contraction_stay_as_they_are() {
    equal(
        "  x = bf16[1,256] parameter(0)
  w = bf16[1009,256] parameter(1)
  d = f32[1,1009] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = bf16[256,640] transpose(w2), dimensions={1,0}
  w2 = bf16[640,256] parameter(2)
  e = bf16[1,640] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[1,1009], bf16[1,640]) tuple(d, e)
"
        .replace("  t = bf16[256,640] transpose(w2), dimensions={1,0}\n", "")
        .replace("  e = bf16", "  t = bf16[256,640] transpose(w2), dimensions={1,0}\n  e = bf16")
        .as_str(),
        &[false, false],
    );
}

/// One head's query against a cache, and its weights against another.
#[test]
fn attention_over_a_cache() {
    equal(
        "  q = bf16[1,6,1,128] parameter(0)
  k = bf16[1,320,6,128] parameter(1)
  v = bf16[1,320,6,128] parameter(2)
  s = bf16[1,6,1,320] dot(q, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, rhs_contracting_dims={3}
  c = bf16[] constant(0.0009765625)
  cb = bf16[1,6,1,320] broadcast(c), dimensions={}
  p = bf16[1,6,1,320] multiply(s, cb)
  o = bf16[1,6,1,128] dot(p, v), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,2}, rhs_contracting_dims={1}
  f = bf16[1,768] reshape(o)
  ROOT r = (bf16[1,6,1,320], bf16[1,768]) tuple(s, f)
",
        &[false, false],
    );
}

#[test]
fn softmax_of_many_heads() {
    equal(
        "  x = f32[1,32,1,640] parameter(0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  m = f32[1,32,1] reduce(x, low), dimensions={3}, to_apply=max
  mr = f32[1,32,1,1] reshape(m)
  mt = f32[1,32,1] reshape(mr)
  mb = f32[1,32,1,640] broadcast(mt), dimensions={0,1,2}
  d = f32[1,32,1,640] subtract(x, mb)
  e = f32[1,32,1,640] exponential(d)
  s = f32[1,32,1] reduce(e, zero), dimensions={3}, to_apply=add
  sb = f32[1,32,1,640] broadcast(s), dimensions={0,1,2}
  ROOT r = f32[1,32,1,640] divide(e, sb)
",
        &[false],
    );
}

#[test]
fn products_of_matrices_in_many_tiles() {
    equal(
        "  x = f32[200,150] parameter(0)
  y = f32[150,700] parameter(1)
  a = f32[200,700] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[3,90,70] parameter(2)
  w = f32[3,40,90] parameter(3)
  b = f32[3,70,40] dot(z, w), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  c = f32[5] parameter(4)
  e = f32[700] parameter(5)
  o = f32[200] dot(a, e), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[200,700], f32[3,70,40], f32[200]) tuple(a, b, o)
",
        &[false, false, false],
    );
}

/// Weights as `[out, in]`, whose rows lie along the contraction: turned on the array.
#[test]
fn products_with_both_operands_along_the_contraction() {
    equal(
        "  x = f32[300,256] parameter(0)
  y = f32[513,256] parameter(1)
  a = f32[300,513] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  z = bf16[8,384] parameter(2)
  w = bf16[1100,384] parameter(3)
  b = bf16[8,1100] dot(z, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  u = bf16[4,40,1009] parameter(4)
  v = bf16[4,60,1009] parameter(5)
  c = f32[4,40,60] dot(u, v), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  ROOT r = (f32[300,513], bf16[8,1100], f32[4,40,60]) tuple(a, b, c)
",
        &[false, false, false],
    );
}

/// A dot that is a static loop, inside a loop and inside a branch.
#[test]
fn rolled_dots_inside_loops_and_branches() {
    let text = format!(
        "HloModule m

{REGIONS}
body {{
  p = (s32[], f32[1,256], f32[256,2048], f32[2048,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1,256] get-tuple-element(p), index=1
  w = f32[256,2048] get-tuple-element(p), index=2
  v = f32[2048,256] get-tuple-element(p), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[] constant(9.5367431640625e-07)
  cb = f32[1,256] broadcast(c), dimensions={{}}
  y = f32[1,2048] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[1,256] dot(y, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  n = f32[1,256] multiply(z, cb)
  ROOT r = (s32[], f32[1,256], f32[256,2048], f32[2048,256]) tuple(j, n, w, v)
}}

cond {{
  p = (s32[], f32[1,256], f32[256,2048], f32[2048,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)
  ROOT r = pred[] compare(i, n), direction=LT
}}

yes {{
  p = (f32[1,256], f32[256,2048]) parameter(0)
  x = f32[1,256] get-tuple-element(p), index=0
  w = f32[256,2048] get-tuple-element(p), index=1
  ROOT y = f32[1,2048] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

no {{
  p = (f32[1,256], f32[256,2048]) parameter(0)
  c = f32[] constant(3)
  ROOT y = f32[1,2048] broadcast(c), dimensions={{}}
}}

ENTRY main {{
  x = f32[1,256] parameter(0)
  w = f32[256,2048] parameter(1)
  v = f32[2048,256] parameter(2)
  q = s32[] parameter(3)
  zero = s32[] constant(0)
  t = (s32[], f32[1,256], f32[256,2048], f32[2048,256]) tuple(zero, x, w, v)
  l = (s32[], f32[1,256], f32[256,2048], f32[2048,256]) while(t), condition=cond, body=body
  o = f32[1,256] get-tuple-element(l), index=1
  five = s32[] constant(5)
  big = pred[] compare(q, five), direction=LT
  u = (f32[1,256], f32[256,2048]) tuple(x, w)
  b = f32[1,2048] conditional(big, u, u), true_computation=yes, false_computation=no
  ROOT r = (f32[1,256], f32[1,2048]) tuple(o, b)
}}
"
    );
    for (seed, unroll_limit) in [(1, 1 << 20), (2, 2), (3, 2), (4, 2), (5, 2)] {
        let options = CompileOptions { unroll_limit, ..CompileOptions::default() };
        match judge_with(&text, &[false, false], seed, &options) {
            Verdict::Equal => {}
            other => panic!("unrolled up to {unroll_limit}: {other:?}"),
        }
    }
}
