//! Index checks: every number in a program that names a row of another table names one that exists.
//!
//! In: a program, read or built. Out: nothing, or the first index that points nowhere. After this the simulator can
//! look rows up without asking again.

use murre_components::diag::{Diagnostic, codes::artifact as codes};
use murre_components::dtype::HloType;
use murre_components::engine::MAX_QUEUES;
use murre_components::program::{Program, Symbol};

/// The first index of `program` that points outside its table, if any.
pub fn check(program: &Program) -> Result<(), Diagnostic> {
    let p = program;
    let fault = |what: String| {
        Err(Diagnostic::error(&codes::ART_INDEX, what)
            .help("this is a fault of the writer; please report it"))
    };
    for (i, b) in p.blocks.iter().enumerate() {
        if b.queue as usize >= p.queues.len() {
            return fault(format!("block {i} names queue {} of {}", b.queue, p.queues.len()));
        }
        if b.first as u64 + b.count as u64 > p.descriptors.len() as u64 {
            let end = b.first as u64 + b.count as u64;
            return fault(format!("block {i} ends at descriptor {end} of {}", p.descriptors.len()));
        }
    }
    if p.queues.len() > MAX_QUEUES as usize {
        return fault(format!("{} queues; the core has {MAX_QUEUES}", p.queues.len()));
    }
    for (i, q) in p.queues.iter().enumerate() {
        if q.name.len() > 31 || q.name.contains('\0') {
            return fault(format!("queue {i} has a name of {} bytes; at most 31 without NUL", q.name.len()));
        }
        if p.queues.iter().take(i).any(|other| other.name == q.name) {
            return fault(format!("two queues are named '{}'", q.name));
        }
    }
    for (i, v) in p.vars.iter().enumerate() {
        let end = v.const_offset.checked_add(v.bytes);
        if v.kind.is_constant() && end.is_none_or(|e| e > p.constants.len() as u64) {
            return fault(format!(
                "variable {i} ('{}') reaches past the {} constant bytes",
                v.name,
                p.constants.len()
            ));
        }
    }
    for (i, t) in p.table.iter().enumerate() {
        match p.vars.get(t.var as usize) {
            Some(v) if t.displacement <= v.bytes => {}
            Some(v) => {
                let (d, n) = (t.displacement, v.bytes);
                return fault(format!(
                    "table entry {i} starts at byte {d} of variable '{}' of {n} bytes",
                    v.name
                ));
            }
            None => return fault(format!("table entry {i} names variable {} of {}", t.var, p.vars.len())),
        }
    }
    for input in [true, false] {
        let side = if input { "input" } else { "output" };
        for (k, s) in p.symbols.iter().filter(|s| s.input == input).enumerate() {
            if s.index as usize != k {
                return fault(format!("{side} '{}' has index {}, expected {k}", s.name, s.index));
            }
            let Some(v) = p.vars.get(s.var as usize) else {
                return fault(format!("{side} '{}' names variable {} of {}", s.name, s.var, p.vars.len()));
            };
            let bytes = s.dims.iter().try_fold(s.dtype.bytes() as u64, |n, d| n.checked_mul(*d));
            if bytes.is_none_or(|n| n > v.bytes) {
                return fault(format!(
                    "{side} '{}' is larger than its variable of {} bytes",
                    s.name, v.bytes
                ));
            }
        }
    }
    extents(p)?;
    if p.addr4.len() != p.addr4_sites.len() {
        return fault(format!("{} ADDR4 words and {} sites", p.addr4.len(), p.addr4_sites.len()));
    }
    for (i, w) in p.addr4_sites.iter().enumerate() {
        let records = if w.stream == 5 { Some(&p.descriptors) } else { p.streams.get(w.stream as usize) };
        if w.offset > 60 || records.is_none_or(|r| w.record as usize >= r.len()) {
            return fault(format!("ADDR4 site {i} names stream {} record {}", w.stream, w.record));
        }
    }
    provenance(p)
}

/// The hidden inputs and outputs are `s32[]`, and each names a dimension of a visible one.
fn extents(p: &Program) -> Result<(), Diagnostic> {
    let fault = |what: String| Err(Diagnostic::error(&codes::ART_INDEX, what));
    let sides = [
        ("input", true, &p.extents.inputs, p.extents.inputs.len()),
        ("output", false, &p.extents.outputs, p.extents.hidden_outputs()),
    ];
    for (side, input, extents, hidden) in sides {
        let all: Vec<&Symbol> = p.symbols.iter().filter(|s| s.input == input).collect();
        let Some(visible) = all.len().checked_sub(hidden) else {
            return fault(format!("{hidden} hidden {side}s of {}", all.len()));
        };
        if let Some(s) = all[visible..].iter().find(|s| s.ty != HloType::S32 || !s.dims.is_empty()) {
            return fault(format!("hidden {side} '{}' is not an s32[]", s.name));
        }
        for e in extents {
            let named = all[..visible].get(e.array as usize);
            if named.is_none_or(|s| e.dimension as usize >= s.dims.len()) {
                return fault(format!("an extent names dimension {} of {side} {}", e.dimension, e.array));
            }
        }
    }
    Ok(())
}

fn provenance(p: &Program) -> Result<(), Diagnostic> {
    let fault = |what: String| Err(Diagnostic::error(&codes::ART_INDEX, what));
    let names = p.provenance.names.len();
    if p.provenance.sources.len() > names {
        return fault(format!("{} sources for {names} names", p.provenance.sources.len()));
    }
    let records = p.streams.iter().chain([&p.descriptors]);
    let lists = p.provenance.streams.iter().chain([&p.provenance.descriptors]);
    for (i, (records, list)) in records.zip(lists).enumerate() {
        if list.len() > records.len() {
            return fault(format!(
                "provenance of table {i} has {} rows for {} records",
                list.len(),
                records.len()
            ));
        }
        if let Some(n) = list.iter().find(|n| **n != u32::MAX && **n as usize >= names) {
            return fault(format!("provenance of table {i} names instruction {n} of {names}"));
        }
    }
    Ok(())
}
