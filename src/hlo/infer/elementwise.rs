//! Elementwise operations: operands of one shape, a result of that shape. Next to a bounded-dynamic operand a static
//! one is cut to its size, so the result is dynamic where any operand is (`spec/hlo.md 8`).

use super::{Expect, Inspect, Rule, array, flags};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloOp};

fn is_complex(t: HloType) -> bool {
    matches!(t, HloType::C64 | HloType::C128)
}

/// Which element types a family takes.
#[derive(Clone, Copy)]
enum Kind {
    Float,
    FloatOrComplex,
    SignedOrComplex,
    Number,
    NumberOrPred,
    Bits,
    Int,
}

impl Kind {
    fn takes(self, t: HloType) -> bool {
        let real = t.is_float() || t.is_int();
        match self {
            Kind::Float => t.is_float(),
            Kind::FloatOrComplex => t.is_float() || is_complex(t),
            Kind::SignedOrComplex => t.is_float() || is_complex(t) || t.is_signed_int(),
            Kind::Number => real || is_complex(t),
            Kind::NumberOrPred => real || is_complex(t) || t == HloType::Pred,
            Kind::Bits => t.is_int() || t == HloType::Pred,
            Kind::Int => t.is_int(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Float => "a float array",
            Kind::FloatOrComplex => "a float or complex array",
            Kind::SignedOrComplex => "an array of floats, complex numbers or signed integers",
            Kind::Number => "an array of numbers",
            Kind::NumberOrPred => "an array of numbers or pred",
            Kind::Bits => "an integer or pred array",
            Kind::Int => "an integer array",
        }
    }
}

/// Operand count and element kind of the plain operations (result type = operand type).
fn plain(op: HloOp) -> Option<(usize, Kind)> {
    use HloOp::*;
    Some(match op {
        Cbrt | Ceil | Erf | Floor | RoundNearestAfz | RoundNearestEven | ReducePrecision => (1, Kind::Float),
        Acos | Acosh | Asin | Asinh | Atanh | Cosh | Cosine | Exponential | ExponentialMinusOne | Log
        | LogPlusOne | Logistic | Rsqrt | Sine | Sinh | Sqrt | Tan | Tanh => (1, Kind::FloatOrComplex),
        Negate => (1, Kind::Number),
        Sign => (1, Kind::SignedOrComplex),
        Not => (1, Kind::Bits),
        PopulationCount | CountLeadingZeros => (1, Kind::Int),
        Add | Multiply | Maximum | Minimum => (2, Kind::NumberOrPred),
        Subtract | Divide | Power => (2, Kind::Number),
        Remainder => (2, Kind::Number),
        Atan2 => (2, Kind::FloatOrComplex),
        Mulhi => (2, Kind::Int),
        And | Or | Xor => (2, Kind::Bits),
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => (2, Kind::Int),
        _ => return None,
    })
}

/// Whether the operation works element by element.
pub(crate) fn is_elementwise(op: HloOp) -> bool {
    use HloOp::*;
    plain(op).is_some()
        || matches!(op, Abs | Clamp | Compare | Complex | Convert | Imag | IsFinite | Real | Select)
}

impl<'m> Inspect<'m> {
    /// Operand `i` has the dimensions of operand 0 (and its type, when `typed`).
    fn like_first(&mut self, i: usize, first: &ArrayShape, typed: bool) -> Rule<&'m ArrayShape> {
        let other = self.array(i)?;
        if other.dims == first.dims && (!typed || other.ty == first.ty) {
            return Ok(other);
        }
        self.bad_operand(i, if typed { first.to_string() } else { format!("dimensions {:?}", first.dims) })
    }

    pub(super) fn elementwise(&mut self) -> Rule<Expect> {
        use HloOp::*;
        let op = self.inst.op;
        if let Some((n, kind)) = plain(op) {
            self.count(n)?;
            let first = self.array_of(0, kind.name(), |t| kind.takes(t))?;
            let mut dynamic = flags(first);
            if n == 2 {
                merge(&mut dynamic, self.like_first(1, first, true)?);
            }
            if let Attrs::ReducePrecision { exponent_bits, mantissa_bits } = *self.inst.attrs()
                && (!(1..=11).contains(&exponent_bits) || mantissa_bits > 52)
            {
                let found = format!("{exponent_bits} exponent bits, {mantissa_bits} mantissa bits");
                return self.bad_attribute(
                    "reduce-precision has no such format",
                    found,
                    "1 to 11, and 0 to 52",
                );
            }
            return Ok(Expect::Exact(array(first.ty, first.dims.clone(), dynamic)));
        }
        let part = |t: HloType| match t {
            HloType::C64 => HloType::F32,
            HloType::C128 => HloType::F64,
            other => other,
        };
        match op {
            Abs | Real | Imag => {
                self.count(1)?;
                let kind = if op == Abs { Kind::SignedOrComplex } else { Kind::FloatOrComplex };
                let first = self.array_of(0, kind.name(), |t| kind.takes(t))?;
                Ok(Expect::Exact(array(part(first.ty), first.dims.clone(), flags(first))))
            }
            IsFinite => {
                self.count(1)?;
                let first = self.array_of(0, "a float array", |t| t.is_float())?;
                Ok(Expect::Exact(array(HloType::Pred, first.dims.clone(), flags(first))))
            }
            Convert => {
                self.count(1)?;
                let first = self.array(0)?;
                let to = self.written()?.ty;
                if is_complex(first.ty) && !is_complex(to) {
                    return self.bad_operand(0, "a real array, or a complex result");
                }
                Ok(Expect::Exact(array(to, first.dims.clone(), flags(first))))
            }
            Compare => {
                self.count(2)?;
                let first =
                    self.array_of(0, "an array of numbers or pred", |t| Kind::NumberOrPred.takes(t))?;
                let mut dynamic = flags(first);
                merge(&mut dynamic, self.like_first(1, first, true)?);
                Ok(Expect::Exact(array(HloType::Pred, first.dims.clone(), dynamic)))
            }
            Complex => {
                self.count(2)?;
                let first = self.array_of(0, "f32 or f64", |t| matches!(t, HloType::F32 | HloType::F64))?;
                let mut dynamic = flags(first);
                merge(&mut dynamic, self.like_first(1, first, true)?);
                let ty = if first.ty == HloType::F32 { HloType::C64 } else { HloType::C128 };
                Ok(Expect::Exact(array(ty, first.dims.clone(), dynamic)))
            }
            Select => {
                self.count(3)?;
                let on_true = self.array(1)?;
                let mut dynamic = flags(on_true);
                merge(&mut dynamic, self.like_first(2, on_true, true)?);
                let which = self.array_of(0, "a pred array", |t| t == HloType::Pred)?;
                if which.rank() == 0 && on_true.rank() > 0 {
                    return Ok(Expect::Exact(array(on_true.ty, on_true.dims.clone(), dynamic)));
                }
                if which.dims != on_true.dims {
                    return self.bad_operand(0, format!("pred with dimensions {:?}", on_true.dims));
                }
                merge(&mut dynamic, which);
                Ok(Expect::Exact(array(on_true.ty, on_true.dims.clone(), dynamic)))
            }
            _ => {
                // clamp: the bounds may be scalars.
                self.count(3)?;
                let middle = self.array_of(1, "an array of numbers or pred", |t| {
                    t.is_int() || t.is_float() || t == HloType::Pred
                })?;
                let mut dynamic = flags(middle);
                for i in [0, 2] {
                    let bound = self.array(i)?;
                    if bound.ty != middle.ty || bound.rank() != 0 && bound.dims != middle.dims {
                        return self.bad_operand(i, format!("{middle} or a scalar of its type"));
                    }
                    merge(&mut dynamic, bound);
                }
                Ok(Expect::Exact(array(middle.ty, middle.dims.clone(), dynamic)))
            }
        }
    }
}

fn merge(dynamic: &mut [bool], other: &ArrayShape) {
    for (d, flag) in dynamic.iter_mut().enumerate() {
        *flag |= other.is_dynamic(d);
    }
}
