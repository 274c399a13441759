//! Narrow floating-point formats as data: the bits of one element in, its exact `f64` out, and back with
//! round-to-nearest-even. Every real HLO float is exactly representable as `f64`, so `decode` never rounds.
//!
//! What happens beyond a format's range depends on its kind: an IEEE-like format has infinities; the `fn` formats
//! have none and overflow to NaN; `fnuz` formats have one NaN (the bits of -0) and no negative zero; `f4e2m1fn`,
//! `f6e2m3fn` and `f6e3m2fn` have neither NaN nor infinity and saturate; `f8e8m0fnu` is a power of two without a sign. Facts: `spec/hlo.md 4`, `7`.

use murre_components::dtype::HloType;

/// What a format does with the codes above its largest finite value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ieee,
    Fn,
    Fnuz,
    Finite,
}

/// A sign, `exponent` bits and `mantissa` bits.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    kind: Kind,
}

fn format_of(ty: HloType) -> Option<Format> {
    use HloType::*;
    let (exponent, mantissa, bias, kind) = match ty {
        F16 => (5, 10, 15, Kind::Ieee),
        Bf16 => (8, 7, 127, Kind::Ieee),
        F32 => (8, 23, 127, Kind::Ieee),
        F8E5M2 => (5, 2, 15, Kind::Ieee),
        F8E4M3 => (4, 3, 7, Kind::Ieee),
        F8E3M4 => (3, 4, 3, Kind::Ieee),
        F8E4M3Fn => (4, 3, 7, Kind::Fn),
        F8E4M3B11Fnuz => (4, 3, 11, Kind::Fnuz),
        F8E5M2Fnuz => (5, 2, 16, Kind::Fnuz),
        F8E4M3Fnuz => (4, 3, 8, Kind::Fnuz),
        F4E2M1Fn => (2, 1, 1, Kind::Finite),
        F6E2M3Fn => (2, 3, 1, Kind::Finite),
        F6E3M2Fn => (3, 2, 3, Kind::Finite),
        _ => return None,
    };
    Some(Format { exponent, mantissa, bias, kind })
}

/// `2^e` for an exponent of any size that matters here.
fn power_of_two(e: i32) -> f64 {
    if e >= -1022 {
        if e > 1023 { f64::INFINITY } else { f64::from_bits(((e + 1023) as u64) << 52) }
    } else if e >= -1074 {
        f64::from_bits(1u64 << (e + 1074))
    } else {
        0.0
    }
}

impl Format {
    fn decode(self, bits: u64) -> f64 {
        let magnitude_bits = self.exponent + self.mantissa;
        let negative = bits >> magnitude_bits & 1 == 1;
        let magnitude = bits & ((1 << magnitude_bits) - 1);
        let e = magnitude >> self.mantissa;
        let m = magnitude & ((1 << self.mantissa) - 1);
        let top = (1u64 << self.exponent) - 1;
        let sign = if negative { 1u64 << 63 } else { 0 };
        match self.kind {
            Kind::Ieee if e == top && m == 0 => return f64::from_bits(sign | f64::INFINITY.to_bits()),
            Kind::Ieee if e == top => return f64::from_bits(sign | 0x7ff << 52 | m << (52 - self.mantissa)),
            Kind::Fn if magnitude == (1 << magnitude_bits) - 1 => {
                return f64::from_bits(sign | f64::NAN.to_bits());
            }
            Kind::Fnuz if negative && magnitude == 0 => return f64::NAN,
            _ => {}
        }
        let scale = power_of_two(e.max(1) as i32 - self.bias - self.mantissa as i32);
        let whole = if e == 0 { m } else { m | 1 << self.mantissa };
        let value = whole as f64 * scale;
        if negative { -value } else { value }
    }

    fn encode(self, value: f64) -> u64 {
        let magnitude_bits = self.exponent + self.mantissa;
        let bits = value.to_bits();
        let sign = (bits >> 63) << magnitude_bits;
        let top = (1u64 << self.exponent) - 1;
        let (infinity, nan, largest) = match self.kind {
            Kind::Ieee => {
                let payload = (bits & ((1 << 52) - 1)) >> (52 - self.mantissa);
                let quiet = if payload == 0 { 1 << (self.mantissa - 1) } else { payload };
                let infinity = top << self.mantissa;
                (sign | infinity, sign | infinity | quiet, infinity - 1)
            }
            Kind::Fn => {
                let nan = (1u64 << magnitude_bits) - 1;
                (sign | nan, sign | nan, nan - 1)
            }
            Kind::Fnuz => (1 << magnitude_bits, 1 << magnitude_bits, (1 << magnitude_bits) - 1),
            Kind::Finite => {
                let largest = (1u64 << magnitude_bits) - 1;
                (sign | largest, sign | largest, largest)
            }
        };
        if value.is_nan() {
            // A format without NaN gives the zero with the sign bit, as XLA does.
            return if self.kind == Kind::Finite { 1 << magnitude_bits } else { nan };
        }
        if value.is_infinite() {
            return infinity;
        }
        if value == 0.0 {
            return if self.kind == Kind::Fnuz { 0 } else { sign };
        }
        // The exponent of the value, no smaller than that of the smallest normal number.
        let exponent = ((bits >> 52 & 0x7ff) as i32 - 1023).max(1 - self.bias);
        let quantum = exponent - self.mantissa as i32;
        // Scaling by a power of two is exact here: formats reach down to 2^-149, f64 down to 2^-1074.
        let scaled = if quantum < -1000 { 0.0 } else { value.abs() / power_of_two(quantum) };
        let whole = scaled.round_ties_even() as u64;
        // `whole` has `mantissa + 1` bits, or one more when rounding carried; addition carries into the exponent.
        let biased = (exponent + self.bias) as u64;
        let code = if whole < 1 << self.mantissa { whole } else { ((biased - 1) << self.mantissa) + whole };
        match code {
            0 if self.kind == Kind::Fnuz => 0,
            c if c > largest => infinity,
            c => sign | c,
        }
    }
}

/// The exact value of one element; `bits` holds its little-endian bytes. Types that are not floats give NaN.
pub fn decode(ty: HloType, bits: u64) -> f64 {
    match ty {
        HloType::F64 => f64::from_bits(bits),
        HloType::F32 if (bits >> 23) & 0xff != 0xff => f32::from_bits(bits as u32) as f64,
        HloType::F8E8M0Fnu if bits & 0xff == 0xff => f64::NAN,
        HloType::F8E8M0Fnu => power_of_two((bits & 0xff) as i32 - 127),
        other => format_of(other).map_or(f64::NAN, |f| f.decode(bits)),
    }
}

/// The bits of `value` rounded to nearest even in `ty`. Types that are not floats give 0.
pub fn encode(ty: HloType, value: f64) -> u64 {
    match ty {
        HloType::F64 => value.to_bits(),
        HloType::F32 if !value.is_nan() => (value as f32).to_bits() as u64,
        HloType::F8E8M0Fnu => {
            // There is no zero either.
            if value.is_nan() || value <= 0.0 || value.is_infinite() {
                return 0xff;
            }
            let e = libm::log2(value).round_ties_even();
            if e < -127.0 { 0 } else { (e as i64 + 127).min(0xff) as u64 }
        }
        other => format_of(other).map_or(0, |f| f.encode(value)),
    }
}

/// `value` as it reads back after being stored in `ty`.
pub fn round_to(ty: HloType, value: f64) -> f64 {
    match ty {
        HloType::F64 => value,
        HloType::F32 if !value.is_nan() => value as f32 as f64,
        _ => decode(ty, encode(ty, value)),
    }
}

/// `value` with the mantissa and exponent cut to the given widths, as `reduce-precision` does.
pub fn reduce_precision(value: f64, exponent: u32, mantissa: u32) -> f64 {
    if !(1..=11).contains(&exponent) || mantissa > 52 || value.is_nan() {
        return value;
    }
    let bias = (1 << (exponent - 1)) - 1;
    if value == 0.0 || value.is_infinite() {
        return value;
    }
    // A tie goes to the even code: without mantissa bits, to the even exponent.
    let cut = 52 - mantissa;
    let bits = value.to_bits();
    let rounded = match cut {
        0 => value,
        _ => {
            let even = (bits >> cut) & 1;
            f64::from_bits((bits + (1 << (cut - 1)) - 1 + even) & !((1 << cut) - 1))
        }
    };
    let e = (rounded.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    if e > bias {
        return f64::INFINITY.copysign(value);
    }
    if e < 1 - bias {
        return 0f64.copysign(value);
    }
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_every_narrow_format_survives() {
        use HloType::*;
        for ty in [F8E5M2, F8E4M3, F8E3M4, F8E4M3Fn, F8E4M3B11Fnuz, F8E5M2Fnuz, F8E4M3Fnuz] {
            for code in 0..256u64 {
                let value = decode(ty, code);
                if !value.is_nan() {
                    assert_eq!(encode(ty, value), code, "{} {code:#x} {value}", ty.name());
                } else {
                    assert!(decode(ty, encode(ty, value)).is_nan());
                }
            }
        }
        for code in 0..16 {
            assert_eq!(encode(F4E2M1Fn, decode(F4E2M1Fn, code)), code);
        }
        for code in 0..=65535u64 {
            for ty in [F16, Bf16] {
                assert_eq!(encode(ty, decode(ty, code)), code, "{} {code:#x}", ty.name());
            }
        }
    }

    #[test]
    fn agrees_with_the_half_crate() {
        let mut x = 0x9e37_79b9u32;
        for _ in 0..200_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let v = f32::from_bits(x);
            if v.is_nan() {
                continue;
            }
            assert_eq!(encode(HloType::F16, v as f64), half::f16::from_f32(v).to_bits() as u64, "{v}");
            assert_eq!(encode(HloType::Bf16, v as f64), half::bf16::from_f32(v).to_bits() as u64, "{v}");
        }
    }

    #[test]
    fn the_edges_of_each_kind() {
        assert_eq!(encode(HloType::F8E4M3Fn, 464.0), 0x7e, "a tie goes to the even code");
        assert_eq!(encode(HloType::F8E4M3Fn, 465.0), 0x7f, "overflow is NaN");
        assert_eq!(encode(HloType::F8E5M2, 1e9), 0x7c);
        assert_eq!(encode(HloType::F8E4M3Fnuz, -1e-9), 0);
        assert_eq!(encode(HloType::F4E2M1Fn, 100.0), 0x7);
        assert_eq!(reduce_precision(3.15, 8, 4), 3.125);
        assert_eq!(reduce_precision(1e30, 5, 10), f64::INFINITY);
        assert_eq!(
            [3.0, 6.0, 1.5].map(|x| reduce_precision(x, 8, 0)),
            [2.0, 8.0, 2.0],
            "ties without a mantissa"
        );
    }
}
