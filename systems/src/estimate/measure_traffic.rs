//! In: DMAs with their descriptors or patterns, and the trips. Out: [`Traffic`]: a [`Transfer`] for every DMA in program
//! order, and the bytes of the whole run by route, by queue and by location.
//!
//! A trigger's rows are those of its descriptors; a generated DMA's rows those of its copy shape, as the generator has to
//! make them. A scalar load reads its element from DRAM too.

use super::assume_trips::Trips;
use super::nest::Nest;
use super::transfer::{Dealing, Rates, Transfer};
use crate::columns;
use crate::describe::shape::{copy_shape, indexed_shape};
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::LocId;

/// Transfers and bytes of something.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[allow(missing_docs)]
pub struct Sum {
    pub transfers: f64,
    pub bytes: f64,
    pub rows: f64,
}

impl Sum {
    fn add(&mut self, t: &Transfer, weight: f64) {
        self.transfers += weight;
        self.bytes += t.bytes as f64 * weight;
        self.rows += t.rows as f64 * weight;
    }
}

/// What DMAs move.
#[derive(Resource, Default, Debug)]
pub struct Traffic {
    /// By DMA, in program order.
    pub transfers: Vec<Transfer>,
    /// By [`DgeType`]: none, software, hardware.
    pub routes: [Sum; 3],
    /// By queue.
    pub queues: Vec<Sum>,
    /// Bytes read of each location in DRAM.
    pub read: Vec<f64>,
    /// Bytes written of each location in DRAM.
    pub written: Vec<f64>,
}

/// The columns that a DMA's rows come from.
struct Tables<'a> {
    aps: &'a [ApHead],
    patterns: &'a [ApPattern],
    locs: &'a [LocHead],
    blocks: &'a [BlockHead],
    src: &'a [DescSrc],
    dst: &'a [DescDst],
}

impl Tables<'_> {
    /// The rows of a copy that is generated on the device.
    fn generated(&self, o: InstOperands, rates: Rates) -> Transfer {
        let mut dealing = Dealing::new(rates);
        if o.outputs == 0 || o.inputs == 0 {
            return dealing.finish();
        }
        let side = |row: usize| {
            let head = self.aps.get(row)?;
            Some((head, self.patterns.get(row)?, self.locs.get(head.loc.index())?))
        };
        let (Some(dst), Some(src)) = (side(o.output(0).index()), side(o.input(0).index())) else {
            return dealing.finish();
        };
        // Sides that do not agree dimension by dimension move the elements of the smaller one, one by one.
        let shape = if o.inputs > 1 { indexed_shape(dst, src) } else { copy_shape(dst, src) };
        let (rows, run) = match shape {
            // A run past what a descriptor moves is several rows (D1).
            Some(s) => {
                let pieces = u64::from(s.run.div_ceil(s.max_run()).max(1));
                let run = u64::from(s.run).div_ceil(pieces);
                (s.elements().div_ceil(run.max(1)), run)
            }
            None => (dst.1.elements().min(src.1.elements()), 1),
        };
        let bytes = |s: (&ApHead, &ApPattern, &LocHead)| run * u64::from(s.0.dtype.bytes());
        let dram = |s: (&ApHead, &ApPattern, &LocHead)| (s.2.space == Space::Dram).then_some(bytes(s));
        dealing.rows(rows, bytes(src).max(bytes(dst)), dram(src), dram(dst));
        dealing.finish()
    }

    /// The rows of a block.
    fn prepared(&self, dma: InstDma, rates: Rates) -> Transfer {
        let mut dealing = Dealing::new(rates);
        if let Some(block) = self.blocks.get(dma.block.index()) {
            let range = block.first.index()..block.first.index() + block.count as usize;
            let src = self.src.get(range.clone()).unwrap_or_default();
            let dst = self.dst.get(range).unwrap_or_default();
            for (src, dst) in src.iter().zip(dst) {
                dealing.descriptor(&src.0, &dst.0);
            }
        }
        dealing.finish()
    }
}

/// The system.
pub fn measure_traffic(
    insts: Query<(&InstHead, &InstOperands, &InstArgs)>,
    dmas: Res<InstDmas>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    blocks: Query<&BlockHead>,
    descs: Query<(&DescSrc, &DescDst)>,
    queues: Query<&QueueHead>,
    trips: Res<Trips>,
    order: Res<Order>,
    options: Res<CompileOptions>,
    mut commands: Commands,
) {
    let model = options.estimate.unwrap_or_default().model;
    let rates = Rates::new(model, &options.target.costs());
    let (heads, operands, args) = columns!(insts);
    let (ap_heads, patterns) = columns!(aps);
    let loc_heads: &[LocHead] = columns!(locs);
    let (src, dst) = columns!(descs);
    let queue_heads: &[QueueHead] = columns!(queues);
    let tables = Tables { aps: ap_heads, patterns, locs: loc_heads, blocks: columns!(blocks), src, dst };
    let mut out = Traffic {
        queues: vec![Sum::default(); queue_heads.len()],
        read: vec![0.0; loc_heads.len()],
        written: vec![0.0; loc_heads.len()],
        ..Default::default()
    };
    let location = |row: usize| ap_heads.get(row).map_or(LocId::NONE, |a| a.loc).index();
    let mut nest = Nest::new(&trips.by_axis);
    for &id in &order.0 {
        let row = id.index();
        let Some(head) = heads.get(row) else { continue };
        nest.pass(head, &args[row]);
        let o = operands[row];
        if head.op == Opcode::TensorLoad && o.inputs > 0 {
            let bytes = ap_heads.get(o.input(0).index()).map_or(0, |a| a.dtype.bytes());
            if let Some(read) = out.read.get_mut(location(o.input(0).index())) {
                *read += f64::from(bytes) * nest.weight;
            }
        }
        if !head.op.is_dma() {
            continue;
        }
        let t = match head.op {
            Opcode::DmaTrigger => tables.prepared(dmas.of(row), rates),
            _ => tables.generated(o, rates),
        };
        out.transfers.push(t);
        let route = match head.dge {
            DgeType::Swdge => 1,
            DgeType::Hwdge => 2,
            DgeType::None | DgeType::Unassigned => 0,
        };
        out.routes[route].add(&t, nest.weight);
        if let Some(queue) = out.queues.get_mut(dmas.of(row).queue.index()) {
            queue.add(&t, nest.weight);
        }
        if o.outputs > 0
            && let Some(written) = out.written.get_mut(location(o.output(0).index()))
        {
            *written += t.written as f64 * nest.weight;
        }
        if o.inputs > 0
            && let Some(read) = out.read.get_mut(location(o.input(0).index()))
        {
            *read += t.read as f64 * nest.weight;
        }
    }
    commands.insert_resource(out);
}
