//! The evaluator against XLA's goldens: every fixture, its text and its proto, every vector, within the fixture's own
//! tolerances. `MURRE_FIXTURES` names another directory of fixtures.

use murre::array::case::load_case;
use murre::eval::evaluate;
use murre::hlo::read_module;

#[test]
fn every_vector_of_every_case() {
    let root = std::env::var("MURRE_FIXTURES")
        .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures").into());
    let mut dirs: Vec<_> = std::fs::read_dir(root)
        .expect("the fixtures are there")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("case.json").exists())
        .collect();
    dirs.sort();
    let (mut vectors, mut failed) = (0, Vec::new());
    for dir in &dirs {
        let case = load_case(dir).unwrap_or_else(|e| panic!("{e:?}"));
        for file in ["module.hlo.txt", "module.hlo.pb"] {
            let bytes = std::fs::read(dir.join(file)).expect("a module");
            let module = read_module(&bytes, file).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
            for vector in &case.vectors {
                vectors += 1;
                let inputs = case.read_inputs(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
                let goldens = case.read_goldens(vector).unwrap_or_else(|e| panic!("{dir:?} {e:#?}"));
                match evaluate(&module, &inputs) {
                    Ok(got) => {
                        for (leaf, mismatch) in case.compare(&got, &goldens) {
                            failed.push(format!(
                                "{} {file} {} leaf {leaf}: {mismatch}",
                                case.name, vector.name
                            ));
                        }
                    }
                    Err(faults) => {
                        failed.push(format!("{} {file} {}: {}", case.name, vector.name, faults[0].message))
                    }
                }
            }
        }
    }
    assert!(dirs.len() >= 11 && vectors >= 80, "{} cases, {vectors} vectors", dirs.len());
    assert!(failed.is_empty(), "{} of {vectors} differ:\n{}", failed.len(), failed.join("\n"));
}
