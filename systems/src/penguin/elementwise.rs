//! Elementwise operators: one node per HLO operation on tiles of one layout; operands that are broadcasts, transposes or
//! slices of a compatible tile are read in place through their pattern.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::view::Layout;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp};
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeHead, NodeKind, NodeScalars};

/// What the machine computes elementwise on tiles of this operand type.
fn supported(op: HloOp, operand: HloType) -> bool {
    use HloOp::*;
    match operand {
        HloType::F32 | HloType::Bf16 | HloType::F16 => matches!(
            op,
            Abs | Add
                | Clamp
                | Compare
                | Convert
                | Divide
                | Erf
                | Exponential
                | Log
                | Logistic
                | Maximum
                | Minimum
                | Multiply
                | Negate
                | Power
                | Rsqrt
                | Select
                | Sign
                | Sine
                | Sqrt
                | Subtract
                | Tanh
        ),
        HloType::S32 | HloType::U32 => matches!(
            op,
            Add | And
                | Clamp
                | Compare
                | Convert
                | Maximum
                | Minimum
                | Multiply
                | Negate
                | Not
                | Or
                | Select
                | ShiftLeft
                | ShiftRightArithmetic
                | ShiftRightLogical
                | Subtract
                | Xor
        ),
        HloType::Pred => matches!(op, And | Compare | Convert | Not | Or | Select | Xor),
        HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16 => {
            matches!(op, And | Compare | Convert | Maximum | Minimum | Or | Select | Xor)
        }
        _ => matches!(op, Select),
    }
}

/// Whether every element of the leaf is known not to be NaN.
fn clean(leaf: &Leaf) -> bool {
    match leaf {
        Leaf::Splat { ty, bits, .. } => match ty {
            HloType::F32 => !f32::from_bits(*bits as u32).is_nan(),
            HloType::Bf16 => *bits & 0x7F80 != 0x7F80 || *bits & 0x7F == 0,
            HloType::F16 => *bits & 0x7C00 != 0x7C00 || *bits & 0x3FF == 0,
            _ => true,
        },
        other => !other.ty().is_float(),
    }
}

impl Lower<'_> {
    /// Lowers an elementwise operation on tiles.
    pub fn elementwise(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let Some(shape) = inst.shape().array() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, format!("{} of a tuple", inst.op.name()));
        };
        let operand_ty = if inst.op == HloOp::Select { leaves[1].ty() } else { leaves[0].ty() };
        if !supported(inst.op, operand_ty) {
            return self.refuse(
                &codes::LOWER_UNSUPPORTED_OP,
                format!("{} of {} tensors is not lowered", inst.op.name(), operand_ty.name()),
            );
        }
        if inst.op == HloOp::Convert {
            return self.convert(inst, leaves[0], shape.ty);
        }
        let dims = extents(shape);
        if matches!(inst.attrs(), Attrs::Compare { total_order: true, .. }) && operand_ty.is_float() {
            return self
                .refuse(&codes::LOWER_UNSUPPORTED_OP, "a total-order comparison of floats is not lowered");
        }
        if inst.op == HloOp::Clamp {
            let wide = |l: &Leaf| broadcast_scalar(l, &dims);
            let (low, high) = (wide(leaves[0]), wide(leaves[2]));
            let raised = self.emit(HloOp::Maximum, 0, &[&low, leaves[1]], shape.ty, &dims)?;
            return self.emit(HloOp::Minimum, 0, &[&raised, &high], shape.ty, &dims);
        }
        let sub = match inst.attrs() {
            Attrs::Compare { direction, .. } => *direction as u8,
            _ => 0,
        };
        let predicate;
        let mut operands: Vec<&Leaf> = leaves.to_vec();
        if inst.op == HloOp::Select {
            predicate = broadcast_scalar(leaves[0], &dims);
            operands[0] = &predicate;
        }
        self.emit(inst.op, sub, &operands, shape.ty, &dims)
    }

    /// Emits one elementwise node.
    pub fn emit(&mut self, op: HloOp, sub: u8, leaves: &[&Leaf], ty: HloType, dims: &[u64]) -> Lowered<Leaf> {
        let layout = self.result_layout(leaves, dims);
        if self.needs_pieces(leaves, ty, layout) {
            return self.emit_pieces(op, sub, leaves, ty, dims);
        }
        let dtype = self.dtype(ty)?;
        let mut operands = vec![];
        for leaf in leaves {
            operands.push(self.engine_operand(leaf, layout, 3)?);
        }
        let loc = self.tile(dtype, layout)?;
        operands.insert(0, self.whole_tile(loc, AccessMode::Store));
        let mut flags = 0;
        if leaves.first().is_some_and(|l| clean(l)) {
            flags |= NodeHead::CLEAN0;
        }
        if leaves.get(1).is_some_and(|l| clean(l)) {
            flags |= NodeHead::CLEAN1;
        }
        self.node(NodeKind::Elementwise, op, sub, flags, operands, NodeScalars::default());
        Ok(self.whole_view(loc, ty, dims))
    }

    /// Element type conversion.
    fn convert(&mut self, inst: HloInst<'_>, leaf: &Leaf, ty: HloType) -> Lowered<Leaf> {
        let from = leaf.ty();
        let dims = leaf.extents();
        if from == ty {
            return Ok(leaf.clone());
        }
        let exact = match (from, ty) {
            // x -> pred is x != 0.
            (_, HloType::Pred) => false,
            // Every value of the narrow side is a value of the wide one, or rounds to nearest as HLO asks.
            (f, t) if f.is_float() && t.is_float() => true,
            (f, t) if (f.is_int() || f == HloType::Pred) && t.is_float() => true,
            (HloType::Pred, _) => true,
            (HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16, HloType::S32) => true,
            (HloType::U8 | HloType::U16, HloType::U32) => true,
            (HloType::U8, HloType::S16 | HloType::U16) | (HloType::S8, HloType::S16) => true,
            _ => false,
        };
        if exact {
            return self.emit(HloOp::Convert, 0, &[leaf], ty, &dims);
        }
        if ty == HloType::Pred && (from.is_float() || matches!(from, HloType::S32 | HloType::U32)) {
            let zero = Leaf::Splat { ty: from, bits: 0, dims: dims.clone() };
            return self.emit(
                HloOp::Compare,
                murre_components::hlo::Direction::Ne as u8,
                &[leaf, &zero],
                ty,
                &dims,
            );
        }
        if matches!((from, ty), (HloType::S32, HloType::U32) | (HloType::U32, HloType::S32)) {
            // The same bits.
            return Ok(match leaf {
                Leaf::View(_) if self.needs_pieces(&[leaf], ty, Layout::choose(&dims)) => {
                    let most = super::tiling::PIECE_BYTES / 4;
                    self.in_pieces(ty, &dims, most, |this, part| {
                        this.same_bits(&part.of_leaf(leaf), ty, &part.size)
                    })?
                }
                Leaf::View(_) => self.same_bits(leaf, ty, &dims)?,
                Leaf::Splat { bits, .. } => Leaf::Splat { ty, bits: *bits, dims },
                Leaf::Scalar { reg, .. } => Leaf::Scalar { ty, reg: *reg, dims },
                Leaf::Token => Leaf::Token,
            });
        }
        self.refuse(
            &codes::LOWER_UNSUPPORTED_OP,
            format!("{} from {} to {} is not lowered", inst.op.name(), from.name(), ty.name()),
        )
    }

    /// A tile with the bits of `leaf` under another element type of the same size.
    fn same_bits(&mut self, leaf: &Leaf, ty: HloType, dims: &[u64]) -> Lowered<Leaf> {
        let layout = Layout::choose(dims);
        let copy = self.materialize(leaf, layout)?;
        let target = self.tile(self.dtype(ty)?, layout)?;
        self.reinterpret(target, copy);
        Ok(self.whole_view(target, ty, dims))
    }

    /// Bit copy between tiles of one layout whose element types have one size.
    fn reinterpret(&mut self, target: LocId, source: LocId) {
        let mut from = self.whole_tile(source, AccessMode::Load);
        let to = self.whole_tile(target, AccessMode::Store);
        if let (murre_components::penguin::NodeOperand::Access(a), Some(t)) = (&mut from, to.access()) {
            a.dtype = t.dtype;
        }
        self.node(NodeKind::Elementwise, HloOp::Copy, 0, 0, vec![to, from], NodeScalars::default());
    }
}

/// A scalar leaf spread over `dims`; anything else as it is.
pub fn broadcast_scalar(leaf: &Leaf, dims: &[u64]) -> Leaf {
    match leaf {
        Leaf::View(v) if v.dims.is_empty() => Leaf::View(v.broadcast(&[], dims)),
        Leaf::Splat { ty, bits, .. } => Leaf::Splat { ty: *ty, bits: *bits, dims: dims.to_vec() },
        Leaf::Scalar { ty, reg, .. } => Leaf::Scalar { ty: *ty, reg: *reg, dims: dims.to_vec() },
        other => other.clone(),
    }
}
