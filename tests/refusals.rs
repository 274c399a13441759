//! What lowering refuses, with the code that says so: each names the instruction, and all refusals of a module come
//! together.

mod support;

use murre::components::diag::Diagnostic;
use murre::components::hlo::{HloModule, HloOp};
use murre::components::ids::CompId;
use murre::systems::{CompileOptions, compile};

fn refused(text: &str) -> Vec<Diagnostic> {
    let outcome = compile(support::module(text), CompileOptions::default());
    assert!(outcome.program.is_none());
    outcome.diagnostics
}

fn codes(text: &str) -> Vec<(&'static str, String)> {
    refused(text).into_iter().map(|d| (d.code.id, d.instruction.unwrap_or_default())).collect()
}

#[test]
fn operations_without_a_lowering_are_all_named() {
    let text = "HloModule m
ENTRY e { x = f32[4,4] parameter(0)
  c = f32[4,4] cholesky(x), lower=true
  t = f32[4,4] triangular-solve(c, x), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE
  ROOT r = f32[4,4] custom-call(t), custom_call_target=\"unknown\" }";
    let expected = ["c", "t", "r"].map(|n| ("MUR0401", n.to_string()));
    assert_eq!(codes(text), expected);
}

#[test]
fn bitcasts_that_are_no_order_of_elements_are_refused() {
    let text =
        "HloModule m ENTRY e { x = f32[16,256]{1,0:T(8,128)} parameter(0) a = f32[4096]{0:T(1024)} bitcast(x)
  y = f32[4] parameter(1) b = s16[8] bitcast(y) ROOT r = (f32[4096], s16[8]) tuple(a, b) }";
    assert_eq!(codes(text), ["a", "b"].map(|n| ("MUR0401", n.to_string())));
}

#[test]
fn wide_types_are_refused() {
    let text = "HloModule m ENTRY e { x = f64[4] parameter(0) ROOT r = f64[4] add(x, x) }";
    assert_eq!(codes(text)[0], ("MUR0402", "r".to_string()));
}

#[test]
fn a_dot_of_too_many_tiles_is_refused() {
    let text = "HloModule m ENTRY e { x = bf16[32768,32768] parameter(0) y = bf16[32768,32768] parameter(1)
  ROOT r = bf16[32768,32768] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    assert_eq!(codes(text), [("MUR0403", "r".to_string())]);
}

#[test]
fn arrays_past_the_reach_of_an_address_are_refused() {
    let text =
        "HloModule m ENTRY e { x = f32[] parameter(0) ROOT r = f32[4294967297] broadcast(x), dimensions={} }";
    assert_eq!(codes(text), [("MUR0403", "r".to_string())]);
    let text =
        "HloModule m ENTRY e { x = s8[4294967296] parameter(0) ROOT r = s8[1] slice(x), slice={[5:6]} }";
    assert_eq!(codes(text), [("MUR0403", "x".to_string())]);
}

#[test]
fn a_window_with_too_many_dimensions_is_refused() {
    let text = "HloModule m ENTRY e { x = f32[3,3,3,3,3,3,3] parameter(0) i = s32[] parameter(1)
  v = f32[3,3,3,3,3,3,3] transpose(x), dimensions={6,5,4,3,2,1,0}
  ROOT r = f32[2,2,2,2,2,2,2] dynamic-slice(v, i, i, i, i, i, i, i), dynamic_slice_sizes={2,2,2,2,2,2,2} }";
    assert_eq!(codes(text), [("MUR0404", "r".to_string())]);
}

#[test]
fn a_run_time_extent_without_a_rule_is_refused_with_its_instruction() {
    let text = "HloModule m ENTRY e { x = f32[8,8] parameter(0) n = s32[] parameter(1)
  d = f32[<=8,8] set-dimension-size(x, n), dimensions={0}
  ROOT r = f32[<=8,8] cholesky(d), lower=true }";
    assert_eq!(codes(text), [("MUR0406", "r".to_string())]);
}

#[test]
fn a_computation_that_calls_itself_is_refused_before_it_is_inlined() {
    let text = "HloModule m
f { p = s32[] parameter(0) ROOT q = s32[] add(p, p) }
ENTRY e { x = s32[] parameter(0) ROOT r = s32[] call(x), to_apply=f }";
    let mut module: HloModule = support::module(text);
    // What no reader lets through: the callee is the caller.
    let call = module.insts().find(|i| i.op == HloOp::Call).expect("a call").id;
    let own: CompId = module.entry;
    module.called_mut(call)[0] = own;
    let outcome = compile(module, CompileOptions::default());
    assert_eq!(outcome.diagnostics[0].code.id, "MUR0408");
}

#[test]
fn calls_that_double_are_refused_before_memory_is_full() {
    let mut text =
        String::from("HloModule m\nf0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] add(x, x)\n}\n");
    for i in 1..40 {
        text += &format!(
            "f{i} {{\n  x = f32[] parameter(0)\n  a = f32[] call(x), to_apply=f{0}\n  ROOT b = f32[] call(a), to_apply=f{0}\n}}\n",
            i - 1
        );
    }
    text += "ENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[] call(x), to_apply=f39\n}\n";
    let outcome = compile(support::module(&text), CompileOptions::default());
    assert_eq!(outcome.diagnostics[0].code.id, "MUR0408");
}

#[test]
fn branches_that_double_are_refused_before_memory_is_full() {
    let mut text =
        String::from("HloModule m\nf0 {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n");
    for i in 1..40 {
        text += &format!(
            "f{i} {{\n  x = f32[2] parameter(0)\n  k = s32[] constant(7)\n  a = f32[2] call(x), to_apply=f{0}\n  \
             ROOT b = f32[2] call(a), to_apply=f{0}\n}}\n",
            i - 1
        );
    }
    // Nothing reaches the doubling calls: they cost nothing.
    let unused =
        text.clone() + "ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT r = f32[2] call(x), to_apply=f3\n}\n";
    assert!(compile(support::module(&unused), CompileOptions::default()).program.is_some());
    let mut text = String::from(
        "HloModule m\nf0 {\n  t = (f32[2], s32[]) parameter(0)\n  ROOT x = f32[2] get-tuple-element(t), index=0\n}\n",
    );
    for i in 1..40 {
        text += &format!(
            "f{i} {{\n  t = (f32[2], s32[]) parameter(0)\n  k = s32[] get-tuple-element(t), index=1\n  \
             ROOT b = f32[2] conditional(k, t, t), branch_computations={{f{0}, f{0}}}\n}}\n",
            i - 1
        );
    }
    text += "ENTRY e {\n  x = f32[2] parameter(0)\n  k = s32[] parameter(1)\n  \
             t = (f32[2], s32[]) tuple(x, k)\n  ROOT r = f32[2] conditional(k, t, t), branch_computations={f39, f39}\n}\n";
    let outcome = compile(support::module(&text), CompileOptions::default());
    assert!(outcome.program.is_none());
    assert!(outcome.diagnostics.iter().any(|d| d.code.id == "MUR0408"), "{:?}", outcome.diagnostics.first());
}

/// A chain of `depth` conditionals, each the first branch of the next.
fn nested_conditionals(depth: usize) -> String {
    let mut text =
        String::from("HloModule m\nf0 {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] add(x, x)\n}\n");
    text += "same {\n  ROOT x = f32[2] parameter(0)\n}\n";
    let body = |callee: usize| {
        format!(
            "  x = f32[2] parameter(0)\n  a = f32[1] slice(x), slice={{[0:1]}}\n  b = f32[] reshape(a)\n  \
             c = f32[] constant({callee})\n  p = pred[] compare(b, c), direction=LT\n  \
             ROOT r = f32[2] conditional(p, x, x), true_computation=f{callee}, false_computation=same\n}}\n"
        )
    };
    for i in 1..depth {
        text += &format!("f{i} {{\n{}", body(i - 1));
    }
    text + "ENTRY e {\n" + &body(depth - 1)
}

#[test]
fn deep_nesting_is_refused_before_the_stack_is_full() {
    let outcome = compile(support::module(&nested_conditionals(100)), CompileOptions::default());
    assert!(outcome.program.is_some(), "{:?}", outcome.diagnostics.first());
    let outcome = compile(support::module(&nested_conditionals(20_000)), CompileOptions::default());
    assert!(outcome.diagnostics.iter().any(|d| d.code.id == "MUR0408"), "{:?}", outcome.diagnostics.first());
}
