//! `lower_affine_expr` (`spec/ir.md 5.2`): the constant is always moved, and every term is a multiply and an add, also
//! for coefficients 1 and 0. The registers of the indices are looked up, never minted.

use super::walk::{Walk, op};
use murre_components::bir::*;
use murre_components::diag::Code;
use murre_components::diag::codes::lower::{ADDRESS_OPERATOR, DYNAMIC_REGISTER};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// Why an expression cannot be lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AffineFault {
    /// A floor division or remainder: those must have been normalised away.
    NotAffine,
    /// A loop axis has no induction register on this engine.
    NoInductionRegister,
    /// An index that is neither an axis nor a register.
    NoRegister,
}

impl AffineFault {
    /// The code to report it with.
    pub fn code(self) -> Code {
        match self {
            AffineFault::NotAffine => &ADDRESS_OPERATOR,
            AffineFault::NoInductionRegister | AffineFault::NoRegister => &DYNAMIC_REGISTER,
        }
    }

    /// In words.
    pub fn message(self) -> &'static str {
        match self {
            AffineFault::NotAffine => "an address with a division or remainder reached register lowering",
            AffineFault::NoInductionRegister => "a loop axis has no induction register on this engine",
            AffineFault::NoRegister => "an index of an address has no register on this engine",
        }
    }
}

/// The register that holds a bare index on `engine`.
pub fn index_register(
    exprs: &Exprs,
    axes: &[AxisRegs],
    index: ExprId,
    engine: EngineId,
) -> Result<RegId, AffineFault> {
    match exprs.get(index) {
        Expr::RuntimeInt(r) if r.is_some() => Ok(*r),
        Expr::AxisIv(axis) => {
            let local = engine.stream().and_then(|s| axes.get(axis.index()).map(|a| a.per_engine[s]));
            local.filter(|r| r.is_some()).ok_or(AffineFault::NoInductionRegister)
        }
        _ => Err(AffineFault::NoRegister),
    }
}

/// Emits `dst = e`, with `tmp` shared by all terms.
pub fn lower_affine_expr(
    walk: &mut Walk,
    exprs: &Exprs,
    axes: &[AxisRegs],
    e: ExprId,
    engine: EngineId,
    hlo: HloId,
    owner: InstId,
    dst: RegId,
    tmp: RegId,
) -> Result<(), AffineFault> {
    let (terms, c) = exprs.as_affine(e).ok_or(AffineFault::NotAffine)?;
    walk.move_imm(engine, hlo, owner, dst, c);
    for (index, coef) in terms {
        let iv = index_register(exprs, axes, index, engine)?;
        walk.alu_imm(engine, hlo, owner, op::MULT, iv, coef, tmp);
        walk.alu_reg(engine, hlo, owner, op::ADD, dst, tmp, dst);
    }
    Ok(())
}
