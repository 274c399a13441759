//! In: the program in its final order. Out: [`RecordLayout`]: the first record of every instruction in its engine's
//! stream, the length of each stream, where a branch target lies in each stream, and the table sets that must be made
//! resident before activations. Weights: structure labels 0, Matmult and Gather 2, a vector-offset DMA 2, everything else 1, and 1
//! more for a table load. What is resident is not known at the start of a block. Facts: `spec/isa_compute.md 4.2, 4.3`,
//! D10.

use crate::columns;
use crate::route::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::isa::ActFunc;
use murre_components::isa::act::TABLE_SETS;

/// Where records stand.
#[derive(Resource, Default, Clone, Debug)]
pub struct RecordLayout {
    /// By instruction: its first record's index in its stream (after a table load).
    pub index: Vec<u32>,
    /// Records of each stream.
    pub counts: [u32; 5],
    /// By instruction: row of `targets`, `u32::MAX` for what no branch names.
    pub target: Vec<u32>,
    /// Record index of each branch target in each stream.
    pub targets: Vec<[u32; 5]>,
    /// Table loads: position in the order of the activation, table set.
    pub loads: Vec<(u32, u8)>,
}

/// Whether a copy needs an extension record.
pub(super) fn has_extension(rows: core::ops::Range<usize>, aps: &[ApHead], payloads: &Payloads) -> bool {
    rows.filter_map(|k| payloads.dynamic(aps.get(k)?.dynamic.payload))
        .any(|d| matches!(d.kind, OffsetKind::Vector(_)))
}

/// The system.
pub fn layout_records(
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstFrom)>,
    aps: Query<&ApHead>,
    payloads: Res<Payloads>,
    order: Res<Order>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
    mut parts: ResMut<Parts>,
    mut result: ResMut<RecordLayout>,
) {
    let (heads, operands, args, from) = columns!(insts);
    let ap_heads = columns!(aps);
    let mut out = RecordLayout {
        index: vec![u32::MAX; heads.len()],
        target: vec![u32::MAX; heads.len()],
        ..Default::default()
    };
    for &id in &order.0 {
        if heads
            .get(id.index())
            .is_some_and(|h| matches!(h.op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch))
            && let Some(t) = out.target.get_mut(args[id.index()].aux as usize)
            && *t == u32::MAX
        {
            *t = out.targets.len() as u32;
            out.targets.push([u32::MAX; 5]);
        }
    }
    let mut resident: Option<u8> = None;
    let mut borders = Borders::default();
    for (position, &id) in order.0.iter().enumerate() {
        let row = id.index();
        let Some(h) = heads.get(row) else { continue };
        if borders.crosses(*h) {
            parts.begin(borders.part, |p| p.records = out.counts);
            resident = None;
        }
        if let Some(t) = out.targets.get_mut(out.target[row] as usize) {
            *t = out.counts;
            resident = None;
        }
        if h.op.is_structure() || !h.live() {
            resident = None;
            continue;
        }
        let Some(stream) = h.engine.stream() else {
            let message = format!("{} {row} is on engine {}", h.op.name(), h.engine.name());
            sink.push(blame(&lower::ENCODE_UNSUPPORTED, message, &module, from[row].hlo, id));
            continue;
        };
        let mut weight = 1;
        match h.op {
            Opcode::Matmult | Opcode::Gather => weight = 2,
            Opcode::DmaCopy if has_extension(operands[row].range(), ap_heads, &payloads) => weight = 2,
            Opcode::LoadActFuncSet => resident = Some(args[row].op0),
            Opcode::Activation => {
                let func = ActFunc::from_code(args[row].op0);
                if let Some(f) = func.filter(|f| !resident.is_some_and(|r| f.in_set(r)) && !f.hardwired())
                    && let Some(set) = TABLE_SETS.iter().position(|s| s.contains(&f))
                {
                    resident = Some(set as u8);
                    out.loads.push((position as u32, set as u8));
                    out.counts[stream] += 1;
                }
            }
            _ if h.flags & InstHead::ENDS_BLOCK != 0 => resident = None,
            _ => {}
        }
        out.index[row] = out.counts[stream];
        out.counts[stream] += weight;
    }
    *result = out;
}
