//! A compiled program as text and JSON: tables, records and descriptors, from its bytes alone. A record that the
//! profile does not know is shown in hexadecimal with the fault, never skipped.

use murre_components::diag::Diagnostic;
use murre_components::engine::EngineId;
use murre_components::isa::{decode, disassemble};
use murre_components::program::{Program, Record};
use serde_json::{Value, json};
use std::fmt::Write;

/// A legal record as text, or what is wrong with it.
pub fn record_text(record: &Record) -> Result<String, Diagnostic> {
    decode(record)?;
    Ok(disassemble(record))
}

fn hex(record: &Record) -> String {
    record.iter().map(|b| format!("{b:02x}")).collect()
}

fn shown(record: &Record) -> String {
    record_text(record).unwrap_or_else(|d| format!("?? {} [{}] {}", hex(record), d.code.id, d.message))
}

fn origin(program: &Program, index: Option<&u32>) -> Option<String> {
    let k = *index? as usize;
    let name = program.provenance.names.get(k)?;
    match program.provenance.sources.get(k).filter(|s| !s.is_empty()) {
        Some(source) => Some(format!("{name} {source}")),
        None => Some(name.to_owned()),
    }
}

/// The program as text.
pub fn program_text(program: &Program) -> String {
    let mut out = format!("program {} for {}\n", program.name, program.target.name());
    for s in &program.symbols {
        let kind = if s.input { "input" } else { "output" };
        let _ =
            writeln!(out, "{kind} {} {}: {}{:?} in variable {}", s.index, s.name, s.ty.name(), s.dims, s.var);
    }
    for (k, v) in program.vars.iter().enumerate() {
        let _ = writeln!(out, "variable {k} {}: {:?}, {} bytes", v.name, v.kind, v.bytes);
    }
    for (k, e) in program.table.iter().enumerate() {
        let _ = writeln!(out, "table {k}: variable {} + {}", e.var, e.displacement);
    }
    for (k, q) in program.queues.iter().enumerate() {
        let _ = writeln!(out, "queue {k} {}: {}", q.name, q.engine.name());
    }
    let note = |index: Option<&u32>| origin(program, index).map_or(String::new(), |o| format!("  // {o}"));
    for (k, engine) in EngineId::STREAMS.iter().enumerate() {
        let _ = writeln!(out, "stream {}:", engine.name());
        for (n, record) in program.streams[k].iter().enumerate() {
            let _ = writeln!(out, "{n:>6} {}{}", shown(record), note(program.provenance.streams[k].get(n)));
        }
    }
    for (k, b) in program.blocks.iter().enumerate() {
        let _ = writeln!(out, "block {k} on queue {}:", b.queue);
        let records = program.descriptors.iter().enumerate().skip(b.first as usize).take(b.count as usize);
        for (n, record) in records {
            let _ = writeln!(out, "{n:>6} {}{}", shown(record), note(program.provenance.descriptors.get(n)));
        }
    }
    out
}

/// The program as JSON: the same facts, each record with its bytes.
pub fn program_json(program: &Program) -> Value {
    let record = |record: &Record, index: Option<&u32>| {
        let mut row = json!({ "hex": hex(record), "from": origin(program, index) });
        match record_text(record) {
            Ok(text) => row["text"] = text.into(),
            Err(d) => row["fault"] = d.code.id.into(),
        }
        row
    };
    let streams: serde_json::Map<String, Value> = EngineId::STREAMS
        .iter()
        .enumerate()
        .map(|(k, engine)| {
            let rows = program.streams[k].iter().enumerate();
            let rows = rows.map(|(n, r)| record(r, program.provenance.streams[k].get(n)));
            (engine.name().to_string(), rows.collect())
        })
        .collect();
    let descriptors: Vec<Value> = program
        .descriptors
        .iter()
        .enumerate()
        .map(|(n, r)| record(r, program.provenance.descriptors.get(n)))
        .collect();
    let addr4: Vec<Value> = program
        .addr4
        .iter()
        .zip(&program.addr4_sites)
        .map(|(w, s)| json!({ "word": format!("{w:08x}"), "site": s }))
        .collect();
    json!({
        "name": program.name, "target": program.target.name(), "symbols": program.symbols, "extents": program.extents,
        "variables": program.vars, "table": program.table, "queues": program.queues, "streams": streams,
        "blocks": program.blocks, "descriptors": descriptors, "addr4": addr4,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;

    #[test]
    fn an_unknown_record_is_shown_with_its_fault() {
        let mut program = Program::empty("m", Target::Trn2);
        program.streams[0].push([0xFF; 64]);
        let text = program_text(&program);
        assert!(text.contains("?? ffff") && text.contains("MUR0801"), "{text}");
        assert_eq!(program_json(&program)["streams"]["pool"][0]["fault"], "MUR0801");
    }
}
