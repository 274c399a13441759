//! Division of pairs. A divisor known to be in 1..=65535 divides digit by digit, in base 2^16, with u32 divisions; any other by
//! a loop of 64 steps that shifts a bit of the numerator into the remainder and subtracts the divisor where it fits. The
//! loop's computations are written before the computation that divides. Facts: `spec/hlo.md 7`: a quotient by 0 has all
//! bits set, a remainder by 0 is the numerator, and the least number by -1 is itself.

use super::Split;
use super::range::Range;
use super::value::Pair;
use murre_components::dtype::HloType;
use murre_components::hlo::Direction::{Ge, Lt};
use murre_components::hlo::{ArrayShape, Attrs, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// Step counter, remainder, quotient (at first the numerator), divisor.
fn carry(dims: &[i64]) -> Shape {
    let array = |ty, dims: &[i64]| Shape::Array(ArrayShape::new(ty, dims));
    let mut parts = vec![array(HloType::S32, &[])];
    parts.resize(7, array(HloType::U32, dims));
    Shape::Tuple(parts)
}

/// Whether every divisor in the range, its sign aside, is a digit in base 2^16 and not 0.
pub fn is_digit(divisor: Range) -> bool {
    let digit = |r: Range| !r.is_empty() && r.low > 0 && r.high < 1 << 16;
    digit(divisor) || digit(Range::new(-divisor.high, -divisor.low))
}

impl Split<'_> {
    /// Writes body and condition of the loop for arrays of these extents.
    pub fn write_division(&mut self, dims: &[i64]) -> (CompId, CompId) {
        let parameter = Attrs::Parameter { number: 0 };
        let p = self.put(HloOp::Parameter, carry(dims), &[], parameter.clone(), &[]);
        let part: Vec<HloId> = (0..7).map(|k| self.element(p, k)).collect();
        let one = self.splat(HloType::S32, &[], 1);
        let next = self.two(HloOp::Add, part[0], one);
        let (rem, quo) = (Pair { lo: part[1], hi: part[2] }, Pair { lo: part[3], hi: part[4] });
        let divisor = Pair { lo: part[5], hi: part[6] };
        // A remainder that loses its top bit is above every divisor.
        let over = self.compare_with(Ge, rem.hi, 1 << 31);
        let bit = self.with(HloOp::ShiftRightLogical, quo.hi, 31);
        let rem = self.pair_shift_by(HloOp::ShiftLeft, rem, 1);
        let rem = Pair { lo: self.two(HloOp::Or, rem.lo, bit), hi: rem.hi };
        let quo = self.pair_shift_by(HloOp::ShiftLeft, quo, 1);
        let fits = self.pair_compare(Ge, rem, divisor, false);
        let fits = self.two(HloOp::Or, fits, over);
        let less = self.pair_subtract(rem, divisor);
        let rem = self.pair_select(fits, less, rem);
        let bit = self.flag(fits);
        let quo = Pair { lo: self.two(HloOp::Or, quo.lo, bit), hi: quo.hi };
        let parts = [next, rem.lo, rem.hi, quo.lo, quo.hi, divisor.lo, divisor.hi];
        let root = self.put(HloOp::Tuple, carry(dims), &parts, Attrs::None, &[]);
        let body = self.finish_new("divide", &[p], root);
        let p = self.put(HloOp::Parameter, carry(dims), &[], parameter, &[]);
        let step = self.element(p, 0);
        let steps = self.splat(HloType::S32, &[], 64);
        let root = self.compare(Lt, step, steps);
        (body, self.finish_new("dividing", &[p], root))
    }

    /// Quotient and remainder of unsigned numbers by a word below 2^16 that is not 0.
    fn divide_by_digit(&mut self, a: Pair, divisor: HloId) -> (Pair, Pair) {
        let zero = self.word(a.lo, 0);
        let mut rest = zero;
        let mut words = [zero; 2];
        for (word, from) in words.iter_mut().zip([a.hi, a.lo]) {
            for low in [false, true] {
                let digit = if low {
                    self.with(HloOp::And, from, 0xffff)
                } else {
                    self.with(HloOp::ShiftRightLogical, from, 16)
                };
                let shifted = self.with(HloOp::ShiftLeft, rest, 16);
                let current = self.two(HloOp::Or, shifted, digit);
                let q = self.two(HloOp::Divide, current, divisor);
                let back = self.two(HloOp::Multiply, q, divisor);
                rest = self.two(HloOp::Subtract, current, back);
                let up = self.with(HloOp::ShiftLeft, *word, 16);
                *word = self.two(HloOp::Or, up, q);
            }
        }
        (Pair { lo: words[1], hi: words[0] }, Pair { lo: rest, hi: zero })
    }

    fn divide_unsigned(&mut self, a: Pair, b: Pair, digit: bool) -> Option<(Pair, Pair)> {
        if digit {
            return Some(self.divide_by_digit(a, b.lo));
        }
        let dims = self.shape_of(a.lo).dims;
        let (body, condition) = self.divisions.iter().find(|d| d.0 == dims).map(|d| d.1)?;
        let start = self.splat(HloType::S32, &[], 0);
        let zero = self.word(a.lo, 0);
        let parts = [start, zero, zero, a.lo, a.hi, b.lo, b.hi];
        let init = self.put(HloOp::Tuple, carry(&dims), &parts, Attrs::None, &[]);
        let end = self.put(HloOp::While, carry(&dims), &[init], Attrs::None, &[body, condition]);
        let part: Vec<HloId> = (1..5).map(|k| self.element(end, k)).collect();
        Some((Pair { lo: part[2], hi: part[3] }, Pair { lo: part[0], hi: part[1] }))
    }

    /// Quotient or remainder. `None` only where no loop was written for the extents.
    pub fn pair_divide(&mut self, op: HloOp, a: Pair, b: Pair, signed: bool, divisor: Range) -> Option<Pair> {
        let digit = is_digit(divisor);
        let pick = |(q, r): (Pair, Pair)| if op == HloOp::Divide { q } else { r };
        if !signed {
            return self.divide_unsigned(a, b, digit).map(pick);
        }
        let ((x, below), (y, beneath)) = (self.pair_magnitude(a), self.pair_magnitude(b));
        let result = self.divide_unsigned(x, y, digit).map(pick)?;
        let negative = if op == HloOp::Divide {
            let differ = self.two(HloOp::Xor, below, beneath);
            let by_some = self.pair_is_nonzero(b);
            self.two(HloOp::And, differ, by_some)
        } else {
            below
        };
        Some(self.pair_negate_if(negative, result))
    }
}
