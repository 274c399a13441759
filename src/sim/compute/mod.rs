//! Compute instructions of profile v1: one file a family. In: a decoded record and the core. Out: the core, changed.
//! Facts: `spec/isa_compute.md 3..8, 12.3`. A partition's source streams are read before its destination is written.

// A partition index selects a row in several arrays at once; zipping them would hide which.
#![allow(clippy::needless_range_loop)]

mod act;
mod copy;
mod elementwise;
mod gather;
mod pe;
mod random;
mod reduce;
mod search;

use super::core::*;
use super::memory::{Region, View};
use super::numerics;
use murre_components::diag::{Diagnostic, codes::sim as codes};
use murre_components::isa::{Imm, Instr, Tensor};

type Done = Result<(), Diagnostic>;

/// Runs a compute record; `None` when the instruction is not one.
pub fn execute(core: &mut Core, engine: usize, instr: &Instr) -> Option<Done> {
    let mut on = On { core, engine };
    let opcode = instr.opcode();
    let home: &[usize] = match opcode {
        0x01 | 0x02 => &[PE],
        0x21 | 0x23 | 0x24 => &[ACT],
        0x43 | 0x46 | 0x47 => &[DVE, ACT, POOL],
        0x53 | 0x41 | 0x51 | 0x42 | 0x52 | 0x49 | 0x4D | 0x77 | 0x78 => &[DVE, POOL],
        0x74 | 0x7E | 0x92 | 0x7C | 0x7D | 0x67 | 0x68 => &[POOL],
        _ => &[DVE],
    };
    let result = match instr {
        Instr::LoadStationary(x) => pe::load_stationary(&mut on, x),
        Instr::MultiplyMoving(x) => pe::multiply_moving(&mut on, x),
        Instr::Activate(x) => act::activate(&mut on, x),
        Instr::LoadActFuncSet(x) => act::load_set(&mut on, x),
        Instr::ReadAccumulator(x) => act::read_accumulator(&mut on, x),
        Instr::TensorScalar(x) => elementwise::tensor_scalar(&mut on, x),
        Instr::TensorTensor(x) => elementwise::tensor_tensor(&mut on, x),
        Instr::ScalarTensorTensor(x) => elementwise::scalar_tensor_tensor(&mut on, x),
        Instr::TensorScalarAddr(x) => elementwise::tensor_scalar_addr(&mut on, x),
        Instr::CopyPredicatedScalar(x) => copy::predicated_scalar(&mut on, x),
        Instr::TensorReduce(x) => copy::tensor_reduce_family(&mut on, x),
        Instr::AffineSelect(x) => copy::affine_select(&mut on, x),
        Instr::RangeSelect(x) => copy::range_select(&mut on, x),
        Instr::Memset(x) => copy::memset(&mut on, x),
        Instr::Iota(x) => copy::iota(&mut on, x),
        Instr::LoadMaskSelect(x) => {
            on.core.mask = Some(x.mask);
            Ok(())
        }
        Instr::Pool(x) => reduce::pool(&mut on, x),
        Instr::CrossReduce(x) => reduce::cross_reduce(&mut on, x),
        Instr::Search(x) => search::search(&mut on, x),
        Instr::MatchValueLoad(x) => search::match_value_load(&mut on, x),
        Instr::MatchReplace8(x) => search::match_replace(&mut on, x),
        Instr::PoolBufferLoad(x) => gather::pool_buffer_load(&mut on, x),
        Instr::GatherBuffer(x) => gather::gather(&mut on, x),
        Instr::Dropout(x) => random::dropout(&mut on, x),
        Instr::Rand2(x) => random::rand2(&mut on, x),
        Instr::RandGetState(x) => random::get_state(&mut on, x),
        Instr::RandSetState(x) => random::set_state(&mut on, x),
        _ => return None,
    };
    if !home.contains(&engine) {
        return Some(Err(cannot(format!("opcode {opcode:02x} does not run on this engine"))));
    }
    Some(result)
}

pub(super) fn cannot(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::SIM_RECORD, message)
}

pub(super) fn state(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(&codes::SIM_STATE, message)
}

/// The core as one engine sees it.
pub(super) struct On<'a> {
    pub(super) core: &'a mut Core,
    pub(super) engine: usize,
}

impl On<'_> {
    /// Resolves a tensor operand, through a register where its word says so.
    pub(super) fn view<const N: usize>(
        &self,
        t: &Tensor<N>,
        tag: u8,
        channels: u8,
    ) -> Result<View, Diagnostic> {
        let address = match (t.addr.address(), t.addr.register_id()) {
            (Some(address), _) => address,
            (None, Some(register)) => self.core.registers[self.engine].get(register)?,
            _ => return Err(cannot("an address word of no mode")),
        };
        let v = self.core.memory.view(address, &t.step, &t.num, tag, channels as usize)?;
        if v.region == Region::Psum && matches!(self.engine, POOL | SP) {
            return Err(cannot("this engine has no path to PSUM"));
        }
        Ok(v)
    }

    /// A destination: PSUM takes 4-byte elements only.
    pub(super) fn target<const N: usize>(
        &self,
        t: &Tensor<N>,
        tag: u8,
        channels: u8,
    ) -> Result<View, Diagnostic> {
        let v = self.view(t, tag, channels)?;
        if v.region == Region::Psum && !matches!(tag, 8..=11) {
            return Err(cannot("PSUM takes 4-byte elements only"));
        }
        Ok(v)
    }

    pub(super) fn read(&self, v: &View, p: usize) -> Result<Vec<f32>, Diagnostic> {
        let mut out = Vec::with_capacity(v.count);
        self.core.memory.read_f32(v, p, &mut out)?;
        Ok(out)
    }

    pub(super) fn bits(&self, v: &View, p: usize) -> Result<Vec<u64>, Diagnostic> {
        let mut out = Vec::with_capacity(v.count);
        self.core.memory.read_bits(v, p, &mut out)?;
        Ok(out)
    }

    pub(super) fn write(&mut self, v: &View, p: usize, values: &[f32]) -> Done {
        self.core.memory.write_f32(v, p, values)
    }

    /// The bits of an immediate for each of `channels` partitions. Literals and registers are the same for all.
    pub(super) fn imm_bits(&self, imm: &Imm<u32>, tag: u8, channels: u8) -> Result<Vec<u64>, Diagnostic> {
        let n = channels as usize;
        match imm {
            Imm::Literal(b) => Ok(vec![*b as u64; n]),
            Imm::Register(r) => Ok(vec![self.core.registers[self.engine].get(*r)? as u64; n]),
            Imm::Pointer(addr) => {
                let v = self.view(&Tensor::<1>::point(*addr), tag, channels)?;
                (0..n).map(|p| Ok(self.bits(&v, p)?.first().copied().unwrap_or(0))).collect()
            }
        }
    }

    /// The fp32 value of an immediate by partition; pointers name elements of `tag`.
    pub(super) fn imm(&self, imm: &Imm<u32>, tag: u8, channels: u8) -> Result<Vec<f32>, Diagnostic> {
        let tag = if matches!(imm, Imm::Pointer(_)) { tag } else { 10 };
        Ok(self.imm_bits(imm, tag, channels)?.iter().map(|b| numerics::widen(tag, *b)).collect())
    }

    /// The accumulator of this engine for a partition: ACT has one, DVE the other.
    pub(super) fn accumulator(&mut self, partition: usize) -> &mut f32 {
        let file = if self.engine == ACT { 0 } else { 1 };
        &mut self.core.accumulators[file][partition & 127]
    }

    /// Applies an accumulate command before its fold (2.3): reset to `identity`, or to the loaded seed.
    pub(super) fn begin(&mut self, cmd: u8, partition: usize, identity: f32, seed: f32) {
        match cmd {
            1 | 3 => *self.accumulator(partition) = identity,
            4 => *self.accumulator(partition) = seed,
            _ => {}
        }
    }
}

pub(super) fn alu(op: u8, a: f32, b: f32) -> Result<f32, Diagnostic> {
    numerics::alu(op, a, b).ok_or_else(|| cannot(format!("operator {op:02x} is not an fp32 operator")))
}

/// `a op b`, or `b op a` when reversed.
pub(super) fn ordered(op: u8, reversed: bool, a: f32, b: f32) -> Result<f32, Diagnostic> {
    if reversed { alu(op, b, a) } else { alu(op, a, b) }
}

pub(super) fn same(what: &str, a: usize, b: usize) -> Done {
    if a == b { Ok(()) } else { Err(cannot(format!("{what}: {a} elements against {b}"))) }
}
