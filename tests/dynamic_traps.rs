//! The traps of bounded dynamic shapes (`spec/dynamic_shapes.md 8`), a test that names it for each.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{REGIONS, agree, f32s, fails, program, s32, s32s, same, sizes};
use murre::array::HostArray;
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::eval::evaluate;
use murre::systems::CompileOptions;
use support::{Lcg, compiled, module, simulated, try_simulated};

#[test]
fn t1_what_has_no_rule_is_named_all_of_it() {
    let text = "ENTRY e { x = f32[<=4,4] parameter(0) n = s32[] parameter(1) y = f32[4] parameter(2) w = f32[<=24] parameter(3)
  a = f32[<=4,4] cholesky(x), lower=true
  b = f32[4] set-dimension-size(y, n), dimensions={0}
  c = f32[<=4,<=6] reshape(w)
  ROOT r = (f32[<=4,4], f32[4], f32[<=4,<=6]) tuple(a, b, c) }";
    let module =
        murre::hlo::read_module(format!("HloModule m\n{REGIONS}{text}").as_bytes(), "m").expect("a module");
    let outcome = murre::systems::compile(module, CompileOptions::default());
    assert!(outcome.program.is_none());
    let named: Vec<_> = outcome.diagnostics.iter().map(|d| (d.code.id, d.instruction.as_deref())).collect();
    assert_eq!(named, [("MUR0406", Some("a")), ("MUR0406", Some("b")), ("MUR0406", Some("c"))]);
    assert!(outcome.diagnostics[0].message.contains("dimension 0"), "{}", outcome.diagnostics[0].message);
}

#[test]
fn t1_a_size_that_the_declared_type_hides_is_refused() {
    let text = "HloModule m ENTRY e { x = f32[10] parameter(0) i = s32[<=6] parameter(1)
  ROOT g = f32[6] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1} }";
    let outcome = murre::systems::compile(module(text), CompileOptions::default());
    let named: Vec<_> = outcome.diagnostics.iter().map(|d| (d.code.id, d.instruction.as_deref())).collect();
    assert_eq!(named, [("MUR0406", Some("g"))]);
}

#[test]
fn t2_an_initial_value_that_is_not_neutral_is_folded_in_for_every_element_behind_the_size() {
    let text = "ENTRY e { x = f32[<=4] parameter(0) i = f32[] constant(5)
  ROOT s = f32[] reduce(x, i), dimensions={0}, to_apply=add }";
    let array = HostArray {
        ty: HloType::F32,
        dims: vec![2],
        data: [1.0f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    let results = agree(text, &[vec![array]]);
    assert_eq!(f32::from_bits(results[0][0].bits(0) as u32), 18.0);
}

#[test]
fn t3_two_sizes_stretch_or_cut() {
    let text = "ENTRY e { x = f32[<=6] parameter(0) y = f32[<=6] parameter(1)
  a = f32[<=6] subtract(x, y)
  n = s32[] get-dimension-size(a), dimensions={0}
  ROOT r = (f32[<=6], s32[]) tuple(a, n) }";
    let mut rng = Lcg(4);
    let pairs = [(1, 5), (5, 1), (3, 4), (0, 1), (6, 6), (1, 1), (2, 0)];
    let vectors: Vec<_> = pairs.map(|(n, m)| vec![f32s(&[n], &mut rng), f32s(&[m], &mut rng)]).to_vec();
    let results = agree(text, &vectors);
    let extents: Vec<u64> = results.iter().map(|r| r[0].dims[0]).collect();
    assert_eq!(extents, [5, 5, 3, 0, 6, 1, 0]);
    // A select or a map cuts as well, but stretches nothing.
    let text = "sub { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] subtract(a, b) }
ENTRY e { x = f32[<=6] parameter(0) y = f32[<=6] parameter(1) p = pred[<=6] parameter(2)
  s = f32[<=6] select(p, x, y)
  m = f32[<=6] map(x, y), dimensions={0}, to_apply=sub
  ROOT r = (f32[<=6], f32[<=6]) tuple(s, m) }";
    let flags =
        |n: u64| HostArray { ty: HloType::Pred, dims: vec![n], data: (0..n).map(|k| k as u8 & 1).collect() };
    let of = |n, m, k, rng: &mut Lcg| vec![f32s(&[n], rng), f32s(&[m], rng), flags(k)];
    let results = agree(text, &[of(3, 5, 4, &mut rng), of(6, 6, 6, &mut rng), of(0, 2, 1, &mut rng)]);
    assert_eq!(results[0][0].dims, [3]);
    fails(text, &of(5, 5, 1, &mut rng), "MUR0712", "s");
    fails(text, &of(1, 5, 4, &mut rng), "MUR0712", "s");
}

#[test]
fn t4_starts_are_clamped_by_bounds() {
    let text = "ENTRY e { x = f32[<=4,2] parameter(0) i = s32[] parameter(1) u = f32[<=2,2] parameter(2)
  z = s32[] constant(0)
  d = f32[<=4,2] dynamic-update-slice(x, u, i, z)
  s = f32[1,2] dynamic-slice(x, z, z), dynamic_slice_sizes={1,2}
  ROOT r = (f32[<=4,2], f32[1,2]) tuple(d, s) }";
    let mut rng = Lcg(5);
    let mut vectors = Vec::new();
    for (n, i, m) in [(4, 0, 2), (3, 7, 1), (4, 1, 1), (2, 0, 0), (4, 2, 2)] {
        vectors.push(vec![f32s(&[n, 2], &mut rng), s32(i), f32s(&[m, 2], &mut rng)]);
    }
    agree(text, &vectors);
}

#[test]
fn t5_a_slice_counts_from_its_start_whatever_its_limit() {
    let text = "ENTRY e { x = f32[<=5] parameter(0)
  s = f32[<=3] slice(x), slice={[0:3]}
  t = f32[<=2] slice(x), slice={[2:4]}
  u = f32[<=2] slice(x), slice={[1:5:2]}
  n = s32[] get-dimension-size(s), dimensions={0}
  m = s32[] get-dimension-size(t), dimensions={0}
  k = s32[] get-dimension-size(u), dimensions={0}
  ROOT r = (f32[<=3], f32[<=2], f32[<=2], s32[], s32[], s32[]) tuple(s, t, u, n, m, k) }";
    let results = agree(text, &sizes(5, &[])[2..]);
    assert_eq!(results[2][3].bits(0), 5);
    // Where the start is behind the size, the size is negative.
    for vector in &sizes(5, &[])[..2] {
        fails(text, vector, "MUR0711", "t");
    }
}

#[test]
fn t6_windows_are_counted_without_padding() {
    let text = "ENTRY e { x = f32[<=8] parameter(0) z = f32[] constant(0)
  w = f32[<=8] reduce-window(x, z), window={size=3 pad=2_0}, to_apply=add
  v = f32[<=4] reduce-window(x, z), window={size=2 stride=2}, to_apply=add
  n = s32[] get-dimension-size(w), dimensions={0}
  ROOT r = (f32[<=8], f32[<=4], s32[]) tuple(w, v, n) }";
    let results = agree(text, &sizes(8, &[]));
    assert_eq!(results[2][2].bits(0), 2);
}

#[test]
fn t7_padding_may_cut() {
    let text = "ENTRY e { x = f32[<=6] parameter(0) z = f32[] constant(9)
  p = f32[<=5] pad(x, z), padding=-2_1
  n = s32[] get-dimension-size(p), dimensions={0}
  ROOT r = (f32[<=5], s32[]) tuple(p, n) }";
    agree(text, &sizes(6, &[])[1..]);
    fails(text, &sizes(6, &[])[0], "MUR0711", "p");
}

#[test]
fn t8_a_bound_that_no_size_reaches_is_refused() {
    let text = "HloModule m ENTRY e { x = s8[<=3000000000] parameter(0) ROOT y = s8[<=3000000000] copy(x) }";
    let outcome = murre::systems::compile(module(text), CompileOptions::default());
    assert!(outcome.program.is_none() && outcome.diagnostics.iter().all(|d| d.code.id == "MUR0406"));
}

#[test]
fn t9_sizes_are_known_in_loops_and_conditions() {
    let text = "body { t = (s32[], f32[<=8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0  x = f32[<=8] get-tuple-element(t), index=1
  one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[<=8] set-dimension-size(x, j), dimensions={0}
  ROOT r = (s32[], f32[<=8]) tuple(j, y) }
cond { t = (s32[], f32[<=8]) parameter(0) x = f32[<=8] get-tuple-element(t), index=1
  n = s32[] get-dimension-size(x), dimensions={0} m = s32[] constant(6)
  ROOT c = pred[] compare(n, m), direction=LT }
ENTRY e { x = f32[<=8] parameter(0) n = s32[] get-dimension-size(x), dimensions={0}
  z = f32[] constant(1) f = f32[8] broadcast(z), dimensions={}
  g = f32[<=8] set-dimension-size(f, n), dimensions={0}
  t = (s32[], f32[<=8]) tuple(n, g)
  w = (s32[], f32[<=8]) while(t), condition=cond, body=body
  y = f32[<=8] get-tuple-element(w), index=1
  i = s32[] get-tuple-element(w), index=0
  ROOT r = (f32[<=8], s32[]) tuple(y, i) }";
    agree(text, &sizes(8, &[]));
}

#[test]
fn t10_every_operand_is_padded_in_its_own_type() {
    let mut rng = Lcg(12);
    let text = "ENTRY e { x = f32[<=6,3,4] parameter(0) k = f32[2,4,5] parameter(1) d = s32[<=6] parameter(2) w = f32[<=4,2] parameter(3)
  c = f32[<=6,2,5] convolution(x, k), window={size=2}, dim_labels=b0f_0io->b0f
  i = s32[<=6] negate(d)
  h = bf16[<=6] convert(d)
  z = bf16[] constant(0)
  s = bf16[] reduce(h, z), dimensions={0}, to_apply=addh
  p = pred[<=6] compare(d, i), direction=GT
  t = pred[] constant(false)
  o = pred[] reduce(p, t), dimensions={0}, to_apply=or
  f = f32[<=6] convert(d)
  g = s8[<=6] convert(d)
  m = f32[<=4] slice(f), slice={[0:4]}
  e = f32[2] dot(w, w2), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[<=6,2,5], bf16[], pred[], s8[<=6], f32[2]) tuple(c, s, o, g, e) }"
        .replace("  m = f32[<=4] slice(f), slice={[0:4]}\n", "  w2 = f32[4] constant({1,2,3,4})\n");
    let regions = "addh { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT s = bf16[] add(a, b) }
or { a = pred[] parameter(0) b = pred[] parameter(1) ROOT s = pred[] or(a, b) }
";
    let mut vectors = Vec::new();
    for (n, m) in [(0, 4), (1, 0), (5, 3), (6, 1)] {
        let values: Vec<i32> = (0..n).map(|_| rng.below(20) as i32 - 10).collect();
        vectors.push(vec![
            f32s(&[n, 3, 4], &mut rng),
            f32s(&[2, 4, 5], &mut rng),
            s32s(&[n], &values),
            f32s(&[m, 2], &mut rng),
        ]);
    }
    agree(&format!("{regions}{text}"), &vectors);
}

#[test]
fn t11_the_chosen_elements_are_live_ones() {
    let text =
        "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
ENTRY e { x = f32[8,4] parameter(0) n = s32[] parameter(1) y = f32[4,4] parameter(2) z = f32[] constant(0)
  d = f32[8,<=4] set-dimension-size(x, n), dimensions={1}
  u = f32[4,<=4] set-dimension-size(y, n), dimensions={1}
  s = f32[8,<=4] select-and-scatter(d, u, z), window={size=2x1 stride=2x1}, select=ge, scatter=add
  ROOT r = f32[8] reduce(s, z), dimensions={1}, to_apply=add }";
    let module = program(text);
    let (mut rng, compiled) = (Lcg(13), compiled(&module, Target::Trn2));
    let (x, y) = (f32s(&[8, 4], &mut rng), f32s(&[4, 4], &mut rng));
    for n in [0, 1, 3, 4] {
        // The same on arrays that are cut to begin with.
        let fixed = text
            .replace("<=4", &n.to_string())
            .replace("set-dimension-size(x, n), dimensions={1}", "slice(x), slice={[0:8],[0:N]}")
            .replace("set-dimension-size(y, n), dimensions={1}", "slice(y), slice={[0:4],[0:N]}")
            .replace("[0:N]", &format!("[0:{n}]"));
        let inputs = [x.clone(), s32(n), y.clone()];
        let want = evaluate(&program(&fixed), &inputs).expect("results");
        same(&format!("size {n}"), &simulated(&compiled, &inputs, Some(3)), &want);
    }
}

#[test]
fn t12_updates_behind_a_size_are_dropped() {
    let text = "ENTRY e { x = f32[10,3] parameter(0) i = s32[<=6] parameter(1) u = f32[<=6,3] parameter(2)
  s = f32[10,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  g = f32[<=6,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
  ROOT r = (f32[10,3], f32[<=6,3]) tuple(s, g) }";
    let mut rng = Lcg(6);
    let mut vectors = Vec::new();
    for n in [0, 1, 5, 6] {
        let indices: Vec<i32> = (0..n).map(|_| rng.below(12) as i32 - 1).collect();
        vectors.push(vec![f32s(&[10, 3], &mut rng), s32s(&[n], &indices), f32s(&[n, 3], &mut rng)]);
    }
    agree(text, &vectors);
}

#[test]
fn t13_each_input_of_a_reduction_is_padded_by_its_own_size() {
    let text =
        "two { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
  p = pred[] compare(a, c), direction=GE v = f32[] select(p, a, c) i = s32[] select(p, b, d)
  ROOT t = (f32[], s32[]) tuple(v, i) }
ENTRY e { x = f32[3,<=7] parameter(0) n = s32[] get-dimension-size(x), dimensions={1}
  j = s32[3,7] iota(), iota_dimension=1 k = s32[3,<=7] set-dimension-size(j, n), dimensions={1}
  low = f32[] constant(-inf) none = s32[] constant(-1)
  ROOT r = (f32[3], s32[3]) reduce(x, k, low, none), dimensions={1}, to_apply=two }";
    let mut rng = Lcg(14);
    let vectors: Vec<_> = [0, 1, 4, 7].map(|n| vec![f32s(&[3, n], &mut rng)]).to_vec();
    agree(text, &vectors);
}

#[test]
fn t14_sizes_travel_through_nested_tuples_loops_and_conditionals() {
    let text = "tb { t = (f32[<=8], (s32[], f32[<=4,2])) parameter(0) ROOT x = f32[<=8] get-tuple-element(t), index=0 }
fb { y = f32[<=8] parameter(0) two = s32[] constant(2) ROOT z = f32[<=8] set-dimension-size(y, two), dimensions={0} }
sb { y = f32[8] parameter(0) ROOT c = f32[8] copy(y) }
body { t = (s32[], (f32[<=8], f32[<=4,2])) parameter(0)
  i = s32[] get-tuple-element(t), index=0  p = (f32[<=8], f32[<=4,2]) get-tuple-element(t), index=1
  x = f32[<=8] get-tuple-element(p), index=0 y = f32[<=4,2] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one)
  x2 = f32[<=8] add(x, x) y2 = f32[<=4,2] multiply(y, y)
  q = (f32[<=8], f32[<=4,2]) tuple(x2, y2) ROOT r = (s32[], (f32[<=8], f32[<=4,2])) tuple(j, q) }
cond { t = (s32[], (f32[<=8], f32[<=4,2])) parameter(0) i = s32[] get-tuple-element(t), index=0
  p = (f32[<=8], f32[<=4,2]) get-tuple-element(t), index=1 y = f32[<=4,2] get-tuple-element(p), index=1
  n = s32[] get-dimension-size(y), dimensions={0} ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[<=8] parameter(0) y = f32[<=4,2] parameter(1) k = s32[] parameter(2)
  zero = s32[] constant(0) p = (f32[<=8], f32[<=4,2]) tuple(x, y)
  t = (s32[], (f32[<=8], f32[<=4,2])) tuple(zero, p)
  w = (s32[], (f32[<=8], f32[<=4,2])) while(t), condition=cond, body=body
  q = (f32[<=8], f32[<=4,2]) get-tuple-element(w), index=1
  x3 = f32[<=8] get-tuple-element(q), index=0 y3 = f32[<=4,2] get-tuple-element(q), index=1
  u = (s32[], f32[<=4,2]) tuple(k, y3) v = (f32[<=8], (s32[], f32[<=4,2])) tuple(x3, u)
  one = f32[] constant(1) s = f32[8] broadcast(one), dimensions={}
  c = f32[<=8] conditional(k, v, x3, s), branch_computations={tb, fb, sb}
  ROOT r = (f32[<=8], f32[<=4,2]) tuple(c, y3) }";
    let mut rng = Lcg(8);
    let mut vectors = Vec::new();
    for (n, m, k) in [(8, 4, 0), (3, 0, 1), (0, 2, 0), (7, 3, 2), (5, 1, 1)] {
        vectors.push(vec![f32s(&[n], &mut rng), f32s(&[m, 2], &mut rng), s32(k)]);
    }
    agree(text, &vectors);
}

#[test]
fn t15_a_tuple_of_one_is_a_state() {
    let text = "body { t = (f32[<=8]) parameter(0) x = f32[<=8] get-tuple-element(t), index=0
  n = s32[] get-dimension-size(x), dimensions={0} one = s32[] constant(1) m = s32[] subtract(n, one)
  y = f32[<=8] set-dimension-size(x, m), dimensions={0} ROOT r = (f32[<=8]) tuple(y) }
cond { t = (f32[<=8]) parameter(0) x = f32[<=8] get-tuple-element(t), index=0
  n = s32[] get-dimension-size(x), dimensions={0} z = s32[] constant(2) ROOT c = pred[] compare(n, z), direction=GT }
ENTRY e { x = f32[<=8] parameter(0) t = (f32[<=8]) tuple(x)
  w = (f32[<=8]) while(t), condition=cond, body=body ROOT y = f32[<=8] get-tuple-element(w), index=0 }";
    let results = agree(text, &sizes(8, &[]));
    let extents: Vec<u64> = results.iter().map(|r| r[0].dims[0]).collect();
    assert_eq!(extents, [0, 1, 2, 2, 2]);
}

#[test]
fn t16_dead_code_is_not_refused() {
    let text = "unused { x = f32[<=8,8] parameter(0) ROOT dead = f32[<=8,8] cholesky(x), lower=true }
ENTRY e { x = f32[<=8,8] parameter(0)
  dead = s16[<=8,8,2] bitcast-convert(x)
  ROOT y = f32[<=8,8] negate(x) }";
    agree(text, &sizes(8, &[8]));
}

#[test]
fn t18_a_size_outside_its_bound_is_a_fault_of_the_run() {
    let text = "body { t = (s32[], f32[<=8], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0 x = f32[<=8] get-tuple-element(t), index=1
  k = s32[] get-tuple-element(t), index=2
  one = s32[] constant(1) j = s32[] add(i, one) n = s32[] get-dimension-size(x), dimensions={0}
  m = s32[] add(n, k) grown = f32[<=8] set-dimension-size(x, m), dimensions={0}
  ROOT r = (s32[], f32[<=8], s32[]) tuple(j, grown, k) }
cond { t = (s32[], f32[<=8], s32[]) parameter(0) i = s32[] get-tuple-element(t), index=0
  m = s32[] constant(3) ROOT c = pred[] compare(i, m), direction=LT }
ENTRY e { x = f32[8] parameter(0) n = s32[] parameter(1) k = s32[] parameter(2) z = s32[] constant(0)
  d = f32[<=8] set-dimension-size(x, n), dimensions={0}
  t = (s32[], f32[<=8], s32[]) tuple(z, d, k)
  w = (s32[], f32[<=8], s32[]) while(t), condition=cond, body=body
  ROOT y = f32[<=8] get-tuple-element(w), index=1 }";
    let x = f32s(&[8], &mut Lcg(10));
    agree(text, &[vec![x.clone(), s32(2), s32(2)], vec![x.clone(), s32(3), s32(-1)]]);
    for (n, k, at) in [(9, 0, "d"), (4, 2, "grown"), (1, -1, "grown")] {
        fails(text, &[x.clone(), s32(n), s32(k)], "MUR0711", at);
    }
    let program = compiled(&program(text), Target::Trn2);
    for (n, k, at, size) in [(9, 0, "d", 9), (-1, 0, "d", -1), (4, 2, "grown", 10), (1, -1, "grown", -1)] {
        let fault = try_simulated(&program, &[x.clone(), s32(n), s32(k)], Some(1)).expect_err("a fault");
        assert_eq!((fault.code.id, fault.instruction.as_deref()), ("MUR0711", Some(at)));
        assert_eq!(fault.found, Some(size.to_string()));
    }
    // A parameter's extent is looked at before the run.
    let program = compiled(
        &module("HloModule m ENTRY e { x = f32[<=8] parameter(0) ROOT y = f32[<=8] negate(x) }"),
        Target::Trn2,
    );
    let fault = try_simulated(&program, &[f32s(&[9], &mut Lcg(1))], None).expect_err("a fault");
    assert_eq!(fault.code.id, "MUR0122");
}

#[test]
fn t22_growing_a_size_shows_what_is_there() {
    let text = "ENTRY e { x = f32[6] parameter(0) n = s32[] parameter(1) m = s32[] parameter(2)
  a = f32[<=6] set-dimension-size(x, n), dimensions={0}
  ROOT b = f32[<=6] set-dimension-size(a, m), dimensions={0} }";
    let x = f32s(&[6], &mut Lcg(9));
    agree(text, &[vec![x.clone(), s32(2), s32(5)], vec![x, s32(6), s32(0)]]);
}

#[test]
fn t17_nothing_is_legal_everywhere() {
    let text = "ENTRY e { x = f32[<=4,3] parameter(0) y = f32[<=4,3] parameter(1) z = f32[] constant(7)
  s = f32[3] reduce(x, z), dimensions={0}, to_apply=max
  v = f32[<=4,3] reverse(x), dimensions={0}
  o = f32[<=4,3] sort(x), dimensions={0}, to_apply=lt
  c = f32[<=8,3] concatenate(x, y), dimensions={0}
  f = f32[<=12] reshape(x)
  g = f32[3,3] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[3], f32[<=4,3], f32[<=4,3], f32[<=8,3], f32[<=12], f32[3,3]) tuple(s, v, o, c, f, g) }";
    let mut rng = Lcg(17);
    let pairs = [(0, 0), (0, 4), (4, 0), (1, 3)];
    let results = agree(text, &pairs.map(|(n, m)| vec![f32s(&[n, 3], &mut rng), f32s(&[m, 3], &mut rng)]));
    assert_eq!(results[0].iter().map(|a| a.dims[0]).collect::<Vec<_>>(), [3, 0, 0, 0, 0, 3]);
}

#[test]
fn t19_buffers_hold_the_bound_and_sizes_are_values_of_their_own() {
    let text = "ENTRY e { x = s8[<=5,<=3] parameter(0) ROOT y = (s8[<=5,<=3], s8[<=5,<=3]) tuple(x, x) }";
    let program = compiled(&program(text), Target::Trn2);
    // Nothing stands behind the elements of an array; each dynamic dimension is a scalar at the end of the list.
    let inputs: Vec<_> = program.inputs().map(|s| (s.ty, s.dims.clone())).collect();
    assert_eq!(inputs, [(HloType::S8, vec![5, 3]), (HloType::S32, vec![]), (HloType::S32, vec![])]);
    let outputs: Vec<_> = program.outputs().map(|s| s.dims.len()).collect();
    assert_eq!(outputs, [2, 2, 0, 0, 0, 0]);
    assert_eq!((program.visible_inputs().count(), program.visible_outputs().count()), (1, 2));
}

#[test]
fn t20_bounds_may_be_followed_by_blanks() {
    let text = "ENTRY e { x = f32[<=4  ,2] parameter(0) ROOT y = f32[<=4 ,2] negate(x) }";
    agree(text, &sizes(4, &[2]));
    let stuck = "HloModule m ENTRY e { x = f32[<=4] parameter(0) ROOT y= f32[<=4] negate(x) }";
    assert!(murre::hlo::read_module(stuck.as_bytes(), "m").is_err());
}

#[test]
fn t21_a_reshape_keeps_the_dimension_that_is_to_be_inferred() {
    let text =
        "ENTRY e { x = f32[<=24] parameter(0) ROOT y = f32[<=4,<=6] reshape(x), inferred_dimension=0 }";
    let text = text.replace("[<=4,<=6]", "[<=4,6]");
    let mut rng = Lcg(21);
    let results = agree(&text, &[0, 6, 18, 24].map(|n| vec![f32s(&[n], &mut rng)]));
    assert_eq!(results[2][0].dims, [3, 6]);
    // The text that is printed says it, too.
    let printed = murre::hlo::print_module(&program(&text));
    assert!(printed.contains("inferred_dimension=0"), "{printed}");
}
