//! In: streams, descriptor records, blocks, queues, DRAM locations, address-table entries, constants, the signature.
//! Out: the [`Program`] resource. Variables stand in order of their ids, symbols in the order of the signature, and
//! every HLO instruction that a record serves is named once. Of a batch each module gets a program of its own, from its
//! parts of streams and tables ([`Programs`]). Facts: D6, D8.

use super::encode_descriptors::DescriptorRecords;
use super::encode_records::Encoded;
use crate::batch::{Batch, Member, Programs};
use crate::columns;
use crate::describe::TableEntries;
use crate::options::CompileOptions;
use crate::route::alloc_queues::queue_name;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics, codes::lower};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::HloModule;
use murre_components::ids::{HloId, TextId};
use murre_components::program::*;
use std::ops::Range;

/// Numbers the HLO instructions that are named, in order of first use.
struct Names<'a> {
    module: &'a HloModule,
    /// The module's first instruction.
    first: u32,
    number: Vec<u32>,
    /// The first name with some metadata: others with the same have the same source.
    sources: SeededMap<TextId, usize>,
    out: Provenance,
}

impl<'a> Names<'a> {
    fn of(module: &'a HloModule, first: u32) -> Names<'a> {
        let number = vec![u32::MAX; module.len()];
        Names { module, first, number, sources: seeded_map(), out: Provenance::default() }
    }
}

impl Names<'_> {
    fn number(&mut self, hlo: HloId) -> u32 {
        let hlo = in_module(hlo, self.first);
        let (Some(n), Some(inst)) = (self.number.get_mut(hlo.index()), self.module.get(hlo)) else {
            return u32::MAX;
        };
        if *n == u32::MAX {
            *n = self.out.names.len() as u32;
            self.out.names.push(inst.name());
            let metadata = inst.metadata_id();
            match self.sources.get(&metadata) {
                _ if metadata.is_none() => self.out.sources.push(""),
                Some(first) => self.out.sources.push_again(*first),
                None => {
                    self.out.sources.push(&inst.source().unwrap_or_default());
                    self.sources.insert(metadata, *n as usize);
                }
            }
        }
        *n
    }
}

/// The instruction, counted from the first one of its module.
fn in_module(hlo: HloId, first: u32) -> HloId {
    if hlo.is_some() { HloId(hlo.0.wrapping_sub(first)) } else { hlo }
}

/// Name of a variable.
fn var_name(head: &LocHead, from: &LocFrom, id: u32, source: &Source<'_>) -> String {
    let (signature, hlo) = (source.signature, in_module(from.hlo, source.first_hlo));
    let leaf = |leaves: &[SignatureLeaf]| leaves.get(from.ordinal as usize).map(|l| l.name.clone());
    let named = match head.kind {
        VarKind::Input => leaf(&signature.inputs),
        VarKind::Output => leaf(&signature.outputs),
        VarKind::Const | VarKind::Internal => source.module.get(hlo).map(|h| h.name().to_owned()),
        VarKind::Pointer => source.module.get(hlo).map(|h| format!("{}-ADDR", h.name())),
    };
    named.unwrap_or_else(|| format!("var{id}"))
}

/// Symbols of one direction, and what does not match.
fn symbols(
    leaves: &[SignatureLeaf],
    input: bool,
    shared: &[(u32, u32)],
    locs: (&[LocHead], &[LocPlace], &[LocFrom]),
    out: &mut Vec<Symbol>,
    faults: &mut Vec<String>,
) {
    let kind = if input { VarKind::Input } else { VarKind::Output };
    let mut rows = vec![usize::MAX; leaves.len()];
    for (k, (head, from)) in locs.0.iter().zip(locs.2).enumerate() {
        if !input && head.space == Space::Dram && head.kind == VarKind::Input {
            for (output, _) in shared.iter().filter(|s| s.1 == from.ordinal) {
                if let Some(row) = rows.get_mut(*output as usize) {
                    *row = k;
                }
            }
        }
        if head.space == Space::Dram && head.kind == kind {
            match rows.get_mut(from.ordinal as usize) {
                Some(r) if *r == usize::MAX => *r = k,
                Some(_) => faults.push(format!("two {kind:?} variables for leaf {}", from.ordinal)),
                None => {
                    faults.push(format!("{kind:?} variable with leaf {} of {}", from.ordinal, leaves.len()))
                }
            }
        }
    }
    for (index, (leaf, row)) in leaves.iter().zip(rows).enumerate() {
        let (Some(head), Some(place)) = (locs.0.get(row), locs.1.get(row)) else {
            faults.push(format!("{kind:?} leaf {index} `{}` has no variable", leaf.name));
            continue;
        };
        out.push(Symbol {
            name: leaf.name.clone(),
            input,
            index: index as u32,
            var: place.address,
            ty: leaf.ty,
            dtype: head.dtype,
            dims: leaf.dims.clone(),
        });
    }
}

/// What a program takes from its module.
struct Source<'a> {
    module: &'a HloModule,
    first_hlo: u32,
    signature: &'a Signature,
    extents: Option<&'a Extents>,
    constants: &'a [u8],
}

impl<'a> Source<'a> {
    fn of(m: &'a Member, part: &Part) -> Source<'a> {
        Source {
            module: &m.module,
            first_hlo: part.hlo,
            signature: &m.signature,
            extents: m.extents.as_ref(),
            constants: &m.constants,
        }
    }
}

/// Variables and the table entries of those that are indexed.
fn variables(p: &mut Program, locs: (&[LocHead], &[LocPlace], &[LocFrom]), source: &Source<'_>) {
    let (heads, places, from) = locs;
    for ((head, place), from) in
        heads.iter().zip(places).zip(from).filter(|((h, _), _)| h.space == Space::Dram)
    {
        let id = place.address as usize;
        if id >= heads.len() {
            continue;
        }
        if p.vars.len() <= id {
            let unused = Var { name: String::new(), kind: VarKind::Internal, bytes: 0, const_offset: 0 };
            p.vars.resize(id + 1, unused);
        }
        // Of locations that share a variable the first one gives the name and the largest one the size.
        let var = &mut p.vars[id];
        if var.name.is_empty() {
            *var = Var {
                name: var_name(head, from, place.address, source),
                kind: head.kind,
                bytes: 0,
                const_offset: if head.kind.is_constant() { u64::from(from.ordinal) } else { 0 },
            };
        }
        var.bytes = var.bytes.max(head.part_bytes());
        let entry = place.table_entry as usize;
        if entry < heads.len() {
            if p.table.len() <= entry {
                p.table.resize(entry + 1, TableEntry { var: 0, displacement: 0 });
            }
            p.table[entry] = TableEntry { var: place.address, displacement: 0 };
        }
    }
}

/// The system.
pub fn assemble_program(
    locs: Query<(&LocHead, &LocPlace, &LocFrom)>,
    blocks: Query<&BlockHead>,
    queues: Query<&QueueHead>,
    descs: Query<&DescHead>,
    encoded: Option<ResMut<Encoded>>,
    records: Option<ResMut<DescriptorRecords>>,
    table: Option<Res<TableEntries>>,
    signature: Option<Res<Signature>>,
    extents: Option<Res<Extents>>,
    constants: Res<ConstPool>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    (parts, batch): (Res<Parts>, Option<Res<Batch>>),
    sink: Res<Diagnostics>,
    mut commands: Commands,
) {
    let (Some(mut encoded), Some(mut records)) = (encoded, records) else { return };
    let none = Signature::default();
    let sources: Vec<Source<'_>> = match &batch {
        None => vec![Source {
            module: &module,
            first_hlo: 0,
            signature: signature.as_deref().unwrap_or(&none),
            extents: extents.as_deref(),
            constants: &constants.0,
        }],
        Some(batch) => batch.0.iter().zip(&parts.0).map(|(m, part)| Source::of(m, part)).collect(),
    };
    let (heads, places, from) = columns!(locs);
    let (blocks, queues, descs) = (columns!(blocks), columns!(queues), columns!(descs));
    let streams = [0, 1, 2, 3, 4].map(|k| parts.ranges(encoded.streams[k].len(), move |p| p.records[k]));
    let mut cut =
        Cut { streams: streams.map(Iterator::collect), encoded: &mut encoded, whole: sources.len() == 1 };
    let mut words = parts.ranges(cut.encoded.addr4.len(), |p| p.word);
    // Temporaries of later passes stand behind all, and none of them is in DRAM.
    let mut of_locs = parts.ranges(heads.len(), |p| p.loc);
    let mut of_blocks = parts.ranges(blocks.len(), |p| p.block);
    let mut of_queues = parts.ranges(queues.len(), |p| p.queue);
    let mut of_descs = parts.ranges(descs.len(), |p| p.desc);
    let mut programs = Vec::with_capacity(sources.len());
    for (k, source) in sources.iter().enumerate() {
        let mut p = Program::empty(&source.module.name, options.target);
        let l = of_locs.next().unwrap_or_default();
        let locs = (&heads[l.clone()], &places[l.clone()], &from[l]);
        variables(&mut p, locs, source);
        if let Some(t) = &table {
            p.table.extend_from_slice(&t.extra);
        }
        let mut faults = Vec::new();
        let signature = source.signature;
        symbols(&signature.inputs, true, &[], locs, &mut p.symbols, &mut faults);
        symbols(&signature.outputs, false, &signature.shared, locs, &mut p.symbols, &mut faults);
        p.extents = source.extents.cloned().unwrap_or_default();
        for message in faults {
            sink.push(Diagnostic::error(&lower::ENCODE_SYMBOL, message));
        }
        let queues = &queues[of_queues.next().unwrap_or_default()];
        p.queues = queues.iter().map(|q| Queue { name: queue_name(q), engine: q.engine }).collect();
        let d = of_descs.next().unwrap_or_default();
        let entry = |b: &BlockHead| BlockEntry {
            queue: b.queue.0,
            first: b.first.0 - d.start as u32,
            count: b.count,
        };
        p.blocks = blocks[of_blocks.next().unwrap_or_default()].iter().map(entry).collect();
        let mut names = Names::of(source.module, source.first_hlo);
        for s in 0..5 {
            let of = cut.streams[s].get(k).cloned().unwrap_or_default();
            names.out.streams[s] = cut.encoded.from[s][of].iter().map(|h| names.number(*h)).collect();
        }
        names.out.descriptors = descs[d.clone()].iter().map(|d| names.number(d.hlo)).collect();
        p.provenance = names.out;
        cut.take(k, words.next().unwrap_or_default(), &mut p);
        p.descriptors =
            if sources.len() == 1 { std::mem::take(&mut records.0) } else { records.0[d].to_vec() };
        p.constants = source.constants.to_vec();
        programs.push(p);
    }
    match batch {
        Some(_) => commands.insert_resource(Programs(programs)),
        None => programs.into_iter().for_each(|p| commands.insert_resource(p)),
    }
}

/// Cuts the streams and the address words into those of each module.
struct Cut<'a> {
    encoded: &'a mut Encoded,
    streams: [Vec<Range<usize>>; 5],
    whole: bool,
}

impl Cut<'_> {
    /// Gives module `k` its records, and the words in `words`.
    fn take(&mut self, k: usize, words: Range<usize>, p: &mut Program) {
        if self.whole {
            p.streams = std::mem::take(&mut self.encoded.streams);
            p.addr4 = std::mem::take(&mut self.encoded.addr4);
            p.addr4_sites = std::mem::take(&mut self.encoded.sites);
            return;
        }
        for (s, ranges) in self.streams.iter().enumerate() {
            let of = ranges.get(k).cloned().unwrap_or_default();
            p.streams[s] = self.encoded.streams[s][of].to_vec();
        }
        p.addr4 = self.encoded.addr4[words.clone()].to_vec();
        p.addr4_sites = self.encoded.sites[words].to_vec();
    }
}
