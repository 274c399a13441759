//! `eliminate_dead_code`: instructions that no root needs go, and so do computations that nothing calls. Parameters
//! stay, because they are the signature of their computation.
//!
//! In and out: the module resource, dense ids.

use crate::legalize::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::hlo::{HloModule, HloOp};
use murre_components::ids::CompId;

/// The pass.
pub fn eliminate_dead_code(mut module: ResMut<HloModule>) {
    if module.entry.is_some() {
        let pruned = prune(&module);
        *module = pruned;
    }
}

/// The module without what nothing needs.
pub fn prune(old: &HloModule) -> HloModule {
    let mut live = vec![false; old.len()];
    let mut reached = vec![false; old.computations.len()];
    let mut work = vec![old.entry];
    reached[old.entry.index()] = true;
    while let Some(c) = work.pop() {
        let comp = old.comp(c);
        live[comp.root.index()] = true;
        for id in comp.instructions.iter().rev() {
            let inst = old.inst(id);
            let keep = live[id.index()]
                || matches!(
                    inst.op,
                    HloOp::Parameter | HloOp::Outfeed | HloOp::Infeed | HloOp::Send | HloOp::Recv
                );
            if !keep {
                continue;
            }
            live[id.index()] = true;
            for o in inst.operands() {
                live[o.index()] = true;
            }
            for called in inst.called() {
                if !std::mem::replace(&mut reached[called.index()], true) {
                    work.push(*called);
                }
            }
        }
    }
    let mut out = Rebuild::new(old);
    out.module.reserve(live.iter().filter(|l| **l).count());
    for (index, comp) in old.computations.iter().enumerate().filter(|(k, _)| reached[*k]) {
        for id in comp.instructions.iter().filter(|id| live[id.index()]) {
            out.copy(old, id);
        }
        let root = out.moved[comp.root.index()];
        out.finish(old, CompId::new(index), root);
    }
    out.module
}
