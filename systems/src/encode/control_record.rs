//! One sequencer instruction to its record: registers, branches, semaphores, fences. A branch target is the index of
//! the target's first record in the branch's own stream (D10). Facts: `spec/isa.md 5`, 8.2.

use super::encode_records::{Out, View};
use murre_components::bir::*;
use murre_components::diag::codes::lower;
use murre_components::isa::{self, BranchTarget, CmpOp, Events, Fault};

/// Stores the record of instruction `row`.
pub fn emit(v: &View<'_>, row: usize, op: Opcode, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let (a, r) = (&v.args[row], v.regs[row]);
    match op {
        Opcode::NoOp => out.put(&isa::Bare { opcode: isa::BareOp::NoOp }, &e, &[]),
        Opcode::AllEngineBarrier => out.put(&isa::Bare { opcode: isa::BareOp::AllEngineBarrier }, &e, &[]),
        Opcode::Exit => out.put(&isa::Exit {}, &e, &[]),
        Opcode::Drain => out.put(&isa::Drain { count: 1 }, &e, &[]),
        Opcode::GroupResetSemaphores => {
            let (first, last) = (a.imm0 as u8, a.imm1 as u8);
            out.put(&isa::GroupResetSemaphores { kind: 1, first, last, mask: [0; 8] }, &e, &[]);
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
            out.put(&i, &Events { update_mode: 0, update_id: 0, value, ..e }, &[]);
        }
        Opcode::RegisterAlu => {
            // A 32-bit operation on a pair works on its low lane.
            let high = |reg, low: u8| if v.wide(reg) && a.dtype == 1 { low + 1 } else { 0 };
            let immediate = a.mode == 1;
            let (src0, dst) = (v.colour(r.src0)?, v.colour(r.dst)?);
            let src1 = if immediate { 0 } else { v.colour(r.src1)? };
            let alu = isa::RegisterAlu {
                op: a.op0,
                dtype: a.dtype,
                source: a.mode & 1,
                dst_dtype: 0,
                src0,
                src0_high: high(r.src0, src0),
                src1,
                src1_high: if immediate { 0 } else { high(r.src1, src1) },
                dst,
                dst_high: high(r.dst, dst),
                imm: if immediate { u64::from(a.imm0) | u64::from(a.imm1) << 32 } else { 0 },
            };
            out.put(&alu, &e, &[]);
        }
        Opcode::RegisterMove => {
            let (wide, immediate) = (v.wide(r.dst), a.mode == 1);
            let lanes = |low: u8| [low, if wide { low + 1 } else { 0 }, 0, 0, 0, 0, 0, 0];
            let to = isa::RegisterMove {
                count: 1 + u8::from(wide),
                dtype: a.dtype,
                source: a.mode & 1,
                src: if immediate { [0; 8] } else { lanes(v.colour(r.src0)?) },
                dst: lanes(v.colour(r.dst)?),
                imm: if immediate {
                    [a.imm0, if wide { a.imm1 } else { 0 }, 0, 0, 0, 0, 0, 0]
                } else {
                    [0; 8]
                },
            };
            out.put(&to, &e, &[]);
        }
        Opcode::CompareAndBranch | Opcode::UnconditionalBranch => {
            let stream = v.heads[row].engine.stream().unwrap_or(0);
            let target = v.layout.target.get(a.aux as usize).and_then(|t| v.layout.targets.get(*t as usize));
            let Some(at) = target.map(|t| t[stream]).filter(|t| *t != u32::MAX) else {
                return Err(Fault::new(
                    &lower::ENCODE_BRANCH,
                    0x30,
                    i64::from(a.aux),
                    "a target in the program",
                ));
            };
            let target = BranchTarget(u64::from(at - v.part.records[stream]));
            if op == Opcode::UnconditionalBranch {
                out.put(&isa::Branch { compare: 0, dtype: 0, imm: 0, left: 0, right: 0, target }, &e, &[]);
            } else {
                let register = a.op0 >= 6;
                let Some(compare) = CmpOp::ALL.get(a.op0 as usize % 6).filter(|_| a.op0 < 12) else {
                    return Err(Fault::new(
                        &lower::ENCODE_BRANCH,
                        0x0C,
                        i64::from(a.op0),
                        "a comparison 0..11",
                    ));
                };
                let branch = isa::Branch {
                    compare: compare.wire(register),
                    dtype: a.dtype,
                    imm: if register { 0 } else { a.imm0 },
                    left: v.colour(r.src0)?,
                    right: if register { v.colour(r.src1)? } else { 0 },
                    target,
                };
                out.put(&branch, &e, &[]);
            }
        }
        _ => return Err(Fault::new(&lower::ENCODE_UNSUPPORTED, 0, op as i64, "a sequencer instruction")),
    }
    Ok(())
}
