//! The number rules of HLO, each in one place: a function on lanes for every elementwise operation. Arrays and the
//! computations that reductions, sorts and scatters call per element all take them from here.
//!
//! Floats are computed in `f64` with the pure-Rust `libm` (the same bits on every machine); the caller rounds or wraps
//! the result to its type. Facts: floats and integers in `spec/hlo.md 7`.

use super::lanes::wrap;
use murre_components::dtype::HloType;
use murre_components::hlo::{Direction, HloOp};

/// An elementwise operation with the attributes that change its meaning.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Rule {
    Plain(HloOp),
    Compare { direction: Direction, total: bool },
    Precision { exponent: u32, mantissa: u32 },
}

pub(crate) type Float1 = fn(f64) -> f64;
pub(crate) type Float2 = fn(f64, f64) -> f64;
pub(crate) type Int1 = fn(i64) -> i64;
pub(crate) type Int2 = fn(i64, i64) -> i64;
pub(crate) type Complex1 = fn([f64; 2]) -> [f64; 2];
pub(crate) type Complex2 = fn([f64; 2], [f64; 2]) -> [f64; 2];

/// Float to float.
pub(crate) fn float_unary(op: HloOp) -> Option<Float1> {
    use HloOp::*;
    Some(match op {
        Abs => f64::abs,
        Negate => |x| -x,
        Ceil => f64::ceil,
        Floor => f64::floor,
        RoundNearestAfz => f64::round,
        RoundNearestEven => f64::round_ties_even,
        Sign => |x| if x.is_nan() || x == 0.0 { x } else { 1f64.copysign(x) },
        Sqrt => f64::sqrt,
        Rsqrt => |x| 1.0 / x.sqrt(),
        Cbrt => libm::cbrt,
        Exponential => libm::exp,
        ExponentialMinusOne => libm::expm1,
        Log => libm::log,
        LogPlusOne => libm::log1p,
        Logistic => |x| 1.0 / (1.0 + libm::exp(-x)),
        Sine => libm::sin,
        Cosine => libm::cos,
        Tan => libm::tan,
        Tanh => libm::tanh,
        Erf => libm::erf,
        Real | Copy => |x| x,
        Imag => |_| 0.0,
        other => return function_named(other.name()),
    })
}

/// A function of one float by the name that operations and custom-call targets give it.
pub(crate) fn function_named(name: &str) -> Option<Float1> {
    Some(match name {
        "acos" => libm::acos,
        // libm computes on where there is no value.
        "acosh" => |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) },
        "asin" => libm::asin,
        "asinh" => libm::asinh,
        "atan" => libm::atan,
        "atanh" => libm::atanh,
        "cosh" => libm::cosh,
        "erf" => libm::erf,
        "erfc" => libm::erfc,
        "lgamma" => libm::lgamma,
        "sinh" => libm::sinh,
        "tan" => libm::tan,
        _ => return None,
    })
}

/// The larger of two, NaN before anything else, +0 above -0.
pub(crate) fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b {
        a
    } else if a == b {
        if a.is_sign_negative() { b } else { a }
    } else {
        b
    }
}

/// The smaller of two, NaN before anything else, -0 below +0.
pub(crate) fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b {
        a
    } else if a == b {
        if a.is_sign_negative() { a } else { b }
    } else {
        b
    }
}

/// Two floats to one.
pub(crate) fn float_binary(op: HloOp) -> Option<Float2> {
    use HloOp::*;
    Some(match op {
        Add => |a, b| a + b,
        Subtract => |a, b| a - b,
        Multiply => |a, b| a * b,
        Divide => |a, b| a / b,
        Remainder => libm::fmod,
        Power => libm::pow,
        Atan2 => libm::atan2,
        Maximum => maximum,
        Minimum => minimum,
        _ => return None,
    })
}

/// Integer (or pred) to the same type.
pub(crate) fn int_unary(op: HloOp, ty: HloType) -> Option<Int1> {
    use HloOp::*;
    let signed = ty.is_signed_int();
    Some(match op {
        Abs if signed => i64::wrapping_abs,
        Abs | Real | Copy => |x| x,
        Imag => |_| 0,
        Negate => i64::wrapping_neg,
        Sign if signed => i64::signum,
        Sign => |x| i64::from(x != 0),
        Not if ty == HloType::Pred => |x| i64::from(x == 0),
        Not => |x| !x,
        PopulationCount => match ty.bits() {
            1 => |x| bits::<1>(x).count_ones().into(),
            2 => |x| bits::<2>(x).count_ones().into(),
            4 => |x| bits::<4>(x).count_ones().into(),
            8 => |x| bits::<8>(x).count_ones().into(),
            16 => |x| bits::<16>(x).count_ones().into(),
            32 => |x| bits::<32>(x).count_ones().into(),
            _ => |x| x.count_ones().into(),
        },
        CountLeadingZeros => match ty.bits() {
            1 => |x| i64::from(bits::<1>(x).leading_zeros()) - 63,
            2 => |x| i64::from(bits::<2>(x).leading_zeros()) - 62,
            4 => |x| i64::from(bits::<4>(x).leading_zeros()) - 60,
            8 => |x| i64::from(bits::<8>(x).leading_zeros()) - 56,
            16 => |x| i64::from(bits::<16>(x).leading_zeros()) - 48,
            32 => |x| i64::from(bits::<32>(x).leading_zeros()) - 32,
            _ => |x| x.leading_zeros().into(),
        },
        _ => return None,
    })
}

/// The bits of an integer within its width.
fn bits<const WIDTH: u32>(x: i64) -> u64 {
    (x as u64) << (64 - WIDTH) >> (64 - WIDTH)
}

/// Shifts in a type of `WIDTH` bits; an amount is read as unsigned, so that a negative one is a huge one.
struct Shift<const WIDTH: u32>;

impl<const WIDTH: u32> Shift<WIDTH> {
    fn left(a: i64, b: i64) -> i64 {
        let amount = bits::<WIDTH>(b);
        if amount >= u64::from(WIDTH) { 0 } else { a << amount }
    }

    fn logical(a: i64, b: i64) -> i64 {
        let amount = bits::<WIDTH>(b);
        if amount >= u64::from(WIDTH) { 0 } else { (bits::<WIDTH>(a) >> amount) as i64 }
    }

    fn arithmetic(a: i64, b: i64) -> i64 {
        let value = a << (64 - WIDTH) >> (64 - WIDTH);
        value >> bits::<WIDTH>(b).min(63)
    }

    fn of(op: HloOp) -> Int2 {
        match op {
            HloOp::ShiftLeft => Self::left,
            HloOp::ShiftRightLogical => Self::logical,
            _ => Self::arithmetic,
        }
    }
}

/// Two integers (or preds) of one type to one.
pub(crate) fn int_binary(op: HloOp, ty: HloType) -> Option<Int2> {
    use HloOp::*;
    if ty == HloType::Pred {
        return Some(match op {
            Add | Or | Maximum => |a, b| a | b,
            Multiply | And | Minimum => |a, b| a & b,
            Xor => |a, b| a ^ b,
            _ => return None,
        });
    }
    let signed = ty.is_signed_int();
    Some(match op {
        Add => i64::wrapping_add,
        Subtract => i64::wrapping_sub,
        Multiply => i64::wrapping_mul,
        Divide if signed => |a, b| if b == 0 { -1 } else { a.wrapping_div(b) },
        Divide => |a, b| (a as u64).checked_div(b as u64).map_or(-1, |q| q as i64),
        Remainder if signed => |a, b| if b == 0 { a } else { a.wrapping_rem(b) },
        Remainder => |a, b| (a as u64).checked_rem(b as u64).map_or(a, |r| r as i64),
        Maximum if signed => |a, b| a.max(b),
        Maximum => |a, b| (a as u64).max(b as u64) as i64,
        Minimum if signed => |a, b| a.min(b),
        Minimum => |a, b| (a as u64).min(b as u64) as i64,
        And => |a, b| a & b,
        Or => |a, b| a | b,
        Xor => |a, b| a ^ b,
        ShiftLeft | ShiftRightLogical | ShiftRightArithmetic => match ty.bits() {
            1 => Shift::<1>::of(op),
            2 => Shift::<2>::of(op),
            4 => Shift::<4>::of(op),
            8 => Shift::<8>::of(op),
            16 => Shift::<16>::of(op),
            32 => Shift::<32>::of(op),
            _ => Shift::<64>::of(op),
        },
        Power if signed => |a, b| if b < 0 { inverse_power(a, b) } else { whole_power(a, b as u64) },
        Power => |a, b| whole_power(a, b as u64),
        _ => return None,
    })
}

/// A negative power of a signed integer: the reciprocal, truncated.
fn inverse_power(base: i64, exponent: i64) -> i64 {
    match (base, exponent % 2) {
        (1, _) | (-1, 0) => 1,
        (-1, _) => -1,
        _ => 0,
    }
}

fn whole_power(base: i64, mut exponent: u64) -> i64 {
    let (mut result, mut square) = (1i64, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent >>= 1;
    }
    result
}

/// The place of a float in the total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
pub(crate) fn total_key(x: f64) -> i64 {
    let bits = x.to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The lane of an integer with its order made that of `i64`.
pub(crate) fn order_key(ty: HloType, x: i64) -> i64 {
    if ty == HloType::U64 { x ^ i64::MIN } else { x }
}

/// A comparison of floats; of NaNs only `NE` is true.
pub(crate) fn float_compare(direction: Direction, total: bool) -> fn(f64, f64) -> bool {
    use Direction::*;
    match (direction, total) {
        (Eq, false) => |a, b| a == b,
        (Ne, false) => |a, b| a != b,
        (Lt, false) => |a, b| a < b,
        (Le, false) => |a, b| a <= b,
        (Gt, false) => |a, b| a > b,
        (Ge, false) => |a, b| a >= b,
        (Eq, true) => |a, b| total_key(a) == total_key(b),
        (Ne, true) => |a, b| total_key(a) != total_key(b),
        (Lt, true) => |a, b| total_key(a) < total_key(b),
        (Le, true) => |a, b| total_key(a) <= total_key(b),
        (Gt, true) => |a, b| total_key(a) > total_key(b),
        (Ge, true) => |a, b| total_key(a) >= total_key(b),
    }
}

/// A comparison of integers.
pub(crate) fn int_compare(direction: Direction, ty: HloType) -> fn(i64, i64) -> bool {
    use Direction::*;
    match (direction, ty == HloType::U64) {
        (Eq, _) => |a, b| a == b,
        (Ne, _) => |a, b| a != b,
        (Lt, false) => |a, b| a < b,
        (Le, false) => |a, b| a <= b,
        (Gt, false) => |a, b| a > b,
        (Ge, false) => |a, b| a >= b,
        (Lt, true) => |a, b| (a as u64) < b as u64,
        (Le, true) => |a, b| (a as u64) <= b as u64,
        (Gt, true) => |a, b| (a as u64) > b as u64,
        (Ge, true) => |a, b| (a as u64) >= b as u64,
    }
}

/// An integer of type `from` as an `f64` from which any float type rounds right.
pub(crate) fn int_to_float(from: HloType, to: HloType, i: i64) -> f64 {
    let magnitude = if from.is_signed_int() { i.unsigned_abs() } else { i as u64 };
    let negative = from.is_signed_int() && i < 0;
    // An `f64` that rounds to odd keeps enough for the second rounding to be right.
    let near = magnitude as f64;
    let wide = if to == HloType::F64 || magnitude < 1 << 53 || near as u128 == u128::from(magnitude) {
        near
    } else {
        let down = if near as u128 > u128::from(magnitude) { near.next_down() } else { near };
        f64::from_bits(down.to_bits() | 1)
    };
    if negative { -wide } else { wide }
}

/// A float as an integer: truncated toward zero, saturated; NaN is 0. To pred it is `x != 0`.
pub(crate) fn float_to_int(to: HloType, x: f64) -> i64 {
    match to {
        HloType::Pred => i64::from(x != 0.0),
        HloType::U64 => x as u64 as i64,
        HloType::S64 => x as i64,
        narrow => {
            let (low, high) = crate::hlo::number::int_range(narrow);
            (x as i64).clamp(low as i64, high as i64)
        }
    }
}

/// A float as an integer, rounded away from zero when a random word is below the fraction, which is read as a word of as
/// many bits. As XLA expands it.
pub(crate) fn stochastic(x: f64, random: u64, bits: u32, to: HloType) -> i64 {
    let (size, whole) = (x.abs(), x.abs().trunc());
    // Both are exact: a fraction has no more digits than its number.
    let threshold = (size - whole) * (bits as f64).exp2();
    let up = size.is_finite() && u128::from(random) < threshold as u128;
    float_to_int(to, (whole + if up { 1.0 } else { 0.0 }).copysign(x))
}

/// An integer in another integer type: wrapped, or for pred `x != 0`.
pub(crate) fn int_to_int(to: HloType, x: i64) -> i64 {
    wrap(to, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloOp::*;
    use HloType::*;

    fn int(op: HloOp, ty: HloType, a: i64, b: i64) -> i64 {
        int_binary(op, ty).map_or(-99, |f| wrap(ty, f(a, b)))
    }

    #[test]
    fn integer_rules() {
        assert_eq!(int(Add, S8, 127, 1), -128);
        assert_eq!(int(Subtract, U8, 0, 1), 255);
        assert_eq!(int(Divide, S32, 7, 0), -1);
        assert_eq!(int(Divide, U8, 7, 0), 255);
        assert_eq!(int(Divide, S32, i64::from(i32::MIN), -1), i64::from(i32::MIN));
        assert_eq!(int(Divide, S64, i64::MIN, -1), i64::MIN);
        assert_eq!(int(Remainder, S32, i64::from(i32::MIN), -1), 0);
        assert_eq!(int(Remainder, S32, -7, 3), -1);
        assert_eq!(int(Remainder, S32, 7, 0), 7);
        assert_eq!(int(Remainder, U64, -1, 0), -1);
        assert_eq!(int(ShiftLeft, S32, 1, 32), 0);
        assert_eq!(int(ShiftLeft, U8, 0x81, 1), 2);
        assert_eq!(int(ShiftRightLogical, S8, -1, 4), 15);
        assert_eq!(int(ShiftRightArithmetic, S8, -128, 200), -1);
        assert_eq!(int(ShiftRightArithmetic, S32, -8, -1), -1);
        assert_eq!(int(ShiftRightArithmetic, U8, 0x80, 1), 0xc0);
        assert_eq!(int(Maximum, U64, -1, 1), -1);
        assert_eq!(int(Power, S32, 3, 4), 81);
        assert_eq!(int(Power, S32, -1, -3), -1);
        assert_eq!(int(Power, S32, 2, -1), 0);
        assert_eq!(int(Add, Pred, 1, 1), 1);
        let one = |op, ty, a| int_unary(op, ty).map_or(-99, |f| wrap(ty, f(a)));
        assert_eq!(one(CountLeadingZeros, S8, 0), 8);
        assert_eq!(one(CountLeadingZeros, S4, 1), 3);
        assert_eq!(one(PopulationCount, S8, -1), 8);
        assert_eq!(one(Abs, S8, -128), -128);
        assert_eq!(one(Not, Pred, 1), 0);
        assert_eq!(one(Not, U8, 1), 254);
    }

    #[test]
    fn conversions() {
        assert_eq!(float_to_int(S32, -1.5), -1);
        assert_eq!(float_to_int(S32, f64::NAN), 0);
        assert_eq!(float_to_int(U8, 300.0), 255);
        assert_eq!(float_to_int(U32, -3.0), 0);
        assert_eq!(float_to_int(U64, 1e30), -1);
        assert_eq!(float_to_int(S4, -100.0), -8);
        assert_eq!(float_to_int(Pred, f64::NAN), 1);
        assert_eq!(int_to_int(S8, 300), 44);
        let dice = |x, random| stochastic(x, random, 32, S8);
        assert_eq!((dice(1.25, 0), dice(2.5, 0x3fff_ffff), dice(2.5, 0x8000_0000)), (2, 3, 2));
        assert_eq!((dice(-1.75, 0x4000_0000), dice(300.0, 5), dice(f64::NAN, 5)), (-2, 127, 0));
        assert_eq!(int_to_float(U64, F32, -1) as f32, 18446744073709551616.0);
        assert_eq!(int_to_float(S64, F32, 0x40000040_00000001) as f32, 0x40000040_00000001i64 as f32);
    }

    #[test]
    fn float_rules() {
        let two = |op, a, b| float_binary(op).map_or(-99.0, |f| f(a, b));
        assert!(two(Maximum, f64::NAN, 1.0).is_nan() && two(Minimum, 1.0, f64::NAN).is_nan());
        assert!(two(Maximum, -0.0, 0.0).is_sign_positive() && two(Minimum, 0.0, -0.0).is_sign_negative());
        assert_eq!(two(Power, 1.0, f64::NAN), 1.0);
        assert_eq!(two(Power, 0.0, 0.0), 1.0);
        assert_eq!(two(Remainder, -5.0, 3.0), -2.0);
        assert!(two(Remainder, 5.0, 0.0).is_nan());
        assert_eq!(two(Remainder, 5.0, f64::INFINITY), 5.0);
        let total = float_compare(Direction::Lt, true);
        assert!(total(-f64::NAN, f64::NEG_INFINITY) && total(-0.0, 0.0) && total(f64::INFINITY, f64::NAN));
        let plain = |d| float_compare(d, false)(f64::NAN, f64::NAN);
        assert!(plain(Direction::Ne) && !plain(Direction::Eq) && !plain(Direction::Ge));
        assert!(int_compare(Direction::Gt, U64)(-1, 1) && !int_compare(Direction::Gt, S64)(-1, 1));
    }
}
