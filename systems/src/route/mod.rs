//! Stage `route`: every DMA copy gets a route, an issuing engine and a queue (`spec/ir.md 7, 8`).
//!
//! The scan stamps routes, the binders set engines, `alloc_queues` makes queues, the cleanup and the checker look
//! again. All work in place on columns; only `alloc_queues` appends rows. [`bind_dynamic_dma`] is the early slot, at the
//! end of stage `place`. Every decision leaves its reason ([`DmaWhy`]).

use crate::pass::{Pass, Stage};
use murre_components::diag::{Code, Diagnostic};
use murre_components::hlo::HloModule;
use murre_components::ids::{HloId, InstId};

pub mod alloc_queues;
pub mod assign_hwdge_engine;
pub mod assign_trigger_engine;
pub mod bind_dynamic_dma;
pub mod dge_instruction_type;
pub mod dynamic_dma_cleanup;
pub mod dynamic_dma_scan;
pub mod reason;
#[cfg(test)]
mod tests;
pub mod verify_route;

pub use dge_instruction_type::{DgeSet, DmaFacts, Route, dge_instruction_type};
pub use reason::{DmaWhy, EngineReason, QueueReason, RouteReason, RouteReasons};

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(Stage::Route, dynamic_dma_scan, "every DMA gets its DGE route", "spec/ir.md 7.2"),
    crate::pass!(
        Stage::Route,
        assign_trigger_engine,
        "stores are triggered by the engine that wrote them",
        "spec/ir.md 8.1"
    ),
    crate::pass!(
        Stage::Route,
        assign_hwdge_engine,
        "hardware-generated DMAs get an engine with a generator",
        "spec/ir.md 8.2"
    ),
    crate::pass!(
        Stage::Route,
        alloc_queues,
        "DMAs get queues, and the engine of their queue",
        "spec/ir.md 8.3"
    ),
    crate::pass!(
        Stage::Route,
        dynamic_dma_cleanup,
        "routes are checked against the predicate again",
        "spec/ir.md 7.4"
    ),
    crate::pass!(
        Stage::Route,
        verify_route,
        "route, engine, queue and registers of every DMA agree",
        "spec/ir.md 7.5",
        verify
    ),
];

/// A diagnostic about an instruction, with the HLO instruction it serves.
pub(crate) fn blame(code: Code, message: String, module: &HloModule, hlo: HloId, inst: InstId) -> Diagnostic {
    let d = Diagnostic::error(code, message).ordered(inst.0);
    match module.get(hlo) {
        Some(h) => d.on(h.name()).from_source(h.source()),
        None => d,
    }
}
