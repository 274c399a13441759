//! One compute instruction to its records. In: its columns. Out: the layout struct of its opcode, filled.
//! Operand order (inputs): TensorTensor lhs, rhs; CopyPredicated predicate, data; Matmult moving, weights; Activation
//! source and optionally a bias per partition; TensorScalar source and optionally scalars per partition in place of
//! the immediates. An Iota counts its destination's elements unless it has an input, whose pattern then gives steps
//! and counts. Facts: `spec/isa_compute.md 3..6, 12`.

use super::encode_records::{Out, Side, View, split_events};
use murre_components::bir::*;
use murre_components::diag::codes::lower;
use murre_components::ids::ApId;
use murre_components::isa::{self, Bias, Events, Fault, Imm, Tensor};

/// Packs the free dimensions into slots, fastest first; dimensions of one element are dropped except the `keep`
/// innermost.
#[inline]
fn tensor<const N: usize>(side: &Side<'_>, keep: usize) -> Result<Tensor<N>, Fault> {
    let mut out = Tensor::<N>::point(side.addr()?);
    let mut slot = 0;
    for (depth, p) in side.pattern.0.iter().skip(1).rev().enumerate() {
        if p.num == 1 && depth >= keep {
            continue;
        }
        if slot == N {
            return Err(Fault::new(
                &lower::ENCODE_PATTERN,
                0,
                slot as i64 + 1,
                "no more dimensions than the slot has",
            ));
        }
        if p.num != 1 {
            out.step[slot] = i16::try_from(p.step)
                .map_err(|_| Fault::new(&lower::ENCODE_PATTERN, 0, i64::from(p.step), "a step of 16 bits"))?;
            out.num[slot] = match u16::try_from(p.num) {
                Ok(n) if n != 0 => n,
                _ => {
                    return Err(Fault::new(
                        &lower::ENCODE_PATTERN,
                        0,
                        i64::from(p.num),
                        "a count of 1..65535",
                    ));
                }
            };
        }
        slot += 1;
    }
    Ok(out)
}

/// Tile group code (`spec/isa_compute.md 3.2`).
pub fn group(start: u32, size: u32) -> u8 {
    match (size, start) {
        (0..=32, s) => 1 << (s / 32).min(3),
        (33..=64, 0) => 0x03,
        (33..=64, 64) => 0x0C,
        _ => 0x0F,
    }
}

/// First partition that an address word names; 0 where a register holds it.
pub fn start_partition(word: u32) -> u32 {
    match word {
        w if w & 0x8000_0000 != 0 => 0,
        w if w & 0x0200_0000 != 0 => (w & 0x01FF_FFFF) >> 15,
        w => w >> 18,
    }
}

/// Whether an ALU operator is a bit operation, which has records of its own (bypass has both; it counts as arithmetic).
fn bitvec(op: u8) -> bool {
    op != 0 && isa::alu::BITVEC.contains(&op)
}

/// Stores the records of instruction `row`.
pub fn emit(v: &View<'_>, row: usize, op: Opcode, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let (o, a) = (v.operands[row], &v.args[row]);
    if op == Opcode::LoadActFuncSet {
        out.put(&isa::LoadActFuncSet { set: a.op0 }, &e, &[]);
        return Ok(());
    }
    let missing = || Fault::new(&lower::ENCODE_UNSUPPORTED, 0, op as i64, "an instruction with its operands");
    let input = |k: usize| if k < o.inputs as usize { v.side(o.input(k)) } else { Err(missing()) };
    let d = if o.outputs == 0 { return Err(missing()) } else { v.side(o.output(0))? };
    let channels = d.channels();
    let arch_imm = |bit: u8, reg, literal: u32, scalar: Option<ApId>| -> Result<Imm<u32>, Fault> {
        if a.mode & bit != 0 {
            Ok(Imm::Register(v.colour(reg)?))
        } else if let Some(ap) = scalar {
            Ok(Imm::Pointer(v.side(ap)?.addr()?))
        } else {
            Ok(Imm::Literal(literal))
        }
    };
    let extra = |k: usize| (k < o.inputs as usize).then(|| o.input(k));
    match op {
        Opcode::TensorTensor | Opcode::CopyPredicated => {
            let (x, y) = (input(0)?, input(1)?);
            let opcode = match op {
                Opcode::CopyPredicated if y.tag() == d.tag() => isa::TensorTensorOp::CopyPredicated,
                Opcode::CopyPredicated => isa::TensorTensorOp::CopyPredicatedCast,
                _ if bitvec(a.op0) => isa::TensorTensorOp::TensorTensorBitvec,
                _ => isa::TensorTensorOp::TensorTensor,
            };
            let i = isa::TensorTensor {
                opcode,
                src0_dtype: x.tag(),
                src1_dtype: y.tag(),
                out_dtype: d.tag(),
                op: a.op0,
                channels,
                src0: tensor(&x, 0)?,
                src1: tensor(&y, 0)?,
                dst: tensor(&d, 0)?,
            };
            out.put(&i, &e, &[(0x10, x.word), (0x20, y.word), (0x30, d.word)]);
        }
        Opcode::TensorScalar => {
            let x = input(0)?;
            let regs = v.regs[row];
            let i = isa::TensorScalar {
                opcode: if a.dtype == 1 {
                    isa::TensorScalarOp::TensorScalarBitvec
                } else {
                    isa::TensorScalarOp::TensorScalar
                },
                cmd: 0,
                src: tensor(&x, 0)?,
                src_dtype: x.tag(),
                out_dtype: d.tag(),
                channels,
                op0: a.op0,
                op1: a.op1,
                reverse: a.mode & 3,
                imm0: arch_imm(InstArgs::IMM0_REG, regs.src0, a.imm0, extra(1))?,
                imm1: arch_imm(InstArgs::IMM1_REG, regs.src1, a.imm1, extra(2))?,
                dst: tensor(&d, 0)?,
            };
            let mut words = [(0x10, x.word), (0x30, d.word), (0, 0), (0, 0)];
            let mut n = 2;
            for (offset, imm) in [(0x28, i.imm0), (0x2C, i.imm1)] {
                if let Imm::Pointer(p) = imm {
                    words[n] = (offset, p.word());
                    n += 1;
                }
            }
            out.put(&i, &e, &words[..n]);
        }
        Opcode::TensorReduce | Opcode::TensorCopy | Opcode::Reciprocal => {
            let x = input(0)?;
            let reduce = op == Opcode::TensorReduce;
            let keep =
                if x.head.flags & ApHead::KEEP_DIMS != 0 { a.op1.saturating_sub(1) as usize } else { 0 };
            let opcode = match op {
                Opcode::Reciprocal => isa::TensorReduceOp::Reciprocal,
                Opcode::TensorReduce if a.dtype == 1 => isa::TensorReduceOp::TensorReduceBitvec,
                Opcode::TensorReduce => isa::TensorReduceOp::TensorReduce,
                _ if x.tag() == d.tag() => isa::TensorReduceOp::Copy,
                _ => isa::TensorReduceOp::Cast,
            };
            let i = isa::TensorReduce {
                opcode,
                src: tensor(&x, keep)?.into(),
                src_dtype: x.tag(),
                out_dtype: d.tag(),
                channels,
                negate: if reduce { a.mode & 1 } else { 0 },
                op: if reduce { a.op0 } else { 0 },
                axis: if reduce { a.op1 } else { 0 },
                mask: 0,
                dst: tensor(&d, 0)?.into(),
            };
            out.put(&i, &e, &[(0x0C, x.word), (0x2C, d.word)]);
        }
        Opcode::Activation => {
            let x = input(0)?;
            let bias = extra(1).map(|ap| v.side(ap)).transpose()?;
            let i = isa::Activate {
                cmd: a.op1,
                src: tensor(&x, 0)?,
                src_dtype: x.tag(),
                bias_dtype: bias.as_ref().map_or(0x0A, Side::tag),
                out_dtype: d.tag(),
                channels,
                func: a.op0,
                scale: Imm::Literal(a.imm0),
                bias: Bias(match &bias {
                    Some(b) => Imm::Pointer(b.addr()?),
                    None => Imm::Literal(a.imm1),
                }),
                alpha: Imm::Literal(0),
                dst: tensor(&d, 0)?,
            };
            match &bias {
                Some(b) => out.put(&i, &e, &[(0x10, x.word), (0x28, b.word), (0x30, d.word)]),
                None => out.put(&i, &e, &[(0x10, x.word), (0x30, d.word)]),
            }
        }
        Opcode::Memset => {
            let dst: Tensor<4> = tensor(&d, 0)?;
            let i = isa::Memset {
                opcode: isa::MemsetOp::Memset,
                count: dst.elements() as u32,
                dtype: d.tag(),
                channels,
                value: a.imm0,
                dst,
            };
            out.put(&i, &e, &[(0x2C, d.word)]);
        }
        Opcode::Iota => {
            let dst: Tensor<4> = tensor(&d, 0)?;
            let (steps, counts) = match extra(0) {
                Some(ap) => {
                    let t: Tensor<4> = tensor(&Side { word: 0, ..v.side(ap)? }, 0)?;
                    (t.step, t.num)
                }
                None => match u16::try_from(dst.elements()) {
                    Ok(n) => ([1; 4], [n, 1, 1, 1]),
                    Err(_) => running(&dst)?,
                },
            };
            let i = isa::Iota {
                base: a.imm0 as i32,
                steps,
                counts,
                out_dtype: d.tag(),
                channels,
                multiplier: a.imm1 as i32,
                dst,
            };
            out.put(&i, &e, &[(0x2C, d.word)]);
        }
        Opcode::Gather => {
            let (table, index) = (input(0)?, input(1)?);
            let (wait, update) = split_events(e);
            let load = isa::PoolBufferLoad {
                src: tensor(&table, 0)?,
                dtype: table.tag(),
                channels,
                start: 0,
                mask: POOL_BUFFER_MASK,
            };
            // Indices are clamped before, so that none misses.
            let gather = isa::GatherBuffer {
                index: tensor(&index, 0)?,
                index_dtype: index.tag(),
                out_dtype: d.tag(),
                channels,
                miss: 0,
                free_buffer: 1,
                immediate: 0,
                dst: tensor(&d, 0)?,
            };
            out.put(&load, &wait, &[(0x0C, table.word)]);
            out.put(&gather, &update, &[(0x0C, index.word), (0x2C, d.word)]);
        }
        Opcode::Matmult => {
            let (x, w) = (input(0)?, input(1)?);
            let (wait, update) = split_events(e);
            let weights: Tensor<3> = tensor(&w, 0)?;
            let rows = w.channels();
            let columns = weights.elements().min(255) as u8;
            let row_group = group(start_partition(w.word), u32::from(rows));
            let column_group = if a.op1 != 0 || a.dtype != 0 {
                0x0F
            } else {
                group(start_partition(d.word), u32::from(columns))
            };
            let load = isa::LoadStationary {
                weights,
                dtype: pe_tag(w.tag()),
                fp32_mode: a.dtype,
                transpose: a.op1,
                rows,
                columns,
                row_group,
                column_group,
            };
            let multiply = isa::MultiplyMoving {
                moving: tensor(&x, 0)?,
                dtype: pe_tag(x.tag()),
                fp32_mode: a.dtype,
                transpose: a.op1,
                rows,
                columns,
                out_dtype: d.tag(),
                psum: a.op0,
                row_group,
                column_group,
                zero_region: 0,
                dst: tensor(&d, 0)?,
            };
            out.put(&load, &wait, &[(0x10, w.word)]);
            out.put(&multiply, &update, &[(0x10, x.word), (0x30, d.word)]);
        }
        _ => {
            return Err(Fault::new(&lower::ENCODE_UNSUPPORTED, 0, op as i64, "an instruction with a record"));
        }
    }
    Ok(())
}

/// The pool buffer's address mask (`spec/isa_compute.md 12.3`).
const POOL_BUFFER_MASK: u32 = 0x1FF;

/// fp32r travels as fp32.
fn pe_tag(tag: u8) -> u8 {
    if tag == 0x0B { 0x0A } else { tag }
}

/// Steps that count the elements of `dst` in stream order.
fn running(dst: &Tensor<4>) -> Result<([i16; 4], [u16; 4]), Fault> {
    let (mut steps, mut faster) = ([1i16; 4], 1i64);
    for (step, num) in steps.iter_mut().zip(dst.num) {
        if num > 1 {
            *step = i16::try_from(faster)
                .map_err(|_| Fault::new(&lower::ENCODE_PATTERN, 0, faster, "a step of 16 bits"))?;
        }
        faster *= i64::from(num);
    }
    Ok((steps, dst.num))
}
