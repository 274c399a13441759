//! Streams and tables become the program.

use crate::twin::graph::{self, Location, Program, Records};
use crate::twin::pass::Pass;
use murre_components::bir::{Signature, SignatureLeaf, Space};
use murre_components::program::*;
use std::rc::Rc;

/// The pass.
pub struct AssembleProgram;

impl Pass for AssembleProgram {
    fn name(&self) -> &'static str {
        "assemble_program"
    }

    fn run(&self, program: &mut Program) {
        let mut p = murre_components::program::Program::empty("", program.options.target);
        let signature = &program.signature;
        let dram = program.locations.iter().filter(|l| l.head.space == Space::Dram);
        dram.for_each(|location| variable(&mut p, location, signature));
        for input in [true, false] {
            let (kind, leaves) = if input {
                (VarKind::Input, &signature.inputs)
            } else {
                (VarKind::Output, &signature.outputs)
            };
            match symbols(kind, leaves, &program.locations) {
                Some(symbols) => p.symbols.extend(symbols),
                None => program.faults.push(format!("a {kind:?} leaf without a variable")),
            }
        }
        let queue = |q: &Rc<graph::Queue>| Queue { name: q.name.as_str().to_owned(), engine: q.engine };
        p.queues = program.queues.iter().map(queue).collect();
        let mut first = 0;
        for block in &program.blocks {
            let count = block.descriptors.borrow().len() as u32;
            p.blocks.push(BlockEntry { queue: block.queue.number, first, count });
            first += count;
        }
        let Records { streams, from, addr4, sites, descriptors } = std::mem::take(&mut program.records);
        // No record of a synthetic program serves an HLO instruction.
        p.provenance.streams = from.map(|s| s.iter().map(|_| u32::MAX).collect());
        p.provenance.descriptors = vec![u32::MAX; descriptors.len()];
        (p.streams, p.addr4, p.addr4_sites, p.descriptors) = (streams, addr4, sites, descriptors);
        program.encoded = Some(p);
    }
}

/// Adds a location to its variable: the first one gives the name, the largest one the size.
fn variable(p: &mut murre_components::program::Program, location: &Location, signature: &Signature) {
    let (head, place) = (location.head, location.place);
    let id = place.address as usize;
    if place.address == u32::MAX {
        return;
    }
    if p.vars.len() <= id {
        let unused = Var { name: String::new(), kind: VarKind::Internal, bytes: 0, const_offset: 0 };
        p.vars.resize(id + 1, unused);
    }
    let var = &mut p.vars[id];
    if var.name.is_empty() {
        let leaf =
            |leaves: &[SignatureLeaf]| leaves.get(location.from.ordinal as usize).map(|l| l.name.clone());
        let name = match head.kind {
            VarKind::Input => leaf(&signature.inputs),
            VarKind::Output => leaf(&signature.outputs),
            VarKind::Const | VarKind::Internal | VarKind::Pointer => None,
        };
        let const_offset = if head.kind.is_constant() { u64::from(location.from.ordinal) } else { 0 };
        let name = name.unwrap_or_else(|| format!("var{id}"));
        *var = Var { name, kind: head.kind, bytes: 0, const_offset };
    }
    var.bytes = var.bytes.max(head.part_bytes());
    let entry = place.table_entry as usize;
    if place.table_entry != u32::MAX {
        if p.table.len() <= entry {
            p.table.resize(entry + 1, TableEntry { var: 0, displacement: 0 });
        }
        p.table[entry] = TableEntry { var: place.address, displacement: 0 };
    }
}

/// Symbols of one direction; `None` when a leaf has no variable.
fn symbols(kind: VarKind, leaves: &[SignatureLeaf], locations: &[Rc<Location>]) -> Option<Vec<Symbol>> {
    let mut found: Vec<Option<&Rc<Location>>> = vec![None; leaves.len()];
    for location in locations.iter().filter(|l| l.head.space == Space::Dram && l.head.kind == kind) {
        found.get_mut(location.from.ordinal as usize)?.get_or_insert(location);
    }
    let symbols = (0u32..).zip(leaves).zip(found).map(|((index, leaf), location)| {
        let location = location?;
        Some(Symbol {
            name: leaf.name.clone(),
            input: kind == VarKind::Input,
            index,
            var: location.place.address,
            ty: leaf.ty,
            dtype: location.head.dtype,
            dims: leaf.dims.clone(),
        })
    });
    symbols.collect()
}
