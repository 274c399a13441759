//! Conversions between pairs of words and floats, each rounded once. In: a pair of u32 arrays or a float array. Out: the
//! other. Facts: `spec/hlo.md 7`.
//!
//! An integer is shifted up until its first set bit is at the top; the top word, with a last bit that says whether
//! anything is below, rounds as the whole number does, and a power of two scales it back.

use super::Split;
use super::value::Pair;
use murre_components::dtype::HloType;
use murre_components::hlo::Direction::{Eq, Ge, Gt, Lt, Ne};
use murre_components::hlo::HloOp;
use murre_components::ids::HloId;

impl Split<'_> {
    /// A 64-bit integer as a float of type `ty`.
    pub fn pair_to_float(&mut self, a: Pair, signed: bool, ty: HloType) -> HloId {
        let (magnitude, negative) = if signed { self.pair_magnitude(a) } else { (a, HloId::NONE) };
        let zeros = self.pair_leading_zeros(magnitude);
        let top = self.pair_shift(HloOp::ShiftLeft, magnitude, zeros);
        let below = self.compare_with(Ne, top.lo, 0);
        let mut sticky = self.flag(below);
        let mut digits = top.hi;
        let mut shift = 32;
        if ty != HloType::F32 {
            // 16 digits and the sticky one are exact in f32, so that what follows rounds the only time.
            let lost = self.with(HloOp::And, digits, 0xffff);
            let lost = self.compare_with(Ne, lost, 0);
            let lost = self.flag(lost);
            sticky = self.two(HloOp::Or, sticky, lost);
            digits = self.with(HloOp::ShiftRightLogical, digits, 15);
            digits = self.with(HloOp::And, digits, 0x1fffe);
            shift = 32 + 15;
        }
        let digits = self.two(HloOp::Or, digits, sticky);
        let rounded = self.convert(digits, HloType::F32);
        // 2^(shift - zeros): the exponent is in the range of normal numbers.
        let exponent = self.word(zeros, 127 + shift);
        let exponent = self.two(HloOp::Subtract, exponent, zeros);
        let exponent = self.with(HloOp::ShiftLeft, exponent, 23);
        let scale = self.bits_as(exponent, HloType::F32);
        let mut value = self.two(HloOp::Multiply, rounded, scale);
        if signed {
            let opposite = self.one(HloOp::Negate, value);
            value = self.select(negative, opposite, value);
        }
        self.convert(value, ty)
    }

    /// A float as a 64-bit integer: truncated, saturated, 0 for NaN.
    pub fn float_to_pair(&mut self, x: HloId, signed: bool) -> Pair {
        let x = self.convert(x, HloType::F32);
        let bits = self.bits_as(x, HloType::U32);
        let negative = self.compare_with(Ge, bits, 1 << 31);
        let magnitude = self.with(HloOp::And, bits, 0x7fff_ffff);
        let exponent = self.with(HloOp::ShiftRightLogical, magnitude, 23);
        let digits = self.with(HloOp::And, bits, 0x7f_ffff);
        let digits = self.with(HloOp::Or, digits, 0x80_0000);
        // digits * 2^(exponent - 150): to the left, or to the right, where amounts that wrapped give 0.
        let whole = self.word(x, 150);
        let left = self.two(HloOp::Subtract, exponent, whole);
        let right = self.two(HloOp::Subtract, whole, exponent);
        let large = self.compare_with(Ge, exponent, 150);
        let small = self.two(HloOp::ShiftRightLogical, digits, right);
        let zero = self.word(x, 0);
        let moved = self.pair_shift(HloOp::ShiftLeft, Pair { lo: digits, hi: zero }, left);
        let moved = self.pair_select(large, moved, Pair { lo: small, hi: zero });
        let none = self.pair_splat(x, 0);
        let nan = self.compare_with(Gt, magnitude, 0x7f80_0000);
        let limit = 127 + if signed { 63 } else { 64 };
        let over = self.compare_with(Ge, exponent, limit);
        let result = if signed {
            let most = self.pair_splat(x, i64::MAX as u64);
            let moved = self.pair_negate_if(negative, moved);
            let least = self.pair_splat(x, i64::MIN as u64);
            let end = self.pair_select(negative, least, most);
            self.pair_select(over, end, moved)
        } else {
            let most = self.pair_splat(x, u64::MAX);
            let moved = self.pair_select(over, most, moved);
            self.pair_select(negative, none, moved)
        };
        self.pair_select(nan, none, result)
    }

    /// The bits of an f64 as f32, subnormals too: rounded to nearest, ties to even, or `odd`: towards zero with the last
    /// digit set when anything was lost, for a second rounding to a narrower type.
    pub fn double_to_float(&mut self, a: Pair, odd: bool) -> HloId {
        let sign = self.with(HloOp::And, a.hi, 1 << 31);
        let exponent = self.with(HloOp::ShiftRightLogical, a.hi, 20);
        let exponent = self.with(HloOp::And, exponent, 0x7ff);
        // The first 32 digits, the last of them sticky.
        let high = self.with(HloOp::And, a.hi, 0xf_ffff);
        let high = self.with(HloOp::Or, high, 0x10_0000);
        let high = self.with(HloOp::ShiftLeft, high, 11);
        let low = self.with(HloOp::ShiftRightLogical, a.lo, 21);
        let digits = self.two(HloOp::Or, high, low);
        let rest = self.with(HloOp::And, a.lo, 0x1f_ffff);
        let rest = self.compare_with(Ne, rest, 0);
        let rest = self.flag(rest);
        let digits = self.two(HloOp::Or, digits, rest);
        // Of a normal result 8 digits go, of a subnormal one as many more as its exponent is too small.
        let normal = self.compare_with(Ge, exponent, 897);
        let by = self.word(a.lo, 905);
        let by = self.two(HloOp::Subtract, by, exponent);
        let eight = self.word(a.lo, 8);
        let by = self.select(normal, eight, by);
        let kept = self.two(HloOp::ShiftRightLogical, digits, by);
        let word = self.word(a.lo, 32);
        let back = self.two(HloOp::Subtract, word, by);
        let gone = self.two(HloOp::ShiftLeft, digits, back);
        let above = self.compare_with(Gt, gone, 1 << 31);
        let tie = self.compare_with(Eq, gone, 1 << 31);
        let last = self.with(HloOp::And, kept, 1);
        let set = self.compare_with(Ne, last, 0);
        let up = if odd {
            let lost = self.compare_with(Ne, gone, 0);
            let clear = self.compare_with(Eq, last, 0);
            self.two(HloOp::And, lost, clear)
        } else {
            let tie = self.two(HloOp::And, tie, set);
            self.two(HloOp::Or, above, tie)
        };
        let up = self.flag(up);
        let base = self.word(a.lo, 897);
        let base = self.two(HloOp::Subtract, exponent, base);
        let base = self.with(HloOp::ShiftLeft, base, 23);
        let zero = self.word(a.lo, 0);
        let base = self.select(normal, base, zero);
        let finite = self.two(HloOp::Add, base, kept);
        let finite = self.two(HloOp::Add, finite, up);
        // From here on: infinity, or NaN with its payload.
        let over = self.compare_with(Ge, exponent, 896 + 255);
        let infinity = self.word(a.lo, 0x7f80_0000);
        let finite = self.select(over, infinity, finite);
        let magnitude = self.with(HloOp::And, a.hi, 0x7fff_ffff);
        let above = self.compare_with(Gt, magnitude, 0x7ff0_0000);
        let at = self.compare_with(Eq, magnitude, 0x7ff0_0000);
        let more = self.compare_with(Ne, a.lo, 0);
        let at = self.two(HloOp::And, at, more);
        let nan = self.two(HloOp::Or, above, at);
        let payload = self.with(HloOp::ShiftRightLogical, digits, 8);
        let payload = self.with(HloOp::Or, payload, 0x7fc0_0000);
        let bits = self.select(nan, payload, finite);
        let bits = self.two(HloOp::Or, bits, sign);
        self.bits_as(bits, HloType::F32)
    }

    /// An f32 as the bits of an f64, which holds every f32.
    pub fn float_to_double(&mut self, x: HloId) -> Pair {
        let bits = self.bits_as(x, HloType::U32);
        let sign = self.with(HloOp::And, bits, 1 << 31);
        let magnitude = self.with(HloOp::And, bits, 0x7fff_ffff);
        let exponent = self.with(HloOp::ShiftRightLogical, magnitude, 23);
        let digits = self.with(HloOp::And, bits, 0x7f_ffff);
        // A subnormal number has its first digit somewhere: shifted to the place of the hidden one, it is normal.
        let zeros = self.one(HloOp::CountLeadingZeros, digits);
        let eight = self.word(x, 8);
        let by = self.two(HloOp::Subtract, zeros, eight);
        let risen = self.two(HloOp::ShiftLeft, digits, by);
        let risen = self.with(HloOp::And, risen, 0x7f_ffff);
        let one = self.word(x, 897);
        let low = self.two(HloOp::Subtract, one, by);
        let subnormal = self.compare_with(Eq, exponent, 0);
        let usual = self.with(HloOp::Add, exponent, 896);
        let digits = self.select(subnormal, risen, digits);
        let usual = self.select(subnormal, low, usual);
        let special = self.compare_with(Eq, exponent, 255);
        let all = self.word(x, 0x7ff);
        let usual = self.select(special, all, usual);
        let zero = self.word(x, 0);
        let none = self.compare_with(Eq, magnitude, 0);
        let usual = self.select(none, zero, usual);
        let digits = self.select(none, zero, digits);
        // NaN is quiet.
        let nan = self.compare_with(Gt, magnitude, 0x7f80_0000);
        let quiet = self.with(HloOp::Or, digits, 0x40_0000);
        let digits = self.select(nan, quiet, digits);
        let exponent = self.with(HloOp::ShiftLeft, usual, 20);
        let high = self.with(HloOp::ShiftRightLogical, digits, 3);
        let hi = self.two(HloOp::Or, exponent, high);
        Pair {
            hi: self.tagged("hi").two(HloOp::Or, hi, sign),
            lo: self.tagged("lo").with(HloOp::ShiftLeft, digits, 29),
        }
    }

    /// A 64-bit index as s32, saturated: what is out of range stays out of range, because no dimension has 2^31 elements.
    pub fn pair_to_index(&mut self, a: Pair, signed: bool) -> HloId {
        let own = self.convert(a.lo, HloType::S32);
        let dims = self.shape_of(a.lo).dims;
        let most = self.splat(HloType::S32, &dims, i32::MAX as u32);
        let low = self.compare_with(Lt, a.lo, 1 << 31);
        let small = self.compare_with(Eq, a.hi, 0);
        let small = self.two(HloOp::And, small, low);
        if !signed {
            return self.tagged("index").select(small, own, most);
        }
        let least = self.splat(HloType::S32, &dims, i32::MIN as u32);
        let negative = self.pair_is_negative(a);
        let end = self.select(negative, least, most);
        let ones = self.compare_with(Eq, a.hi, u32::MAX);
        let low = self.compare_with(Ge, a.lo, 1 << 31);
        let minus = self.two(HloOp::And, ones, low);
        let fits = self.two(HloOp::Or, small, minus);
        self.tagged("index").select(fits, own, end)
    }
}
