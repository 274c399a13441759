//! A second decoder, written from the specification alone: offsets and widths typed out per opcode, bytes read one by
//! one, no code in common with `murre_components::isa`. In: a word or a record. Out: a map from field to number, or
//! what is wrong. Facts: `spec/isa.md 1..5, 8`, `spec/isa_compute.md 12.1, 12.2`.
//!
//! It knows layouts, reserved bytes, constants and address forms, not the limits on values; so it accepts more than the
//! real decoder, and where both accept they must say the same. Keys: `src.addr`, `src.step.0`, `src.num.0` of a
//! slot, `src.index`, `src.data`, `src.count` of a gather, `imm0.literal`, `imm0.pointer` or `imm0.register`, and
//! `event.*` of the inline wait and update.

#![allow(dead_code)]

mod control;
pub mod flat;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Field to number. Strings are folded to a number by [`fold`].
pub type Fields = BTreeMap<&'static str, i64>;

/// The one `&'static str` of a key; there are a few hundred.
pub fn key(text: &str) -> &'static str {
    thread_local!(static KEYS: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) });
    KEYS.with(|keys| {
        if let Some(k) = keys.borrow().get(text) {
            return *k;
        }
        let k: &'static str = Box::leak(text.to_string().into_boxed_str());
        keys.borrow_mut().insert(k);
        k
    })
}

/// A string as a number.
pub fn fold(bytes: &[u8]) -> i64 {
    bytes.iter().fold(bytes.len() as i64, |h, b| h.wrapping_mul(1_000_003).wrapping_add(*b as i64))
}

/// What an address word says: `register`, or `address` with `space` (0 SBUF, 1 PSUM, 2 neither), `partition`, `bank`
/// and `offset`; `gather` and `shape` are the markers.
pub fn word(w: u32) -> Result<Fields, String> {
    let byte3 = w >> 24;
    let mut out = Fields::new();
    if byte3 & 0x60 == 0x60 {
        return Err(format!("{w:#010x}: dead mode"));
    }
    out.insert("gather", (byte3 & 0x20 != 0) as i64);
    out.insert("shape", (byte3 & 0x40 != 0) as i64);
    if byte3 & 0x80 != 0 {
        if w & 0x1FFF_FF00 != 0 || w & 0xFF >= 64 {
            return Err(format!("{w:#010x}: register word with other bits, or a register above 63"));
        }
        out.insert("register", (w & 0xFF) as i64);
        return Ok(out);
    }
    let a = (w & 0x1FFF_FFFF) as i64;
    out.insert("address", a);
    if a < 0x0200_0000 {
        out.insert("space", 0);
        out.insert("partition", a / 0x40000);
        out.insert("offset", a % 0x40000);
    } else if a < 0x0240_0000 {
        let in_psum = a - 0x0200_0000;
        out.insert("space", 1);
        out.insert("partition", in_psum / 0x8000);
        out.insert("bank", in_psum % 0x8000 / 0x800);
        out.insert("offset", in_psum % 0x800);
    } else {
        out.insert("space", 2);
    }
    Ok(out)
}

struct Reader<'a> {
    bytes: &'a [u8; 64],
    used: [bool; 64],
    out: Fields,
    /// Address words met, with their offsets.
    words: Vec<(u8, u32)>,
}

type Step = Result<(), String>;

impl Reader<'_> {
    fn byte(&mut self, at: u8) -> u8 {
        self.used[at as usize] = true;
        self.bytes[at as usize]
    }

    fn number(&mut self, at: u8, width: u8) -> u64 {
        let mut n = 0u64;
        for i in (0..width).rev() {
            n = n * 256 + self.byte(at + i) as u64;
        }
        n
    }

    fn set(&mut self, name: &str, value: i64) {
        assert!(self.out.insert(key(name), value).is_none(), "{name} twice");
    }

    fn u(&mut self, name: &str, at: u8, width: u8) {
        let n = self.number(at, width);
        self.set(name, n as i64);
    }

    /// Consecutive single bytes.
    fn bytes(&mut self, names: &[(&str, u8)]) {
        for (name, at) in names {
            self.u(name, *at, 1);
        }
    }

    fn i32(&mut self, name: &str, at: u8) {
        let n = self.number(at, 4) as u32 as i32;
        self.set(name, n as i64);
    }

    fn nibbles(&mut self, low: &str, high: &str, at: u8) {
        let b = self.byte(at) as i64;
        self.set(low, b % 16);
        self.set(high, b / 16);
    }

    fn array(&mut self, name: &str, at: u8, count: u8, width: u8, signed: bool) {
        for i in 0..count {
            let n = self.number(at + i * width, width);
            let n = match (signed, width) {
                (true, 2) => n as u16 as i16 as i64,
                (true, 4) => n as u32 as i32 as i64,
                _ => n as i64,
            };
            self.set(&format!("{name}.{i}"), n);
        }
    }

    fn fixed(&mut self, at: u8, want: u8) -> Step {
        let b = self.byte(at);
        if b == want { Ok(()) } else { Err(format!("+{at:02X}: {b:#x}, the layout wants {want:#x}")) }
    }

    fn addr4(&mut self, name: &str, at: u8) -> Result<u32, String> {
        let w = self.number(at, 4) as u32;
        word(w)?;
        self.words.push((at, w));
        self.set(name, w as i64);
        Ok(w)
    }

    /// TENSORnD: word, n steps, n counts.
    fn tensor(&mut self, name: &str, at: u8, n: u8) -> Step {
        let w = self.addr4(&format!("{name}.addr"), at)?;
        if w & 0x2000_0000 != 0 {
            return Err(format!("+{at:02X}: gather marker in a strided slot"));
        }
        self.array(&format!("{name}.step"), at + 4, n, 2, true);
        self.array(&format!("{name}.num"), at + 4 + 2 * n, n, 2, false);
        let zero = (0..n).any(|i| self.out[key(&format!("{name}.num.{i}"))] == 0);
        if zero && w & 0x4000_0000 == 0 {
            return Err(format!("+{at:02X}: a count of zero"));
        }
        Ok(())
    }

    /// A 4D slot, or INDIRECT20B in its place.
    fn tensor_or_gather(&mut self, name: &str, at: u8) -> Step {
        if self.bytes[at as usize + 3] & 0x60 != 0x20 {
            return self.tensor(name, at, 4);
        }
        let index = self.addr4(&format!("{name}.index"), at)?;
        let data = self.addr4(&format!("{name}.data"), at + 4)?;
        self.u(&format!("{name}.count"), at + 8, 2);
        if index & 0x8000_0000 != 0 || data & 0xE000_0000 != 0 || self.bytes[at as usize + 8..][..2] == [0, 0]
        {
            return Err(format!("+{at:02X}: gather with a marker on a base or without indices"));
        }
        Ok(())
    }

    /// An immediate; `codes` are its source codes for literal, pointer, register.
    fn imm(&mut self, name: &str, at: u8, width: u8, src: u8, codes: [u8; 3]) -> Step {
        let source = self.byte(src);
        let n = self.number(at, width);
        if source == codes[0] {
            self.set(&format!("{name}.literal"), n as i64);
            return Ok(());
        }
        let Ok(low) = u32::try_from(n) else { return Err(format!("+{at:02X}: bits above an address")) };
        if source == codes[1] {
            word(low)?;
            self.words.push((at, low));
            self.set(&format!("{name}.pointer"), n as i64);
        } else if source == codes[2] && n < 64 {
            self.set(&format!("{name}.register"), n as i64);
        } else {
            return Err(format!("+{src:02X}: no source of an immediate, or no register"));
        }
        Ok(())
    }

    fn addr8(&mut self, name: &str, at: u8) -> Step {
        let low = self.number(at, 4);
        let (b4, b5, b6, marker) =
            (self.byte(at + 4), self.byte(at + 5), self.byte(at + 6), self.byte(at + 7));
        let (b4, b5, b6) = (b4 as u64, b5 as u64, b6 as u64);
        let mid = b4 + b5 * 256;
        self.set(&format!("{name}.shape_register"), (marker & 0x40 != 0) as i64);
        let mut put = |part: &str, v: u64| self.set(&format!("{name}.{part}"), v as i64);
        let legal = match marker & 0xBF {
            0x00 => {
                put("address", low + (mid << 32) + (b6 << 48));
                true
            }
            0x10 => {
                put("id", mid + (b6 << 16));
                put("offset", low);
                true
            }
            0x20 => {
                put("entry", mid);
                put("offset", low);
                b6 == 0
            }
            0x28 | 0x2C => {
                put("entry", mid);
                put("register", low);
                put("wide", (marker & 4 != 0) as i64 as u64);
                b6 == 0 && low < 64
            }
            0x80 => {
                put("low", low % 256);
                put("high", low / 256 % 256);
                low < 0x1_0000 && low % 256 < 64 && low / 256 < 64 && mid == 0 && b6 == 0
            }
            _ => false,
        };
        if legal { Ok(()) } else { Err(format!("+{at:02X}: no form of ADDR8")) }
    }

    fn bound(&mut self, name: &str, at: u8) -> Step {
        let b = self.byte(at);
        if b != 0 && b & 0x80 == 0 {
            return Err(format!("+{at:02X}: half-set bound byte"));
        }
        if b != 0 {
            self.set(&format!("{name}.register"), (b % 64) as i64);
        }
        self.set(&format!("{name}.quiet"), (b & 0x40 != 0) as i64);
        Ok(())
    }

    fn name(&mut self, name: &str, at: u8, width: u8) -> Step {
        let bytes: Vec<u8> = (at..at + width).map(|i| self.byte(i)).collect();
        let length = bytes.iter().position(|b| *b == 0).ok_or("a name without NUL")?;
        if bytes[length..].iter().any(|b| *b != 0) {
            return Err(format!("+{at:02X}: bytes behind the name's NUL"));
        }
        self.set(name, fold(&bytes[..length]));
        Ok(())
    }

    /// Source and destination of the C family: T4 at 0C and 2C, dtypes at 20 and 21, channels at 22.
    fn c_family(&mut self) -> Step {
        self.tensor("src", 0x0C, 4)?;
        self.tensor("dst", 0x2C, 4)?;
        self.bytes(&[("src_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22)]);
        Ok(())
    }

    fn body(&mut self) -> Step {
        const PLAIN: [u8; 3] = [0, 1, 2];
        const BIAS: [u8; 3] = [1, 0, 2];
        match self.bytes[0] {
            0x01 => {
                self.tensor("weights", 0x10, 3)?;
                self.bytes(&[("dtype", 0x20), ("fp32_mode", 0x21), ("transpose", 0x22)]);
                self.bytes(&[("rows", 0x26), ("columns", 0x27), ("row_group", 0x2C), ("column_group", 0x2D)]);
            }
            0x02 => {
                self.tensor("moving", 0x10, 3)?;
                self.tensor("dst", 0x30, 3)?;
                self.bytes(&[("dtype", 0x20), ("fp32_mode", 0x21), ("transpose", 0x22)]);
                self.bytes(&[("rows", 0x26), ("columns", 0x27), ("out_dtype", 0x28), ("psum", 0x2B)]);
                self.bytes(&[("row_group", 0x2C), ("column_group", 0x2D), ("zero_region", 0x2F)]);
            }
            0x21 => {
                self.bytes(&[("cmd", 0x0E), ("out_dtype", 0x21), ("channels", 0x22), ("func", 0x23)]);
                self.nibbles("src_dtype", "bias_dtype", 0x20);
                self.tensor("src", 0x10, 3)?;
                self.imm("scale", 0x24, 4, 0x0D, PLAIN)?;
                self.imm("bias", 0x28, 4, 0x0F, BIAS)?;
                self.imm("alpha", 0x2C, 4, 0x0C, PLAIN)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0x23 => self.u("set", 0x23, 1),
            0x24 | 0x9B => {
                let ones = self.number(0x1C, 4);
                if ones != 1 {
                    return Err(format!("+1C: {ones}, wants 1"));
                }
                self.bytes(&[("out_dtype", 0x20), ("negate", 0x21), ("channels", 0x22)]);
                self.tensor("dst", 0x2C, 1)?;
            }
            0x43 | 0x53 | 0x9A | 0xE6 => {
                self.bytes(&[("cmd", 0x0C), ("src_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22)]);
                self.bytes(&[("op0", 0x24), ("op1", 0x25), ("reverse", 0x26)]);
                self.tensor("src", 0x10, 3)?;
                self.imm("imm0", 0x28, 4, 0x23, PLAIN)?;
                self.imm("imm1", 0x2C, 4, 0x27, PLAIN)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0x41 | 0x51 | 0x72 | 0x99 => {
                self.nibbles("src0_dtype", "src1_dtype", 0x0C);
                self.bytes(&[("out_dtype", 0x0D), ("op", 0x0E), ("channels", 0x0F)]);
                self.tensor("src0", 0x10, 3)?;
                self.tensor("src1", 0x20, 3)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0x9D | 0x9E | 0xE5 | 0xEA => {
                self.tensor("src0", 0x0C, 2)?;
                self.tensor("src1", 0x18, 2)?;
                self.bytes(&[("op0", 0x24), ("op1", 0x25), ("reverse", 0x26)]);
                self.nibbles("src0_dtype", "src1_dtype", 0x28);
                self.bytes(&[("out_dtype", 0x29), ("channels", 0x2A), ("imm0_dtype", 0x2B), ("cmd", 0x2C)]);
                self.tensor("dst", 0x30, 2)?;
                self.imm("imm0", 0x3C, 4, 0x27, PLAIN)?;
            }
            0x74 => {
                self.tensor("src", 0x0C, 2)?;
                self.imm("imm0", 0x18, 8, 0x2A, PLAIN)?;
                self.imm("imm1", 0x20, 8, 0x2B, PLAIN)?;
                self.nibbles("imm0_dtype", "imm1_dtype", 0x28);
                self.nibbles("src_dtype", "out_dtype", 0x29);
                self.bytes(&[("op0", 0x2C), ("op1", 0x2D), ("channels", 0x2E), ("reverse", 0x2F)]);
                self.tensor("dst", 0x34, 2)?;
            }
            0xE8 => {
                self.tensor("predicate", 0x10, 3)?;
                self.bytes(&[("predicate_dtype", 0x20), ("reversed", 0x21), ("channels", 0x22)]);
                self.bytes(&[("in_dtype", 0x29), ("out_dtype", 0x2A)]);
                self.imm("value", 0x2C, 4, 0x2B, PLAIN)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0x42 | 0x52 | 0x46 | 0x47 | 0x48 | 0x6A | 0x6B => {
                self.tensor_or_gather("src", 0x0C)?;
                self.bytes(&[("src_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22), ("negate", 0x23)]);
                self.bytes(&[("op", 0x24), ("axis", 0x25), ("mask", 0x26)]);
                self.tensor_or_gather("dst", 0x2C)?;
            }
            0x69 => self.array("mask", 0x20, 32, 1, false),
            0x45 => {
                self.c_family()?;
                self.bytes(&[("kind", 0x24), ("axis", 0x25)]);
                self.u("scale", 0x28, 4);
            }
            0x7C | 0x7D => {
                self.c_family()?;
                self.bytes(&[("op", 0x23), ("axis", 0x24)]);
                self.u("scale", 0x28, 4);
            }
            0x49 | 0x4D => {
                self.u("count", 0x1C, 4);
                self.bytes(&[("dtype", 0x20), ("channels", 0x22)]);
                self.u("value", 0x28, 4);
                self.tensor("dst", 0x2C, 4)?;
            }
            0x7E => {
                self.i32("base", 0x0C);
                self.array("steps", 0x10, 4, 2, true);
                self.array("counts", 0x18, 4, 2, false);
                self.bytes(&[("out_dtype", 0x21), ("channels", 0x22)]);
                self.i32("multiplier", 0x24);
                self.tensor("dst", 0x2C, 4)?;
            }
            0x92 => {
                self.bytes(&[("channels", 0x0C), ("compare", 0x0E), ("fill", 0x0F)]);
                self.nibbles("src_dtype", "out_dtype", 0x0D);
                self.i32("base", 0x10);
                self.array("steps", 0x14, 4, 2, true);
                self.array("counts", 0x1C, 4, 2, false);
                self.tensor("src", 0x24, 2)?;
                self.tensor("dst", 0x30, 2)?;
                self.i32("multiplier", 0x3C);
            }
            0xBC => {
                self.bytes(&[("channels", 0x0C), ("cmd", 0x0E), ("reduce_op", 0x0F)]);
                self.nibbles("src_dtype", "out_dtype", 0x0D);
                self.u("base", 0x10, 4);
                self.u("fill", 0x14, 4);
                self.tensor("src", 0x18, 2)?;
                self.bytes(&[("cmp0", 0x24), ("cmp1", 0x25)]);
                self.imm("bound0", 0x28, 4, 0x26, PLAIN)?;
                self.imm("bound1", 0x2C, 4, 0x27, PLAIN)?;
                self.tensor("dst", 0x30, 2)?;
            }
            0x61 | 0x62 | 0x6C | 0x6E => {
                self.tensor("src", 0x0C, 4)?;
                self.bytes(&[("src_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22)]);
                self.u("even", 0x28, 4);
                self.u("odd", 0x2C, 4);
                self.tensor("dst", 0x30, 2)?;
            }
            0x6D => {
                self.tensor("src", 0x10, 2)?;
                self.bytes(&[("dtype", 0x20), ("channels", 0x22)]);
            }
            0x6F => {
                self.c_family()?;
                self.u("replacement", 0x28, 4);
            }
            0x67 => {
                self.tensor("src", 0x0C, 4)?;
                self.bytes(&[("dtype", 0x20), ("channels", 0x22)]);
                self.u("start", 0x28, 4);
                self.u("mask", 0x2C, 4);
            }
            0x68 => {
                self.tensor("index", 0x0C, 4)?;
                self.bytes(&[("index_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22)]);
                self.bytes(&[("miss", 0x24), ("free_buffer", 0x25)]);
                self.u("immediate", 0x28, 4);
                self.tensor("dst", 0x2C, 4)?;
            }
            0x7F => {
                self.tensor("src", 0x10, 3)?;
                self.bytes(&[("src_dtype", 0x20), ("out_dtype", 0x21), ("channels", 0x22)]);
                self.bytes(&[("threshold_dtype", 0x24), ("kind", 0x2B)]);
                self.imm("threshold", 0x2C, 4, 0x23, PLAIN)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0xE2 => {
                self.fixed(0x0C, 3)?;
                self.fixed(0x0E, 1)?;
                self.bytes(&[("out_dtype", 0x20), ("channels", 0x22)]);
                self.imm("min", 0x28, 4, 0x26, PLAIN)?;
                self.imm("max", 0x2C, 4, 0x27, PLAIN)?;
                self.tensor("dst", 0x30, 3)?;
            }
            0x77 => {
                self.fixed(0x0C, 3)?;
                self.fixed(0x0F, 1)?;
                self.fixed(0x20, 9)?;
                self.u("channels", 0x22, 1);
                self.tensor("dst", 0x2C, 4)?;
            }
            0x78 => {
                self.fixed(0x0C, 3)?;
                self.fixed(0x10, 1)?;
                self.fixed(0x18, 1)?;
                self.fixed(0x28, 9)?;
                self.tensor("seeds", 0x20, 1)?;
                self.u("channels", 0x2A, 1);
            }
            other => return self.control(other),
        }
        Ok(())
    }
}

fn read(record: &[u8; 64]) -> Result<Reader<'_>, String> {
    let mut r = Reader { bytes: record, used: [false; 64], out: Fields::new(), words: Vec::new() };
    r.used[0] = true;
    if record[0] != 0xDA {
        if record[1..4] != [0x10, 0, 0] {
            return Err(format!("header {:02x?}", &record[..4]));
        }
        r.used[1] = true;
        r.bytes(&[
            ("event.wait_mode", 4),
            ("event.wait_id", 5),
            ("event.update_mode", 6),
            ("event.update_id", 7),
        ]);
        r.u("event.value", 8, 4);
    }
    r.body()?;
    match (0..64).find(|i| !r.used[*i] && record[*i] != 0) {
        Some(i) => Err(format!("+{i:02X}: reserved byte is {:#x}", record[i])),
        None => Ok(r),
    }
}

/// The fields of a record.
pub fn decode(record: &[u8; 64]) -> Result<Fields, String> {
    read(record).map(|r| r.out)
}

/// The address words of a record, each with its offset.
pub fn words(record: &[u8; 64]) -> Result<Vec<(u8, u32)>, String> {
    read(record).map(|r| r.words)
}

/// Number of `width` bytes at `at` of a slot.
fn number_at(slot: &[u8], at: usize, width: usize) -> i64 {
    slot[at..at + width].iter().rev().fold(0i64, |n, b| n * 256 + *b as i64)
}

/// TENSOR1D to 4D: address word, then `n` steps, then `n` counts.
pub fn strided(slot: &[u8], n: usize) -> (i64, Vec<i64>, Vec<i64>) {
    let signed = |v: i64| if v >= 0x8000 { v - 0x1_0000 } else { v };
    let steps = (0..n).map(|i| signed(number_at(slot, 4 + 2 * i, 2))).collect();
    let counts = (0..n).map(|i| number_at(slot, 4 + 2 * n + 2 * i, 2)).collect();
    (number_at(slot, 0, 4), steps, counts)
}

/// MXMEM_PATTERN1D.
pub fn mx_strided(slot: &[u8]) -> Fields {
    let at = |i, width| number_at(slot, i, width);
    Fields::from([
        ("data", at(0, 4)),
        ("scale", at(4, 4)),
        ("count", at(8, 2)),
        ("direction", at(10, 1)),
        ("scale_partition", at(11, 1)),
        ("rest", at(12, 4)),
    ])
}

/// An ADDR8 alone.
pub fn addr8(bytes: [u8; 8]) -> Result<Fields, String> {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&bytes);
    let mut r = Reader { bytes: &record, used: [false; 64], out: Fields::new(), words: Vec::new() };
    r.addr8("a", 0)?;
    Ok(r.out)
}

/// INDIRECT16B and 20B, and the MX form (`mx`), read from the start of `slot`.
pub fn gather(slot: &[u8], mx: bool) -> Fields {
    let number =
        |at: usize, width: usize| slot[at..at + width].iter().rev().fold(0i64, |n, b| n * 256 + *b as i64);
    let mut out = Fields::from([("index", number(0, 4)), ("data", number(4, 4))]);
    if mx {
        out.extend([("scale", number(8, 4)), ("count", number(12, 2)), ("scale_partition", number(15, 1))]);
    } else {
        out.insert("count", number(8, 2));
    }
    out
}
