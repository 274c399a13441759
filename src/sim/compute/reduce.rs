//! Reductions: along free dimensions, sliding windows, and across partitions. Facts: `spec/isa_compute.md 6.1, 6.3,
//! 6.4`. fp32 folds run left to right and start with the first element.

use super::super::memory::View;
use super::super::numerics::{bitvec, width};
use super::{Done, On, alu, cannot, same};
use murre_components::isa::*;

/// Elements that one output folds: the product of the reduced innermost counts.
fn window(nums: &[u16], axis: u8) -> usize {
    let dims = if axis >= 2 { axis as usize - 1 } else { 0 };
    nums.iter().take(dims).map(|n| *n as usize).product()
}

pub(super) fn tensor_reduce(on: &mut On<'_>, x: &TensorReduce, d: &View) -> Done {
    let Operand::Pattern(src) = &x.src else {
        return Err(cannot("a reduction of a gather"));
    };
    let v = on.view(src, x.src_dtype, x.channels)?;
    let n = window(&src.num, x.axis);
    same("kept elements and destination", v.count / n.max(1), d.count)?;
    for p in 0..x.channels as usize {
        if x.opcode == TensorReduceOp::TensorReduceBitvec {
            let bits = on.bits(&v, p)?;
            let mut out = Vec::with_capacity(d.count);
            for w in bits.chunks(n) {
                let folded = w.iter().copied().reduce(|a, b| bitvec(x.op, x.src_dtype, a, b).unwrap_or(0));
                out.push(folded.unwrap_or(0));
            }
            on.core.memory.write_bits(d, p, &out)?;
            continue;
        }
        let values = on.read(&v, p)?;
        let mut out = Vec::with_capacity(d.count);
        for w in values.chunks(n) {
            let (first, rest) = w.split_first().ok_or_else(|| cannot("an empty reduction"))?;
            let mut acc = *first;
            for e in rest {
                acc = alu(x.op, acc, *e)?;
            }
            out.push(if x.negate != 0 { -acc } else { acc });
        }
        on.write(d, p, &out)?;
    }
    Ok(())
}

pub(super) fn pool(on: &mut On<'_>, x: &Pool) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    let n = window(&x.src.num, x.axis);
    same("windows and destination", v.count / n.max(1), d.count)?;
    let op = if x.kind == 1 { 0x08 } else { 0x04 };
    for p in 0..x.channels as usize {
        let values = on.read(&v, p)?;
        let mut out = Vec::with_capacity(d.count);
        for w in values.chunks(n) {
            let (first, rest) = w.split_first().ok_or_else(|| cannot("an empty window"))?;
            let mut acc = *first;
            for e in rest {
                acc = alu(op, acc, *e)?;
            }
            out.push(if x.kind == 1 { acc } else { x.scale.value() * acc });
        }
        on.write(&d, p, &out)?;
    }
    Ok(())
}

pub(super) fn cross_reduce(on: &mut On<'_>, x: &CrossReduce) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, 1)?;
    let all = x.axis == 0;
    same("results and destination", if all { 1 } else { v.count }, d.count)?;
    if x.opcode == CrossReduceOp::CrossReduceBitvec {
        let op = match x.op {
            3 => 0x0B,
            4 => 0x0A,
            5 => 0x0C,
            other => return Err(cannot(format!("bit reduction {other}"))),
        };
        let mut out: Option<Vec<u64>> = None;
        for p in 0..x.channels as usize {
            let row = on.bits(&v, p)?;
            fold(&mut out, row, all, |a, b| bitvec(op, x.src_dtype, a, b).unwrap_or(0));
        }
        let out = out.unwrap_or_default();
        return on.core.memory.write_bits(&d, 0, &out);
    }
    let mut out: Option<Vec<f32>> = None;
    for p in 0..x.channels as usize {
        let mut row = on.read(&v, p)?;
        if x.op == 1 {
            row.iter_mut().for_each(|e| *e *= x.scale.value());
        }
        fold(&mut out, row, all, |a, b| match x.op {
            2 => {
                if a > b {
                    a
                } else {
                    b
                }
            }
            _ => a + b,
        });
    }
    debug_assert!(width(x.out_dtype) > 0);
    on.write(&d, 0, &out.unwrap_or_default())
}

/// Folds a partition's row into the result: element by element, or everything into one.
fn fold<T: Copy>(out: &mut Option<Vec<T>>, row: Vec<T>, all: bool, op: impl Fn(T, T) -> T) {
    match (out.as_mut(), all) {
        (Some(acc), true) => {
            if let Some(a) = acc.first_mut() {
                *a = row.into_iter().fold(*a, op);
            }
        }
        (Some(acc), false) => acc.iter_mut().zip(row).for_each(|(a, b)| *a = op(*a, b)),
        (None, true) => *out = Some(row.into_iter().reduce(op).into_iter().collect()),
        (None, false) => *out = Some(row),
    }
}
