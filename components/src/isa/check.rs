//! Applies the rules of an opcode to a record. In: a record whose layout is known. Out: the first field with a value
//! that the profile does not allow. Facts: `spec/isa_compute.md 12.3`, `spec/isa.md 5.1`. Tests: `tests/isa_vectors.rs`.

use super::addr4::{INDIRECT, SHAPE_REGISTER};
use super::alu::{BAND_I32, BAND_U32};
use super::codes::tag_bytes;
use super::field::{Fault, Kind, Place, Wire, at, bytes_at};
use super::record::shape_of;
use super::rules::{Rule, Rule::*, Slot, rules};
use crate::diag::codes::isa as code;
use crate::program::Record;

/// Checks a record against the rules of its opcode.
pub fn check(r: &Record) -> Result<(), Fault> {
    let opcode = r[0];
    for f in shape_of(opcode).map_or(&[][..], |s| s.fields) {
        let b = bytes_at::<1>(r, f.place.at)[0];
        if f.kind == Kind::Register && b > 0x3F {
            return Err(Fault::new(&code::ISA_REGISTER, f.place.at, b as i64, "a register number 0..63"));
        }
    }
    rules(opcode).iter().try_for_each(|rule| apply(rule, r))?;
    if opcode == 0x41 { band(r) } else { Ok(()) }
}

/// Integer-band operators of a TensorTensor ask for one integer dtype on all three sides, and it decides which exist.
fn band(r: &Record) -> Result<(), Fault> {
    let op = bytes_at::<1>(r, 0x0E)[0];
    if op < 0xC4 {
        return Ok(());
    }
    let [pair, out] = bytes_at::<2>(r, 0x0C);
    let legal = match (pair, out) {
        (0x88, 8) => BAND_I32,
        (0x99, 9) => BAND_U32,
        _ => return field(0x0C, pair as i64, "three int32 or three uint32 operands"),
    };
    if legal.contains(&op) {
        Ok(())
    } else {
        field(0x0E, op as i64, "an integer operator of this signedness")
    }
}

fn field(at: u8, found: i64, expected: &'static str) -> Result<(), Fault> {
    Err(Fault::new(&code::ISA_FIELD, at, found, expected))
}

fn byte(r: &Record, p: Place) -> u8 {
    u8::get(r, p).unwrap_or(0)
}

fn word(r: &Record, at: u8) -> u32 {
    u32::from_le_bytes(bytes_at(r, at))
}

/// Counts of a slot; `None` when a register gives them. A gather has one dim.
fn counts(r: &Record, (at, rank): Slot) -> Option<[u64; 4]> {
    let w = word(r, at);
    if w & SHAPE_REGISTER != 0 {
        return None;
    }
    let n = |i: u8| u16::from_le_bytes(bytes_at(r, i)) as u64;
    let mut out = [1; 4];
    if w & INDIRECT != 0 {
        return Some([n(at + 8), 1, 1, 1]);
    }
    for (i, o) in out.iter_mut().enumerate().take(rank as usize) {
        *o = n(at + 4 + 2 * rank + 2 * i as u8);
    }
    Some(out)
}

fn elements(r: &Record, slot: Slot) -> Option<u64> {
    counts(r, slot).map(|c| c.iter().product())
}

fn same_count(r: &Record, slot: Slot, want: u64) -> Result<(), Fault> {
    match elements(r, slot) {
        Some(n) if n != want => field(slot.0, n as i64, "the element count that the other fields give"),
        _ => Ok(()),
    }
}

fn apply(rule: &Rule, r: &Record) -> Result<(), Fault> {
    match *rule {
        In(p, set) if !set.contains(&byte(r, p)) => {
            field(p.at, byte(r, p) as i64, "one of the values of this field")
        }
        Range(p, lo, hi) if !(lo..=hi).contains(&byte(r, p)) => {
            field(p.at, byte(r, p) as i64, "a value within the field's range")
        }
        Same(p, q) if byte(r, p) != byte(r, q) => {
            field(q.at, byte(r, q) as i64, "the same dtype on both sides")
        }
        Differ(p, q) if byte(r, p) == byte(r, q) => field(q.at, byte(r, q) as i64, "different dtypes"),
        Zero(at, len) => match (at..at + len).find(|i| bytes_at::<1>(r, *i)[0] != 0) {
            Some(i) => field(i, bytes_at::<1>(r, i)[0] as i64, "zero in this instruction"),
            None => Ok(()),
        },
        Value(at, want) if word(r, at) != want => field(at, word(r, at) as i64, "the instruction's constant"),
        When(p, v, inner) if byte(r, p) == v => inner.iter().try_for_each(|i| apply(i, r)),
        Unless(p, v, inner) if byte(r, p) != v => inner.iter().try_for_each(|i| apply(i, r)),
        Pairs(p, q, set) if !set.contains(&(byte(r, p), byte(r, q))) => {
            field(p.at, byte(r, p) as i64, "a pair of operators that the instruction has")
        }
        Elements(slot, lo, hi) => match elements(r, slot) {
            Some(n) if !(lo..=hi).contains(&n) => {
                field(slot.0, n as i64, "an element count within the limits")
            }
            _ => Ok(()),
        },
        Multiple(slot, of) => match elements(r, slot) {
            Some(n) if n % of != 0 => field(slot.0, n as i64, "a multiple of the instruction's block"),
            _ => Ok(()),
        },
        SameElements(a, b) => elements(r, a).map_or(Ok(()), |n| same_count(r, b, n)),
        ElementsByte(slot, at) => same_count(r, slot, bytes_at::<1>(r, at)[0] as u64),
        ElementsWord(slot, at) => same_count(r, slot, word(r, at) as u64),
        ElementsCounts(slot, at) => {
            let n: [u16; 4] = Wire::get(r, super::field::at(at)).unwrap_or([0; 4]);
            same_count(r, slot, n.iter().map(|n| *n as u64).product())
        }
        Kept(src, dst, axis) => {
            let reduced = bytes_at::<1>(r, axis)[0].saturating_sub(1) as usize;
            counts(r, src).map_or(Ok(()), |c| same_count(r, dst, c.iter().skip(reduced).product()))
        }
        Strided((at, _)) if word(r, at) & (INDIRECT | SHAPE_REGISTER) == INDIRECT => Err(Fault::new(
            &code::ISA_MODE,
            at + 3,
            (word(r, at) >> 24) as i64,
            "a strided operand: only Copy and Cast gather",
        )),
        Mask(at) => match bytes_at::<32>(r, at).iter().position(|b| *b > 31 && *b != 255) {
            Some(i) => {
                field(at + i as u8, bytes_at::<1>(r, at + i as u8)[0] as i64, "a mask byte 0..31 or 255")
            }
            None => Ok(()),
        },
        Narrow(at, dtype) => match tag_bytes(byte(r, dtype)) {
            Some(n) if n < 4 && word(r, at) >> (8 * n) != 0 => {
                field(at, word(r, at) as i64, "no bits above the dtype's width")
            }
            _ => Ok(()),
        },
        Halves(slot, even, odd) => match elements(r, slot) {
            Some(n) => {
                let n = n as u32;
                let want = [n.div_ceil(2), n / 2].map(|x| (x as f32).to_bits());
                if [word(r, even), word(r, odd)] == want {
                    Ok(())
                } else {
                    field(even, word(r, even) as i64, "half the elements, rounded up, then down")
                }
            }
            None => Ok(()),
        },
        Rows(addr, step, num) => rows(r, addr, step, num),
        Move => register_move(r),
        Ordered(a, b) if bytes_at::<1>(r, a) > bytes_at::<1>(r, b) => {
            field(a, bytes_at::<1>(r, a)[0] as i64, "a first semaphore that is not above the last")
        }
        _ => Ok(()),
    }
}

/// The counts of a DMA side whose ADDR8 stands at `addr`.
fn rows(r: &Record, addr: u8, step: u8, num: u8) -> Result<(), Fault> {
    let counts: [u16; 2] = Wire::get(r, super::field::at(num)).unwrap_or([0; 2]);
    if bytes_at::<1>(r, addr + 7)[0] & super::addr8::SHAPE != 0 {
        if counts != [0; 2] || word(r, step + 4) != 0 {
            return field(num, counts[0] as i64, "no counts and no outer step: a register gives them");
        }
    } else if counts.contains(&0) {
        return Err(Fault::new(&code::ISA_COUNT, num, 0, "a count of 1..65535"));
    }
    Ok(())
}

/// A move's lists: entries behind the count are zero; destinations are general registers, each once, and no source.
/// Sources may also name the halves of the instruction address, 128 and 129.
fn register_move(r: &Record) -> Result<(), Fault> {
    let count = (bytes_at::<1>(r, 0x0C)[0] as usize).min(8);
    let immediate = bytes_at::<1>(r, 0x0E)[0] == 1;
    let src: [u8; 8] = bytes_at(r, 0x10);
    let dst: [u8; 8] = bytes_at(r, 0x18);
    let imm: [u32; 8] = Wire::get(r, at(0x20)).unwrap_or([0; 8]);
    for (i, ((s, d), v)) in src.iter().zip(&dst).zip(&imm).enumerate() {
        let used = i < count;
        let i = i as u8;
        if (!used || immediate) && *s != 0 {
            return field(0x10 + i, *s as i64, "no source register here");
        }
        if (!used || !immediate) && *v != 0 {
            return field(0x20 + 4 * i, *v as i64, "no immediate here");
        }
        if !used && *d != 0 {
            return field(0x18 + i, *d as i64, "no destination behind the count");
        }
        if *d > 0x3F || (*s > 0x3F && !matches!(*s, 128 | 129)) {
            return Err(Fault::new(
                &code::ISA_REGISTER,
                0x10 + i,
                (*d).max(*s) as i64,
                "a register number 0..63",
            ));
        }
    }
    for (i, d) in dst.iter().take(count).enumerate() {
        let repeated = dst.iter().take(i).any(|x| x == d);
        let read = !immediate && src.iter().take(count).any(|x| x == d);
        if repeated || read {
            return field(0x18 + i as u8, *d as i64, "a destination named once, and not a source");
        }
    }
    Ok(())
}
