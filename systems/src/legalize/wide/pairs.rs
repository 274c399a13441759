//! Arithmetic on pairs of words, exactly that of 64-bit integers modulo 2^64. In: pairs of u32 arrays of one shape. Out:
//! the pair, or the predicate, of the result. Facts: `spec/hlo.md 7`; shifts of a u32 by 32 and more give 0.

use super::Split;
use super::value::Pair;
use murre_components::dtype::HloType;
use murre_components::hlo::Direction::{Eq, Ge, Gt, Le, Lt, Ne};
use murre_components::hlo::{Direction, HloOp};
use murre_components::ids::HloId;

impl Split<'_> {
    /// An operation that does not cross words.
    pub fn pair_bits(&mut self, op: HloOp, a: Pair, b: Pair) -> Pair {
        Pair { lo: self.tagged("lo").two(op, a.lo, b.lo), hi: self.tagged("hi").two(op, a.hi, b.hi) }
    }

    /// `!a`.
    pub fn pair_not(&mut self, a: Pair) -> Pair {
        Pair { lo: self.tagged("lo").one(HloOp::Not, a.lo), hi: self.tagged("hi").one(HloOp::Not, a.hi) }
    }

    /// The same value everywhere, shaped like `like`.
    pub fn pair_splat(&mut self, like: HloId, bits: u64) -> Pair {
        Pair { lo: self.word(like, bits as u32), hi: self.word(like, (bits >> 32) as u32) }
    }

    /// `p ? a : b`.
    pub fn pair_select(&mut self, p: HloId, a: Pair, b: Pair) -> Pair {
        Pair { lo: self.tagged("lo").select(p, a.lo, b.lo), hi: self.tagged("hi").select(p, a.hi, b.hi) }
    }

    /// 1 where the predicate holds, else 0.
    pub fn flag(&mut self, p: HloId) -> HloId {
        self.convert(p, HloType::U32)
    }

    /// `a + b`: a sum below its summand carries.
    pub fn pair_add(&mut self, a: Pair, b: Pair) -> Pair {
        let lo = self.tagged("lo").two(HloOp::Add, a.lo, b.lo);
        let over = self.compare(Lt, lo, a.lo);
        let carry = self.tagged("carry").flag(over);
        let hi = self.two(HloOp::Add, a.hi, b.hi);
        Pair { lo, hi: self.tagged("hi").two(HloOp::Add, hi, carry) }
    }

    /// `a - b`.
    pub fn pair_subtract(&mut self, a: Pair, b: Pair) -> Pair {
        let lo = self.tagged("lo").two(HloOp::Subtract, a.lo, b.lo);
        let under = self.compare(Lt, a.lo, b.lo);
        let borrow = self.tagged("borrow").flag(under);
        let hi = self.two(HloOp::Subtract, a.hi, b.hi);
        Pair { lo, hi: self.tagged("hi").two(HloOp::Subtract, hi, borrow) }
    }

    /// `-a`.
    pub fn pair_negate(&mut self, a: Pair) -> Pair {
        let zero = self.pair_splat(a.lo, 0);
        self.pair_subtract(zero, a)
    }

    /// `p ? -a : a`.
    pub fn pair_negate_if(&mut self, p: HloId, a: Pair) -> Pair {
        let negative = self.pair_negate(a);
        self.pair_select(p, negative, a)
    }

    /// Whether bit 63 is set.
    pub fn pair_is_negative(&mut self, a: Pair) -> HloId {
        self.tagged("negative").compare_with(Ge, a.hi, 1 << 31)
    }

    /// Whether any bit is set.
    pub fn pair_is_nonzero(&mut self, a: Pair) -> HloId {
        let any = self.two(HloOp::Or, a.lo, a.hi);
        self.compare_with(Ne, any, 0)
    }

    /// `|a|` of a signed number, as an unsigned one, and whether it was negative.
    pub fn pair_magnitude(&mut self, a: Pair) -> (Pair, HloId) {
        let negative = self.pair_is_negative(a);
        (self.pair_negate_if(negative, a), negative)
    }

    /// -1, 0 or 1.
    pub fn pair_sign(&mut self, a: Pair) -> Pair {
        let hi = self.word_shift(HloOp::ShiftRightArithmetic, a.hi, 31);
        let nonzero = self.pair_is_nonzero(a);
        let one = self.flag(nonzero);
        Pair { lo: self.tagged("lo").two(HloOp::Or, hi, one), hi }
    }

    /// A u32 shifted by a constant below 32.
    fn word_shift(&mut self, op: HloOp, a: HloId, by: u32) -> HloId {
        if op != HloOp::ShiftRightArithmetic {
            return self.with(op, a, by);
        }
        let s = self.convert(a, HloType::S32);
        let dims = self.shape_of(a).dims;
        let by = self.splat(HloType::S32, &dims, by);
        let shifted = self.two(op, s, by);
        self.convert(shifted, HloType::U32)
    }

    /// The product of two words. The four products of their halves are added so that no sum leaves a word.
    pub fn word_product(&mut self, a: HloId, b: HloId) -> Pair {
        let (a0, a1) = (self.with(HloOp::And, a, 0xffff), self.with(HloOp::ShiftRightLogical, a, 16));
        let (b0, b1) = (self.with(HloOp::And, b, 0xffff), self.with(HloOp::ShiftRightLogical, b, 16));
        let t = self.two(HloOp::Multiply, a0, b0);
        let t = self.with(HloOp::ShiftRightLogical, t, 16);
        let u = self.two(HloOp::Multiply, a1, b0);
        let u = self.two(HloOp::Add, u, t);
        let (u0, u1) = (self.with(HloOp::And, u, 0xffff), self.with(HloOp::ShiftRightLogical, u, 16));
        let v = self.two(HloOp::Multiply, a0, b1);
        let v = self.two(HloOp::Add, v, u0);
        let v = self.with(HloOp::ShiftRightLogical, v, 16);
        let w = self.two(HloOp::Multiply, a1, b1);
        let w = self.two(HloOp::Add, w, u1);
        Pair { hi: self.two(HloOp::Add, w, v), lo: self.tagged("lo").two(HloOp::Multiply, a, b) }
    }

    /// `a * b`.
    pub fn pair_multiply(&mut self, a: Pair, b: Pair) -> Pair {
        let low = self.word_product(a.lo, b.lo);
        let crossed = self.two(HloOp::Multiply, a.lo, b.hi);
        let hi = self.two(HloOp::Add, low.hi, crossed);
        let crossed = self.two(HloOp::Multiply, a.hi, b.lo);
        Pair { lo: low.lo, hi: self.tagged("hi").two(HloOp::Add, hi, crossed) }
    }

    /// A comparison: by the high words, which have the sign, and where they are equal by the low words.
    pub fn pair_compare(&mut self, direction: Direction, a: Pair, b: Pair, signed: bool) -> HloId {
        let (strict, flip) = match direction {
            Eq | Ne => {
                let (lo, hi) = (self.compare(direction, a.lo, b.lo), self.compare(direction, a.hi, b.hi));
                return self.two(if direction == Eq { HloOp::And } else { HloOp::Or }, lo, hi);
            }
            Lt => (Lt, false),
            Gt => (Gt, false),
            Ge => (Lt, true),
            Le => (Gt, true),
        };
        let (mut x, mut y) = (a.hi, b.hi);
        if signed {
            (x, y) = (self.convert(x, HloType::S32), self.convert(y, HloType::S32));
        }
        let beyond = self.compare(strict, x, y);
        let same = self.compare(Eq, a.hi, b.hi);
        let low = self.compare(strict, a.lo, b.lo);
        let low = self.two(HloOp::And, same, low);
        let result = self.two(HloOp::Or, beyond, low);
        if flip { self.one(HloOp::Not, result) } else { result }
    }

    /// The smaller or the larger.
    pub fn pair_extreme(&mut self, op: HloOp, a: Pair, b: Pair, signed: bool) -> Pair {
        let direction = if op == HloOp::Minimum { Lt } else { Gt };
        let first = self.pair_compare(direction, a, b, signed);
        self.pair_select(first, a, b)
    }

    /// An amount to shift by as one word: everything from 64 on alike.
    pub fn shift_amount(&mut self, amount: Pair) -> HloId {
        let small = self.compare_with(Eq, amount.hi, 0);
        let all = self.word(amount.lo, 64);
        self.tagged("amount").select(small, amount.lo, all)
    }

    /// A shift by an amount as [`Self::shift_amount`] gives it. Of the three parts of the word that others move into, those
    /// whose own amount is out of range, wrapped ones too, are 0.
    pub fn pair_shift(&mut self, op: HloOp, a: Pair, amount: HloId) -> Pair {
        let word = self.word(amount, 32);
        let back = self.two(HloOp::Subtract, word, amount);
        let beyond = self.two(HloOp::Subtract, amount, word);
        if op == HloOp::ShiftLeft {
            let lo = self.tagged("lo").two(op, a.lo, amount);
            let (own, near) = (self.two(op, a.hi, amount), self.two(HloOp::ShiftRightLogical, a.lo, back));
            let far = self.two(op, a.lo, beyond);
            let hi = self.two(HloOp::Or, own, near);
            return Pair { lo, hi: self.tagged("hi").two(HloOp::Or, hi, far) };
        }
        let own = self.two(HloOp::ShiftRightLogical, a.lo, amount);
        let near = self.two(HloOp::ShiftLeft, a.hi, back);
        let lo = self.two(HloOp::Or, own, near);
        if op == HloOp::ShiftRightLogical {
            let far = self.two(op, a.hi, beyond);
            let lo = self.tagged("lo").two(HloOp::Or, lo, far);
            return Pair { lo, hi: self.tagged("hi").two(op, a.hi, amount) };
        }
        let top = self.convert(a.hi, HloType::S32);
        let (s, t) = (self.convert(amount, HloType::S32), self.convert(beyond, HloType::S32));
        let (hi, far) = (self.two(op, top, s), self.two(op, top, t));
        let far = self.convert(far, HloType::U32);
        let within = self.compare_with(Lt, amount, 32);
        let lo = self.tagged("lo").select(within, lo, far);
        Pair { lo, hi: self.tagged("hi").convert(hi, HloType::U32) }
    }

    /// A shift by a constant below 64.
    pub fn pair_shift_by(&mut self, op: HloOp, a: Pair, by: u32) -> Pair {
        if by == 0 {
            return a;
        }
        let left = op == HloOp::ShiftLeft;
        // `from` loses bits to `into`, which loses its own.
        let (from, into) = if left { (a.lo, a.hi) } else { (a.hi, a.lo) };
        let (from, into) = if by >= 32 {
            let emptied = match op {
                HloOp::ShiftRightArithmetic => self.word_shift(op, from, 31),
                _ => self.word(from, 0),
            };
            (emptied, self.word_shift(op, from, by - 32))
        } else {
            let (inner, outer) = match left {
                true => (HloOp::ShiftLeft, HloOp::ShiftRightLogical),
                false => (HloOp::ShiftRightLogical, HloOp::ShiftLeft),
            };
            let own = self.with(inner, into, by);
            let taken = self.with(outer, from, 32 - by);
            let moved = self.two(HloOp::Or, own, taken);
            (self.word_shift(op, from, by), moved)
        };
        if left { Pair { lo: from, hi: into } } else { Pair { lo: into, hi: from } }
    }

    /// Number of set bits, as one word.
    pub fn pair_popcount(&mut self, a: Pair) -> HloId {
        let lo = self.one(HloOp::PopulationCount, a.lo);
        let hi = self.one(HloOp::PopulationCount, a.hi);
        self.two(HloOp::Add, lo, hi)
    }

    /// Number of zero bits above the first set one, as one word.
    pub fn pair_leading_zeros(&mut self, a: Pair) -> HloId {
        let lo = self.one(HloOp::CountLeadingZeros, a.lo);
        let lo = self.with(HloOp::Add, lo, 32);
        let hi = self.one(HloOp::CountLeadingZeros, a.hi);
        let empty = self.compare_with(Eq, a.hi, 0);
        self.select(empty, lo, hi)
    }
}
