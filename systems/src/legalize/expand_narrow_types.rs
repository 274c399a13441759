//! `expand_narrow_types`: what the engines do not compute on 8- and 16-bit integers, on 8-bit floats and on pred is computed
//! on a wider type and narrowed again.
//!
//! Facts: `spec/isa_compute.md 9.1` (the machine's casts saturate), `spec/hlo.md 7`: integer results wrap; f8e4m3fn has no
//! infinity, so what is too large becomes NaN, while f8e5m2 goes to infinity.

use super::build::{Build, Expander, expand_all};
use super::region::POINTWISE;
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_narrow_types(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut NarrowTypes { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

fn is_f8(ty: HloType) -> bool {
    matches!(ty, HloType::F8E4M3Fn | HloType::F8E5M2)
}

struct NarrowTypes<'m> {
    module: &'m HloModule,
}

impl NarrowTypes<'_> {
    /// Element type of the operand that decides.
    fn decides(&self, inst: HloInst<'_>) -> Option<HloType> {
        let k = usize::from(matches!(inst.op, HloOp::Select | HloOp::Clamp));
        Some(self.module.inst(*inst.operands().get(k)?).shape().array()?.ty)
    }
}

impl Expander for NarrowTypes<'_> {
    fn family(&self) -> OpSet {
        POINTWISE.with(HloOp::Iota)
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        use HloOp::*;
        if let (Iota, Attrs::Iota { dimension }, Some(s)) = (inst.op, inst.attrs(), inst.shape().array()) {
            // Positions past the type wrap.
            let narrow = matches!(s.ty, HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16);
            return narrow && s.dims[*dimension as usize] > 1 << (s.ty.bits() - 1);
        }
        let (Some(ty), Some(result)) = (self.decides(inst), inst.shape().array()) else { return false };
        if inst.op == Convert {
            // To and from f8 there is a machine cast only for what it gets right.
            let plain = |t: HloType| matches!(t, HloType::F32 | HloType::Bf16 | HloType::F16);
            return ty != result.ty && ((is_f8(ty) && !plain(result.ty)) || is_f8(result.ty));
        }
        match ty {
            HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16 => {
                !matches!(inst.op, And | BitcastConvert | Compare | Maximum | Minimum | Or | Select | Xor)
            }
            HloType::Pred => matches!(inst.op, Add | Maximum | Minimum | Multiply | Clamp),
            t if is_f8(t) => !matches!(inst.op, BitcastConvert | Select),
            _ => false,
        }
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        if let (Attrs::Iota { dimension }, Some(s)) = (inst.attrs(), inst.shape().array()) {
            let wide = b.iota(HloType::S32, &s.dims, *dimension as usize);
            return Some(b.convert(wide, s.ty));
        }
        let ty = self.decides(inst)?;
        let result = inst.shape().array()?.ty;
        if inst.op == HloOp::Convert {
            let wide = b.convert(operands[0], HloType::F32);
            return Some(if is_f8(result) { to_f8(b, wide, result) } else { b.convert(wide, result) });
        }
        if ty == HloType::Pred {
            let p = |b: &mut Build<'_>, op: HloOp, x: HloId, y: HloId| b.binary(op, x, y);
            return Some(match inst.op {
                HloOp::Add | HloOp::Maximum => p(b, HloOp::Or, operands[0], operands[1]),
                HloOp::Clamp => {
                    let dims = b.dims(operands[1]);
                    let (low, high) = (b.spread(operands[0], &dims), b.spread(operands[2], &dims));
                    let raised = p(b, HloOp::Or, operands[1], low);
                    p(b, HloOp::And, raised, high)
                }
                _ => p(b, HloOp::And, operands[0], operands[1]),
            });
        }
        if is_f8(ty) {
            let wide: Vec<HloId> = operands.iter().map(|x| widened(b, *x, HloType::F32)).collect();
            let out = pointwise(b, inst, &wide, if is_f8(result) { HloType::F32 } else { result });
            return Some(if is_f8(result) { to_f8(b, out, result) } else { out });
        }
        // A logical shift and counts look at the bits of the narrow type, an arithmetic shift at its sign.
        let bits = i64::from(ty.bits());
        let unsigned = if bits == 8 { HloType::U8 } else { HloType::U16 };
        let signed = if bits == 8 { HloType::S8 } else { HloType::S16 };
        let (seen, wide) = match inst.op {
            HloOp::ShiftRightLogical | HloOp::PopulationCount | HloOp::CountLeadingZeros => {
                (unsigned, HloType::U32)
            }
            HloOp::ShiftRightArithmetic => (signed, HloType::S32),
            _ if ty.is_signed_int() => (ty, HloType::S32),
            _ => (ty, HloType::U32),
        };
        let shifts =
            matches!(inst.op, HloOp::ShiftLeft | HloOp::ShiftRightLogical | HloOp::ShiftRightArithmetic);
        let mut wides = Vec::with_capacity(operands.len());
        for (k, x) in operands.iter().enumerate() {
            // A shift's amount is unsigned.
            let as_seen = if shifts && k == 1 { b.bits_as(*x, unsigned) } else { b.bits_as(*x, seen) };
            let w = b.convert(as_seen, if shifts && k == 1 { HloType::U32 } else { wide });
            wides.push(if shifts && k == 1 { b.bits_as(w, wide) } else { w });
        }
        let keeps = result == ty;
        let mut out = pointwise(b, inst, &wides, if keeps { wide } else { result });
        if inst.op == HloOp::CountLeadingZeros {
            out = b.with_int(HloOp::Subtract, out, 32 - bits);
        }
        Some(if keeps {
            let narrow = b.convert(out, seen);
            b.bits_as(narrow, ty)
        } else {
            out
        })
    }
}

/// A value of a narrow type widened; others as they are (the predicate of a select).
fn widened(b: &mut Build<'_>, x: HloId, ty: HloType) -> HloId {
    if is_f8(b.ty(x)) { b.convert(x, ty) } else { x }
}

fn pointwise(b: &mut Build<'_>, inst: HloInst<'_>, operands: &[HloId], ty: HloType) -> HloId {
    let dims = inst.shape().array().map_or_else(Vec::new, |s| s.dims.clone());
    b.op(inst.op, ty, &dims, operands, inst.attrs().clone())
}

/// f32 to an 8-bit float with HLO's overflow.
fn to_f8(b: &mut Build<'_>, x: HloId, ty: HloType) -> HloId {
    let dims = b.dims(x);
    let cast = b.op(HloOp::Convert, ty, &dims, &[x], Attrs::None);
    let magnitude = b.unary(HloOp::Abs, x);
    // Half a step above the largest value: 448 and 57344.
    let (over, beyond) = match ty {
        HloType::F8E4M3Fn => (b.compare_with(Direction::Gt, magnitude, 464.0), 0x7F),
        _ => (b.compare_with(Direction::Ge, magnitude, 61_440.0), 0x7C),
    };
    let bits = b.bits_as(cast, HloType::U8);
    let sign = b.with_int(HloOp::And, bits, 0x80);
    let special = b.with_int(HloOp::Or, sign, beyond);
    let chosen = b.select(over, special, bits);
    b.bits_as(chosen, ty)
}
