//! Elementwise operators: one node per HLO operation on tiles of one layout; operands that are broadcasts, transposes or
//! slices of a compatible tile are read in place through their pattern.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::view::{Layout, Sizes, View};
use murre_components::bir::ApPattern;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp};
use murre_components::penguin::{AccessMode, NodeHead, NodeKind, NodeOperand, NodeScalars};
use smallvec::SmallVec;

/// What the machine computes elementwise on tiles of this operand type. What HLO has beyond is gone after stage
/// `legalize`.
fn supported(op: HloOp, operand: HloType) -> bool {
    use HloOp::*;
    match operand {
        HloType::F32 | HloType::Bf16 | HloType::F16 => matches!(
            op,
            Abs | Add
                | Atan2
                | Clamp
                | Compare
                | Convert
                | Divide
                | Erf
                | Exponential
                | IsFinite
                | Log
                | Logistic
                | Maximum
                | Minimum
                | Multiply
                | Negate
                | Power
                | RoundNearestEven
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
            Abs | Add
                | And
                | Clamp
                | Compare
                | Convert
                | Divide
                | Maximum
                | Minimum
                | Multiply
                | Negate
                | Not
                | Or
                | Remainder
                | Select
                | ShiftLeft
                | ShiftRightArithmetic
                | ShiftRightLogical
                | Sign
                | Subtract
                | Xor
        ),
        HloType::Pred => matches!(op, And | Compare | Convert | Not | Or | Select | Xor),
        HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16 => {
            matches!(op, And | Compare | Convert | Maximum | Minimum | Or | Select | Xor)
        }
        HloType::F8E4M3Fn | HloType::F8E5M2 => matches!(op, Convert | Select),
        _ => false,
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

/// Whether a leaf is the constant 1.
fn one_f32(leaf: &Leaf) -> bool {
    matches!(leaf, Leaf::Splat { ty: HloType::F32, bits: 0x3F80_0000, .. })
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
        if inst.op == HloOp::Atan2 && !one_f32(leaves[1]) {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "atan2 of two tensors reached the engines");
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
        if let (HloOp::Select, [predicate, a, b]) = (inst.op, leaves) {
            let predicate = broadcast_scalar(predicate, &dims);
            return self.emit(inst.op, sub, &[&predicate, a, b], shape.ty, &dims);
        }
        self.emit(inst.op, sub, leaves, shape.ty, &dims)
    }

    /// Emits one elementwise node.
    pub fn emit(&mut self, op: HloOp, sub: u8, leaves: &[&Leaf], ty: HloType, dims: &[u64]) -> Lowered<Leaf> {
        let mut layout = self.result_layout(leaves, dims);
        if self.needs_pieces(leaves, ty, layout) {
            // An operand's own layout may be too tall for the wider of the types where the chosen one is not.
            layout = Layout::choose(dims);
            if self.needs_pieces(leaves, ty, layout) {
                return self.emit_pieces(op, sub, leaves, ty, dims);
            }
        }
        let dtype = self.dtype(ty)?;
        let mut inputs: SmallVec<[NodeOperand; 3]> = SmallVec::new();
        for leaf in leaves {
            inputs.push(self.engine_operand(leaf, layout, 3)?);
        }
        let loc = self.tile(dtype, layout)?;
        let operands = std::iter::once(self.whole_tile(loc, AccessMode::Store)).chain(inputs);
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
        let float8 = |t: HloType| matches!(t, HloType::F8E4M3Fn | HloType::F8E5M2);
        let real = |t: HloType| matches!(t, HloType::F32 | HloType::Bf16 | HloType::F16) || float8(t);
        let whole = |t: HloType| t.is_int() && t.bytes() <= 4 && t.bits() as usize == 8 * t.bytes();
        if ty == HloType::Pred && (real(from) && !float8(from) || whole(from)) {
            // x -> pred is x != 0.
            let zero = Leaf::Splat { ty: from, bits: 0, dims: dims.clone() };
            let not_equal = murre_components::hlo::Direction::Ne as u8;
            return self.emit(HloOp::Compare, not_equal, &[leaf, &zero], ty, &dims);
        }
        // Casts to floats round to nearest, and pred is a byte holding 0 or 1.
        let number = real(from) || whole(from) || from == HloType::Pred;
        if number && real(ty) || from == HloType::Pred && whole(ty) {
            return self.emit(HloOp::Convert, 0, &[leaf], ty, &dims);
        }
        // A whole number in range: stage `legalize` has truncated.
        if real(from) && whole(ty) {
            return self.emit(HloOp::Convert, 0, &[leaf], ty, &dims);
        }
        if whole(from) && whole(ty) {
            return self.convert_integer(leaf, ty);
        }
        self.refuse(
            &codes::LOWER_UNSUPPORTED_OP,
            format!("{} from {} to {} is not lowered", inst.op.name(), from.name(), ty.name()),
        )
    }

    /// Between integer types: values wrap, so a narrower type takes the low bytes and a wider one extends by the sign of
    /// the source.
    fn convert_integer(&mut self, leaf: &Leaf, ty: HloType) -> Lowered<Leaf> {
        let (from, dims) = (leaf.ty(), leaf.extents());
        if from.bytes() == ty.bytes() {
            return self.reread(leaf.clone(), ty);
        }
        if let Leaf::Splat { bits, .. } = leaf {
            let value = super::scalar::wrap(ty, super::leaf::integer(from, *bits));
            return Ok(super::scalar::Scalar::Const(value).leaf(ty, dims));
        }
        if from.bytes() < ty.bytes() {
            let extended = match (from.is_signed_int(), ty.bytes()) {
                (true, 2) => HloType::S16,
                (true, _) => HloType::S32,
                (false, 2) => HloType::U16,
                (false, _) => HloType::U32,
            };
            let wide = self.emit(HloOp::Convert, 0, &[leaf], extended, &dims)?;
            return self.reread(wide, ty);
        }
        let mut layout = self.result_layout(&[leaf], &dims);
        if self.needs_pieces(&[leaf], ty, layout) {
            layout = Layout::choose(&dims);
        }
        if self.needs_pieces(&[leaf], ty, layout) {
            let most = super::tiling::PIECE_BYTES / from.bytes() as u64;
            return self
                .in_pieces(ty, &dims, most, |this, part| this.convert_integer(&part.of_leaf(leaf), ty));
        }
        let loc = self.materialize(leaf, layout)?;
        let ratio = (from.bytes() / ty.bytes()) as i32;
        let (parts, free) = (layout.parts as u32, layout.free as u32);
        let low = View::whole(loc, ty, &[]);
        let bytes = [((layout.free as i32) * ratio, parts), (ratio, free)];
        let source = self.access_view(&low, 0, ApPattern::of(bytes), AccessMode::Load);
        let target = self.tile(self.dtype(ty)?, layout)?;
        let operands = [self.whole_tile(target, AccessMode::Store), source];
        self.node(NodeKind::Elementwise, HloOp::Copy, 0, 0, operands, NodeScalars::default());
        Ok(self.whole_view(target, ty, &dims))
    }
}

/// A scalar leaf spread over `dims`; anything else as it is.
pub fn broadcast_scalar(leaf: &Leaf, dims: &[u64]) -> Leaf {
    match leaf {
        Leaf::View(v) if v.dims.is_empty() => Leaf::View(v.broadcast(&[], dims)),
        Leaf::Splat { ty, bits, .. } => Leaf::Splat { ty: *ty, bits: *bits, dims: Sizes::from_slice(dims) },
        Leaf::Scalar { ty, reg, .. } => Leaf::Scalar { ty: *ty, reg: *reg, dims: Sizes::from_slice(dims) },
        other => other.clone(),
    }
}
