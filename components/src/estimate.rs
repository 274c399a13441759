//! The estimate of a program, as plain data: what the last stage writes, and what reports print. Times are nanoseconds,
//! rounded to picoseconds; bytes and counts that depend on trips are those of the trips assumed in [`Estimate::loops`].

use serde::{Deserialize, Serialize};

/// Time of one engine, of the DMA engines, or of what no engine does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResourceUse {
    /// `pool`, `act`, `pe`, `dve`, `sp`, `dma`, `dma start`, `fences`.
    pub name: String,
    /// Time it works; of `dma start` and `fences` the sum of all starts and all parts of fences, which overlap.
    pub busy_ns: f64,
    /// The same, as a part of the whole time.
    pub busy_share: f64,
    /// Time by which its work put off the end of the program; these add up to the whole time.
    pub adds_ns: f64,
    /// Records in its stream; 0 for what has none.
    pub records: u64,
    /// Instructions that it runs.
    pub executed: u64,
}

/// One DMA queue.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct QueueUse {
    pub name: String,
    pub transfers: u64,
    pub bytes: u64,
    /// Time during which a transfer of the queue is under way.
    pub busy_ns: f64,
}

/// DMAs of one route.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct RouteUse {
    /// `none`, `swdge`, `hwdge`.
    pub route: String,
    pub transfers: u64,
    pub bytes: u64,
    /// Contiguous runs moved.
    pub rows: u64,
}

/// What all DMAs move.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct DmaUse {
    pub read_from_dram: u64,
    pub written_to_dram: u64,
    /// Bytes copied, counted once each whatever the two sides are.
    pub moved: u64,
    pub routes: Vec<RouteUse>,
    pub queues: Vec<QueueUse>,
}

/// Sizes that do not depend on time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Sizes {
    pub records: u64,
    pub descriptors: u64,
    pub blocks: u64,
    pub addr4_words: u64,
    /// Highest byte used of an SBUF partition, scratch included.
    pub sbuf_peak_bytes: u64,
    /// Highest byte used of a PSUM partition.
    pub psum_peak_bytes: u64,
    /// Register operations in the streams of all engines.
    pub register_ops: u64,
    /// The same, counted as often as they run.
    pub register_ops_executed: u64,
}

/// The least time that memory allows.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Roofline {
    /// Bytes of the parameters that are read, once each, and no more than the program reads of each.
    pub parameter_bytes: u64,
    /// The same of the outputs that are written.
    pub output_bytes: u64,
    /// The same of the constants.
    pub constant_bytes: u64,
    /// HBM bandwidth of the core, bytes a nanosecond.
    pub bandwidth: f64,
    /// All those bytes at that bandwidth.
    pub ns: f64,
    /// Estimated time over this time; nothing when no byte must move.
    pub ratio: Option<f64>,
}

/// What an HLO instruction adds to the time of the program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstructionUse {
    /// Its name; empty for fences and ends, which serve no instruction.
    pub name: String,
    /// Time by which it put off the end of the program.
    pub adds_ns: f64,
    /// The same, as a part of the whole time.
    pub share: f64,
}

/// What holds the program.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Holder {
    /// The resource that is busy longest.
    pub resource: String,
    /// How much of the whole time it is busy.
    pub busy_share: f64,
    /// The resource that puts off the end most: what the program waits for.
    pub waits_for: String,
    /// How much of the whole time that is.
    pub waits_share: f64,
    /// The instructions that add most, at most five.
    pub instructions: Vec<InstructionUse>,
}

/// What an HLO instruction costs because something of it is known at run time only. Times are sums over trips and engines
/// of work that overlaps with other work; they are no part of the whole time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DynamicUse {
    /// Its name.
    pub name: String,
    /// How its dynamic accesses go: `swdge`, `hwdge`, or `engine` on chip. Empty for a loop.
    pub routes: Vec<String>,
    /// Dynamic accesses that run.
    pub copies: u64,
    /// Bytes that they copy.
    pub bytes: u64,
    /// Register operations that run for it: offsets, bounds, clamps, counters.
    pub register_ops: u64,
    /// Their time.
    pub register_ns: f64,
    /// Scalars that are loaded into registers for it.
    pub scalar_loads: u64,
    /// Their time.
    pub scalar_load_ns: f64,
    /// Branches that run for it.
    pub branches: u64,
    /// Their time.
    pub branch_ns: f64,
    /// Generation of descriptors on the device.
    pub generation_ns: f64,
    /// The same accesses at constant offsets: issue, start and transfer, descriptors built ahead.
    pub constant_ns: f64,
    /// What being dynamic adds to that.
    pub extra_ns: f64,
}

/// Whence a trip count comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TripBasis {
    /// The program says so.
    Exact,
    /// The caller said so.
    Given,
    /// The caller said more than the program allows: its bound.
    Capped,
    /// The most that the program allows.
    Bound,
    /// A branch of a conditional, counted as taken.
    Branch,
    /// Nothing useful is known; one trip stands for many.
    Once,
}

/// A loop with the trips that the estimate counts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct LoopTrips {
    /// The HLO instruction.
    pub name: String,
    pub depth: u16,
    pub trips: u64,
    pub basis: TripBasis,
}

/// Work without time (`spec/ir.md 11.3`).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, bevy_ecs::prelude::Resource)]
pub struct Work {
    /// Arithmetic operations on elements; a multiply-add of a matmult is two.
    pub flops: f64,
    /// Bytes of everything that instructions produce.
    pub bytes: f64,
    /// Machine instructions, coarsely: one for 65,536 elements loaded or stored and one for 8,388,608 multiply-adds.
    pub coarse_instances: u64,
    /// Whether a store takes what a load brought: a copy from DRAM to DRAM.
    pub has_copy: bool,
    /// Whether something is reduced.
    pub has_reduce: bool,
}

/// The whole estimate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, bevy_ecs::prelude::Resource)]
#[allow(missing_docs)]
pub struct Estimate {
    pub name: String,
    pub target: String,
    pub cost_model: crate::costs::CostModel,
    /// Time from the first instruction to the last engine's end.
    pub total_ns: f64,
    pub roofline: Roofline,
    pub held_by: Holder,
    pub resources: Vec<ResourceUse>,
    pub dma: DmaUse,
    pub sizes: Sizes,
    pub loops: Vec<LoopTrips>,
    /// What is dynamic, by HLO instruction.
    pub dynamic: Vec<DynamicUse>,
    /// Whether a count passed 2^64 and reads as that.
    pub counts_cut_off: bool,
    pub work: Work,
}
