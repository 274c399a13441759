//! `spawn_hlo`: the instructions of the simplified module become entities, in one batch.
//!
//! In: the module resource, or the modules of a batch. Out: the HLO table, row = `HloId`, of a batch one module behind the
//! other; the flat operand edges. Facts: `spec/ecs.md 8`.

use crate::batch::Batch;
use bevy_ecs::prelude::*;
use murre_components::bir::Parts;
use murre_components::dtype::HloType;
use murre_components::hlo::{HloModule, Shape};
use murre_components::hlo_table::{HloEdges, HloHead, HloHome, HloRow};
use murre_components::ids::HloId;

/// Operands of all HLO instructions, back to back; [`HloEdges`] holds the ranges.
#[derive(Resource, Default)]
pub struct HloOperands(pub Vec<HloId>);

/// The pass.
pub fn spawn_hlo(world: &mut World) {
    let mut parts = world.remove_resource::<Parts>().unwrap_or_default();
    let (mut rows, mut edges) = (Vec::new(), Vec::new());
    match world.get_resource::<Batch>() {
        None => add(world.resource::<HloModule>(), &mut rows, &mut edges),
        Some(batch) => {
            for (member, part) in batch.0.iter().zip(&mut parts.0) {
                part.hlo = rows.len() as u32;
                add(&member.module, &mut rows, &mut edges);
            }
        }
    }
    drop(world.spawn_batch(rows));
    world.insert_resource(HloOperands(edges));
    world.insert_resource(parts);
}

/// The rows of one module behind those of others.
fn add(module: &HloModule, rows: &mut Vec<HloRow>, edges: &mut Vec<HloId>) {
    let base = rows.len() as u32;
    let mut first = edges.len() as u32;
    let mut users = vec![0u16; module.len()];
    for inst in module.insts() {
        for o in inst.operands() {
            users[o.index()] = users[o.index()].saturating_add(1);
        }
        edges.extend(inst.operands().iter().map(|o| HloId(base + o.0)));
    }
    rows.extend(module.insts().zip(users).map(|(inst, users)| {
        let (ty, rank) = match inst.shape() {
            Shape::Array(a) => (a.ty, a.rank().min(255) as u8),
            Shape::Tuple(_) => (HloType::Tuple, 0),
            Shape::Token => (HloType::Token, 0),
            Shape::Opaque => (HloType::Opaque, 0),
        };
        let count = inst.operands().len() as u16;
        let row = HloRow {
            head: HloHead { op: inst.op, ty, rank, flags: 0, computation: inst.computation() },
            edges: HloEdges { first, count, users },
            home: HloHome::default(),
        };
        first += count as u32;
        row
    }));
}
