//! Transfers: the 0xD4 record with its 0xDA extension, resolved when issued and carried out later by a queue.
//!
//! In: a record pair and the registers of the issuing engine (read at issue, D7). Out: bytes moved. A side is rows of
//! contiguous bytes at `base + i * step0 + j * step1`, steps in bytes; with an index vector `i` is replaced by the
//! i-th index. The two sides hold the same elements in the same order; differing dtypes are cast.
//! Facts: `spec/isa.md 4`, D6, D7, D9, D17. The indexed dimension is the inner one (`num[0]`), as isa.md 4.4 asks
//! when no shape register is used. Transposing forms (dge_op 2, 3) are refused.

use super::core::{Core, Registers};
use super::memory::{Memory, Region, range_fault};
use super::numerics::{alu, cast, load, narrow, widen, width};
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::isa::dma::{INDEX_BOTH, INDEX_BOUND_ERROR, INDEX_GATHER, INDEX_MODE, INDEX_NOT_UNIQUE};
use murre_components::isa::{
    Addr4, Addr8, Addr8Form, BoundRegister, DmaDirect, DmaExtension, check_transfer,
};
use murre_components::program::Program;

/// What must hold for the bytes of a side: offsets from `origin` inside `[0, bytes)`.
struct Bound {
    origin: i64,
    bytes: u64,
    quiet: bool,
}

/// One side of a transfer, registers already read.
struct Side {
    /// A variable, or SBUF with its partition stride of 0x40000.
    region: Region,
    base: i64,
    step: [i64; 2],
    num: [u64; 2],
    row: usize,
    tag: u8,
    bounds: Vec<Bound>,
    /// Byte offset of the u32 index vector in SBUF.
    index: Option<u32>,
}

/// A transfer that a queue will carry out.
pub struct Transfer {
    src: Side,
    dst: Side,
    compute: u8,
    /// Destination rows may repeat.
    repeats: bool,
    /// Semaphore and increment on completion.
    pub completion: (u8, u8),
}

fn cannot(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::SIM_RECORD, message)
}

/// Reads the registers that the record names and fixes every address.
pub fn resolve(
    p: &Program,
    registers: &Registers,
    d: &DmaDirect,
    ext: Option<&DmaExtension>,
) -> Result<Transfer, Diagnostic> {
    check_transfer(d, ext)?;
    if d.dge_op > 1 {
        return Err(cannot("transposing transfers are not simulated"));
    }
    let mut src =
        side(p, registers, &d.src, d.src_step, d.src_num, d.src_row.bytes(), d.src_dtype, d.src_bound)?;
    let mut dst =
        side(p, registers, &d.dst, d.dst_step, d.dst_num, d.dst_row.bytes(), d.dst_dtype, d.dst_bound)?;
    let mut compute = 0;
    if let Some(e) = ext {
        compute = e.compute;
        let mode = e.flags & INDEX_MODE;
        let legs = [
            (&mut src, e.src_index, e.src_bound(), mode == INDEX_GATHER || mode == INDEX_BOTH),
            (&mut dst, e.dst_index, e.dst_bound(), mode != INDEX_GATHER),
        ];
        for (side, word, bytes, indexed) in legs {
            if e.index_channels != 0 && indexed {
                side.index = Some(index_address(registers, word)?);
            }
            if bytes != 0 {
                let quiet = e.flags & INDEX_BOUND_ERROR == 0;
                side.bounds.push(Bound { origin: side.base, bytes, quiet });
            }
        }
    }
    let repeats = ext.is_none_or(|e| e.index_channels == 0 || e.flags & INDEX_NOT_UNIQUE != 0);
    Ok(Transfer { src, dst, compute, repeats, completion: (d.semaphore, d.increment) })
}

fn index_address(registers: &Registers, word: Addr4) -> Result<u32, Diagnostic> {
    let address = match (word.address(), word.register_id()) {
        (_, Some(id)) => registers.get(id)?,
        (Some(address), _) => address,
        _ => return Err(cannot("an index address of no mode")),
    };
    if address >= 1 << 18 || address % 4 != 0 {
        return Err(cannot(format!(
            "the index vector at {address:#x} is not in SBUF partition 0, 4-byte aligned"
        )));
    }
    Ok(address)
}

fn side(
    p: &Program,
    registers: &Registers,
    a: &Addr8,
    step: [i32; 2],
    num: [u16; 2],
    row: u32,
    tag: u8,
    bound: BoundRegister,
) -> Result<Side, Diagnostic> {
    if a.shape_register {
        return Err(cannot("shape registers are not simulated"));
    }
    let entry = |id: u16| {
        let t = p.table.get(id as usize);
        t.map(|t| (Region::Var(t.var), t.displacement as i64))
            .ok_or_else(|| cannot(format!("table entry {id} of {}", p.table.len())))
    };
    let (region, origin, base, wide) = match a.form {
        Addr8Form::Immediate { address } => (Region::Sbuf, 0, address as i64, false),
        Addr8Form::Register { low, .. } => (Region::Sbuf, 0, registers.get(low)? as i64, false),
        Addr8Form::Table { entry: id, offset } => {
            let (region, origin) = entry(id)?;
            (region, origin, origin.saturating_add(offset as i64), false)
        }
        Addr8Form::TableRegister { entry: id, register, wide } => {
            let (region, origin) = entry(id)?;
            let offset = if wide {
                registers.get_pair(register, register + 1)? as i64
            } else {
                registers.get(register)? as i64
            };
            (region, origin, origin.saturating_add(offset), wide)
        }
        Addr8Form::Variable { id, offset } => (Region::Var(id), 0, offset as i64, false),
    };
    if let Region::Var(id) = region {
        p.vars.get(id as usize).ok_or_else(|| cannot(format!("variable {id} of {}", p.vars.len())))?;
    }
    let bytes = match bound.register {
        Some(id) if wide => Some(registers.get_pair(id, id + 1)?),
        Some(id) => Some(registers.get(id)? as u64),
        None => None,
    };
    Ok(Side {
        region,
        base,
        step: step.map(i64::from),
        num: num.map(u64::from),
        row: row as usize,
        tag,
        bounds: bytes.map(|bytes| Bound { origin, bytes, quiet: bound.quiet }).into_iter().collect(),
        index: None,
    })
}

impl Side {
    fn bytes(&self) -> u64 {
        self.num[0] * self.num[1] * self.row as u64
    }

    /// Flat index of each row in stream order; `None` for a row that a quiet bound skips.
    fn rows(&self, memory: &Memory) -> Result<Vec<Option<usize>>, Diagnostic> {
        let indices: Option<Vec<i64>> = match self.index {
            Some(_) if self.num[0] > 4096 => return Err(cannot("more than 4096 indices")),
            Some(at) => {
                let bytes = memory.read(Region::Sbuf, at as usize, 4 * self.num[0] as usize)?;
                Some(bytes.chunks_exact(4).map(|b| load(b) as i64).collect())
            }
            None => None,
        };
        let mut out = Vec::with_capacity((self.num[0] * self.num[1]) as usize);
        for j in 0..self.num[1] as i64 {
            for i in 0..self.num[0] as usize {
                let i = indices.as_ref().map_or(i as i64, |v| v[i]);
                let at =
                    self.base.saturating_add(i.saturating_mul(self.step[0])).saturating_add(j * self.step[1]);
                out.push(self.place(memory, at)?);
            }
        }
        Ok(out)
    }

    fn place(&self, memory: &Memory, at: i64) -> Result<Option<usize>, Diagnostic> {
        for b in &self.bounds {
            let from = at.saturating_sub(b.origin);
            if from < 0 || from as u64 + self.row as u64 > b.bytes {
                if b.quiet {
                    return Ok(None);
                }
                return Err(Diagnostic::error(
                    &codes::SIM_BOUND,
                    format!("{} bytes at offset {from} leave the bound of {} bytes", self.row, b.bytes),
                ));
            }
        }
        if at < 0 {
            return Err(range_fault(format!("a transfer reaches offset {at} of {:?}", self.region)));
        }
        if self.region != Region::Sbuf {
            return Ok(Some(at as usize));
        }
        let (partition, offset) = ((at >> 18) as usize, (at & 0x3_FFFF) as usize);
        if partition >= 128 || offset + self.row > memory.active {
            let what = format!(
                "a transfer row of {} bytes at SBUF partition {partition} byte {offset:#x}",
                self.row
            );
            return Err(range_fault(format!("{what} leaves the partition's {:#x} bytes", memory.active)));
        }
        Ok(Some(memory.flat(Region::Sbuf, partition, offset)))
    }
}

/// Carries the transfer out; returns the bytes written.
pub fn execute(core: &mut Core, t: &Transfer) -> Result<u64, Diagnostic> {
    let (from, to) = (width(t.src.tag), width(t.dst.tag));
    if t.src.bytes() / from as u64 != t.dst.bytes() / to as u64 {
        return Err(cannot(format!(
            "{} source bytes against {} destination bytes",
            t.src.bytes(),
            t.dst.bytes()
        )));
    }
    if t.src.bytes() > 1 << 32 {
        return Err(cannot("a transfer of more than 4 GiB"));
    }
    let casting = t.src.tag != t.dst.tag;
    if casting && !(t.src.row.is_multiple_of(from) && t.dst.row.is_multiple_of(to)) {
        return Err(cannot("a casting transfer whose rows are not whole elements"));
    }
    let (sources, targets) = (t.src.rows(&core.memory)?, t.dst.rows(&core.memory)?);
    if !t.repeats && t.compute != 0 {
        let mut rows: Vec<usize> = targets.iter().flatten().copied().collect();
        rows.sort_unstable();
        if rows.windows(2).any(|w| w[0] == w[1]) {
            return Err(cannot("a row is combined with twice, and the record says that rows do not repeat"));
        }
    }
    let mut data = Vec::with_capacity(t.src.bytes() as usize);
    let mut missing = false;
    for at in &sources {
        match at {
            Some(at) => data.extend_from_slice(core.memory.read(t.src.region, *at, t.src.row)?),
            None => {
                missing = true;
                data.resize(data.len() + t.src.row, 0);
            }
        }
    }
    if missing && sources.len() != targets.len() {
        return Err(cannot("skipped source rows need as many destination rows"));
    }
    if casting {
        let mut out = Vec::with_capacity(t.dst.bytes() as usize);
        for e in data.chunks_exact(from) {
            out.extend_from_slice(&cast(t.src.tag, t.dst.tag, load(e)).to_le_bytes()[..to]);
        }
        data = out;
    }
    let mut moved = 0;
    for (i, (at, row)) in targets.iter().zip(data.chunks_exact(t.dst.row)).enumerate() {
        let Some(at) = at else { continue };
        if missing && sources[i].is_none() {
            continue;
        }
        if t.compute == 0 {
            core.memory.write(t.dst.region, *at, t.dst.row)?.copy_from_slice(row);
        } else {
            let old = core.memory.read(t.dst.region, *at, t.dst.row)?.to_vec();
            let new = core.memory.write(t.dst.region, *at, t.dst.row)?;
            for ((o, a), b) in new.chunks_exact_mut(to).zip(old.chunks_exact(to)).zip(row.chunks_exact(to)) {
                o.copy_from_slice(&combine(t.compute, t.dst.tag, load(a), load(b))?.to_le_bytes()[..to]);
            }
        }
        moved += t.dst.row as u64;
    }
    Ok(moved)
}

/// Accumulate on write: integers wrap, floats in fp32 (`spec/isa_compute.md 9.3`).
fn combine(op: u8, tag: u8, old: u64, new: u64) -> Result<u64, Diagnostic> {
    if matches!(tag, 1..=5 | 8 | 9 | 12) {
        let shift = 64 - 8 * width(tag) as u32;
        let signed = |v: u64| ((v << shift) as i64) >> shift;
        let less = if matches!(tag, 2 | 4 | 8 | 12) { signed(old) < signed(new) } else { old < new };
        return Ok(match op {
            1 => old.wrapping_add(new),
            2 => old.wrapping_mul(new),
            3 => {
                if less {
                    new
                } else {
                    old
                }
            }
            _ => {
                if less {
                    old
                } else {
                    new
                }
            }
        });
    }
    let wire = match op {
        1 => 0x04,
        2 => 0x06,
        3 => 0x08,
        _ => 0x09,
    };
    let value = alu(wire, widen(tag, old), widen(tag, new)).ok_or_else(|| cannot("transfer operator"))?;
    Ok(narrow(tag, value))
}
