//! The race check on compiled programs: as they are they have no race (`tests/fixtures.rs` runs them all with the check);
//! without one of their waits nearly every one is refused, also where the numbers come out right.

mod support;

use murre::array::case::load_case;
use murre::components::engine::Target;
use murre::components::isa::{Events, decode, encode};
use murre::sim::{SimOptions, run};

/// Runs the case with each wait taken away in turn: waits, refused runs, and those of them that pass without the check.
fn without_each_wait(name: &str, target: Target) -> (usize, usize, usize) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let case = load_case(&dir).expect("a readable case");
    let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a readable module");
    let program = support::compiled(&murre::hlo::read_module(&bytes, name).expect("a module"), target);
    let inputs = case.read_inputs(&case.vectors[0]).expect("inputs");
    let inputs: Vec<Vec<u8>> = inputs.into_iter().map(|a| a.data).collect();
    let options = |check_races| SimOptions { check_races, max_steps: 100_000, ..Default::default() };
    assert!(run(&program, &inputs, &options(true)).is_ok());
    let mut counts = (0, 0, 0);
    for (stream, records) in program.streams.iter().enumerate() {
        for (at, record) in records.iter().enumerate() {
            let (instr, events) = decode(record).expect("a record of the compiler");
            if events.wait_mode == 0 {
                continue;
            }
            let mut broken = program.clone();
            broken.streams[stream][at] = encode(&instr, &Events { wait_mode: 0, wait_id: 0, ..events });
            counts.0 += 1;
            if let Err(d) = run(&broken, &inputs, &options(true)) {
                counts.1 += 1;
                let silent = run(&broken, &inputs, &options(false)).is_ok();
                counts.2 += silent as usize;
                assert!(!silent || d.code.id == "MUR0710", "{}", d.message);
            }
        }
    }
    counts
}

#[test]
fn a_compiled_program_that_lost_a_wait_is_refused() {
    for (name, target) in [
        ("while_nested", Target::Trn1),
        ("ds_dus_copy_chain", Target::Trn2),
        ("dus_multi_clamp", Target::Trn3),
        ("ds_multi_clamp", Target::Trn2),
    ] {
        let (waits, refused, silent) = without_each_wait(name, target);
        assert!(waits >= 3 && refused * 4 >= waits * 3, "{name}: {refused} of {waits} refused");
        assert!(silent >= 1, "{name}: the check found nothing that the numbers did not show");
    }
}
