//! `expand_integer_dots`: the matrix engine multiplies floats, so integer dots become float dots whose products and sums
//! are exact: 8-bit operands as they are, wider ones byte by byte modulo 2^32.
//!
//! Facts: `spec/isa_compute.md 3.4`: products of bf16 are exact in fp32, sums are exact below 2^24.

use super::build::{Build, Expander, expand_all};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, DotDims, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_integer_dots(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut IntegerDots { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

struct IntegerDots<'m> {
    module: &'m HloModule,
}

/// Sums of fewer products than this are exact: both operands signed bytes, and any other bytes.
const SIGNED_DEPTH: i64 = 1024;
const BYTE_DEPTH: i64 = 256;
/// Longest contraction that is cut into exact parts.
const MAX_DEPTH: i64 = 1 << 17;

impl IntegerDots<'_> {
    fn operand(&self, inst: HloInst<'_>, k: usize) -> Option<HloType> {
        Some(self.module.inst(*inst.operands().get(k)?).shape().array()?.ty)
    }
}

impl Expander for IntegerDots<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Dot])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        let small = |t: Option<HloType>| {
            t.is_some_and(|t| (t.is_int() || t == HloType::Pred) && t.bytes() <= 4 && t.bits() != 4)
        };
        let depth = match (inst.attrs(), inst.operands().first()) {
            (Attrs::Dot(d), Some(x)) => self.module.inst(*x).shape().array().map_or(0, |a| {
                d.lhs_contracting.iter().map(|k| a.dims[*k as usize].max(0)).fold(1, i64::saturating_mul)
            }),
            _ => 0,
        };
        inst.op == HloOp::Dot
            && depth <= MAX_DEPTH
            && small(self.operand(inst, 0))
            && small(self.operand(inst, 1))
            && inst.shape().array().is_some_and(|s| s.elements() > 0 && s.ty.bytes() <= 4)
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Dot(dims) = inst.attrs() else { return None };
        let shape = inst.shape().array()?;
        let (left, groups) = matrix(b, operands[0], &dims.lhs_batch, &dims.lhs_contracting, true);
        let (right, _) = matrix(b, operands[1], &dims.rhs_batch, &dims.rhs_contracting, false);
        if groups[2] == 0 {
            return Some(b.full(shape.ty, &shape.dims, 0.0));
        }
        let (lt, rt) = (b.ty(left), b.ty(right));
        let byte = |t: HloType| t.bytes() == 1;
        let sum = if byte(lt) && byte(rt) {
            let signed = lt.is_signed_int() && rt.is_signed_int();
            let (x, y) = (b.convert(left, HloType::Bf16), b.convert(right, HloType::Bf16));
            deep(b, x, y, if signed { SIGNED_DEPTH } else { BYTE_DEPTH })
        } else {
            let (xs, ys) = (limbs(b, left), limbs(b, right));
            let mut sum = None;
            for (i, x) in xs.iter().enumerate() {
                for (j, y) in ys.iter().enumerate().take(4 - i) {
                    let part = deep(b, *x, *y, BYTE_DEPTH);
                    let part = b.with_int(HloOp::ShiftLeft, part, 8 * (i + j) as i64);
                    sum = Some(match sum {
                        Some(s) => b.binary(HloOp::Add, s, part),
                        None => part,
                    });
                }
            }
            sum?
        };
        let exact = match shape.ty {
            HloType::U32 | HloType::U16 | HloType::U8 => b.bits_as(sum, HloType::U32),
            _ => sum,
        };
        let typed = b.convert(exact, shape.ty);
        Some(b.reshape(typed, &shape.dims))
    }
}

/// An operand as `[batch, rows, depth]` (left) or `[batch, depth, columns]` (right), and these three extents.
fn matrix(b: &mut Build<'_>, x: HloId, batch: &[i64], contracting: &[i64], left: bool) -> (HloId, [i64; 3]) {
    let dims = b.dims(x);
    let free: Vec<i64> =
        (0..dims.len() as i64).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect();
    let size = |of: &[i64]| of.iter().map(|d| dims[*d as usize]).product::<i64>();
    let (second, third) = if left { (free.as_slice(), contracting) } else { (contracting, free.as_slice()) };
    let order: Vec<i64> = batch.iter().chain(second).chain(third).copied().collect();
    let extents = [size(batch), size(second), size(third)];
    let turned = b.transpose(x, &order);
    (b.reshape(turned, &extents), extents)
}

/// The bytes of an integer modulo 2^32, lowest first, as bf16.
fn limbs(b: &mut Build<'_>, x: HloId) -> Vec<HloId> {
    let ty = b.ty(x);
    let bits = if ty.is_signed_int() {
        let wide = b.convert(x, HloType::S32);
        b.bits_as(wide, HloType::U32)
    } else {
        b.convert(x, HloType::U32)
    };
    let count = if ty.is_signed_int() { 4 } else { ty.bytes() as i64 };
    (0..count)
        .map(|k| {
            let moved = b.with_int(HloOp::ShiftRightLogical, bits, 8 * k);
            let byte = b.with_int(HloOp::And, moved, 0xFF);
            b.convert(byte, HloType::Bf16)
        })
        .collect()
}

/// An exact dot of small whole numbers as s32, cut along its depth.
fn deep(b: &mut Build<'_>, x: HloId, y: HloId, most: i64) -> HloId {
    let depth = b.dims(x)[2];
    let mut sum = None;
    let mut at = 0;
    while at < depth {
        let end = depth.min(at + most);
        let (l, r) = (b.slice_dim(x, 2, at, end, 1), b.slice_dim(y, 1, at, end, 1));
        let dims = DotDims {
            lhs_batch: vec![0],
            rhs_batch: vec![0],
            lhs_contracting: vec![2],
            rhs_contracting: vec![1],
        };
        let part = b.dot(HloType::F32, l, r, dims);
        let part = b.convert(part, HloType::S32);
        sum = Some(match sum {
            Some(s) => b.binary(HloOp::Add, s, part),
            None => part,
        });
        at = end;
    }
    sum.unwrap_or(x)
}
