//! One sequencer instruction to its record.

use super::encode_records::{Out, colour, unsupported};
use crate::twin::graph::Register;
use crate::twin::instruction::{Instruction, Link};
use murre_components::bir::Opcode;
use murre_components::diag::codes::lower;
use murre_components::isa::{self, BranchTarget, CmpOp, Events, Fault, Instr};
use std::rc::Rc;

/// Stores the record of an instruction.
pub fn emit(instruction: &Instruction, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let (a, r) = (instruction.args.get(), instruction.registers.borrow());
    let [src0, src1] = r.sources.each_ref().map(Option::as_ref);
    let dst = r.destination.as_ref();
    let wide = |r: Option<&Rc<Register>>| r.is_some_and(|r| r.width == 2);
    let mut e = e;
    let op = instruction.op.get();
    let instr: Instr = match op {
        Opcode::AllEngineBarrier => isa::Bare { opcode: isa::BareOp::AllEngineBarrier }.into(),
        Opcode::Exit => isa::Exit {}.into(),
        Opcode::Drain => isa::Drain { count: 1 }.into(),
        Opcode::GroupResetSemaphores => {
            isa::GroupResetSemaphores { kind: 1, first: a.imm0 as u8, last: a.imm1 as u8, mask: [0; 8] }
                .into()
        }
        Opcode::EventSemaphore => {
            let two = a.op0 >= 2;
            let i = isa::EventSemaphore {
                wait1_mode: if two { a.imm0 as u8 } else { 0 },
                wait1_id: if two { (a.imm0 >> 8) as u8 } else { 0 },
                update_mode: e.update_mode,
                update_id: e.update_id,
                wait1_value: if two { a.imm1 } else { 0 },
                update_value: if e.update_uses_value() { e.value } else { 0 },
            };
            let value = if e.wait_uses_value() { e.value } else { 0 };
            e = Events { update_mode: 0, update_id: 0, value, ..e };
            i.into()
        }
        Opcode::RegisterAlu => {
            // A 32-bit operation on a pair works on its low lane.
            let high = |pair, low: u8| if pair && a.dtype == 1 { low + 1 } else { 0 };
            let immediate = a.mode == 1;
            let (left, to) = (colour(src0)?, colour(dst)?);
            let right = if immediate { 0 } else { colour(src1)? };
            isa::RegisterAlu {
                op: a.op0,
                dtype: a.dtype,
                source: a.mode & 1,
                dst_dtype: 0,
                src0: left,
                src0_high: high(wide(src0), left),
                src1: right,
                src1_high: if immediate { 0 } else { high(wide(src1), right) },
                dst: to,
                dst_high: high(wide(dst), to),
                imm: if immediate { u64::from(a.imm0) | u64::from(a.imm1) << 32 } else { 0 },
            }
            .into()
        }
        Opcode::RegisterMove => {
            let (wide, immediate) = (wide(dst), a.mode == 1);
            let lanes = |low: u8| [low, if wide { low + 1 } else { 0 }, 0, 0, 0, 0, 0, 0];
            isa::RegisterMove {
                count: 1 + u8::from(wide),
                dtype: a.dtype,
                source: a.mode & 1,
                src: if immediate { [0; 8] } else { lanes(colour(src0)?) },
                dst: lanes(colour(dst)?),
                imm: if immediate {
                    [a.imm0, if wide { a.imm1 } else { 0 }, 0, 0, 0, 0, 0, 0]
                } else {
                    [0; 8]
                },
            }
            .into()
        }
        Opcode::CompareAndBranch | Opcode::UnconditionalBranch => {
            let refused = |found| Fault::new(&lower::ENCODE_BRANCH, 0x30, found, "a branch to a label");
            let label = if let Link::Target(label) = &instruction.link { label.label() } else { None };
            let stream = instruction.engine.get().stream().unwrap_or(0);
            let at = label.ok_or_else(|| refused(0))?.at.get()[stream];
            let target = BranchTarget(u64::from(at));
            if op == Opcode::UnconditionalBranch {
                isa::Branch { compare: 0, dtype: 0, imm: 0, left: 0, right: 0, target }.into()
            } else {
                let register = a.op0 >= 6;
                let compare = CmpOp::ALL.get(a.op0 as usize % 6).filter(|_| a.op0 < 12);
                isa::Branch {
                    compare: compare.ok_or_else(|| refused(i64::from(a.op0)))?.wire(register),
                    dtype: a.dtype,
                    imm: if register { 0 } else { a.imm0 },
                    left: colour(src0)?,
                    right: if register { colour(src1)? } else { 0 },
                    target,
                }
                .into()
            }
        }
        _ => return Err(unsupported(instruction)),
    };
    out.put(&instr, &e, &[]);
    Ok(())
}
