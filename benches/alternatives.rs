//! murre's tables against two other ways to write the same: (a) an object graph with a pass manager (`twin`), (b) plain
//! vectors in a struct, without an ECS. In: a synthetic program in rows; sizes as arguments. Out: nanoseconds and
//! executed instructions an instruction of the program, and ratios; with `--passes` the nanoseconds of each pass instead.
//!
//! (a) is the back end from a placed program to its bytes: every pass of the stages `address` to `encode`, checks
//! apart. "build" is from rows to tables (`Staging::flush`, expressions) and from the same rows to objects; copies of the
//! rows, the empty world with its resources and the schedule are made outside the clock, as the pass manager's list is.
//! "drop" is what both sides hold when the program has been taken out. The two programs have to be equal, every record,
//! word and table of them. Instructions are counted by callgrind at the smallest size, each side in a process of its own;
//! "-" without valgrind.
//!
//! (c), `-- --small`, is (a) for many small programs: [`small`].
//!
//! (b) does `pack_addr4` and `encode_descriptors` on finished tables; words and records have to be equal.

use bevy_ecs::prelude::*;
use murre_components::bir::Order;
use murre_components::program::Program;
use murre_systems::Stage;
use murre_systems::compile::set_threads;
use murre_systems::synth::synthetic;
use sides::{Graph, SEED, Side, Tables, chain, schedule, source};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Instant;

mod sides;
mod small;
mod soa;
mod twin;

/// The phases; each is a function of its own, so that callgrind finds it.
const PHASES: [&str; 3] = ["build", "passes", "drop"];

#[inline(never)]
fn phase_build(side: &mut impl Side) {
    side.build();
}

#[inline(never)]
fn phase_passes(side: &mut impl Side) {
    side.run();
}

#[inline(never)]
fn phase_take(side: &mut impl Side) -> Vec<Program> {
    side.programs()
}

#[inline(never)]
fn phase_drop(side: impl Side) {
    drop(black_box(side));
}

#[inline(never)]
fn phase_end() {
    black_box(());
}

/// Nanoseconds of building, running and dropping a side.
fn nanoseconds(mut side: impl Side) -> [f64; 3] {
    let begin = Instant::now();
    phase_build(&mut side);
    let built = Instant::now();
    phase_passes(&mut side);
    let ran = Instant::now();
    drop(black_box(phase_take(&mut side)));
    let taken = Instant::now();
    phase_drop(side);
    [built - begin, ran - built, taken.elapsed()].map(|time| time.as_nanos() as f64)
}

/// Nanoseconds of each pass of a side, by name.
fn nanoseconds_of_passes(mut side: impl Side) -> Vec<(&'static str, f64)> {
    let mut times = Vec::new();
    side.build();
    let mut begin = None;
    side.step(|name| {
        if let Some(begin) = begin.map(|b: Instant| b.elapsed()) {
            times.push((name, begin.as_nanos() as f64));
        }
        begin = Some(Instant::now());
    });
    times
}

/// The smaller of two times each.
fn least<'a>(best: impl Iterator<Item = &'a mut f64>, times: impl Iterator<Item = f64>) {
    best.zip(times).for_each(|(best, time)| *best = best.min(time));
}

/// How often. The sides take turns, so that a busy machine is busy for both.
fn turns(n: u32) -> std::ops::Range<u32> {
    0..(400_000 / n).clamp(3, 9)
}

/// Times of the chain at one size, and the proof that the programs are equal.
fn compare(n: u32) {
    let source = source(n);
    let ours = program(Tables::new(source.rows()));
    assert!(ours.len() == 1, "murre refuses a synthetic program");
    assert!(ours == program(Graph::new(&source)), "the twin's program differs");
    drop(ours);
    let (mut ours, mut theirs) = ([f64::MAX; 3], [f64::MAX; 3]);
    for _ in turns(n) {
        least(ours.iter_mut(), nanoseconds(Tables::new(source.rows())).into_iter());
        least(theirs.iter_mut(), nanoseconds(Graph::new(&source)).into_iter());
    }
    table(n, "(a) ns an instruction", source.order.len(), ours, theirs);
}

/// Times of each pass of both sides.
fn compare_passes(n: u32) {
    let source = source(n);
    let mut ours = nanoseconds_of_passes(Tables::new(source.rows()));
    let mut theirs = nanoseconds_of_passes(Graph::new(&source));
    for _ in turns(n).skip(1) {
        let again = nanoseconds_of_passes(Tables::new(source.rows()));
        least(ours.iter_mut().map(|p| &mut p.1), again.into_iter().map(|p| p.1));
        let again = nanoseconds_of_passes(Graph::new(&source));
        least(theirs.iter_mut().map(|p| &mut p.1), again.into_iter().map(|p| p.1));
    }
    println!("{n:>9} {:<34} {:>10} {:>10} {:>7}", "(a) passes, ns an instruction", "murre", "graph", "ratio");
    let per = |ns: f64| ns / source.order.len() as f64;
    for (name, ours) in ours {
        let twin = theirs.iter().find(|t| t.0 == name).map_or(f64::NAN, |t| t.1);
        line(name, per(ours), per(twin));
    }
}

/// What one side makes of the source.
fn program(mut side: impl Side) -> Vec<Program> {
    side.build();
    side.run();
    side.programs()
}

/// Costs of the phases of both sides, for a program of `length` instructions.
fn table(n: u32, title: &str, length: usize, ours: [f64; 3], theirs: [f64; 3]) {
    println!("{n:>9} {title:<34} {:>10} {:>10} {:>7}", "murre", "graph", "ratio");
    let per = |cost: f64| cost / length as f64;
    for (name, (ours, theirs)) in PHASES.into_iter().zip(ours.into_iter().zip(theirs)) {
        line(name, per(ours), per(theirs));
    }
    line("all", per(ours.iter().sum()), per(theirs.iter().sum()));
}

fn line(what: &str, ours: f64, theirs: f64) {
    println!("{:>9} {what:<34} {ours:>10.1} {theirs:>10.1} {:>6.2}x", "", theirs / ours);
}

/// A program of about `n` instructions, ready to be encoded.
fn finished(n: u32) -> World {
    let mut c = synthetic(n, SEED);
    let stages: Vec<Stage> =
        Stage::ALL.into_iter().filter(|s| (Stage::Place..Stage::Encode).contains(s)).collect();
    c.run_stages_stepwise(&stages, |_, _, _| ());
    c.world
}

/// Times of the encoders at one size.
fn compare_encoders(n: u32) {
    let mut world = finished(n);
    let encoders = ["pack_addr4", "encode_descriptors"];
    let mut encoders = schedule(chain().filter(|(_, p)| encoders.contains(&p.name)), &mut world);
    encoders.run(&mut world);
    let columns = soa::Columns::of(&mut world);
    let plain = columns.encode();
    assert!(plain == soa::result_of(&mut world), "the plain loop's result differs");
    let length = world.resource::<Order>().0.len() as f64;
    let (mut ours, mut theirs) = (f64::MAX, f64::MAX);
    for _ in turns(n) {
        let begin = Instant::now();
        encoders.run(&mut world);
        let turn = Instant::now();
        drop(black_box(columns.encode()));
        ours = ours.min((turn - begin).as_nanos() as f64 / length);
        theirs = theirs.min(turn.elapsed().as_nanos() as f64 / length);
    }
    println!("{n:>9} {:<34} {:>10} {:>10} {:>7}", "(b) ns an instruction", "murre", "vectors", "ratio");
    line("words and descriptors", ours, theirs);
}

/// What a counted process does.
fn counted(n: u32, side: &str) {
    fn phases(mut side: impl Side) {
        phase_build(&mut side);
        phase_passes(&mut side);
        drop(black_box(phase_take(&mut side)));
        phase_drop(side);
        phase_end();
    }
    let source = source(n);
    if side == "tables" { phases(Tables::new(source.rows())) } else { phases(Graph::new(&source)) }
}

/// Instructions that a process of this program executes in each phase of a side. Callgrind writes down what it has
/// counted whenever a phase begins, and begins again at 0.
fn instructions(n: u32, side: &str) -> Option<[f64; 3]> {
    let counts = std::env::temp_dir().join(format!("alternatives-{}-{side}", std::process::id()));
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=alternatives::phase_*"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().ok()?)
        .args(["--count", side, &n.to_string()])
        .stderr(Stdio::null())
        .status();
    let total = |part: &str| -> Option<f64> {
        let file = counts.with_added_extension(part);
        let text = std::fs::read_to_string(&file).ok()?;
        std::fs::remove_file(file).ok()?;
        text.lines().find_map(|l| l.strip_prefix("totals: "))?.parse().ok()
    };
    // In front of the first phase, the phases, behind the last one.
    let parts = ["1", "2", "3", "4", "5"].map(total);
    let _ = std::fs::remove_file(&counts);
    let [_, build, passes, _, drop] = parts;
    status.is_ok_and(|s| s.success()).then_some([build?, passes?, drop?])
}

fn main() {
    set_threads(1);
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    match args.as_slice() {
        [flag, side, n] if flag == "--count" => return counted(n.parse().unwrap_or(1_000), side),
        [flag, way, n] if flag == "--count-small" => return small::counted(way, n),
        _ => {}
    }
    let given: Vec<u32> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let given_none = given.is_empty();
    let sizes = if given_none { vec![10_000, 100_000, 1_000_000] } else { given };
    if args.iter().any(|a| a == "--passes") {
        return sizes.into_iter().for_each(compare_passes);
    }
    if args.iter().any(|a| a == "--small") {
        let sizes = if given_none { vec![50, 500, 5_000] } else { sizes };
        return sizes.into_iter().for_each(small::compare);
    }
    let twins = twin::back_end();
    let alone = chain().map(|(_, p)| p.name).filter(|name| twins.0.iter().all(|twin| twin.name() != *name));
    alone.for_each(|name| println!("without a twin: {name}"));
    for &n in &sizes {
        compare(n);
        compare_encoders(n);
    }
    let n = sizes.iter().copied().min().unwrap_or(10_000);
    match (instructions(n, "tables"), instructions(n, "graph")) {
        (Some(ours), Some(theirs)) => {
            table(n, "(a) executed instructions", source(n).order.len(), ours, theirs);
        }
        _ => println!("executed instructions: -"),
    }
    if given_none {
        [50, 500, 5_000].into_iter().for_each(small::compare);
    }
}
