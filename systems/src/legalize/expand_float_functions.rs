//! `expand_float_functions`: functions without a record become formulas of the ones the scalar and vector engines have, in
//! f32, chosen so that every result keeps a relative or absolute error of a few units in the last place.
//!
//! * `cos x` by quarter turns after exact reduction, `tan x = sin x / cos x`; `expm1` by `tanh` near 0; `log1p` by the logarithm of the rounded
//!   `1 + x` corrected by what the rounding lost; `cbrt` by a power and one Newton step; `atan2` from the arctangent of
//!   the smaller by the larger magnitude;
//! * roundings start from the machine's cast to integers, which rounds to nearest even; a conversion to an integer
//!   truncates first and gives 0 for NaN; a total-order comparison compares the bits as integers.
//!
//! Facts: `spec/isa_compute.md 4.3, 9.1, 9.2`, `spec/hlo.md 7`.

use super::build::{Build, Expander, expand_all};
use super::total_order::total_key;
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_float_functions(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut FloatFunctions { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

const F: HloType = HloType::F32;
const SIGN: i64 = 0x8000_0000;

struct FloatFunctions<'m> {
    module: &'m HloModule,
}

impl Expander for FloatFunctions<'_> {
    fn family(&self) -> OpSet {
        use HloOp::*;
        OpSet::of(&[
            Atan2,
            Cbrt,
            Ceil,
            Compare,
            Convert,
            Cosine,
            ExponentialMinusOne,
            Floor,
            LogPlusOne,
            ReducePrecision,
            RoundNearestAfz,
            Tan,
        ])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        use HloOp::*;
        let operand = inst.operands().first().and_then(|o| self.module.inst(*o).shape().array());
        let float = operand.is_some_and(|a| matches!(a.ty, HloType::F32 | HloType::Bf16 | HloType::F16));
        let known = match inst.op {
            Atan2 | Cbrt | Ceil | Cosine | ExponentialMinusOne | Floor | LogPlusOne | RoundNearestAfz
            | Tan | ReducePrecision => true,
            Compare => matches!(inst.attrs(), Attrs::Compare { total_order: true, .. }),
            Convert => inst.shape().array().is_some_and(|s| s.ty.is_int() && s.ty.bytes() <= 4),
            _ => false,
        };
        float && known
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let ty = b.ty(operands[0]);
        let x: Vec<HloId> = operands.iter().map(|o| b.convert(*o, F)).collect();
        let y = match inst.op {
            HloOp::Cosine => cosine(b, x[0]),
            HloOp::Tan => {
                let (s, c) = (b.unary(HloOp::Sine, x[0]), cosine(b, x[0]));
                b.binary(HloOp::Divide, s, c)
            }
            HloOp::ExponentialMinusOne => expm1(b, x[0]),
            HloOp::LogPlusOne => log1p(b, x[0]),
            HloOp::Cbrt => cbrt(b, x[0]),
            HloOp::Atan2 => atan2(b, x[0], x[1]),
            HloOp::Floor => rounded_down(b, x[0]),
            HloOp::Ceil => {
                let n = b.unary(HloOp::Negate, x[0]);
                let f = rounded_down(b, n);
                let c = b.unary(HloOp::Negate, f);
                with_sign_of(b, c, x[0])
            }
            HloOp::RoundNearestAfz => {
                let a = b.unary(HloOp::Abs, x[0]);
                let whole = rounded_down(b, a);
                let rest = b.binary(HloOp::Subtract, a, whole);
                let half = b.compare_with(Direction::Ge, rest, 0.5);
                let up = b.convert(half, F);
                let r = b.binary(HloOp::Add, whole, up);
                with_sign_of(b, r, x[0])
            }
            HloOp::ReducePrecision => {
                let Attrs::ReducePrecision { exponent_bits, mantissa_bits } = *inst.attrs() else {
                    return None;
                };
                reduce_precision(b, x[0], exponent_bits, mantissa_bits)
            }
            HloOp::Compare => {
                let Attrs::Compare { direction, .. } = *inst.attrs() else { return None };
                let (l, r) = (total_key(b, operands[0]), total_key(b, operands[1]));
                return Some(b.compare(direction, l, r));
            }
            HloOp::Convert => {
                let to = inst.shape().array()?.ty;
                let whole = truncated(b, x[0]);
                let number = b.compare(Direction::Eq, x[0], x[0]);
                let zero = b.like(whole, 0.0);
                let clean = b.select(number, whole, zero);
                return Some(b.convert(clean, to));
            }
            _ => return None,
        };
        Some(b.convert(y, ty))
    }
}

/// The bits of an f32 combined with a constant.
fn bits_with(b: &mut Build<'_>, op: HloOp, x: HloId, mask: i64) -> HloId {
    let bits = b.bits_as(x, HloType::U32);
    b.with_int(op, bits, mask)
}

/// `magnitude` with the sign bit of `x` set where `x` has it.
pub(super) fn with_sign_of(b: &mut Build<'_>, value: HloId, x: HloId) -> HloId {
    let sign = bits_with(b, HloOp::And, x, SIGN);
    let bits = b.bits_as(value, HloType::U32);
    let both = b.binary(HloOp::Or, bits, sign);
    b.bits_as(both, F)
}

/// Largest whole number not above `x`; keeps -0, infinities and NaN.
fn rounded_down(b: &mut Build<'_>, x: HloId) -> HloId {
    let near = b.unary(HloOp::RoundNearestEven, x);
    let above = b.compare(Direction::Gt, near, x);
    let one = b.convert(above, F);
    b.binary(HloOp::Subtract, near, one)
}

/// Towards zero.
fn truncated(b: &mut Build<'_>, x: HloId) -> HloId {
    let a = b.unary(HloOp::Abs, x);
    let whole = rounded_down(b, a);
    with_sign_of(b, whole, x)
}

/// Up to this size a number of quarter turns is small enough for exact reduction.
const REDUCED: f64 = 6_000.0;
/// A quarter turn in three parts: products of the first two with whole numbers below 2^12 are exact.
const QUARTER: [f64; 3] = [1.5703125, 0.0004837512969970703, 7.549790126404332e-08];

/// By quarter turns: `x` less `k` of them is `r`, and the cosine is that or the sine of `r`, with a sign. Far out
/// `1 - 2 sin^2(x/2)`.
fn cosine(b: &mut Build<'_>, x: HloId) -> HloId {
    // To the nearest whole number: below 2^22 adding 1.5 * 2^23 leaves no room for a fraction.
    let turns = b.with(HloOp::Multiply, x, std::f64::consts::FRAC_2_PI);
    let pushed = b.with(HloOp::Add, turns, 12_582_912.0);
    let whole = b.with(HloOp::Subtract, pushed, 12_582_912.0);
    let mut r = x;
    for part in QUARTER {
        let away = b.with(HloOp::Multiply, whole, part);
        r = b.binary(HloOp::Subtract, r, away);
    }
    let k = b.convert(whole, HloType::S32);
    let odd = b.with_int(HloOp::And, k, 1);
    let odd = b.compare_with(Direction::Ne, odd, 0.0);
    let next = b.with_int(HloOp::Add, k, 1);
    let minus = b.with_int(HloOp::And, next, 2);
    let minus = b.compare_with(Direction::Ne, minus, 0.0);
    let sine = b.unary(HloOp::Sine, r);
    let cosine = cosine_by_half(b, r);
    let value = b.select(odd, sine, cosine);
    let negated = b.unary(HloOp::Negate, value);
    let near = b.select(minus, negated, value);
    let far = cosine_by_half(b, x);
    let size = b.unary(HloOp::Abs, x);
    let small = b.compare_with(Direction::Lt, size, REDUCED);
    b.select(small, near, far)
}

/// `1 - 2 sin^2(x/2)`: exact to a few units where the cosine is not small.
fn cosine_by_half(b: &mut Build<'_>, x: HloId) -> HloId {
    let half = b.with(HloOp::Multiply, x, 0.5);
    let s = b.unary(HloOp::Sine, half);
    let squared = b.binary(HloOp::Multiply, s, s);
    let twice = b.with(HloOp::Multiply, squared, 2.0);
    let one = b.like(x, 1.0);
    b.binary(HloOp::Subtract, one, twice)
}

/// `exp(x) - 1 = 2 t / (1 - t)` with `t = tanh(x / 2)`.
fn expm1(b: &mut Build<'_>, x: HloId) -> HloId {
    let e = b.unary(HloOp::Exponential, x);
    let far = b.with(HloOp::Subtract, e, 1.0);
    let half = b.with(HloOp::Multiply, x, 0.5);
    let t = b.unary(HloOp::Tanh, half);
    let double = b.with(HloOp::Multiply, t, 2.0);
    let one = b.like(x, 1.0);
    let rest = b.binary(HloOp::Subtract, one, t);
    let near = b.binary(HloOp::Divide, double, rest);
    let a = b.unary(HloOp::Abs, x);
    let small = b.compare_with(Direction::Lt, a, 1.0);
    b.select(small, near, far)
}

/// `log(u) * x / (u - 1)` with `u = 1 + x` rounded.
fn log1p(b: &mut Build<'_>, x: HloId) -> HloId {
    let u = b.with(HloOp::Add, x, 1.0);
    let l = b.unary(HloOp::Log, u);
    let used = b.with(HloOp::Subtract, u, 1.0);
    let ratio = b.binary(HloOp::Divide, x, used);
    let corrected = b.binary(HloOp::Multiply, l, ratio);
    let lost = b.compare_with(Direction::Eq, used, 0.0);
    let near = b.select(lost, x, corrected);
    let large = b.compare_with(Direction::Gt, x, 1e9);
    b.select(large, l, near)
}

fn cbrt(b: &mut Build<'_>, x: HloId) -> HloId {
    let a = b.unary(HloOp::Abs, x);
    let r = b.with(HloOp::Power, a, 1.0 / 3.0);
    // r - (r^3 - a) / (3 r^2) = r - (r - a / r^2) / 3
    let square = b.binary(HloOp::Multiply, r, r);
    let other = b.binary(HloOp::Divide, a, square);
    let off = b.binary(HloOp::Subtract, r, other);
    let third = b.with(HloOp::Multiply, off, 1.0 / 3.0);
    let better = b.binary(HloOp::Subtract, r, third);
    let finite = b.compare_with(Direction::Lt, a, f64::INFINITY);
    let above = b.compare_with(Direction::Gt, a, 0.0);
    let usual = b.binary(HloOp::And, finite, above);
    let magnitude = b.select(usual, better, r);
    with_sign_of(b, magnitude, x)
}

fn arctangent(b: &mut Build<'_>, y: HloId) -> HloId {
    // atan2 of a number and 1 is the one arctangent that HLO knows; the scalar engine's own record does it.
    let one = b.like(y, 1.0);
    b.binary(HloOp::Atan2, y, one)
}

fn atan2(b: &mut Build<'_>, y: HloId, x: HloId) -> HloId {
    let (ay, ax) = (b.unary(HloOp::Abs, y), b.unary(HloOp::Abs, x));
    let (small, large) = (b.binary(HloOp::Minimum, ay, ax), b.binary(HloOp::Maximum, ay, ax));
    let quotient = b.binary(HloOp::Divide, small, large);
    // 0 / 0 counts as 0 and inf / inf as 1.
    let zero = b.like(x, 0.0);
    let one = b.like(x, 1.0);
    let none = b.compare_with(Direction::Eq, large, 0.0);
    let both = b.compare_with(Direction::Eq, small, f64::INFINITY);
    let quotient = b.select(none, zero, quotient);
    let quotient = b.select(both, one, quotient);
    let angle = arctangent(b, quotient);
    let steep = b.compare(Direction::Gt, ay, ax);
    let quarter = b.like(x, std::f64::consts::FRAC_PI_2);
    let complement = b.binary(HloOp::Subtract, quarter, angle);
    let angle = b.select(steep, complement, angle);
    let negative = bits_with(b, HloOp::And, x, SIGN);
    let left = b.compare_with(Direction::Ne, negative, 0.0);
    let pi = b.like(x, std::f64::consts::PI);
    let mirrored = b.binary(HloOp::Subtract, pi, angle);
    let angle = b.select(left, mirrored, angle);
    with_sign_of(b, angle, y)
}

/// Rounds the mantissa to `m` bits and saturates to the range of `e` exponent bits, as XLA does.
fn reduce_precision(b: &mut Build<'_>, x: HloId, e: u32, m: u32) -> HloId {
    let bits = b.bits_as(x, HloType::U32);
    let mut out = bits;
    if m < 23 {
        let drop = 23 - m;
        // Half of what is dropped minus one, plus the last kept bit: to nearest, ties to even.
        let last = b.with_int(HloOp::ShiftRightLogical, bits, i64::from(drop));
        let last = b.with_int(HloOp::And, last, 1);
        let bias = b.with_int(HloOp::Add, last, (1i64 << (drop - 1)) - 1);
        let sum = b.binary(HloOp::Add, bits, bias);
        out = b.with_int(HloOp::And, sum, (0xFFFF_FFFFi64 >> drop) << drop);
    }
    if e < 8 {
        let half = (1i64 << (e - 1)) - 1;
        let largest = 127 + half;
        let smallest = 127 - half + 1;
        let exponent = b.with_int(HloOp::And, out, 0x7F80_0000);
        let sign = b.with_int(HloOp::And, out, SIGN);
        let over = b.compare_int(Direction::Gt, exponent, largest << 23);
        let infinite = b.with_int(HloOp::Or, sign, 0x7F80_0000);
        out = b.select(over, infinite, out);
        let under = b.compare_int(Direction::Lt, exponent, smallest << 23);
        out = b.select(under, sign, out);
    }
    let value = b.bits_as(out, F);
    let number = b.compare(Direction::Eq, x, x);
    b.select(number, value, x)
}
