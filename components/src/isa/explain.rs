//! What a 32-bit address word says, in full. In: any word. Out: its mode, place, bit fields, and for each target and
//! dtype whether an operand may start there. Facts: `spec/isa.md 1.1, 1.4, 1.5, 7`.

use super::addr4::{
    ADDRESS_MASK, AddrMode, INDIRECT, REGION_MASK, REGISTER, SHAPE_REGISTER, Space, address_active,
    alignment, space_of, start_address_valid, word_mode,
};
use super::codes::DTYPE;
use super::print;
use crate::engine::Target;
use serde::Serialize;
use std::fmt;

/// One bit field of the word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BitField {
    /// Its name.
    pub name: &'static str,
    /// Its bits, `low..high` inclusive.
    pub bits: &'static str,
    /// Its mask.
    pub mask: u32,
    /// Its value, shifted down.
    pub value: u32,
}

/// Whether the address is a multiple of what a dtype asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DtypeAlignment {
    /// Name of the dtype.
    pub dtype: &'static str,
    /// Its wire tag.
    pub tag: u8,
    /// Bytes; `None` where the dtype has no legal alignment before generation 4.
    pub bytes: Option<u32>,
    /// Whether the word's address is such a multiple; register words count as aligned until they run.
    pub aligned: bool,
}

/// Why an operand of one dtype may not start at the word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Name of the dtype.
    pub dtype: &'static str,
    /// The code.
    pub code: &'static str,
    /// What the profile asks for.
    pub expected: &'static str,
}

/// Validity on one target, for an operand that may live in SBUF and in PSUM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetValidity {
    /// The target.
    pub target: &'static str,
    /// Whether bytes exist at the address (false in the padding behind a partition). `None` for register words.
    pub active: Option<bool>,
    /// Dtypes that may be read there.
    pub reads: Vec<&'static str>,
    /// Dtypes that may be written there.
    pub writes: Vec<&'static str>,
    /// The dtypes that may not be read, with the reason.
    pub refused_reads: Vec<Refusal>,
    /// The dtypes that may not be written, with the reason.
    pub refused_writes: Vec<Refusal>,
}

/// All that a word says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WordExplanation {
    /// The word.
    pub word: u32,
    /// The four bytes in memory order.
    pub bytes: [u8; 4],
    /// The word as the disassembler writes it.
    pub text: String,
    /// Static, register, shape from register, gather index, or dead.
    pub mode: &'static str,
    /// `sbuf`, `psum` or `outside`, where the word holds an address.
    pub space: Option<&'static str>,
    /// The byte address, where it holds one.
    pub address: Option<u32>,
    /// Partition 0..127.
    pub partition: Option<u32>,
    /// First partition of the 32 that the partition belongs to.
    pub quadrant: Option<u32>,
    /// PSUM bank 0..7; 8..15 lie in the padding.
    pub bank: Option<u32>,
    /// Bytes from the start of the partition, or of the bank in PSUM.
    pub offset: Option<u32>,
    /// The register, where the word names one.
    pub register: Option<u8>,
    /// Every bit field.
    pub fields: Vec<BitField>,
    /// Alignment, dtype by dtype.
    pub alignment: Vec<DtypeAlignment>,
    /// Validity, target by target.
    pub targets: Vec<TargetValidity>,
}

fn field(word: u32, name: &'static str, bits: &'static str, mask: u32) -> BitField {
    BitField { name, bits, mask, value: (word & mask) >> mask.trailing_zeros() }
}

fn dtypes() -> impl Iterator<Item = (u8, &'static str)> {
    DTYPE.iter().copied().filter(|(tag, _)| *tag != 0)
}

fn validity(word: u32, address: Option<u32>, target: Target) -> TargetValidity {
    let arch = target.arch();
    let mut out = TargetValidity {
        target: target.name(),
        active: address.map(|a| address_active(a, target)),
        reads: Vec::new(),
        writes: Vec::new(),
        refused_reads: Vec::new(),
        refused_writes: Vec::new(),
    };
    for (tag, dtype) in dtypes() {
        for write in [false, true] {
            let (legal, refused) = if write {
                (&mut out.writes, &mut out.refused_writes)
            } else {
                (&mut out.reads, &mut out.refused_reads)
            };
            match start_address_valid(word, tag, write, true, true, arch) {
                Ok(()) => legal.push(dtype),
                Err(f) => refused.push(Refusal { dtype, code: f.code.id, expected: f.expected }),
            }
        }
    }
    out
}

/// Explains any 32 bits.
pub fn explain_word(word: u32) -> WordExplanation {
    let (mode, address, register) = match word_mode(word) {
        AddrMode::Static { address } => ("static", Some(address), None),
        AddrMode::ShapeRegister { address } => ("static, counts from a register", Some(address), None),
        AddrMode::Indirect { address } => ("index of a gather", Some(address), None),
        AddrMode::Register { register } => ("register", None, Some(register)),
        AddrMode::RegisterShape { register } => ("register, counts from a register", None, Some(register)),
        AddrMode::IndirectRegister { register } => {
            ("index of a gather, base from a register", None, Some(register))
        }
        AddrMode::Dead => ("dead: gather and shape bits exclude each other", None, None),
    };
    let space = address.map(space_of);
    let (name, partition, bank, offset) = match space {
        Some(Space::Sbuf { partition, offset }) => (Some("sbuf"), Some(partition), None, Some(offset)),
        Some(Space::Psum { partition, bank, offset }) => {
            (Some("psum"), Some(partition), Some(bank), Some(offset))
        }
        Some(Space::Outside) => (Some("outside"), None, None, None),
        None => (None, None, None, None),
    };
    let mut fields = vec![
        field(word, "address from register", "31", REGISTER),
        field(word, "counts from register", "30", SHAPE_REGISTER),
        field(word, "gather index", "29", INDIRECT),
    ];
    if word & REGISTER != 0 {
        fields.push(field(word, "reserved", "8..28", ADDRESS_MASK & !0xFF));
        fields.push(field(word, "register", "0..7", 0xFF));
    } else {
        fields.push(field(word, "region", "25..28", REGION_MASK));
        match space {
            Some(Space::Sbuf { .. }) => {
                fields.push(field(word, "partition", "18..24", 0x01FC_0000));
                fields.push(field(word, "offset in partition", "0..17", 0x0003_FFFF));
            }
            Some(Space::Psum { .. }) => {
                fields.push(field(word, "zero below the end of PSUM", "22..24", 0x01C0_0000));
                fields.push(field(word, "partition", "15..21", 0x003F_8000));
                fields.push(field(word, "bank", "11..14", 0x0000_7800));
                fields.push(field(word, "offset in bank", "0..10", 0x0000_07FF));
            }
            _ => fields.push(field(word, "rest of the address", "0..24", ADDRESS_MASK & !REGION_MASK)),
        }
    }
    let alignments = dtypes().map(|(tag, dtype)| {
        let bytes = alignment(tag, Target::Trn2.arch());
        let needs = alignment(tag, Target::Trn3.arch());
        let multiple = |n: u32| address.is_none_or(|a| a % n == 0);
        DtypeAlignment { dtype, tag, bytes, aligned: needs.is_some_and(multiple) }
    });
    WordExplanation {
        word,
        bytes: word.to_le_bytes(),
        text: print::word(word),
        mode,
        space: name,
        address,
        partition,
        quadrant: partition.map(|p| p & !31),
        bank,
        offset,
        register,
        fields,
        alignment: alignments.collect(),
        targets: [Target::Trn1, Target::Trn2, Target::Trn3].map(|t| validity(word, address, t)).to_vec(),
    }
}

impl WordExplanation {
    /// The explanation as lines of text.
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

/// Refusals with the same reason on one line.
fn refusals(f: &mut fmt::Formatter<'_>, what: &str, all: &[Refusal]) -> fmt::Result {
    let mut reasons: Vec<(&str, &str)> = all.iter().map(|r| (r.code, r.expected)).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for (code, expected) in reasons {
        let names: Vec<&str> =
            all.iter().filter(|r| r.code == code && r.expected == expected).map(|r| r.dtype).collect();
        let names = if names.len() == DTYPE.len() - 1 { "any dtype".to_string() } else { names.join(" ") };
        writeln!(f, "          no {what} of {names}: {code}, wants {expected}")?;
    }
    Ok(())
}

fn legal(names: &[&str]) -> String {
    match names.len() {
        0 => "none".to_string(),
        n if n == DTYPE.len() - 1 => "any dtype".to_string(),
        _ => names.join(" "),
    }
}

impl fmt::Display for WordExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.bytes;
        writeln!(f, "{:#010x}  (bytes {a:02x} {b:02x} {c:02x} {d:02x})  {}", self.word, self.text)?;
        writeln!(f, "mode      {}", self.mode)?;
        if let Some(space) = self.space {
            write!(f, "place     {space}")?;
            if let Some(p) = self.partition {
                write!(f, ", partition {p} (quadrant {})", self.quadrant.unwrap_or(0))?;
            }
            if let Some(bank) = self.bank {
                write!(f, ", bank {bank}")?;
            }
            if let Some(offset) = self.offset {
                write!(f, ", byte {offset:#x}")?;
            }
            writeln!(f)?;
        }
        if let Some(r) = self.register {
            writeln!(f, "register  {r}")?;
        }
        writeln!(f, "fields    bits    mask        value")?;
        for x in &self.fields {
            writeln!(f, "          {:<7} {:#010x}  {:#x}  {}", x.bits, x.mask, x.value, x.name)?;
        }
        let group = |n: u32| -> (Vec<&str>, bool) {
            let rows = self.alignment.iter().filter(|r| r.bytes == Some(n));
            (rows.clone().map(|r| r.dtype).collect(), rows.clone().all(|r| r.aligned))
        };
        if self.address.is_none() {
            writeln!(f, "aligned   looked at when the instruction runs")?;
        }
        for n in [1, 2, 4, 8].into_iter().filter(|_| self.address.is_some()) {
            let (names, aligned) = group(n);
            let head = if n == 1 { "aligned" } else { "" };
            let says = if aligned { "yes" } else { "no" };
            writeln!(
                f,
                "{head:<9} {says:<3} to {n} byte{}: {}",
                if n == 1 { "" } else { "s" },
                names.join(" ")
            )?;
        }
        for t in &self.targets {
            let note = if t.active == Some(false) { "  (no bytes exist at this address)" } else { "" };
            writeln!(f, "{:<9} reads {}; writes {}{note}", t.target, legal(&t.reads), legal(&t.writes))?;
            if t.refused_reads == t.refused_writes {
                refusals(f, "operand", &t.refused_reads)?;
            } else {
                refusals(f, "read", &t.refused_reads)?;
                refusals(f, "write", &t.refused_writes)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_psum_word() {
        let e = explain_word(0x0202_9040);
        assert_eq!((e.space, e.partition, e.bank, e.offset), (Some("psum"), Some(5), Some(2), Some(0x40)));
        assert_eq!(e.text, "psum:p5 b2+0x40");
        let values: Vec<u32> = e.fields.iter().map(|f| f.value).collect();
        assert_eq!(values, [0, 0, 0, 1, 0, 5, 2, 0x40]);
        let trn2 = &e.targets[1];
        assert!(trn2.reads.contains(&"bf16") && !trn2.writes.contains(&"bf16"));
        assert_eq!(trn2.writes, ["i32", "u32", "fp32", "fp32r"]);
        assert!(e.to_text().contains("no write of"));
    }

    #[test]
    fn targets_differ() {
        let e = explain_word(0x01FF_7FFC);
        let active: Vec<_> = e.targets.iter().map(|t| t.active).collect();
        assert_eq!(active, [Some(false), Some(true), Some(true)]);
        assert!(!e.targets[1].reads.contains(&"fp4x4") && e.targets[2].reads.contains(&"fp4x4"));
        let e = explain_word(0xC000_0005);
        assert_eq!((e.register, e.address), (Some(5), None));
        assert!(e.targets[0].reads.is_empty() && e.targets[1].refused_reads.is_empty());
    }

    #[test]
    fn fields_cover_every_bit_once_and_words_without_meaning_are_explained_too() {
        for word in
            [0, 0x000C_0101, 0x0202_9040, 0x8000_0040, 0x600C_0100, 0x0240_0000, 0xFFFF_FFFF, 0x2000_0020]
        {
            let e = explain_word(word);
            let masks =
                e.fields.iter().fold((0u32, 0u32), |(or, sum), f| (or | f.mask, sum.wrapping_add(f.mask)));
            assert_eq!(masks, (u32::MAX, u32::MAX), "{word:#x}");
            assert!(e.to_text().starts_with(&format!("{word:#010x}")));
        }
        let unaligned = explain_word(0x000C_0101);
        let of = |name| unaligned.alignment.iter().find(|a| a.dtype == name).map(|a| a.aligned);
        assert_eq!((of("u8"), of("bf16"), of("fp32")), (Some(true), Some(false), Some(false)));
    }
}
