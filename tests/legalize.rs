//! What stages `dynamic_shape` and `legalize` make of a program computes the same: every fixture is rewritten, verified and
//! evaluated, against XLA's goldens within the fixture's own tolerances.

mod cases;

use murre::array::case::load_case;
use murre::check::boundary::visible;
use murre::components::diag::Diagnostics;
use murre::components::hlo::HloModule;
use murre::components::program::Extents;
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
        let mut compiler = Compiler::new(module, CompileOptions::default());
        compiler.run(&[Stage::DynamicShape, Stage::Legalize, Stage::Simplify]);
        let faults = compiler.world.resource::<Diagnostics>().take();
        assert!(faults.is_empty(), "{dir:?} {faults:#?}");
        let module: HloModule = compiler.world.remove_resource().expect("the module");
        let extents: Extents = compiler.world.remove_resource().unwrap_or_default();
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
                    let got = visible(got, &extents);
                    for (leaf, mismatch) in case.compare(&got, &goldens) {
                        failed.push(format!("{} {} leaf {leaf}: {mismatch}", case.name, vector.name));
                    }
                }
                Err(faults) => failed.push(format!("{} {}: {}", case.name, vector.name, faults[0].message)),
            }
        }
    }
    assert!(programs >= 73, "{programs} programs");
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}
