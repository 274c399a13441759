//! `inline_calls`: a call becomes the instructions of the computation it calls, named `call/inner`.
//!
//! In: a module whose computations stand before their callers. Out: a module without `call`. Computations that are
//! only called are left for `eliminate_dead_code`. Facts: `spec/hlo.md 7`.
//!
//! ```text
//! f { p = s32[] parameter(0) ; ROOT q = s32[] add(p, p) }      a = s32[] call(x), to_apply=f
//! ->                                                           a/q = s32[] add(x, x)
//! ```

use super::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::diag::codes::lower::LOWER_RECURSION;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::{HloModule, HloOp};
use murre_components::ids::HloId;

/// Most instructions that inlining may make, beside twice as many as there were: calls that double level by level end here.
pub const MAX_INLINED: usize = 2_000_000;

/// The pass.
pub fn inline_calls(mut module: ResMut<HloModule>, diagnostics: Res<Diagnostics>) {
    if !module.insts().any(|i| is_call(i.op)) {
        return;
    }
    match inline(&module) {
        Ok(inlined) => *module = inlined,
        Err(d) => diagnostics.push(d),
    }
}

/// A fusion is a call of its computation: how its parts run together is for whoever compiles it to decide.
fn is_call(op: HloOp) -> bool {
    matches!(op, HloOp::Call | HloOp::Fusion)
}

/// Inlines every call.
pub fn inline(old: &HloModule) -> Result<HloModule, Diagnostic> {
    let mut out = Rebuild::new(old);
    // By inner id: the copy of the call that is being inlined.
    let mut here: Vec<HloId> = Vec::new();
    let mut operands = Vec::new();
    let reached = reached(old);
    for (index, comp) in old.computations.iter().enumerate().filter(|(c, _)| reached[*c]) {
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            if !is_call(inst.op) {
                out.copy(old, id);
                continue;
            }
            let callee = inst.called().first().map(|c| out.computations[c.index()]).filter(|c| c.is_some());
            let Some(callee) = callee else {
                return Err(Diagnostic::error(&LOWER_RECURSION, "a call reaches its own computation")
                    .on(inst.name())
                    .ordered(id.0));
            };
            // The callee was written already, without calls of its own.
            let callee = out.module.comp(callee).clone();
            if out.module.len() + callee.instructions.len() > MAX_INLINED + 2 * old.len() {
                return Err(Diagnostic::error(
                    &LOWER_RECURSION,
                    "inlining its calls makes the module too large",
                )
                .on(inst.name())
                .ordered(id.0));
            }
            here.clear();
            here.resize(callee.instructions.len(), HloId::NONE);
            let at = |inner: HloId| (inner.0 - callee.instructions.first) as usize;
            for (p, operand) in callee.parameters.iter().zip(inst.operands()) {
                here[at(*p)] = out.moved[operand.index()];
            }
            for inner_id in callee.instructions.iter() {
                let inner = out.module.inst(inner_id);
                if inner.op == HloOp::Parameter {
                    continue;
                }
                let name = format!("{}/{}", inst.name(), inner.name());
                operands.clear();
                operands.extend(inner.operands().iter().map(|o| here[at(*o)]));
                here[at(inner_id)] = out.push_like(inner_id, &name, &operands);
            }
            out.moved[id.index()] = here[at(callee.root)];
        }
        let root = out.moved[comp.root.index()];
        out.finish(old, murre_components::ids::CompId::new(index), root);
    }
    Ok(out.module)
}

/// Which computations the entry reaches: only they are worth the room.
fn reached(module: &HloModule) -> Vec<bool> {
    let mut reached = vec![false; module.computations.len()];
    reached[module.entry.index()] = true;
    // Callees stand before their callers, so one walk backwards finds all.
    for c in (0..module.computations.len()).rev().filter(|c| *c <= module.entry.index()) {
        if reached[c] {
            let instructions = module.computations[c].instructions.iter();
            instructions.flat_map(|id| module.inst(id).called()).for_each(|callee| {
                if let Some(flag) = reached.get_mut(callee.index()) {
                    *flag = true;
                }
            });
        }
    }
    reached
}
