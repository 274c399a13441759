//! Memories: SBUF, PSUM and DRAM variables, each with a "written" shadow.
//!
//! A byte that nobody wrote is poison (D15): reading it is an error. Addresses are checked against the active bytes of
//! a partition (the stride is larger), the PSUM window and each variable's size. PSUM cells carry the pending bit and
//! "last writer was the tensor engine". Facts: `spec/isa.md 7`, `spec/isa_compute.md 2.6, 3.3`.

use super::numerics::{decode_f32, encode_f32, load, width};
use super::race::Races;
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::engine::{PSUM_BANK_BYTES, PSUM_BANKS};
use murre_components::isa::addr4::{Space, space_of};
use murre_components::program::Program;
use std::cell::RefCell;

/// Bytes of PSUM in one partition.
pub const PSUM_PARTITION_BYTES: usize = (PSUM_BANKS * PSUM_BANK_BYTES) as usize;
const PARTITIONS: usize = 128;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// SBUF.
    Sbuf,
    /// PSUM.
    Psum,
    /// A DRAM variable.
    Var(u32),
}

/// Bytes with their shadow.
#[derive(Default)]
pub struct Store {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// 1 where a byte was written.
    pub written: Vec<u8>,
}

impl Store {
    fn zeroed(n: usize) -> Store {
        Store { bytes: vec![0; n], written: vec![0; n] }
    }

    fn full(bytes: Vec<u8>) -> Store {
        Store { written: vec![1; bytes.len()], bytes }
    }
}

/// All memories of a core.
pub struct Memory {
    sbuf: Store,
    psum: Store,
    vars: Vec<Store>,
    names: Vec<String>,
    /// Active SBUF bytes of a partition.
    pub active: usize,
    /// Per PSUM cell: 1 when settled, 0 when the next tensor-engine write replaces it.
    settled: Vec<u8>,
    /// Per PSUM cell: 1 when the tensor engine wrote it last.
    by_pe: Vec<u8>,
    /// The race check, when it is on. Reading notes the access, so it changes behind a shared reference.
    pub races: Option<Box<RefCell<Races>>>,
}

/// A tensor operand resolved to byte runs that every partition shares.
pub struct View {
    /// SBUF or PSUM.
    pub region: Region,
    /// First partition.
    pub partition: usize,
    /// Byte offset of each run inside the partition.
    pub runs: Vec<u32>,
    /// Elements of a run.
    pub run: usize,
    /// Elements in all.
    pub count: usize,
    /// Wire tag.
    pub tag: u8,
}

pub(super) fn range_fault(message: String) -> Diagnostic {
    Diagnostic::error(&codes::SIM_RANGE, message)
}

impl Memory {
    /// The memories at the start: constants and inputs written, all else poison.
    pub fn new(program: &Program, inputs: &[Vec<u8>]) -> Memory {
        let active = program.target.profile().sbuf_partition_bytes as usize;
        let mut vars: Vec<Store> = program
            .vars
            .iter()
            .map(|v| {
                let start = v.const_offset as usize;
                let constant = v
                    .kind
                    .is_constant()
                    .then(|| program.constants.get(start..start.saturating_add(v.bytes as usize)))
                    .flatten();
                match constant {
                    Some(bytes) => Store::full(bytes.to_vec()),
                    None => Store::zeroed(v.bytes as usize),
                }
            })
            .collect();
        for (symbol, bytes) in program.inputs().zip(inputs) {
            if let Some(store) = vars.get_mut(symbol.var as usize) {
                let n = bytes.len().min(store.bytes.len());
                store.bytes[..n].copy_from_slice(&bytes[..n]);
                store.written[..n].fill(1);
            }
        }
        let cells = PARTITIONS * PSUM_PARTITION_BYTES / 4;
        Memory {
            sbuf: Store::zeroed(PARTITIONS * active),
            psum: Store::zeroed(PARTITIONS * PSUM_PARTITION_BYTES),
            vars,
            names: program.vars.iter().map(|v| v.name.clone()).collect(),
            active,
            settled: vec![0; cells],
            by_pe: vec![0; cells],
            races: None,
        }
    }

    fn store(&self, region: Region) -> Option<&Store> {
        match region {
            Region::Sbuf => Some(&self.sbuf),
            Region::Psum => Some(&self.psum),
            Region::Var(id) => self.vars.get(id as usize),
        }
    }

    /// What a flat index of a memory is called in messages.
    pub fn place(&self, region: Region, at: usize) -> String {
        match region {
            Region::Sbuf => format!("SBUF partition {} byte {:#x}", at / self.active, at % self.active),
            Region::Psum => {
                let (p, o) = (at / PSUM_PARTITION_BYTES, at % PSUM_PARTITION_BYTES);
                format!("PSUM partition {p} bank {} byte {:#x}", o / 2048, o % 2048)
            }
            Region::Var(id) => {
                let name = self.names.get(id as usize).map_or("?", |n| n.as_str());
                format!("variable '{name}' (id {id}) byte {at:#x}")
            }
        }
    }

    /// Flat index of a partition's byte.
    #[inline]
    pub fn flat(&self, region: Region, partition: usize, offset: usize) -> usize {
        match region {
            Region::Psum => partition * PSUM_PARTITION_BYTES + offset,
            _ => partition * self.active + offset,
        }
    }

    /// Bytes that must exist and have been written.
    #[inline]
    pub fn read(&self, region: Region, at: usize, n: usize) -> Result<&[u8], Diagnostic> {
        let store = self.store(region).ok_or_else(|| range_fault(format!("there is no {region:?}")))?;
        let end = at.saturating_add(n);
        match (store.bytes.get(at..end), store.written.get(at..end)) {
            (Some(bytes), Some(written)) if written.iter().all(|w| *w != 0) => {
                self.ordered(region, at, n, false)?;
                Ok(bytes)
            }
            (Some(_), Some(written)) => {
                let first = at + written.iter().position(|w| *w == 0).unwrap_or(0);
                Err(Diagnostic::error(
                    &codes::SIM_POISON,
                    format!("{} was never written", self.place(region, first)),
                )
                .help("a wait is missing, or the program reads a value that nothing produces"))
            }
            _ => Err(self.outside(region, at, n, store.bytes.len())),
        }
    }

    /// Checks and notes an access to bytes that exist.
    #[inline]
    fn ordered(&self, region: Region, at: usize, n: usize, write: bool) -> Result<(), Diagnostic> {
        let Some(races) = &self.races else { return Ok(()) };
        races.borrow_mut().access(region, at, n, write).map_err(|race| {
            Diagnostic::error(&codes::SIM_RACE, self.place(region, race.at))
                .help("a wait, a drain or a barrier is missing between the two")
        })
    }

    /// From now on accesses are those of `actor`, with this record.
    #[inline]
    pub fn enter(&mut self, actor: usize, record: usize) {
        if let Some(races) = &mut self.races {
            races.get_mut().enter(actor, record);
        }
    }

    fn outside(&self, region: Region, at: usize, n: usize, size: usize) -> Diagnostic {
        range_fault(format!("{n} bytes at {} reach past its {size} bytes", self.place(region, at)))
    }

    /// Bytes to overwrite; they count as written, PSUM cells as settled by an engine that is not the tensor engine.
    #[inline]
    pub fn write(&mut self, region: Region, at: usize, n: usize) -> Result<&mut [u8], Diagnostic> {
        let end = at.saturating_add(n);
        if self.store(region).is_none_or(|s| s.bytes.len() < end) {
            let size = self.store(region).map_or(0, |s| s.bytes.len());
            return Err(self.outside(region, at, n, size));
        }
        self.ordered(region, at, n, true)?;
        let store = match region {
            Region::Sbuf => &mut self.sbuf,
            Region::Psum => {
                self.settled[at / 4..end.div_ceil(4)].fill(1);
                self.by_pe[at / 4..end.div_ceil(4)].fill(0);
                &mut self.psum
            }
            Region::Var(id) => &mut self.vars[id as usize],
        };
        store.written[at..end].fill(1);
        Ok(&mut store.bytes[at..end])
    }

    /// Resolves a static on-chip address and a pattern to a view; `steps` in elements, slot 0 innermost.
    pub fn view(
        &self,
        address: u32,
        steps: &[i16],
        nums: &[u16],
        tag: u8,
        channels: usize,
    ) -> Result<View, Diagnostic> {
        let (region, partition, base, limit) = match space_of(address) {
            Space::Sbuf { partition, offset } => (Region::Sbuf, partition, offset, self.active),
            Space::Psum { partition, bank, offset } if bank < PSUM_BANKS => {
                (Region::Psum, partition, bank * PSUM_BANK_BYTES + offset, PSUM_PARTITION_BYTES)
            }
            _ => return Err(range_fault(format!("address {address:#x} lies outside SBUF and PSUM"))),
        };
        if nums.contains(&0) {
            return Err(range_fault("a pattern with a count of zero".to_string()));
        }
        let partition = partition as usize;
        let allowed = match channels {
            0..=32 => partition.is_multiple_of(32),
            33..=64 => partition.is_multiple_of(64),
            _ => partition == 0,
        };
        if !allowed || partition + channels > PARTITIONS {
            return Err(range_fault(format!("{channels} partitions may not start at partition {partition}")));
        }
        let size = width(tag);
        if !(base as usize).is_multiple_of(size) {
            return Err(range_fault(format!("address {address:#x} is not aligned to {size} bytes")));
        }
        let (mut low, mut high) = (base as i64, base as i64);
        for (s, n) in steps.iter().zip(nums) {
            let span = *s as i64 * (*n as i64 - 1) * size as i64;
            if span < 0 { low += span } else { high += span }
        }
        if low < 0 || high + size as i64 > limit as i64 {
            return Err(range_fault(format!(
                "the pattern at address {address:#x} touches bytes {low}..{} of a partition of {limit}",
                high + size as i64
            )));
        }
        let count: usize = nums.iter().map(|n| *n as usize).product();
        if count > 1 << 20 {
            return Err(range_fault(format!("{count} elements per partition in one instruction")));
        }
        let inner = if steps.first() == Some(&1) { nums.first().copied().unwrap_or(1) as usize } else { 1 };
        let outer = if inner == 1 { 0 } else { 1 };
        let mut runs = Vec::with_capacity(count / inner.max(1));
        let mut at = vec![0u16; steps.len()];
        for _ in 0..count / inner.max(1) {
            let offset: i64 = at.iter().zip(steps).map(|(i, s)| *i as i64 * *s as i64).sum();
            runs.push((base as i64 + offset * size as i64) as u32);
            for (i, n) in at.iter_mut().zip(nums).skip(outer) {
                *i += 1;
                if *i < *n {
                    break;
                }
                *i = 0;
            }
        }
        Ok(View { region, partition, runs, run: inner, count, tag })
    }

    /// Appends the fp32 values of partition `p` (counted from the view's first).
    pub fn read_f32(&self, v: &View, p: usize, out: &mut Vec<f32>) -> Result<(), Diagnostic> {
        let n = v.run * width(v.tag);
        for offset in &v.runs {
            let at = self.flat(v.region, v.partition + p, *offset as usize);
            decode_f32(v.tag, self.read(v.region, at, n)?, out);
        }
        Ok(())
    }

    /// Appends the element bits of partition `p`.
    pub fn read_bits(&self, v: &View, p: usize, out: &mut Vec<u64>) -> Result<(), Diagnostic> {
        let size = width(v.tag);
        for offset in &v.runs {
            let at = self.flat(v.region, v.partition + p, *offset as usize);
            out.extend(self.read(v.region, at, v.run * size)?.chunks_exact(size).map(load));
        }
        Ok(())
    }

    /// Casts and stores fp32 values.
    pub fn write_f32(&mut self, v: &View, p: usize, values: &[f32]) -> Result<(), Diagnostic> {
        let n = v.run * width(v.tag);
        for (offset, values) in v.runs.iter().zip(values.chunks(v.run)) {
            let at = self.flat(v.region, v.partition + p, *offset as usize);
            encode_f32(v.tag, values, self.write(v.region, at, n)?);
        }
        Ok(())
    }

    /// Stores element bits; `None` leaves the element as it is.
    pub fn write_some(&mut self, v: &View, p: usize, values: &[Option<u64>]) -> Result<(), Diagnostic> {
        let size = width(v.tag);
        for (offset, values) in v.runs.iter().zip(values.chunks(v.run)) {
            for (i, bits) in values.iter().enumerate() {
                if let Some(bits) = bits {
                    let at = self.flat(v.region, v.partition + p, *offset as usize + i * size);
                    self.write(v.region, at, size)?.copy_from_slice(&bits.to_le_bytes()[..size.min(8)]);
                }
            }
        }
        Ok(())
    }

    /// Stores element bits.
    pub fn write_bits(&mut self, v: &View, p: usize, values: &[u64]) -> Result<(), Diagnostic> {
        let size = width(v.tag);
        for (offset, values) in v.runs.iter().zip(values.chunks(v.run)) {
            let at = self.flat(v.region, v.partition + p, *offset as usize);
            let bytes = self.write(v.region, at, v.run * size)?;
            for (b, bits) in bytes.chunks_exact_mut(size).zip(values) {
                b.copy_from_slice(&bits.to_le_bytes()[..size.min(8)]);
            }
        }
        Ok(())
    }

    /// Sets the pending bit of `2^zero_region` banks on partitions `first..first + n` (rule 2 of 3.3).
    pub fn start_group(&mut self, first: usize, n: usize, offset: usize, zero_region: u8) {
        let bytes = (PSUM_BANK_BYTES as usize) << zero_region.min(3);
        let start = offset / bytes * bytes;
        for p in first..(first + n).min(PARTITIONS) {
            let at = p * PSUM_PARTITION_BYTES + start;
            let end = (at + bytes).min((p + 1) * PSUM_PARTITION_BYTES);
            self.settled[at / 4..end / 4].fill(0);
        }
    }

    /// A tensor-engine write of `v` to a PSUM cell (rule 3 of 3.3). Adding onto a cell that another engine wrote last
    /// is refused (rule 5).
    pub fn accumulate(&mut self, at: usize, v: f32) -> Result<(), Diagnostic> {
        let cell = at / 4;
        let settled = self.settled.get(cell).is_some_and(|s| *s != 0);
        let value = if settled {
            if self.by_pe[cell] == 0 {
                let place = self.place(Region::Psum, at);
                return Err(Diagnostic::error(
                    &codes::SIM_STATE,
                    format!("a matrix multiply accumulates onto {place}, which another engine wrote last"),
                ));
            }
            f32::from_bits(load(self.read(Region::Psum, at, 4)?) as u32) + v
        } else {
            v
        };
        self.write(Region::Psum, at, 4)?.copy_from_slice(&value.to_le_bytes());
        self.by_pe[cell] = 1;
        Ok(())
    }
}
