//! Several modules in one world: each gets the bytes that it gets by itself, whatever stands beside it.

use murre::components::engine::Target;
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::systems::{CompileOptions, Compiler, DgeLevels, DgeRoute, EstimateOptions, ExecutorChoice, compile};
use std::path::Path;

/// The fixtures, by name.
fn modules() -> Vec<(String, HloModule)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut found: Vec<(String, HloModule)> = std::fs::read_dir(root)
        .expect("the fixtures are in the repository")
        .filter_map(|e| {
            let path = e.ok()?.path();
            let text = std::fs::read(path.join("module.hlo.txt")).ok()?;
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, murre::hlo::read_module(&text, "fixture").expect("a module")))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 73);
    found
}

fn alone(modules: &[(String, HloModule)], options: &CompileOptions) -> Vec<Option<Program>> {
    modules.iter().map(|m| compile(m.1.clone(), options.clone()).program).collect()
}

fn compiler() -> Compiler {
    Compiler::new(HloModule::default(), CompileOptions::default())
}

/// Compiles some of `modules` as one batch; every program that comes out must be the one of `alone`. How many came.
fn batched(
    compiler: &mut Compiler,
    modules: &[(String, HloModule)],
    alone: &[Option<Program>],
    pick: &[usize],
    options: &CompileOptions,
) -> usize {
    let programs = compiler.batch(pick.iter().map(|k| modules[*k].1.clone()).collect(), options);
    assert_eq!(programs.len(), pick.len());
    let made = programs.iter().flatten().count();
    for (k, program) in pick.iter().zip(programs) {
        assert!(program.is_none() || program == alone[*k], "{} differs in a batch", modules[*k].0);
    }
    made
}

fn options(target: Target) -> CompileOptions {
    CompileOptions { target, verify: false, ..CompileOptions::default() }
}

#[test]
fn every_fixture_is_what_it_is_alone_between_two_others() {
    let modules = modules();
    for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
        let options = options(target);
        let alone = alone(&modules, &options);
        let mut compiler = compiler();
        let other = modules.iter().position(|m| m.0 == "moe_gather_expert").unwrap_or(0);
        let mut given_up = Vec::new();
        for k in 0..modules.len() {
            if batched(&mut compiler, &modules, &alone, &[other, k, other], &options) < 3 {
                given_up.push(modules[k].0.as_str());
            }
        }
        println!("{target:?}: given up {given_up:?}");
        assert!(given_up.len() <= 6, "{target:?}: {given_up:?}");
    }
}
