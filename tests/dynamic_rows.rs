//! Loops over live rows: a size counts their trips, executed trips are counted on the simulator, and results are the
//! evaluator's. The programs are large enough for a loop to pay.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{agree, f32s, program, s32};
use murre::array::HostArray;
use murre::check::boundary::to_device;
use murre::components::engine::Target;
use murre::components::hlo::{HloModule, HloOp};
use murre::report::shapes_text;
use murre::sim::{SimOptions, run};
use murre::systems::dynamic_shape::story::ShapeStory;
use murre::systems::{CompileOptions, Compiler, Stage};
use support::{Lcg, compiled};

const LAYER: &str = "ENTRY e { x = f32[<=1024,256] parameter(0) w = f32[256,64] parameter(1)
  z = f32[] constant(0) zs = f32[1024,64] broadcast(z), dimensions={}
  d = f32[<=1024,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  r = f32[<=1024,64] maximum(d, zs)
  s = f32[64] reduce(r, z), dimensions={0}, to_apply=add
  k = f32[<=1024] reduce(r, z), dimensions={1}, to_apply=add
  ROOT t = (f32[<=1024,64], f32[64], f32[<=1024]) tuple(r, s, k) }";

/// The module after the stage, and the story.
fn staged(text: &str) -> (HloModule, ShapeStory) {
    let mut compiler = Compiler::new(program(text), CompileOptions::default());
    compiler.run(&[Stage::DynamicShape]);
    let story = compiler.world.remove_resource().unwrap_or_default();
    let module: HloModule = compiler.world.remove_resource().expect("the module");
    assert!(murre::hlo::verify(&module).is_empty(), "{}", murre::hlo::print_module(&module));
    (module, story)
}

fn loops(module: &HloModule) -> usize {
    module.insts().filter(|i| i.op == HloOp::While).count()
}

/// Records that the engines executed.
fn executed(text: &str, inputs: &[Vec<HostArray>]) -> Vec<u64> {
    let program = compiled(&program(text), Target::Trn2);
    let records = |inputs: &Vec<HostArray>| {
        let bytes = to_device(&program, inputs).expect("inputs");
        run(&program, &bytes, &SimOptions::default()).expect("a run").stats.records.iter().sum()
    };
    inputs.iter().map(records).collect()
}

#[test]
fn a_layer_takes_as_many_trips_as_it_has_live_rows() {
    let (module, story) = staged(LAYER);
    assert_eq!(loops(&module), 1);
    let told = shapes_text(&story);
    assert!(told.contains("counts the trips of d.rows."), "{told}");
    assert!(told.contains("256 rows a trip"), "{told}");
    let mut rng = Lcg(1);
    let w = f32s(&[256, 64], &mut rng);
    let vectors: Vec<_> =
        [0, 1, 256, 257, 1023, 1024].map(|n| vec![f32s(&[n, 256], &mut rng), w.clone()]).to_vec();
    // No trip, one, one, two, four, four.
    let counts = executed(LAYER, &vectors);
    let trip = counts[1] - counts[0];
    let trips: Vec<u64> = counts.iter().map(|n| (n - counts[0]) / trip).collect();
    assert_eq!((trips, counts[2] - counts[1]), (vec![0, 1, 1, 2, 4, 4], 0), "{counts:?}");
    agree(LAYER, &vectors[..2]);
    agree(LAYER, &vectors[3..5]);
}

#[test]
fn a_prefix_is_attended_to_and_no_more() {
    let text =
        "ENTRY e { k = f32[<=8192,64] parameter(0) v = f32[<=8192,64] parameter(1) q = f32[64] parameter(2)
  z = f32[] constant(0) i = f32[] constant(-inf)
  s = f32[<=8192] dot(k, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  m = f32[] reduce(s, i), dimensions={0}, to_apply=max
  ms = f32[8192] broadcast(m), dimensions={}
  c = f32[<=8192] subtract(s, ms)
  e = f32[<=8192] exponential(c)
  t = f32[] reduce(e, z), dimensions={0}, to_apply=add
  o = f32[64] dot(e, v), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ts = f32[64] broadcast(t), dimensions={}
  ROOT a = f32[64] divide(o, ts) }";
    let (module, story) = staged(text);
    // The second loop needs the first one's maximum.
    assert_eq!(loops(&module), 2, "{}", murre::hlo::print_module(&module));
    // Keys, values, scores, what is centred and its exponential.
    assert_eq!(story.rows.iter().filter(|d| !d.trips.is_empty()).count(), 5, "{}", shapes_text(&story));
    let mut rng = Lcg(2);
    let q = HostArray {
        data: (0..64).flat_map(|k| (0.01 * k as f32).to_le_bytes()).collect(),
        ..f32s(&[64], &mut rng)
    };
    let of = |n: u64, rng: &mut Lcg| vec![f32s(&[n, 64], rng), f32s(&[n, 64], rng), q.clone()];
    agree(text, &[of(1, &mut rng), of(3000, &mut rng)]);
}

#[test]
fn a_bound_without_divisors_computes_some_rows_twice() {
    let text = "ENTRY e { x = f32[<=1031,700] parameter(0)
  y = f32[<=1031,700] multiply(x, x) u = f32[<=1031,700] add(y, x) ROOT t = f32[<=1031,700] negate(u) }";
    let (module, _) = staged(text);
    assert_eq!(loops(&module), 1);
    let mut rng = Lcg(3);
    agree(text, &[0, 1, 1030, 1031].map(|n| vec![f32s(&[n, 700], &mut rng)]));
}

#[test]
fn what_shows_what_lies_behind_a_size_or_is_small_is_not_looped_over() {
    let shows = "ENTRY e { x = f32[2048,512] parameter(0) n = s32[] parameter(1) m = s32[] parameter(2)
  d = f32[<=2048,512] set-dimension-size(x, n), dimensions={0}
  y = f32[<=2048,512] multiply(d, d)
  ROOT g = f32[<=2048,512] set-dimension-size(y, m), dimensions={0} }";
    assert_eq!(loops(&staged(shows).0), 0);
    let small = LAYER.replace("1024", "64");
    assert_eq!(loops(&staged(&small).0), 0);
    // An initial value that is not neutral counts once for every row behind the size.
    let five = "ENTRY e { x = f32[<=2048,512] parameter(0) z = f32[] constant(5)
  ROOT s = f32[512] reduce(x, z), dimensions={0}, to_apply=add }";
    assert_eq!(loops(&staged(five).0), 0);
}

#[test]
fn sizes_that_the_program_computes_count_trips_in_loops_and_branches() {
    let text = "some { t = (f32[<=1024,512], f32[512]) parameter(0) z = f32[] constant(0)
  x = f32[<=1024,512] get-tuple-element(t), index=0
  y = f32[<=1024,512] add(x, x) c = f32[<=1024,512] multiply(y, x) ROOT s = f32[512] reduce(c, z), dimensions={0}, to_apply=add }
none { t = (f32[<=1024,512], f32[512]) parameter(0) ROOT o = f32[512] get-tuple-element(t), index=1 }
ENTRY e { x = f32[1024,512] parameter(0) k = s32[] parameter(1) p = s32[] parameter(2)
  one = s32[] constant(1) n = s32[] add(k, one) zero = f32[] constant(0) o = f32[512] broadcast(zero), dimensions={}
  d = f32[<=1024,512] set-dimension-size(x, n), dimensions={0}
  t = (f32[<=1024,512], f32[512]) tuple(d, o)
  ROOT r = f32[512] conditional(p, t, t), branch_computations={none, some} }";
    let (module, story) = staged(text);
    assert_eq!(loops(&module), 1, "{}", murre::hlo::print_module(&module));
    assert!(
        story.rows.iter().any(|d| d.instruction == "some/c" && !d.trips.is_empty()),
        "{}",
        shapes_text(&story)
    );
    let x = f32s(&[1024, 512], &mut Lcg(4));
    agree(text, &[vec![x.clone(), s32(300), s32(1)], vec![x, s32(-1), s32(1)]]);
}
