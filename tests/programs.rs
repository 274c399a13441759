//! Small programs that once went wrong, each named for what it is about: compiled for each target, simulated, and compared
//! with the evaluator on several random inputs.

mod support;

use support::simulate_and_evaluate;

#[test]
fn every_program_equals_the_evaluator() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("the programs are in the repository")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    files.sort();
    assert!(files.len() >= 20);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable program");
        println!("{}", file.display());
        for seed in 0..4 {
            simulate_and_evaluate(&text, seed);
        }
    }
}

#[test]
fn the_sign_of_zero_reaches_a_function() {
    let text = "HloModule m ENTRY e { z = f32[2] constant({-0, 0}) ROOT r = f32[2] rsqrt(z) }";
    let module = support::module(text);
    let program = support::compiled(&module, murre::components::engine::Target::Trn2);
    let got = support::simulated(&program, &[], None);
    let values: Vec<f32> =
        got[0].data.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(values, [f32::NEG_INFINITY, f32::INFINITY]);
}

#[test]
fn many_scalar_parameters_are_loaded_where_they_are_read() {
    use std::fmt::Write;
    let mut text = String::from("HloModule m\nENTRY e {\n x = f32[64] parameter(0)\n");
    let mut outs = Vec::new();
    for k in 0..90 {
        writeln!(text, " i{k} = s32[] parameter({})", k + 1).expect("writing to a string");
    }
    for k in 0..90 {
        writeln!(text, " d{k} = f32[2] dynamic-slice(x, i{k}), dynamic_slice_sizes={{2}}")
            .expect("writing to a string");
        outs.push(format!("d{k}"));
    }
    let shapes = vec!["f32[2]"; 90].join(", ");
    writeln!(text, " ROOT r = ({shapes}) tuple({})\n}}", outs.join(", ")).expect("writing to a string");
    simulate_and_evaluate(&text, 5);
}
