//! `rewire_dynamic_ap_registers`: each run-time value in an address names the register of the engine that executes the
//! address's instruction.
//!
//! In: payloads over ALL registers, `LocalRegs`. Out: the same payloads over local registers. Emits no arithmetic.
//! Axis indices keep naming their axis; its per-engine register is looked up when the address is lowered.
//! Facts: `spec/ir.md 5.6`.

use super::expand_all_engine::LocalRegs;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::ids::ExprId;

/// The pass.
pub fn rewire_dynamic_ap_registers(
    insts: Query<&InstHead>,
    aps: Query<(&ApHead, &ApDynamic)>,
    local: Res<LocalRegs>,
    mut exprs: ResMut<Exprs>,
    mut payloads: ResMut<Payloads>,
) {
    let insts = crate::columns!(insts);
    let (heads, dynamic) = crate::columns!(aps);
    for (head, d) in heads.iter().zip(dynamic) {
        let engine = insts[head.inst.index()].engine;
        match payloads.0.get_mut(d.payload) {
            Some(Payload::Dynamic(info)) => {
                for t in &mut info.terms {
                    t.expr = rewired(&mut exprs, &local, t.expr, engine);
                }
            }
            Some(Payload::Symbolic(s)) => {
                s.tile = rewired(&mut exprs, &local, s.tile, engine);
                s.block = rewired(&mut exprs, &local, s.block, engine);
            }
            None => {}
        }
    }
}

/// The expression with its run-time values on `engine`.
fn rewired(exprs: &mut Exprs, local: &LocalRegs, e: ExprId, engine: EngineId) -> ExprId {
    match exprs.get(e).clone() {
        Expr::RuntimeInt(r) => {
            let mine = local.get(r, engine);
            if mine.is_some() { exprs.intern(Expr::RuntimeInt(mine)) } else { e }
        }
        Expr::Affine { terms, c } => {
            let terms: Vec<_> =
                terms.into_iter().map(|(i, k)| (rewired(exprs, local, i, engine), k)).collect();
            exprs.affine(terms, c)
        }
        Expr::FloorDiv { numer, denom } => {
            let numer = rewired(exprs, local, numer, engine);
            exprs.intern(Expr::FloorDiv { numer, denom })
        }
        Expr::Modulo { numer, denom } => {
            let numer = rewired(exprs, local, numer, engine);
            exprs.intern(Expr::Modulo { numer, denom })
        }
        Expr::AxisIv(_) | Expr::IndirectArg { .. } => e,
    }
}
