//! Real programs with XLA's results: every case under `tests/fixtures`, text and proto, every vector, three targets, and eight
//! interleavings of the engines.

mod support;

use murre::array::case::load_case;
use murre::components::engine::Target;
use std::path::{Path, PathBuf};
use support::{compiled, simulated};

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the fixtures are in the repository")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("case.json").exists())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 73);
    dirs
}

#[test]
fn every_case_gives_xlas_numbers_on_every_target() {
    for dir in cases() {
        let case = load_case(&dir).expect("a readable case");
        for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
            let mut programs = Vec::new();
            for file in ["module.hlo.txt", "module.hlo.pb"] {
                let bytes = std::fs::read(dir.join(file)).expect("a readable module");
                let module = murre::hlo::read_module(&bytes, file).expect("a module");
                programs.push(compiled(&module, target));
            }
            for vector in &case.vectors {
                let inputs = case.read_inputs(vector).expect("inputs");
                let goldens = case.read_goldens(vector).expect("goldens");
                for (program, form) in programs.iter().zip(["text", "proto"]) {
                    let got = simulated(program, &inputs, None);
                    if let Some((leaf, mismatch)) = case.compare(&got, &goldens).into_iter().next() {
                        panic!(
                            "{} {form} {} {} leaf {leaf}: {}",
                            case.name,
                            target.name(),
                            vector.name,
                            mismatch.message
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn eight_interleavings_give_the_same_bytes() {
    for dir in cases() {
        let case = load_case(&dir).expect("a readable case");
        let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a readable module");
        let module = murre::hlo::read_module(&bytes, "text").expect("a module");
        let program = compiled(&module, Target::Trn2);
        for vector in &case.vectors {
            let inputs = case.read_inputs(vector).expect("inputs");
            let first = simulated(&program, &inputs, None);
            for seed in 0..8 {
                assert_eq!(
                    first,
                    simulated(&program, &inputs, Some(seed)),
                    "{} {} seed {seed}",
                    case.name,
                    vector.name
                );
            }
        }
    }
}
