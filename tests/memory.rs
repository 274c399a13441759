//! The most memory that the back end holds, an instruction of its program: held to a budget, as executed instructions
//! are. What is asked for is counted, so the figure is the same on every machine. `cargo bench --bench scale` prints it
//! up to a million instructions.

#[path = "../benches/counting/mod.rs"]
mod counting;

use counting::{NOW, PEAK};
use murre::systems::synth::synthetic;
use murre::systems::{Stage, compile::set_threads};
use std::sync::atomic::Ordering::Relaxed;

/// Bytes an instruction, of which about 900 are rows of tables, 160 are records and the rest is room for rows to come.
const BUDGET: f64 = 1_800.0;

#[test]
fn the_peak_is_under_its_budget_and_does_not_grow() {
    set_threads(1);
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    let peak = |n: u32| {
        let before = NOW.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut compiler = synthetic(n, 7);
        compiler.run(&stages);
        let held = PEAK.load(Relaxed) - before;
        assert!(compiler.finish().program.is_some());
        held as f64 / f64::from(n)
    };
    let sizes = [5_000, 20_000, 80_000];
    let held = sizes.map(peak);
    println!("bytes an instruction at {sizes:?}: {held:.0?}");
    assert!(held.iter().all(|h| *h < BUDGET), "{held:.0?} over {BUDGET}");
    assert!(held[2] < 1.25 * held[0], "{held:.0?} grows with the program");
}
