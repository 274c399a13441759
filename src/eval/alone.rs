//! Operations between devices, and of asynchronous programs, on the one device that there is: one replica, one
//! partition. A collective of one participant gives its operand back; a started operation has its result at once.

use super::tensor::{Meter, Scalar, Tensor, Value};
use murre_components::dtype::HloType;
use murre_components::hlo::{HloOp, Shape};

/// `pairs` is what a permutation says of sources and targets. `None`: not such an operation. `Some(None)`: one, in a form
/// that needs other participants.
pub(crate) fn execute(
    op: HloOp,
    shape: &Shape,
    pairs: Option<&str>,
    args: &[Value],
    meter: &Meter,
) -> Option<Option<Value>> {
    use HloOp::*;
    let first = || args.first().cloned();
    let scalar = |n: i64| Value::array(Tensor::scalar(HloType::U32, Scalar::Int(n)), meter);
    Some(match op {
        PartitionId | ReplicaId => Some(scalar(0)),
        AddDependency | Domain => first(),
        AllReduce | AllReduceStart | AllGather | ReduceScatter | AllToAll | CollectiveBroadcast => {
            together(shape, args)
        }
        CollectivePermute if reaches_itself(pairs) => together(shape, args),
        // Who receives from nobody gets zeros.
        CollectivePermute => Some(zeros(shape, meter)),
        AllReduceDone => first(),
        // (operands, results, contexts ...)
        AllGatherStart | CollectivePermuteStart => {
            let received = match op {
                CollectivePermuteStart if !reaches_itself(pairs) => {
                    args.first().map(|a| zeros_like(a, meter))
                }
                _ if args.len() > 1 => Some(Value::Tuple(args.to_vec())),
                _ => first(),
            };
            let sent = if args.len() > 1 { Some(Value::Tuple(args.to_vec())) } else { first() };
            started(shape, [sent, received], &scalar)
        }
        // (target, source, context)
        CopyStart => started(shape, [first(), first()], &scalar),
        CopyDone => part(args, 0),
        AllGatherDone | CollectivePermuteDone | AsyncDone => part(args, 1),
        AsyncUpdate => first(),
        _ => return None,
    })
}

/// The operands as the result, which must have their extents: with one participant nothing is gathered or split.
fn together(shape: &Shape, args: &[Value]) -> Option<Value> {
    let value = match (shape, args) {
        (Shape::Tuple(_), parts) => Value::Tuple(parts.to_vec()),
        (_, [one]) => one.clone(),
        _ => return None,
    };
    has_shape(&value, shape).then_some(value)
}

fn has_shape(value: &Value, shape: &Shape) -> bool {
    match (value, shape) {
        (Value::Tuple(values), Shape::Tuple(shapes)) => {
            values.len() == shapes.len() && values.iter().zip(shapes).all(|(v, s)| has_shape(v, s))
        }
        (Value::Token, Shape::Token) => true,
        (value, Shape::Array(s)) => value.tensor().is_some_and(|t| {
            t.ty == s.ty
                && t.dims.len() == s.dims.len()
                && t.dims.iter().zip(&s.dims).all(|(a, b)| *a as i64 == *b)
        }),
        _ => false,
    }
}

/// A started operation: what it is about, its result, and contexts that mean nothing.
fn started(shape: &Shape, parts: [Option<Value>; 2], context: &impl Fn(i64) -> Value) -> Option<Value> {
    let Shape::Tuple(shapes) = shape else { return None };
    let mut values: Vec<Value> = parts.into_iter().collect::<Option<_>>()?;
    while values.len() < shapes.len() {
        values.push(context(0));
    }
    let known = values.iter().zip(shapes).take(2).all(|(v, s)| has_shape(v, s));
    (known && values.len() == shapes.len()).then_some(Value::Tuple(values))
}

fn part(args: &[Value], i: usize) -> Option<Value> {
    match args.first() {
        Some(Value::Tuple(parts)) => parts.get(i).cloned(),
        _ => None,
    }
}

fn zeros(shape: &Shape, meter: &Meter) -> Value {
    match shape {
        Shape::Array(a) => {
            let dims = a.dims.iter().map(|d| (*d).max(0) as usize).collect();
            Value::array(Tensor::zeros(a.ty, dims), meter)
        }
        Shape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| zeros(p, meter)).collect()),
        _ => Value::Token,
    }
}

fn zeros_like(value: &Value, meter: &Meter) -> Value {
    value.tensor().map_or(Value::Token, |t| Value::array(Tensor::zeros(t.ty, t.dims.clone()), meter))
}

/// Whether a permutation sends from participant 0 to itself. Without the list of pairs it is taken for the identity.
fn reaches_itself(pairs: Option<&str>) -> bool {
    pairs.is_none_or(|text| {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        text.contains("{0,0}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::hlo::ArrayShape;

    #[test]
    fn one_participant_gives_its_operand_back() {
        let meter = Meter::default();
        let a = Value::array(Tensor::scalar(HloType::F32, Scalar::Float(3.0)), &meter);
        let shape = Shape::Array(ArrayShape::new(HloType::F32, []));
        let run =
            |op, shape: &Shape, pairs, args: &[Value]| execute(op, shape, pairs, args, &meter).flatten();
        let first = |v: Option<Value>| v.and_then(|v| v.tensor().map(|t| t.first().float()));
        let one = std::slice::from_ref(&a);
        assert_eq!(first(run(HloOp::AllReduce, &shape, None, one)), Some(3.0));
        assert_eq!(first(run(HloOp::CollectivePermute, &shape, Some("{{0, 0}}"), one)), Some(3.0));
        assert_eq!(first(run(HloOp::CollectivePermute, &shape, Some("{{1,0}}"), one)), Some(0.0));
        let pair =
            Shape::Tuple(vec![shape.clone(), shape.clone(), Shape::Array(ArrayShape::new(HloType::U32, []))]);
        let copying = run(HloOp::CopyStart, &pair, None, one);
        assert_eq!(first(copying.and_then(|c| run(HloOp::CopyDone, &shape, None, &[c]))), Some(3.0));
        let wide = Shape::Array(ArrayShape::new(HloType::F32, [2]));
        assert!(run(HloOp::AllGather, &wide, None, one).is_none(), "two participants");
        assert!(execute(HloOp::Add, &shape, None, one, &meter).is_none());
    }
}
