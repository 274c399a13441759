//! `rewire_dynamic_ap_registers`: each run-time value in an address names the register of the engine that executes the
//! address's instruction.
//!
//! In: payloads over ALL registers, `LocalRegs`. Out: the same payloads over local registers. Emits no arithmetic. A value
//! without a register on that engine is an error. Axis indices keep naming their axis; its per-engine register is looked up
//! when the address is lowered.
//!
//! ```text
//! pool DMACopy dram0+dyn(8*%r3) <- ...     ->     pool DMACopy dram0+dyn(8*%r9) <- ...      %r9: pool's copy of %r3
//! ```
//!
//! Facts: `spec/ir.md 5.6`.

use super::expand_all_engine::LocalRegs;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::DYNAMIC_REGISTER;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::{ExprId, RegId};

/// The pass.
pub fn rewire_dynamic_ap_registers(
    insts: Query<(&InstHead, &InstFrom)>,
    aps: Query<&ApHead>,
    local: Res<LocalRegs>,
    mut exprs: ResMut<Exprs>,
    mut payloads: ResMut<Payloads>,
    diagnostics: Res<Diagnostics>,
) {
    if payloads.0.is_empty() {
        return;
    }
    let (insts, from) = crate::columns!(insts);
    let heads: &[ApHead] = crate::columns!(aps);
    for head in heads {
        let Some(payload) = payloads.0.get_mut(head.dynamic.payload) else { continue };
        let inst = insts[head.inst.index()];
        if !inst.live() {
            continue;
        }
        let mut rewire = Rewire { exprs: &mut exprs, local: &local, engine: inst.engine, missing: None };
        match payload {
            Payload::Dynamic(info) => {
                for t in &mut info.terms {
                    t.expr = rewire.expr(t.expr);
                }
            }
            Payload::Symbolic(s) => {
                s.tile = rewire.expr(s.tile);
                s.block = rewire.expr(s.block);
            }
        }
        if let Some(reg) = rewire.missing {
            let what = format!(
                "{}: register {} of an address has no counterpart on {}",
                inst.op.name(),
                reg.0,
                inst.engine.name()
            );
            let hlo = from[head.inst.index()].hlo;
            diagnostics.push(Diagnostic::error(&DYNAMIC_REGISTER, what).ordered(hlo.0));
        }
    }
}

/// Rewires the expressions of one address.
struct Rewire<'a> {
    exprs: &'a mut Exprs,
    local: &'a LocalRegs,
    engine: EngineId,
    /// The first register without a counterpart.
    missing: Option<RegId>,
}

impl Rewire<'_> {
    /// The expression with its run-time values on the engine.
    fn expr(&mut self, e: ExprId) -> ExprId {
        match self.exprs.get(e).clone() {
            Expr::RuntimeInt(r) => {
                let mine = self.local.get(r, self.engine);
                if mine.is_none() {
                    self.missing = self.missing.or(Some(r));
                    return e;
                }
                self.exprs.intern(Expr::RuntimeInt(mine))
            }
            Expr::Affine { terms, c } => {
                let terms: Vec<_> = terms.into_iter().map(|(i, k)| (self.expr(i), k)).collect();
                self.exprs.affine(terms, c)
            }
            Expr::Sum(operands) => {
                let operands = operands.into_iter().map(|o| self.expr(o)).collect();
                self.exprs.intern(Expr::Sum(operands))
            }
            Expr::Mult { operand, coef } => {
                let operand = self.expr(operand);
                self.exprs.intern(Expr::Mult { operand, coef })
            }
            Expr::FloorDiv { numer, denom } => {
                let numer = self.expr(numer);
                self.exprs.intern(Expr::FloorDiv { numer, denom })
            }
            Expr::Modulo { numer, denom } => {
                let numer = self.expr(numer);
                self.exprs.intern(Expr::Modulo { numer, denom })
            }
            Expr::AxisIv(_) | Expr::IndirectArg { .. } => e,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::options::CompileOptions;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::hlo::HloModule;
    use murre_components::ids::*;

    /// The register in a Pool DMA's address `4 * (r mod 8)` after the pass; before it, it is register 0 of ALL.
    fn rewired(local: [RegId; 5]) -> (RegId, Vec<Diagnostic>) {
        let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = Staging::new(&world);
        let loc = s.loc(LocRow::new(Space::Dram, DType::F32, 1, 96, HloId(0)));
        let all = s.reg(RegRow::new(EngineId::All, RegRole::Scalar, HloId(0)));
        let expr = {
            let mut x = world.resource_mut::<Exprs>();
            let r = x.intern(Expr::RuntimeInt(all));
            x.modulo(r, 8).unwrap()
        };
        let info = DynamicApInfo {
            kind: OffsetKind::Scalar,
            terms: [DynamicTerm { expr, coef: 4 }].into_iter().collect(),
            c: 0,
            indirect_dim: 0,
            indirect_dim_max_index: 29,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        };
        let payload = world.resource_mut::<Payloads>().0.insert(Payload::Dynamic(info));
        let side = Operand {
            loc,
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::of([(1, 4)]),
            kind: ApKind::Physical,
            payload,
            flags: 0,
        };
        let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Pool, HloId(0));
        row.head.flags = InstHead::DYNAMIC;
        s.inst(row, &[side], &[]);
        s.flush(&mut world);
        world.insert_resource(LocalRegs(vec![local]));
        let mut schedule = Schedule::default();
        schedule.add_systems(rewire_dynamic_ap_registers);
        schedule.run(&mut world);
        let found = world.resource::<Diagnostics>().take();
        let term = world.resource::<Payloads>().dynamic(payload).unwrap().terms[0].expr;
        let exprs = world.resource::<Exprs>();
        let Expr::Modulo { numer, denom: 8 } = exprs.get(term) else { panic!("a modulo stays one") };
        let (terms, _) = exprs.as_affine(*numer).unwrap();
        let Expr::RuntimeInt(reg) = exprs.get(terms[0].0) else { panic!("of a register") };
        (*reg, found)
    }

    #[test]
    fn values_inside_an_expression_move_to_the_engine() {
        let mut local = [RegId::NONE; 5];
        local[0] = RegId(7);
        let (reg, found) = rewired(local);
        assert!(found.is_empty());
        assert_eq!(reg, RegId(7));
    }

    #[test]
    fn a_value_without_a_register_there_is_an_error() {
        let (reg, found) = rewired([RegId::NONE, RegId(3), RegId::NONE, RegId::NONE, RegId::NONE]);
        assert_eq!(found[0].code.id, "MUR0416");
        assert_eq!(found[0].message, "DMACopy: register 0 of an address has no counterpart on pool");
        assert_eq!(reg, RegId(0), "left as it was");
    }
}
