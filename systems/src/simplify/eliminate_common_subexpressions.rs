//! `eliminate_common_subexpressions`: two instructions of a computation with the same operation, attributes, shape and
//! operands are one. The first in order stays.
//!
//! In and out: the module resource; the repeated ones are left without readers for `eliminate_dead_code`.

use bevy_ecs::prelude::*;
use hashbrown::HashTable;
use murre_components::hash::seeded_hasher;
use murre_components::hlo::{HloInst, HloModule, HloOp};
use murre_components::ids::HloId;

/// The pass. The table holds ids with their hashes: what they are compared by stands in the module.
pub fn eliminate_common_subexpressions(mut module: ResMut<HloModule>) {
    let mut same: Vec<HloId> = (0..module.len()).map(HloId::new).collect();
    let mut seen: HashTable<(u64, HloId)> = HashTable::new();
    let hasher = seeded_hasher();
    let mut key = Vec::new();
    for c in 0..module.computations.len() {
        seen.clear();
        for id in module.computations[c].instructions.iter() {
            for o in module.operands_mut(id) {
                *o = same[o.index()];
            }
            let inst = module.inst(id);
            key.clear();
            if !write_key(inst, &mut key) {
                continue;
            }
            let hash = hasher.hash_one(&key);
            let equal = |(h, other): &(u64, HloId)| *h == hash && is_same(inst, module.inst(*other));
            match seen.find(hash, equal) {
                Some((_, first)) => same[id.index()] = *first,
                None => drop(seen.insert_unique(hash, (hash, id), |(h, _)| *h)),
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

/// Writes what makes an instruction what it is; `false` if it may not be merged.
fn write_key(inst: HloInst<'_>, key: &mut Vec<u32>) -> bool {
    if matches!(
        inst.op,
        HloOp::Parameter
            | HloOp::Rng
            | HloOp::RngGetAndUpdateState
            | HloOp::CustomCall
            | HloOp::While
            | HloOp::Conditional
            | HloOp::Infeed
            | HloOp::Outfeed
            | HloOp::Send
            | HloOp::Recv
    ) {
        return false;
    }
    // Shapes and attributes are interned: equal ids are equal values. Large constants are never found equal.
    key.extend([inst.op as u32, inst.shape_id().0, inst.attr_id().0, inst.operands().len() as u32]);
    key.extend(inst.operands().iter().map(|o| o.0));
    key.extend(inst.called().iter().map(|c| c.0));
    true
}
