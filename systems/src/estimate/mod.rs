//! Stage `estimate`: what the finished program costs. It runs only when [`crate::CompileOptions`] asks for it, reads the
//! tables as the other stages left them, and changes nothing. Every number it uses stands in
//! `murre_components::costs`; the result is the resource `murre_components::estimate::Estimate`.
//!
//! The walk follows PerfSim (`spec/ir.md 11.2`): one clock an engine, one a DMA queue, program order, no reordering.

use crate::pass::{Pass, Stage};

pub mod assemble_estimate;
pub mod assume_trips;
pub mod clocks;
pub mod count_work;
pub mod instruction_cost;
pub mod measure_traffic;
pub mod nest;
pub mod operand_shape;
pub mod price_dynamic;
#[cfg(test)]
mod tests;
pub mod time_program;
pub mod transfer;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(Stage::Estimate, assume_trips, "every loop gets the trips to count", "spec/ir.md 11.3"),
    crate::pass!(
        Stage::Estimate,
        measure_traffic,
        "DMAs become rows, bytes and times",
        "spec/hw.md 2, spec/ir.md 11.1"
    ),
    crate::pass!(Stage::Estimate, count_work, "flops, bytes, machine instructions", "spec/ir.md 11.3"),
    crate::pass!(
        Stage::Estimate,
        time_program,
        "clocks of engines and queues run through the program",
        "spec/ir.md 11.2, spec/hw.md 6"
    ),
    crate::pass!(
        Stage::Estimate,
        price_dynamic,
        "what run-time offsets and trips cost, by HLO instruction",
        "spec/ir.md 11.3"
    ),
    crate::pass!(
        Stage::Estimate,
        assemble_estimate,
        "times, traffic and sizes become the estimate",
        "spec/hw.md 1.1"
    ),
];
