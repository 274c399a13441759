//! Elementwise operations on one element: the number rules of HLO, each in one place. Arrays and the computations that
//! reductions, sorts and scatters call per element all come here.
//!
//! Floats are computed in `f64` with the pure-Rust `libm` (the same bits on every machine) and rounded to the type;
//! integers wrap. Facts: floats and integers in `spec/hlo.md 7`.

use super::tensor::{Scalar, wrap};
use crate::array::float::{reduce_precision, round_to};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloOp};

/// The value rounded or wrapped to its type.
pub(crate) fn fit(ty: HloType, value: Scalar) -> Scalar {
    match value {
        Scalar::Int(i) => Scalar::Int(wrap(ty, i)),
        Scalar::Float(f) => Scalar::Float(round_to(ty, f)),
        Scalar::Complex([re, im]) => {
            let part = if ty == HloType::C64 { HloType::F32 } else { HloType::F64 };
            Scalar::Complex([round_to(part, re), round_to(part, im)])
        }
    }
}

/// One element of an elementwise operation: `from` is the operands' type, `to` the result's. `None`: not computed.
pub(crate) fn apply(op: HloOp, attrs: &Attrs, from: HloType, to: HloType, args: &[Scalar]) -> Option<Scalar> {
    use HloOp::*;
    let value = match (op, args) {
        (Convert, [a]) => return Some(convert(from, to, *a)),
        (Copy, [a]) => *a,
        (Select, [which, yes, no]) => {
            if which.is_true() {
                *yes
            } else {
                *no
            }
        }
        (Compare, [a, b]) => {
            let Attrs::Compare { direction, total_order } = attrs else { return None };
            Scalar::Int(compare(from, *direction, *total_order, *a, *b)?.into())
        }
        (Clamp, [low, x, high]) => {
            let raised = binary(Maximum, to, *low, *x)?;
            binary(Minimum, to, raised, *high)?
        }
        (Complex, [re, im]) => Scalar::Complex([re.float(), im.float()]),
        (Real, [a]) => match a {
            Scalar::Complex([re, _]) => Scalar::Float(*re),
            real => *real,
        },
        (Imag, [a]) => match a {
            Scalar::Complex([_, im]) => Scalar::Float(*im),
            _ => Scalar::zero(to),
        },
        (IsFinite, [a]) => Scalar::Int(a.float().is_finite().into()),
        (ReducePrecision, [a]) => match attrs {
            Attrs::ReducePrecision { exponent_bits, mantissa_bits } => {
                Scalar::Float(reduce_precision(a.float(), *exponent_bits, *mantissa_bits))
            }
            _ => return None,
        },
        (_, [a]) => unary(op, from, *a)?,
        (_, [a, b]) => binary(op, from, *a, *b)?,
        _ => return None,
    };
    Some(fit(to, value))
}

fn unary(op: HloOp, ty: HloType, a: Scalar) -> Option<Scalar> {
    use HloOp::*;
    match a {
        Scalar::Float(x) => Some(Scalar::Float(match op {
            // Signs and magnitudes are bit operations: a NaN keeps its payload.
            Abs => f64::from_bits(x.to_bits() & !(1 << 63)),
            Negate => f64::from_bits(x.to_bits() ^ 1 << 63),
            Ceil => x.ceil(),
            Floor => x.floor(),
            RoundNearestAfz => x.round(),
            RoundNearestEven => x.round_ties_even(),
            Sign if x.is_nan() || x == 0.0 => x,
            Sign => 1f64.copysign(x),
            Sqrt => x.sqrt(),
            Rsqrt => 1.0 / x.sqrt(),
            Cbrt => libm::cbrt(x),
            Exponential => libm::exp(x),
            ExponentialMinusOne => libm::expm1(x),
            Log => libm::log(x),
            LogPlusOne => libm::log1p(x),
            Logistic => 1.0 / (1.0 + libm::exp(-x)),
            Sine => libm::sin(x),
            Cosine => libm::cos(x),
            Tan => libm::tan(x),
            Tanh => libm::tanh(x),
            Erf => libm::erf(x),
            _ => return None,
        })),
        Scalar::Int(x) => Some(Scalar::Int(match op {
            Abs if ty.is_signed_int() => x.wrapping_abs(),
            Abs => x,
            Negate => x.wrapping_neg(),
            Sign if ty.is_signed_int() => x.signum(),
            Sign => i64::from(x != 0),
            Not if ty == HloType::Pred => i64::from(x == 0),
            Not => !x,
            PopulationCount => i64::from(bits_of(ty, x).count_ones()),
            CountLeadingZeros => i64::from(bits_of(ty, x).leading_zeros()) - i64::from(64 - ty.bits()),
            _ => return None,
        })),
        Scalar::Complex([re, im]) => Some(match op {
            Abs => Scalar::Float(libm::hypot(re, im)),
            Negate => Scalar::Complex([-re, -im]),
            Exponential => Scalar::Complex([libm::exp(re) * libm::cos(im), libm::exp(re) * libm::sin(im)]),
            Log => Scalar::Complex([libm::log(libm::hypot(re, im)), libm::atan2(im, re)]),
            Sign if re == 0.0 && im == 0.0 => a,
            Sign => Scalar::Complex([re / libm::hypot(re, im), im / libm::hypot(re, im)]),
            _ => return None,
        }),
    }
}

/// The bits of an integer within its width.
fn bits_of(ty: HloType, x: i64) -> u64 {
    let unused = 64 - ty.bits().clamp(1, 64);
    (x as u64) << unused >> unused
}

/// An operation on two elements of one type, not yet rounded or wrapped to it.
pub(crate) fn binary(op: HloOp, ty: HloType, a: Scalar, b: Scalar) -> Option<Scalar> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(Scalar::Int(binary_int(op, ty, a, b)?)),
        (Scalar::Float(a), Scalar::Float(b)) => Some(Scalar::Float(binary_float(op, a, b)?)),
        (Scalar::Complex([a, b]), Scalar::Complex([c, d])) => Some(Scalar::Complex(match op {
            HloOp::Add => [a + c, b + d],
            HloOp::Subtract => [a - c, b - d],
            HloOp::Multiply => [a * c - b * d, a * d + b * c],
            HloOp::Divide => {
                let n = c * c + d * d;
                [(a * c + b * d) / n, (b * c - a * d) / n]
            }
            _ => return None,
        })),
        _ => None,
    }
}

fn binary_float(op: HloOp, a: f64, b: f64) -> Option<f64> {
    use HloOp::*;
    Some(match op {
        Add => a + b,
        Subtract => a - b,
        Multiply => a * b,
        Divide => a / b,
        Remainder => libm::fmod(a, b),
        Power => libm::pow(a, b),
        Atan2 => libm::atan2(a, b),
        Maximum | Minimum if a.is_nan() => a,
        Maximum | Minimum if b.is_nan() => b,
        Maximum if a == b => {
            if a.is_sign_negative() {
                b
            } else {
                a
            }
        }
        Minimum if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        Maximum => {
            if a > b {
                a
            } else {
                b
            }
        }
        Minimum => {
            if a < b {
                a
            } else {
                b
            }
        }
        _ => return None,
    })
}

fn binary_int(op: HloOp, ty: HloType, a: i64, b: i64) -> Option<i64> {
    use HloOp::*;
    let signed = ty.is_signed_int();
    let width = i64::from(ty.bits());
    // A shift amount is read as unsigned: a negative one is a huge one.
    let amount = bits_of(ty, b);
    let wide = amount >= width as u64;
    if ty == HloType::Pred {
        return Some(match op {
            Add | Or | Maximum => a | b,
            Multiply | And | Minimum => a & b,
            Xor => a ^ b,
            _ => return None,
        });
    }
    Some(match op {
        Add => a.wrapping_add(b),
        Subtract => a.wrapping_sub(b),
        Multiply => a.wrapping_mul(b),
        Divide if b == 0 => -1,
        Divide if signed => a.wrapping_div(b),
        Divide => (a as u64 / b as u64) as i64,
        Remainder if b == 0 => a,
        Remainder if signed => a.wrapping_rem(b),
        Remainder => (a as u64 % b as u64) as i64,
        Maximum if signed => a.max(b),
        Maximum => (a as u64).max(b as u64) as i64,
        Minimum if signed => a.min(b),
        Minimum => (a as u64).min(b as u64) as i64,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        ShiftLeft => {
            if wide {
                0
            } else {
                a << amount
            }
        }
        ShiftRightLogical => {
            if wide {
                0
            } else {
                (bits_of(ty, a) >> amount) as i64
            }
        }
        ShiftRightArithmetic => {
            let unused = 64 - width as u32;
            let value = a << unused >> unused;
            value >> amount.min(63)
        }
        Power => int_power(ty, a, b),
        _ => return None,
    })
}

fn int_power(ty: HloType, base: i64, exponent: i64) -> i64 {
    if ty.is_signed_int() && exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent as u64);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    result
}

/// The place of a float in the total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
pub(crate) fn total_key(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

fn compare(ty: HloType, direction: Direction, total: bool, a: Scalar, b: Scalar) -> Option<bool> {
    use std::cmp::Ordering::*;
    let order = match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) if ty.is_signed_int() => Some(a.cmp(&b)),
        (Scalar::Int(a), Scalar::Int(b)) => Some((a as u64).cmp(&(b as u64))),
        (Scalar::Float(a), Scalar::Float(b)) if total => Some(total_key(a).cmp(&total_key(b))),
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        (Scalar::Complex(a), Scalar::Complex(b)) => {
            return match direction {
                Direction::Eq => Some(a == b),
                Direction::Ne => Some(a != b),
                _ => None,
            };
        }
        _ => return None,
    };
    Some(match direction {
        Direction::Eq => order == Some(Equal),
        Direction::Ne => order != Some(Equal),
        Direction::Lt => order == Some(Less),
        Direction::Le => matches!(order, Some(Less | Equal)),
        Direction::Gt => order == Some(Greater),
        Direction::Ge => matches!(order, Some(Greater | Equal)),
    })
}

/// Conversion between types: floats truncate toward zero and saturate, NaN becomes 0; integers wrap.
pub(crate) fn convert(from: HloType, to: HloType, a: Scalar) -> Scalar {
    match to {
        HloType::C64 | HloType::C128 => match a {
            Scalar::Complex(_) => fit(to, a),
            _ => fit(to, Scalar::Complex([convert(from, HloType::F64, a).float(), 0.0])),
        },
        HloType::Pred => Scalar::Int(
            match a {
                Scalar::Float(f) => f != 0.0,
                other => other.int() != 0,
            }
            .into(),
        ),
        _ if to.is_float() => Scalar::Float(match a {
            Scalar::Int(i) => int_to_float(from, to, i),
            other => round_to(to, other.float()),
        }),
        _ => Scalar::Int(match a {
            Scalar::Float(f) => {
                let (low, high) = crate::hlo::number::int_range(to);
                let whole = if f.is_nan() { 0 } else { f as i128 };
                whole.clamp(low, high) as i64
            }
            other => wrap(to, other.int()),
        }),
    }
}

fn int_to_float(from: HloType, to: HloType, i: i64) -> f64 {
    let magnitude = if from.is_signed_int() { i.unsigned_abs() } else { i as u64 };
    let negative = from.is_signed_int() && i < 0;
    // An `f64` that rounds to odd keeps enough for the second rounding to be right.
    let near = magnitude as f64;
    let wide = if to == HloType::F64 || near as u128 == u128::from(magnitude) {
        near
    } else {
        let down = if near as u128 > u128::from(magnitude) { near.next_down() } else { near };
        f64::from_bits(down.to_bits() | 1)
    };
    round_to(to, if negative { -wide } else { wide })
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloOp::*;
    use HloType::*;

    fn int(op: HloOp, ty: HloType, a: i64, b: i64) -> i64 {
        apply(op, &Attrs::None, ty, ty, &[Scalar::Int(a), Scalar::Int(b)]).map_or(i64::MIN + 7, Scalar::int)
    }

    #[test]
    fn integer_rules() {
        assert_eq!(int(Divide, S32, 7, 0), -1);
        assert_eq!(int(Divide, U32, 7, 0), i64::from(u32::MAX));
        assert_eq!(int(Remainder, S32, 7, 0), 7);
        assert_eq!(int(Divide, S32, i64::from(i32::MIN), -1), i64::from(i32::MIN));
        assert_eq!(int(Remainder, S64, i64::MIN, -1), 0);
        assert_eq!(int(Divide, S32, -7, 2), -3);
        assert_eq!(int(Remainder, S32, -7, 2), -1);
        assert_eq!(int(Add, S8, 127, 1), -128);
        assert_eq!(int(ShiftLeft, S32, 1, 32), 0);
        assert_eq!(int(ShiftRightLogical, S8, -1, 4), 15);
        assert_eq!(int(ShiftRightArithmetic, S8, -128, -1), -1);
        assert_eq!(int(ShiftRightArithmetic, U8, 0x80, 9), 255);
        assert_eq!(int(Maximum, U64, -1, 1), -1);
        assert_eq!(int(Power, S32, 3, 4), 81);
        let one = |op, ty, a| apply(op, &Attrs::None, ty, ty, &[Scalar::Int(a)]).map(Scalar::int);
        assert_eq!(one(CountLeadingZeros, S8, 0), Some(8));
        assert_eq!(one(PopulationCount, S8, -1), Some(8));
        assert_eq!(one(Abs, S8, -128), Some(-128));
    }

    #[test]
    fn conversions() {
        let to_int = |x: f64, ty| convert(F32, ty, Scalar::Float(x)).int();
        assert_eq!(to_int(-1.5, S32), -1);
        assert_eq!(to_int(f64::NAN, S32), 0);
        assert_eq!(to_int(300.0, U8), 255);
        assert_eq!(to_int(-3.0, U32), 0);
        assert_eq!(to_int(1e30, U64), -1);
        assert_eq!(convert(S32, S8, Scalar::Int(300)).int(), 44);
        assert_eq!(convert(F32, Pred, Scalar::Float(f64::NAN)).int(), 1);
        assert_eq!(convert(U64, F32, Scalar::Int(-1)).float(), 18446744073709551616.0);
        assert_eq!(
            convert(S64, F32, Scalar::Int(0x40000040_00000001)).float() as f32,
            0x40000040_00000001i64 as f32
        );
    }

    #[test]
    fn float_rules() {
        let two = |op, a, b| binary_float(op, a, b).unwrap_or(-99.0);
        assert!(two(Maximum, f64::NAN, 1.0).is_nan() && two(Minimum, 1.0, f64::NAN).is_nan());
        assert_eq!(two(Power, 1.0, f64::NAN), 1.0);
        assert_eq!(two(Power, 0.0, 0.0), 1.0);
        assert_eq!(two(Remainder, -5.0, 3.0), -2.0);
        assert!(two(Remainder, 5.0, 0.0).is_nan());
        assert_eq!(two(Remainder, 5.0, f64::INFINITY), 5.0);
        let total = |a, b| compare(F32, Direction::Lt, true, Scalar::Float(a), Scalar::Float(b));
        assert_eq!(total(-f64::NAN, f64::NEG_INFINITY), Some(true));
        assert_eq!(total(-0.0, 0.0), Some(true));
        assert_eq!(total(f64::INFINITY, f64::NAN.abs()), Some(true));
    }
}
