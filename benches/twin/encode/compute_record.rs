//! One compute instruction to its records.

use super::encode_records::{Out, unsupported};
use crate::twin::instruction::{Instruction, Operand};
use murre_components::bir::Opcode;
use murre_components::diag::codes::lower;
use murre_components::isa::{self, Bias, Events, Fault, Imm, Tensor};
use murre_systems::encode::compute_record::{group, start_partition};
use murre_systems::encode::encode_records::split_events;

/// Stores the records of an instruction.
pub fn emit(instruction: &Instruction, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let a = instruction.args.get();
    match (instruction.op.get(), instruction.operands.as_slice()) {
        (Opcode::TensorTensor, [d, x, y]) => {
            let bitvec = a.op0 != 0 && isa::alu::BITVEC.contains(&a.op0);
            let i = isa::TensorTensor {
                opcode: if bitvec {
                    isa::TensorTensorOp::TensorTensorBitvec
                } else {
                    isa::TensorTensorOp::TensorTensor
                },
                src0_dtype: x.dtype.wire_tag(),
                src1_dtype: y.dtype.wire_tag(),
                out_dtype: d.dtype.wire_tag(),
                op: a.op0,
                channels: d.channels(),
                src0: tensor(x)?,
                src1: tensor(y)?,
                dst: tensor(d)?,
            };
            out.put(&i.into(), &e, &[(0x10, x.word.get()), (0x20, y.word.get()), (0x30, d.word.get())]);
        }
        (Opcode::TensorCopy, [d, x]) => {
            let same = x.dtype.wire_tag() == d.dtype.wire_tag();
            let i = isa::TensorReduce {
                opcode: if same { isa::TensorReduceOp::Copy } else { isa::TensorReduceOp::Cast },
                src: tensor(x)?.into(),
                src_dtype: x.dtype.wire_tag(),
                out_dtype: d.dtype.wire_tag(),
                channels: d.channels(),
                negate: 0,
                op: 0,
                axis: 0,
                mask: 0,
                dst: tensor(d)?.into(),
            };
            out.put(&i.into(), &e, &[(0x0C, x.word.get()), (0x2C, d.word.get())]);
        }
        (Opcode::Activation, [d, x]) => {
            let i = isa::Activate {
                cmd: a.op1,
                src: tensor(x)?,
                src_dtype: x.dtype.wire_tag(),
                bias_dtype: 0x0A,
                out_dtype: d.dtype.wire_tag(),
                channels: d.channels(),
                func: a.op0,
                scale: Imm::Literal(a.imm0),
                bias: Bias(Imm::Literal(a.imm1)),
                alpha: Imm::Literal(0),
                dst: tensor(d)?,
            };
            out.put(&i.into(), &e, &[(0x10, x.word.get()), (0x30, d.word.get())]);
        }
        (Opcode::Matmult, [d, x, w]) => {
            let (wait, update) = split_events(e);
            let weights: Tensor<3> = tensor(w)?;
            let rows = w.channels();
            let columns = weights.elements().min(255) as u8;
            let row_group = group(start_partition(w.word.get()), u32::from(rows));
            let column_group = if a.op1 != 0 || a.dtype != 0 {
                0x0F
            } else {
                group(start_partition(d.word.get()), u32::from(columns))
            };
            let load = isa::LoadStationary {
                weights,
                dtype: pe_tag(w),
                fp32_mode: a.dtype,
                transpose: a.op1,
                rows,
                columns,
                row_group,
                column_group,
            };
            let multiply = isa::MultiplyMoving {
                moving: tensor(x)?,
                dtype: pe_tag(x),
                fp32_mode: a.dtype,
                transpose: a.op1,
                rows,
                columns,
                out_dtype: d.dtype.wire_tag(),
                psum: a.op0,
                row_group,
                column_group,
                zero_region: 0,
                dst: tensor(d)?,
            };
            out.put(&load.into(), &wait, &[(0x10, w.word.get())]);
            out.put(&multiply.into(), &update, &[(0x10, x.word.get()), (0x30, d.word.get())]);
        }
        _ => return Err(unsupported(instruction)),
    }
    Ok(())
}

/// Packs the free dimensions into slots, fastest first; dimensions of one element are dropped.
#[inline]
fn tensor<const N: usize>(side: &Operand) -> Result<Tensor<N>, Fault> {
    let mut out = Tensor::<N>::point(side.addr()?);
    for (slot, p) in side.pattern.0.iter().skip(1).rev().filter(|p| p.num != 1).enumerate() {
        let fault = |found, what| Fault::new(&lower::ENCODE_PATTERN, 0, found, what);
        if slot == N {
            return Err(fault(slot as i64 + 1, "no more dimensions than the slot has"));
        }
        out.step[slot] = i16::try_from(p.step).map_err(|_| fault(i64::from(p.step), "a step of 16 bits"))?;
        out.num[slot] = match u16::try_from(p.num) {
            Ok(n) if n != 0 => n,
            _ => return Err(fault(i64::from(p.num), "a count of 1..65535")),
        };
    }
    Ok(out)
}

/// fp32r travels as fp32.
fn pe_tag(side: &Operand) -> u8 {
    let tag = side.dtype.wire_tag();
    if tag == 0x0B { 0x0A } else { tag }
}
