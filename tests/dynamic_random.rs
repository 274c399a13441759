//! Changed and random programs with bounded dynamic dimensions: right, or refused with a code.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{agree, f32s, s32};
use murre::components::hlo::HloModule;
use murre::systems::{CompileOptions, Compiler, Stage};
use support::Lcg;

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

/// A random program over `f32[<=bound,width]`: each step gives such an array; loops, branches, updates and masks among
/// them. The second parameter chooses branches.
fn chain(rng: &mut Lcg, bound: u64, width: u64) -> String {
    let shape = format!("f32[<={bound},{width}]");
    let mut text = format!(
        "plus {{ a = {shape} parameter(0) ROOT s = {shape} add(a, a) }}
minus {{ a = {shape} parameter(0) ROOT s = {shape} negate(a) }}
body {{ t = (s32[], {shape}) parameter(0) i = s32[] get-tuple-element(t), index=0
  x = {shape} get-tuple-element(t), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = {shape} reverse(x), dimensions={{0}} z = {shape} maximum(x, y) ROOT r = (s32[], {shape}) tuple(j, z) }}
cond {{ t = (s32[], {shape}) parameter(0) i = s32[] get-tuple-element(t), index=0
  x = {shape} get-tuple-element(t), index=1 n = s32[] get-dimension-size(x), dimensions={{0}}
  three = s32[] constant(3) m = s32[] minimum(n, three) ROOT c = pred[] compare(i, m), direction=LT }}
ENTRY e {{ x0 = {shape} parameter(0) k = s32[] parameter(1) z = f32[] constant(0) low = f32[] constant(-7) high = f32[] constant(9) none = s32[] constant(0)\n"
    );
    let steps = 2 + rng.below(5);
    for k in 0..steps {
        let (a, b) = (rng.below(k + 1), rng.below(k + 1));
        let next = k + 1;
        let line = match rng.below(15) {
            0 => format!("add(x{a}, x{b})"),
            1 => format!("maximum(x{a}, x{b})"),
            2 => format!("reverse(x{a}), dimensions={{0}}"),
            3 => format!("sort(x{a}), dimensions={{0}}, to_apply=lt"),
            4 => format!("reverse(x{a}), dimensions={{0,1}}"),
            5 => format!("subtract(x{a}, x{b})"),
            6 => format!("clamp(low, x{a}, high)"),
            7 => {
                text += &format!("  p{next} = pred[<={bound},{width}] compare(x{a}, x{b}), direction=LT\n");
                format!("select(p{next}, x{a}, x{b})")
            }
            8 => {
                text += &format!("  r{next} = f32[1,{width}] slice(x{b}), slice={{[0:1], [0:{width}]}}\n");
                format!("dynamic-update-slice(x{a}, r{next}, k, none)")
            }
            9 => format!("conditional(k, x{a}, x{b}), branch_computations={{plus, minus}}"),
            10 => {
                text += &format!("  t{next} = (s32[], {shape}) tuple(none, x{a})\n");
                text += &format!("  w{next} = (s32[], {shape}) while(t{next}), condition=cond, body=body\n");
                format!("get-tuple-element(w{next}), index=1")
            }
            11 => {
                text += &format!("  h{next} = f32[{width},<={bound}] transpose(x{a}), dimensions={{1,0}}\n");
                format!("transpose(h{next}), dimensions={{1,0}}")
            }
            12 => {
                let wide = format!("f32[<={},{width}]", bound + 2);
                text += &format!("  q{next} = {wide} pad(x{a}, low), padding=1_1x0_0\n");
                format!("slice(q{next}), slice={{[2:{}], [0:{width}]}}", bound + 2)
            }
            13 => {
                text += &format!("  i{next} = f32[<={}] reshape(x{a})\n", bound * width);
                format!("reshape(i{next})")
            }
            _ => format!("negate(x{a})"),
        };
        text += &format!("  x{next} = {shape} {line}\n");
    }
    let last = format!("x{steps}");
    text + &format!(
        "  c = f32[<={},{width}] concatenate({last}, x0), dimensions={{0}}
  s = f32[{width}] reduce(c, z), dimensions={{0}}, to_apply=add
  g = f32[{width},{width}] dot({last}, x0), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  f = f32[<={}] reshape({last})
  ROOT r = (f32[<={},{width}], f32[{width}], f32[{width},{width}], f32[<={}]) tuple(c, s, g, f) }}",
        2 * bound,
        bound * width,
        2 * bound,
        bound * width
    )
}

#[test]
fn random_sizes_through_random_chains() {
    for seed in 0..16 {
        let mut rng = Lcg(seed * 7919 + 13);
        let (bound, width) = (2 + rng.below(9), 1 + rng.below(5));
        let text = chain(&mut rng, bound, width);
        let sizes = [0, 1, rng.below(bound + 1), bound];
        let vectors = sizes.map(|n| vec![f32s(&[n, width], &mut rng), s32(rng.below(3) as i32)]);
        agree(&text, &vectors);
    }
}

#[test]
fn chains_use_every_step() {
    let all: String = (0..200).map(|seed| chain(&mut Lcg(seed), 6, 3)).collect();
    for op in [
        "clamp",
        "select",
        "dynamic-update-slice",
        "conditional",
        "while",
        "transpose",
        "pad",
        "reshape",
        "sort",
    ] {
        assert!(all.contains(&format!(" {op}(")), "no {op}");
    }
}
