//! A computation of scalars applied to whole arrays: every instruction of it becomes the same operation on arrays of
//! equal extents.

use super::build::Build;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::{CompId, HloId};

/// Whether every instruction of the computation works element by element.
pub fn is_elementwise(module: &HloModule, computation: CompId) -> bool {
    module.comp(computation).instructions.iter().all(|id| {
        let inst = module.inst(id);
        let scalar = |s: &Shape| s.array().is_some_and(|a| a.elements() == 1 && !a.has_dynamic());
        match inst.op {
            HloOp::Parameter | HloOp::Constant => scalar(inst.shape()),
            HloOp::Tuple => id == module.comp(computation).root,
            HloOp::Broadcast | HloOp::Reshape | HloOp::Copy => scalar(inst.shape()),
            HloOp::Bitcast => {
                let from = inst.operands().first().map(|o| module.inst(*o).shape());
                let bits = |s: &Shape| s.array().map(|a| a.ty.bits());
                scalar(inst.shape()) && from.is_some_and(|f| scalar(f) && bits(f) == bits(inst.shape()))
            }
            op => inst.called().is_empty() && scalar(inst.shape()) && is_pointwise(op),
        }
    })
}

/// The operations that work element by element.
pub const POINTWISE: OpSet = {
    use HloOp::*;
    OpSet::of(&[
        Abs,
        Add,
        And,
        Atan2,
        BitcastConvert,
        Cbrt,
        Ceil,
        Clamp,
        Compare,
        Convert,
        Cosine,
        CountLeadingZeros,
        Divide,
        Erf,
        Exponential,
        ExponentialMinusOne,
        Floor,
        IsFinite,
        Log,
        LogPlusOne,
        Logistic,
        Maximum,
        Minimum,
        Multiply,
        Negate,
        Not,
        Or,
        PopulationCount,
        Power,
        ReducePrecision,
        Remainder,
        RoundNearestAfz,
        RoundNearestEven,
        Rsqrt,
        Select,
        ShiftLeft,
        ShiftRightArithmetic,
        ShiftRightLogical,
        Sign,
        Sine,
        Sqrt,
        Subtract,
        Tan,
        Tanh,
        Xor,
    ])
};

/// Operations that compute each element from the elements in the same place.
#[inline]
pub fn is_pointwise(op: HloOp) -> bool {
    POINTWISE.contains(op)
}

/// Writes the computation `computation` (already in the new module) on arrays; returns the leaves of its root.
/// [`is_elementwise`] must hold.
pub fn apply(b: &mut Build<'_>, computation: CompId, arguments: &[HloId], dims: &[i64]) -> Vec<HloId> {
    let comp = b.out.module.comp(computation).clone();
    let mut here = vec![HloId::NONE; comp.instructions.len()];
    let at = |id: HloId| (id.0 - comp.instructions.first) as usize;
    for (p, argument) in comp.parameters.iter().zip(arguments) {
        here[at(*p)] = *argument;
    }
    let mut leaves = Vec::new();
    for id in comp.instructions.iter() {
        let (op, attrs, ty, operands) = {
            let inst = b.out.module.inst(id);
            let ty = inst.shape().array().map_or(HloType::Token, |a| a.ty);
            let operands: Vec<HloId> = inst.operands().iter().map(|o| here[at(*o)]).collect();
            (inst.op, inst.attrs().clone(), ty, operands)
        };
        here[at(id)] = match op {
            HloOp::Parameter => continue,
            HloOp::Tuple => {
                leaves = operands;
                continue;
            }
            HloOp::Constant => {
                let Attrs::Constant(literal) = &attrs else { continue };
                let scalar = b.constant_bytes(ty, &[], literal.bytes().to_vec());
                b.spread(scalar, dims)
            }
            HloOp::Broadcast | HloOp::Reshape | HloOp::Copy => operands[0],
            HloOp::Bitcast => b.bits_as(operands[0], ty),
            _ => b.op(op, ty, dims, &operands, attrs),
        };
    }
    if leaves.is_empty() {
        leaves.push(here[at(comp.root)]);
    }
    leaves
}

/// The operation that a computation of two scalars performs, if it is one that combines in any order.
pub fn monoid(module: &HloModule, computation: CompId) -> Option<HloOp> {
    let comp = module.comp(computation);
    let root = module.inst(comp.root);
    let binary = matches!(
        root.op,
        HloOp::Add | HloOp::Maximum | HloOp::Minimum | HloOp::Multiply | HloOp::And | HloOp::Or | HloOp::Xor
    );
    let on_parameters = comp.parameters.len() == 2
        && root.operands().len() == 2
        && comp.parameters.iter().all(|p| root.operands().contains(p));
    (binary && on_parameters).then_some(root.op)
}

/// Whether the back end reduces by this computation itself.
pub fn reduces_natively(module: &HloModule, computation: CompId, ty: HloType) -> bool {
    use HloOp::*;
    let Some(op) = monoid(module, computation) else { return false };
    match ty {
        HloType::F32 | HloType::Bf16 | HloType::F16 => matches!(op, Add | Maximum | Minimum | Multiply),
        HloType::Pred => matches!(op, And | Or | Maximum | Minimum),
        HloType::S32 | HloType::U32 => true,
        _ => false,
    }
}

/// Whether halves may be combined in any grouping: every leaf of the root is an operation that combines in any order, or
/// a choice between the two elements of its own pair. What a choice looks at must be elements still, not sums of them.
pub fn is_associative(module: &HloModule, computation: CompId) -> bool {
    let comp = module.comp(computation);
    let root = module.inst(comp.root);
    let leaves: &[HloId] = if root.op == HloOp::Tuple { root.operands() } else { &[comp.root] };
    let n = leaves.len();
    let choices = leaves.iter().map(|l| module.inst(*l)).filter(|l| l.op == HloOp::Select);
    let mut looked: Vec<HloId> = choices.filter_map(|l| l.operands().first().copied()).collect();
    let mut next = 0;
    while let Some(id) = looked.get(next).copied() {
        next += 1;
        let more = module.inst(id).operands().iter().filter(|o| !looked.contains(o));
        let more: Vec<HloId> = more.copied().collect();
        looked.extend(more);
    }
    comp.parameters.len() == 2 * n
        && leaves.iter().enumerate().all(|(k, leaf)| {
            let leaf = module.inst(*leaf);
            let sums = matches!(leaf.op, HloOp::Add | HloOp::Multiply | HloOp::And | HloOp::Or | HloOp::Xor);
            if sums && (looked.contains(&comp.parameters[k]) || looked.contains(&comp.parameters[n + k])) {
                return false;
            }
            let mine = [comp.parameters[k], comp.parameters[n + k]];
            match leaf.op {
                HloOp::Add
                | HloOp::Maximum
                | HloOp::Minimum
                | HloOp::Multiply
                | HloOp::And
                | HloOp::Or
                | HloOp::Xor => leaf.operands() == mine || leaf.operands().iter().rev().eq(&mine),
                HloOp::Select => leaf.operands()[1..] == mine || leaf.operands()[1..].iter().rev().eq(&mine),
                _ => mine.contains(&leaf.id),
            }
        })
}
