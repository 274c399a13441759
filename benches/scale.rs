//! Time of every back-end pass on synthetic programs of growing size, nanoseconds an instruction: whether cost stays flat;
//! and the most memory that was held, bytes an instruction. In: nothing, or sizes as arguments. Out: a table. A row whose
//! largest cost is more than a quarter above its smallest is marked, unless it is too small to matter. Wall times are for
//! comparison within one run only, and on a loaded machine they mark rows that are flat; `stages` counts instructions.

mod counting;

use counting::{NOW, PEAK};
use murre_systems::synth::synthetic;
use murre_systems::{Stage, compile::set_threads};
use std::sync::atomic::Ordering::Relaxed;

const SEED: u64 = 7;
/// How much more an instruction may cost in one size than in another.
const FLAT: f64 = 1.25;
/// Nanoseconds an instruction below which a row is not marked: the clock and the cache decide there.
const SMALL: f64 = 2.0;

fn main() {
    set_threads(1);
    let given: Vec<u32> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![10_000, 100_000, 1_000_000] } else { given };
    let back_end: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    let mut table: Vec<(&'static str, Vec<f64>)> = Vec::new();
    let mut memory: Vec<f64> = Vec::new();
    for (column, &n) in sizes.iter().enumerate() {
        // Small programs are repeated and the best time of each pass is kept.
        for _ in 0..(200_000 / n).clamp(1, 20) {
            let before = NOW.load(Relaxed);
            PEAK.store(before, Relaxed);
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
            let held = PEAK.load(Relaxed).saturating_sub(before) as f64 / n as f64;
            memory.resize(column + 1, held);
            memory[column] = held;
            let failed = compiler.finish().program.is_none();
            assert!(!failed, "the synthetic program of {n} instructions does not compile");
        }
    }
    print!("{:32}", "ns an instruction");
    sizes.iter().for_each(|n| print!("{n:>12}"));
    println!();
    table.iter().for_each(|(name, costs)| line(name, costs, SMALL));
    let all = |column| table.iter().filter_map(|r: &(&str, Vec<f64>)| r.1.get(column)).sum();
    line("all", &(0..sizes.len()).map(all).collect::<Vec<f64>>(), SMALL);
    line("peak bytes an instruction", &memory, 0.0);
}

fn line(name: &str, costs: &[f64], small: f64) {
    print!("{name:32}");
    costs.iter().for_each(|c| print!("{c:12.1}"));
    let (least, most) = costs.iter().fold((f64::MAX, 0f64), |(a, b), c| (a.min(*c), b.max(*c)));
    println!("{}", if most > small && most > FLAT * least { "  not flat" } else { "" });
}
