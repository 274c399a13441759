//! Sequencer records: register moves and arithmetic, branches, register loads and stores, semaphore resets.
//! In: a record and the core. Out: registers, and the next record when a branch is taken. Facts: `spec/isa.md 5`, D10,
//! D14. Records that wait for other actors (drain, barrier, triggers) are in `schedule`.

use super::core::Core;
use super::memory::Region;
use super::numerics::{bitvec, int_band, load, width};
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::isa::*;

/// What a sequencer record did.
pub enum Next {
    /// Go on with the next record.
    Fall,
    /// Continue at this record.
    Jump(u64),
    /// The stream ended.
    End,
}

fn domain(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::SIM_REGISTER, message)
}

/// Runs a sequencer record.
pub fn execute(core: &mut Core, engine: usize, instr: &Instr) -> Result<Next, Diagnostic> {
    match instr {
        Instr::RegisterMove(x) => register_move(core, engine, x)?,
        Instr::RegisterAlu(x) => register_alu(core, engine, x)?,
        Instr::Branch(x) => return branch(core, engine, x),
        Instr::VariableAccess(x) => {
            let load = x.opcode == VariableAccessOp::TensorLoad;
            let at = x.offset as usize;
            access(
                core,
                engine,
                Region::Var(x.variable),
                at,
                x.dtype,
                x.num,
                x.step,
                [x.data, x.data_high],
                load,
            )?;
        }
        Instr::RegisterAccess(x) => {
            let load = x.opcode == RegisterAccessOp::TensorLoadRegister;
            let address = core.registers[engine].get(x.address)? as usize;
            let (partition, offset) = (address >> 18, address & 0x3_FFFF);
            if partition >= 128 || offset >= core.memory.active {
                return Err(super::memory::range_fault(format!(
                    "register access at {address:#x} is outside SBUF"
                )));
            }
            let at = core.memory.flat(Region::Sbuf, partition, offset);
            access(core, engine, Region::Sbuf, at, x.dtype, x.num, x.step, [x.data, x.data_high], load)?;
        }
        Instr::GroupResetSemaphores(x) => {
            for id in 0..256usize {
                let hit = if x.kind == 1 {
                    (x.first as usize..=x.last as usize).contains(&id)
                } else {
                    x.mask[id / 32] >> (id % 32) & 1 == 1
                };
                if hit {
                    core.reset(id);
                }
            }
        }
        Instr::Exit(_) => return Ok(Next::End),
        Instr::Bare(x) if x.opcode == BareOp::Halt => return Ok(Next::End),
        Instr::Bare(x) if x.opcode == BareOp::NoOp => {}
        Instr::BranchHint(_) | Instr::EventSemaphore(_) | Instr::SwitchQueue(_) | Instr::ResetQueue(_) => {}
        other => {
            let what = format!("opcode {:02x} is not simulated", other.opcode());
            return Err(Diagnostic::error(&codes::SIM_RECORD, what));
        }
    }
    Ok(Next::Fall)
}

fn register_move(core: &mut Core, engine: usize, x: &RegisterMove) -> Result<(), Diagnostic> {
    let n = x.count.min(8) as usize;
    let mut words = x.imm;
    if x.source == 0 {
        for (w, id) in words.iter_mut().zip(x.src).take(n) {
            *w = core.registers[engine].get(id)?;
        }
    }
    x.dst.iter().zip(words).take(n).try_for_each(|(id, w)| core.registers[engine].set(*id, w))
}

fn register_alu(core: &mut Core, engine: usize, x: &RegisterAlu) -> Result<(), Diagnostic> {
    let r = &core.registers[engine];
    if x.dtype == 1 {
        let a = r.get_pair(x.src0, x.src0_high)?;
        let b = if x.source == 1 { x.imm } else { r.get_pair(x.src1, x.src1_high)? };
        let v = match x.op {
            0x00 => a,
            0x04 => a.wrapping_add(b),
            0x05 => a.wrapping_sub(b),
            0x06 => a.wrapping_mul(b),
            op => return Err(domain(format!("operator {op:02x} on register pairs"))),
        };
        core.registers[engine].set(x.dst, v as u32)?;
        return core.registers[engine].set(x.dst_high, (v >> 32) as u32);
    }
    if !matches!(x.dtype, 8 | 9) {
        return Err(domain(format!("register arithmetic on dtype tag {}", x.dtype)));
    }
    let a = r.get(x.src0)?;
    let b = if x.source == 1 { x.imm as u32 } else { r.get(x.src1)? };
    let signed = x.dtype == 8;
    if matches!(x.op, 0x07 | 0x1B) {
        if signed && ((a as i32) < 0 || (b as i32) <= 0) {
            return Err(domain(format!("signed division of {} by {}", a as i32, b as i32)));
        }
        if b == 0 {
            return Err(domain("division by zero"));
        }
    }
    // The integer band has each operator twice; the dtype picks signed or unsigned.
    let band = |s: u8, u: u8| int_band(if signed { s } else { u }, a, b);
    let v = match x.op {
        0x04 => band(0xC4, 0xC4),
        0x05 => band(0xC6, 0xC6),
        0x06 => band(0xC5, 0xC5),
        0x07 => Some(a / b),
        0x1B => Some(a % b),
        0x08 => band(0xCF, 0xD5),
        0x09 => band(0xD0, 0xD6),
        0x0D => Some((a != 0 && b != 0) as u32),
        0x0E => Some((a != 0 || b != 0) as u32),
        0x0F => Some(((a != 0) != (b != 0)) as u32),
        0x12 => band(0xC9, 0xC9),
        0x18 => band(0xCA, 0xCA),
        0x13 => band(0xD1, 0xD7),
        0x14 => band(0xD2, 0xD8),
        0x15 => band(0xD3, 0xD9),
        0x16 => band(0xD4, 0xDA),
        0x19 => Some(if signed { (a as i32).unsigned_abs() } else { a }),
        op => bitvec(op, 9, a as u64, b as u64).map(|v| v as u32),
    };
    let v = v.ok_or_else(|| domain(format!("operator {:02x} on registers", x.op)))?;
    core.registers[engine].set(x.dst, v)
}

fn branch(core: &Core, engine: usize, x: &Branch) -> Result<Next, Diagnostic> {
    let taken = match CmpOp::from_wire(x.compare) {
        None => true,
        Some((op, register)) => {
            let r = &core.registers[engine];
            let left = r.get(x.left)?;
            let right = if register { r.get(x.right)? } else { x.imm };
            match x.dtype {
                8 => op.holds(left as i32, right as i32),
                9 => op.holds(left, right),
                10 => op.holds(f32::from_bits(left), f32::from_bits(right)),
                other => return Err(domain(format!("a branch on dtype tag {other}"))),
            }
        }
    };
    Ok(if taken { Next::Jump(x.target.0) } else { Next::Fall })
}

/// Moves one or two elements between memory and registers. Elements of 8 bytes take both registers; narrower ones are
/// extended by their sign. Steps count elements.
fn access(
    core: &mut Core,
    engine: usize,
    region: Region,
    at: usize,
    tag: u8,
    num: [u8; 2],
    step: [i32; 2],
    data: [u8; 2],
    is_load: bool,
) -> Result<(), Diagnostic> {
    let size = width(tag);
    let count = num[0].max(1) as usize * num[1].max(1) as usize;
    if count * size.max(4) > 8 {
        return Err(domain(format!("{count} elements of {size} bytes do not fit two registers")));
    }
    let stride = if num[0] > 1 { step[0].max(1) } else { step[1].max(1) } as usize * size;
    let words = size.div_ceil(4);
    for (k, id) in data.iter().enumerate().take(count * words) {
        let from = at + k / words * stride + k % words * 4;
        let bytes = size.min(4);
        if is_load {
            let bits = load(core.memory.read(region, from, bytes)?) as u32;
            let word = match tag {
                2 => bits as i8 as i32 as u32,
                4 => bits as i16 as i32 as u32,
                _ => bits,
            };
            core.registers[engine].set(*id, word)?;
        } else {
            let word = core.registers[engine].get(*id)?;
            core.memory.write(region, from, bytes)?.copy_from_slice(&word.to_le_bytes()[..bytes]);
        }
    }
    Ok(())
}
