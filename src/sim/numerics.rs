//! Numbers: casts between element types, the fp32 ALU, bit operations, the exact 32-bit integer band.
//!
//! In and out: element bits by wire tag, fp32 values. Facts: `spec/isa_compute.md 9.1, 9.2, 5.3`. Every cast between
//! different types goes through fp32 and rounds to nearest even.

use half::{bf16, f16};

/// A float of `mantissa` explicit bits in one byte.
struct Small {
    mantissa: u32,
    bias: i32,
    max_bits: u32,
    nan_bits: u8,
}

const E3M4: Small = Small { mantissa: 4, bias: 3, max_bits: 0x6F, nan_bits: 0x7C };
const E4M3: Small = Small { mantissa: 3, bias: 7, max_bits: 0x7E, nan_bits: 0x7F };
const E5M2: Small = Small { mantissa: 2, bias: 15, max_bits: 0x7B, nan_bits: 0x7E };

impl Small {
    fn narrow(&self, v: f32) -> u8 {
        let sign = ((v.to_bits() >> 24) & 0x80) as u8;
        if v.is_nan() {
            return sign | self.nan_bits;
        }
        let a = v.abs() as f64;
        if a.is_infinite() {
            return sign | self.max_bits as u8;
        }
        let least = 1 - self.bias;
        let exponent = (((a.to_bits() >> 52) as i32) - 1023).max(least);
        let steps = (a * 2f64.powi(self.mantissa as i32 - exponent)).round_ties_even();
        // Steps of a normal number include the hidden bit, which adds one to the exponent field below.
        let bits = steps as u64 + (((exponent - least) as u64) << self.mantissa);
        sign | bits.min(self.max_bits as u64) as u8
    }

    fn widen(&self, b: u8) -> f32 {
        let magnitude = (b & 0x7F) as u32;
        let negative = b & 0x80 != 0;
        let exponent = (magnitude >> self.mantissa) as i32;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let value = if magnitude > self.max_bits {
            if fraction == 0 { f32::INFINITY } else { f32::NAN }
        } else if exponent == 0 {
            fraction as f32 * 2f32.powi(1 - self.bias - self.mantissa as i32)
        } else {
            (fraction | 1 << self.mantissa) as f32 * 2f32.powi(exponent - self.bias - self.mantissa as i32)
        };
        if negative { -value } else { value }
    }
}

/// fp32 value of an element's bits.
#[inline]
pub fn widen(tag: u8, bits: u64) -> f32 {
    match tag {
        1 => bits as f32,
        2 => bits as i8 as f32,
        3 => bits as u8 as f32,
        4 => bits as i16 as f32,
        5 => bits as u16 as f32,
        6 => f32::from_bits((bits as u32) << 16),
        7 => f16::from_bits(bits as u16).to_f32(),
        8 => bits as i32 as f32,
        9 => bits as u32 as f32,
        12 => bits as i64 as f32,
        13 => E3M4.widen(bits as u8),
        14 => E4M3.widen(bits as u8),
        15 => E5M2.widen(bits as u8),
        _ => f32::from_bits(bits as u32),
    }
}

/// NaN as an integer: the top of the range, or the bottom when its sign bit is set.
fn whole(v: f32, low: f32) -> f32 {
    match (v.is_nan(), v.is_sign_negative()) {
        (false, _) => v.round_ties_even(),
        (true, false) => f32::INFINITY,
        (true, true) => low,
    }
}

/// fp32 rounded to the 11 mantissa bits of fp32r.
#[inline]
pub fn round_fp32r(v: f32) -> f32 {
    if !v.is_finite() {
        return v;
    }
    let b = v.to_bits();
    f32::from_bits((b + 0x7FF + ((b >> 12) & 1)) & !0xFFF)
}

/// An element's bits from an fp32 value.
#[inline]
pub fn narrow(tag: u8, v: f32) -> u64 {
    const LOW: f32 = f32::NEG_INFINITY;
    match tag {
        1 => whole(v, 0.0) as u64,
        2 => whole(v, LOW) as i8 as u8 as u64,
        3 => whole(v, 0.0) as u8 as u64,
        4 => whole(v, LOW) as i16 as u16 as u64,
        5 => whole(v, 0.0) as u16 as u64,
        6 if v.is_nan() => 0x7FC0,
        6 => bf16::from_f32(v).to_bits() as u64,
        7 if v.is_nan() => 0x7E00,
        7 => f16::from_f32(v).to_bits() as u64,
        8 => whole(v, LOW) as i32 as u32 as u64,
        9 => whole(v, 0.0) as u32 as u64,
        11 => round_fp32r(v).to_bits() as u64,
        12 => whole(v, LOW) as i64 as u64,
        13 => E3M4.narrow(v) as u64,
        14 => E4M3.narrow(v) as u64,
        15 => E5M2.narrow(v) as u64,
        _ => v.to_bits() as u64,
    }
}

/// Casts element bits; the same type is a bit copy.
#[inline]
pub fn cast(from: u8, to: u8, bits: u64) -> u64 {
    if from == to { bits } else { narrow(to, widen(from, bits)) }
}

/// Little-endian element bits.
#[inline]
pub fn load(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, b| v << 8 | *b as u64)
}

/// Appends the fp32 values of packed elements.
pub fn decode_f32(tag: u8, bytes: &[u8], out: &mut Vec<f32>) {
    match tag {
        10 | 11 => out.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
        6 => out.extend(bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32())),
        7 => out.extend(bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32())),
        8 => out.extend(bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b) as f32)),
        9 => out.extend(bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b) as f32)),
        _ => out.extend(bytes.chunks_exact(width(tag)).map(|b| widen(tag, load(b)))),
    }
}

/// Stores fp32 values as packed elements.
pub fn encode_f32(tag: u8, values: &[f32], bytes: &mut [u8]) {
    match tag {
        10 => {
            for (b, v) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                *b = v.to_le_bytes();
            }
        }
        _ => {
            let n = width(tag);
            for (b, v) in bytes.chunks_exact_mut(n).zip(values) {
                b.copy_from_slice(&narrow(tag, *v).to_le_bytes()[..n.min(8)]);
            }
        }
    }
}

/// Bytes of an element; 1 for a tag that is none.
#[inline]
pub fn width(tag: u8) -> usize {
    murre_components::isa::codes::tag_bytes(tag).unwrap_or(1) as usize
}

fn truth(v: bool) -> f32 {
    if v { 1.0 } else { 0.0 }
}

/// The fp32 ALU: `a op b`, rounded once. `None` for an operator it does not have.
#[inline]
pub fn alu(op: u8, a: f32, b: f32) -> Option<f32> {
    let max = |a: f32, b: f32| if a > b { a } else { b };
    let min = |a: f32, b: f32| if a < b { a } else { b };
    Some(match op {
        0x00 => a,
        0x04 => a + b,
        0x05 => a - b,
        0x06 => a * b,
        0x07 => a / b,
        0x08 => max(a, b),
        0x09 => min(a, b),
        0x0D => truth(a != 0.0 && b != 0.0),
        0x0E => truth(a != 0.0 || b != 0.0),
        0x0F => truth((a != 0.0) != (b != 0.0)),
        0x12 => truth(a == b),
        0x13 => truth(a > b),
        0x14 => truth(a >= b),
        0x15 => truth(a <= b),
        0x16 => truth(a < b),
        0x17 => (a - b).abs(),
        0x18 => truth(a != b),
        0x19 => a.abs(),
        0x1A => (a as f64).powf(b as f64) as f32,
        0x1B => a - b * (a / b).floor(),
        0x1D => (1.0 / (a as f64).sqrt()) as f32,
        0x20 => max(a.abs(), b.abs()),
        0x21 => min(a.abs(), b.abs()),
        0x22 => max(a, 0.0),
        0x23 => a * a,
        _ => return None,
    })
}

/// The identity of a folding operator (`spec/isa_compute.md 2.3`).
pub fn identity(op: u8) -> f32 {
    match op {
        0x06 => 1.0,
        0x08 => f32::NEG_INFINITY,
        0x09 => f32::INFINITY,
        _ => 0.0,
    }
}

/// Bit operations on elements of `tag`'s width.
pub fn bitvec(op: u8, tag: u8, a: u64, b: u64) -> Option<u64> {
    let bits = width(tag) as u32 * 8;
    let mask = u64::MAX >> (64 - bits);
    let (a, b) = (a & mask, b & mask);
    let over = b >= bits as u64;
    let n = (b as u32).min(63);
    let signed = ((a << (64 - bits)) as i64) >> (64 - bits);
    let r = match op {
        0x00 => a,
        0x01 => !a,
        0x02 | 0x10 => if over { 0 } else { a << n },
        0x03 => (signed >> if over { bits - 1 } else { n }) as u64,
        0x0A => a & b,
        0x0B => a | b,
        0x0C => a ^ b,
        0x11 => if over { 0 } else { a >> n },
        _ => return None,
    };
    Some(r & mask)
}

/// The integer band on 32 bits: wrapping, divide by zero gives 0.
pub fn int_band(op: u8, a: u32, b: u32) -> Option<u32> {
    let (s, t) = (a as i32, b as i32);
    Some(match op {
        0xC4 => a.wrapping_add(b),
        0xC5 | 0xDB => a.wrapping_mul(b),
        0xC6 => a.wrapping_sub(b),
        0xC7 => if t == 0 { 0 } else { s.wrapping_div(t) as u32 },
        0xC8 => if t == 0 { 0 } else { s.wrapping_rem(t) as u32 },
        0xC9 => (a == b) as u32,
        0xCA => (a != b) as u32,
        0xCB => s.unsigned_abs().max(t.unsigned_abs()),
        0xCC => s.unsigned_abs().min(t.unsigned_abs()),
        0xCD => s.wrapping_sub(t).unsigned_abs(),
        0xCE => s.unsigned_abs(),
        0xCF => s.max(t) as u32,
        0xD0 => s.min(t) as u32,
        0xD1 => (s > t) as u32,
        0xD2 => (s >= t) as u32,
        0xD3 => (s <= t) as u32,
        0xD4 => (s < t) as u32,
        0xD5 => a.max(b),
        0xD6 => a.min(b),
        0xD7 => (a > b) as u32,
        0xD8 => (a >= b) as u32,
        0xD9 => (a <= b) as u32,
        0xDA => (a < b) as u32,
        0xDC => a.checked_div(b).unwrap_or(0),
        0xDD => a.checked_rem(b).unwrap_or(0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_of_the_specification() {
        let cases = [
            (8, 2.5, 2u64),
            (8, 3.5, 4),
            (3, 300.0, 255),
            (3, -1.0, 0),
            (2, f32::NAN, 127),
            (2, -f32::NAN, 0x80),
            (6, 1.0 + 2f32.powi(-8), 0x3F80),
            (6, 1.0 + 3.0 * 2f32.powi(-8), 0x3F82),
            (14, 500.0, 0x7E),
            (14, 1.0, 0x38),
            (14, f32::NAN, 0x7F),
            (14, 2f32.powi(-9), 0x01),
            (14, 2f32.powi(-11), 0x00),
            (15, 1e9, 0x7B),
            (15, 1.0, 0x3C),
            (13, 100.0, 0x6F),
            (13, 1.0, 0x30),
            (7, 1e6, 0x7C00),
            (9, f32::INFINITY, 0xFFFF_FFFF),
        ];
        for (tag, v, bits) in cases {
            assert_eq!(narrow(tag, v), bits, "tag {tag} of {v}");
        }
        assert_eq!(cast(8, 9, 16_777_217), 16_777_216);
        assert_eq!(cast(8, 8, 16_777_217), 16_777_217);
    }

    #[test]
    fn every_byte_float_survives_widen_and_narrow() {
        for tag in [13, 14, 15] {
            for b in 0..=255u64 {
                let v = widen(tag, b);
                if v.is_finite() {
                    assert_eq!(narrow(tag, v), b, "tag {tag} byte {b:02x} = {v}");
                }
            }
        }
    }

    #[test]
    fn operators() {
        assert_eq!(alu(0x08, f32::NAN, 2.0), Some(2.0));
        assert_eq!(alu(0x1B, -3.0, 2.0), Some(1.0));
        assert_eq!(bitvec(0x03, 8, 0x8000_0000, 40), Some(0xFFFF_FFFF));
        assert_eq!(bitvec(0x01, 3, 0x0F, 0), Some(0xF0));
        assert_eq!(int_band(0xC4, 0x7FFF_FFFF, 1), Some(0x8000_0000));
        assert_eq!(int_band(0xC7, 5, 0), Some(0));
        assert_eq!(alu(0x99, 0.0, 0.0), None);
    }
}
