//! Elementwise operations on arrays, a block of lanes at a time: load the operands, compute, store. Operands have the
//! extents of the result or are scalars, whose one element stands for all. What only chooses or flips bits (select,
//! and the sign operations of IEEE-like types) never leaves the words, so that a NaN keeps its payload.

use super::complex::{complex_binary, complex_to_float, complex_unary};
use super::lanes::{self, BLOCK, Kind, Lane, kind};
use super::scalar::{self, Rule};
use super::tensor::{Data, Tensor, Word, on_words};
use crate::array::float::reduce_precision;
use murre_components::dtype::HloType;
use murre_components::hlo::{Direction, HloOp};

/// Applies `rule` to `n` elements of the operands; the result has the type `to`. `None`: not computed.
pub(crate) fn apply(rule: Rule, args: &[&Tensor], to: HloType, n: usize) -> Option<Data> {
    let from = args.first()?.ty;
    match (rule, args) {
        (Rule::Plain(HloOp::Select), [which, yes, no]) => Some(select(which, yes, no, n)),
        (Rule::Plain(HloOp::Clamp), [low, x, high]) => clamp(low, x, high, n),
        (Rule::Plain(HloOp::Copy | HloOp::Real), [a]) if a.ty == to => Some(a.data.clone()),
        (Rule::Plain(HloOp::Convert), [a]) => Some(convert(a, to)),
        (Rule::Plain(HloOp::Complex), [re, im]) => {
            Some(two(re, im, to, n, |a: &[f64], b: &[f64], out: &mut [[f64; 2]]| {
                out.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = [*a, *b]);
            }))
        }
        (Rule::Plain(HloOp::StochasticConvert), [a, random]) if a.ty.is_float() && to.is_int() => {
            let (values, words) = (lanes::all::<f64>(a), lanes::all::<i64>(random));
            let bits = random.ty.bits();
            let rounded = values.iter().zip(words).map(|(x, r)| scalar::stochastic(*x, r as u64, bits, to));
            Some(lanes::tensor(to, vec![n], &rounded.collect::<Vec<i64>>()).data)
        }
        (Rule::Plain(HloOp::IsFinite), [a]) => {
            Some(one(a, to, n, |a: &[f64], out: &mut [i64]| each(a, out, |x| x.is_finite().into())))
        }
        (Rule::Precision { exponent, mantissa }, [a]) => {
            let cut = move |x| reduce_precision(x, exponent, mantissa);
            Some(one(a, to, n, |a: &[f64], out: &mut [f64]| each(a, out, cut)))
        }
        (Rule::Plain(op @ (HloOp::Negate | HloOp::Abs)), [a]) if sign_bit(from).is_some() => {
            Some(change_sign(&a.data, op, sign_bit(from)?))
        }
        (Rule::Plain(op), [a]) => unary(op, a, to, n),
        (Rule::Plain(op), [a, b]) => binary(op, a, b, to, n),
        (Rule::Compare { direction, total }, [a, b]) => compare(direction, total, a, b, to, n),
        _ => None,
    }
}

#[inline]
fn each<A: Copy, B>(from: &[A], to: &mut [B], f: impl Fn(A) -> B) {
    from.iter().zip(to).for_each(|(x, out)| *out = f(*x));
}

/// An operand's lanes, block by block.
struct Source<'a, L> {
    tensor: &'a Tensor,
    lanes: Vec<L>,
    /// A scalar was loaded once, for every block.
    constant: bool,
}

impl<'a, L: Lane> Source<'a, L> {
    fn new(tensor: &'a Tensor, n: usize) -> Self {
        let constant = tensor.dims.is_empty();
        let mut lanes = vec![L::ZERO; n.min(BLOCK)];
        if constant && n > 0 {
            L::load(tensor, 0, &mut lanes[..1]);
            let value = lanes[0];
            lanes.fill(value);
        }
        Source { tensor, lanes, constant }
    }

    fn block(&mut self, at: usize, n: usize) -> &[L] {
        let lanes = &mut self.lanes[..n];
        if !self.constant {
            L::load(self.tensor, at, lanes);
        }
        lanes
    }
}

fn one<A: Lane, B: Lane>(a: &Tensor, to: HloType, n: usize, f: impl Fn(&[A], &mut [B])) -> Data {
    let mut source = Source::new(a, n);
    let mut out = vec![B::ZERO; n.min(BLOCK)];
    let mut data = Data::with_capacity(to, n);
    for at in (0..n).step_by(BLOCK) {
        let m = BLOCK.min(n - at);
        f(source.block(at, m), &mut out[..m]);
        B::store(to, &out[..m], &mut data);
    }
    data
}

fn two<A: Lane, B: Lane>(
    a: &Tensor,
    b: &Tensor,
    to: HloType,
    n: usize,
    f: impl Fn(&[A], &[A], &mut [B]),
) -> Data {
    let (mut left, mut right) = (Source::new(a, n), Source::new(b, n));
    let mut out = vec![B::ZERO; n.min(BLOCK)];
    let mut data = Data::with_capacity(to, n);
    for at in (0..n).step_by(BLOCK) {
        let m = BLOCK.min(n - at);
        f(left.block(at, m), right.block(at, m), &mut out[..m]);
        B::store(to, &out[..m], &mut data);
    }
    data
}

/// A function of one float on every element.
pub(crate) fn map(f: scalar::Float1, a: &Tensor, to: HloType) -> Data {
    one(a, to, a.data.len(), |a: &[f64], out: &mut [f64]| each(a, out, f))
}

fn unary(op: HloOp, a: &Tensor, to: HloType, n: usize) -> Option<Data> {
    Some(match kind(a.ty) {
        Kind::Float => {
            let f = scalar::float_unary(op)?;
            one(a, to, n, |a: &[f64], out: &mut [f64]| each(a, out, f))
        }
        Kind::Int => {
            let f = scalar::int_unary(op, a.ty)?;
            one(a, to, n, |a: &[i64], out: &mut [i64]| each(a, out, f))
        }
        Kind::Complex if kind(to) == Kind::Float => {
            let f = complex_to_float(op)?;
            one(a, to, n, |a: &[[f64; 2]], out: &mut [f64]| each(a, out, f))
        }
        Kind::Complex => {
            let f = complex_unary(op)?;
            one(a, to, n, |a: &[[f64; 2]], out: &mut [[f64; 2]]| each(a, out, f))
        }
    })
}

fn binary(op: HloOp, a: &Tensor, b: &Tensor, to: HloType, n: usize) -> Option<Data> {
    use HloOp::*;
    /// A loop with the operation inside it.
    macro_rules! tight {
        ($lane:ty, $f:expr) => {
            two(a, b, to, n, |a: &[$lane], b: &[$lane], out: &mut [$lane]| {
                out.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = $f(*a, *b))
            })
        };
    }
    Some(match (kind(a.ty), op) {
        (Kind::Float, Add) => tight!(f64, |a, b| a + b),
        (Kind::Float, Subtract) => tight!(f64, |a, b| a - b),
        (Kind::Float, Multiply) => tight!(f64, |a, b| a * b),
        (Kind::Float, Divide) => tight!(f64, |a, b| a / b),
        (Kind::Float, Maximum) => tight!(f64, scalar::maximum),
        (Kind::Float, Minimum) => tight!(f64, scalar::minimum),
        (Kind::Float, _) => {
            let f = scalar::float_binary(op)?;
            tight!(f64, f)
        }
        (Kind::Int, Add) if a.ty != HloType::Pred => tight!(i64, i64::wrapping_add),
        (Kind::Int, Subtract) if a.ty != HloType::Pred => tight!(i64, i64::wrapping_sub),
        (Kind::Int, Multiply) => tight!(i64, i64::wrapping_mul),
        (Kind::Int, And) => tight!(i64, |a, b| a & b),
        (Kind::Int, Or) => tight!(i64, |a, b| a | b),
        (Kind::Int, Xor) => tight!(i64, |a, b| a ^ b),
        (Kind::Int, _) => {
            let f = scalar::int_binary(op, a.ty)?;
            tight!(i64, f)
        }
        (Kind::Complex, _) => {
            let f = complex_binary(op)?;
            tight!([f64; 2], f)
        }
    })
}

fn compare(direction: Direction, total: bool, a: &Tensor, b: &Tensor, to: HloType, n: usize) -> Option<Data> {
    use Direction::*;
    macro_rules! tight {
        ($lane:ty, $key:expr, $op:tt) => {
            two(a, b, to, n, |a: &[$lane], b: &[$lane], out: &mut [i64]| {
                let key = $key;
                out.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = (key(*a) $op key(*b)).into())
            })
        };
    }
    macro_rules! ordered {
        ($lane:ty, $key:expr) => {
            match direction {
                Eq => tight!($lane, $key, ==),
                Ne => tight!($lane, $key, !=),
                Lt => tight!($lane, $key, <),
                Le => tight!($lane, $key, <=),
                Gt => tight!($lane, $key, >),
                Ge => tight!($lane, $key, >=),
            }
        };
    }
    let ty = a.ty;
    Some(match kind(ty) {
        Kind::Float if total => ordered!(f64, scalar::total_key),
        Kind::Float => ordered!(f64, |x: f64| x),
        Kind::Int => ordered!(i64, |x: i64| scalar::order_key(ty, x)),
        Kind::Complex => match direction {
            Eq => tight!([f64; 2], |z: [f64; 2]| z, ==),
            Ne => tight!([f64; 2], |z: [f64; 2]| z, !=),
            _ => return None,
        },
    })
}

/// `min(max(low, x), high)`.
fn clamp(low: &Tensor, x: &Tensor, high: &Tensor, n: usize) -> Option<Data> {
    let raised = binary(HloOp::Maximum, low, x, x.ty, n)?;
    let raised = Tensor::new(x.ty, vec![n], raised);
    binary(HloOp::Minimum, &raised, high, x.ty, n)
}

fn select(which: &Tensor, yes: &Tensor, no: &Tensor, n: usize) -> Data {
    fn words<W: Word>(which: &Tensor, yes: &Tensor, no: &Tensor, n: usize) -> Data {
        let Data::B1(flags) = &which.data else { return W::data(Vec::new()) };
        let (yes, no) = (W::slice(&yes.data), W::slice(&no.data));
        if which.dims.is_empty() {
            let chosen = if flags.first().is_some_and(|f| *f != 0) { yes } else { no };
            return W::data(chosen.iter().take(n).copied().collect());
        }
        let pairs = flags.iter().zip(yes.iter().zip(no));
        W::data(pairs.map(|(f, (y, n))| if *f != 0 { *y } else { *n }).collect())
    }
    fn width<W: Word>(_: &[W]) -> fn(&Tensor, &Tensor, &Tensor, usize) -> Data {
        words::<W>
    }
    on_words!(&yes.data, v => width(v))(which, yes, no, n)
}

/// The sign bit of a float type in which negation and magnitude only touch it.
fn sign_bit(ty: HloType) -> Option<u64> {
    use HloType::*;
    match ty {
        F64 => Some(1 << 63),
        F32 => Some(1 << 31),
        F16 | Bf16 => Some(1 << 15),
        F8E5M2 | F8E4M3Fn | F8E4M3 | F8E3M4 => Some(1 << 7),
        F4E2M1Fn => Some(1 << 3),
        _ => None,
    }
}

fn change_sign(data: &Data, op: HloOp, sign: u64) -> Data {
    macro_rules! on {
        ($variant:ident, $v:expr, $word:ty) => {{
            let sign = sign as $word;
            let flip = |w: &$word| if op == HloOp::Negate { w ^ sign } else { w & !sign };
            Data::$variant($v.iter().map(flip).collect())
        }};
    }
    match data {
        Data::B1(v) => on!(B1, v, u8),
        Data::B2(v) => on!(B2, v, u16),
        Data::B4(v) => on!(B4, v, u32),
        Data::B8(v) => on!(B8, v, u64),
        other => other.clone(),
    }
}

/// Another element type: floats truncate toward zero and saturate, NaN becomes 0; integers wrap; to pred it is
/// `x != 0`.
pub(crate) fn convert(a: &Tensor, to: HloType) -> Data {
    let (from, n) = (a.ty, a.data.len());
    if from == to {
        return a.data.clone();
    }
    match (kind(from), kind(to)) {
        (Kind::Float, Kind::Float) => one(a, to, n, |a: &[f64], out: &mut [f64]| out.copy_from_slice(a)),
        (Kind::Float, Kind::Int) => {
            one(a, to, n, |a: &[f64], out: &mut [i64]| each(a, out, |x| scalar::float_to_int(to, x)))
        }
        (Kind::Int, Kind::Float) => one(a, to, n, |a: &[i64], out: &mut [f64]| {
            each(a, out, |x| scalar::int_to_float(from, to, x));
        }),
        (Kind::Int, Kind::Int) => one(a, to, n, |a: &[i64], out: &mut [i64]| {
            each(a, out, |x| scalar::int_to_int(to, x));
        }),
        (Kind::Float, Kind::Complex) => {
            one(a, to, n, |a: &[f64], out: &mut [[f64; 2]]| each(a, out, |x| [x, 0.0]))
        }
        (Kind::Int, Kind::Complex) => one(a, to, n, |a: &[i64], out: &mut [[f64; 2]]| {
            each(a, out, |x| [scalar::int_to_float(from, HloType::F32, x), 0.0]);
        }),
        (Kind::Complex, Kind::Complex) => {
            one(a, to, n, |a: &[[f64; 2]], out: &mut [[f64; 2]]| out.copy_from_slice(a))
        }
        (Kind::Complex, Kind::Float) => {
            one(a, to, n, |a: &[[f64; 2]], out: &mut [f64]| each(a, out, |z| z[0]))
        }
        (Kind::Complex, Kind::Int) => one(a, to, n, |a: &[[f64; 2]], out: &mut [i64]| {
            each(a, out, |z| scalar::float_to_int(to, z[0]));
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloType::*;

    fn floats(ty: HloType, values: &[f64]) -> Tensor {
        lanes::tensor(ty, vec![values.len()], values)
    }

    fn run(op: HloOp, args: &[&Tensor], to: HloType) -> Vec<f64> {
        let n = args.iter().map(|a| a.data.len()).max().unwrap_or(0);
        let data = apply(Rule::Plain(op), args, to, n).unwrap_or(Data::B1(Vec::new()));
        lanes::all(&Tensor::new(to, vec![n], data))
    }

    #[test]
    fn each_result_is_rounded_to_its_type() {
        let (a, b) = (floats(Bf16, &[1.0, 256.0]), floats(Bf16, &[2f64.powi(-8), 1.0]));
        assert_eq!(run(HloOp::Add, &[&a, &b], Bf16), [1.0, 256.0]);
        let (a, b) = (floats(F32, &[1.0, 16777216.0]), floats(F32, &[2f64.powi(-24), 1.0]));
        assert_eq!(run(HloOp::Add, &[&a, &b], F32), [1.0, 16777216.0]);
        assert_eq!(
            run(HloOp::Multiply, &[&floats(F16, &[60000.0]), &floats(F16, &[2.0])], F16),
            [f64::INFINITY]
        );
    }

    #[test]
    fn blocks_join() {
        let values: Vec<f64> = (0..3 * BLOCK + 7).map(|i| i as f64).collect();
        let a = floats(F32, &values);
        let doubled: Vec<f64> = values.iter().map(|v| v * 2.0).collect();
        assert_eq!(run(HloOp::Add, &[&a, &a], F32), doubled);
    }

    #[test]
    fn signs_keep_a_nan_s_payload() {
        let a = Tensor::new(F32, vec![2], Data::B4(vec![0x7fa0_0001, 0x8000_0000]));
        let negated = apply(Rule::Plain(HloOp::Negate), &[&a], F32, 2);
        assert_eq!(negated, Some(Data::B4(vec![0xffa0_0001, 0])));
        assert_eq!(apply(Rule::Plain(HloOp::Abs), &[&a], F32, 2), Some(Data::B4(vec![0x7fa0_0001, 0])));
    }

    #[test]
    fn scalars_bound_a_clamp_and_the_upper_bound_wins() {
        let (low, high) =
            (Tensor::scalar(F32, super::super::tensor::Scalar::Float(2.0)), floats(F32, &[1.0, 5.0]));
        let x = floats(F32, &[3.0, 9.0]);
        assert_eq!(run(HloOp::Clamp, &[&low, &x, &high], F32), [1.0, 5.0]);
    }

    #[test]
    fn a_conversion_rounds_once() {
        // 2^24 + 1 + a bit: by way of f32 it would tie and go down.
        let a = lanes::tensor(S64, vec![1], &[(1i64 << 40) + (1 << 16) + 1]);
        assert_eq!(
            lanes::all::<f64>(&Tensor::new(F32, vec![1], convert(&a, F32))),
            [((1i64 << 40) + (1 << 17)) as f64]
        );
        let a = floats(F32, &[f64::NAN, -1.5, 1e10]);
        assert_eq!(lanes::all::<i64>(&Tensor::new(S8, vec![3], convert(&a, S8))), [0, -1, 127]);
    }
}
