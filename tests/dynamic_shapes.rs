//! Bounded dynamic dimensions over the operations that have a rule: every size that matters, computed in all ways.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{agree, f32s, s32, sizes};
use murre::systems::CompileOptions;
use support::Lcg;

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
fn dynamic_reshapes_take_the_sizes_given() {
    let mut rng = Lcg(11);
    let text = "ENTRY e { x = f32[4,6] parameter(0) a = s32[] parameter(1) b = s32[] parameter(2)
  ROOT y = f32[<=4,<=6] dynamic-reshape(x, a, b) }";
    let x = f32s(&[4, 6], &mut rng);
    let joins = "ENTRY e { x = f32[4,<=6] parameter(0) a = s32[] parameter(1) b = s32[] parameter(2)
  y = f32[<=24] dynamic-reshape(x, a)
  ROOT z = f32[<=2,<=12] dynamic-reshape(x, b, a) }"
        .replace(
            "  ROOT z = f32[<=2,<=12] dynamic-reshape(x, b, a) }",
            "  z = f32[<=2,<=12] dynamic-reshape(x, b, a2)
  ROOT r = (f32[<=24], f32[<=2,<=12]) tuple(y, z) }",
        )
        .replace("b = s32[] parameter(2)", "b = s32[] parameter(2) a2 = s32[] parameter(3)");
    let of = |n: u64, a: i32, b: i32, c: i32, rng: &mut Lcg| vec![f32s(&[4, n], rng), s32(a), s32(b), s32(c)];
    let vectors = [
        of(3, 12, 2, 6, &mut rng),
        of(6, 24, 2, 12, &mut rng),
        of(0, 0, 0, 5, &mut rng),
        of(1, 4, 1, 4, &mut rng),
    ];
    agree(&joins, &vectors);
    agree(text, &[vec![x.clone(), s32(4), s32(3)], vec![x.clone(), s32(0), s32(6)], vec![x, s32(3), s32(1)]]);
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

const PAIRED: &str =
    "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }
";

#[test]
fn annotations_and_collectives_of_one_device_keep_sizes() {
    agree(
        "ENTRY e { x = f32[<=8,2] parameter(0)
  s = f32[<=8,2] custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}
  a = f32[<=8,2] all-reduce(s), replica_groups={}, to_apply=add
  g = f32[<=8,2] all-gather(a), replica_groups={{0}}, dimensions={0}
  ROOT c = f32[<=8,2] collective-permute(g), source_target_pairs={{0,0}} }",
        &sizes(8, &[2]),
    );
}

#[test]
fn arrays_are_taken_apart_and_put_together() {
    let results = agree(
        "ENTRY e { x = f32[<=8,2] parameter(0)
  p = (f32[8,2], s32[], s32[]) custom-call(x), custom_call_target=\"PadToStatic\"
  b = f32[8,2] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  two = s32[] get-tuple-element(p), index=2
  y = f32[8,2] add(b, b)
  d = f32[<=8,2] custom-call(y, n, two), custom_call_target=\"SliceToDynamic\"
  z = f32[] constant(0)
  s = f32[2] reduce(d, z), dimensions={0}, to_apply=add
  ROOT r = (f32[<=8,2], f32[2], s32[], s32[]) tuple(d, s, n, two) }",
        &sizes(8, &[2]),
    );
    assert_eq!((results[3][2].bits(0), results[3][3].bits(0)), (7, 2));
}

#[test]
fn bits_of_another_width_keep_the_size() {
    let mut rng = Lcg(31);
    let text = "ENTRY e { x = f32[<=6] parameter(0)
  b = u16[<=6,2] bitcast-convert(x)
  ROOT y = f32[<=6] bitcast-convert(b) }";
    agree(text, &[0, 1, 5, 6].map(|n| vec![f32s(&[n], &mut rng)]));
}

#[test]
fn batch_norms_count_the_live_elements() {
    let mut rng = Lcg(32);
    let text = "ENTRY e { x = f32[<=6,3,2] parameter(0) s = f32[2] parameter(1) o = f32[2] parameter(2) g = f32[<=6,3,2] parameter(3)
  t = (f32[<=6,3,2], f32[2], f32[2]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=2
  y = f32[<=6,3,2] get-tuple-element(t), index=0
  m = f32[2] get-tuple-element(t), index=1
  v = f32[2] get-tuple-element(t), index=2
  h = f32[<=6,3,2] subtract(g, y)
  b = (f32[<=6,3,2], f32[2], f32[2]) batch-norm-grad(x, s, m, v, x), epsilon=0.01, feature_index=2
  i = f32[<=6,3,2] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=2
  ROOT r = (f32[<=6,3,2], f32[2], f32[2], (f32[<=6,3,2], f32[2], f32[2]), f32[<=6,3,2]) tuple(h, m, v, b, i) }";
    let vectors = [1, 5, 6].map(|n| {
        vec![
            f32s(&[n, 3, 2], &mut rng),
            f32s(&[2], &mut rng),
            f32s(&[2], &mut rng),
            f32s(&[n, 3, 2], &mut rng),
        ]
    });
    agree(text, &vectors);
}

#[test]
fn top_k_chooses_in_every_live_row() {
    let mut rng = Lcg(33);
    let text = "ENTRY e { x = f32[<=4,7] parameter(0)
  ROOT t = (f32[<=4,3], s32[<=4,3]) topk(x), k=3, largest=true }";
    agree(text, &[0, 1, 3, 4].map(|n| vec![f32s(&[n, 7], &mut rng)]));
}

#[test]
fn windows_choose_and_scatter_among_live_elements() {
    let mut rng = Lcg(34);
    let text = format!(
        "{PAIRED}ENTRY e {{ x = f32[<=6,4] parameter(0) y = f32[<=6,2] parameter(1) z = f32[] constant(0)
  ROOT s = f32[<=6,4] select-and-scatter(x, y, z), window={{size=1x2 stride=1x2}}, select=ge, scatter=add }}"
    );
    agree(&text, &[0, 1, 5, 6].map(|n| vec![f32s(&[n, 4], &mut rng), f32s(&[n, 2], &mut rng)]));
}

#[test]
fn features_behind_a_size_count_nothing() {
    let mut rng = Lcg(35);
    let text = "ENTRY e { x = f32[2,5,<=4] parameter(0) k = f32[3,<=4,2] parameter(1)
  ROOT c = f32[2,3,2] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f }";
    agree(text, &[0, 1, 3, 4].map(|n| vec![f32s(&[2, 5, n], &mut rng), f32s(&[3, n, 2], &mut rng)]));
}

#[test]
fn loops_append_rows_and_cumulate() {
    let mut rng = Lcg(36);
    let text = "ENTRY e { x = f32[<=6,2] parameter(0) z = f32[] constant(0)
  c = f32[<=11,2] pad(x, z), padding=5_0x0_0
  w = f32[<=6,2] reduce-window(c, z), window={size=6x1}, to_apply=add
  t = f32[<=6,2] transpose(x), dimensions={0,1}
  m = f32[<=6,2] maximum(w, t)
  p = pred[<=6,2] compare(w, x), direction=LT
  ROOT s = f32[<=6,2] select(p, m, w) }";
    agree(text, &[0, 1, 5, 6].map(|n| vec![f32s(&[n, 2], &mut rng)]));
}
