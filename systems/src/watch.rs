//! Who ran when, on which thread. In: the runs of the systems of a schedule whose world holds a [`Watch`]. Out: a span a
//! run: pass, begin, duration, thread. A system is recorded by an adaptor around it, so that both executors run what
//! they always run; a schedule without a watch has no adaptors and pays nothing.

use crate::pass::{Pass, PassSet, passes};
use bevy_ecs::prelude::*;
use bevy_ecs::system::{Adapt, IntoAdapterSystem, RunSystemError, System, SystemIn, SystemInput};
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// One run of one pass.
#[derive(Clone)]
pub struct Span {
    /// The pass.
    pub pass: &'static Pass,
    /// Begin, since the watch began.
    pub begin: Duration,
    /// How long it took.
    pub took: Duration,
    /// The thread that ran it, an index into [`Recorded::threads`].
    pub thread: usize,
    /// Memory that it asked for, if the watch has a meter.
    pub usage: Option<Usage>,
}

/// Memory that was asked for between two points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Calls of the allocator.
    pub allocations: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Most bytes held at once, beyond those held at the beginning.
    pub peak: u64,
}

/// A counter of memory. It belongs to the program, not to this library: only a program chooses its allocator. It counts
/// all threads, so that it tells something about a pass only where one pass runs at a time.
#[derive(Clone, Copy)]
pub struct Meter {
    /// Begins to count from zero.
    pub begin: fn(),
    /// Stops, and tells what was counted.
    pub end: fn() -> Usage,
}

/// A thread that ran a pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// The operating system's name for it.
    pub name: String,
    id: ThreadId,
}

/// What a watch has seen.
#[derive(Clone, Default)]
pub struct Recorded {
    /// Runs, by the time at which they ended.
    pub spans: Vec<Span>,
    /// Threads, by first appearance.
    pub threads: Vec<Thread>,
}

/// Put into the world of a compiler, it records every pass that runs.
#[derive(Resource, Clone)]
pub struct Watch {
    begin: Instant,
    meter: Option<Meter>,
    seen: Arc<Mutex<Recorded>>,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { begin: Instant::now(), meter: None, seen: Arc::default() }
    }
}

impl Watch {
    /// A watch that counts memory too.
    pub fn with_meter(meter: Meter) -> Watch {
        Watch { meter: Some(meter), ..Watch::default() }
    }

    /// Everything recorded so far.
    pub fn recorded(&self) -> Recorded {
        self.seen.lock().clone()
    }

    /// The run that ended last.
    pub fn last(&self) -> Option<Span> {
        self.seen.lock().spans.last().cloned()
    }

    /// The system of a pass, its runs recorded.
    pub fn around<S, M>(&self, set: PassSet, system: S) -> IntoAdapterSystem<Around, S>
    where
        S: IntoSystem<(), (), M>,
    {
        IntoAdapterSystem::new(Around { watch: self.clone(), row: set.0 }, system)
    }

    fn note(&self, row: u16, begin: Instant, took: Duration, usage: Option<Usage>) {
        let Some(pass) = passes().nth(row as usize) else { return };
        let current = std::thread::current();
        let mut seen = self.seen.lock();
        let thread = match seen.threads.iter().position(|t| t.id == current.id()) {
            Some(thread) => thread,
            None => {
                let name = current.name().unwrap_or("unnamed").to_string();
                seen.threads.push(Thread { name, id: current.id() });
                seen.threads.len() - 1
            }
        };
        let begin = begin.saturating_duration_since(self.begin);
        seen.spans.push(Span { pass, begin, took, thread, usage });
    }
}

/// Records each run of the system that it stands around.
pub struct Around {
    watch: Watch,
    row: u16,
}

impl<S: System> Adapt<S> for Around {
    type In = S::In;
    type Out = S::Out;

    fn adapt(
        &mut self,
        input: <Self::In as SystemInput>::Inner<'_>,
        run_system: impl FnOnce(SystemIn<'_, S>) -> Result<S::Out, RunSystemError>,
    ) -> Result<Self::Out, RunSystemError> {
        let meter = self.watch.meter;
        if let Some(meter) = meter {
            (meter.begin)();
        }
        let begin = Instant::now();
        let result = run_system(input);
        let took = begin.elapsed();
        let usage = meter.map(|m| (m.end)());
        self.watch.note(self.row, begin, took, usage);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompileOptions;
    use crate::{Compiler, Stage};
    use murre_components::hlo::HloModule;

    #[test]
    fn every_pass_that_runs_is_recorded_once() {
        let mut compiler = Compiler::new(HloModule::default(), CompileOptions::default());
        let watch = Watch::default();
        compiler.world.insert_resource(watch.clone());
        compiler.run(&[Stage::Place, Stage::Address]);
        let seen = watch.recorded();
        let expected: Vec<&str> = passes()
            .filter(|p| [Stage::Place, Stage::Address].contains(&p.stage) && !p.verify)
            .map(|p| p.name)
            .collect();
        assert_eq!(seen.spans.iter().map(|s| s.pass.name).collect::<Vec<_>>(), expected);
        assert_eq!(seen.threads.len(), 1);
        for pair in seen.spans.windows(2) {
            assert!(pair[0].begin + pair[0].took <= pair[1].begin);
        }
    }
}
