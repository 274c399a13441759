//! Stage `sync`: dependences become semaphores and fences. In: placed, lowered, routed instructions. Out: blocks with
//! fences, waits and increments on the records.
//!
//! A *channel* is what completes in order: the five engines, then the DMA queues. A trigger or an inline DMA waits on
//! its issuing engine; its memory effects belong to its queue.

use crate::pass::{Pass, Stage};
use bevy_ecs::prelude::Resource;
use murre_components::bir::{InstDma, InstHead};

pub mod alloc_semaphores;
pub mod build_edges;
pub mod lower_control;
pub mod verify_sync;

/// The passes of this stage, in order.
pub static PASSES: &[Pass] = &[
    crate::pass!(
        Stage::Sync,
        lower_control,
        "Cut blocks and put a fence at the end of each",
        "spec/ir.md 5.9"
    ),
    crate::pass!(Stage::Sync, build_edges, "Find what each instruction has to wait for", "spec/ir.md 13"),
    crate::pass!(Stage::Sync, alloc_semaphores, "Turn waits into semaphore counts", "spec/isa.md 8.2"),
    crate::pass!(
        Stage::Sync,
        verify_sync,
        "Replay blocks with vector clocks over bytes",
        "spec/isa.md 5.8",
        verify
    ),
];

/// Channels of the engines, in the order of `EngineId::STREAMS`; queue `q` is channel `ENGINES + q`.
pub const ENGINES: usize = 5;
/// Wire code: wait until the semaphore is at least the value.
pub const WAIT_GE: u8 = 0x05;
/// Wire code: increment on completion.
pub const INCREMENT: u8 = 0x13;

/// Issuing engine and channel of an instruction; `None` for one that has no stream or no queue.
pub fn channel(head: InstHead, dma: InstDma) -> Option<(usize, usize)> {
    let engine = head.engine.stream()?;
    if !head.op.is_dma() {
        return Some((engine, engine));
    }
    dma.queue.is_some().then(|| (engine, ENGINES + dma.queue.index()))
}

/// Waits by position of `Order`, and which positions somebody waits for.
#[derive(Resource, Default, Debug)]
pub struct Edges {
    /// `items[starts[p]..starts[p + 1]]` are the waits of position `p`.
    pub starts: Vec<u32>,
    /// Channel and producer's position; at most one a channel.
    pub items: Vec<(u32, u32)>,
    /// Producers that somebody waits for.
    pub awaited: Vec<bool>,
}
