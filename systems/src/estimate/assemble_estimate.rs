//! In: times, traffic, work, counts and the finished program. Out: the [`Estimate`] resource.
//!
//! The roofline is memory's: parameters that are read, outputs that are written and constants that are read, each byte
//! once, over the core's share of HBM bandwidth. Of a variable no more bytes count than the program moves of it, so that a
//! program that reads one row of a large parameter is not held against the whole of it; reads of the same part are not
//! told apart there.

use super::assume_trips::Trips;
use super::clocks::{DMA, RESOURCES};
use super::count_work::OpCounts;
use super::measure_traffic::{Sum, Traffic};
use super::price_dynamic::DynamicCosts;
use super::time_program::Times;
use crate::columns;
use crate::options::CompileOptions;
use crate::route::alloc_queues::queue_name;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::engine::{EngineId, PSUM_BANK_BYTES, PSUM_BANKS};
use murre_components::estimate::*;
use murre_components::hlo::HloModule;
use murre_components::ids::HloId;
use murre_components::program::{Program, VarKind};

/// Instructions that [`Holder`] names.
const NAMED: usize = 5;

/// To picoseconds.
fn tidy(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

/// A share with four decimals.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole * 1e4).round() / 1e4 } else { 0.0 }
}

fn resource_name(k: usize) -> &'static str {
    match EngineId::STREAMS.get(k) {
        Some(e) => e.name(),
        None => ["dma", "dma start", "fences"].get(k - EngineId::STREAMS.len()).copied().unwrap_or("?"),
    }
}

/// The first of the largest.
fn largest(times: &[f64]) -> usize {
    (0..times.len()).fold(0, |best, k| if times[k] > times[best] { k } else { best })
}

/// Bytes that must move.
fn roofline(locs: &[LocHead], traffic: &Traffic, bandwidth: f64, total: f64) -> Roofline {
    let mut out = Roofline { bandwidth, ..Default::default() };
    let moved = |bytes: &[f64], k: usize, size: u64| bytes.get(k).map_or(0, |b| (*b as u64).min(size));
    for (k, loc) in locs.iter().enumerate().filter(|(_, l)| l.space == Space::Dram) {
        let size = loc.part_bytes();
        match loc.kind {
            VarKind::Input => out.parameter_bytes += moved(&traffic.read, k, size),
            VarKind::Const => out.constant_bytes += moved(&traffic.read, k, size),
            VarKind::Output => out.output_bytes += moved(&traffic.written, k, size),
            VarKind::Internal | VarKind::Pointer => {}
        }
    }
    let bytes = out.parameter_bytes + out.constant_bytes + out.output_bytes;
    out.ns = tidy(bytes as f64 / bandwidth);
    out.ratio = (out.ns > 0.0).then(|| tidy(total / out.ns));
    out
}

/// The instructions that add most, ties in program order.
fn instructions(added: &[f64], module: &HloModule, total: f64) -> Vec<InstructionUse> {
    let mut rows: Vec<(usize, f64)> = added.iter().copied().enumerate().filter(|(_, ns)| *ns > 0.0).collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    rows.iter()
        .take(NAMED)
        .map(|&(k, ns)| InstructionUse {
            name: module.get(HloId(k as u32)).map_or(String::new(), |h| h.name().to_owned()),
            adds_ns: tidy(ns),
            share: share(ns, total),
        })
        .collect()
}

fn dma_use(traffic: &Traffic, queues: &[QueueHead], busy: &[f64]) -> DmaUse {
    let total = |bytes: &[f64]| bytes.iter().sum::<f64>() as u64;
    let names = ["none", "swdge", "hwdge"];
    let route = |(name, sum): (&str, &Sum)| RouteUse {
        route: name.to_owned(),
        transfers: sum.transfers as u64,
        bytes: sum.bytes as u64,
        rows: sum.rows as u64,
    };
    DmaUse {
        read_from_dram: total(&traffic.read),
        written_to_dram: total(&traffic.written),
        moved: traffic.routes.iter().map(|r| r.bytes).sum::<f64>() as u64,
        routes: names.into_iter().zip(&traffic.routes).map(route).collect(),
        queues: queues
            .iter()
            .zip(&traffic.queues)
            .zip(busy)
            .map(|((head, sum), busy)| QueueUse {
                name: queue_name(head),
                transfers: sum.transfers as u64,
                bytes: sum.bytes as u64,
                busy_ns: tidy(*busy),
            })
            .collect(),
    }
}

/// Highest byte of a partition that a location of `space` uses. PSUM addresses are `bank * 2048 + offset`.
fn peak(space: Space, locs: &[LocHead], places: &[LocPlace]) -> u64 {
    let placed = locs.iter().zip(places).filter(|(h, p)| h.space == space && p.address != u32::MAX);
    placed.map(|(h, p)| u64::from(p.address) + h.part_bytes()).max().unwrap_or(0)
}

/// The system.
pub fn assemble_estimate(
    locs: Query<(&LocHead, &LocPlace)>,
    queues: Query<&QueueHead>,
    times: Res<Times>,
    traffic: Res<Traffic>,
    mut trips: ResMut<Trips>,
    work: Res<Work>,
    counts: Res<OpCounts>,
    mut dynamic: ResMut<DynamicCosts>,
    program: Option<Res<Program>>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    mut commands: Commands,
) {
    let (loc_heads, places) = columns!(locs);
    let queue_heads: &[QueueHead] = columns!(queues);
    let (clocks, total) = (&times.0, times.0.front);
    let records = |k: usize| program.as_ref().and_then(|p| p.streams.get(k)).map_or(0, |s| s.len() as u64);
    let resources: Vec<ResourceUse> = (0..RESOURCES)
        .map(|k| ResourceUse {
            name: resource_name(k).to_owned(),
            busy_ns: tidy(clocks.busy[k]),
            busy_share: share(clocks.busy[k], total),
            adds_ns: tidy(clocks.added[k]),
            records: records(k),
            executed: counts.executed.get(k).map_or(0, |n| *n as u64),
        })
        .collect();
    // The first of those that are busy longest. Starts of DMAs overlap each other and are nobody's work, fences neither.
    let longest = largest(&clocks.busy[..=DMA]);
    let adds_most = largest(&clocks.added);
    let held_by = Holder {
        resource: resource_name(longest).to_owned(),
        busy_share: share(clocks.busy[longest], total),
        waits_for: resource_name(adds_most).to_owned(),
        waits_share: share(clocks.added[adds_most], total),
        instructions: instructions(&clocks.added_by, &module, total),
    };
    let size = |f: fn(&Program) -> usize| program.as_ref().map_or(0, |p| f(p) as u64);
    let sizes = Sizes {
        records: resources.iter().map(|r| r.records).sum(),
        descriptors: size(|p| p.descriptors.len()),
        blocks: size(|p| p.blocks.len()),
        addr4_words: size(|p| p.addr4.len()),
        sbuf_peak_bytes: peak(Space::Sbuf, loc_heads, places),
        psum_peak_bytes: peak(Space::Psum, loc_heads, places).min(u64::from(PSUM_BANKS * PSUM_BANK_BYTES)),
        register_ops: counts.register_ops,
        register_ops_executed: counts.register_ops_executed as u64,
    };
    commands.insert_resource(Estimate {
        name: module.name.clone(),
        target: options.target.name().to_owned(),
        cost_model: options.estimate.unwrap_or_default().model,
        total_ns: tidy(total),
        roofline: roofline(loc_heads, &traffic, options.target.costs().hbm_rate, total),
        held_by,
        resources,
        dma: dma_use(&traffic, queue_heads, &clocks.queue_busy),
        sizes,
        loops: std::mem::take(&mut trips.loops),
        dynamic: std::mem::take(&mut dynamic.0),
        counts_cut_off: counts
            .executed
            .iter()
            .chain([&work.bytes, &work.flops])
            .any(|n| *n >= u64::MAX as f64),
        work: work.clone(),
    });
}
