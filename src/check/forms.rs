//! The two forms of an access: with its address in a register, and with its address in the record. In: two programs and what
//! a run of each saw in the registers of its addresses. Out: how many records with a run-time address have the same record on the
//! other side, once addresses are what the registers held and everything that only orders records is left out: events,
//! semaphores, the bound that a register needs, and whether the record stands in a stream or in a block of descriptors.
//! Facts: `spec/isa.md 1, 4`.

use crate::sim::{Sample, SimOutcome, Watch};
use murre_components::isa::{Addr4, Addr8, Addr8Form, BoundRegister, DmaDirect, Instr, decode};
use murre_components::program::{Program, Record};

/// Streams of engines come first, then the descriptors.
const DESCRIPTORS: usize = 5;

/// A record with a register in an address.
struct Site {
    stream: usize,
    record: usize,
    registers: Vec<u8>,
}

/// Registers of the address words of a record, in the order of the words.
fn sites(program: &Program) -> Vec<Site> {
    let mut out: Vec<Site> = Vec::new();
    for (stream, records) in program.streams.iter().enumerate() {
        for (record, bytes) in records.iter().enumerate() {
            let Ok((Instr::DmaDirect(d), _)) = decode(bytes) else { continue };
            let registers: Vec<u8> = [d.dst, d.src].iter().flat_map(registers8).collect();
            if !registers.is_empty() {
                out.push(Site { stream, record, registers });
            }
        }
    }
    for (word, site) in program.addr4.iter().zip(&program.addr4_sites) {
        let register = Addr4::from_word(*word).ok().and_then(|a| a.register_id());
        let (stream, record) = (site.stream as usize, site.record as usize);
        let Some(register) = register.filter(|_| stream < DESCRIPTORS) else { continue };
        match out.iter_mut().rfind(|s| s.stream == stream && s.record == record) {
            Some(known) => known.registers.push(register),
            None => out.push(Site { stream, record, registers: vec![register] }),
        }
    }
    out
}

fn registers8(a: &Addr8) -> Vec<u8> {
    match a.form {
        Addr8Form::TableRegister { register, wide: true, .. } => vec![register, register + 1],
        Addr8Form::TableRegister { register, .. } => vec![register],
        Addr8Form::Register { low, .. } => vec![low],
        _ => Vec::new(),
    }
}

/// What to look at in a run of the program.
pub fn watches(program: &Program) -> Vec<Watch> {
    let watch =
        |s: Site| Watch { engine: s.stream, record: s.record as u32, registers: s.registers, sbuf: None };
    sites(program).into_iter().map(watch).collect()
}

/// Records of run-time addresses that ran, and those of them with a counterpart in the other program.
pub fn coinciding(a: &Program, of_a: &SimOutcome, b: &Program, of_b: &SimOutcome) -> (usize, usize) {
    let steered = steered_keys(a, of_a);
    let mut others: Vec<String> = steered_keys(b, of_b);
    for records in b.streams.iter().chain([&b.descriptors]) {
        others.extend(records.iter().filter_map(|r| key(b, r, &[])));
    }
    let mut found = 0;
    for key in &steered {
        // Each record is the counterpart of one.
        if let Some(at) = others.iter().position(|o| o == key) {
            others.swap_remove(at);
            found += 1;
        }
    }
    (steered.len(), found)
}

/// Keys of the records with run-time addresses, at their last run.
fn steered_keys(program: &Program, outcome: &SimOutcome) -> Vec<String> {
    let mut out = Vec::new();
    for (site, seen) in sites(program).iter().zip(&outcome.seen) {
        let Some(last) = &seen.last else { continue };
        let record = program.streams.get(site.stream).and_then(|s| s.get(site.record));
        let record = record.and_then(|r| patched(program, site, r, last));
        out.extend(record.and_then(|r| key(program, &r, &words(last))));
    }
    out
}

fn words(sample: &Sample) -> Vec<u32> {
    sample.registers.iter().map(|w| w.unwrap_or(u32::MAX)).collect()
}

/// The record with the addresses that its ADDR4 registers held.
fn patched(program: &Program, site: &Site, record: &Record, sample: &Sample) -> Option<Record> {
    let mut out = *record;
    let mut held = sample.registers.iter();
    for (word, at) in program.addr4.iter().zip(&program.addr4_sites) {
        if (at.stream as usize, at.record as usize) != (site.stream, site.record)
            || Addr4::from_word(*word).ok()?.register_id().is_none()
        {
            continue;
        }
        let bytes = (*held.next()?)?.to_le_bytes();
        out.get_mut(at.offset as usize..at.offset as usize + 4)?.copy_from_slice(&bytes);
    }
    Some(out)
}

/// A record that moves data, without what orders it; `held` are the registers of ADDR8 words.
fn key(program: &Program, record: &Record, held: &[u32]) -> Option<String> {
    let (instr, _) = decode(record).ok()?;
    let Instr::DmaDirect(d) = instr else {
        let data =
            !matches!(instr, Instr::Branch(_) | Instr::Bare(_) | Instr::Drain(_) | Instr::DmaTrigger(_));
        return data.then(|| format!("{instr:?}"));
    };
    let mut held = held.iter().copied();
    let dst = resolved(program, d.dst, &mut held)?;
    let src = resolved(program, d.src, &mut held)?;
    let nowhere = Addr8::immediate(0).ok()?;
    let plain = DmaDirect {
        priority: 0,
        semaphore: 0,
        increment: 0,
        src: nowhere,
        dst: nowhere,
        src_bound: BoundRegister::NONE,
        dst_bound: BoundRegister::NONE,
        ..d
    };
    Some(format!("{plain:?} to {} from {}", place(program, dst)?, place(program, src)?))
}

/// An address with the variable's name: numbers differ when one program has a scalar's variable more.
fn place(program: &Program, a: Addr8) -> Option<String> {
    match a.form {
        Addr8Form::Variable { id, offset } => {
            let var = program.vars.get(id as usize)?;
            Some(format!("{} {:?} {} + {offset}", var.name, var.kind, var.bytes))
        }
        form => Some(format!("{form:?}")),
    }
}

fn resolved(program: &Program, a: Addr8, held: &mut impl Iterator<Item = u32>) -> Option<Addr8> {
    match a.form {
        Addr8Form::TableRegister { entry, wide, .. } => {
            let low = held.next()?;
            let high = if wide { held.next()? } else { 0 };
            let row = program.table.get(entry as usize)?;
            let offset = row.displacement + (u64::from(low) | u64::from(high) << 32);
            Addr8::variable(row.var, u32::try_from(offset).ok()?).ok()
        }
        Addr8Form::Table { entry, offset } => {
            let row = program.table.get(entry as usize)?;
            Addr8::variable(row.var, u32::try_from(row.displacement + u64::from(offset)).ok()?).ok()
        }
        Addr8Form::Register { .. } => Addr8::immediate(u64::from(held.next()?)).ok(),
        _ => Some(a),
    }
}
