//! DMA instructions to records: triggers, inline copies (0xD4, and 0xDA behind one with a vector of offsets), loads of
//! DRAM scalars into registers. Sides: an SBUF side is an immediate on-chip address, a static DRAM side a variable and
//! an offset, a side with an offset register a table entry and the register, with its bound register enabled and loud
//! (D17). The update of an inline copy is its completion semaphore. Facts: `spec/isa.md 4, 5.7`, D7, D8, D9.

use super::encode_records::{Out, View};
use crate::describe::shape::{copy_shape, indexed_shape, side_base};
use murre_components::bir::*;
use murre_components::diag::codes::lower;
use murre_components::ids::{ApId, RegId};
use murre_components::isa::dma::{INDEX_GATHER, INDEX_SCATTER, RowBytes};
use murre_components::isa::event::UPDATE_INC;
use murre_components::isa::{self, Addr4, Addr8, BoundRegister, Events, Fault};

/// Stores the records of instruction `row`.
pub fn emit(v: &View<'_>, row: usize, op: Opcode, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    match op {
        Opcode::DmaTrigger => {
            let Some(queue) = v.queues.get(v.part.queue as usize + v.dma.of(row).queue.index()) else {
                return Err(Fault::new(
                    &lower::ENCODE_UNSUPPORTED,
                    0x0C,
                    i64::from(v.dma.of(row).queue.0),
                    "a queue",
                ));
            };
            out.put(&isa::DmaTrigger { queue: *queue, block: v.dma.of(row).block.0 - v.part.block }, &e, &[]);
            Ok(())
        }
        Opcode::DmaCopy => copy(v, row, e, out),
        _ => scalar(v, row, op, e, out),
    }
}

fn address_fault(ap: ApId) -> Fault {
    Fault::new(&lower::ENCODE_ADDRESS, 0, i64::from(ap.0), "an address that a DMA can carry")
}

/// Address and bound of one side.
fn address(v: &View<'_>, row: usize, ap: ApId) -> Result<(Addr8, BoundRegister), Fault> {
    let head = v.side(ap)?.head;
    let (Some(loc), Some(place)) = (v.locs.get(head.loc.index()), v.places.get(head.loc.index())) else {
        return Err(address_fault(ap));
    };
    let dynamic = head.dynamic;
    if dynamic.address.is_some() && head.kind == ApKind::Physical {
        let entry = if head.flags & ApHead::TABLE_ENTRY != 0 { head.offset } else { place.table_entry };
        if entry == u32::MAX {
            return Err(address_fault(ap));
        }
        let register = u32::from(v.colour(dynamic.address)?);
        let bound = match v.regs[row].src1 {
            r if r.is_some() => BoundRegister::checked(u32::from(v.colour(r)?), false)?,
            _ => BoundRegister::NONE,
        };
        return Ok((Addr8::table_register(entry, register, v.wide(dynamic.address))?, bound));
    }
    let (var, base) = side_base(head, loc, place).ok_or_else(|| address_fault(ap))?;
    let addr = if var == u32::MAX { Addr8::immediate(u64::from(base))? } else { Addr8::variable(var, base)? };
    Ok((addr, BoundRegister::NONE))
}

fn copy(v: &View<'_>, row: usize, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let o = v.operands[row];
    if o.outputs == 0 || o.inputs == 0 {
        return Err(Fault::new(&lower::ENCODE_UNSUPPORTED, 0, row as i64, "a copy with two sides"));
    }
    let (d, s) = (v.side(o.output(0))?, v.side(o.input(0))?);
    let (Some(dl), Some(sl)) = (v.locs.get(d.head.loc.index()), v.locs.get(s.head.loc.index())) else {
        return Err(address_fault(o.output(0)));
    };
    let index = [o.output(0), o.input(0)].into_iter().find_map(|ap| {
        match v.payloads.dynamic(v.ap.get(ap.index())?.dynamic.payload)?.kind {
            OffsetKind::Vector(index) => Some((ap, index)),
            OffsetKind::Scalar => None,
        }
    });
    let (to, from) = ((d.head, d.pattern, dl), (s.head, s.pattern, sl));
    let shape = match index {
        Some(_) => indexed_shape(to, from),
        None => copy_shape(to, from),
    };
    let Some(shape) = shape.as_ref().filter(|s| index.is_some() || s.single()) else {
        return Err(Fault::new(&lower::ENCODE_PATTERN, 0x18, row as i64, "a copy of one record"));
    };
    let mut cut = None;
    shape.cuts(|c| cut = Some(c));
    let Some(c) = cut else { return Err(address_fault(o.output(0))) };
    let ((src, src_bound), (dst, dst_bound)) = (address(v, row, o.input(0))?, address(v, row, o.output(0))?);
    let completes = e.update_mode == UPDATE_INC;
    let step = |a: i64, b: i64| [a as i32, b as i32];
    let num = [c.dim0.num as u16, c.dim1.num as u16];
    let direct = isa::DmaDirect {
        priority: 0,
        semaphore: if completes { e.update_id } else { 0 },
        increment: u8::from(completes),
        dge_op: u8::from(index.is_some()),
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
        src_dtype: s.tag(),
        dst_dtype: d.tag(),
    };
    let inline = if completes { Events { update_mode: 0, update_id: 0, ..e } } else { e };
    out.put(&direct, &inline, &[]);
    if let Some((side, index)) = index {
        let scatter = side == o.output(0);
        let word = v.side(index)?.addr()?;
        let bytes = if scatter { dl.part_bytes() } else { sl.part_bytes() };
        let (low, high) = (bytes as u32, (bytes >> 32) as u32);
        let pick = |on: bool, value: u32| if on { value } else { 0 };
        let extension = isa::DmaExtension {
            flags: isa::DmaExtension::flags_of(
                if scatter { INDEX_SCATTER } else { INDEX_GATHER },
                // A scatter's offsets past the end are updates to be dropped, a gather's are our bug.
                !scatter,
                scatter,
                0,
                0,
            ),
            index_channels: 128,
            compute: v.args[row].op0,
            src_index: if scatter { Addr4::ZERO } else { word },
            dst_index: if scatter { word } else { Addr4::ZERO },
            src_bound_low: pick(!scatter, low),
            src_bound_high: pick(!scatter, high),
            dst_bound_low: pick(scatter, low),
            dst_bound_high: pick(scatter, high),
            ..isa::DmaExtension::EMPTY
        };
        let offset = if scatter { 8 } else { 4 };
        out.put(&extension, &Events::NONE, &[(offset, word.word())]);
    }
    Ok(())
}

/// TensorLoad and TensorSave of one scalar; 64-bit integers travel as two 32-bit words.
fn scalar(v: &View<'_>, row: usize, op: Opcode, e: Events, out: &mut Out<'_>) -> Result<(), Fault> {
    let (o, r) = (v.operands[row], v.regs[row]);
    let load = op == Opcode::TensorLoad;
    let (ap, reg) = if load { (o.input(0), r.dst) } else { (o.output(0), r.src0) };
    let side = v.side(ap)?;
    let data = v.colour(reg)?;
    let tag = if v.args[row].dtype != 0 { v.args[row].dtype } else { side.tag() };
    let (dtype, words) = if matches!(tag, 1 | 0x0C) { (8, 2) } else { (tag, 1) };
    let data_high = if v.wide(reg) { data + 1 } else { 0 };
    let (num, step) = ([words, 1], [1, 1]);
    if side.head.kind == ApKind::Register {
        let at = v.ap.get(ap.index()).map_or(RegId::NONE, |a| a.dynamic.address);
        let address = v.colour(at)?;
        let access = isa::RegisterAccess {
            opcode: if load {
                isa::RegisterAccessOp::TensorLoadRegister
            } else {
                isa::RegisterAccessOp::TensorSaveRegister
            },
            dtype,
            num,
            address,
            address_high: if v.wide(at) { address + 1 } else { 0 },
            step,
            data,
            data_high,
        };
        out.put(&access, &e, &[]);
    } else {
        let l = side.head.loc.index();
        let base =
            v.locs.get(l).zip(v.places.get(l)).and_then(|(loc, place)| side_base(side.head, loc, place));
        let Some((variable, offset)) = base.filter(|(var, _)| *var != u32::MAX) else {
            return Err(address_fault(ap));
        };
        let access = isa::VariableAccess {
            opcode: if load { isa::VariableAccessOp::TensorLoad } else { isa::VariableAccessOp::TensorSave },
            dtype,
            num,
            variable,
            offset,
            step,
            data,
            data_high,
        };
        out.put(&access, &e, &[]);
    }
    Ok(())
}
