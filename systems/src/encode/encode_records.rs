//! In: addressed, coloured, synchronised instructions and their layout. Out: [`Encoded`], the five streams with the
//! HLO instruction of every record, and every ADDR4 word in program order with its place. One walk over the order;
//! each record is built in registers and appended to its stream, nothing is allocated per record. Of the records of one
//! instruction the first carries the wait and the last the update. Facts: `spec/isa_compute.md 12`, `spec/isa.md 5, 8`.

use super::layout_records::RecordLayout;
use super::pack_addr4::UNADDRESSED;
use super::{compute_record, control_record, dma_record};
use crate::batch::give_up;
use crate::columns;
use crate::route::alloc_queues::queue_name;
use crate::route::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::isa::{self, Addr4, Encode, Events, Fault, Name};
use murre_components::program::{Record, WordSite};

/// The encoded streams.
#[derive(Resource, Default, Clone, Debug)]
pub struct Encoded {
    /// Records, by stream.
    pub streams: [Vec<Record>; 5],
    /// HLO instruction of each record.
    pub from: [Vec<HloId>; 5],
    /// Address words.
    pub addr4: Vec<u32>,
    /// Where each stands.
    pub sites: Vec<WordSite>,
}

/// All columns that records are made of.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct View<'a> {
    pub heads: &'a [InstHead],
    pub operands: &'a [InstOperands],
    pub args: &'a [InstArgs],
    pub regs: &'a [InstRegs],
    pub dma: &'a InstDmas,
    pub ap: &'a [ApHead],
    pub patterns: &'a [ApPattern],
    pub words: &'a [u32],
    pub registers: &'a [RegHead],
    pub locs: &'a [LocHead],
    pub places: &'a [LocPlace],
    pub queues: &'a [Name<32>],
    pub payloads: &'a Payloads,
    pub layout: &'a RecordLayout,
    /// Where the module of the instruction begins.
    pub part: Part,
}

/// One access pattern with its word.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Side<'a> {
    pub head: &'a ApHead,
    pub pattern: &'a ApPattern,
    pub word: u32,
}

impl<'a> View<'a> {
    /// The pattern in row `ap`.
    #[inline]
    pub fn side(&self, ap: ApId) -> Result<Side<'a>, Fault> {
        match (self.ap.get(ap.index()), self.patterns.get(ap.index()), self.words.get(ap.index())) {
            (Some(head), Some(pattern), Some(word)) => Ok(Side { head, pattern, word: *word }),
            _ => Err(Fault::new(&lower::ENCODE_ADDRESS, 0, i64::from(ap.0), "an operand")),
        }
    }

    /// Physical id of a register.
    #[inline]
    pub fn colour(&self, reg: RegId) -> Result<u8, Fault> {
        match self.registers.get(reg.index()) {
            Some(r) if r.colour < 64 => Ok(r.colour),
            _ => Err(Fault::new(&lower::ENCODE_ADDRESS, 0, i64::from(reg.0), "a coloured register")),
        }
    }

    /// Lanes of a register.
    #[inline]
    pub fn wide(&self, reg: RegId) -> bool {
        self.registers.get(reg.index()).is_some_and(|r| r.width == 2)
    }
}

impl Side<'_> {
    /// The address word, refused when there is none.
    #[inline]
    pub fn addr(&self) -> Result<Addr4, Fault> {
        if self.word == UNADDRESSED {
            return Err(Fault::new(
                &lower::ENCODE_ADDRESS,
                0,
                i64::from(self.head.loc.0),
                "a placed location",
            ));
        }
        Addr4::from_word(self.word)
    }

    /// Wire dtype.
    #[inline]
    pub fn tag(&self) -> u8 {
        self.head.dtype.wire_tag()
    }

    /// Active partitions.
    #[inline]
    pub fn channels(&self) -> u8 {
        self.pattern.0.first().map_or(1, |p| p.num.min(255) as u8)
    }
}

/// Receives the records of one instruction.
pub struct Out<'a> {
    encoded: &'a mut Encoded,
    stream: usize,
    index: usize,
    /// The first record of the module.
    first: u32,
    hlo: HloId,
}

impl Out<'_> {
    /// Stores the next record and notes its address words: `(byte offset, word)`.
    #[inline]
    pub fn put(&mut self, instr: &impl Encode, events: &Events, words: &[(u8, u32)]) {
        let record = self.index as u32 - self.first;
        let (stream, from) = (&mut self.encoded.streams[self.stream], &mut self.encoded.from[self.stream]);
        // Records come in the order of their indices; behind a refused instruction there is a gap.
        if stream.len() < self.index {
            stream.resize(self.index, [0; 64]);
            from.resize(self.index, HloId::NONE);
        }
        stream.push(isa::encode(instr, events));
        from.push(self.hlo);
        for &(offset, word) in words {
            self.encoded.addr4.push(word);
            self.encoded.sites.push(WordSite { stream: self.stream as u8, offset, record });
        }
        self.index += 1;
    }
}

/// The inline events of an instruction.
#[inline]
pub fn events(sync: &InstSync) -> Events {
    Events {
        wait_mode: sync.wait_mode,
        wait_id: sync.wait_sem,
        update_mode: sync.update_mode,
        update_id: sync.update_sem,
        value: sync.value,
    }
}

/// The wait alone, and the update alone.
#[inline]
pub fn split_events(e: Events) -> (Events, Events) {
    let wait =
        Events { update_mode: 0, update_id: 0, value: if e.wait_uses_value() { e.value } else { 0 }, ..e };
    let update =
        Events { wait_mode: 0, wait_id: 0, value: if e.update_uses_value() { e.value } else { 0 }, ..e };
    (wait, update)
}

/// The system.
pub fn encode_records(
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    dmas: Res<InstDmas>,
    aps: Query<(&ApHead, &ApPattern)>,
    words: Res<ApWords>,
    syncs: Res<InstSyncs>,
    regs: Query<&RegHead>,
    locs: Query<(&LocHead, &LocPlace)>,
    queues: Query<&QueueHead>,
    payloads: Res<Payloads>,
    order: Res<Order>,
    layout: Res<RecordLayout>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
    mut parts: ResMut<Parts>,
    mut result: ResMut<Encoded>,
) {
    let (heads, operands, args, regfields, from) = columns!(insts);
    let (ap, patterns) = columns!(aps);
    let (loc, places) = columns!(locs);
    let names: Vec<Name<32>> =
        columns!(queues).iter().filter_map(|q| Name::new(&queue_name(q)).ok()).collect();
    let mut view = View {
        heads,
        operands,
        args,
        regs: regfields,
        dma: &dmas,
        ap,
        patterns,
        words: &words.0,
        registers: columns!(regs),
        locs: loc,
        places,
        queues: &names,
        payloads: &payloads,
        layout: &layout,
        part: parts.0.first().copied().unwrap_or_default(),
    };
    let mut encoded = Encoded {
        streams: layout.counts.map(|n| Vec::with_capacity(n as usize)),
        from: layout.counts.map(|n| Vec::with_capacity(n as usize)),
        addr4: Vec::with_capacity(ap.len()),
        sites: Vec::with_capacity(ap.len()),
    };
    let mut loads = layout.loads.iter().peekable();
    let mut borders = Borders::default();
    for (position, &id) in order.0.iter().enumerate() {
        let row = id.index();
        let Some(h) = heads.get(row) else { continue };
        if borders.crosses(*h) {
            let words = encoded.addr4.len() as u32;
            parts.begin(borders.part, |p| {
                p.word = words;
                view.part = *p;
            });
        }
        let (Some(stream), Some(&index)) = (h.engine.stream(), layout.index.get(row)) else { continue };
        if index == u32::MAX {
            continue;
        }
        let mut e = events(&syncs.of(row));
        let first = view.part.records[stream];
        let mut out = Out { encoded: &mut encoded, stream, index: index as usize, first, hlo: from[row].hlo };
        if let Some((_, set)) = loads.next_if(|(p, _)| *p as usize == position) {
            let (wait, update) = split_events(e);
            out.index -= 1;
            out.put(&isa::LoadActFuncSet { set: *set }, &wait, &[]);
            e = update;
        }
        let done = if h.op.is_control() {
            control_record::emit(&view, row, h.op, e, &mut out)
        } else if matches!(
            h.op,
            Opcode::DmaCopy | Opcode::DmaTrigger | Opcode::TensorLoad | Opcode::TensorSave
        ) {
            dma_record::emit(&view, row, h.op, e, &mut out)
        } else {
            compute_record::emit(&view, row, h.op, e, &mut out)
        };
        if let Err(fault) = done {
            let message = format!("{} {row}: {} (found {:#x})", h.op.name(), fault.code.title, fault.found);
            sink.push(blame(fault.code, message, &module, from[row].hlo, id).expected(fault.expected));
        }
    }
    if parts.are_many() && borders.part + 1 != parts.0.len() {
        give_up(&parts, &sink, "its modules cannot be told apart");
    }
    for (stream, n) in layout.counts.iter().enumerate() {
        encoded.streams[stream].resize(*n as usize, [0; 64]);
        encoded.from[stream].resize(*n as usize, HloId::NONE);
    }
    *result = encoded;
}
