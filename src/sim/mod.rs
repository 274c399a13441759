//! The simulator: runs a compiled [`Program`] and reads nothing else.
//!
//! In: the program, one byte vector per input (little-endian, in symbol order), options. Out: one byte vector per output,
//! counts, and on request a trace. `memory` holds bytes and who wrote them, `numerics` the number rules, `core` the
//! state, `clocks` and `race` the race check, `compute` the instructions, `control` the sequencers, `dma` the transfers, `schedule` who steps when,
//! `watch` what is looked at on the way.
//! Facts: `spec/isa.md`, `spec/isa_compute.md`, `spec/ir.md 12`, `spec/decisions.md`.
//!
//! **Nothing is assumed to be zero**: registers, SBUF, PSUM and scratch variables are poison until written.
//! **No order is assumed**: engines and queues only meet at semaphores, events, drains and barriers, and
//! [`SimOptions::interleave`] shuffles everything else; [`SimOptions::check_races`] shows in any one order what another
//! order would break.
// A diagnostic is built once, on the way out; boxing it would only move the cost into every signature.
#![allow(clippy::result_large_err)]

mod clocks;
mod compute;
mod control;
mod core;
mod dma;
mod memory;
mod numerics;
mod race;
mod schedule;
mod watch;

use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::program::{Program, Symbol};
pub use watch::{KEPT_RUNS, Sample, Seen, Watch};

/// Little-endian bytes of one array.
pub type HostBytes = Vec<u8>;

/// Variables of a program may take this many bytes together (the memory of a core's share of the board).
const MAX_DRAM_BYTES: u64 = 36 << 30;

/// How to run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of the order in which ready actors step; round robin without one.
    pub interleave: Option<u64>,
    /// Steps after which the run is given up.
    pub max_steps: u64,
    /// Whether to record every step.
    pub trace: bool,
    /// Whether two accesses to the same bytes, one of them a write, must be ordered by waits, drains or barriers.
    pub check_races: bool,
    /// Records to look at; meant for runs without the race check, which would see the looks as reads.
    pub watches: Vec<Watch>,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            interleave: None,
            max_steps: 1 << 40,
            trace: false,
            check_races: false,
            watches: Vec::new(),
        }
    }
}

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Stats {
    /// Steps in all.
    pub steps: u64,
    /// Records executed, by stream.
    pub records: [u64; 5],
    /// Descriptors carried out.
    pub descriptors: u64,
    /// Bytes that transfers wrote.
    pub dma_bytes: u64,
}

/// One step of the schedule. Actors 0..4 are the engines in stream order, 5.. the program's queues, the last five the
/// engines' own queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TraceStep {
    /// Number of the step.
    pub step: u64,
    /// Who stepped.
    pub actor: u32,
    /// The engine's record; 0 for queues.
    pub record: u32,
}

/// What a run gives.
#[derive(Clone, Debug)]
pub struct SimOutcome {
    /// One array per output symbol.
    pub outputs: Vec<HostBytes>,
    /// Counts.
    pub stats: Stats,
    /// Steps, when [`SimOptions::trace`] asked for them.
    pub trace: Vec<TraceStep>,
    /// What the watches saw, parallel to [`SimOptions::watches`].
    pub seen: Vec<Seen>,
}

fn size(s: &Symbol) -> u64 {
    s.dims.iter().fold(s.dtype.bytes() as u64, |n, d| n.saturating_mul(*d))
}

/// Runs `program` on `inputs`.
pub fn run(program: &Program, inputs: &[HostBytes], options: &SimOptions) -> Result<SimOutcome, Diagnostic> {
    crate::artifact::check(program)?;
    let total = program.vars.iter().fold(0u64, |n, v| n.saturating_add(v.bytes));
    if total > MAX_DRAM_BYTES {
        let what = format!("the program's variables take {total} bytes; at most {MAX_DRAM_BYTES}");
        return Err(Diagnostic::error(&codes::SIM_RANGE, what));
    }
    let expected = program.inputs().count();
    if inputs.len() != expected {
        return Err(Diagnostic::error(&codes::SIM_INPUT, "the program takes another number of inputs")
            .found(format!("{} inputs", inputs.len()))
            .expected(format!("{expected} inputs")));
    }
    for (symbol, bytes) in program.inputs().zip(inputs) {
        if bytes.len() as u64 != size(symbol) {
            return Err(Diagnostic::error(
                &codes::SIM_INPUT,
                format!("input '{}' has another size", symbol.name),
            )
            .found(format!("{} bytes", bytes.len()))
            .expected(format!(
                "{} bytes: {} {:?}",
                size(symbol),
                symbol.dtype.name(),
                symbol.dims
            )));
        }
    }
    let mut core = core::Core::new(memory::Memory::new(program, inputs));
    if options.check_races {
        let races = race::Races::new(10 + program.queues.len());
        core.memory.races = Some(Box::new(std::cell::RefCell::new(races)));
    }
    let mut schedule = schedule::Schedule::new(program, core)?;
    schedule.run(options)?;
    // The host reads when everything has ended.
    schedule.core.memory.races = None;
    let outputs = program
        .outputs()
        .map(|s| {
            let bytes = schedule.core.memory.read(memory::Region::Var(s.var), 0, size(s) as usize);
            bytes.map(|b| b.to_vec()).map_err(|d| d.help(format!("output '{}' was not filled", s.name)))
        })
        .collect::<Result<_, _>>()?;
    let seen = schedule.watches.map(|w| w.seen).unwrap_or_default();
    Ok(SimOutcome { outputs, stats: schedule.stats, trace: schedule.trace, seen })
}
