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

/// Most instructions that inlining may make.
pub const MAX_INLINED: usize = 50_000_000;

/// The pass.
pub fn inline_calls(mut module: ResMut<HloModule>, diagnostics: Res<Diagnostics>) {
    if !module.instructions.iter().any(|i| i.op == HloOp::Call) {
        return;
    }
    match inline(&module) {
        Ok(inlined) => *module = inlined,
        Err(d) => diagnostics.push(d),
    }
}

/// Inlines every call.
pub fn inline(old: &HloModule) -> Result<HloModule, Diagnostic> {
    let mut out = Rebuild::new(old);
    for (index, comp) in old.computations.iter().enumerate() {
        let mut instructions = Vec::with_capacity(comp.instructions.len());
        for &id in &comp.instructions {
            let inst = old.inst(id);
            if inst.op != HloOp::Call {
                instructions.push(out.copy(old, id));
                continue;
            }
            let callee = inst.called.first().map(|c| out.computations[c.index()]).filter(|c| c.is_some());
            let Some(callee) = callee else {
                return Err(Diagnostic::error(&LOWER_RECURSION, "a call reaches its own computation")
                    .on(inst.name.clone())
                    .ordered(id.0));
            };
            // The callee was written already, without calls of its own.
            let callee = out.module.comp(callee).clone();
            if out.module.instructions.len() + callee.instructions.len() > MAX_INLINED {
                return Err(Diagnostic::error(
                    &LOWER_RECURSION,
                    "inlining its calls makes the module too large",
                )
                .on(inst.name.clone())
                .ordered(id.0));
            }
            let mut here: murre_components::hash::SeededMap<HloId, HloId> =
                murre_components::hash::seeded_map();
            for (p, operand) in callee.parameters.iter().zip(&inst.operands) {
                here.insert(*p, out.moved[operand.index()]);
            }
            for inner_id in &callee.instructions {
                let inner = out.module.inst(*inner_id);
                if inner.op == HloOp::Parameter {
                    continue;
                }
                let mut copy = inner.clone();
                copy.name = format!("{}/{}", inst.name, inner.name);
                for o in &mut copy.operands {
                    *o = here.get(o).copied().unwrap_or(*o);
                }
                copy.computation = out.next_computation();
                let new = out.push(copy);
                here.insert(*inner_id, new);
                instructions.push(new);
            }
            out.moved[id.index()] = here.get(&callee.root).copied().unwrap_or(HloId::NONE);
        }
        let root = out.moved[comp.root.index()];
        out.finish(old, murre_components::ids::CompId::new(index), instructions, root);
    }
    Ok(out.module)
}
