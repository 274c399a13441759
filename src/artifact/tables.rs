//! The tables as section bytes, and back.
//!
//! | section | row |
//! |---|---|
//! | `.murre.stream.<engine>`, `.murre.descriptors` | 64-byte record |
//! | `.murre.blocks` | u32 queue, u32 first, u32 count |
//! | `.murre.queues` | u8 engine ordinal, text name |
//! | `.murre.vars` | u8 kind, u64 bytes, u64 constant offset, text name |
//! | `.murre.table` | u32 variable, u64 displacement |
//! | `.murre.constants` | bytes |
//! | `.murre.addr4` | u32 word |
//! | `.murre.addr4.sites` | u8 stream, u8 offset, u32 record |
//! | `.murre.symbols` | u8 input, u32 index, u32 variable, u8 HLO type, u8 dtype, u32 rank, u64 extents, text name |
//! | `.murre.extents` | two lists of u32 array, u32 dimension: inputs, outputs; u8 reports; checks: u32 dimension, u64 bound, text name |
//! | `.murre.provenance` | texts of names, texts of sources, then u32 lists: five streams, descriptors |
//!
//! Numbers are little-endian, a text is a u32 length and UTF-8, tables of rows that are not records, words or
//! bytes begin with a u32 count.

use super::bytes::{Sink, Source};
use super::container::ArtifactFile;
use super::meta::Meta;
use murre_components::diag::Diagnostic;
use murre_components::dtype::{DType, HloType};
use murre_components::engine::EngineId;
use murre_components::program::*;
use std::borrow::Cow;

/// A finished section.
pub(super) struct Section<'p> {
    pub(super) name: &'static str,
    pub(super) bytes: Cow<'p, [u8]>,
}

const STREAM_SECTIONS: [&str; 5] =
    [".murre.stream.pool", ".murre.stream.act", ".murre.stream.pe", ".murre.stream.dve", ".murre.stream.sp"];

/// Every table section, in the order of the file.
pub(super) const SECTIONS: [&str; 16] = [
    STREAM_SECTIONS[0],
    STREAM_SECTIONS[1],
    STREAM_SECTIONS[2],
    STREAM_SECTIONS[3],
    STREAM_SECTIONS[4],
    ".murre.descriptors",
    ".murre.blocks",
    ".murre.queues",
    ".murre.vars",
    ".murre.table",
    ".murre.constants",
    ".murre.addr4",
    ".murre.addr4.sites",
    ".murre.symbols",
    ".murre.extents",
    ".murre.provenance",
];

pub(super) fn encode<'p>(p: &'p Program) -> Vec<Section<'p>> {
    let mut out: Vec<Section<'p>> = Vec::with_capacity(SECTIONS.len());
    let mut put = |bytes: Cow<'p, [u8]>| {
        // Sixteen calls below, in the order of SECTIONS.
        let name = SECTIONS.get(out.len()).copied().unwrap_or("");
        out.push(Section { name, bytes });
    };
    for stream in &p.streams {
        put(stream.as_flattened().into());
    }
    put(p.descriptors.as_flattened().into());
    put(rows(&p.blocks, |s, b| {
        s.u32(b.queue);
        s.u32(b.first);
        s.u32(b.count);
    }));
    put(rows(&p.queues, |s, q| {
        s.u8(q.engine as u8);
        s.text(&q.name);
    }));
    put(rows(&p.vars, |s, v| {
        s.u8(v.kind as u8);
        s.u64(v.bytes);
        s.u64(v.const_offset);
        s.text(&v.name);
    }));
    put(rows(&p.table, |s, t| {
        s.u32(t.var);
        s.u64(t.displacement);
    }));
    put(p.constants.as_slice().into());
    let mut s = Sink::with_room(4 * p.addr4.len());
    p.addr4.iter().for_each(|w| s.u32(*w));
    put(s.0.into());
    put(rows(&p.addr4_sites, |s, w| {
        let [a, b, c, d] = w.record.to_le_bytes();
        s.bytes(&[w.stream, w.offset, a, b, c, d]);
    }));
    put(rows(&p.symbols, |s, y| {
        s.u8(y.input as u8);
        s.u32(y.index);
        s.u32(y.var);
        s.u8(y.ty as u8);
        s.u8(y.dtype as u8);
        s.u32(y.dims.len() as u32);
        y.dims.iter().for_each(|d| s.u64(*d));
        s.text(&y.name);
    }));
    let mut s = Sink::default();
    for list in [&p.extents.inputs, &p.extents.outputs] {
        s.u32(list.len() as u32);
        for e in list {
            s.u32(e.array);
            s.u32(e.dimension);
        }
    }
    s.u8(p.extents.reports as u8);
    s.u32(p.extents.checks.len() as u32);
    for c in &p.extents.checks {
        s.u32(c.dimension);
        s.u64(c.bound);
        s.text(&c.instruction);
    }
    put(s.0.into());
    let lists = || p.provenance.streams.iter().chain([&p.provenance.descriptors]);
    let mut s = Sink::with_room(lists().map(|list| 4 * list.len() + 4).sum());
    for texts in [&p.provenance.names, &p.provenance.sources] {
        s.u32(texts.len() as u32);
        texts.iter().for_each(|t| s.text(t));
    }
    for list in lists() {
        s.u32(list.len() as u32);
        list.iter().for_each(|n| s.u32(*n));
    }
    put(s.0.into());
    out
}

fn rows<T>(table: &[T], mut row: impl FnMut(&mut Sink, &T)) -> Cow<'static, [u8]> {
    let mut s = Sink::with_room(4 + size_of_val(table));
    s.u32(table.len() as u32);
    table.iter().for_each(|t| row(&mut s, t));
    s.0.into()
}

pub(super) fn decode(file: &ArtifactFile<'_>, meta: &Meta) -> Result<Program, Diagnostic> {
    let mut p = Program::empty(&meta.module, meta.target()?);
    for (stream, name) in p.streams.iter_mut().zip(STREAM_SECTIONS) {
        *stream = records(name, file)?;
    }
    p.descriptors = records(".murre.descriptors", file)?;
    p.blocks = table(".murre.blocks", file, 12, |s| {
        Ok(BlockEntry { queue: s.u32()?, first: s.u32()?, count: s.u32()? })
    })?;
    p.queues = table(".murre.queues", file, 5, |s| {
        let engine = EngineId::from_ordinal(s.u8()?).filter(|e| e.stream().is_some());
        let engine = engine.ok_or_else(|| s.fault("a queue belongs to no engine with a stream"))?;
        Ok(Queue { engine, name: s.text()?.to_owned() })
    })?;
    p.vars = table(".murre.vars", file, 21, |s| {
        let kind = match s.u8()? {
            0 => VarKind::Input,
            3 => VarKind::Output,
            6 => VarKind::Const,
            7 => VarKind::Internal,
            8 => VarKind::Pointer,
            other => return Err(s.fault(format!("unknown variable kind {other}"))),
        };
        Ok(Var { kind, bytes: s.u64()?, const_offset: s.u64()?, name: s.text()?.to_owned() })
    })?;
    p.table = table(".murre.table", file, 12, |s| Ok(TableEntry { var: s.u32()?, displacement: s.u64()? }))?;
    p.constants = file.section(".murre.constants")?.to_vec();
    p.addr4 = words(".murre.addr4", file)?;
    p.addr4_sites = table(".murre.addr4.sites", file, 6, |s| {
        Ok(WordSite { stream: s.u8()?, offset: s.u8()?, record: s.u32()? })
    })?;
    p.symbols = table(".murre.symbols", file, 19, symbol)?;
    p.extents = extents(file)?;
    let mut s = Source::new(".murre.provenance", file.section(".murre.provenance")?);
    for texts in [&mut p.provenance.names, &mut p.provenance.sources] {
        *texts = (0..s.count(4)?).map(|_| s.text()).collect::<Result<_, _>>()?;
    }
    for list in p.provenance.streams.iter_mut().chain([&mut p.provenance.descriptors]) {
        *list = (0..s.count(4)?).map(|_| s.u32()).collect::<Result<_, _>>()?;
    }
    s.end()?;
    Ok(p)
}

fn extents(file: &ArtifactFile<'_>) -> Result<Extents, Diagnostic> {
    let mut s = Source::new(".murre.extents", file.section(".murre.extents")?);
    let mut extents = Extents::default();
    for list in [&mut extents.inputs, &mut extents.outputs] {
        *list = (0..s.count(8)?)
            .map(|_| Ok(Extent { array: s.u32()?, dimension: s.u32()? }))
            .collect::<Result<_, Diagnostic>>()?;
    }
    extents.reports = match s.u8()? {
        0 => false,
        1 => true,
        other => return Err(s.fault(format!("a program reports failed checks or not ({other})"))),
    };
    extents.checks = (0..s.count(16)?)
        .map(|_| Ok(SizeCheck { dimension: s.u32()?, bound: s.u64()?, instruction: s.text()?.to_owned() }))
        .collect::<Result<_, Diagnostic>>()?;
    s.end()?;
    Ok(extents)
}

fn symbol(s: &mut Source<'_>) -> Result<Symbol, Diagnostic> {
    let input = match s.u8()? {
        0 => false,
        1 => true,
        other => return Err(s.fault(format!("a symbol is neither input nor output ({other})"))),
    };
    let index = s.u32()?;
    let var = s.u32()?;
    let ty = HloType::from_number(s.u8()? as i32).ok_or_else(|| s.fault("unknown HLO type number"))?;
    let dtype = DType::ALL.get(s.u8()? as usize).copied().ok_or_else(|| s.fault("unknown dtype ordinal"))?;
    let dims = (0..s.count(8)?).map(|_| s.u64()).collect::<Result<_, _>>()?;
    Ok(Symbol { name: s.text()?.to_owned(), input, index, var, ty, dtype, dims })
}

fn records(name: &'static str, file: &ArtifactFile<'_>) -> Result<Vec<Record>, Diagnostic> {
    let bytes = file.section(name)?;
    let (rows, rest) = bytes.as_chunks::<64>();
    if !rest.is_empty() {
        return Err(Source::new(name, bytes).fault("is not a whole number of 64-byte records"));
    }
    Ok(rows.to_vec())
}

fn words(name: &'static str, file: &ArtifactFile<'_>) -> Result<Vec<u32>, Diagnostic> {
    let bytes = file.section(name)?;
    let (rows, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Source::new(name, bytes).fault("is not a whole number of words"));
    }
    Ok(rows.iter().map(|w| u32::from_le_bytes(*w)).collect())
}

fn table<T>(
    name: &'static str,
    file: &ArtifactFile<'_>,
    row_bytes: usize,
    mut row: impl FnMut(&mut Source<'_>) -> Result<T, Diagnostic>,
) -> Result<Vec<T>, Diagnostic> {
    let mut s = Source::new(name, file.section(name)?);
    let n = s.count(row_bytes)?;
    let rows = (0..n).map(|_| row(&mut s)).collect::<Result<_, _>>()?;
    s.end()?;
    Ok(rows)
}
