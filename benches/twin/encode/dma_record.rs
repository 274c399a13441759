//! DMA instructions to records: triggers, inline copies, loads of DRAM scalars into registers.

use super::encode_records::{Out, colour, unsupported};
use crate::twin::describe::shape;
use crate::twin::graph::Register;
use crate::twin::instruction::{Address, Instruction, Operand};
use murre_components::bir::{ApHead, Opcode};
use murre_components::diag::codes::lower;
use murre_components::isa::dma::RowBytes;
use murre_components::isa::event::UPDATE_INC;
use murre_components::isa::{self, Addr8, BoundRegister, Events, Fault};
use murre_systems::describe::shape::side_base;
use std::rc::Rc;

/// Stores the record of an instruction.
pub fn emit(instruction: &Instruction, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    match instruction.op.get() {
        Opcode::DmaTrigger => {
            let transfer = instruction.transfer.as_ref();
            let trigger = transfer.and_then(|t| Some((t.queue.get()?, t.block.get()?)));
            let (queue, block) = trigger.ok_or_else(|| unsupported(instruction))?;
            out.put(&isa::DmaTrigger { queue: queue.name, block: block.number }.into(), &e, &[]);
            Ok(())
        }
        Opcode::DmaCopy => copy(instruction, e, out),
        _ => load(instruction, e, out),
    }
}

fn unaddressed() -> Fault {
    Fault::new(&lower::ENCODE_ADDRESS, 0, 0, "an address that a DMA can carry")
}

/// Variable, or `u32::MAX` for SBUF, and byte offset of a static side.
fn base(operand: &Operand) -> Option<(u32, u32)> {
    side_base(&operand.head(), &operand.location.head, &operand.location.place)
}

/// Address and bound of one side.
fn address(operand: &Operand, bound: Option<&Rc<Register>>) -> Result<(Addr8, BoundRegister), Fault> {
    let place = &operand.location.place;
    if let Address::Dynamic(d) = &*operand.address.borrow() {
        let offset = d.register.as_ref().ok_or_else(unaddressed)?;
        let entry = if operand.flags & ApHead::TABLE_ENTRY != 0 { operand.offset } else { place.table_entry };
        if entry == u32::MAX {
            return Err(unaddressed());
        }
        let register = u32::from(colour(Some(offset))?);
        let bound = BoundRegister::checked(u32::from(colour(bound)?), false)?;
        return Ok((Addr8::table_register(entry, register, offset.width == 2)?, bound));
    }
    let (var, base) = base(operand).ok_or_else(unaddressed)?;
    let addr = if var == u32::MAX { Addr8::immediate(u64::from(base))? } else { Addr8::variable(var, base)? };
    Ok((addr, BoundRegister::NONE))
}

fn copy(instruction: &Instruction, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let (to, from, _) = instruction.copy().ok_or_else(|| unsupported(instruction))?;
    let shape = shape(to, from).filter(|s| s.single());
    let shape = shape.ok_or_else(|| unsupported(instruction))?;
    let mut cut = None;
    shape.cuts(|c| cut = Some(c));
    let c = cut.ok_or_else(unaddressed)?;
    let registers = instruction.registers.borrow();
    let bound = registers.sources[1].as_ref();
    let ((src, src_bound), (dst, dst_bound)) = (address(from, bound)?, address(to, bound)?);
    let completes = e.update_mode == UPDATE_INC;
    let step = |a: i64, b: i64| [a as i32, b as i32];
    let num = [c.dim0.num as u16, c.dim1.num as u16];
    let direct = isa::DmaDirect {
        priority: 0,
        semaphore: if completes { e.update_id } else { 0 },
        increment: u8::from(completes),
        dge_op: 0,
        src,
        src_step: step(c.dim0.src.bytes, c.dim1.src.bytes),
        src_num: num,
        src_row: RowBytes::new(c.run * shape.src_bytes)?,
        src_bound,
        dst_bound,
        dst,
        dst_step: step(c.dim0.dst.bytes, c.dim1.dst.bytes),
        dst_num: num,
        dst_row: RowBytes::new(c.run * shape.dst_bytes)?,
        src_dtype: from.dtype.wire_tag(),
        dst_dtype: to.dtype.wire_tag(),
    };
    let inline = if completes { Events { update_mode: 0, update_id: 0, ..e } } else { e };
    out.put(&direct.into(), &inline, &[]);
    Ok(())
}

/// A TensorLoad of one scalar from a variable; 64-bit integers travel as two 32-bit words.
fn load(instruction: &Instruction, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let side = instruction.operands.first().ok_or_else(|| unsupported(instruction))?;
    let registers = instruction.registers.borrow();
    let to = registers.destination.as_ref();
    let data = colour(to)?;
    let given = instruction.args.get().dtype;
    let tag = if given != 0 { given } else { side.dtype.wire_tag() };
    let (dtype, words) = if matches!(tag, 1 | 0x0C) { (8, 2) } else { (tag, 1) };
    let (variable, offset) = base(side).filter(|(var, _)| *var != u32::MAX).ok_or_else(unaddressed)?;
    let access = isa::VariableAccess {
        opcode: isa::VariableAccessOp::TensorLoad,
        dtype,
        num: [words, 1],
        variable,
        offset,
        step: [1, 1],
        data,
        data_high: if to.is_some_and(|r| r.width == 2) { data + 1 } else { 0 },
    };
    out.put(&access.into(), &e, &[]);
    Ok(())
}
