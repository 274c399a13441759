//! The fixtures with run-time extents, with every size that matters, on every target, against the evaluator; and the
//! evaluator against the goldens.

#[path = "support/dynamic.rs"]
mod dynamic;
mod support;

use dynamic::{s32, same};
use murre::array::HostArray;
use murre::array::case::load_case;
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::components::hlo::{Attrs, HloModule, HloOp};
use murre::eval::evaluate;
use std::path::PathBuf;
use support::{compiled, try_simulated};

fn cases() -> Vec<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let dirs = std::fs::read_dir(root).expect("the fixtures").map(|d| d.expect("a case").path());
    let mut dirs: Vec<PathBuf> = dirs
        .filter(|d| d.file_name().is_some_and(|n| n.to_string_lossy().contains("dyn") && d.is_dir()))
        .collect();
    dirs.retain(|d| {
        let name = d.file_name().expect("a name").to_string_lossy();
        name.starts_with("dyn_") || name.starts_with("torch_") && name.ends_with("_dynamic")
    });
    dirs.sort();
    dirs
}

fn read(dir: &std::path::Path) -> HloModule {
    let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a module");
    murre::hlo::read_module(&bytes, "m").expect("a module")
}

/// Numbers of the entry parameters that are sizes, with their bounds.
fn size_parameters(module: &HloModule) -> Vec<(usize, i32)> {
    let mut found = Vec::new();
    for inst in module.insts().filter(|i| matches!(i.op, HloOp::SetDimensionSize | HloOp::DynamicReshape)) {
        for (k, o) in inst.operands().iter().enumerate().skip(1) {
            let Attrs::Parameter { number } = module.inst(*o).attrs() else { continue };
            let shape = inst.shape().array().expect("an array");
            let d = match inst.attrs() {
                Attrs::Dimensions(list) => list[0] as usize,
                _ => k - 1,
            };
            match found.iter_mut().find(|(p, _)| *p == *number as usize) {
                Some((_, bound)) => *bound = (shape.dims[d] as i32).min(*bound),
                None => found.push((*number as usize, shape.dims[d] as i32)),
            }
        }
    }
    found
}

/// The vectors of a case, and each of its sizes at 0, 1, its bound less one and its bound; a case without sizes of its own
/// with nothing but zeros.
fn vectors(dir: &std::path::Path, module: &HloModule) -> Vec<Vec<HostArray>> {
    let case = load_case(dir).expect("a case");
    let own: Vec<Vec<HostArray>> =
        case.vectors.iter().map(|v| case.read_inputs(v).expect("the inputs")).collect();
    let mut all = own.clone();
    let sizes = size_parameters(module);
    let pick = |which: usize, bound: i32| [0, 1, bound - 1, bound][which % 4].clamp(0, bound);
    for which in 0..if sizes.is_empty() { 0 } else { 4 } {
        let mut inputs = own[0].clone();
        sizes.iter().for_each(|(p, bound)| inputs[*p] = s32(pick(which, *bound)));
        all.push(inputs.clone());
        // And sizes that differ.
        sizes.iter().enumerate().for_each(|(k, (p, bound))| inputs[*p] = s32(pick(which + k, *bound)));
        all.push(inputs);
    }
    if sizes.is_empty() {
        let nothing = own[0].iter().map(|a| HostArray { data: vec![0; a.data.len()], ..a.clone() }).collect();
        all.push(nothing);
    }
    all
}

#[test]
fn every_size_on_every_target() {
    let cases = cases();
    assert_eq!(cases.len(), 16);
    for dir in cases {
        let module = read(&dir);
        let programs = [Target::Trn1, Target::Trn2, Target::Trn3].map(|t| compiled(&module, t));
        for (k, inputs) in vectors(&dir, &module).iter().enumerate() {
            let want = evaluate(&module, inputs);
            for program in &programs {
                let title = format!("{}, vector {k}, {}", dir.display(), program.target.name());
                match (try_simulated(program, inputs, Some(k as u64)), &want) {
                    (Ok(got), Ok(want)) => same(&title, &got, want),
                    (Err(got), Err(want)) => {
                        assert_eq!(
                            (got.code.id, &got.instruction),
                            (want[0].code.id, &want[0].instruction),
                            "{title}"
                        );
                        assert!(["MUR0711", "MUR0712"].contains(&got.code.id), "{title}: {got:#?}");
                    }
                    (got, want) => panic!("{title}: {got:?} and {want:?}"),
                }
            }
        }
    }
}

#[test]
fn the_evaluator_gives_the_goldens() {
    for dir in cases() {
        let (module, case) = (read(&dir), load_case(&dir).expect("a case"));
        for v in &case.vectors {
            let inputs = case.read_inputs(v).expect("the inputs");
            let got = evaluate(&module, &inputs).expect("results");
            let mismatches = case.compare(&got, &case.read_goldens(v).expect("the goldens"));
            assert!(mismatches.is_empty(), "{} {}: {mismatches:?}", dir.display(), v.name);
        }
        assert!(case.inputs.iter().all(|s| s.ty != HloType::Token));
    }
}
