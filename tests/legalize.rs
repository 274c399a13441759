//! What stage `legalize` makes of a program computes the same: every fixture with static shapes is rewritten, verified and
//! evaluated, against XLA's goldens within the fixture's own tolerances.

mod cases;

use murre::array::case::load_case;
use murre::components::diag::Diagnostics;
use murre::components::hlo::HloModule;
use murre::eval::evaluate;
use murre::hlo::read_module;
use murre::systems::{CompileOptions, Compiler, Stage};

#[test]
fn rewritten_programs_compute_the_same() {
    let (mut programs, mut failed) = (0, Vec::new());
    for dir in cases::all() {
        let case = load_case(&dir).unwrap_or_else(|e| panic!("{e:?}"));
        let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a module");
        let module = read_module(&bytes, "module.hlo.txt").unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
        if module.shapes().iter().any(|s| s.array().is_some_and(|a| a.has_dynamic())) {
            continue;
        }
        let mut compiler = Compiler::new(module, CompileOptions::default());
        compiler.run(&[Stage::Legalize, Stage::Simplify]);
        let faults = compiler.world.resource::<Diagnostics>().take();
        assert!(faults.is_empty(), "{dir:?} {faults:#?}");
        let module: HloModule = compiler.world.remove_resource().expect("the module");
        let faults = murre::hlo::verify(&module);
        assert!(
            faults.is_empty(),
            "{dir:?} {:#?}\n{}",
            &faults[..faults.len().min(3)],
            murre::hlo::print_module(&module)
        );
        programs += 1;
        for vector in &case.vectors {
            let inputs = case.read_inputs(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
            let goldens = case.read_goldens(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
            match evaluate(&module, &inputs) {
                Ok(got) => {
                    for (leaf, mismatch) in case.compare(&got, &goldens) {
                        failed.push(format!("{} {} leaf {leaf}: {mismatch}", case.name, vector.name));
                    }
                }
                Err(faults) => failed.push(format!("{} {}: {}", case.name, vector.name, faults[0].message)),
            }
        }
    }
    assert!(programs >= 57, "{programs} programs");
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}
