//! `spawn_hlo`: the instructions of the simplified module become entities, in one batch.
//!
//! In: the module resource. Out: the HLO table, row = `HloId`; the flat operand edges. Facts: `spec/ecs.md 8`.

use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{HloModule, Shape};
use murre_components::hlo_table::{HloEdges, HloHead, HloHome, HloRow};
use murre_components::ids::HloId;

/// Operands of all HLO instructions, back to back; [`HloEdges`] holds the ranges.
#[derive(Resource, Default)]
pub struct HloOperands(pub Vec<HloId>);

/// The pass.
pub fn spawn_hlo(world: &mut World) {
    let module = world.resource::<HloModule>();
    let mut users = vec![0u16; module.len()];
    let mut edges = Vec::new();
    for inst in module.insts() {
        for o in inst.operands() {
            users[o.index()] = users[o.index()].saturating_add(1);
        }
        edges.extend_from_slice(inst.operands());
    }
    let mut first = 0;
    let rows: Vec<HloRow> = module
        .insts()
        .zip(users)
        .map(|(inst, users)| {
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
        })
        .collect();
    drop(world.spawn_batch(rows));
    world.insert_resource(HloOperands(edges));
}
