//! `expand_integer_functions`: bit counts of 32-bit integers by sums of ever wider bit fields, powers by squaring.
//!
//! ```text
//! popcnt(x)  ->  pairs, nibbles, bytes, then the top byte of bytes * 0x01010101
//! clz(x)     ->  popcnt(not(x with every bit below its highest one set))
//! ```

use super::build::{Build, Expander, expand_all};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Direction, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_integer_functions(mut module: ResMut<HloModule>) {
    if let Some(new) = expand_all(&module, &mut IntegerFunctions) {
        *module = new;
    }
}

struct IntegerFunctions;

impl Expander for IntegerFunctions {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::PopulationCount, HloOp::CountLeadingZeros, HloOp::Power])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        matches!(inst.op, HloOp::PopulationCount | HloOp::CountLeadingZeros | HloOp::Power)
            && inst.shape().array().is_some_and(|s| matches!(s.ty, HloType::S32 | HloType::U32))
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let ty = b.ty(operands[0]);
        if inst.op == HloOp::Power {
            return Some(power(b, operands[0], operands[1]));
        }
        let mut x = b.bits_as(operands[0], HloType::U32);
        if inst.op == HloOp::CountLeadingZeros {
            for by in [1, 2, 4, 8, 16] {
                let moved = b.with_int(HloOp::ShiftRightLogical, x, by);
                x = b.binary(HloOp::Or, x, moved);
            }
            x = b.unary(HloOp::Not, x);
        }
        let count = ones(b, x);
        Some(b.bits_as(count, ty))
    }
}

/// `x^n` modulo 2^32: the squares of `x` that the bits of `n` ask for, multiplied. A negative power is the reciprocal cut
/// to a whole number: of 1 and -1 it is a sign, of all others 0.
fn power(b: &mut Build<'_>, x: HloId, n: HloId) -> HloId {
    let ty = b.ty(x);
    let exponent = b.bits_as(n, HloType::U32);
    let mut square = x;
    let mut result = b.like_int(x, 1);
    for bit in 0..32 {
        let moved = b.with_int(HloOp::ShiftRightLogical, exponent, bit);
        let set = b.with_int(HloOp::And, moved, 1);
        let set = b.compare_int(Direction::Ne, set, 0);
        let more = b.binary(HloOp::Multiply, result, square);
        result = b.select(set, more, result);
        if bit < 31 {
            square = b.binary(HloOp::Multiply, square, square);
        }
    }
    if ty != HloType::S32 {
        return result;
    }
    let negative = b.compare_int(Direction::Lt, n, 0);
    let one = b.compare_int(Direction::Eq, x, 1);
    let minus = b.compare_int(Direction::Eq, x, -1);
    let odd = b.with_int(HloOp::And, n, 1);
    let odd = b.compare_int(Direction::Ne, odd, 0);
    let (none, plus, less) = (b.like_int(x, 0), b.like_int(x, 1), b.like_int(x, -1));
    let sign = b.select(odd, less, plus);
    let inverse = b.select(minus, sign, none);
    let inverse = b.select(one, plus, inverse);
    b.select(negative, inverse, result)
}

/// Number of one bits of each u32.
fn ones(b: &mut Build<'_>, x: HloId) -> HloId {
    let field = |b: &mut Build<'_>, x: HloId, by: i64, mask: i64| {
        let moved = b.with_int(HloOp::ShiftRightLogical, x, by);
        b.with_int(HloOp::And, moved, mask)
    };
    let odd = field(b, x, 1, 0x5555_5555);
    let pairs = b.binary(HloOp::Subtract, x, odd);
    let (low, high) = (b.with_int(HloOp::And, pairs, 0x3333_3333), field(b, pairs, 2, 0x3333_3333));
    let nibbles = b.binary(HloOp::Add, low, high);
    let up = b.with_int(HloOp::ShiftRightLogical, nibbles, 4);
    let sum = b.binary(HloOp::Add, nibbles, up);
    let bytes = b.with_int(HloOp::And, sum, 0x0F0F_0F0F);
    let all = b.with_int(HloOp::Multiply, bytes, 0x0101_0101);
    b.with_int(HloOp::ShiftRightLogical, all, 24)
}
