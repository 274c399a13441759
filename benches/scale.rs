//! Cost of every back-end pass on synthetic programs of growing size: whether it stays flat. In: nothing, or sizes as
//! arguments. Out: three things an instruction of the program, a row a pass: nanoseconds, the most memory that was
//! held, and executed instructions. A row that costs more than a quarter more at a size than at a smaller one is marked,
//! unless it is too small to matter.
//!
//! Nanoseconds are the best of at least three runs at each size and are for comparison within one run of the bench: at
//! 10,000 instructions the tables stand in the processor's cache, at a million they do not, and on a loaded machine they
//! mark rows that are flat. Executed instructions have no such excuse. They are counted by callgrind in a process of its
//! own for each size, one count a pass; "-" without valgrind.

mod counting;

use counting::{NOW, PEAK};
use murre_systems::synth::synthetic;
use murre_systems::{Stage, compile::set_threads};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

const SEED: u64 = 7;
/// How much more an instruction may cost in one size than in a smaller one.
const FLAT: f64 = 1.25;
/// Nanoseconds and executed instructions below which a row is not marked: the clock, the cache and what a pass costs
/// however small the program decide there.
const SMALL: (f64, f64) = (2.0, 8.0);

/// Costs by pass and size, an instruction of the program.
type Table = Vec<(String, Vec<f64>)>;

fn main() {
    set_threads(1);
    murre::heap::keep(false);
    let args: Vec<String> = std::env::args().collect();
    let given: Vec<u32> = args.iter().filter_map(|a| a.parse().ok()).collect();
    if args.iter().any(|a| a == COUNT) {
        return counted(given.first().copied().unwrap_or(1_000));
    }
    let sizes = if given.is_empty() { vec![10_000, 100_000, 1_000_000] } else { given };
    let (times, memory) = measured(&sizes);
    print("ns an instruction", &sizes, &times, SMALL.0);
    line("peak bytes an instruction", &memory, 0.0);
    println!();
    match sizes.iter().map(|n| instructions(*n)).collect::<Option<Vec<_>>>() {
        Some(counts) => {
            let row = |k: usize| counts.iter().filter_map(|c| Some(c.get(k)?.1)).collect();
            let table: Table = counts[0].iter().enumerate().map(|(k, c)| (c.0.clone(), row(k))).collect();
            print("executed instructions", &sizes, &table, SMALL.1);
        }
        None => println!("executed instructions: -"),
    }
}

fn back_end() -> Vec<Stage> {
    Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect()
}

/// Best time of each pass, and the most memory, at each size.
fn measured(sizes: &[u32]) -> (Table, Vec<f64>) {
    let (mut table, mut memory) = (Table::new(), Vec::new());
    for (column, &n) in sizes.iter().enumerate() {
        let mut held = 0;
        // The first run pays for memory that the process never had, which is the kernel's time.
        for _ in 0..(400_000 / n.max(1)).clamp(3, 20) {
            let before = NOW.load(Relaxed);
            PEAK.store(before, Relaxed);
            let mut compiler = synthetic(n, SEED);
            let mut row = 0;
            compiler.run_stages_stepwise(&back_end(), |pass, time, _| {
                let cost = time.as_nanos() as f64 / f64::from(n);
                if table.len() <= row {
                    table.push((pass.name.to_string(), Vec::new()));
                }
                let costs = &mut table[row].1;
                match costs.get_mut(column) {
                    Some(best) => *best = best.min(cost),
                    None => costs.push(cost),
                }
                row += 1;
            });
            held = PEAK.load(Relaxed).saturating_sub(before);
            let failed = compiler.finish().program.is_none();
            assert!(!failed, "the synthetic program of {n} instructions does not compile");
        }
        memory.push(held as f64 / f64::from(n));
    }
    (table, memory)
}

/// Tells the process that it is run under callgrind.
const COUNT: &str = "--count";

/// What a counted process does: the passes, one after the other, with a mark behind each.
fn counted(n: u32) {
    let mut compiler = synthetic(n, SEED);
    compiler.run_stages_stepwise(&back_end(), |pass, _, _| mark(pass.name));
    drop(black_box(compiler));
}

/// Where callgrind writes what it has counted and begins anew.
#[inline(never)]
fn mark(pass: &'static str) {
    println!("{}", black_box(pass));
}

/// Executed instructions of each pass, an instruction of the program: what runs inside a schedule, between two marks.
fn instructions(n: u32) -> Option<Vec<(String, f64)>> {
    let folder = tempfile::tempdir().ok()?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*Schedule::run", "--dump-before=scale::mark"])
        .arg(format!("--callgrind-out-file={}/count", folder.path().display()))
        .arg(std::env::current_exe().ok()?)
        .args([COUNT, &n.to_string()])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let passes = String::from_utf8_lossy(&out.stdout).into_owned();
    let counts = passes.lines().enumerate().map(|(k, pass)| {
        let dump = std::fs::read_to_string(folder.path().join(format!("count.{}", k + 1))).ok()?;
        let total = dump.lines().find_map(|l| l.strip_prefix("totals: "))?;
        Some((pass.to_string(), total.trim().parse::<f64>().ok()? / f64::from(n)))
    });
    counts.collect::<Option<Vec<_>>>().filter(|counts| !counts.is_empty())
}

fn print(title: &str, sizes: &[u32], table: &Table, small: f64) {
    print!("{title:32}");
    sizes.iter().for_each(|n| print!("{n:>12}"));
    println!();
    table.iter().for_each(|(name, costs)| line(name, costs, small));
    let all = |column: usize| table.iter().filter_map(|r| r.1.get(column)).sum();
    line("all", &(0..sizes.len()).map(all).collect::<Vec<f64>>(), small);
}

fn line(name: &str, costs: &[f64], small: f64) {
    print!("{name:32}");
    costs.iter().for_each(|c| print!("{c:12.1}"));
    let mut least = f64::MAX;
    let grows = costs.iter().any(|c| {
        least = least.min(*c);
        *c > small && *c > FLAT * least
    });
    println!("{}", if grows { "  grows" } else { "" });
}
