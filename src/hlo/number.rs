//! Numbers of a constant: the text of one element in, its little-endian bytes out, and back.
//!
//! Reading refuses what the type cannot hold (`s8[] constant(200)`); a float rounds to nearest. Writing gives the
//! shortest text that reads back to the same bits, NaN payloads included. Facts: `spec/hlo.md 4`.

use crate::array::float;
use murre_components::dtype::HloType;

/// Why a text is no element of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberFault {
    /// Not a number of this kind at all.
    Malformed,
    /// A number outside the type's range.
    Range,
}

/// Smallest and largest value of an integer type.
pub fn int_range(ty: HloType) -> (i128, i128) {
    let bits = ty.bits().clamp(1, 64);
    if ty.is_signed_int() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The bytes of one real element; `payload` is the text in `nan(...)`.
pub fn parse_element(ty: HloType, text: &str, payload: Option<&str>) -> Result<u64, NumberFault> {
    if ty == HloType::Pred {
        return match text {
            "true" | "1" => Ok(1),
            "false" | "0" => Ok(0),
            // Any other integer counts as true.
            number => number.parse::<i64>().map(|n| u64::from(n != 0)).map_err(|_| NumberFault::Malformed),
        };
    }
    if ty.is_int() {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NumberFault::Malformed);
        }
        let value: i128 = text.parse().map_err(|_| NumberFault::Range)?;
        let (low, high) = int_range(ty);
        // Sub-byte types are stored sign- or zero-extended in one byte.
        return if (low..=high).contains(&value) { Ok(value as u64) } else { Err(NumberFault::Range) };
    }
    if !ty.is_float() {
        return Err(NumberFault::Malformed);
    }
    let (negative, magnitude) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    if magnitude == "nan" {
        return parse_nan(ty, negative, payload);
    }
    // What looks like an integer must be one that 64 bits hold.
    if magnitude.bytes().all(|b| b.is_ascii_digit()) && magnitude.parse::<u64>().is_err() {
        return Err(NumberFault::Range);
    }
    let value = match magnitude {
        "inf" => f64::INFINITY,
        _ if !magnitude.starts_with(|c: char| c.is_ascii_digit()) => return Err(NumberFault::Malformed),
        _ => magnitude.parse::<f64>().map_err(|_| NumberFault::Malformed)?,
    };
    let signed = if negative { -value } else { value };
    if ty == HloType::F32 && value.is_finite() {
        // Straight to f32: going through f64 could round twice.
        let single: f32 = text.parse().map_err(|_| NumberFault::Malformed)?;
        return if single.is_finite() { Ok(single.to_bits() as u64) } else { Err(NumberFault::Range) };
    }
    if ty == HloType::F8E8M0Fnu && value < 2f64.powi(-127) {
        return Err(NumberFault::Range);
    }
    // Formats without infinities hold nothing beyond their largest value.
    if value.is_finite() && value > float::decode(ty, float::encode(ty, f64::INFINITY)).abs() {
        return Err(NumberFault::Range);
    }
    let bits = float::encode(ty, signed);
    let stored = float::decode(ty, bits);
    let lost = magnitude != "inf" && !value.is_finite() || value.is_finite() && !stored.is_finite();
    if lost || stored.is_finite() != value.is_finite() || negative && stored > 0.0 {
        return Err(NumberFault::Range);
    }
    Ok(bits)
}

fn mantissa_bits(ty: HloType) -> u32 {
    use HloType::*;
    match ty {
        F64 => 52,
        F32 => 23,
        F16 => 10,
        Bf16 => 7,
        F8E5M2 => 2,
        F8E4M3 => 3,
        F8E3M4 => 4,
        _ => 0,
    }
}

fn parse_nan(ty: HloType, negative: bool, payload: Option<&str>) -> Result<u64, NumberFault> {
    let sign = if negative { -1.0 } else { 1.0 };
    let bits = float::encode(ty, f64::NAN.copysign(sign));
    if !float::decode(ty, bits).is_nan() {
        return Err(NumberFault::Range);
    }
    let Some(payload) = payload else { return Ok(bits) };
    let digits = payload.strip_prefix("0x").ok_or(NumberFault::Malformed)?;
    let payload = u64::from_str_radix(digits, 16).map_err(|_| NumberFault::Malformed)?;
    let mask = (1u64 << mantissa_bits(ty)) - 1;
    if payload == 0 || payload > mask { Err(NumberFault::Range) } else { Ok(bits & !mask | payload) }
}

/// The text of one element, from its bits.
pub fn format_element(ty: HloType, bits: u64) -> String {
    if ty == HloType::Pred {
        return if bits != 0 { "true" } else { "false" }.to_owned();
    }
    if ty.is_int() {
        let unused = 64 - ty.bits().clamp(1, 64);
        return if ty.is_signed_int() {
            ((bits << unused) as i64 >> unused).to_string()
        } else {
            (bits << unused >> unused).to_string()
        };
    }
    let value = float::decode(ty, bits);
    if value.is_nan() {
        let mantissa = mantissa_bits(ty);
        let payload = bits & ((1u64 << mantissa) - 1);
        let negative = ty.bits() > 0 && bits >> (ty.bits() - 1) & 1 == 1;
        let sign = if negative && (mantissa > 0 || ty == HloType::F8E4M3Fn) { "-" } else { "" };
        let quiet = if mantissa == 0 { 0 } else { 1 << (mantissa - 1) };
        return if payload == quiet { format!("{sign}nan") } else { format!("{sign}nan(0x{payload:x})") };
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    match ty {
        HloType::F32 => shortest(value, (value as f32).to_string(), format!("{:e}", value as f32)),
        _ => shortest(value, value.to_string(), format!("{value:e}")),
    }
}

/// The shorter of the plain and the exponent form; both read back to the same value.
fn shortest(value: f64, plain: String, exponent: String) -> String {
    // A large integer without an exponent would read as an integer of 64 bits.
    if value == 0.0 || plain.len() <= exponent.len() && value.abs() < 1e18 { plain } else { exponent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloType::*;

    #[test]
    fn ranges_and_kinds() {
        assert_eq!(parse_element(S8, "-128", None), Ok(-128i64 as u64));
        assert_eq!(parse_element(S8, "200", None), Err(NumberFault::Range));
        assert_eq!(parse_element(U64, "18446744073709551615", None), Ok(u64::MAX));
        assert_eq!(parse_element(S32, "1.5", None), Err(NumberFault::Malformed));
        assert_eq!(parse_element(F16, "70000", None), Err(NumberFault::Range));
        assert_eq!(parse_element(F16, "65504", None), Ok(0x7bff));
        assert_eq!(parse_element(F32, "1e39", None), Err(NumberFault::Range));
        assert_eq!(parse_element(F32, "5.", None), Ok(5f32.to_bits() as u64));
        assert_eq!(parse_element(F32, "0x10", None), Err(NumberFault::Malformed));
        assert_eq!(parse_element(F32, "nan", Some("0x1")), Ok(0x7f80_0001));
        assert_eq!(parse_element(F16, "nan", Some("0x400")), Err(NumberFault::Range));
        assert_eq!(parse_element(F64, "1e999", None), Err(NumberFault::Range));
    }

    #[test]
    fn what_is_written_reads_back() {
        for ty in [F8E5M2, F8E4M3Fn, F8E4M3, F8E3M4, F8E5M2Fnuz, F16, Bf16] {
            for bits in 0..(1u64 << ty.bits()) {
                let text = format_element(ty, bits);
                let (word, payload) = match text.split_once('(') {
                    Some((w, p)) => (w, Some(p.trim_end_matches(')'))),
                    None => (text.as_str(), None),
                };
                let back = parse_element(ty, word, payload).unwrap_or(u64::MAX);
                if float::decode(ty, bits).is_nan() && mantissa_bits(ty) == 0 {
                    assert!(float::decode(ty, back).is_nan());
                } else {
                    assert_eq!(back, bits, "{} {text}", ty.name());
                }
            }
        }
        for value in [0.1f32, -0.0, 1e-38, f32::MAX, 3.0, 1e20] {
            let bits = value.to_bits() as u64;
            assert_eq!(parse_element(F32, &format_element(F32, bits), None), Ok(bits));
        }
    }
}
