//! In: streams, descriptor records, blocks, queues, DRAM locations, address-table entries, constants, the signature.
//! Out: the [`Program`] resource. Variables stand in order of their ids, symbols in the order of the signature, and
//! every HLO instruction that a record serves is named once. Facts: D6, D8.

use super::encode_descriptors::DescriptorRecords;
use super::encode_records::Encoded;
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

/// Numbers the HLO instructions that are named, in order of first use.
struct Names<'a> {
    module: &'a HloModule,
    number: Vec<u32>,
    /// The first name with some metadata: others with the same have the same source.
    sources: SeededMap<TextId, usize>,
    out: Provenance,
}

impl<'a> Names<'a> {
    fn of(module: &'a HloModule) -> Names<'a> {
        let number = vec![u32::MAX; module.len()];
        Names { module, number, sources: seeded_map(), out: Provenance::default() }
    }
}

impl Names<'_> {
    fn number(&mut self, hlo: HloId) -> u32 {
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

/// Name of a variable.
fn var_name(head: &LocHead, from: &LocFrom, id: u32, signature: &Signature, module: &HloModule) -> String {
    let leaf = |leaves: &[SignatureLeaf]| leaves.get(from.ordinal as usize).map(|l| l.name.clone());
    let named = match head.kind {
        VarKind::Input => leaf(&signature.inputs),
        VarKind::Output => leaf(&signature.outputs),
        VarKind::Const | VarKind::Internal => module.get(from.hlo).map(|h| h.name().to_owned()),
        VarKind::Pointer => module.get(from.hlo).map(|h| format!("{}-ADDR", h.name())),
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
    sink: Res<Diagnostics>,
    mut commands: Commands,
) {
    let (Some(mut encoded), Some(mut records)) = (encoded, records) else { return };
    let signature = signature.map(|s| s.clone()).unwrap_or_default();
    let (heads, places, from) = columns!(locs);
    let mut p = Program::empty(&module.name, options.target);
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
                name: var_name(head, from, place.address, &signature, &module),
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
    if let Some(t) = table {
        p.table.extend_from_slice(&t.extra);
    }
    let mut faults = Vec::new();
    symbols(&signature.inputs, true, &[], (heads, places, from), &mut p.symbols, &mut faults);
    symbols(&signature.outputs, false, &signature.shared, (heads, places, from), &mut p.symbols, &mut faults);
    p.extents = extents.map(|e| e.clone()).unwrap_or_default();
    for message in faults {
        sink.push(Diagnostic::error(&lower::ENCODE_SYMBOL, message));
    }
    p.queues = columns!(queues).iter().map(|q| Queue { name: queue_name(q), engine: q.engine }).collect();
    let entry = |b: &BlockHead| BlockEntry { queue: b.queue.0, first: b.first.0, count: b.count };
    p.blocks = columns!(blocks).iter().map(entry).collect();
    let mut names = Names::of(&module);
    for k in 0..5 {
        names.out.streams[k] = encoded.from[k].iter().map(|h| names.number(*h)).collect();
    }
    names.out.descriptors = columns!(descs).iter().map(|d| names.number(d.hlo)).collect();
    p.provenance = names.out;
    p.streams = std::mem::take(&mut encoded.streams);
    p.addr4 = std::mem::take(&mut encoded.addr4);
    p.addr4_sites = std::mem::take(&mut encoded.sites);
    p.descriptors = std::mem::take(&mut records.0);
    p.constants = constants.0.clone();
    commands.insert_resource(p);
}
