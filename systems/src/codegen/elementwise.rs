//! Elementwise nodes: which engine, which record, and what HLO's semantics need beyond one record.
//!
//! * fp32 arithmetic runs on DVE, transcendental functions on ACT, 32-bit integer arithmetic on Pool (its integer band is
//!   exact), bit operators on DVE (`spec/isa_compute.md 2.7, 5.3`).
//! * The machine's max and min yield the right operand when a NaN is on the left, so the operand that is known to be a
//!   number goes left; where none is, a predicated copy puts the NaN back.

use super::emit::{Emit, operand, shape_of};
use crate::penguin::fuse_elementwise::activation_of;
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::hlo::{Direction, HloOp};
use murre_components::isa::act::ActFunc;
use murre_components::isa::alu::{AluOp, IntOp};
use murre_components::penguin::{Chain, NodeHead, NodeOperand};

use crate::staging::Operand;

fn wire(op: AluOp) -> u8 {
    op.wire(0).unwrap_or(0)
}

fn direction(sub: u8) -> Direction {
    match sub {
        0 => Direction::Eq,
        1 => Direction::Ne,
        2 => Direction::Ge,
        3 => Direction::Gt,
        4 => Direction::Le,
        _ => Direction::Lt,
    }
}

fn compare(d: Direction) -> u8 {
    wire(match d {
        Direction::Eq => AluOp::IsEqual,
        Direction::Ne => AluOp::NotEqual,
        Direction::Ge => AluOp::IsGe,
        Direction::Gt => AluOp::IsGt,
        Direction::Le => AluOp::IsLe,
        Direction::Lt => AluOp::IsLt,
    })
}

/// Operator of the fp32 path.
fn arithmetic(op: HloOp, sub: u8) -> Option<u8> {
    Some(match op {
        HloOp::Add => wire(AluOp::Add),
        HloOp::Subtract => wire(AluOp::Subtract),
        HloOp::Multiply => wire(AluOp::Mult),
        HloOp::Divide => wire(AluOp::Divide),
        HloOp::Power => wire(AluOp::Pow),
        HloOp::Maximum => wire(AluOp::Max),
        HloOp::Minimum => wire(AluOp::Min),
        HloOp::Compare => compare(direction(sub)),
        _ => return None,
    })
}

/// Operator of Pool's integer band.
fn integer(op: HloOp, sub: u8, signed: bool) -> Option<u8> {
    let op = match (op, signed) {
        (HloOp::Add, _) => IntOp::Add,
        (HloOp::Subtract | HloOp::Negate, _) => IntOp::Subtract,
        (HloOp::Multiply, true) => IntOp::Mult,
        (HloOp::Multiply, false) => IntOp::Mult,
        (HloOp::Maximum, true) => IntOp::Max,
        (HloOp::Maximum, false) => IntOp::UMax,
        (HloOp::Minimum, true) => IntOp::Min,
        (HloOp::Minimum, false) => IntOp::UMin,
        (HloOp::Compare, _) => match (direction(sub), signed) {
            (Direction::Eq, _) => IntOp::Eq,
            (Direction::Ne, _) => IntOp::Ne,
            (Direction::Ge, true) => IntOp::Ge,
            (Direction::Gt, true) => IntOp::Gt,
            (Direction::Le, true) => IntOp::Le,
            (Direction::Lt, true) => IntOp::Lt,
            (Direction::Ge, false) => IntOp::UGe,
            (Direction::Gt, false) => IntOp::UGt,
            (Direction::Le, false) => IntOp::ULe,
            (Direction::Lt, false) => IntOp::ULt,
        },
        _ => return None,
    };
    Some(op.wire())
}

fn bitwise(op: HloOp) -> Option<u8> {
    Some(wire(match op {
        HloOp::And => AluOp::BitwiseAnd,
        HloOp::Or => AluOp::BitwiseOr,
        HloOp::Xor => AluOp::BitwiseXor,
        HloOp::ShiftLeft => AluOp::LogicalShiftLeft,
        HloOp::ShiftRightLogical => AluOp::LogicalShiftRight,
        HloOp::ShiftRightArithmetic => AluOp::ArithShiftRight,
        _ => return None,
    }))
}

fn function(op: HloOp) -> Option<u8> {
    Some(
        match op {
            HloOp::Exponential => ActFunc::Exp,
            HloOp::Log => ActFunc::Ln,
            HloOp::Tanh => ActFunc::Tanh,
            HloOp::Logistic => ActFunc::Sigmoid,
            HloOp::Sqrt => ActFunc::Sqrt,
            HloOp::Rsqrt => ActFunc::Rsqrt,
            HloOp::Sine => ActFunc::Sin,
            HloOp::Erf => ActFunc::Erf,
            HloOp::Sign => ActFunc::Sign,
            HloOp::Abs => ActFunc::Abs,
            HloOp::IsFinite => ActFunc::IsFinite,
            // Only of a number and 1: stage `legalize` leaves no other.
            HloOp::Atan2 => ActFunc::Arctan,
            _ => return None,
        }
        .code(),
    )
}

/// The fp32 value of an element's bits.
fn as_f32(bits: u32, dtype: DType) -> f32 {
    match dtype {
        DType::Bf16 => f32::from_bits(bits << 16),
        DType::F16 => half::f16::from_bits(bits as u16).to_f32(),
        DType::U8 => bits as u8 as f32,
        DType::I8 => bits as u8 as i8 as f32,
        DType::U16 => bits as u16 as f32,
        DType::I16 => bits as u16 as i16 as f32,
        _ => f32::from_bits(bits),
    }
}

fn dtype_of(o: &NodeOperand) -> DType {
    match o {
        NodeOperand::Access(a) => a.dtype,
        NodeOperand::Splat(_, d) | NodeOperand::Scalar(_, d) => *d,
    }
}

/// Emits an elementwise node. `false` if no engine does it.
pub fn elementwise(e: &mut Emit, head: &NodeHead, operands: &[NodeOperand]) -> bool {
    let Some(out) = operands.first().and_then(|o| o.access()).map(operand) else { return false };
    let Some(first) = operands.get(1) else { return false };
    match head.op {
        HloOp::Select => {
            return operands.len() == 4 && select(e, &out, &operands[1], &operands[2], &operands[3]);
        }
        HloOp::RoundNearestEven => {
            let source = e.spread(first, &out);
            round_nearest_even(e, &out, &source);
            return true;
        }
        HloOp::Convert | HloOp::Copy => {
            let source = e.spread(first, &out);
            e.tensor_copy(&out, &source);
            return true;
        }
        _ => {}
    }
    let dtype = dtype_of(first);
    if matches!(dtype, DType::I32 | DType::U32) {
        match (head.op, operands.get(2)) {
            (HloOp::Abs | HloOp::Sign, _) => {
                let x = e.spread(first, &out);
                magnitude_or_sign(e, head.op, dtype, &out, &x);
                return true;
            }
            (HloOp::Divide | HloOp::Remainder, Some(second)) => {
                let (x, y) = (e.spread(first, &out), e.spread(second, &out));
                divide(e, head.op == HloOp::Remainder, dtype, &out, &x, &y);
                return true;
            }
            _ => {}
        }
    }
    if matches!(dtype, DType::I32 | DType::U32) && integer(head.op, head.sub, dtype == DType::I32).is_some() {
        return integers(e, head, &out, operands, dtype);
    }
    if let Some(op) = bitwise(head.op) {
        return bits(e, op, &out, operands);
    }
    match head.op {
        HloOp::Not => {
            // pred is a byte holding 0 or 1; u8 itself has no `not` here.
            let mask = if dtype == DType::U8 { 1 } else { u32::MAX };
            let a = e.spread(first, &out);
            e.tensor_scalar_bits(wire(AluOp::BitwiseXor), mask, &out, &a);
            true
        }
        HloOp::Negate => {
            let a = e.spread(first, &out);
            e.tensor_scalar(wire(AluOp::Mult), -1.0, false, &out, &a);
            true
        }
        op => {
            if let Some(code) = function(op) {
                let a = e.spread(first, &out);
                e.activation(code, &out, &a);
                return true;
            }
            match (arithmetic(op, head.sub), operands.get(2)) {
                (Some(code), Some(second)) => floats(e, head, code, &out, first, second),
                _ => false,
            }
        }
    }
}

/// Steps with constants in one record, or a function with its scale and bias.
pub fn chain(e: &mut Emit, c: &Chain, out: &Operand, source: &Operand) -> bool {
    if let Some(function_op) = c.function {
        let (Some(code), Some((scale, bias))) = (function(function_op), activation_of(&c.steps)) else {
            return false;
        };
        e.scaled_activation(code, scale, bias, out, source);
        return true;
    }
    let [a, b] = c.steps.as_slice() else { return false };
    let (Some(first), Some(second)) = (arithmetic(a.op, 0), arithmetic(b.op, 0)) else { return false };
    e.tensor_scalars([(first, a.constant, a.reversed), (second, b.constant, b.reversed)], out, source);
    true
}

/// To the nearest whole number, ties to even: the cast to integers does that for everything that has a fraction. The
/// sign of a zero is the operand's.
fn round_nearest_even(e: &mut Emit, out: &Operand, x: &Operand) {
    let (parts, free) = shape_of(out);
    let wide = e.temp(DType::F32, parts, free);
    e.tensor_copy(&wide, x);
    let whole = e.temp(DType::I32, parts, free);
    e.tensor_copy(&whole, &wide);
    let near = e.temp(DType::F32, parts, free);
    e.tensor_copy(&near, &whole);
    let bits = |o: &Operand| Operand { dtype: DType::U32, ..o.clone() };
    let sign = e.temp(DType::U32, parts, free);
    e.tensor_scalar_bits(wire(AluOp::BitwiseAnd), 0x8000_0000, &sign, &bits(&wide));
    e.tensor_tensor(EngineId::Dve, wire(AluOp::BitwiseOr), &bits(&near), &bits(&near), &sign);
    // From 2^23 on every number is whole; infinities and NaN stay too.
    let size = e.temp(DType::F32, parts, free);
    e.tensor_scalar(wire(AluOp::Abs), 0.0, false, &size, &wide);
    let small = e.temp(DType::U8, parts, free);
    e.tensor_scalar(wire(AluOp::IsLt), 8_388_608.0, false, &small, &size);
    e.copy_predicated(&wide, &small, &near);
    e.tensor_copy(out, &wide);
}

/// Absolute value (which wraps for the smallest integer) or sign of 32-bit integers.
fn magnitude_or_sign(e: &mut Emit, op: HloOp, dtype: DType, out: &Operand, x: &Operand) {
    let (signed, pool) = (dtype == DType::I32, EngineId::Pool);
    let limit = |e: &mut Emit, value: i32| {
        let splat = NodeOperand::Splat(value as u32, dtype);
        e.spread(&splat, out)
    };
    let (parts, free) = shape_of(out);
    match (op, signed) {
        (HloOp::Abs, false) => e.tensor_copy(out, x),
        (HloOp::Abs, true) => {
            let zero = limit(e, 0);
            let negated = e.temp(dtype, parts, free);
            e.tensor_tensor(pool, IntOp::Subtract.wire(), &negated, &zero, x);
            e.tensor_tensor(pool, IntOp::Max.wire(), out, x, &negated);
        }
        (_, false) => {
            let one = limit(e, 1);
            e.tensor_tensor(pool, IntOp::UMin.wire(), out, x, &one);
        }
        (_, true) => {
            let (one, minus) = (limit(e, 1), limit(e, -1));
            let below = e.temp(dtype, parts, free);
            e.tensor_tensor(pool, IntOp::Min.wire(), &below, x, &one);
            e.tensor_tensor(pool, IntOp::Max.wire(), out, &below, &minus);
        }
    }
}

/// HLO's quotient is all ones and its remainder the dividend where the divisor is 0; the machine gives 0 for both.
fn divide(e: &mut Emit, remainder: bool, dtype: DType, out: &Operand, x: &Operand, y: &Operand) {
    let (op, modulo) =
        if dtype == DType::I32 { (IntOp::Divide, IntOp::Mod) } else { (IntOp::UDivide, IntOp::UMod) };
    let (parts, free) = shape_of(out);
    let zero = e.spread(&NodeOperand::Splat(0, dtype), out);
    let special = if remainder { x.clone() } else { e.spread(&NodeOperand::Splat(u32::MAX, dtype), out) };
    let none = e.temp(dtype, parts, free);
    e.tensor_tensor(EngineId::Pool, IntOp::Eq.wire(), &none, y, &zero);
    let op = if remainder { modulo } else { op };
    e.tensor_tensor(EngineId::Pool, op.wire(), out, x, y);
    e.copy_predicated(out, &none, &special);
}

fn floats(e: &mut Emit, head: &NodeHead, op: u8, out: &Operand, a: &NodeOperand, b: &NodeOperand) -> bool {
    let order_matters = matches!(head.op, HloOp::Maximum | HloOp::Minimum);
    let clean = (head.flags & NodeHead::CLEAN0 != 0, head.flags & NodeHead::CLEAN1 != 0);
    // max and min: the number goes left.
    let (a, b) = if order_matters && !clean.0 && clean.1 { (b, a) } else { (a, b) };
    match (a, b) {
        (NodeOperand::Access(x), NodeOperand::Splat(bits, d)) => {
            e.tensor_scalar(op, as_f32(*bits, *d), false, out, &operand(x));
        }
        (NodeOperand::Splat(bits, d), NodeOperand::Access(x)) => {
            e.tensor_scalar(op, as_f32(*bits, *d), true, out, &operand(x));
        }
        _ => {
            let x = e.spread(a, out);
            let y = e.spread(b, out);
            e.tensor_tensor(EngineId::Dve, op, out, &x, &y);
            if order_matters && !clean.0 && !clean.1 && !x.dtype.is_int() {
                let (parts, free) = shape_of(out);
                let mask = e.temp(DType::U8, parts, free);
                e.tensor_tensor(EngineId::Dve, wire(AluOp::NotEqual), &mask, &x, &x);
                e.copy_predicated(out, &mask, &x);
            }
        }
    }
    true
}

fn integers(e: &mut Emit, head: &NodeHead, out: &Operand, operands: &[NodeOperand], dtype: DType) -> bool {
    let Some(op) = integer(head.op, head.sub, dtype == DType::I32) else { return false };
    let zero = NodeOperand::Splat(0, dtype);
    let (a, b) = match (head.op, operands.get(2)) {
        (HloOp::Negate, _) => (&zero, &operands[1]),
        (_, Some(second)) => (&operands[1], second),
        _ => return false,
    };
    let x = e.spread(a, out);
    let y = e.spread(b, out);
    if out.dtype == dtype {
        e.tensor_tensor(EngineId::Pool, op, out, &x, &y);
        return true;
    }
    // A comparison: the band writes 32-bit words, pred is a byte.
    let (parts, free) = shape_of(out);
    let words = e.temp(dtype, parts, free);
    e.tensor_tensor(EngineId::Pool, op, &words, &x, &y);
    e.tensor_copy(out, &words);
    true
}

fn bits(e: &mut Emit, op: u8, out: &Operand, operands: &[NodeOperand]) -> bool {
    let Some(second) = operands.get(2) else { return false };
    match (&operands[1], second) {
        (NodeOperand::Access(x), NodeOperand::Splat(imm, _)) => {
            e.tensor_scalar_bits(op, *imm, out, &operand(x));
        }
        (a, b) => {
            let x = e.spread(a, out);
            let y = e.spread(b, out);
            e.tensor_tensor(EngineId::Dve, op, out, &x, &y);
        }
    }
    true
}

fn select(e: &mut Emit, out: &Operand, predicate: &NodeOperand, a: &NodeOperand, b: &NodeOperand) -> bool {
    if let NodeOperand::Splat(bits, _) = predicate {
        let chosen = if bits & 0xFF != 0 { a } else { b };
        let source = e.spread(chosen, out);
        e.tensor_copy(out, &source);
        return true;
    }
    let predicate = e.spread(predicate, out);
    match b {
        NodeOperand::Splat(bits, _) => e.memset(*bits, out),
        other => {
            let source = e.spread(other, out);
            e.tensor_copy(out, &source);
        }
    }
    let data = e.spread(a, out);
    e.copy_predicated(out, &predicate, &data);
    true
}
