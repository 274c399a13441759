//! `expand_float_remainder`: a float remainder is exact, whatever the quotient: the divisor is doubled as often as it fits,
//! then halved again, and subtracted wherever it fits. Both are loops whose trips the largest difference of exponents
//! decides; every subtraction is exact because the doubled divisor is more than half of what is left.
//!
//! Facts: `spec/hlo.md 7`: the sign is the dividend's; a zero divisor or an infinite dividend gives NaN.

use super::build::{Build, Expander, computation, expand_all};
use super::expand_float_functions::with_sign_of;
use super::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn expand_float_remainder(mut module: ResMut<HloModule>) {
    if let Some(new) = expand_all(&module, &mut FloatRemainder::default()) {
        *module = new;
    }
}

const F: HloType = HloType::F32;
const I: HloType = HloType::S32;

#[derive(Default)]
struct FloatRemainder {
    largest: CompId,
    /// Condition, doubling body and subtracting body by instruction.
    loops: Vec<(HloId, [CompId; 3])>,
}

/// The carry: trip, trips, dividend or rest, multiple of the divisor, divisor.
fn carry(dims: &[i64]) -> Shape {
    let word = Shape::Array(ArrayShape::new(I, []));
    let array = Shape::Array(ArrayShape::new(F, dims));
    Shape::Tuple(vec![word.clone(), word, array.clone(), array.clone(), array])
}

fn next(b: &mut Build<'_>, c: HloId, rest: HloId, multiple: HloId) -> HloId {
    let i = b.element(c, 0);
    let one = b.integer(I, 1);
    let parts = [b.binary(HloOp::Add, i, one), b.element(c, 1), rest, multiple, b.element(c, 4)];
    b.tuple(&parts)
}

impl Expander for FloatRemainder {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Remainder])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        inst.op == HloOp::Remainder
            && inst.shape().array().is_some_and(|s| {
                matches!(s.ty, HloType::F32 | HloType::Bf16 | HloType::F16) && s.elements() > 0
            })
    }

    fn prepare(&mut self, _old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) {
        let Some(shape) = inst.shape().array() else { return };
        if self.largest.is_none() {
            let word = Shape::Array(ArrayShape::new(I, []));
            self.largest = computation(out, "remainder.largest", &[word.clone(), word], inst, |b, p| {
                b.binary(HloOp::Maximum, p[0], p[1])
            });
        }
        let tuple = [carry(&shape.dims)];
        let name = |what: &str| format!("{}.{what}", inst.name());
        let condition = computation(out, &name("condition"), &tuple, inst, |b, p| {
            let (i, n) = (b.element(p[0], 0), b.element(p[0], 1));
            b.compare(Direction::Lt, i, n)
        });
        let doubling = computation(out, &name("doubling"), &tuple, inst, |b, p| {
            let (rest, multiple) = (b.element(p[0], 2), b.element(p[0], 3));
            let half = b.with(HloOp::Multiply, rest, 0.5);
            let fits = b.compare(Direction::Le, multiple, half);
            let twice = b.binary(HloOp::Add, multiple, multiple);
            let multiple = b.select(fits, twice, multiple);
            next(b, p[0], rest, multiple)
        });
        let halving = computation(out, &name("halving"), &tuple, inst, |b, p| {
            let (rest, multiple, divisor) = (b.element(p[0], 2), b.element(p[0], 3), b.element(p[0], 4));
            let fits = b.compare(Direction::Ge, rest, multiple);
            let less = b.binary(HloOp::Subtract, rest, multiple);
            let rest = b.select(fits, less, rest);
            let half = b.with(HloOp::Multiply, multiple, 0.5);
            let above = b.compare(Direction::Gt, multiple, divisor);
            let multiple = b.select(above, half, multiple);
            next(b, p[0], rest, multiple)
        });
        self.loops.push((inst.id, [condition, doubling, halving]));
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let [condition, doubling, halving] = self.loops.iter().find(|l| l.0 == inst.id)?.1;
        let ty = b.ty(operands[0]);
        let dims = b.dims(operands[0]);
        let x = b.convert(operands[0], F);
        let y = b.convert(operands[1], F);
        let (a, d) = (b.unary(HloOp::Abs, x), b.unary(HloOp::Abs, y));
        let field = |b: &mut Build<'_>, v: HloId| {
            let bits = b.bits_as(v, I);
            b.with_int(HloOp::ShiftRightArithmetic, bits, 23)
        };
        let (ea, ed) = (field(b, a), field(b, d));
        let gap = b.binary(HloOp::Subtract, ea, ed);
        let none = b.integer(I, 0);
        let all: Vec<i64> = (0..dims.len() as i64).collect();
        let most = if all.is_empty() { gap } else { b.reduce(gap, none, &all, self.largest) };
        // A subnormal divisor may double 23 times more before its exponent counts.
        let trips = b.with_int(HloOp::Add, most, 25);
        let shape = carry(&dims);
        let start = b.tuple(&[none, trips, a, d, d]);
        let up = b.any(HloOp::While, shape.clone(), &[start], &[doubling, condition], Attrs::None);
        let multiple = b.element(up, 3);
        let start = b.tuple(&[none, trips, a, multiple, d]);
        let down = b.any(HloOp::While, shape, &[start], &[halving, condition], Attrs::None);
        let rest = b.element(down, 2);
        let zero = b.compare_with(Direction::Eq, d, 0.0);
        let infinite = b.compare_with(Direction::Eq, a, f64::INFINITY);
        let bad = b.binary(HloOp::Or, zero, infinite);
        let unordered = b.compare(Direction::Ne, d, d);
        let bad = b.binary(HloOp::Or, bad, unordered);
        let nan = b.like(x, f64::NAN);
        let rest = b.select(bad, nan, rest);
        let signed = with_sign_of(b, rest, x);
        Some(b.convert(signed, ty))
    }
}
