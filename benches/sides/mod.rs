//! The two sides of the chain, each from the rows of a [`Source`] to a [`Program`]: murre's tables, and the twin's graph.

mod source;

pub use source::{Rows, SEED, Source, source, sources};

use crate::twin;
use bevy_ecs::prelude::*;
use bevy_ecs::schedule::SingleThreadedExecutor;
use murre_components::program::Program;
use murre_systems::batch::Programs;
use murre_systems::pass::PassSet;
use murre_systems::{Compiler, Pass, Stage, passes};

/// The passes of the chain: the rows of the pass table from stage `address` to stage `encode`, checks apart.
pub fn chain() -> impl Iterator<Item = (usize, &'static Pass)> {
    let stages = Stage::Address..=Stage::Encode;
    passes().enumerate().filter(move |(_, p)| stages.contains(&p.stage) && !p.verify)
}

/// One schedule of some passes, in table order.
pub fn schedule(rows: impl Iterator<Item = (usize, &'static Pass)>, world: &mut World) -> Schedule {
    let mut schedule = Schedule::default();
    schedule.set_executor(SingleThreadedExecutor::new());
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

/// One of the two: what it does in each phase.
pub trait Side {
    /// From rows to what the passes work on.
    fn build(&mut self);
    /// The passes.
    fn run(&mut self);
    /// The passes one by one: calls `done` in front of the first one, and with its name behind each.
    fn step(&mut self, done: impl FnMut(&'static str));
    /// The programs that came out.
    fn programs(&mut self) -> Vec<Program>;
}

/// murre's side.
pub struct Tables {
    world: World,
    schedule: Schedule,
    /// What is not in the world yet.
    rows: Option<Rows>,
}

impl Tables {
    /// In front of building: an empty world and its schedule.
    pub fn new(rows: Rows) -> Tables {
        let Compiler { mut world, .. } = Compiler::new(Default::default(), Default::default());
        let schedule = schedule(chain(), &mut world);
        Tables { world, schedule, rows: Some(rows) }
    }
}

impl Side for Tables {
    fn build(&mut self) {
        self.rows.take().into_iter().for_each(|rows| rows.into_world(&mut self.world));
    }

    fn run(&mut self) {
        self.schedule.run(&mut self.world);
    }

    fn step(&mut self, mut done: impl FnMut(&'static str)) {
        let one = |pass| (schedule(std::iter::once(pass), &mut self.world), pass.1.name);
        let schedules: Vec<(Schedule, &str)> = chain().map(one).collect();
        done("");
        for (mut schedule, name) in schedules {
            schedule.run(&mut self.world);
            done(name);
        }
    }

    fn programs(&mut self) -> Vec<Program> {
        match self.world.remove_resource::<Programs>() {
            Some(programs) => programs.0,
            None => self.world.remove_resource::<Program>().into_iter().collect(),
        }
    }
}

/// The twin's side.
pub struct Graph<'a> {
    source: &'a Source,
    passes: twin::PassManager,
    program: Option<twin::Program>,
}

impl Graph<'_> {
    pub fn new(source: &Source) -> Graph<'_> {
        Graph { source, passes: twin::back_end(), program: None }
    }
}

impl Side for Graph<'_> {
    fn build(&mut self) {
        self.program = Some(twin::Program::new(self.source));
    }

    fn run(&mut self) {
        self.program.iter_mut().for_each(|program| self.passes.run(program));
    }

    fn step(&mut self, mut done: impl FnMut(&'static str)) {
        let Some(program) = &mut self.program else { return };
        done("");
        for pass in &self.passes.0 {
            pass.run(program);
            done(pass.name());
        }
    }

    fn programs(&mut self) -> Vec<Program> {
        let encoded = |program: &mut twin::Program| {
            assert!(program.faults.is_empty(), "the twin refuses: {:?}", program.faults);
            program.encoded.take()
        };
        self.program.iter_mut().filter_map(encoded).collect()
    }
}
