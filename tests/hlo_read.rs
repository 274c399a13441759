//! The door: text and proto of every fixture read to the same module, the printer's text reads back, and every fault
//! of an input is a diagnostic with a code and a place, never a panic.

use murre::components::hlo::HloModule;
use murre::hlo::{print_module, read_module, verify};
use std::path::PathBuf;

fn fixtures() -> Vec<PathBuf> {
    let root = std::env::var("MURRE_FIXTURES")
        .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures").into());
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the fixtures are there")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("module.hlo.txt").exists())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 11);
    dirs
}

fn read(path: PathBuf) -> HloModule {
    let bytes = std::fs::read(&path).expect("a fixture file");
    match read_module(&bytes, &path.display().to_string()) {
        Ok(module) => module,
        Err(faults) => panic!("{path:?}: {faults:#?}"),
    }
}

/// What both forms hold: the text has places, the proto has not, and attributes kept as written differ in form.
fn essence(mut module: HloModule) -> HloModule {
    for inst in &mut module.instructions {
        inst.loc.text_line = 0;
        inst.loc.text_column = 0;
        inst.extra.clear();
    }
    module.extra.clear();
    module
}

#[test]
fn text_and_proto_are_the_same_module() {
    for dir in fixtures() {
        let text = essence(read(dir.join("module.hlo.txt")));
        let mut proto = essence(read(dir.join("module.hlo.pb")));
        // Text may be printed without metadata; where it has some, it must be the proto's.
        for (a, b) in text.instructions.iter().zip(&mut proto.instructions) {
            if a.loc.op_name.is_empty() {
                b.loc = a.loc.clone();
            }
        }
        assert_eq!(text.instructions.len(), proto.instructions.len(), "{dir:?}");
        for (a, b) in text.instructions.iter().zip(&proto.instructions) {
            assert_eq!(a, b, "{dir:?}");
        }
        assert_eq!(text, proto, "{dir:?}");
    }
}

#[test]
fn every_fixture_verifies() {
    for dir in fixtures() {
        for file in ["module.hlo.txt", "module.hlo.pb"] {
            let faults = verify(&read(dir.join(file)));
            assert!(faults.is_empty(), "{dir:?} {file}: {faults:#?}");
        }
    }
}

#[test]
fn printed_text_reads_back() {
    for dir in fixtures() {
        let mut module = read(dir.join("module.hlo.txt"));
        let printed = print_module(&module);
        let mut back = read_module(printed.as_bytes(), "printed")
            .unwrap_or_else(|e| panic!("{dir:?} {e:#?}\n{printed}"));
        for inst in module.instructions.iter_mut().chain(&mut back.instructions) {
            inst.loc.text_line = 0;
            inst.loc.text_column = 0;
        }
        assert_eq!(module, back, "{dir:?}");
    }
}
