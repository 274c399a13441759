//! murre's tables against two other ways to write the same: (a) an object graph with a pass manager (`twin`), (b) plain
//! vectors in a struct, without an ECS. In: a synthetic program as the address stage leaves it, in rows; sizes as
//! arguments. Out: nanoseconds and executed instructions an instruction of the program, and ratios.
//!
//! (a) does five passes: `drop_dead_registers`, `reg_liveness`, `color_registers`, `drop_identity_moves`, `pack_addr4`.
//! Both sides build their program from the same rows, so that "build" is spawning on one side and boxing on the other.
//! (b) does `pack_addr4` and `encode_descriptors` on finished tables. All results are compared: instructions left,
//! colour of every register that lives, every address word, every descriptor record. Instructions are counted by
//! callgrind at the smallest size, in a process of its own, minus what the set-up costs; "-" without valgrind.

use bevy_ecs::prelude::*;
use bevy_ecs::schedule::SingleThreadedExecutor;
use murre_components::bir::*;
use murre_components::ids::InstId;
use murre_systems::compile::set_threads;
use murre_systems::pass::PassSet;
use murre_systems::staging::Staging;
use murre_systems::synth::synthetic;
use murre_systems::{Compiler, Stage, passes};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

mod soa;
mod twin;

const SEED: u64 = 7;

/// A program in rows, of no side.
pub struct Source {
    pub insts: Vec<InstRow>,
    pub aps: Vec<ApRow>,
    pub regs: Vec<RegRow>,
    pub locs: Vec<LocRow>,
    pub order: Vec<InstId>,
}

/// A program of about `n` instructions, with addresses and without registers.
fn source(n: u32) -> Source {
    let mut c = synthetic(n, SEED);
    c.run_stages_stepwise(&[Stage::Place, Stage::Address], |_, _, _| ());
    let w = &mut c.world;
    let insts = w
        .query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom, &InstDma, &InstSync)>()
        .iter(w)
        .map(|(head, operands, args, regs, from, dma, sync)| InstRow {
            head: *head,
            operands: *operands,
            args: *args,
            regs: *regs,
            from: *from,
            dma: *dma,
            sync: *sync,
        })
        .collect();
    let aps = w
        .query::<(&ApHead, &ApPattern, &ApDynamic, &ApWord)>()
        .iter(w)
        .map(|(head, pattern, dynamic, word)| ApRow {
            head: *head,
            pattern: pattern.clone(),
            dynamic: *dynamic,
            word: *word,
        })
        .collect();
    let regs = w
        .query::<(&RegHead, &RegFrom, &RegBounds, &RegLive)>()
        .iter(w)
        .map(|(head, from, bounds, live)| RegRow { head: *head, from: *from, bounds: *bounds, live: *live })
        .collect();
    let locs = w
        .query::<(&LocHead, &LocPlace, &LocLive, &LocFrom)>()
        .iter(w)
        .map(|(head, place, live, from)| LocRow { head: *head, place: *place, live: *live, from: *from })
        .collect();
    Source { insts, aps, regs, locs, order: w.resource::<Order>().0.clone() }
}

/// murre's side, built: a world with the rows.
fn tables(source: &Source) -> World {
    let mut c = Compiler::new(Default::default(), Default::default());
    let mut rows = Staging::new(&c.world);
    rows.insts = source.insts.clone();
    rows.aps = source.aps.clone();
    rows.regs = source.regs.clone();
    rows.locs = source.locs.clone();
    rows.flush(&mut c.world);
    c.world.insert_resource(Order(source.order.clone()));
    c.world
}

/// One schedule of the named passes, in table order.
fn schedule(names: &[&str], world: &mut World) -> Schedule {
    let mut schedule = Schedule::default();
    schedule.set_executor(SingleThreadedExecutor::new());
    let rows = passes().enumerate().filter(|(_, p)| names.contains(&p.name));
    let sets: Vec<PassSet> = rows
        .map(|(row, pass)| {
            (pass.add)(&mut schedule, PassSet(row as u16), None);
            PassSet(row as u16)
        })
        .collect();
    for pair in sets.windows(2) {
        schedule.configure_sets(pair[1].after(pair[0]));
    }
    drop(schedule.initialize(world));
    schedule
}

const CHAIN: [&str; 5] =
    ["drop_dead_registers", "reg_liveness", "color_registers", "drop_identity_moves", "pack_addr4"];
const ENCODERS: [&str; 2] = ["pack_addr4", "encode_descriptors"];

/// What is compared: instructions left in order, colours of living registers, words of their operands.
#[derive(PartialEq)]
struct Outcome {
    order: Vec<u32>,
    colours: Vec<Option<u8>>,
    words: Vec<(u32, u32)>,
}

fn result_of_tables(world: &mut World) -> Outcome {
    let order: Vec<u32> = world.resource::<Order>().0.iter().map(|i| i.0).collect();
    let operands: Vec<InstOperands> = world.query::<&InstOperands>().iter(world).copied().collect();
    let words: Vec<u32> = world.query::<&ApWord>().iter(world).map(|w| w.0).collect();
    let of = order.iter().flat_map(|i| operands[*i as usize].range());
    let words = of.map(|k| (k as u32, words[k])).collect();
    let colours =
        world.query::<&RegHead>().iter(world).map(|r| (r.colour < 64).then_some(r.colour)).collect();
    Outcome { order, colours, words }
}

fn result_of_twin(program: &twin::Program) -> Outcome {
    let operands = program.instructions.iter().flat_map(|i| &i.operands);
    Outcome {
        order: program.instructions.iter().map(|i| i.number).collect(),
        colours: program.registers.iter().map(|r| r.colour.get()).collect(),
        words: operands.map(|o| (o.number, o.word.get())).collect(),
    }
}

/// Best of some runs, nanoseconds: set-up, then what is timed.
fn best<T>(runs: u32, mut setup: impl FnMut() -> T, mut timed: impl FnMut(&mut T)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..runs {
        let mut input = setup();
        let begin = Instant::now();
        timed(&mut input);
        best = best.min(begin.elapsed().as_nanos() as f64);
        black_box(input);
    }
    best
}

/// A program of about `n` instructions, ready to be encoded.
fn finished(n: u32) -> World {
    let mut c = synthetic(n, SEED);
    let stages: Vec<Stage> =
        Stage::ALL.into_iter().filter(|s| (Stage::Place..Stage::Encode).contains(s)).collect();
    c.run_stages_stepwise(&stages, |_, _, _| ());
    c.world
}

/// Times of both comparisons at one size, and the proof that the results are equal.
fn compare(n: u32) {
    let source = source(n);
    let runs = (400_000 / n).clamp(3, 9);
    let per = |ns: f64| ns / source.order.len() as f64;
    let mut world = tables(&source);
    schedule(&CHAIN, &mut world).run(&mut world);
    let mut graph = twin::Program::new(&source);
    twin::manager().run(&mut graph);
    assert!(result_of_tables(&mut world) == result_of_twin(&graph), "the twin's result differs");
    drop((world, graph));
    let build_tables = per(best(runs, || (), |()| drop(black_box(tables(&source)))));
    let build_graph = per(best(runs, || (), |()| drop(black_box(twin::Program::new(&source)))));
    let ready = || {
        let mut world = tables(&source);
        let schedule = schedule(&CHAIN, &mut world);
        (world, schedule)
    };
    let run_tables = per(best(runs, ready, |(world, schedule)| schedule.run(world)));
    let run_graph = per(best(runs, || twin::Program::new(&source), |graph| twin::manager().run(graph)));
    println!("{:>9} {:<28} {:>10} {:>10} {:>7}", n, "(a) ns an instruction", "murre", "graph", "ratio");
    let line = |what: &str, ours: f64, theirs: f64| {
        println!("{:>9} {what:<28} {ours:>10.1} {theirs:>10.1} {:>6.2}x", "", theirs / ours);
    };
    line("build and drop", build_tables, build_graph);
    line("five passes", run_tables, run_graph);
    line("both", build_tables + run_tables, build_graph + run_graph);

    let mut world = finished(n);
    let mut encoders = schedule(&ENCODERS, &mut world);
    encoders.run(&mut world);
    let columns = soa::Columns::of(&mut world);
    let plain = columns.encode();
    assert!(plain == soa::result_of(&mut world), "the plain loop's result differs");
    let ours = per(best(runs, || (), |()| encoders.run(&mut world)));
    let theirs = per(best(runs, || (), |()| drop(black_box(columns.encode()))));
    println!("{:>9} {:<28} {:>10} {:>10} {:>7}", "", "(b) ns an instruction", "murre", "vectors", "ratio");
    line("words and descriptors", ours, theirs);
}

/// What a counted process does. "rows" is the set-up of the other two.
fn counted(n: u32, side: &str) {
    match side {
        "rows" => drop(black_box(source(n))),
        "tables" | "graph" => {
            let source = source(n);
            if side == "tables" {
                let mut world = tables(&source);
                schedule(&CHAIN, &mut world).run(&mut world);
                drop(black_box(world));
            } else {
                let mut graph = twin::Program::new(&source);
                twin::manager().run(&mut graph);
                drop(black_box(graph));
            }
        }
        _ => eprintln!("no side is called {side}"),
    }
}

/// Instructions that a process of this program executes.
fn instructions(n: u32, side: &str) -> Option<f64> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--count", side, &n.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let line = text.lines().find(|l| l.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn main() {
    set_threads(1);
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, side, n] = args.as_slice()
        && flag == "--count"
    {
        return counted(n.parse().unwrap_or(1_000), side);
    }
    let given: Vec<u32> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![10_000, 100_000, 1_000_000] } else { given };
    sizes.iter().for_each(|&n| compare(n));
    let n = sizes.iter().copied().min().unwrap_or(10_000);
    let of = |side: &str| instructions(n, side);
    match (of("rows"), of("tables"), of("graph")) {
        (Some(rows), Some(tables), Some(graph)) => {
            // Per instruction of the program that both sides take, as the times are.
            let length = source(n).order.len() as f64;
            let per = |count: f64| (count - rows) / length;
            println!(
                "executed instructions, build and five passes, an instruction of the program of {n}: murre {:.0}, graph {:.0}, {:.2}x",
                per(tables),
                per(graph),
                (graph - rows) / (tables - rows)
            );
        }
        _ => println!("executed instructions: -"),
    }
}
