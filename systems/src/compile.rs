//! The driver: a world, its resources, one schedule, and the program that comes out.
//!
//! A [`Compiler`] outlives its module: [`Compiler::load`] empties the world and takes the next one. Registration, the
//! schedules and the tables' room stay, and the bytes are those of a fresh world, because a row's index in its table is
//! its id and nothing looks at entity ids. For a small module they cost more than all of its passes.
//!
//! ```text
//! new(a) -> run -> take          one world, one schedule
//!   load(b) -> run -> take       the same ones, swept
//!   batch(c, d, e)               several modules in it at once
//! ```

use crate::batch::{self, Batch, Member, Programs};
use crate::chaos::disturb;
use crate::dynamic_shape::row_groups::Rows;
use crate::dynamic_shape::story::ShapeStory;
use crate::options::{CompileOptions, ExecutorChoice};
use crate::order::PassOrder;
use crate::pass::{Pass, PassSet, Stage, install, passes};
use crate::staging::{Counts, Recycled};
use crate::watch::Watch;
use bevy_ecs::component::ComponentId;
use bevy_ecs::prelude::*;
use bevy_ecs::schedule::{MultiThreadedExecutor, SingleThreadedExecutor};
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::HloModule;
use murre_components::program::{Extents, Program};

/// What a compilation gives: the program, unless there was an error or the run was stopped early; every diagnostic;
/// and the world, for whoever wants to look.
pub struct CompileOutcome {
    /// The program.
    pub program: Option<Program>,
    /// Errors and warnings, in a fixed order.
    pub diagnostics: Vec<Diagnostic>,
    /// The tables as the last pass left them.
    pub world: World,
}

/// In a world that nobody looks at behind the passes: what no later pass reads is given back on the way.
#[derive(Resource)]
pub struct Lean;

/// Rows that a world may hold and still be swept for the next module. Above it the sweep, which pays for each row, costs
/// more than a new world and its schedule.
const SWEPT_ROWS: usize = 50_000;

/// A world with everything a compilation needs, and the schedules that were built for it.
pub struct Compiler {
    /// The world.
    pub world: World,
    /// Schedules by what they run. A schedule belongs to the world that it first ran on.
    schedules: Vec<((Vec<Stage>, ExecutorChoice, PassOrder), Schedule)>,
    /// What an empty world consists of: the crate's own resources.
    own: Vec<ComponentId>,
}

impl Compiler {
    /// A compiler with one module. The module must have passed the HLO verifier.
    pub fn new(module: HloModule, options: CompileOptions) -> Self {
        let mut world = World::new();
        let own = world.resource_entities().iter().map(|(id, _)| id).collect();
        crate::reserve::reserve_resources(&mut world);
        let mut compiler = Compiler { world, schedules: Vec::new(), own };
        compiler.fill(module, options);
        compiler
    }

    /// A compiler that waits for its first module.
    pub fn empty() -> Self {
        Compiler::new(HloModule::default(), CompileOptions::default())
    }

    /// Takes the next module, whatever became of the one before: rows and resources go, the world and its schedules
    /// stay. After a panic inside a pass make a new compiler instead.
    pub fn load(&mut self, module: HloModule, options: CompileOptions) {
        if self.world.entities().count_spawned() as usize > SWEPT_ROWS {
            *self = Compiler::new(module, options);
            return;
        }
        self.sweep();
        self.fill(module, options);
    }

    /// Removes every row and every resource that is not the world's own.
    fn sweep(&mut self) {
        let resources: Vec<(ComponentId, Entity)> = self.world.resource_entities().iter().collect();
        let is_resource = |e: &Entity| resources.iter().any(|(_, resource)| resource == e);
        // Resources have archetypes of their own: one entity tells what the others are. From the last row down nothing
        // is moved.
        let tables = self.world.archetypes().iter().map(|a| a.entities());
        let rows: Vec<Entity> = tables
            .filter(|rows| rows.first().is_some_and(|row| !is_resource(&row.id())))
            .flat_map(|rows| rows.iter().rev().map(|row| row.id()))
            .collect();
        for row in rows {
            self.world.despawn(row);
        }
        for (id, _) in resources.iter().filter(|(id, _)| !self.own.contains(id)) {
            self.world.remove_resource_by_id(*id);
        }
        // Else the world keeps a note of every component that was ever removed.
        self.world.clear_trackers();
        self.world.insert_resource(Recycled);
    }

    /// What every pass may count on.
    fn fill(&mut self, module: HloModule, options: CompileOptions) {
        let world = &mut self.world;
        if let Some(seed) = options.chaos {
            disturb(world, seed);
        }
        world.insert_resource(options);
        world.insert_resource(module);
        world.init_resource::<Diagnostics>();
        world.init_resource::<Counts>();
        world.init_resource::<Exprs>();
        world.init_resource::<Payloads>();
        world.init_resource::<ConstPool>();
        world.init_resource::<Order>();
        world.init_resource::<Blocks>();
        world.init_resource::<Parts>();
        init_columns(world);
        crate::encode::init(world);
    }

    /// Runs `stages` as one schedule, which is built the first time.
    pub fn run(&mut self, stages: &[Stage]) {
        let options = self.world.resource::<CompileOptions>();
        let executor = options.executor;
        let stages: Vec<Stage> = stages.iter().copied().filter(|s| options.wants(*s)).collect();
        let order = PassOrder::of(options);
        // A watched schedule carries its watch and is used once.
        let watch = self.world.get_resource::<Watch>().cloned();
        let key = (stages, executor, order);
        let built = self.schedules.iter_mut().find(|(k, _)| watch.is_none() && *k == key);
        if let Some((_, schedule)) = built {
            schedule.run(&mut self.world);
            return;
        }
        let mut schedule = Schedule::default();
        install(&mut schedule, &key.0, order, watch.as_ref());
        match executor {
            ExecutorChoice::Single => schedule.set_executor(SingleThreadedExecutor::new()),
            ExecutorChoice::Multi => schedule.set_executor(MultiThreadedExecutor::new()),
        };
        schedule.run(&mut self.world);
        if watch.is_none() {
            self.schedules.push((key, schedule));
        }
    }

    /// Compiles modules in one world, in place of whatever was in it, and gives their programs in their order. Where there
    /// is none the module is not to share a world: the options forbid it ([`batch::allowed`]), something is said about the
    /// module, or a pass gave the batch up. It has to be compiled by itself then, which also says what is wrong with it.
    pub fn batch(&mut self, modules: Vec<HloModule>, options: &CompileOptions) -> Vec<Option<Program>> {
        let mut programs: Vec<Option<Program>> = modules.iter().map(|_| None).collect();
        if !batch::allowed(options) {
            return programs;
        }
        let (on_hlo, on_tables) =
            Stage::ALL.split_at(Stage::ALL.iter().take_while(|s| **s < Stage::Penguin).count());
        self.load(HloModule::default(), options.clone());
        self.world.insert_resource(Lean);
        let (mut members, mut places) =
            (Vec::with_capacity(modules.len()), Vec::with_capacity(modules.len()));
        for (place, module) in modules.into_iter().enumerate() {
            self.world.insert_resource(module);
            self.run(on_hlo);
            let module = self.world.remove_resource::<HloModule>().unwrap_or_default();
            let extents = self.world.remove_resource::<Extents>();
            self.world.remove_resource::<Rows>();
            self.world.remove_resource::<ShapeStory>();
            if self.world.resource::<Diagnostics>().take().is_empty() {
                members.push(Member { module, extents, ..Member::default() });
                places.push(place);
            }
        }
        if members.is_empty() {
            return programs;
        }
        self.world.insert_resource(Parts(vec![Part::default(); members.len()]));
        self.world.insert_resource(Batch(members));
        self.world.insert_resource(HloModule::default());
        self.run(on_tables);
        let made = self.world.remove_resource::<Programs>().unwrap_or_default().0;
        if self.world.resource::<Diagnostics>().take().is_empty() {
            for (place, program) in places.into_iter().zip(made) {
                programs[place] = Some(program);
            }
        }
        programs
    }

    /// Runs every pass by itself and calls `after` behind each: for dumps, timings and histories. The passes and
    /// their order are those of [`Compiler::run`].
    pub fn run_stepwise(&mut self, after: impl FnMut(&'static Pass, std::time::Duration, &mut World)) {
        self.run_stages_stepwise(&Stage::ALL, after);
    }

    /// As [`Compiler::run_stepwise`], for some stages only.
    pub fn run_stages_stepwise(
        &mut self,
        stages: &[Stage],
        mut after: impl FnMut(&'static Pass, std::time::Duration, &mut World),
    ) {
        let watch = self.world.get_resource::<Watch>().cloned();
        for (row, pass) in passes().enumerate().filter(|(_, p)| stages.contains(&p.stage)) {
            let (verify, last, failed, wanted) = {
                let o = self.world.resource::<CompileOptions>();
                let failed = self.world.resource::<Diagnostics>().has_errors();
                (o.verify, o.stop_after, failed, o.wants(pass.stage))
            };
            if failed || !wanted || last.is_some_and(|last| pass.stage > last) || (pass.verify && !verify) {
                continue;
            }
            let mut schedule = Schedule::default();
            schedule.set_executor(SingleThreadedExecutor::new());
            (pass.add)(&mut schedule, PassSet(row as u16), watch.as_ref());
            // Built before the clock starts; a schedule of one system has nothing that could be wrong.
            drop(schedule.initialize(&mut self.world));
            let begin = std::time::Instant::now();
            schedule.run(&mut self.world);
            after(pass, begin.elapsed(), &mut self.world);
        }
    }

    /// Takes the program, unless there was an error or an early stop, and the diagnostics out.
    pub fn take(&mut self) -> (Option<Program>, Vec<Diagnostic>) {
        let diagnostics = self.world.resource::<Diagnostics>().take();
        let failed = diagnostics.iter().any(|d| d.severity == murre_components::diag::Severity::Error);
        let program = if failed { None } else { self.world.remove_resource::<Program>() };
        (program, diagnostics)
    }

    /// Takes the results out, and the world with them.
    pub fn finish(mut self) -> CompileOutcome {
        let (program, diagnostics) = self.take();
        CompileOutcome { program, diagnostics, world: self.world }
    }
}

/// Empties a column beside a table that no later pass reads, in a world that nobody looks at.
pub(crate) fn give_back<C: Resource + Default>(world: &mut World) {
    if world.contains_resource::<Lean>() {
        world.insert_resource(C::default());
    }
}

/// The columns that passes make beside the tables, empty.
fn init_columns(world: &mut World) {
    world.init_resource::<LocLives>();
    world.init_resource::<RegLives>();
    world.init_resource::<InstDmas>();
    world.init_resource::<InstSyncs>();
    world.init_resource::<ApOrigins>();
    world.init_resource::<ApWords>();
}

/// Compiles a verified module.
pub fn compile(module: HloModule, options: CompileOptions) -> CompileOutcome {
    let mut compiler = Compiler::new(module, options);
    compiler.run(&Stage::ALL);
    compiler.finish()
}

/// Sizes the global compute pool. It is set once for the process; later calls have no effect.
pub fn set_threads(threads: usize) {
    bevy_tasks::ComputeTaskPool::get_or_init(|| {
        bevy_tasks::TaskPoolBuilder::new().num_threads(threads.max(1)).build()
    });
}
