//! The total order of floats as an order of integers: `-NaN < -inf < .. < -0 < +0 < .. < inf < NaN`.

use super::build::Build;
use murre_components::dtype::HloType;
use murre_components::hlo::{Direction, HloOp};
use murre_components::ids::HloId;

/// The integer type of a value's bits that [`total_key`] reads; the type itself for integers that engines compare.
pub fn key_type(ty: HloType) -> Option<HloType> {
    match ty {
        HloType::F32 => Some(HloType::S32),
        HloType::Bf16 | HloType::F16 => Some(HloType::S16),
        HloType::F8E4M3Fn | HloType::F8E5M2 => Some(HloType::S8),
        HloType::S32 | HloType::U32 | HloType::S16 | HloType::U16 | HloType::S8 | HloType::U8 => Some(ty),
        _ => None,
    }
}

/// An integer whose plain order is the total order of `x`: of a float its bits, the magnitude of negative ones flipped.
pub fn total_key(b: &mut Build<'_>, x: HloId) -> HloId {
    let ty = b.ty(x);
    let Some(bits) = key_type(ty).filter(|_| ty.is_float()) else { return x };
    let raw = b.bits_as(x, bits);
    let raw = b.convert(raw, HloType::S32);
    let flipped = b.with_int(HloOp::Xor, raw, i64::from(i32::MAX));
    let negative = b.compare_with(Direction::Lt, raw, 0.0);
    b.select(negative, flipped, raw)
}

/// The value whose [`total_key`] is `key`.
pub fn from_total_key(b: &mut Build<'_>, key: HloId, ty: HloType) -> HloId {
    let Some(bits) = key_type(ty).filter(|_| ty.is_float()) else { return b.convert(key, ty) };
    let flipped = b.with_int(HloOp::Xor, key, i64::from(i32::MAX));
    let negative = b.compare_with(Direction::Lt, key, 0.0);
    let raw = b.select(negative, flipped, key);
    let raw = b.convert(raw, bits);
    b.bits_as(raw, ty)
}
