//! Operations that stage `legalize` writes out, and programs that once went wrong, on the simulator against the evaluator,
//! bit by bit.

mod support;

use support::{compiled, module, simulate_and_evaluate};

const SUM: &str = "sum { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }";

fn equal(text: &str) {
    simulate_and_evaluate(text, 11);
}

#[test]
fn a_reduction_by_no_known_combination_runs_in_order() {
    equal(
        "HloModule m
f { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] multiply(b, b) ROOT r = s32[] add(a, c) }
g { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] subtract(a, b) }
ENTRY e { x = s32[3,7] parameter(0) z = s32[] constant(2)
  p = s32[3] reduce(x, z), dimensions={1}, to_apply=f
  q = s32[7] reduce(x, z), dimensions={0}, to_apply=g
  w = s32[3,4] reduce-window(x, z), window={size=1x4}, to_apply=g
  ROOT r = (s32[3], s32[7], s32[3,4]) tuple(p, q, w) }",
    );
}

#[test]
fn a_choice_by_what_was_summed_up_runs_in_order() {
    equal(
        "HloModule m
f { a = s32[] parameter(0) i = s32[] parameter(1) b = s32[] parameter(2) j = s32[] parameter(3)
  x = s32[] xor(a, b) gt = pred[] compare(a, b), direction=GT k = s32[] select(gt, i, j)
  ROOT r = (s32[], s32[]) tuple(x, k) }
ENTRY e { x = s32[9,4] parameter(0) i = s32[9,4] parameter(1) z = s32[] constant(1) w = s32[] constant(6)
  ROOT r = (s32[4], s32[4]) reduce(x, i, z, w), dimensions={0}, to_apply=f }",
    );
}

#[test]
fn the_first_of_several_nans_is_the_largest() {
    equal(
        "HloModule m
f { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  gt = pred[] compare(a, b), direction=GT odd = pred[] compare(a, a), direction=NE left = pred[] or(gt, odd)
  eq = pred[] compare(a, b), direction=EQ lt = pred[] compare(i, j), direction=LT tie = pred[] and(eq, lt)
  first = pred[] or(left, tie) v = f32[] select(left, a, b) k = s32[] select(first, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }
ENTRY e { x = f32[9] constant({1, 5, nan, 3, 9, nan, 9, nan, 2}) i = s32[9] iota(), iota_dimension=0
  low = f32[] constant(-inf) zero = s32[] constant(0)
  ROOT r = (f32[], s32[]) reduce(x, i, low, zero), dimensions={0}, to_apply=f }",
    );
}

#[test]
fn padding_does_not_count_in_a_window() {
    equal(&format!(
        "HloModule m {SUM}
ENTRY e {{ x = s32[8] parameter(0) two = s32[] constant(2)
  a = s32[8] reduce-window(x, two), window={{size=3 pad=1_1}}, to_apply=sum
  b = s32[15] reduce-window(x, two), window={{size=2 lhs_dilate=2 pad=1_0}}, to_apply=sum
  ROOT r = (s32[8], s32[15]) tuple(a, b) }}"
    ));
}

#[test]
fn integer_powers_and_narrow_types() {
    equal(
        "HloModule m
ENTRY e { a = s32[40] parameter(0) b = s32[40] parameter(1) three = s32[] constant(3) t = s32[40] broadcast(three), dimensions={}
  p = s32[40] power(a, t) q = s32[40] power(t, b) c = s8[40] convert(a) d = s8[40] convert(b)
  s = s8[40] power(c, d) u = u8[40] convert(a) v = u8[40] convert(b) w = u8[40] divide(u, v)
  x = s8[40] shift-right-logical(c, d) y = s16[300] iota(), iota_dimension=0 z = s8[300] iota(), iota_dimension=0
  ROOT r = (s32[40], s32[40], s8[40], u8[40], s8[40], s16[300], s8[300]) tuple(p, q, s, w, x, y, z) }",
    );
}

#[test]
fn sorting_and_picking() {
    equal(
        "HloModule m
c { a = f8e4m3fn[] parameter(0) b = f8e4m3fn[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }
ENTRY e { x = f32[3,70] parameter(0) k = s32[3,70] iota(), iota_dimension=1 y = f8e4m3fn[3,70] convert(x)
  s = (f8e4m3fn[3,70], s32[3,70]) sort(y, k), dimensions={1}, is_stable=true, to_apply=c
  t = (f32[3,4], s32[3,4]) topk(x), k=4, largest=true
  u = (f32[3,4], s32[3,4]) topk(x), k=4, largest=false
  v = (f32[3,60], s32[3,60]) topk(x), k=60, largest=true
  a = s32[3,70] get-tuple-element(s), index=1
  ROOT r = (s32[3,70], (f32[3,4], s32[3,4]), (f32[3,4], s32[3,4]), (f32[3,60], s32[3,60])) tuple(a, t, u, v) }",
    );
}

#[test]
fn one_device_and_calls_by_other_names() {
    equal(&format!(
        "HloModule m {SUM}
twice {{ p = s32[6] parameter(0) ROOT d = s32[6] add(p, p) }}
ENTRY e {{ x = s32[6] parameter(0) a = s32[6] all-reduce(x), to_apply=sum
  b = s32[6] custom-call(a), custom_call_target=\"Sharding\"
  c = s32[6] map(a, b), dimensions={{0}}, to_apply=sum
  f = s32[6] fusion(c), kind=kLoop, calls=twice
  n = s32[] get-dimension-size(f), dimensions={{0}} i = u32[] replica-id()
  ROOT r = (s32[6], s32[], u32[]) tuple(f, n, i) }}"
    ));
}

#[test]
fn rows_are_gathered_and_scattered_by_any_index_type() {
    for ty in ["s32", "u8", "s16", "u32", "s64", "s8"] {
        equal(&format!(
            "HloModule m {SUM}
set {{ a = s32[] parameter(0) ROOT b = s32[] parameter(1) }}
ENTRY e {{ x = s32[9,5] parameter(0) i = {ty}[7] parameter(1) u = s32[7,5] parameter(2)
  g = s32[7,5] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,5}}
  w = s32[7,2,3] gather(x, i), offset_dims={{1,2}}, collapsed_slice_dims={{}}, start_index_map={{1}}, index_vector_dim=1, slice_sizes={{2,3}}
  a = s32[9,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=sum
  b = s32[9,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=set
  ROOT r = (s32[7,5], s32[7,2,3], s32[9,5], s32[9,5]) tuple(g, w, a, b) }}"
        ));
    }
}

/// Wide rows in two types: what fits as bf16 does not as f32 in the same layout.
#[test]
fn a_wide_result_changes_its_layout_with_its_type() {
    let text = "HloModule m ENTRY e { x = bf16[2,128] parameter(0) w = bf16[128,14336] parameter(1)
  d = bf16[2,14336] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[2,14336] convert(d) t = f32[2,14336] tanh(f) ROOT r = bf16[2,14336] convert(t) }";
    assert!(!compiled(&module(text), murre::components::engine::Target::Trn2).vars.is_empty());
}

/// Many small carried tensors: more than SBUF holds along one partition.
#[test]
fn a_loop_that_carries_many_caches_compiles() {
    let n = 24;
    let cache = "bf16[1,2,64,64]";
    let carry = std::iter::repeat_n(cache, n).collect::<Vec<_>>().join(", ");
    let mut body = format!(
        "p = (s32[], {carry}) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) zero = s32[] constant(0) j = s32[] add(i, one)\n"
    );
    for k in 1..=n {
        body += &format!(
            " c{k} = {cache} get-tuple-element(p), index={k} sl{k} = bf16[1,2,1,64] dynamic-slice(c{k}, zero, zero, i, zero), dynamic_slice_sizes={{1,2,1,64}}\n a{k} = bf16[1,2,1,64] add(sl{k}, sl{k}) up{k} = {cache} dynamic-update-slice(c{k}, a{k}, zero, zero, j, zero)\n"
        );
    }
    let list = |p: &str| (1..=n).map(|k| format!("{p}{k}")).collect::<Vec<_>>().join(", ");
    let parameters: String = (1..=n).map(|k| format!(" q{k} = {cache} parameter({})\n", k - 1)).collect();
    let text = format!(
        "HloModule m
cond {{ p = (s32[], {carry}) parameter(0) i = s32[] get-tuple-element(p), index=0 t = s32[] constant(5) ROOT c = pred[] compare(i, t), direction=LT }}
body {{ {body} ROOT r = (s32[], {carry}) tuple(j, {}) }}
ENTRY e {{\n{parameters} z = s32[] constant(0) t = (s32[], {carry}) tuple(z, {})
  w = (s32[], {carry}) while(t), condition=cond, body=body
  ROOT o = {cache} get-tuple-element(w), index={n} }}",
        list("up"),
        list("q"),
    );
    equal(&text);
}

#[test]
fn a_bitcast_keeps_the_bytes_where_the_layouts_have_them() {
    equal(
        "HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] bitcast(a) j = s32[] bitcast(b) ROOT r = pred[] compare(i, j), direction=LT }
ENTRY e { x = f32[2,3,5]{2,1,0} parameter(0) y = f32[7] parameter(1) n = s32[] parameter(2)
  a = f32[3,5,2]{1,0,2} bitcast(x) b = f32[6,5]{0,1} bitcast(x) c = s32[5,2,3]{0,2,1} bitcast(x)
  t = f32[5,3,2]{0,1,2} transpose(x), dimensions={2,1,0} d = f32[30]{0} bitcast(t)
  s = f32[7] sort(y), dimensions={0}, to_apply=less
  f = f32[] bitcast(n) g = u32[] bitcast(f)
  ROOT r = (f32[3,5,2], f32[6,5], s32[5,2,3], f32[30], f32[7], u32[]) tuple(a, b, c, d, s, g) }",
    );
}

#[test]
fn top_k_of_nothing_and_no_k_at_all() {
    equal(
        "HloModule m
ENTRY e { x = f32[0,40] parameter(0) y = f32[3,40] parameter(1)
  a = (f32[0,3], s32[0,3]) topk(x), k=3, largest=true b = (f32[3,0], s32[3,0]) topk(y), k=0, largest=false
  v = f32[0,3] get-tuple-element(a), index=0 i = s32[0,3] get-tuple-element(a), index=1
  w = f32[3,0] get-tuple-element(b), index=0 j = s32[3,0] get-tuple-element(b), index=1
  ROOT r = (f32[0,3], s32[0,3], f32[3,0], s32[3,0], f32[3,40]) tuple(v, i, w, j, y) }",
    );
}
