//! The driver: a world, its resources, one schedule, and the program that comes out.

use crate::chaos::disturb;
use crate::options::{CompileOptions, ExecutorChoice};
use crate::order::PassOrder;
use crate::pass::{Pass, PassSet, Stage, install, passes};
use crate::staging::Counts;
use crate::watch::Watch;
use bevy_ecs::prelude::*;
use bevy_ecs::schedule::{MultiThreadedExecutor, SingleThreadedExecutor};
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::HloModule;
use murre_components::program::Program;

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

/// A world with everything a compilation needs, before any pass has run.
pub struct Compiler {
    /// The world.
    pub world: World,
}

impl Compiler {
    /// A compiler for one module. The module must have passed the HLO verifier.
    pub fn new(module: HloModule, options: CompileOptions) -> Self {
        let mut world = World::new();
        if let Some(seed) = options.chaos {
            disturb(&mut world, seed);
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
        crate::encode::init(&mut world);
        Compiler { world }
    }

    /// Runs `stages` as one schedule.
    pub fn run(&mut self, stages: &[Stage]) {
        let options = self.world.resource::<CompileOptions>();
        let stages: Vec<Stage> = stages.iter().copied().filter(|s| options.wants(*s)).collect();
        let order = PassOrder::of(options);
        let watch = self.world.get_resource::<Watch>().cloned();
        let mut schedule = Schedule::default();
        install(&mut schedule, &stages, order, watch.as_ref());
        match self.world.resource::<CompileOptions>().executor {
            ExecutorChoice::Single => schedule.set_executor(SingleThreadedExecutor::new()),
            ExecutorChoice::Multi => schedule.set_executor(MultiThreadedExecutor::new()),
        };
        schedule.run(&mut self.world);
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

    /// Takes the results out.
    pub fn finish(mut self) -> CompileOutcome {
        let diagnostics = self.world.resource::<Diagnostics>().take();
        let failed = diagnostics.iter().any(|d| d.severity == murre_components::diag::Severity::Error);
        let program = if failed { None } else { self.world.remove_resource::<Program>() };
        CompileOutcome { program, diagnostics, world: self.world }
    }
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
