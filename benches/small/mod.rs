//! Many small programs: a world for each, one world that is swept for the next, several in one world
//! (`systems::batch`), and an object graph for each. In: instructions of a program. Out: nanoseconds and executed
//! instructions an instruction, from rows to the bytes of all programs, worlds, schedules, sweeping and dropping
//! included; copies of the rows are made before.
//!
//! All have to give the same programs. Instructions are counted by callgrind, each way in a process of its own; "-"
//! without valgrind.

use crate::sides::{Graph, Rows, Side, Source, Tables, sources};
use murre_components::program::Program;
use murre_systems::{Compiler, Stage, batch};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Instructions in all programs of a size together.
const TOTAL: u32 = 100_000;
/// A count is the same every time, so fewer programs do.
const COUNTED: u32 = 20_000;

/// Instructions that share a world, about: few enough to stay in the cache.
const TOGETHER: u32 = 5_000;

/// The programs of one size.
struct Programs {
    each: Vec<Source>,
    /// The same, several in one source.
    groups: Vec<Source>,
}

impl Programs {
    fn new(n: u32, total: u32) -> Programs {
        let (each, groups) = sources(n, (total / n).max(2), (TOGETHER / n).max(2));
        Programs { each, groups }
    }

    fn instructions(&self) -> f64 {
        self.each.iter().map(|s| s.order.len()).sum::<usize>() as f64
    }
}

/// One world for all sources, one after the other.
fn swept(mut rows: Vec<Rows>) -> Vec<Program> {
    let stages: Vec<Stage> =
        Stage::ALL.into_iter().filter(|s| (Stage::Address..=Stage::Encode).contains(s)).collect();
    let mut compiler = Compiler::empty();
    let mut made = Vec::new();
    for rows in rows.drain(..) {
        compiler.load(Default::default(), Default::default());
        rows.into_world(&mut compiler.world);
        compiler.run(&stages);
        match compiler.world.remove_resource::<batch::Programs>() {
            Some(programs) => made.extend(programs.0),
            None => made.extend(compiler.take().0),
        }
    }
    made
}

fn copies(sources: &[Source]) -> Vec<Rows> {
    sources.iter().map(Source::rows).collect()
}

/// A way to make the programs: what happens before the clock, and behind.
type Way = (&'static str, fn(&Programs, &mut dyn FnMut(&mut dyn FnMut() -> Vec<Program>)));

const WAYS: [Way; 5] = [
    ("a world for each", |p, run| {
        let mut rows = copies(&p.each);
        run(&mut || rows.drain(..).flat_map(|rows| finish(Tables::new(rows))).collect());
    }),
    ("one world, swept for each", |p, run| {
        let mut rows = copies(&p.each);
        run(&mut || swept(std::mem::take(&mut rows)));
    }),
    ("a world for several", |p, run| {
        let mut rows = copies(&p.groups);
        run(&mut || rows.drain(..).flat_map(|rows| finish(Tables::new(rows))).collect());
    }),
    ("one world, swept for several", |p, run| {
        let mut rows = copies(&p.groups);
        run(&mut || swept(std::mem::take(&mut rows)));
    }),
    ("a graph for each", |p, run| {
        run(&mut || p.each.iter().flat_map(|source| finish(Graph::new(source))).collect());
    }),
];

fn finish(mut side: impl Side) -> Vec<Program> {
    side.build();
    side.run();
    side.programs()
}

/// What callgrind counts.
#[inline(never)]
fn counted_way(make: &mut dyn FnMut() -> Vec<Program>) -> Vec<Program> {
    make()
}

/// Instructions that a process of this program executes for one way.
fn instructions(n: u32, way: usize) -> Option<f64> {
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("count");
    let status = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=alternatives::small::counted_way*",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().ok()?)
        .args(["--count-small", &way.to_string(), &n.to_string()])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let text = std::fs::read_to_string(file).ok().filter(|_| status.is_ok_and(|s| s.success()))?;
    text.lines().find_map(|l| l.strip_prefix("totals: "))?.trim().parse().ok()
}

/// Costs of all ways for programs of `n` instructions.
pub fn compare(n: u32) {
    let programs = Programs::new(n, TOTAL);
    let mut best = [f64::MAX; WAYS.len()];
    let mut first: Option<Vec<Program>> = None;
    // The ways take turns, so that a busy machine is busy for all of them.
    for turn in 0..5 {
        for (best, (name, way)) in best.iter_mut().zip(WAYS) {
            way(&programs, &mut |make| {
                let begin = Instant::now();
                let made = black_box(make());
                *best = best.min(begin.elapsed().as_nanos() as f64);
                if turn == 0 {
                    assert!(first.get_or_insert(made.clone()) == &made, "{name}: other programs");
                }
            });
        }
    }
    let counted = Programs::new(n, COUNTED).instructions();
    let counts: Vec<Option<f64>> = (0..WAYS.len()).map(|way| Some(instructions(n, way)? / counted)).collect();
    println!(
        "{:<31} {:>10} {:>7} {:>14} {:>7}",
        format!("{} programs of {n}", programs.each.len()),
        "ns",
        "graph",
        "instructions",
        "graph"
    );
    let graph = (best[4] / programs.instructions(), counts[4]);
    for ((name, _), (ns, count)) in WAYS.into_iter().zip(best.into_iter().zip(counts)) {
        let ns = ns / programs.instructions();
        let (count, ratio) = match (count, graph.1) {
            (Some(count), Some(graph)) => (format!("{count:.0}"), format!("{:.2}x", graph / count)),
            _ => ("-".to_owned(), "-".to_owned()),
        };
        println!("  {name:<29} {ns:>10.0} {:>6.2}x {count:>14} {ratio:>7}", graph.0 / ns);
    }
}

/// What a counted process does.
pub fn counted(way: &str, n: &str) {
    if let (Ok(way), Ok(n)) = (way.parse::<usize>(), n.parse::<u32>())
        && let Some((_, way)) = WAYS.get(way)
    {
        way(&Programs::new(n.max(1), COUNTED), &mut |make| drop(black_box(counted_way(make))));
    }
}
