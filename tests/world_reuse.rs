//! One world for many modules: what a compiler gives does not depend on the modules that it compiled before, whatever
//! their order, targets and faults.

use murre::components::engine::Target;
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::systems::{CompileOptions, Compiler, EstimateOptions, Stage, compile};
use std::path::Path;

fn modules() -> Vec<HloModule> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut texts: Vec<_> = std::fs::read_dir(root)
        .expect("the fixtures are in the repository")
        .filter_map(|e| std::fs::read(e.ok()?.path().join("module.hlo.txt")).ok())
        .collect();
    texts.sort();
    assert!(texts.len() >= 73);
    // The compiler refuses this one.
    texts.insert(10, b"HloModule no ENTRY e { x = f64[4] parameter(0) ROOT s = f64[4] sine(x) }".to_vec());
    texts.iter().map(|t| murre::hlo::read_module(t, "fixture").expect("a module")).collect()
}

fn options(k: usize) -> CompileOptions {
    let target = [Target::Trn2, Target::Trn1, Target::Trn3][k % 3];
    CompileOptions { target, verify: k.is_multiple_of(2), ..CompileOptions::default() }
}

#[test]
fn an_old_world_gives_the_bytes_of_a_fresh_one() {
    let modules = modules();
    let fresh: Vec<(Option<Program>, String)> = modules
        .iter()
        .enumerate()
        .map(|(k, m)| {
            let outcome = compile(m.clone(), options(k));
            (outcome.program, format!("{:?}", outcome.diagnostics))
        })
        .collect();
    assert_eq!(fresh.iter().filter(|(p, _)| p.is_none()).count(), 1);
    let n = modules.len();
    let orders: [Vec<usize>; 3] =
        [(0..n).collect(), (0..n).rev().collect(), (0..n).map(|k| (k * 37 + 5) % n).collect()];
    let mut compiler = Compiler::new(HloModule::default(), CompileOptions::default());
    for k in orders.into_iter().flatten() {
        compiler.load(modules[k].clone(), options(k));
        compiler.run(&Stage::ALL);
        let (program, diagnostics) = compiler.take();
        assert!(program == fresh[k].0, "module {k} differs in a world that was used before");
        assert_eq!(format!("{diagnostics:?}"), fresh[k].1);
    }
}

#[test]
fn nothing_of_an_unfinished_run_is_left() {
    let modules = modules();
    let want = compile(modules[3].clone(), options(0)).program;
    let mut compiler = Compiler::new(modules[0].clone(), options(0));
    for stop_after in Stage::ALL.map(Some) {
        let estimate = Some(EstimateOptions::default());
        compiler.load(modules[1].clone(), CompileOptions { stop_after, estimate, ..options(1) });
        compiler.run(&Stage::ALL);
        compiler.load(modules[3].clone(), options(0));
        compiler.run(&Stage::ALL);
        assert!(compiler.take().0 == want, "after a run that ended behind {stop_after:?}");
    }
}

#[test]
fn small_modules_share_a_world_and_a_large_one_ends_it() {
    let small = murre::fixtures::synth::module(1, 1, 30);
    let large = murre::fixtures::synth::module(1, 2, 30_000);
    let [small, large] =
        [small, large].map(|t| murre::hlo::read_module(t.as_bytes(), "synth").expect("a module"));
    let mut compiler = Compiler::new(small.clone(), options(0));
    let run = |compiler: &mut Compiler| {
        compiler.run(&Stage::ALL);
        compiler.take().0.expect("compiles")
    };
    let want = run(&mut compiler);
    let world = compiler.world.id();
    for _ in 0..20 {
        compiler.load(small.clone(), options(0));
        assert!(run(&mut compiler) == want);
        assert_eq!(compiler.world.id(), world, "a small module is swept");
    }
    compiler.load(large, options(0));
    run(&mut compiler);
    assert_eq!(compiler.world.id(), world);
    compiler.load(small, options(0));
    assert_ne!(compiler.world.id(), world, "sweeping a large module would cost more than a new world");
    assert!(run(&mut compiler) == want);
}
