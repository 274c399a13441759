//! Elementwise instructions with scalars and tensors, scans and their accumulators.
//! Facts: `spec/isa_compute.md 5, 6.6, 9.2`.

use super::super::numerics::{bitvec, cast, identity, int_band, width};
use super::{Done, On, alu, cannot, ordered, same};
use murre_components::diag::Diagnostic;
use murre_components::isa::*;

fn bits_op(op: u8, tag: u8, a: u64, b: u64) -> Result<u64, Diagnostic> {
    bitvec(op, tag, a, b).ok_or_else(|| cannot(format!("operator {op:02x} is not a bit operator")))
}

pub(super) fn tensor_scalar(on: &mut On<'_>, x: &TensorScalar) -> Done {
    use TensorScalarOp as Op;
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    let (first, second) = (x.reverse & 1 != 0, x.reverse & 2 != 0);
    if x.opcode == Op::TensorScalarBitvec {
        let imm0 = on.imm_bits(&x.imm0, x.src_dtype, x.channels)?;
        let imm1 = on.imm_bits(&x.imm1, x.src_dtype, x.channels)?;
        let swap = |r: bool, a: u64, b: u64| if r { (b, a) } else { (a, b) };
        for p in 0..x.channels as usize {
            let mut values = on.bits(&v, p)?;
            if x.op0 != 0 {
                for e in &mut values {
                    let (a, b) = swap(first, *e, imm0[p]);
                    let r = bits_op(x.op0, x.src_dtype, a, b)?;
                    let (a, b) = swap(second, r, imm1[p]);
                    *e = if x.op1 == 0 { r } else { bits_op(x.op1, x.src_dtype, a, b)? };
                }
            }
            on.core.memory.write_bits(&d, p, &values)?;
        }
        return Ok(());
    }
    let imm0 = on.imm(&x.imm0, 10, x.channels)?;
    let imm1 = on.imm(&x.imm1, 10, x.channels)?;
    for p in 0..x.channels as usize {
        let mut values = on.read(&v, p)?;
        if x.opcode == Op::TensorScalar {
            if x.op0 != 0 {
                for e in &mut values {
                    let r = ordered(x.op0, first, *e, imm0[p])?;
                    *e = if x.op1 == 0 { r } else { ordered(x.op1, second, r, imm1[p])? };
                }
            }
        } else {
            on.begin(x.cmd, v.partition + p, identity(x.op1), imm1[p]);
            let mut acc = *on.accumulator(v.partition + p);
            for e in &mut values {
                let t = alu(x.op0, *e, imm0[p])?;
                acc = alu(x.op1, acc, t)?;
                *e = if x.opcode == Op::TensorScalarCumulative { acc } else { t };
            }
            *on.accumulator(v.partition + p) = acc;
        }
        on.write(&d, p, &values)?;
    }
    Ok(())
}

pub(super) fn tensor_tensor(on: &mut On<'_>, x: &TensorTensor) -> Done {
    use TensorTensorOp as Op;
    let a = on.view(&x.src0, x.src0_dtype, x.channels)?;
    let b = on.view(&x.src1, x.src1_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("first source and destination", a.count, d.count)?;
    same("second source and destination", b.count, d.count)?;
    for p in 0..x.channels as usize {
        match x.opcode {
            Op::CopyPredicated | Op::CopyPredicatedCast => {
                let (take, data) = (on.bits(&a, p)?, on.bits(&b, p)?);
                let values: Vec<_> = take
                    .iter()
                    .zip(&data)
                    .map(|(t, v)| (*t != 0).then(|| cast(x.src1_dtype, x.out_dtype, *v)))
                    .collect();
                on.core.memory.write_some(&d, p, &values)?;
            }
            Op::TensorTensor if x.op < 0xC4 => {
                let (mut l, r) = (on.read(&a, p)?, on.read(&b, p)?);
                for (l, r) in l.iter_mut().zip(&r) {
                    *l = alu(x.op, *l, *r)?;
                }
                on.write(&d, p, &l)?;
            }
            _ => {
                let (mut l, r) = (on.bits(&a, p)?, on.bits(&b, p)?);
                for (l, r) in l.iter_mut().zip(&r) {
                    *l = if x.opcode == Op::TensorTensorBitvec {
                        bits_op(x.op, x.out_dtype, *l, *r)?
                    } else {
                        let exact = int_band(x.op, *l as u32, *r as u32);
                        exact.ok_or_else(|| cannot(format!("integer operator {:02x}", x.op)))? as u64
                    };
                }
                on.core.memory.write_bits(&d, p, &l)?;
            }
        }
    }
    Ok(())
}

pub(super) fn scalar_tensor_tensor(on: &mut On<'_>, x: &ScalarTensorTensor) -> Done {
    use ScalarTensorTensorOp as Op;
    let a = on.view(&x.src0, x.src0_dtype, x.channels)?;
    let b = on.view(&x.src1, x.src1_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("first source and destination", a.count, d.count)?;
    same("second source and destination", b.count, d.count)?;
    let (first, second) = (x.reverse & 1 != 0, x.reverse & 2 != 0);
    let imm_bits = on.imm_bits(&x.imm0, x.imm0_dtype, x.channels)?;
    let imm =
        if x.opcode == Op::ScalarTensorTensorBitvec { vec![] } else { on.imm(&x.imm0, 10, x.channels)? };
    for p in 0..x.channels as usize {
        let at = a.partition + p;
        if x.opcode == Op::ScalarTensorTensorBitvec {
            let (mut l, r) = (on.bits(&a, p)?, on.bits(&b, p)?);
            for (l, r) in l.iter_mut().zip(&r) {
                let (s, t) = if first { (imm_bits[p], *l) } else { (*l, imm_bits[p]) };
                let u = bits_op(x.op0, x.src0_dtype, s, t)?;
                let (s, t) = if second { (*r, u) } else { (u, *r) };
                *l = bits_op(x.op1, x.src0_dtype, s, t)?;
            }
            on.core.memory.write_bits(&d, p, &l)?;
            continue;
        }
        let (mut l, r) = (on.read(&a, p)?, on.read(&b, p)?);
        match x.opcode {
            Op::TensorTensorScan => {
                let mut s = imm[p];
                for (l, r) in l.iter_mut().zip(&r) {
                    let t = ordered(x.op0, first, *l, s)?;
                    s = ordered(x.op1, second, t, *r)?;
                    *l = s;
                }
            }
            Op::SelectReduce => {
                on.begin(x.cmd, at, f32::NEG_INFINITY, 0.0);
                for (l, r) in l.iter_mut().zip(&r) {
                    let take = (*l != 0.0) != first;
                    if take && x.cmd >= 2 {
                        let acc = on.accumulator(at);
                        *acc = if *acc > *r { *acc } else { *r };
                    }
                    *l = if take { *r } else { imm[p] };
                }
            }
            _ => {
                on.begin(x.cmd, at, 0.0, 0.0);
                for (l, r) in l.iter_mut().zip(&r) {
                    let t = ordered(x.op0, first, *l, imm[p])?;
                    *l = ordered(x.op1, second, t, *r)?;
                    if x.cmd >= 2 {
                        *on.accumulator(at) += *l;
                    }
                }
            }
        }
        on.write(&d, p, &l)?;
    }
    Ok(())
}

pub(super) fn tensor_scalar_addr(on: &mut On<'_>, x: &TensorScalarAddr) -> Done {
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    let mask = u64::MAX >> (64 - 8 * width(x.out_dtype));
    let imm = |on: &On<'_>, imm: &Imm<u64>, tag: u8| -> Result<Vec<u64>, Diagnostic> {
        match imm {
            Imm::Literal(b) => Ok(vec![*b; x.channels as usize]),
            Imm::Pointer(a) => on.imm_bits(&Imm::Pointer(*a), tag, x.channels),
            Imm::Register(r) => on.imm_bits(&Imm::Register(*r), tag, x.channels),
        }
    };
    let (imm0, imm1) = (imm(on, &x.imm0, x.imm0_dtype)?, imm(on, &x.imm1, x.imm1_dtype)?);
    let apply = |op: u8, a: u64, b: u64| {
        Ok(match op {
            0x00 => a,
            0x04 => a.wrapping_add(b),
            0x05 => a.wrapping_sub(b),
            0x06 => a.wrapping_mul(b),
            0x16 => ((a & mask) < (b & mask)) as u64,
            _ => return Err(cannot(format!("address operator {op:02x}"))),
        })
    };
    for p in 0..x.channels as usize {
        let mut values = on.bits(&v, p)?;
        for e in &mut values {
            let (a, b) = if x.reverse & 1 != 0 { (imm0[p], *e) } else { (*e, imm0[p]) };
            let r = apply(x.op0, a, b)?;
            let (a, b) = if x.reverse & 2 != 0 && x.op1 != 0 { (imm1[p], r) } else { (r, imm1[p]) };
            *e = apply(x.op1, a, b)? & mask;
        }
        on.core.memory.write_bits(&d, p, &values)?;
    }
    Ok(())
}
