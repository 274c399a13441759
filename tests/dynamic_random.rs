//! Changed and random programs with bounded dynamic dimensions: right, or refused with a code.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{agree, f32s};
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
