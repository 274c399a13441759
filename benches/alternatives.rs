//! murre's tables against two other ways to write the same: (a) an object graph with a pass manager (`twin`), (b) plain
//! vectors in a struct, without an ECS. In: a synthetic program in rows; sizes as arguments. Out: nanoseconds and
//! executed instructions an instruction of the program, and ratios.
//!
//! (a) does two chains, each from the rows that it finds in the pipeline. Behind the address stage: `drop_dead_registers`,
//! `reg_liveness`, `color_registers`, `drop_identity_moves`, `pack_addr4`. Behind the block cut: `build_edges`,
//! `pack_addr4`, `encode_descriptors`. The other passes have no twin. "build" is from rows to tables (`Staging::flush`)
//! and from the same rows to objects; copies of the rows, the empty world with its resources and the schedule are made
//! outside the clock, as the pass manager's list is. Passes of both sides write their results into what was built.
//! (b) does `pack_addr4` and `encode_descriptors` on finished tables. All results are compared: instructions left,
//! colour of every register that lives, every wait, every address word, every descriptor record. Instructions are
//! counted by callgrind at the smallest size, each side in a process of its own, minus a process that does the set-up
//! of that side; "-" without valgrind.

use bevy_ecs::prelude::*;
use bevy_ecs::schedule::SingleThreadedExecutor;
use murre_components::bir::*;
use murre_components::ids::InstId;
use murre_components::program::Record;
use murre_systems::compile::set_threads;
use murre_systems::encode::encode_descriptors::DescriptorRecords;
use murre_systems::pass::PassSet;
use murre_systems::place::Reuse;
use murre_systems::staging::Staging;
use murre_systems::sync::Edges;
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
    pub descs: Vec<DescRow>,
    pub queues: Vec<QueueHead>,
    pub blocks: Blocks,
    pub reuse: Reuse,
}

/// One of the two chains: where it stands, and murre's passes.
#[derive(Clone, Copy)]
struct Chain {
    name: &'static str,
    passes: &'static [&'static str],
    twin: fn() -> twin::PassManager,
}

const CHAINS: [Chain; 2] = [
    Chain {
        name: "registers",
        passes: &[
            "drop_dead_registers",
            "reg_liveness",
            "color_registers",
            "drop_identity_moves",
            "pack_addr4",
        ],
        twin: twin::registers,
    },
    Chain {
        name: "records",
        passes: &["build_edges", "pack_addr4", "encode_descriptors"],
        twin: twin::records,
    },
];

/// A program of about `n` instructions as the chain finds it.
fn source(n: u32, chain: &Chain) -> Source {
    let mut c = synthetic(n, SEED);
    if chain.name == "registers" {
        c.run_stages_stepwise(&[Stage::Place, Stage::Address], |_, _, _| ());
    } else {
        let before = |s: &Stage| (Stage::Place..Stage::Sync).contains(s);
        c.run_stages_stepwise(&Stage::ALL.into_iter().filter(before).collect::<Vec<_>>(), |_, _, _| ());
        schedule(&["lower_control"], &mut c.world).run(&mut c.world);
    }
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
    let descs = w
        .query::<(&DescHead, &DescSrc, &DescDst)>()
        .iter(w)
        .map(|(head, src, dst)| DescRow { head: *head, src: *src, dst: *dst })
        .collect();
    Source {
        insts,
        aps,
        regs,
        locs,
        order: w.resource::<Order>().0.clone(),
        descs,
        queues: w.query::<&QueueHead>().iter(w).copied().collect(),
        blocks: w.resource::<Blocks>().clone(),
        reuse: w.get_resource::<Reuse>().cloned().unwrap_or_default(),
    }
}

/// murre's side in front of building: an empty world, and a copy of the rows to hand over.
fn staged(source: &Source) -> (World, Option<Staging>) {
    let mut c = Compiler::new(Default::default(), Default::default());
    let mut rows = Staging::new(&c.world);
    rows.insts = source.insts.clone();
    rows.aps = source.aps.clone();
    rows.regs = source.regs.clone();
    rows.locs = source.locs.clone();
    rows.descs = source.descs.clone();
    rows.queues = source.queues.clone();
    c.world.insert_resource(Order(source.order.clone()));
    c.world.insert_resource(source.blocks.clone());
    c.world.insert_resource(source.reuse.clone());
    (c.world, Some(rows))
}

/// Builds it.
fn build((world, rows): &mut (World, Option<Staging>)) {
    if let Some(rows) = rows.take() {
        rows.flush(world);
    }
}

/// Built, and a schedule.
fn tables(source: &Source, chain: &Chain) -> (World, Schedule) {
    let mut staged = staged(source);
    build(&mut staged);
    let schedule = schedule(chain.passes, &mut staged.0);
    (staged.0, schedule)
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

const ENCODERS: [&str; 2] = ["pack_addr4", "encode_descriptors"];

/// What is compared: instructions left in order, colours of living registers, words of their operands, waits with the
/// position that has them, positions that are waited for, records of descriptors.
#[derive(PartialEq)]
struct Outcome {
    waits: Vec<(u32, u32, u32)>,
    awaited: Vec<u32>,
    records: Vec<Record>,
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
    let (mut waits, mut awaited) = (Vec::new(), Vec::new());
    if let Some(edges) = world.get_resource::<Edges>() {
        for (p, ends) in edges.starts.windows(2).enumerate() {
            waits.extend(
                edges.items[ends[0] as usize..ends[1] as usize].iter().map(|(c, at)| (p as u32, *c, *at)),
            );
        }
        awaited.extend((0u32..).zip(&edges.awaited).filter(|(_, a)| **a).map(|(p, _)| p));
    }
    let records = world.resource::<DescriptorRecords>().0.clone();
    Outcome { waits, awaited, records, order, colours, words }
}

fn result_of_twin(program: &twin::Program) -> Outcome {
    let operands = program.instructions.iter().flat_map(|i| &i.operands);
    let instructions = || (0u32..).zip(&program.instructions);
    let waits = |(p, i): (u32, &std::rc::Rc<twin::Instruction>)| {
        i.waits.borrow().iter().map(|(c, at)| (p, *c, *at)).collect::<Vec<_>>()
    };
    Outcome {
        waits: instructions().flat_map(waits).collect(),
        awaited: instructions().filter(|(_, i)| i.awaited.get()).map(|(p, _)| p).collect(),
        // Only the chain that encodes them has any.
        records: program.descriptors.iter().map(|d| d.record.get()).collect(),
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

/// Times of one chain at one size, and the proof that the results are equal.
fn compare(n: u32, chain: &Chain) {
    let source = source(n, chain);
    let runs = (400_000 / n).clamp(3, 9);
    let per = |ns: f64| ns / source.order.len() as f64;
    let (mut world, mut schedule) = tables(&source, chain);
    schedule.run(&mut world);
    let mut graph = twin::Program::new(&source);
    (chain.twin)().run(&mut graph);
    assert!(result_of_tables(&mut world) == result_of_twin(&graph), "the twin's result differs");
    drop((world, schedule, graph));
    let build_tables = per(best(runs, || staged(&source), build));
    let build_graph = per(best(runs, || None, |graph| *graph = Some(twin::Program::new(&source))));
    let run_tables = per(best(runs, || tables(&source, chain), |(world, schedule)| schedule.run(world)));
    let run_graph = per(best(
        runs,
        || (twin::Program::new(&source), (chain.twin)()),
        |(graph, manager)| manager.run(graph),
    ));
    let drop_tables = per(best(runs, || Some(tables(&source, chain)), |built| drop(built.take())));
    let drop_graph = per(best(runs, || Some(twin::Program::new(&source)), |built| drop(built.take())));
    let title = format!("(a) {}, ns an instruction", chain.name);
    println!("{n:>9} {title:<34} {:>10} {:>10} {:>7}", "murre", "graph", "ratio");
    line("build", build_tables, build_graph);
    line("passes", run_tables, run_graph);
    line("drop", drop_tables, drop_graph);
    line("all", build_tables + run_tables + drop_tables, build_graph + run_graph + drop_graph);
}

fn line(what: &str, ours: f64, theirs: f64) {
    println!("{:>9} {what:<34} {ours:>10.1} {theirs:>10.1} {:>6.2}x", "", theirs / ours);
}

/// Times of the encoders at one size.
fn compare_encoders(n: u32) {
    let runs = (400_000 / n).clamp(3, 9);
    let mut world = finished(n);
    let mut encoders = schedule(&ENCODERS, &mut world);
    encoders.run(&mut world);
    let columns = soa::Columns::of(&mut world);
    let plain = columns.encode();
    assert!(plain == soa::result_of(&mut world), "the plain loop's result differs");
    let length = world.resource::<Order>().0.len() as f64;
    let per = |ns: f64| ns / length;
    let ours = per(best(runs, || (), |()| encoders.run(&mut world)));
    let theirs = per(best(runs, || (), |()| drop(black_box(columns.encode()))));
    println!("{n:>9} {:<34} {:>10} {:>10} {:>7}", "(b) ns an instruction", "murre", "vectors", "ratio");
    line("words and descriptors", ours, theirs);
}

/// What a counted process does. "rows" and "staged" are the set-up of the others.
fn counted(n: u32, chain: &Chain, side: &str) {
    let source = source(n, chain);
    match side {
        "rows" => (),
        "staged" => {
            let (mut world, rows) = staged(&source);
            drop(black_box((schedule(chain.passes, &mut world), rows)));
        }
        "tables" | "tables built" => {
            let (mut world, mut schedule) = tables(&source, chain);
            if side == "tables" {
                schedule.run(&mut world);
            }
            drop(black_box(world));
        }
        "graph" | "graph built" => {
            let mut graph = twin::Program::new(&source);
            if side == "graph" {
                (chain.twin)().run(&mut graph);
            }
            drop(black_box(graph));
        }
        _ => eprintln!("no side is called {side}"),
    }
}

/// Instructions that a process of this program executes.
fn instructions(n: u32, chain: &Chain, side: &str) -> Option<f64> {
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--count", chain.name, side, &n.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let line = text.lines().find(|l| l.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn main() {
    set_threads(1);
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, chain, side, n] = args.as_slice()
        && flag == "--count"
    {
        let chain = CHAINS.iter().find(|c| c.name == chain).unwrap_or(&CHAINS[0]);
        return counted(n.parse().unwrap_or(1_000), chain, side);
    }
    let given: Vec<u32> = args.iter().filter_map(|a| a.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![10_000, 100_000, 1_000_000] } else { given };
    for &n in &sizes {
        CHAINS.iter().for_each(|chain| compare(n, chain));
        compare_encoders(n);
    }
    let n = sizes.iter().copied().min().unwrap_or(10_000);
    for chain in &CHAINS {
        count(n, chain);
    }
}

/// Executed instructions of one chain, an instruction of the program.
fn count(n: u32, chain: &Chain) {
    let of = |side: &str| instructions(n, chain, side);
    let counts = [of("rows"), of("staged"), of("tables built"), of("tables"), of("graph built"), of("graph")];
    let [Some(rows), Some(staged), Some(tables_built), Some(tables), Some(graph_built), Some(graph)] = counts
    else {
        println!("executed instructions: -");
        return;
    };
    // Per instruction of the program that both sides take, as the times are.
    let length = source(n, chain).order.len() as f64;
    let title = format!("(a) {}, executed instructions", chain.name);
    println!("{n:>9} {title:<34} {:>10} {:>10} {:>7}", "murre", "graph", "ratio");
    line("build and drop", (tables_built - staged) / length, (graph_built - rows) / length);
    line("passes", (tables - tables_built) / length, (graph - graph_built) / length);
    line("all", (tables - staged) / length, (graph - rows) / length);
}
