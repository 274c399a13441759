//! Records as text. In: 64 bytes. Out: `NAME key=value ...`, or `.raw` and the bytes where they are no legal record.
//! Facts: `spec/isa_compute.md 12.7`; the field table of each layout does the rest.
//!
//! ```text
//! Cast src=bf16@sbuf:p0+0x7000[1,256] channels=128 dst=fp32@psum:p0 b1+0x0[1,256]
//! DmaDirect wait=s5>=3 semaphore=7 increment=16 src=var3+0x40 ... dst=table2+$r5 ...
//! ```
//!
//! Keys stand in byte order. A field of zero bytes is left out, unless zero says something that a reader must see: an
//! address, a branch target, a row of 65536 bytes. Trailing {1, 1} slots of a descriptor and trailing zeros of a list
//! are left out too. Offsets are hexadecimal, counts decimal. [`super::assemble`] reads all of it back.

use super::addr4::{AddrMode, INDIRECT, SHAPE_REGISTER, Space, space_of, word_mode};
use super::addr8::{Addr8, Addr8Form, BoundRegister};
use super::codes::DTYPE;
use super::event::Events;
use super::field::{Field, Imm, Kind, Place, Shape, Wire, bytes_at};
use super::names::opcode_name;
use super::record::{decode_record, has_prefix, shape_of};
use crate::program::Record;

/// The text of a record. Never fails: bytes that are no legal record come out as `.raw`.
pub fn disassemble(record: &Record) -> String {
    let opcode = record[0];
    let (Some(name), Some(shape), Ok((_, events))) =
        (opcode_name(opcode), shape_of(opcode), decode_record(record))
    else {
        return raw(record);
    };
    let mut out = String::from(name);
    if has_prefix(opcode) {
        print_events(&events, &mut out);
    }
    for f in shape.fields {
        if let Some(text) = field_text(record, &shape, f) {
            key(&mut out, f.key, &text);
        }
    }
    out
}

fn key(out: &mut String, name: &str, text: &str) {
    out.push(' ');
    out.push_str(name);
    out.push('=');
    out.push_str(text);
}

/// `.raw` and sixteen words of four bytes in memory order.
fn raw(record: &Record) -> String {
    let mut out = String::from(".raw");
    for (i, b) in record.iter().enumerate() {
        if i % 4 == 0 {
            out.push(' ');
        }
        out.push_str(&format!("{b:02x}"));
    }
    out
}

/// Comparison signs of the wait modes 1..5.
pub(super) const COMPARE: [(u8, &str); 5] = [(1, "=="), (2, "<"), (3, "<="), (4, ">"), (5, ">=")];
/// Event tests.
pub(super) const TESTS: [(u8, &str); 4] =
    [(0x06, "set"), (0x07, "set_clear"), (0x0E, "clear"), (0x0F, "clear_set")];

fn print_events(e: &Events, out: &mut String) {
    let (id, value) = (e.wait_id, e.value);
    let sign = COMPARE.iter().find(|(c, _)| *c == e.wait_mode & 0x7F).map(|(_, s)| *s);
    let test = TESTS.iter().find(|(c, _)| *c == e.wait_mode).map(|(_, s)| *s);
    match (sign, test) {
        (Some(sign), _) if e.wait_mode & 0x80 != 0 => key(out, "wait", &format!("s{id}{sign}$r{value}")),
        (Some(sign), _) => key(out, "wait", &format!("s{id}{sign}{value}")),
        (None, Some(test)) => key(out, "wait", &format!("e{id}:{test}")),
        (None, None) if id != 0 => key(out, "wait", &format!("none:{id}")),
        (None, None) => {}
    }
    let id = e.update_id;
    let update = match e.update_mode & 0x0F {
        1 => format!("e{id}:set"),
        2 => format!("e{id}:clear"),
        3 => format!("s{id}++"),
        4 => format!("s{id}--"),
        5 => format!("s{id}+{value}"),
        7 => format!("s{id}-{value}"),
        9 => format!("s{id}={value}"),
        _ if id != 0 => format!("none:{id}"),
        _ => String::new(),
    };
    if !update.is_empty() {
        let on_read = e.update_mode != 0 && e.update_mode & 0x10 == 0;
        key(out, "update", &(update + if on_read { "@read" } else { "" }));
    }
    if value != 0 && !e.wait_uses_value() && !e.update_uses_value() {
        key(out, "event_value", &value.to_string());
    }
}

/// The unsigned number of a field of 1, 2, 4 or 8 bytes, or of a nibble.
pub(super) fn number(r: &Record, f: &Field) -> u64 {
    match f.bytes {
        1 => u8::get(r, f.place).unwrap_or(0) as u64,
        2 => u16::from_le_bytes(bytes_at(r, f.place.at)) as u64,
        4 => u32::from_le_bytes(bytes_at(r, f.place.at)) as u64,
        _ => u64::from_le_bytes(bytes_at(r, f.place.at)),
    }
}

/// Whether a field reads as its bytes say even when they are all zero.
const fn always(kind: Kind) -> bool {
    matches!(kind, Kind::Tensor(..) | Kind::Addr8 | Kind::RowBytes | Kind::Target | Kind::Imm(true))
}

/// Whether a field names registers that the record uses: register 0 is a register like any other, so it is printed.
fn names_register(r: &Record, f: &Field) -> bool {
    let immediate = r[0x0E] != 0;
    match (r[0], f.key) {
        (0xA7, "dst") => true,
        (0xA7, "src") | (0xA8, "src1") => !immediate,
        (0xA7, "imm") => immediate,
        (0xA9, "left") => r[0x0C] != 0,
        (0xA9, "right") => r[0x0C] > 8,
        _ => matches!(f.kind, Kind::Register) && !f.key.ends_with("_high"),
    }
}

fn zero(r: &Record, f: &Field) -> bool {
    let value = if f.bytes == 1 {
        number(r, f) == 0
    } else {
        r.iter().skip(f.place.at as usize).take(f.bytes as usize).all(|b| *b == 0)
    };
    value && (f.place.src == 0 || bytes_at::<1>(r, f.place.src) == [0])
}

/// The text of one field; `None` where it has none of its own.
fn field_text(r: &Record, shape: &Shape, f: &Field) -> Option<String> {
    if matches!(f.kind, Kind::Carried) || (zero(r, f) && !always(f.kind) && !names_register(r, f)) {
        return None;
    }
    Some(match f.kind {
        Kind::Carried => return None,
        Kind::Dtype => name_of(DTYPE, number(r, f) as u8),
        Kind::Names(names) => name_of(names, number(r, f) as u8),
        Kind::Uint | Kind::Target => number(r, f).to_string(),
        Kind::Hex => format!("{:#x}", number(r, f)),
        Kind::Int => (number(r, f) as u32 as i32).to_string(),
        Kind::Float => float(number(r, f) as u32),
        Kind::Register => format!("$r{}", number(r, f)),
        Kind::Tensor(dtype, _) => tensor(r, f, dtype),
        Kind::Word => word(number(r, f) as u32),
        Kind::Imm(bias) => immediate(r, shape, f, bias),
        Kind::Steps16 => list(r, f, 2, |b| i16::from_le_bytes([b[0], b[1]]).to_string()),
        Kind::Counts => list(r, f, 2, |b| u16::from_le_bytes([b[0], b[1]]).to_string()),
        Kind::Steps32 => list(r, f, 4, |b| i32::from_le_bytes(b).to_string()),
        Kind::Words => list(r, f, 4, |b| format!("{:#x}", u32::from_le_bytes(b))),
        Kind::Bytes => list(r, f, 1, |b| b[0].to_string()),
        Kind::Addr8 => addr8(Addr8::get(r, f.place).ok()?),
        Kind::Bound => bound(BoundRegister::get(r, f.place).ok()?),
        Kind::Name => quoted(r.get(f.place.at as usize..(f.place.at + f.bytes) as usize)?),
        Kind::RowBytes => match number(r, f) {
            0 => 65_536.to_string(),
            n => n.to_string(),
        },
    })
}

/// The name of a code, or the code where it has none.
fn name_of(names: &[(u8, &str)], code: u8) -> String {
    names.iter().find(|(c, _)| *c == code).map_or_else(|| code.to_string(), |(_, n)| n.to_string())
}

/// fp32 bits as the shortest decimal that reads back to them; NaNs keep their bits.
fn float(bits: u32) -> String {
    let v = f32::from_bits(bits);
    if v.is_nan() {
        return format!("{bits:#010x}");
    }
    if v == 0.0 || v.is_infinite() || (1e-4..1e7).contains(&v.abs()) {
        format!("{v}")
    } else {
        format!("{v:e}")
    }
}

/// Where an on-chip byte address lies.
fn location(address: u32) -> String {
    match space_of(address) {
        Space::Sbuf { partition, offset } => format!("sbuf:p{partition}+{offset:#x}"),
        Space::Psum { partition, bank, offset } => format!("psum:p{partition} b{bank}+{offset:#x}"),
        Space::Outside => format!("addr:{address:#x}"),
    }
}

/// An ADDR4 word.
pub(super) fn word(w: u32) -> String {
    match word_mode(w) {
        AddrMode::Static { address } => location(address),
        AddrMode::ShapeRegister { address } => location(address) + ":shape",
        AddrMode::Indirect { address } => location(address) + ":gather",
        AddrMode::Register { register } => format!("$r{register}"),
        AddrMode::RegisterShape { register } => format!("$r{register}:shape"),
        AddrMode::IndirectRegister { register } => format!("$r{register}:gather"),
        AddrMode::Dead => format!("dead:{w:#010x}"),
    }
}

fn tensor(r: &Record, f: &Field, dtype: Place) -> String {
    let dtype = name_of(DTYPE, u8::get(r, dtype).unwrap_or(0));
    let base = f.place.at;
    let w = u32::from_le_bytes(bytes_at(r, base));
    if w & (INDIRECT | SHAPE_REGISTER) == INDIRECT {
        let data = u32::from_le_bytes(bytes_at(r, base + 4));
        let count = u16::from_le_bytes(bytes_at(r, base + 8));
        return format!("{dtype}@{}[index {}; {count}]", word(data), word(w & !INDIRECT));
    }
    let rank = (f.bytes - 4) / 4;
    let mut slots: Vec<(i16, u16)> = (0..rank)
        .map(|i| {
            let step = i16::from_le_bytes(bytes_at(r, base + 4 + 2 * i));
            (step, u16::from_le_bytes(bytes_at(r, base + 4 + 2 * rank + 2 * i)))
        })
        .collect();
    while slots.len() > 1 && slots.last() == Some(&(1, 1)) {
        slots.pop();
    }
    let slots: Vec<String> = slots.iter().map(|(step, num)| format!("{step},{num}")).collect();
    format!("{dtype}@{}[{}]", word(w), slots.join("; "))
}

/// Whether a literal of the instruction is raw bits.
const fn raw_literals(opcode: u8) -> bool {
    matches!(opcode, 0x53 | 0x9E)
}

/// The dtype behind a pointer immediate: the field `KEY_dtype` where the layout has one, fp32 for the arithmetic
/// instructions, and for the bit instructions the source's, which the text does not repeat.
pub(super) fn pointer_dtype(r: &Record, shape: &Shape, f: &Field) -> Option<u8> {
    let own = shape.fields.iter().find(|d| d.key.strip_suffix("_dtype") == Some(f.key));
    match own {
        Some(d) if d.key == "threshold_dtype" => Some(0x0A),
        Some(d) => Some(number(r, d) as u8),
        None if raw_literals(r[0]) || f.key == "value" => None,
        None => Some(0x0A),
    }
}

fn immediate(r: &Record, shape: &Shape, f: &Field, bias: bool) -> String {
    let value = if f.bytes == 8 {
        Imm::<u64>::get(r, f.place)
    } else if bias {
        super::field::Bias::get(r, f.place).map(|b| widen(b.0))
    } else {
        Imm::<u32>::get(r, f.place).map(widen)
    };
    match value {
        Ok(Imm::Literal(bits)) if f.bytes == 8 => format!("{bits:#x}"),
        Ok(Imm::Literal(bits)) => {
            let bits = bits as u32;
            let v = f32::from_bits(bits);
            if raw_literals(r[0]) || v.is_subnormal() || v.is_nan() {
                format!("{bits:#x}")
            } else {
                format!("fp32({})", float(bits))
            }
        }
        Ok(Imm::Pointer(a)) => match pointer_dtype(r, shape, f) {
            Some(tag) => format!("[{}@{}]", name_of(DTYPE, tag), word(a.word())),
            None => format!("[{}]", word(a.word())),
        },
        Ok(Imm::Register(n)) => format!("$r{n}"),
        Err(_) => format!("{:#x}", number(r, f)),
    }
}

fn widen(v: Imm<u32>) -> Imm<u64> {
    match v {
        Imm::Literal(b) => Imm::Literal(b as u64),
        Imm::Pointer(a) => Imm::Pointer(a),
        Imm::Register(n) => Imm::Register(n),
    }
}

/// `[a,b,...]` without the trailing zeros.
fn list(r: &Record, f: &Field, width: u8, text: fn([u8; 4]) -> String) -> String {
    let mut items = Vec::new();
    let mut keep = 0;
    for i in 0..f.bytes / width {
        let mut b: [u8; 4] = bytes_at(r, f.place.at + i * width);
        for spare in b.iter_mut().skip(width as usize) {
            *spare = 0;
        }
        if b != [0; 4] {
            keep = i as usize + 1;
        }
        items.push(text(b));
    }
    if r[0] == 0xA7 && names_register(r, f) {
        keep = keep.max(r[0x0C] as usize);
    }
    items.truncate(keep);
    format!("[{}]", items.join(","))
}

fn addr8(a: Addr8) -> String {
    let text = match a.form {
        Addr8Form::Immediate { address } => match u32::try_from(address) {
            Ok(address) => location(address),
            Err(_) => format!("addr:{address:#x}"),
        },
        Addr8Form::Register { low, high: 0 } => format!("$r{low}"),
        Addr8Form::Register { low, high } => format!("$r{low}:$r{high}"),
        Addr8Form::Table { entry, offset } => format!("table{entry}+{offset:#x}"),
        Addr8Form::TableRegister { entry, register, wide: false } => format!("table{entry}+$r{register}"),
        Addr8Form::TableRegister { entry, register, wide: true } => {
            format!("table{entry}+$r{register}:$r{}", register as u32 + 1)
        }
        Addr8Form::Variable { id, offset } => format!("var{id}+{offset:#x}"),
    };
    if a.shape_register { text + ":shape" } else { text }
}

fn bound(b: BoundRegister) -> String {
    let quiet = if b.quiet { ":quiet" } else { "" };
    b.register.map_or_else(|| "none".to_string(), |id| format!("$r{id}{quiet}"))
}

/// A name in quotes; bytes other than plain ASCII as `\xNN`.
fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for b in bytes.iter().take_while(|b| **b != 0) {
        match *b {
            b'"' | b'\\' => out.push_str(&format!("\\x{b:02x}")),
            b if b.is_ascii_graphic() || b == b' ' => out.push(b as char),
            b => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::names::OPCODES;
    use crate::isa::*;

    #[test]
    fn every_carried_dtype_has_its_tensor_and_fields_stand_in_byte_order() {
        for (code, name) in OPCODES {
            let shape = shape_of(*code).unwrap();
            for f in shape.fields.iter().filter(|f| matches!(f.kind, Kind::Carried)) {
                let carriers = shape
                    .fields
                    .iter()
                    .filter(|t| matches!(t.kind, Kind::Tensor(p, _) if p == f.place))
                    .count();
                assert_eq!(carriers, 1, "{name} {}", f.key);
            }
            assert!(shape.fields.is_sorted_by_key(|f| f.place.at), "{name}");
        }
    }

    #[test]
    fn addresses_read_well() {
        let cases = [
            (Addr8::variable(3, 0x40).unwrap(), "var3+0x40"),
            (Addr8::table_register(2, 5, false).unwrap(), "table2+$r5"),
            (Addr8::table_register(2, 6, true).unwrap(), "table2+$r6:$r7"),
            (Addr8::table(7, 0x1234).unwrap().with_shape_register(), "table7+0x1234:shape"),
            (Addr8::immediate(0x4000).unwrap(), "sbuf:p0+0x4000"),
            (Addr8::immediate(0x0202_9040).unwrap(), "psum:p5 b2+0x40"),
            (Addr8::in_registers(4, 5).unwrap(), "$r4:$r5"),
        ];
        for (a, want) in cases {
            assert_eq!(addr8(a), want);
        }
        assert_eq!(word(0x8000_0011), "$r17");
        assert_eq!(word(0xC000_0005), "$r5:shape");
        assert_eq!(word(0x2080_0040), "sbuf:p32+0x40:gather");
    }

    #[test]
    fn records_read_well() {
        let drain = encode(
            &Drain { count: 1 },
            &Events { wait_mode: 5, wait_id: 5, update_mode: 0x15, update_id: 6, value: 3 },
        );
        assert_eq!(disassemble(&drain), "Drain wait=s5>=3 update=s6+3 count=1");
        let back = Branch { compare: 1, dtype: 8, imm: 7, left: 3, right: 0, target: BranchTarget(0) };
        let text = disassemble(&encode(&back, &Events::NONE));
        assert_eq!(text, "Branch compare=lt dtype=i32 imm=0x7 left=$r3 target=0");
        let mut bad = drain;
        bad[0x3F] = 1;
        assert!(disassemble(&bad).starts_with(".raw a2100000 05051506 03000000 "));
        assert_eq!(disassemble(&[0; 64]).len(), 4 + 16 * 9);
    }
}
