//! Time of every back-end pass on synthetic programs of growing size, nanoseconds an instruction: whether cost stays flat.
//! In: nothing, or sizes as arguments. Out: a table. Wall times are for comparison within one run only; `stages` counts
//! instructions.

use murre_systems::synth::synthetic;
use murre_systems::{Stage, compile::set_threads};

const SEED: u64 = 7;

fn main() {
    set_threads(1);
    let given: Vec<u32> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![10_000, 100_000, 1_000_000] } else { given };
    let back_end: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    let mut table: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for (column, &n) in sizes.iter().enumerate() {
        // Small programs are repeated and the best time of each pass is kept.
        for _ in 0..(200_000 / n).clamp(1, 20) {
            let mut compiler = synthetic(n, SEED);
            let mut row = 0;
            compiler.run_stages_stepwise(&back_end, |pass, time, _| {
                let cost = time.as_nanos() as f64 / n as f64;
                if table.len() <= row {
                    table.push((pass.name, Vec::new()));
                }
                let costs = &mut table[row].1;
                match costs.get_mut(column) {
                    Some(best) => *best = best.min(cost),
                    None => costs.push(cost),
                }
                row += 1;
            });
            let failed = compiler.finish().program.is_none();
            assert!(!failed, "the synthetic program of {n} instructions does not compile");
        }
    }
    print!("{:32}", "ns an instruction");
    sizes.iter().for_each(|n| print!("{n:>12}"));
    println!();
    for (name, costs) in &table {
        print!("{name:32}");
        costs.iter().for_each(|c| print!("{c:12.1}"));
        println!();
    }
    print!("{:32}", "all");
    for column in 0..sizes.len() {
        print!("{:12.1}", table.iter().filter_map(|r| r.1.get(column)).sum::<f64>());
    }
    println!();
}
