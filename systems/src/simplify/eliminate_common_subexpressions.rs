//! `eliminate_common_subexpressions`: two instructions of a computation with the same operation, attributes, shape and
//! operands are one. The first in order stays.
//!
//! In and out: the module resource; the repeated ones are left without readers for `eliminate_dead_code`.

use bevy_ecs::prelude::*;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use murre_components::hash::hash_words;
use murre_components::hlo::{HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass. The table holds ids alone: what they are found and compared by stands in the module.
pub fn eliminate_common_subexpressions(mut module: ResMut<HloModule>) {
    let mut same: Vec<HloId> = module.ids().collect();
    let mut seen: HashTable<HloId> = HashTable::new();
    for c in 0..module.computations.len() {
        let instructions = module.computations[c].instructions;
        // Clearing a table costs its size, however few it holds.
        if seen.capacity() > 4 * instructions.len() + 64 {
            seen = HashTable::new();
        }
        seen.clear();
        seen.reserve(instructions.len(), |id| hash(module.inst(*id)));
        for id in instructions.iter() {
            for o in module.operands_mut(id) {
                *o = same[o.index()];
            }
            let inst = module.inst(id);
            if KEPT.contains(inst.op) {
                continue;
            }
            let hash_of = |id: &HloId| hash(module.inst(*id));
            match seen.entry(hash(inst), |other| is_same(inst, module.inst(*other)), hash_of) {
                Entry::Occupied(first) => same[id.index()] = *first.get(),
                Entry::Vacant(place) => drop(place.insert(id)),
            }
        }
        let root = module.computations[c].root;
        module.computations[c].root = same[root.index()];
    }
}

/// Whether two instructions have the same key.
fn is_same(a: HloInst<'_>, b: HloInst<'_>) -> bool {
    a.op == b.op
        && a.shape_id() == b.shape_id()
        && a.attr_id() == b.attr_id()
        && a.operands() == b.operands()
        && a.called() == b.called()
}

/// What has effects or a state of its own may not be merged.
const KEPT: OpSet = OpSet::of(&[
    HloOp::Parameter,
    HloOp::Rng,
    HloOp::RngGetAndUpdateState,
    HloOp::CustomCall,
    HloOp::While,
    HloOp::Conditional,
    HloOp::Infeed,
    HloOp::Outfeed,
    HloOp::Send,
    HloOp::Recv,
]);

/// The hash of what makes an instruction what it is. Shapes and attributes are interned: equal ids are equal values.
/// Large constants are never found equal.
fn hash(inst: HloInst<'_>) -> u64 {
    let (operands, called) = (inst.operands(), inst.called());
    let head = [inst.op as u32, inst.shape_id().0, inst.attr_id().0, operands.len() as u32];
    hash_words(head.into_iter().chain(operands.iter().map(|o| o.0)).chain(called.iter().map(|c| c.0)))
}
