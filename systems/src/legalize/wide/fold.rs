//! f64 that is the same on every run: constants, and what is computed from constants only, exactly as f64 computes. In: an
//! old instruction whose operands are known. Out: its elements, and constants that hold them in the types that are left.

use super::range::{Form, Range, literal_element};
use super::value::Value;
use super::{Refusal, Split};
use half::{bf16, f16};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloOp, Literal, Shape};
use murre_components::ids::HloId;
use std::sync::Arc;

/// Most elements of a known array, unless all are equal.
const MOST: u64 = 1 << 16;

/// An array that is the same on every run.
pub struct Known {
    ty: HloType,
    dims: Vec<i64>,
    /// All of them, or the one that all are.
    elements: Vec<Number>,
}

/// An element: an integer or pred, or a float.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

/// Whether a shape has an f64 leaf.
pub fn has_f64(shape: &Shape) -> bool {
    shape.leaves().iter().any(|s| s.array().is_some_and(|a| a.ty == HloType::F64))
}

impl Number {
    fn of_literal(ty: HloType, data: &[u8], i: usize) -> Option<Number> {
        if ty.is_int() || ty == HloType::Pred {
            return literal_element(ty, data, i).map(Number::Int);
        }
        let bits = literal_element(HloType::U64, &element_bytes(ty, data, i)?, 0)? as u64;
        Some(Number::Float(match ty {
            HloType::F64 => f64::from_bits(bits),
            HloType::F32 => f64::from(f32::from_bits(bits as u32)),
            HloType::F16 => f16::from_bits(bits as u16).to_f64(),
            HloType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            _ => return None,
        }))
    }

    /// The element in another type, rounded once.
    fn converted(self, ty: HloType) -> Option<Number> {
        Some(match (self, ty) {
            (Number::Int(i), HloType::Pred) => Number::Int(i128::from(i != 0)),
            (Number::Float(x), HloType::Pred) => Number::Int(i128::from(x != 0.0)),
            (Number::Int(i), t) if t.is_int() => {
                let bits = t.bits();
                let low = i & ((1 << bits) - 1);
                let negative = t.is_signed_int() && low >> (bits - 1) == 1;
                Number::Int(if negative { low - (1 << bits) } else { low })
            }
            (Number::Float(x), t) if t.is_int() => {
                let all = Range::of_type(t);
                Number::Int((x as i128).clamp(all.low, all.high))
            }
            (Number::Int(i), HloType::F64) => Number::Float(i as f64),
            (Number::Float(x), HloType::F64) => Number::Float(x),
            (Number::Float(x), HloType::F32) => Number::Float(f64::from(x as f32)),
            (Number::Float(x), HloType::F16) => Number::Float(f16::from_f64(x).to_f64()),
            (Number::Float(x), HloType::Bf16) => Number::Float(bf16::from_f64(x).to_f64()),
            _ => return None,
        })
    }

    /// The element's bits in a type that holds it.
    fn bits(self, ty: HloType) -> u64 {
        match (self, ty) {
            (Number::Int(i), _) => i as u64,
            (Number::Float(x), HloType::F64) => x.to_bits(),
            (Number::Float(x), HloType::F32) => u64::from((x as f32).to_bits()),
            (Number::Float(x), HloType::F16) => u64::from(f16::from_f64(x).to_bits()),
            (Number::Float(x), _) => u64::from(bf16::from_f64(x).to_bits()),
        }
    }
}

fn element_bytes(ty: HloType, data: &[u8], i: usize) -> Option<[u8; 8]> {
    let width = ty.bytes();
    let own = data.get(i * width..(i + 1) * width)?;
    let mut bytes = [0; 8];
    bytes.get_mut(..width)?.copy_from_slice(own);
    Some(bytes)
}

/// One f64 operation.
fn compute(op: HloOp, x: &[f64]) -> Option<f64> {
    let least = |a: f64, b: f64, sign: f64| {
        // NaN before anything else, and the zeros have an order.
        if a.is_nan() || b.is_nan() {
            f64::NAN
        } else if a == b {
            if (a * sign).is_sign_negative() { a } else { b }
        } else if (a < b) == (sign > 0.0) {
            a
        } else {
            b
        }
    };
    Some(match (op, x) {
        (HloOp::Add, [a, b]) => a + b,
        (HloOp::Subtract, [a, b]) => a - b,
        (HloOp::Multiply, [a, b]) => a * b,
        (HloOp::Divide, [a, b]) => a / b,
        (HloOp::Minimum, [a, b]) => least(*a, *b, 1.0),
        (HloOp::Maximum, [a, b]) => least(*a, *b, -1.0),
        (HloOp::Negate, [a]) => -a,
        (HloOp::Abs, [a]) => a.abs(),
        (HloOp::Sqrt, [a]) => a.sqrt(),
        (HloOp::Rsqrt, [a]) => 1.0 / a.sqrt(),
        (HloOp::Floor, [a]) => a.floor(),
        (HloOp::Ceil, [a]) => a.ceil(),
        (HloOp::RoundNearestEven, [a]) => a.round_ties_even(),
        _ => return None,
    })
}

fn holds(direction: Direction, a: Number, b: Number) -> bool {
    let order = match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
        _ => None,
    };
    match direction {
        Direction::Eq => order.is_some_and(|o| o.is_eq()),
        Direction::Ne => order.is_none_or(|o| o.is_ne()),
        Direction::Lt => order.is_some_and(|o| o.is_lt()),
        Direction::Le => order.is_some_and(|o| o.is_le()),
        Direction::Gt => order.is_some_and(|o| o.is_gt()),
        Direction::Ge => order.is_some_and(|o| o.is_ge()),
    }
}

/// What an instruction is on every run, if its operands are known.
fn known(inst: HloInst<'_>, shape: &ArrayShape, operands: &[Arc<Known>]) -> Option<Known> {
    let (ty, dims) = (shape.ty, shape.dims.clone());
    let made = |elements: Vec<Number>| Known { ty, dims: dims.clone(), elements };
    if let (HloOp::Constant, Attrs::Constant(literal)) = (inst.op, inst.attrs()) {
        let Literal::Array { shape, data } = &**literal else { return None };
        if shape.elements() > MOST || shape.elements() == 0 {
            return None;
        }
        let all: Option<Vec<Number>> =
            (0..shape.elements() as usize).map(|i| Number::of_literal(ty, data, i)).collect();
        return all.map(made);
    }
    let first = operands.first()?;
    let splat = operands.iter().all(|k| k.elements.len() == 1);
    let count = operands.iter().map(|k| k.elements.len()).max()?;
    match (inst.op, inst.attrs()) {
        (HloOp::Broadcast | HloOp::Transpose | HloOp::Slice | HloOp::Reverse, _) if splat => {
            return Some(made(first.elements.clone()));
        }
        (HloOp::Reshape | HloOp::Copy, _) => return Some(made(first.elements.clone())),
        _ => {}
    }
    // Elementwise: a splat goes with anything, else the extents are the same.
    let each = |i: usize| -> Option<Number> {
        let x = |k: &Arc<Known>| k.elements.get(if k.elements.len() == 1 { 0 } else { i }).copied();
        match (inst.op, inst.attrs(), operands) {
            (HloOp::Convert, _, [a]) => x(a)?.converted(ty),
            (HloOp::Compare, Attrs::Compare { direction, total_order: false }, [a, b]) => {
                Some(Number::Int(i128::from(holds(*direction, x(a)?, x(b)?))))
            }
            (HloOp::Select, _, [p, a, b]) => x(if x(p)? == Number::Int(0) { b } else { a }),
            (HloOp::Clamp, _, [low, a, high]) if ty == HloType::F64 => {
                let (Number::Float(low), Number::Float(a), Number::Float(high)) = (x(low)?, x(a)?, x(high)?)
                else {
                    return None;
                };
                let lifted = compute(HloOp::Maximum, &[low, a])?;
                compute(HloOp::Minimum, &[lifted, high]).map(Number::Float)
            }
            _ if ty == HloType::F64 => {
                let floats = operands.iter().map(|k| match x(k) {
                    Some(Number::Float(x)) => Some(x),
                    _ => None,
                });
                let floats: Option<Vec<f64>> = floats.collect();
                compute(inst.op, &floats?).map(Number::Float)
            }
            _ => None,
        }
    };
    let elements: Option<Vec<Number>> = (0..count).map(each).collect();
    elements.map(made)
}

impl<'m> Split<'m> {
    /// Notes what an instruction is on every run, in a module with f64.
    pub fn fold_known(&mut self, inst: HloInst<'m>) {
        if self.known.is_empty() {
            return;
        }
        let Some(shape) = inst.shape().array().filter(|s| !s.has_dynamic()) else { return };
        let operands: Option<Vec<Arc<Known>>> =
            inst.operands().iter().map(|o| self.known.get(o.index()).cloned().flatten()).collect();
        let f64 = |id: &HloId| has_f64(self.old.inst(*id).shape());
        // Of what is not f64, only what leads to it: constants and their copies.
        let leads = matches!(
            inst.op,
            HloOp::Constant | HloOp::Broadcast | HloOp::Reshape | HloOp::Copy | HloOp::Convert
        );
        if !(leads || f64(&inst.id) || inst.operands().iter().any(f64)) {
            return;
        }
        if let Some(operands) = operands {
            self.known[inst.id.index()] = known(inst, shape, &operands).map(Arc::new);
        }
    }

    /// Constants for an array that is the same on every run.
    pub fn write_known(&mut self, inst: HloInst<'m>, known: &Known) -> Result<Value, Refusal> {
        let splat = known.elements.len() == 1;
        let ty = known.ty;
        if !matches!(ty, HloType::F64 | HloType::S64 | HloType::U64) {
            let dims: &[i64] = if splat { &[] } else { &known.dims };
            let width = ty.bytes();
            let data: Vec<u8> = known
                .elements
                .iter()
                .flat_map(|x| x.bits(ty).to_le_bytes().into_iter().take(width))
                .collect();
            let shape = ArrayShape::new(ty, dims);
            let attrs = Attrs::Constant(Arc::new(Literal::Array { shape, data: data.into() }));
            let constant = self.array(HloOp::Constant, ty, dims, &[], attrs);
            return Ok(Value::Whole(self.spread(constant, &known.dims)));
        }
        let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
        let mut words = Vec::new();
        for k in 0..form.words() {
            let part = |x: &Number| (x.bits(ty) >> (32 * k)) as u32;
            words.push(match known.elements.first().filter(|_| splat) {
                Some(one) => self.splat(form.ty(), &known.dims, part(one)),
                None => self.literal(form.ty(), &known.dims, known.elements.iter().map(part)),
            });
        }
        Ok(Value::of_words(&words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_once_and_saturate() {
        let to = |x: f64, ty| Number::Float(x).converted(ty);
        assert_eq!(
            to(1.0 + 2f64.powi(-24) + 2f64.powi(-50), HloType::F32),
            Some(Number::Float(1.0 + 2f64.powi(-23)))
        );
        assert_eq!(to(-2.5, HloType::S32), Some(Number::Int(-2)));
        assert_eq!(to(1e30, HloType::S64), Some(Number::Int(i128::from(i64::MAX))));
        assert_eq!(to(f64::NAN, HloType::U64), Some(Number::Int(0)));
        assert_eq!(Number::Int(300).converted(HloType::S8), Some(Number::Int(44)));
        assert_eq!(Number::Int(200).converted(HloType::S8), Some(Number::Int(-56)));
    }

    #[test]
    fn extremes_order_zeros_and_keep_nan() {
        let f = |op, a, b| compute(op, &[a, b]).map(f64::to_bits);
        assert_eq!(f(HloOp::Minimum, 0.0, -0.0), Some((-0.0f64).to_bits()));
        assert_eq!(f(HloOp::Maximum, -0.0, 0.0), Some(0));
        assert_eq!(compute(HloOp::Maximum, &[1.0, 2.0]), Some(2.0));
        assert!(compute(HloOp::Minimum, &[f64::NAN, 2.0]).is_some_and(f64::is_nan));
    }
}
