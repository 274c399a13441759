//! Instructions become records.

use super::{compute_record, control_record, dma_record};
use crate::twin::graph::{Program, Records, Register};
use crate::twin::instruction::{Instruction, Operand};
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;
use murre_components::diag::codes::lower;
use murre_components::ids::HloId;
use murre_components::isa::{self, Addr4, Events, Fault, Instr};
use murre_components::program::WordSite;
use murre_systems::encode::encode_records::{events, split_events};
use murre_systems::encode::pack_addr4::UNADDRESSED;
use std::rc::Rc;

/// The pass.
pub struct EncodeRecords;

impl Pass for EncodeRecords {
    fn name(&self) -> &'static str {
        "encode_records"
    }

    fn run(&self, program: &mut Program) {
        let words = program.instructions.iter().map(|i| i.operands.len()).sum();
        let mut records = Records {
            streams: program.lengths.map(|n| vec![[0; 64]; n as usize]),
            from: program.lengths.map(|n| vec![HloId::NONE; n as usize]),
            addr4: Vec::with_capacity(words),
            sites: Vec::with_capacity(words),
            descriptors: Vec::new(),
        };
        for instruction in &program.instructions {
            let (Some(stream), index) = (instruction.engine.get().stream(), instruction.index.get()) else {
                continue;
            };
            if index == u32::MAX {
                continue;
            }
            let (index, hlo) = (index as usize, instruction.from.hlo);
            let mut e = events(&instruction.sync.get());
            let mut out = Out { records: &mut records, stream, index, hlo };
            if let Some(set) = instruction.load.get() {
                let (wait, update) = split_events(e);
                out.index -= 1;
                out.put(&isa::LoadActFuncSet { set }.into(), &wait, &[]);
                e = update;
            }
            let op = instruction.op.get();
            let done = if op.is_control() {
                control_record::emit(instruction, e, &mut out)
            } else if matches!(op, Opcode::DmaCopy | Opcode::DmaTrigger | Opcode::TensorLoad) {
                dma_record::emit(instruction, e, &mut out)
            } else {
                compute_record::emit(instruction, e, &mut out)
            };
            if let Err(fault) = done {
                program.faults.push(format!("{}: {}", op.name(), fault.code.title));
            }
        }
        program.records = records;
    }
}

/// Receives the records of one instruction.
pub struct Out<'a> {
    records: &'a mut Records,
    stream: usize,
    index: usize,
    hlo: HloId,
}

impl Out<'_> {
    /// Stores the next record and notes its address words: byte offset, word.
    #[inline]
    pub fn put(&mut self, instr: &Instr, events: &Events, words: &[(u8, u32)]) {
        let record = self.index as u32;
        if let Some(slot) = self.records.streams[self.stream].get_mut(self.index) {
            *slot = isa::encode(instr, events);
            self.records.from[self.stream][self.index] = self.hlo;
        }
        for &(offset, word) in words {
            self.records.addr4.push(word);
            self.records.sites.push(WordSite { stream: self.stream as u8, offset, record });
        }
        self.index += 1;
    }
}

impl Operand {
    /// The address word, refused when there is none.
    #[inline]
    pub fn addr(&self) -> Result<Addr4, Fault> {
        match self.word.get() {
            UNADDRESSED => Err(Fault::new(&lower::ENCODE_ADDRESS, 0, 0, "a placed location")),
            word => Addr4::from_word(word),
        }
    }

    /// Active partitions.
    #[inline]
    pub fn channels(&self) -> u8 {
        self.pattern.0.first().map_or(1, |p| p.num.min(255) as u8)
    }
}

/// Physical id of a register.
#[inline]
pub fn colour(register: Option<&Rc<Register>>) -> Result<u8, Fault> {
    let colour = register.and_then(|r| r.colour.get());
    colour.ok_or_else(|| Fault::new(&lower::ENCODE_ADDRESS, 0, 0, "a coloured register"))
}

/// What the synthetic programs do not contain.
pub fn unsupported(instruction: &Instruction) -> Fault {
    Fault::new(
        &lower::ENCODE_UNSUPPORTED,
        0,
        instruction.op.get() as i64,
        "an operation of synthetic programs",
    )
}
