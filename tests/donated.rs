//! Donated parameters: a KV cache whose output aliases the parameter is updated where it stands.

mod support;

use murre::components::bir::*;
use murre::components::program::VarKind;
use murre::systems::{CompileOptions, Compiler, Stage};
use support::{Verdict, judge, module};

const CACHE: u64 = 64 * 2 * 128;

fn step(alias: &str, result: &str) -> String {
    format!(
        "HloModule step{alias}

ENTRY main {{
  cache = f32[1,64,2,128] parameter(0)
  new = f32[1,1,2,128] parameter(1)
  pos = s32[] parameter(2)
  q = f32[1,2,1,128] parameter(3)
  zero = s32[] constant(0)
  next = f32[1,64,2,128] dynamic-update-slice(cache, new, zero, pos, zero, zero)
  s = f32[1,2,1,64] dot(q, next), lhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_batch_dims={{0,2}}, rhs_contracting_dims={{3}}
  old = f32[1,64,2,128] add(cache, cache)
  {result}
}}
"
    )
}

const ALIAS: &str = ", input_output_alias={ {0}: (0, {}, may-alias) }";
const PLAIN: &str = "ROOT r = (f32[1,64,2,128], f32[1,2,1,64]) tuple(next, s)";
const READS_OLD: &str = "ROOT r = (f32[1,64,2,128], f32[1,2,1,64], f32[1,64,2,128]) tuple(next, s, old)";

/// Elements that DMAs write to DRAM locations as large as the cache.
fn copied(text: &str) -> u64 {
    let mut c = Compiler::new(module(text), CompileOptions::default());
    let last = Stage::ALL.iter().position(|s| *s == Stage::Codegen).unwrap();
    c.run(&Stage::ALL[..=last]);
    let mut locs = c.world.query::<&LocHead>();
    let locs: Vec<LocHead> = locs.iter(&c.world).copied().collect();
    let mut aps = c.world.query::<(&ApHead, &ApPattern)>();
    let aps: Vec<(ApHead, ApPattern)> = aps.iter(&c.world).map(|(h, p)| (*h, p.clone())).collect();
    let mut insts = c.world.query::<(&InstHead, &InstOperands)>();
    insts
        .iter(&c.world)
        .filter(|(h, _)| h.op == Opcode::DmaCopy)
        .map(|(_, o)| &aps[o.output(0).index()])
        .filter(|(h, _)| locs[h.loc.index()].space == Space::Dram && locs[h.loc.index()].part_elems == CACHE)
        .map(|(_, p)| p.elements())
        .sum()
}

fn equal(text: &str, results: usize) {
    match judge(text, &vec![false; results], 3) {
        Verdict::Equal => {}
        other => panic!("{other:?}\n{text}"),
    }
}

fn shared(text: &str) -> bool {
    let program = support::compiled(&module(text), murre::components::engine::Target::Trn2);
    let (input, output) = (program.inputs().next().unwrap().var, program.outputs().next().unwrap().var);
    assert_eq!(program.vars[input as usize].kind, VarKind::Input);
    input == output
}

#[test]
fn a_donated_cache_is_updated_in_place() {
    let text = step(ALIAS, PLAIN).replace("  old = f32[1,64,2,128] add(cache, cache)\n", "");
    assert_eq!(copied(&text), 256, "the new row alone");
    assert!(shared(&text));
    equal(&text, 2);
}

#[test]
fn a_cache_that_is_not_donated_is_copied_once() {
    let text = step("", PLAIN).replace("  old = f32[1,64,2,128] add(cache, cache)\n", "");
    assert_eq!(copied(&text), CACHE + 256);
    assert!(!shared(&text));
    equal(&text, 2);
}

#[test]
fn what_is_still_read_is_not_overwritten() {
    let text = step(ALIAS, READS_OLD);
    assert!(!shared(&text));
    equal(&text, 3);
}

#[test]
fn a_loop_carries_a_donated_cache_in_place() {
    let text = "HloModule loop, input_output_alias={ {1}: (1, {}, must-alias) }

body {
  p = (s32[], f32[1,64,2,128], f32[1,1,2,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  cache = f32[1,64,2,128] get-tuple-element(p), index=1
  new = f32[1,1,2,128] get-tuple-element(p), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = f32[1,64,2,128] dynamic-update-slice(cache, new, zero, i, zero, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[1,64,2,128], f32[1,1,2,128]) tuple(j, next, new)
}

cond {
  p = (s32[], f32[1,64,2,128], f32[1,1,2,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}

ENTRY main {
  new = f32[1,1,2,128] parameter(0)
  cache = f32[1,64,2,128] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[1,64,2,128], f32[1,1,2,128]) tuple(zero, cache, new)
  w = (s32[], f32[1,64,2,128], f32[1,1,2,128]) while(t), condition=cond, body=body
  i = s32[] get-tuple-element(w), index=0
  c = f32[1,64,2,128] get-tuple-element(w), index=1
  ROOT r = (s32[], f32[1,64,2,128]) tuple(i, c)
}
";
    assert_eq!(copied(text), 256, "a row a trip");
    equal(text, 2);
}

#[test]
fn a_donated_parameter_may_be_overwritten_where_its_result_is_another() {
    // The loop updates what is carried in place; the result that could stand there is computed from it.
    let text = "HloModule loop, input_output_alias={ {0}: (1, {}, may-alias) }

body {
  p = (s32[], f32[64,256], f32[1,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[64,256] get-tuple-element(p), index=1
  new = f32[1,256] get-tuple-element(p), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = f32[64,256] dynamic-update-slice(x, new, i, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[64,256], f32[1,256]) tuple(j, next, new)
}

cond {
  p = (s32[], f32[64,256], f32[1,256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}

ENTRY main {
  new = f32[1,256] parameter(0)
  x = f32[64,256] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[64,256], f32[1,256]) tuple(zero, x, new)
  w = (s32[], f32[64,256], f32[1,256]) while(t), condition=cond, body=body
  c = f32[64,256] get-tuple-element(w), index=1
  a = f32[64,256] abs(c)
  ROOT r = (f32[64,256]) tuple(a)
}
";
    assert!(!shared(text));
    equal(text, 1);
}

#[test]
fn a_scatter_in_place_reads_updates_out_of_its_operand() {
    let text = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}

ENTRY main {
  x = s32[40] parameter(0)
  i = s32[20] slice(x), slice={[0:20]}
  u = s32[20] slice(x), slice={[7:27]}
  y = s32[40] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = (s32[40]) tuple(y)
}
";
    assert!(shared(text));
    equal(text, 1);
}
