//! Scalar programs: a computation on scalars as a list of steps over registers, compiled once and run per element.
//!
//! A register holds the bits of a lane: an `f64`, or an `i64` extended as its type says. Every step rounds or wraps its
//! result to its type, as the same instruction on arrays would.

use super::lanes::{Kind, Lane, kind};
use super::scalar::{self, Float1, Float2, Int1, Int2, Rule};
use super::tensor::Scalar;
use crate::array::float::reduce_precision;
use murre_components::dtype::HloType;
use murre_components::hlo::HloOp;

/// A register's number.
pub(crate) type Reg = u32;

#[derive(Clone, Copy, Debug)]
enum Step {
    Float1(Float1, HloType, Reg),
    Float2(Float2, HloType, [Reg; 2]),
    Int1(Int1, HloType, Reg),
    Int2(Int2, HloType, [Reg; 2]),
    FloatCompare(fn(f64, f64) -> bool, [Reg; 2]),
    IntCompare(fn(i64, i64) -> bool, [Reg; 2]),
    Select([Reg; 3]),
    IsFinite(Reg),
    Precision(u32, u32, HloType, Reg),
    FloatToFloat(HloType, Reg),
    FloatToInt(HloType, Reg),
    IntToFloat(HloType, HloType, Reg),
    IntToInt(HloType, Reg),
}

/// A longer program is not worth compiling: it is run by the machine instead.
const MAX_STEPS: usize = 4096;

/// A compiled computation: parameters in the first registers, constants in theirs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    steps: Vec<(Step, Reg)>,
    types: Vec<HloType>,
    initial: Vec<u64>,
    pub results: Vec<Reg>,
}

/// A lane's bits.
pub(crate) fn bits(value: Scalar) -> u64 {
    match value {
        Scalar::Int(i) => i as u64,
        Scalar::Float(f) => f.to_bits(),
        Scalar::Complex([re, _]) => re.to_bits(),
    }
}

impl Program {
    /// A register for a parameter or constant; `None` for types that do not fit one.
    pub fn register(&mut self, ty: HloType, value: Scalar) -> Option<Reg> {
        if kind(ty) == Kind::Complex || self.types.len() >= 4 * MAX_STEPS {
            return None;
        }
        self.types.push(ty);
        self.initial.push(bits(value));
        Some(self.types.len() as Reg - 1)
    }

    /// A step that gives a `to`; `None` where there is no rule for it.
    pub fn step(&mut self, rule: Rule, args: &[Reg], to: HloType) -> Option<Reg> {
        if self.steps.len() >= MAX_STEPS {
            return None;
        }
        let from = *self.types.get(*args.first()? as usize)?;
        let step = match (rule, args) {
            (Rule::Plain(HloOp::Select), [which, yes, no]) => Step::Select([*which, *yes, *no]),
            (Rule::Plain(HloOp::Clamp), [low, x, high]) => {
                let raised = self.step(Rule::Plain(HloOp::Maximum), &[*low, *x], to)?;
                return self.step(Rule::Plain(HloOp::Minimum), &[raised, *high], to);
            }
            (Rule::Plain(HloOp::Convert), [a]) => match (kind(from), kind(to)) {
                (Kind::Float, Kind::Float) => Step::FloatToFloat(to, *a),
                (Kind::Float, Kind::Int) => Step::FloatToInt(to, *a),
                (Kind::Int, Kind::Float) => Step::IntToFloat(from, to, *a),
                (Kind::Int, Kind::Int) => Step::IntToInt(to, *a),
                _ => return None,
            },
            (Rule::Plain(HloOp::IsFinite), [a]) => Step::IsFinite(*a),
            (Rule::Precision { exponent, mantissa }, [a]) => Step::Precision(exponent, mantissa, to, *a),
            (Rule::Compare { direction, total }, [a, b]) => match kind(from) {
                Kind::Float => Step::FloatCompare(scalar::float_compare(direction, total), [*a, *b]),
                _ => Step::IntCompare(scalar::int_compare(direction, from), [*a, *b]),
            },
            (Rule::Plain(op), [a]) => match (kind(from), kind(to)) {
                (Kind::Float, Kind::Float) => Step::Float1(scalar::float_unary(op)?, to, *a),
                (Kind::Int, Kind::Int) => Step::Int1(scalar::int_unary(op, from)?, to, *a),
                _ => return None,
            },
            (Rule::Plain(op), [a, b]) => match (kind(from), kind(to)) {
                (Kind::Float, Kind::Float) => Step::Float2(scalar::float_binary(op)?, to, [*a, *b]),
                (Kind::Int, Kind::Int) => Step::Int2(scalar::int_binary(op, from)?, to, [*a, *b]),
                _ => return None,
            },
            _ => return None,
        };
        let out = self.register(to, Scalar::Int(0))?;
        self.steps.push((step, out));
        Some(out)
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Registers for runs, constants in place.
    pub fn registers(&self) -> Vec<u64> {
        self.initial.clone()
    }

    /// The value of a register after a run.
    pub fn value(&self, registers: &[u64], r: Reg) -> Scalar {
        let raw = registers[r as usize];
        match kind(self.types[r as usize]) {
            Kind::Int => Scalar::Int(raw as i64),
            _ => Scalar::Float(f64::from_bits(raw)),
        }
    }

    /// Runs the steps; parameters are in the first registers.
    pub fn run(&self, r: &mut [u64]) {
        let float = |r: &[u64], a: Reg| f64::from_bits(r[a as usize]);
        let int = |r: &[u64], a: Reg| r[a as usize] as i64;
        for (step, out) in &self.steps {
            r[*out as usize] = match *step {
                Step::Float1(f, ty, a) => f(float(r, a)).fit(ty).to_bits(),
                Step::Float2(f, ty, [a, b]) => f(float(r, a), float(r, b)).fit(ty).to_bits(),
                Step::Int1(f, ty, a) => f(int(r, a)).fit(ty) as u64,
                Step::Int2(f, ty, [a, b]) => f(int(r, a), int(r, b)).fit(ty) as u64,
                Step::FloatCompare(f, [a, b]) => f(float(r, a), float(r, b)).into(),
                Step::IntCompare(f, [a, b]) => f(int(r, a), int(r, b)).into(),
                Step::Select([which, yes, no]) => r[(if r[which as usize] != 0 { yes } else { no }) as usize],
                Step::IsFinite(a) => float(r, a).is_finite().into(),
                Step::Precision(e, m, ty, a) => reduce_precision(float(r, a), e, m).fit(ty).to_bits(),
                Step::FloatToFloat(ty, a) => float(r, a).fit(ty).to_bits(),
                Step::FloatToInt(ty, a) => scalar::float_to_int(ty, float(r, a)) as u64,
                Step::IntToFloat(from, to, a) => scalar::int_to_float(from, to, int(r, a)).fit(to).to_bits(),
                Step::IntToInt(ty, a) => scalar::int_to_int(ty, int(r, a)) as u64,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloType::*;

    #[test]
    fn steps_round_and_wrap_as_they_go() {
        let mut p = Program::default();
        let x = p.register(Bf16, Scalar::Float(256.0)).unwrap_or(0);
        let one = p.register(Bf16, Scalar::Float(1.0)).unwrap_or(0);
        let sum = p.step(Rule::Plain(HloOp::Add), &[x, one], Bf16).unwrap_or(0);
        let back = p.step(Rule::Plain(HloOp::Convert), &[sum], U8).unwrap_or(0);
        let more = p.step(Rule::Plain(HloOp::Add), &[back, back], U8).unwrap_or(0);
        let mut r = p.registers();
        p.run(&mut r);
        assert_eq!(p.value(&r, sum), Scalar::Float(256.0));
        assert_eq!(p.value(&r, back), Scalar::Int(255));
        assert_eq!(p.value(&r, more), Scalar::Int(254));
    }

    #[test]
    fn what_has_no_rule_is_not_compiled() {
        let mut p = Program::default();
        assert_eq!(p.register(C64, Scalar::Int(0)), None);
        let x = p.register(F32, Scalar::Float(1.0)).unwrap_or(0);
        assert_eq!(p.step(Rule::Plain(HloOp::PopulationCount), &[x], F32), None);
        for _ in 0..MAX_STEPS {
            p.step(Rule::Plain(HloOp::Negate), &[x], F32);
        }
        assert_eq!(p.step(Rule::Plain(HloOp::Negate), &[x], F32), None, "too long");
    }
}
