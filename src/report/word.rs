//! Address words and records taken apart, bit by bit. In: hexadecimal digits, words or records. Out: rows of bit
//! ranges, each with its value and what it means. Facts: `spec/isa.md 1, 4.2`.

use murre_components::diag::{Diagnostic, codes::cli::CLI_WORD};
use murre_components::isa::addr4::{self, Space, space_of};
use murre_components::isa::{Addr4, Addr8, Addr8Form, AddrMode, WordExplanation, explain_word};
use murre_components::program::Record;
use serde_json::{Value, json};

/// A range of bits: highest, lowest, value, meaning.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs)]
pub struct Bits {
    pub high: u8,
    pub low: u8,
    pub value: u64,
    pub meaning: String,
}

/// A word or a record, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Decoded {
    /// `addr4`, `addr8` or `record`.
    pub kind: &'static str,
    /// The digits.
    pub hex: String,
    /// What it says, in a line.
    pub says: String,
    /// Its parts.
    pub bits: Vec<Bits>,
    /// An ADDR4 asked for by itself: where each target and dtype may start there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<WordExplanation>>,
}

/// Takes digits apart by their number: 8 an ADDR4, 16 an ADDR8, 128 a record.
pub fn decode_hex(text: &str) -> Result<Decoded, Diagnostic> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect();
    let digits = digits.strip_prefix("0x").or(digits.strip_prefix("0X")).unwrap_or(&digits).to_lowercase();
    let fault = || {
        Diagnostic::error(&CLI_WORD, format!("'{text}' is neither a word nor a record"))
            .found(format!("{} characters", digits.chars().count()))
            .expected("8 (ADDR4), 16 (ADDR8) or 128 (record) hexadecimal digits")
    };
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(fault());
    }
    match digits.len() {
        8 => {
            let word = u32::from_str_radix(&digits, 16).map_err(|_| fault())?;
            Ok(Decoded { detail: Some(Box::new(explain_word(word))), ..Decoded::addr4(word) })
        }
        16 => Ok(Decoded::addr8(u64::from_str_radix(&digits, 16).map_err(|_| fault())?)),
        128 => {
            let mut record: Record = [0; 64];
            for (byte, at) in record.iter_mut().zip((0..128).step_by(2)) {
                *byte =
                    digits.get(at..at + 2).and_then(|d| u8::from_str_radix(d, 16).ok()).ok_or_else(fault)?;
            }
            Decoded::record(&record)
        }
        _ => Err(fault()),
    }
}

fn row(high: u8, low: u8, word: u64, meaning: impl Into<String>) -> Bits {
    let mask = u64::MAX >> (63 - (high - low));
    Bits { high, low, value: word >> low & mask, meaning: meaning.into() }
}

impl Decoded {
    /// A 32-bit start address.
    pub fn addr4(word: u32) -> Decoded {
        let wide = word as u64;
        let mut bits = vec![
            row(31, 31, wide, "the address comes from a register"),
            row(30, 30, wide, "the element counts come from a register"),
            row(29, 29, wide, "index operand of a gather"),
        ];
        let says = match Addr4::from_word(word).map(|a| a.mode()) {
            Err(fault) => {
                bits.push(row(28, 0, wide, "address"));
                format!("not a legal word: {}, expected {}", fault.code.title, fault.expected)
            }
            Ok(AddrMode::Register { register }) | Ok(AddrMode::RegisterShape { register }) => {
                bits.push(row(28, 8, wide, "zero"));
                bits.push(row(7, 0, wide, format!("register r{register}")));
                format!("the byte address is the content of r{register}")
            }
            Ok(AddrMode::IndirectRegister { register }) => {
                bits.push(row(28, 8, wide, "zero"));
                bits.push(row(7, 0, wide, format!("register r{register}")));
                format!("the index base is the content of r{register}")
            }
            Ok(AddrMode::Dead) => {
                bits.push(row(28, 0, wide, "address"));
                "gather and counts from a register at once: means nothing".into()
            }
            Ok(AddrMode::Static { address }) => place(address, &mut bits, ""),
            Ok(AddrMode::ShapeRegister { address }) => place(address, &mut bits, ", counts from a register"),
            Ok(AddrMode::Indirect { address }) => place(address, &mut bits, ", indices of a gather"),
        };
        Decoded { kind: "addr4", hex: format!("{word:08x}"), says, bits, detail: None }
    }

    /// A 64-bit address of a DMA side, as a number.
    pub fn addr8(word: u64) -> Decoded {
        let marker = (word >> 56) as u8;
        let mut bits: Vec<Bits> = [
            (63, "the address comes from a register"),
            (62, "the element counts come from a register"),
            (61, "an entry of the address table"),
            (60, "a variable"),
            (59, "the offset comes from a register"),
            (58, "the offset register is a pair"),
        ]
        .map(|(bit, meaning)| row(bit, bit, word, meaning))
        .into();
        bits.push(row(57, 56, word, "zero"));
        let says = match Addr8::from_bytes(word.to_le_bytes()).map(|a| a.form) {
            Err(fault) => {
                bits.push(row(55, 0, word, "address"));
                format!("not a legal word (marker {marker:#04x}): expected {}", fault.expected)
            }
            Ok(Addr8Form::Immediate { address }) => {
                bits.push(row(55, 0, word, format!("byte address {address:#x}")));
                match u32::try_from(address).map(space_of) {
                    Ok(Space::Sbuf { partition, offset }) => {
                        format!(
                            "byte address {address:#x}: as an on-chip address SBUF partition {partition}, byte {offset:#x}"
                        )
                    }
                    Ok(Space::Psum { partition, bank, offset }) => {
                        format!(
                            "byte address {address:#x}: as an on-chip address PSUM partition {partition}, bank {bank}, byte {offset:#x}"
                        )
                    }
                    _ => format!("byte address {address:#x}"),
                }
            }
            Ok(Addr8Form::Register { low, high }) => {
                bits.push(row(55, 16, word, "zero"));
                bits.push(row(15, 8, word, format!("high half in r{high}")));
                bits.push(row(7, 0, word, format!("low half in r{low}")));
                format!(
                    "the address is in r{low}{}",
                    if high == 0 { String::new() } else { format!(" and r{high}") }
                )
            }
            Ok(Addr8Form::Table { entry, offset }) => {
                bits.push(row(55, 48, word, "zero"));
                bits.push(row(47, 32, word, format!("table entry {entry}")));
                bits.push(row(31, 0, word, format!("byte offset {offset}")));
                format!("table entry {entry} plus {offset} bytes")
            }
            Ok(Addr8Form::TableRegister { entry, register, wide }) => {
                bits.push(row(55, 48, word, "zero"));
                bits.push(row(47, 32, word, format!("table entry {entry}")));
                bits.push(row(31, 0, word, format!("offset register r{register}")));
                let pair = if wide { format!(" and r{}", register as u32 + 1) } else { String::new() };
                format!("table entry {entry} plus the byte offset in r{register}{pair}")
            }
            Ok(Addr8Form::Variable { id, offset }) => {
                bits.push(row(55, 32, word, format!("variable {id}")));
                bits.push(row(31, 0, word, format!("byte offset {offset}")));
                format!("variable {id} plus {offset} bytes")
            }
        };
        Decoded { kind: "addr8", hex: format!("{word:016x}"), says, bits, detail: None }
    }

    /// A record.
    pub fn record(record: &Record) -> Result<Decoded, Diagnostic> {
        let says = super::program::record_text(record)?;
        let hex = record.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Decoded { kind: "record", hex, says, bits: Vec::new(), detail: None })
    }

    /// A line, then a line for each range of bits.
    pub fn text(&self) -> String {
        let mut out = format!("{} {}: {}\n", self.kind, self.hex, self.says);
        if let Some(detail) = &self.detail {
            return out + &detail.to_text();
        }
        for b in &self.bits {
            let range = if b.high == b.low { format!("{}", b.high) } else { format!("{}:{}", b.high, b.low) };
            out += &format!("  bits {range:>5} = {:<#12x} {}\n", b.value, b.meaning);
        }
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        json!(self)
    }
}

/// Rows of an on-chip address, and what it says.
fn place(address: u32, bits: &mut Vec<Bits>, note: &str) -> String {
    let wide = (address & addr4::ADDRESS_MASK) as u64;
    match space_of(address) {
        Space::Sbuf { partition, offset } => {
            bits.push(row(28, 25, wide, "region: SBUF"));
            bits.push(row(24, 18, wide, format!("partition {partition}")));
            bits.push(row(17, 0, wide, format!("byte {offset:#x} of the partition")));
            format!("SBUF partition {partition}, byte {offset:#x}{note}")
        }
        Space::Psum { partition, bank, offset } => {
            bits.push(row(28, 25, wide, "region: PSUM"));
            bits.push(row(24, 22, wide, "zero"));
            bits.push(row(21, 15, wide, format!("partition {partition}")));
            bits.push(row(14, 11, wide, format!("bank {bank}")));
            bits.push(row(10, 0, wide, format!("byte {offset:#x} of the bank")));
            format!("PSUM partition {partition}, bank {bank}, byte {offset:#x}{note}")
        }
        Space::Outside => {
            bits.push(row(28, 0, wide, "an address in neither memory"));
            "outside SBUF and PSUM".into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_a_word_put_together_are_the_word() {
        for word in [0u32, 0x0014_4000, 0x0200_8804, 0x8000_0005, 0x4014_4000, 0x2000_0040] {
            let d = Decoded::addr4(word);
            let sum: u64 = d.bits.iter().map(|b| b.value << b.low).sum();
            assert_eq!(sum, word as u64, "{}", d.text());
        }
        let words =
            [Addr8::variable(70_000, 12), Addr8::table_register(3, 17, false), Addr8::immediate(0x4010)];
        for word in words.map(|a| u64::from_le_bytes(a.unwrap().to_bytes())) {
            let d = Decoded::addr8(word);
            assert_eq!(d.bits.iter().map(|b| b.value << b.low).sum::<u64>(), word, "{}", d.text());
        }
    }

    #[test]
    fn words_are_named() {
        assert_eq!(decode_hex("0x0014_4000").unwrap().says, "SBUF partition 5, byte 0x4000");
        assert_eq!(decode_hex("80000005").unwrap().says, "the byte address is the content of r5");
        assert_eq!(decode_hex("2800000300000011").unwrap().says, "table entry 3 plus the byte offset in r17");
    }

    #[test]
    fn other_digits_are_refused() {
        for text in ["", "123", "0x1234567g", "xyz", "é1234567", &"0".repeat(127)] {
            assert_eq!(decode_hex(text).unwrap_err().code.id, "MUR0904", "{text}");
        }
        assert_eq!(decode_hex(&"ff".repeat(64)).unwrap_err().code.id, "MUR0801");
    }
}
