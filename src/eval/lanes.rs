//! Lanes: the numbers that kernels compute with. Whatever the element type, floats are computed as `f64`, integers as
//! `i64` (sign- or zero-extended; `u64` as its bits) and complex numbers as pairs of `f64`.
//!
//! Kernels load a block of elements into lanes, compute, and store the block: the store rounds to nearest even, or
//! wraps, once. An `f64` holds every narrower float exactly, and it has more than twice their digits, so sum, product,
//! quotient and root rounded from it are the correctly rounded ones.

use super::complex::complex_binary;
use super::scalar;
use super::tensor::{Data, Scalar, Tensor};
use crate::array::float;
use murre_components::dtype::HloType;
use murre_components::hlo::HloOp;
use std::sync::LazyLock;

/// Elements that are loaded at a time: three operands of a block fit the first-level cache.
pub(crate) const BLOCK: usize = 512;

/// A number of a kernel.
pub(crate) trait Lane: Copy + Default + PartialEq + 'static {
    const ZERO: Self;

    /// Loads `out.len()` elements from `at` on.
    fn load(t: &Tensor, at: usize, out: &mut [Self]);

    /// Appends elements to `to`, whose width is that of `ty`.
    fn store(ty: HloType, lanes: &[Self], to: &mut Data);

    fn plus(self, other: Self) -> Self;

    fn times(self, other: Self) -> Self;

    /// Whether its product with zero is zero.
    fn is_finite(self) -> bool;

    /// The rule of a binary operation.
    fn binary(op: HloOp, ty: HloType) -> Option<fn(Self, Self) -> Self>;

    /// Rounded or wrapped to a type.
    fn fit(self, ty: HloType) -> Self;

    fn of(scalar: Scalar) -> Self;

    fn scalar(self) -> Scalar;
}

/// Which lanes an element type is computed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Int,
    Float,
    Complex,
}

pub(crate) fn kind(ty: HloType) -> Kind {
    match ty {
        HloType::C64 | HloType::C128 => Kind::Complex,
        t if t.is_float() => Kind::Float,
        _ => Kind::Int,
    }
}

/// Runs the same code with `$lane` bound to the lane type of `$ty`.
macro_rules! with_lane {
    ($ty:expr, $lane:ident => $body:expr) => {
        match $crate::eval::lanes::kind($ty) {
            $crate::eval::lanes::Kind::Int => {
                type $lane = i64;
                $body
            }
            $crate::eval::lanes::Kind::Float => {
                type $lane = f64;
                $body
            }
            $crate::eval::lanes::Kind::Complex => {
                type $lane = [f64; 2];
                $body
            }
        }
    };
}
pub(crate) use with_lane;

/// An integer wrapped to the width of its type.
pub(crate) fn wrap(ty: HloType, value: i64) -> i64 {
    if ty == HloType::Pred {
        return i64::from(value != 0);
    }
    let unused = 64 - ty.bits().clamp(1, 64);
    if ty.is_signed_int() { value << unused >> unused } else { ((value as u64) << unused >> unused) as i64 }
}

/// An `f64` as `f32`, rounded to odd: a later rounding to a narrower type then is as good as a direct one.
#[inline]
fn odd_f32(x: f64) -> u32 {
    let near = x as f32;
    let back = f64::from(near);
    let bits = near.to_bits();
    if back.to_bits() == x.to_bits() { bits } else { (bits - u32::from(back.abs() > x.abs())) | 1 }
}

#[inline]
fn bf16_of(x: f64) -> u16 {
    if x.is_nan() {
        return ((x as f32).to_bits() >> 16) as u16 | 0x40;
    }
    let bits = odd_f32(x);
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[inline]
fn f16_of(x: f64) -> u16 {
    if x.is_nan() {
        return float::encode(HloType::F16, x) as u16;
    }
    half::f16::from_f32(f32::from_bits(odd_f32(x))).to_bits()
}

#[inline]
fn of_f16(bits: u16) -> f64 {
    // The exponent moves up by 112; of an infinity or NaN it is already the largest.
    let wide = u32::from(bits & 0x7fff) << 13;
    let magnitude = if bits & 0x7c00 == 0x7c00 {
        f32::from_bits(wide | 0x7f80_0000)
    } else {
        f32::from_bits(wide) * f32::from_bits(0x7780_0000)
    };
    f64::from(f32::from_bits(magnitude.to_bits() | u32::from(bits & 0x8000) << 16))
}

/// What every code of a one-byte float stands for.
fn codes(ty: HloType) -> &'static [f64; 256] {
    use HloType::*;
    const TYPES: [HloType; 9] =
        [F8E5M2, F8E4M3Fn, F8E4M3B11Fnuz, F8E5M2Fnuz, F8E4M3Fnuz, F8E4M3, F8E3M4, F4E2M1Fn, F8E8M0Fnu];
    static TABLES: LazyLock<Vec<[f64; 256]>> = LazyLock::new(|| {
        let table = |ty: &HloType| std::array::from_fn(|code| float::decode(*ty, code as u64));
        TYPES.iter().map(table).collect()
    });
    let at = TYPES.iter().position(|t| *t == ty).unwrap_or(0);
    &TABLES[at]
}

fn fill<W: Copy, L>(words: &[W], at: usize, out: &mut [L], load: impl Fn(W) -> L) {
    for (slot, w) in out.iter_mut().zip(&words[at..]) {
        *slot = load(*w);
    }
}

impl Lane for f64 {
    const ZERO: f64 = 0.0;

    fn load(t: &Tensor, at: usize, out: &mut [f64]) {
        match &t.data {
            Data::B1(v) => {
                let table = codes(t.ty);
                fill(v, at, out, |w| table[w as usize]);
            }
            Data::B2(v) if t.ty == HloType::Bf16 => {
                fill(v, at, out, |w| f64::from(f32::from_bits(u32::from(w) << 16)));
            }
            Data::B2(v) => fill(v, at, out, of_f16),
            Data::B4(v) => fill(v, at, out, |w| f64::from(f32::from_bits(w))),
            Data::B8(v) => fill(v, at, out, f64::from_bits),
            Data::B16(_) => {}
        }
    }

    fn store(ty: HloType, lanes: &[f64], to: &mut Data) {
        match to {
            Data::B1(v) => v.extend(lanes.iter().map(|x| float::encode(ty, *x) as u8)),
            Data::B2(v) if ty == HloType::Bf16 => v.extend(lanes.iter().map(|x| bf16_of(*x))),
            Data::B2(v) => v.extend(lanes.iter().map(|x| f16_of(*x))),
            Data::B4(v) => v.extend(lanes.iter().map(|x| (*x as f32).to_bits())),
            Data::B8(v) => v.extend(lanes.iter().map(|x| x.to_bits())),
            Data::B16(_) => {}
        }
    }

    #[inline]
    fn plus(self, other: f64) -> f64 {
        self + other
    }

    #[inline]
    fn times(self, other: f64) -> f64 {
        self * other
    }

    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }

    fn binary(op: HloOp, _: HloType) -> Option<fn(f64, f64) -> f64> {
        scalar::float_binary(op)
    }

    #[inline]
    fn fit(self, ty: HloType) -> f64 {
        match ty {
            HloType::F32 => f64::from(self as f32),
            HloType::F64 => self,
            HloType::Bf16 => f64::from(f32::from_bits(u32::from(bf16_of(self)) << 16)),
            HloType::F16 => of_f16(f16_of(self)),
            narrow => float::round_to(narrow, self),
        }
    }

    fn of(scalar: Scalar) -> f64 {
        scalar.float()
    }

    fn scalar(self) -> Scalar {
        Scalar::Float(self)
    }
}

impl Lane for i64 {
    const ZERO: i64 = 0;

    fn load(t: &Tensor, at: usize, out: &mut [i64]) {
        let signed = t.ty.is_signed_int();
        match &t.data {
            Data::B1(v) if signed => fill(v, at, out, |w| i64::from(w as i8)),
            Data::B1(v) => fill(v, at, out, i64::from),
            Data::B2(v) if signed => fill(v, at, out, |w| i64::from(w as i16)),
            Data::B2(v) => fill(v, at, out, i64::from),
            Data::B4(v) if signed => fill(v, at, out, |w| i64::from(w as i32)),
            Data::B4(v) => fill(v, at, out, i64::from),
            Data::B8(v) => fill(v, at, out, |w| w as i64),
            Data::B16(_) => {}
        }
    }

    fn store(ty: HloType, lanes: &[i64], to: &mut Data) {
        match to {
            Data::B1(v) if ty.bits() < 8 => v.extend(lanes.iter().map(|x| wrap(ty, *x) as u8)),
            Data::B1(v) => v.extend(lanes.iter().map(|x| *x as u8)),
            Data::B2(v) => v.extend(lanes.iter().map(|x| *x as u16)),
            Data::B4(v) => v.extend(lanes.iter().map(|x| *x as u32)),
            Data::B8(v) => v.extend(lanes.iter().map(|x| *x as u64)),
            Data::B16(_) => {}
        }
    }

    #[inline]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    #[inline]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }

    fn is_finite(self) -> bool {
        true
    }

    fn binary(op: HloOp, ty: HloType) -> Option<fn(i64, i64) -> i64> {
        scalar::int_binary(op, ty)
    }

    #[inline]
    fn fit(self, ty: HloType) -> i64 {
        wrap(ty, self)
    }

    fn of(scalar: Scalar) -> i64 {
        scalar.int()
    }

    fn scalar(self) -> Scalar {
        Scalar::Int(self)
    }
}

impl Lane for [f64; 2] {
    const ZERO: [f64; 2] = [0.0; 2];

    fn load(t: &Tensor, at: usize, out: &mut [[f64; 2]]) {
        let half = |w: u64| f64::from(f32::from_bits(w as u32));
        match &t.data {
            Data::B8(v) => fill(v, at, out, |w| [half(w), half(w >> 32)]),
            Data::B16(v) => {
                fill(v, at, out, |w| [f64::from_bits(w as u64), f64::from_bits((w >> 64) as u64)])
            }
            _ => {}
        }
    }

    fn store(_: HloType, lanes: &[[f64; 2]], to: &mut Data) {
        let half = |x: f64| u64::from((x as f32).to_bits());
        match to {
            Data::B8(v) => v.extend(lanes.iter().map(|[re, im]| half(*re) | half(*im) << 32)),
            Data::B16(v) => {
                let wide = |x: f64| u128::from(x.to_bits());
                v.extend(lanes.iter().map(|[re, im]| wide(*re) | wide(*im) << 64));
            }
            _ => {}
        }
    }

    #[inline]
    fn plus(self, other: [f64; 2]) -> [f64; 2] {
        [self[0] + other[0], self[1] + other[1]]
    }

    #[inline]
    fn times(self, [c, d]: [f64; 2]) -> [f64; 2] {
        let [a, b] = self;
        [a * c - b * d, a * d + b * c]
    }

    fn is_finite(self) -> bool {
        self[0].is_finite() && self[1].is_finite()
    }

    fn binary(op: HloOp, _: HloType) -> Option<fn([f64; 2], [f64; 2]) -> [f64; 2]> {
        complex_binary(op)
    }

    fn fit(self, ty: HloType) -> [f64; 2] {
        if ty == HloType::C64 { self.map(|x| f64::from(x as f32)) } else { self }
    }

    fn of(scalar: Scalar) -> [f64; 2] {
        scalar.complex()
    }

    fn scalar(self) -> Scalar {
        Scalar::Complex(self)
    }
}

/// All elements as lanes.
pub(crate) fn all<L: Lane>(t: &Tensor) -> Vec<L> {
    let mut out = vec![L::ZERO; t.data.len()];
    L::load(t, 0, &mut out);
    out
}

/// An array of lanes, each stored.
pub(crate) fn tensor<L: Lane>(ty: HloType, dims: Vec<usize>, lanes: &[L]) -> Tensor {
    let mut data = Data::with_capacity(ty, lanes.len());
    L::store(ty, lanes, &mut data);
    Tensor::new(ty, dims, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_agree_with_the_format_tables() {
        let mut bits = 0x3ff0_0000_0000_0001u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Exponents about the range of the narrow types, and mantissas of few and of many digits.
            let exponent = 1023 - 40 + (bits >> 40) % 80;
            let mantissa = (bits & ((1 << 52) - 1)) & !((1u64 << (bits >> 58)) - 1).min((1 << 44) - 1);
            let x = f64::from_bits(bits & 1 << 63 | exponent << 52 | mantissa);
            assert_eq!(u64::from(bf16_of(x)), float::encode(HloType::Bf16, x), "{x:e}");
            assert_eq!(u64::from(f16_of(x)), float::encode(HloType::F16, x), "{x:e}");
        }
    }

    #[test]
    fn every_half_loads() {
        for code in 0..=u16::MAX {
            let (got, want) = (of_f16(code), float::decode(HloType::F16, code.into()));
            assert!(
                got == want && got.is_sign_negative() == want.is_sign_negative()
                    || got.is_nan() && want.is_nan()
            );
        }
    }

    #[test]
    fn integers_wrap_when_stored() {
        let t = tensor(HloType::S4, vec![3], &[7i64, 8, -9]);
        assert_eq!(all::<i64>(&t), [7, -8, 7]);
        let t = tensor(HloType::U8, vec![2], &[-1i64, 256]);
        assert_eq!(all::<i64>(&t), [255, 0]);
        assert_eq!(all::<i64>(&tensor(HloType::Pred, vec![2], &[2i64, 0])), [1, 0]);
    }
}
