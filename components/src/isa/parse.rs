//! Text back into records. In: a line as [`super::disassemble`] writes it. Out: the same 64 bytes, checked as a record
//! off the wire would be, or a diagnostic that names the key. Facts: `spec/isa_compute.md 12.7`.

use super::addr4::{INDIRECT, MARKERS, REGISTER, SHAPE_REGISTER, addr4_psum, addr4_sbuf};
use super::addr8::{Addr8, BoundRegister};
use super::codes::DTYPE;
use super::event::Events;
use super::field::{Field, Kind, Place, Shape, Wire, at, store};
use super::names::opcode_named;
use super::print::{COMPARE, TESTS, pointer_dtype};
use super::record::{LENGTH_WORDS, decode_record, has_prefix, shape_of};
use crate::diag::{Diagnostic, codes::isa as code};
use crate::engine::{PARTITIONS, PSUM_BANK_BYTES};
use crate::program::Record;

/// What a text should have been.
type Parsed<T> = Result<T, &'static str>;

/// The record of a line.
#[allow(clippy::result_large_err)]
pub fn assemble(line: &str) -> Result<Record, Diagnostic> {
    let line = line.trim();
    if let Some(hex) = line.strip_prefix(".raw") {
        return raw(hex).map_err(|want| unreadable("the bytes", hex.trim(), want));
    }
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let Some((opcode, shape)) = opcode_named(name).and_then(|c| Some((c, shape_of(c)?))) else {
        return Err(unreadable("the instruction", name, "the name of an instruction, or .raw"));
    };
    let mut r: Record = [0; 64];
    r[0] = opcode;
    if has_prefix(opcode) {
        r[1] = LENGTH_WORDS;
    }
    for (place, value) in shape.fixed {
        store(&mut r, *place, &[*value]);
    }
    let pairs = pairs(rest).map_err(|rest| unreadable("the operands", rest, "key=value, key=value, ..."))?;
    let mut events = EventText::default();
    for (i, (key, text)) in pairs.iter().enumerate() {
        if pairs.iter().take(i).any(|(k, _)| k == key) {
            return Err(unreadable(key, text, "each key once"));
        }
        let field = shape.fields.iter().find(|f| f.key == *key && !matches!(f.kind, Kind::Carried));
        let put = match (field, has_prefix(opcode)) {
            (Some(f), _) => put_field(&mut r, f, text),
            (None, true) => events.take(key, text),
            (None, false) => Err(NO_KEY),
        };
        put.map_err(|want| unreadable(key, text, want))?;
    }
    if has_prefix(opcode) {
        events.events()?.put(&mut r, at(4));
    }
    decode_record(&r)?;
    for f in shape.fields.iter().filter(|f| matches!(f.kind, Kind::Imm(_))) {
        let text = pairs.iter().find(|(k, _)| *k == f.key).map_or("", |(_, t)| t);
        check_pointer(&r, &shape, f, text).map_err(|want| unreadable(f.key, text, want))?;
    }
    Ok(r)
}

const NO_KEY: &str = "a key of this instruction";

fn unreadable(what: &str, text: &str, want: &'static str) -> Diagnostic {
    let shown: String = text.chars().take(80).collect();
    Diagnostic::error(&code::ISA_TEXT, format!("{what}: cannot read this")).found(shown).expected(want)
}

fn raw(hex: &str) -> Parsed<Record> {
    let mut r: Record = [0; 64];
    let mut digits = hex.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).ok_or(RAW));
    for b in r.iter_mut() {
        let (high, low) = (digits.next().ok_or(RAW)??, digits.next().ok_or(RAW)??);
        *b = (high << 4 | low) as u8;
    }
    digits.next().map_or(Ok(r), |_| Err(RAW))
}

const RAW: &str = "64 bytes in hexadecimal";

/// Splits `key=value key=value`. A value reaches to the next key outside brackets and quotes. On failure the rest that
/// begins with no key.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, &str> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((key, value)) = key_at(rest) else { return Err(rest) };
        let mut depth = 0i32;
        let mut quoted = false;
        let end = value.char_indices().find(|(i, c)| {
            match c {
                '"' => quoted = !quoted,
                '[' if !quoted => depth += 1,
                ']' if !quoted => depth -= 1,
                _ => {}
            }
            let after = value.get(i + c.len_utf8()..).unwrap_or("");
            c.is_whitespace() && !quoted && depth == 0 && key_at(after).is_some()
        });
        let end = end.map_or(value.len(), |(i, _)| i);
        let (value, next) = value.split_at(end);
        out.push((key, value.trim_end()));
        rest = next.trim_start();
    }
    Ok(out)
}

/// The key that `text` begins with, and what stands behind its `=`.
fn key_at(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (!key.is_empty() && key.bytes().all(word)).then_some((key, value))
}

/// What the event keys said.
#[derive(Default)]
struct EventText {
    events: Events,
    wait: Option<u32>,
    update: Option<u32>,
    spare: Option<u32>,
}

impl EventText {
    fn take(&mut self, key: &str, text: &str) -> Parsed<()> {
        match key {
            "wait" => self.take_wait(text),
            "update" => self.take_update(text),
            "event_value" => {
                self.spare = Some(unsigned(text)?);
                Ok(())
            }
            _ => Err(NO_KEY),
        }
    }

    fn take_wait(&mut self, text: &str) -> Parsed<()> {
        const WANT: &str = "sN>=V, sN>=$rR, eN:set and the like";
        if let Some(id) = text.strip_prefix("none:") {
            self.events.wait_id = unsigned(id)?;
            return Ok(());
        }
        if let Some((id, test)) = text.strip_prefix('e').and_then(|t| t.split_once(':')) {
            self.events.wait_mode = coded(&TESTS, test).ok_or(WANT)?;
            self.events.wait_id = unsigned(id)?;
            return Ok(());
        }
        let body = text.strip_prefix('s').ok_or(WANT)?;
        let (id, rest) = body.split_at(body.bytes().take_while(u8::is_ascii_digit).count());
        let sign = rest.bytes().take_while(|b| matches!(b, b'<' | b'>' | b'=')).count();
        let (sign, value) = rest.split_at(sign);
        let (value, register) = value.strip_prefix("$r").map_or((value, 0), |v| (v, 0x80));
        self.events.wait_mode = coded(&COMPARE, sign).ok_or(WANT)? | register;
        self.events.wait_id = unsigned(id)?;
        self.wait = Some(unsigned(value)?);
        Ok(())
    }

    fn take_update(&mut self, text: &str) -> Parsed<()> {
        const WANT: &str = "sN+V, sN-V, sN=V, sN++, sN--, eN:set or eN:clear, with or without @read";
        if let Some(id) = text.strip_prefix("none:") {
            self.events.update_id = unsigned(id)?;
            return Ok(());
        }
        let (text, when) = text.strip_suffix("@read").map_or((text, 0x10), |t| (t, 0));
        let body = text.strip_prefix(['s', 'e']).ok_or(WANT)?;
        let (id, rest) = body.split_at(body.bytes().take_while(u8::is_ascii_digit).count());
        let mode = match (text.starts_with('e'), rest) {
            (true, ":set") => 1,
            (true, ":clear") => 2,
            (false, "++") => 3,
            (false, "--") => 4,
            (false, _) => {
                let mode = match rest.bytes().next() {
                    Some(b'+') => 5,
                    Some(b'-') => 7,
                    Some(b'=') => 9,
                    _ => return Err(WANT),
                };
                self.update = Some(unsigned(rest.get(1..).unwrap_or(""))?);
                mode
            }
            _ => return Err(WANT),
        };
        self.events.update_mode = mode | when;
        self.events.update_id = unsigned(id)?;
        Ok(())
    }

    /// The events, when all values agree: they share one place.
    #[allow(clippy::result_large_err)]
    fn events(&self) -> Result<Events, Diagnostic> {
        let mut given = [self.wait, self.update, self.spare].into_iter().flatten();
        let value = given.next().unwrap_or(0);
        match given.find(|v| *v != value) {
            Some(other) => Err(Diagnostic::error(
                &code::ISA_EVENTS,
                "wait and update share one value, and the text gives two",
            )
            .found(format!("{value} and {other}"))
            .expected("the same number")),
            None => Ok(Events { value, ..self.events }),
        }
    }
}

fn coded(names: &[(u8, &str)], text: &str) -> Option<u8> {
    names.iter().find(|(_, n)| *n == text).map(|(c, _)| *c)
}

/// A decimal or `0x` number that fits.
fn unsigned<T: TryFrom<u64>>(text: &str) -> Parsed<T> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let plain = !text.starts_with('+') && !text.starts_with("0x+");
    parsed.ok().filter(|_| plain).and_then(|n| T::try_from(n).ok()).ok_or("a number that fits the field")
}

fn signed<T: TryFrom<i64>>(text: &str) -> Parsed<T> {
    text.parse().ok().and_then(|n: i64| T::try_from(n).ok()).ok_or("a signed number that fits the field")
}

/// A code by name or number.
fn named(names: &[(u8, &str)], text: &str) -> Parsed<u8> {
    coded(names, text).map_or_else(|| unsigned(text).map_err(|_| "one of the names of this field"), Ok)
}

fn register(text: &str) -> Parsed<u8> {
    text.strip_prefix("$r").ok_or("a register, $rN").and_then(unsigned)
}

/// Stores a number into a byte, a nibble, or 2, 4 or 8 bytes.
fn put_number(r: &mut Record, f: &Field, n: u64) -> Parsed<()> {
    const WANT: &str = "a number that fits the field";
    match f.bytes {
        1 => return put_byte(r, f.place, u8::try_from(n).map_err(|_| WANT)?),
        2 => u16::try_from(n).map_err(|_| WANT)?.put(r, f.place),
        4 => u32::try_from(n).map_err(|_| WANT)?.put(r, f.place),
        _ => n.put(r, f.place),
    }
    Ok(())
}

fn put_byte(r: &mut Record, p: Place, n: u8) -> Parsed<()> {
    if p.part != super::field::Part::Whole && n > 0x0F {
        return Err("a number that fits four bits");
    }
    n.put(r, p);
    Ok(())
}

fn put_field(r: &mut Record, f: &Field, text: &str) -> Parsed<()> {
    match f.kind {
        Kind::Carried => Err(NO_KEY),
        Kind::Dtype => put_byte(r, f.place, named(DTYPE, text)?),
        Kind::Names(names) => put_byte(r, f.place, named(names, text)?),
        Kind::Uint | Kind::Target | Kind::Hex => put_number(r, f, unsigned(text)?),
        Kind::Int => put_number(r, f, signed::<i32>(text)? as u32 as u64),
        Kind::Float => put_number(r, f, float(text)? as u64),
        Kind::Register => put_number(r, f, register(text)? as u64),
        Kind::Word => put_number(r, f, word(text)? as u64),
        Kind::Tensor(dtype, _) => tensor(r, f, dtype, text),
        Kind::Imm(bias) => immediate(r, f, bias, text),
        Kind::Steps16 => list::<i16>(r, f, text, signed),
        Kind::Counts => list::<u16>(r, f, text, unsigned),
        Kind::Steps32 => list::<i32>(r, f, text, signed),
        Kind::Words => list::<u32>(r, f, text, unsigned),
        Kind::Bytes => list::<u8>(r, f, text, unsigned),
        Kind::Addr8 => {
            addr8(text)?.put(r, f.place);
            Ok(())
        }
        Kind::Bound => {
            let (text, quiet) = text.strip_suffix(":quiet").map_or((text, false), |t| (t, true));
            let id = register(text)? as u32;
            BoundRegister::checked(id, quiet).map_err(|f| f.expected)?.put(r, f.place);
            Ok(())
        }
        Kind::Name => name(r, f, text),
        Kind::RowBytes => {
            let n: u32 = unsigned(text)?;
            super::dma::RowBytes::new(n).map_err(|f| f.expected)?.put(r, f.place);
            Ok(())
        }
    }
}

/// fp32 bits of a decimal number, `inf`, or bits in hexadecimal.
fn float(text: &str) -> Parsed<u32> {
    if text.starts_with("0x") {
        return unsigned(text);
    }
    text.parse::<f32>().map(f32::to_bits).map_err(|_| "a number, or its fp32 bits in hexadecimal")
}

/// `sbuf:pP+OFF`, `psum:pP bB+OFF` or `addr:OFF`.
fn location(text: &str) -> Parsed<Option<u64>> {
    const WANT: &str = "a partition 0..127, a bank 0..15, an offset within it";
    if let Some(address) = text.strip_prefix("addr:") {
        return unsigned(address).map(Some);
    }
    let (space, rest) = match (text.strip_prefix("sbuf:p"), text.strip_prefix("psum:p")) {
        (Some(rest), _) => ("sbuf", rest),
        (_, Some(rest)) => ("psum", rest),
        _ => return Ok(None),
    };
    let (place, offset) = rest.split_once('+').ok_or(WANT)?;
    let offset: u32 = unsigned(offset)?;
    let (partition, bank) = match (space, place.split_once(" b")) {
        ("psum", Some((p, b))) => (unsigned::<u32>(p)?, unsigned::<u32>(b)?),
        ("sbuf", None) => (unsigned::<u32>(place)?, 0),
        _ => return Err(WANT),
    };
    let end = if space == "sbuf" { 1 << 18 } else { PSUM_BANK_BYTES };
    if partition >= PARTITIONS || bank > 15 || offset >= end {
        return Err(WANT);
    }
    let word =
        if space == "sbuf" { addr4_sbuf(partition, offset) } else { addr4_psum(partition, bank, offset) };
    Ok(Some(word as u64))
}

/// An ADDR4 word.
fn word(text: &str) -> Parsed<u32> {
    const WANT: &str = "sbuf:pP+OFF, psum:pP bB+OFF, addr:OFF or $rN, with or without :shape or :gather";
    let (text, marker) = match (text.strip_suffix(":shape"), text.strip_suffix(":gather")) {
        (Some(t), _) => (t, SHAPE_REGISTER),
        (_, Some(t)) => (t, INDIRECT),
        _ => (text, 0),
    };
    if let Ok(id) = register(text) {
        return Ok(REGISTER | marker | id as u32);
    }
    let address = location(text)?.and_then(|a| u32::try_from(a).ok()).filter(|a| a & MARKERS == 0);
    address.map(|a| a | marker).ok_or(WANT)
}

fn tensor(r: &mut Record, f: &Field, dtype: Place, text: &str) -> Parsed<()> {
    const WANT: &str = "DTYPE@PLACE[STEP,NUM; ...] or DTYPE@PLACE[index PLACE; COUNT]";
    let (tag, rest) = text.split_once('@').ok_or(WANT)?;
    let (place, body) = rest.strip_suffix(']').and_then(|t| t.split_once('[')).ok_or(WANT)?;
    put_byte(r, dtype, named(DTYPE, tag)?)?;
    let base = f.place.at;
    if let Some((index, count)) = body.strip_prefix("index ").and_then(|b| b.split_once(';')) {
        let index = word(index)?;
        if index & MARKERS != 0 {
            return Err("a static index base without suffix");
        }
        (index | INDIRECT).put(r, at(base));
        word(place)?.put(r, at(base + 4));
        unsigned::<u16>(count.trim())?.put(r, at(base + 8));
        return Ok(());
    }
    word(place)?.put(r, at(base));
    let rank = (f.bytes - 4) / 4;
    let mut slots = body.split(';');
    for i in 0..rank {
        let (step, num) = match slots.next() {
            Some(slot) => {
                let (step, num) = slot.split_once(',').ok_or(WANT)?;
                (signed(step.trim())?, unsigned(num.trim())?)
            }
            None => (1i16, 1u16),
        };
        step.put(r, at(base + 4 + 2 * i));
        num.put(r, at(base + 4 + 2 * rank + 2 * i));
    }
    slots.next().map_or(Ok(()), |_| Err("no more dims than the slot has"))
}

fn immediate(r: &mut Record, f: &Field, bias: bool, text: &str) -> Parsed<()> {
    const WANT: &str = "fp32(NUMBER), bits in hexadecimal, [DTYPE@PLACE] or $rN";
    let (value, source) = if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let place = inner.split_once('@').map_or(inner, |(_, place)| place);
        (word(place)? as u64, if bias { 0 } else { 1 })
    } else if let Ok(id) = register(text) {
        (id as u64, 2)
    } else {
        let literal = match text.strip_prefix("fp32(").and_then(|t| t.strip_suffix(')')) {
            Some(number) => float(number)? as u64,
            None => unsigned(text).map_err(|_| WANT)?,
        };
        (literal, if bias { 1 } else { 0 })
    };
    store(r, f.place.src, &[source]);
    put_number(r, f, value)
}

/// The dtype written in a pointer must be the one that the record gives.
fn check_pointer(r: &Record, shape: &Shape, f: &Field, text: &str) -> Parsed<()> {
    let Some((tag, _)) = text.strip_prefix('[').and_then(|t| t.split_once('@')) else { return Ok(()) };
    let tag = named(DTYPE, tag)?;
    match pointer_dtype(r, shape, f) {
        Some(own) if own == tag => Ok(()),
        Some(_) => Err("the dtype that the record gives this pointer"),
        None => Err("no dtype here: it is the source's"),
    }
}

/// `[a,b,...]`, no longer than the field.
fn list<T: Wire>(r: &mut Record, f: &Field, text: &str, item: fn(&str) -> Parsed<T>) -> Parsed<()> {
    const WANT: &str = "a list in brackets, no longer than the field";
    let body = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or(WANT)?;
    let mut places = (0..f.bytes / T::BYTES).map(|i| at(f.place.at + i * T::BYTES));
    for text in body.split(',').filter(|_| !body.is_empty()) {
        item(text.trim())?.put(r, places.next().ok_or(WANT)?);
    }
    Ok(())
}

fn addr8(text: &str) -> Parsed<Addr8> {
    const WANT: &str = "varN+OFF, tableN+OFF, tableN+$rR, sbuf:pP+OFF, addr:OFF, $rL or $rL:$rH";
    let (text, shape) = text.strip_suffix(":shape").map_or((text, false), |t| (t, true));
    let pair = |t: &str| -> Parsed<(u32, Option<u32>)> {
        let (low, high) = t.split_once(':').map_or((t, None), |(low, high)| (low, Some(high)));
        Ok((register(low)? as u32, high.map(register).transpose()?.map(u32::from)))
    };
    let made = if let Some((id, offset)) = text.strip_prefix("var").and_then(|t| t.split_once('+')) {
        Addr8::variable(unsigned(id)?, unsigned(offset)?)
    } else if let Some((entry, offset)) = text.strip_prefix("table").and_then(|t| t.split_once('+')) {
        let entry = unsigned(entry)?;
        if offset.starts_with('$') {
            let (low, high) = pair(offset)?;
            if high.is_some_and(|h| h != low + 1) {
                return Err("the next register as the high half");
            }
            Addr8::table_register(entry, low, high.is_some())
        } else {
            Addr8::table(entry, unsigned(offset)?)
        }
    } else if text.starts_with('$') {
        let (low, high) = pair(text)?;
        Addr8::in_registers(low, high.unwrap_or(0))
    } else {
        Addr8::immediate(location(text)?.ok_or(WANT)?)
    };
    let made = made.map_err(|f| f.expected)?;
    Ok(if shape { made.with_shape_register() } else { made })
}

fn name(r: &mut Record, f: &Field, text: &str) -> Parsed<()> {
    const WANT: &str = "a name in quotes that leaves room for a NUL";
    let body = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).ok_or(WANT)?;
    let mut bytes = Vec::new();
    let mut rest = body.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |b: &u8| (*b as char).to_digit(16).ok_or(WANT);
                bytes.push((digit(high)? << 4 | digit(low)?) as u8);
                tail
            }
            (b'\\' | b'"', _) => return Err("\\xNN for quotes, backslashes and other bytes"),
            (b, tail) => {
                bytes.push(*b);
                tail
            }
        };
    }
    if bytes.len() >= f.bytes as usize || bytes.contains(&0) {
        return Err(WANT);
    }
    store(r, f.place.at, &bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::disassemble;

    #[test]
    fn lines_come_back() {
        let lines = [
            "Cast src=bf16@sbuf:p0+0x7000[1,256] channels=128 dst=fp32@psum:p0 b1+0x0[1,256]",
            "Copy wait=s5>=3 update=s6++ src=u16@sbuf:p0+0x800[index sbuf:p0+0x20; 96] channels=16 dst=u16@$r17[1,96]",
            "DmaTrigger wait=e7:set_clear queue=\"q\\x22 in\" block=3",
            "Branch compare=ge_reg dtype=i32 left=$r3 right=$r4 target=0",
            "RegisterMove count=2 dtype=i32 source=imm dst=[3,4] imm=[0x0,0xa]",
            "Iota update=s9-2@read base=-3 steps=[-1,5] counts=[2,3,1,1] channels=8 multiplier=-7 dst=i32@sbuf:p32+0x0[1,6]",
            "NoOp wait=s1>=$r9 update=none:4",
            "Drain event_value=7",
        ];
        for line in lines {
            let r = assemble(line).unwrap_or_else(|d| panic!("{line}: {d:?}"));
            assert_eq!(disassemble(&r), line);
        }
        let r: Record = std::array::from_fn(|i| i as u8);
        assert_eq!(assemble(&disassemble(&r)).ok(), Some(r));
    }

    #[test]
    fn unreadable_lines_are_refused_with_a_code() {
        let id = |line: &str| assemble(line).unwrap_err().code.id;
        let text = [
            "",
            "Nonsense",
            "NoOp 5",
            "NoOp count=1",
            "Drain count=256",
            "Drain count=1 count=1",
            "Drain wait=s5",
            "Drain update=s5*2",
            "Drain update=é",
            "Cast src=bf16 channels=1",
            "Cast src=bf16@sbuf:p128+0x0[1,1] channels=1",
            "Cast src=bf16@sbuf:p0+0x0[1,1;1,1;1,1;1,1;1,1] channels=1",
            "Memset value=0x100000000",
            "RegisterMove dst=[1,2,3,4,5,6,7,8,9]",
            "DmaDirect src=table1+$r3:$r5",
            "Call name=\"a\\q\"",
            ".raw 00",
            ".raw zz",
        ];
        for line in text {
            assert_eq!(id(line), "MUR0825", "{line}");
        }
        assert_eq!(id("Drain wait=s5>=3 update=s6+4"), "MUR0818");
        assert_eq!(id("RegisterMove count=9 dtype=i32"), "MUR0803");
        assert_eq!(id("Cast src=bf16@sbuf:p0+0x0[1,0] dst=fp32@sbuf:p0+0x0[1,1] channels=1"), "MUR0811");
    }
}
