//! The pass table: the one place that names a pass. Command line, timings, trace spans, `--print-after`, the
//! documentation and the schedule all come from it.

use crate::options::CompileOptions;
use crate::order::{PassOrder, edges};
use crate::watch::Watch;
use bevy_ecs::prelude::*;
use bevy_ecs::schedule::{LogLevel, ScheduleBuildSettings};
use murre_components::diag::Diagnostics;

/// A stage, and the system set of its passes. Stages run one after the other in this order.
#[derive(SystemSet, Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Stage {
    /// Bounded dynamic dimensions become sizes and masks.
    DynamicShape,
    /// Calls inlined; operations that no engine has become operations that one has.
    Legalize,
    /// Dead and repeated instructions dropped, constants folded.
    Simplify,
    /// HLO becomes Penguin nodes with homes.
    Penguin,
    /// Loops checked against the rules of their kind.
    Loops,
    /// Nodes become BIR instructions with access patterns.
    Codegen,
    /// Locations get addresses.
    Place,
    /// Run-time addresses, loops and branches become register arithmetic.
    Address,
    /// Registers get physical ids.
    Registers,
    /// DMAs get a route, an engine and a queue.
    Route,
    /// DMAs become descriptors, blocks and triggers.
    Describe,
    /// Dependences become semaphores and fences.
    Sync,
    /// Records and words.
    Encode,
    /// What the program costs; only when it is asked for.
    Estimate,
}

impl Stage {
    /// Every stage, in order.
    pub const ALL: [Stage; 14] = [
        Stage::DynamicShape,
        Stage::Legalize,
        Stage::Simplify,
        Stage::Penguin,
        Stage::Loops,
        Stage::Codegen,
        Stage::Place,
        Stage::Address,
        Stage::Registers,
        Stage::Route,
        Stage::Describe,
        Stage::Sync,
        Stage::Encode,
        Stage::Estimate,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stage::DynamicShape => "dynamic_shape",
            Stage::Legalize => "legalize",
            Stage::Simplify => "simplify",
            Stage::Penguin => "penguin",
            Stage::Loops => "loops",
            Stage::Codegen => "codegen",
            Stage::Place => "place",
            Stage::Address => "address",
            Stage::Registers => "registers",
            Stage::Route => "route",
            Stage::Describe => "describe",
            Stage::Sync => "sync",
            Stage::Encode => "encode",
            Stage::Estimate => "estimate",
        }
    }

    /// The stage with this name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }
}

/// A row of the pass table.
pub struct Pass {
    /// Name of the file, the function, the trace span and the command-line value.
    pub name: &'static str,
    /// Its stage.
    pub stage: Stage,
    /// One line.
    pub about: &'static str,
    /// Where the facts come from.
    pub spec: &'static str,
    /// Runs only with `verify`.
    pub verify: bool,
    /// Adds the system to a schedule, in the given set; with a watch, so that its runs are recorded.
    pub add: fn(&mut Schedule, PassSet, Option<&Watch>),
}

/// Declares a row of the pass table from its system: `pass!(Stage::Place, color_sbuf, "about", "spec/ir.md 10")`.
/// Append `verify` to make it run only when verification is on.
#[macro_export]
macro_rules! pass {
    ($stage:expr, $system:ident, $about:literal, $spec:literal $(, $flag:ident)*) => {
        $crate::pass::Pass {
            name: stringify!($system),
            stage: $stage,
            about: $about,
            spec: $spec,
            verify: false $(|| $crate::pass_flag!($flag))*,
            add: |schedule, set, watch| {
                use bevy_ecs::schedule::IntoScheduleConfigs;
                match watch {
                    None => schedule.add_systems($system::$system.in_set(set)),
                    Some(watch) => schedule.add_systems(watch.around(set, $system::$system).in_set(set)),
                };
            },
        }
    };
}

/// Support of [`pass!`].
#[macro_export]
#[doc(hidden)]
macro_rules! pass_flag {
    (verify) => {
        true
    };
}

/// The set of one pass, by its row.
#[derive(SystemSet, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PassSet(pub u16);

/// The whole table, in order.
pub fn passes() -> impl Iterator<Item = &'static Pass> {
    [
        crate::dynamic_shape::PASSES,
        crate::legalize::PASSES,
        crate::simplify::PASSES,
        crate::penguin::PASSES,
        crate::loops::PASSES,
        crate::codegen::PASSES,
        crate::place::PASSES,
        crate::address::PASSES,
        crate::registers::PASSES,
        crate::route::PASSES,
        crate::describe::PASSES,
        crate::sync::PASSES,
        crate::encode::PASSES,
        crate::estimate::PASSES,
    ]
    .into_iter()
    .flatten()
}

/// Installs every pass of `stages` into a schedule: stages chained, the passes of a stage in `order`, unordered
/// conflicting systems an error when the schedule is built.
pub fn install(schedule: &mut Schedule, stages: &[Stage], order: PassOrder, watch: Option<&Watch>) {
    schedule.set_build_settings(ScheduleBuildSettings {
        ambiguity_detection: LogLevel::Error,
        ..ScheduleBuildSettings::default()
    });
    for pair in stages.windows(2) {
        schedule.configure_sets(pair[1].after(pair[0]));
    }
    for &stage in stages {
        schedule.configure_sets(stage.run_if(move |o: Res<CompileOptions>, d: Res<Diagnostics>| {
            !d.has_errors() && o.wants(stage) && o.stop_after.is_none_or(|last| stage <= last)
        }));
    }
    for (row, pass) in passes().enumerate().filter(|(_, p)| stages.contains(&p.stage)) {
        let set = PassSet(row as u16);
        (pass.add)(schedule, set, watch);
        if pass.verify {
            // What was refused in the same stage is not finished.
            let checks = |o: Res<CompileOptions>, d: Res<Diagnostics>| o.verify && !d.has_errors();
            schedule.configure_sets(set.in_set(pass.stage).run_if(checks));
        } else {
            schedule.configure_sets(set.in_set(pass.stage));
        }
    }
    for (before, after) in edges(stages, order) {
        schedule.configure_sets(PassSet(after).after(PassSet(before)));
    }
}
