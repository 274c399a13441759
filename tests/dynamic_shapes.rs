//! Bounded dynamic dimensions: programs are computed by the evaluator, by the evaluator after stages `dynamic_shape` and
//! `legalize`, and by the simulator, with every size that matters and with garbage behind the live part of the inputs. Each
//! trap of `spec/dynamic_shapes.md 8` has a test that names it.

mod support;

use murre::array::HostArray;
use murre::array::compare::{Tolerance, compare};
use murre::check::boundary::{resized, to_device, to_host, visible};
use murre::components::diag::Diagnostics;
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::components::hlo::HloModule;
use murre::components::program::Extents;
use murre::eval::evaluate;
use murre::sim::{SimOptions, run};
use murre::systems::{CompileOptions, Compiler, Stage};
use support::{Lcg, compiled, module, simulated, try_simulated};

const REGIONS: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
set { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] copy(b) }
";

fn program(text: &str) -> HloModule {
    module(&format!("HloModule m\n{REGIONS}{text}"))
}

fn f32s(dims: &[u64], rng: &mut Lcg) -> HostArray {
    let n = dims.iter().product::<u64>();
    let data = (0..n).flat_map(|_| ((rng.below(200) as f32 - 100.0) / 4.0).to_le_bytes()).collect();
    HostArray { ty: HloType::F32, dims: dims.to_vec(), data }
}

fn s32s(dims: &[u64], values: &[i32]) -> HostArray {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostArray { ty: HloType::S32, dims: dims.to_vec(), data }
}

fn s32(value: i32) -> HostArray {
    s32s(&[], &[value])
}

fn same(what: &str, got: &[HostArray], want: &[HostArray]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        let close = Tolerance::Close { rtol: 1e-5, atol: 1e-4 };
        let tolerance = if w.ty == HloType::F32 { close } else { Tolerance::Exact };
        if let Err(m) = compare(g, w, &tolerance) {
            panic!("{what}, result {k}: {} ({:?} of {:?})", m.message, g, w);
        }
    }
}

/// The arrays at the bounds of the rewritten parameters, all bits set behind the live part, then the extents.
fn at_bounds(module: &HloModule, extents: &Extents, inputs: &[HostArray]) -> Vec<HostArray> {
    let mut all = Vec::new();
    for (p, array) in module.entry_comp().parameters.iter().zip(inputs) {
        let shape = module.inst(*p).shape().array().expect("an array");
        let bounds: Vec<u64> = shape.dims.iter().map(|d| *d as u64).collect();
        let mut wide = resized(array, &bounds);
        let live = resized(&HostArray { data: vec![0xff; array.data.len()], ..array.clone() }, &bounds);
        wide.data.iter_mut().zip(&live.data).for_each(|(byte, live)| *byte |= !live);
        all.push(wide);
    }
    let extent = |e: &murre::components::program::Extent| {
        s32(inputs[e.array as usize].dims[e.dimension as usize] as i32)
    };
    all.extend(extents.inputs.iter().map(extent));
    all
}

/// The module after the stages that rewrite HLO.
fn rewritten(module: &HloModule) -> (HloModule, Extents) {
    let mut compiler = Compiler::new(module.clone(), CompileOptions::default());
    compiler.run(&[Stage::DynamicShape, Stage::Legalize, Stage::Simplify]);
    let faults = compiler.world.resource::<Diagnostics>().take();
    assert!(faults.is_empty(), "{faults:#?}");
    let module: HloModule = compiler.world.remove_resource().expect("the module");
    let faults = murre::hlo::verify(&module);
    assert!(faults.is_empty(), "{faults:#?}\n{}", murre::hlo::print_module(&module));
    (module, compiler.world.remove_resource().unwrap_or_default())
}

/// All ways to compute agree on these inputs.
fn agree(text: &str, vectors: &[Vec<HostArray>]) -> Vec<Vec<HostArray>> {
    let module = program(text);
    let (small, extents) = rewritten(&module);
    let programs = [Target::Trn1, Target::Trn2, Target::Trn3].map(|t| (t, compiled(&module, t)));
    let mut results = Vec::new();
    for (k, inputs) in vectors.iter().enumerate() {
        let want = evaluate(&module, inputs).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        let wide = at_bounds(&small, &extents, inputs);
        let got = evaluate(&small, &wide).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        let title = format!("{text}\nvector {k} {:?}", inputs.iter().map(|a| &a.dims).collect::<Vec<_>>());
        same(&format!("rewritten: {title}"), &visible(got, &extents), &want);
        for (target, program) in &programs {
            let seed = (*target != Target::Trn1).then_some(k as u64);
            same(&format!("{}: {title}", target.name()), &simulated(program, inputs, seed), &want);
        }
        // Garbage behind the live part of the inputs must not be seen.
        let bytes: Vec<Vec<u8>> = wide.into_iter().map(|a| a.data).collect();
        assert_eq!(bytes.len(), to_device(&programs[1].1, inputs).expect("inputs").len());
        let outcome =
            run(&programs[1].1, &bytes, &SimOptions::default()).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        same(
            &format!("garbage: {title}"),
            &to_host(&programs[1].1, outcome.outputs).expect("results"),
            &want,
        );
        results.push(want);
    }
    results
}

/// A vector for each size of dimension 0 of one parameter `f32[<=bound, rest]`.
fn sizes(bound: u64, rest: &[u64]) -> Vec<Vec<HostArray>> {
    let mut rng = Lcg(bound);
    let dims = |n: u64| std::iter::once(n).chain(rest.iter().copied()).collect::<Vec<_>>();
    [0, 1, bound / 2, bound - 1, bound].map(|n| vec![f32s(&dims(n), &mut rng)]).to_vec()
}

#[test]
fn parameters_and_results_have_their_actual_extents() {
    let results =
        agree("ENTRY e { x = f32[<=8,4] parameter(0) ROOT y = f32[<=8,4] add(x, x) }", &sizes(8, &[4]));
    let extents: Vec<&[u64]> = results.iter().map(|r| r[0].dims.as_slice()).collect();
    assert_eq!(extents, [[0, 4], [1, 4], [4, 4], [7, 4], [8, 4]]);
    let text = "ENTRY e { x = f32[<=5,<=3] parameter(0) n = s32[] get-dimension-size(x), dimensions={1}
  t = f32[<=3,<=5] transpose(x), dimensions={1,0} ROOT r = (f32[<=3,<=5], s32[]) tuple(t, n) }";
    let mut rng = Lcg(1);
    let vectors: Vec<_> = [[0, 0], [5, 3], [2, 3], [4, 1], [0, 2]].map(|d| vec![f32s(&d, &mut rng)]).to_vec();
    agree(text, &vectors);
}

#[test]
fn neutral_elements_stand_where_rows_are_mixed() {
    agree(
        "ENTRY e { x = f32[<=8,4] parameter(0) z = f32[] constant(0) i = f32[] constant(-inf)
  s = f32[4] reduce(x, z), dimensions={0}, to_apply=add
  m = f32[] reduce(x, i), dimensions={0,1}, to_apply=max
  k = f32[<=8] reduce(x, z), dimensions={1}, to_apply=add
  g = f32[4,4] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  o = f32[<=8,<=8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = (f32[4], f32[], f32[<=8], f32[4,4], f32[<=8,<=8]) tuple(s, m, k, g, o) }",
        &sizes(8, &[4]),
    );
}

#[test]
fn movements_follow_the_sizes() {
    agree(
        "ENTRY e { x = f32[<=8] parameter(0) z = f32[] constant(-5)
  v = f32[<=8] reverse(x), dimensions={0}
  s = f32[<=8] sort(x), dimensions={0}, to_apply=lt
  t = f32[3] constant({1,2,3})
  c = f32[<=19] concatenate(x, v, t), dimensions={0}
  p = f32[<=26] pad(x, z), padding=1_3_2
  b = f32[2,<=8] broadcast(x), dimensions={1}
  ROOT r = (f32[<=8], f32[<=8], f32[<=19], f32[<=26], f32[2,<=8]) tuple(v, s, c, p, b) }",
        &sizes(8, &[]),
    );
    agree(
        "ENTRY e { x = f32[<=8,3] parameter(0)
  v = f32[<=8,3] reverse(x), dimensions={0,1}
  c = f32[<=16,3] concatenate(v, x), dimensions={0}
  s = f32[<=16,3] sort(c), dimensions={1}, to_apply=lt
  ROOT r = (f32[<=8,3], f32[<=16,3]) tuple(v, s) }",
        &sizes(8, &[3]),
    );
}

#[test]
fn reshapes_move_the_live_elements_together_and_apart() {
    let mut rng = Lcg(3);
    let vectors: Vec<_> = [0, 1, 3, 5, 6].map(|n| vec![f32s(&[4, n], &mut rng)]).to_vec();
    agree("ENTRY e { x = f32[4,<=6] parameter(0) ROOT y = f32[<=24] reshape(x) }", &vectors);
    agree("ENTRY e { x = f32[4,<=6] parameter(0) ROOT y = f32[2,2,1,<=6] reshape(x) }", &vectors);
    agree(
        "ENTRY e { x = f32[4,<=6] parameter(0) ROOT y = f32[<=8,3] reshape(x) }",
        &[vec![f32s(&[4, 3], &mut rng)], vec![f32s(&[4, 6], &mut rng)], vec![f32s(&[4, 0], &mut rng)]],
    );
    let vectors: Vec<_> = [0, 4, 12, 20, 24].map(|n| vec![f32s(&[n], &mut rng)]).to_vec();
    agree("ENTRY e { x = f32[<=24] parameter(0) ROOT y = f32[4,<=6] reshape(x) }", &vectors);
    agree("ENTRY e { x = f32[<=24] parameter(0) ROOT y = f32[<=6,4] reshape(x) }", &vectors);
    let vectors: Vec<_> = [[3, 0, 2], [3, 2, 2], [3, 4, 2]].map(|d| vec![f32s(&d, &mut rng)]).to_vec();
    agree("ENTRY e { x = f32[3,<=4,2] parameter(0) ROOT y = f32[<=12,2] reshape(x) }", &vectors);
    agree("ENTRY e { x = f32[3,<=4,2] parameter(0) ROOT y = f32[<=24] reshape(x) }", &vectors);
    let vectors: Vec<_> = [[0, 3], [2, 1], [4, 2], [3, 3]].map(|d| vec![f32s(&d, &mut rng)]).to_vec();
    agree("ENTRY e { x = f32[<=4,<=3] parameter(0) ROOT y = f32[<=12] reshape(x) }", &vectors);
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
    let results = agree(text, &sizes(5, &[]));
    assert_eq!(results[4][3].bits(0), 5);
    assert_eq!(results[1][4].bits(0) as u32 as i32, -1);
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
    agree(
        "ENTRY e { x = f32[<=6] parameter(0) z = f32[] constant(9)
  p = f32[<=5] pad(x, z), padding=-2_1
  n = s32[] get-dimension-size(p), dimensions={0}
  ROOT r = (f32[<=5], s32[]) tuple(p, n) }",
        &sizes(6, &[]),
    );
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
fn t8_a_bound_that_no_size_reaches_is_refused() {
    let text = "HloModule m ENTRY e { x = s8[<=3000000000] parameter(0) ROOT y = s8[<=3000000000] copy(x) }";
    let outcome = murre::systems::compile(module(text), CompileOptions::default());
    assert!(outcome.program.is_none() && outcome.diagnostics.iter().all(|d| d.code.id == "MUR0406"));
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
fn t22_growing_a_size_shows_what_is_there() {
    let text = "ENTRY e { x = f32[6] parameter(0) n = s32[] parameter(1) m = s32[] parameter(2)
  a = f32[<=6] set-dimension-size(x, n), dimensions={0}
  ROOT b = f32[<=6] set-dimension-size(a, m), dimensions={0} }";
    let x = f32s(&[6], &mut Lcg(9));
    agree(text, &[vec![x.clone(), s32(2), s32(5)], vec![x, s32(6), s32(0)]]);
}

#[test]
fn dynamic_reshapes_and_select_and_scatter() {
    let mut rng = Lcg(11);
    let text = "ENTRY e { x = f32[4,6] parameter(0) a = s32[] parameter(1) b = s32[] parameter(2)
  ROOT y = f32[<=4,<=6] dynamic-reshape(x, a, b) }";
    let x = f32s(&[4, 6], &mut rng);
    agree(text, &[vec![x.clone(), s32(4), s32(3)], vec![x.clone(), s32(0), s32(6)], vec![x, s32(3), s32(1)]]);
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
fn what_a_loops_condition_sets_or_has_no_bound_is_refused() {
    let text = "HloModule m
body { t = (s32[], f32[8]) parameter(0) ROOT c = (s32[], f32[8]) copy(t) }
cond { t = (s32[], f32[8]) parameter(0) n = s32[] get-tuple-element(t), index=0 x = f32[8] get-tuple-element(t), index=1
  d = f32[<=8] set-dimension-size(x, n), dimensions={0}
  m = s32[] get-dimension-size(d), dimensions={0} z = s32[] constant(3) ROOT c = pred[] compare(m, z), direction=LT }
ENTRY e { n = s32[] parameter(0) x = f32[8] parameter(1) t = (s32[], f32[8]) tuple(n, x)
  ROOT w = (s32[], f32[8]) while(t), condition=cond, body=body }";
    let refused = |text: &str| -> Vec<(&str, Option<String>)> {
        let module = murre::hlo::read_module(text.as_bytes(), "m").expect("a module");
        let outcome = murre::systems::compile(module, CompileOptions::default());
        outcome.diagnostics.into_iter().map(|d| (d.code.id, d.instruction)).collect()
    };
    assert_eq!(refused(text), [("MUR0406", Some("d".to_string()))]);
    let text = "HloModule m ENTRY e { x = f32[?] parameter(0) ROOT y = f32[?] negate(x) }";
    assert!(refused(text).iter().all(|(code, _)| *code == "MUR0406"));
}

/// Whatever the verifier accepts is rewritten to what the verifier accepts, or refused with a code of the lowering.
#[test]
fn changed_programs_are_rewritten_or_refused() {
    let mut rng = Lcg(2024);
    let (mut rewritten, mut refused) = (0, 0);
    let mut texts: Vec<String> = Vec::new();
    for case in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).expect("the fixtures")
    {
        let path = case.expect("a case").path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().contains("dyn")) {
            texts.extend(std::fs::read_to_string(path.join("module.hlo.txt")));
        }
    }
    texts.sort();
    for round in 0..200 {
        for text in &texts {
            let mut changed: Vec<String> = text.lines().map(str::to_owned).collect();
            for _ in 0..1 + round % 3 {
                let at = rng.below(changed.len() as u64) as usize;
                let line = changed[at].clone();
                let edits: [(&str, &str); 12] = [
                    ("[<=", "["),
                    ("[8", "[<=8"),
                    ("[4", "[<=4"),
                    (",6]", ",<=6]"),
                    ("add(", "multiply("),
                    ("dimensions={0}", "dimensions={1}"),
                    ("dimensions={1}", "dimensions={0}"),
                    ("parameter(1)", "parameter(0)"),
                    ("constant(2)", "constant(9)"),
                    ("size=3", "size=1"),
                    ("reverse(", "copy("),
                    ("<=", ""),
                ];
                let (from, to) = edits[rng.below(12) as usize];
                changed[at] = line.replacen(from, to, 1);
            }
            // A dimension that is dynamic everywhere or nowhere keeps more programs valid.
            let mut changed = changed.join("\n");
            match rng.below(6) {
                0 => changed = changed.replace("f32[8]", "f32[<=8]"),
                1 => changed = changed.replace("[4,6]", "[4,<=6]").replace("[4,<=6]", "[<=4,<=6]"),
                2 => changed = changed.replace("[8,4]", "[<=8,4]"),
                _ => {}
            }
            let Ok(module) = murre::hlo::read_module(changed.as_bytes(), "m") else { continue };
            if !murre::hlo::verify(&module).is_empty() {
                continue;
            }
            let mut compiler = Compiler::new(module, CompileOptions::default());
            compiler.run(&[Stage::DynamicShape]);
            let outcome = compiler.finish();
            if outcome.diagnostics.is_empty() {
                let module = outcome.world.resource::<HloModule>();
                let faults = murre::hlo::verify(module);
                assert!(faults.is_empty(), "{faults:#?}\n{changed}\n{}", murre::hlo::print_module(module));
                rewritten += 1;
            } else {
                assert!(
                    outcome.diagnostics.iter().all(|d| d.code.id == "MUR0406"),
                    "{:#?}",
                    outcome.diagnostics
                );
                refused += 1;
            }
        }
    }
    assert!(rewritten > 200 && refused > 5, "{rewritten} rewritten, {refused} refused");
}

#[test]
fn random_sizes_through_random_chains() {
    for seed in 0..12 {
        let mut rng = Lcg(seed * 7919 + 13);
        let (bound, width) = (2 + rng.below(9), 1 + rng.below(5));
        let shape = format!("f32[<={bound},{width}]");
        let mut text = format!("ENTRY e {{ x0 = {shape} parameter(0) z = f32[] constant(0)\n");
        let steps = 2 + rng.below(5);
        for k in 0..steps {
            let (a, b) = (rng.below(k + 1), rng.below(k + 1));
            let next = k + 1;
            let line = match rng.below(7) {
                0 => format!("add(x{a}, x{b})"),
                1 => format!("maximum(x{a}, x{b})"),
                2 => format!("reverse(x{a}), dimensions={{0}}"),
                3 => format!("sort(x{a}), dimensions={{0}}, to_apply=lt"),
                4 => format!("reverse(x{a}), dimensions={{0,1}}"),
                5 => format!("subtract(x{a}, x{b})"),
                _ => format!("negate(x{a})"),
            };
            text += &format!("  x{next} = {shape} {line}\n");
        }
        let last = format!("x{steps}");
        text += &format!(
            "  c = f32[<={},{width}] concatenate({last}, x0), dimensions={{0}}
  s = f32[{width}] reduce(c, z), dimensions={{0}}, to_apply=add
  f = f32[<={}] reshape({last})
  ROOT r = (f32[<={},{width}], f32[{width}], f32[<={}]) tuple(c, s, f) }}",
            2 * bound,
            bound * width,
            2 * bound,
            bound * width
        );
        let vectors: Vec<_> =
            [0, 1, rng.below(bound + 1), bound].map(|n| vec![f32s(&[n, width], &mut rng)]).to_vec();
        agree(&text, &vectors);
    }
}
