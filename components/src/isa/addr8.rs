//! ADDR8, the 64-bit address of a DMA side, and the bound register byte. In: table entry, variable or register. Out:
//! eight bytes whose last one says which form they are. Facts: `spec/isa.md 4.2, 4.3`, `spec/decisions.md D8, D9`.

use super::field::{Fault, Place, Wire, at, bytes_at, store};
use crate::diag::codes::isa as code;
use crate::program::Record;

/// Marker: the table offset spans two registers.
pub const WIDE: u8 = 0x04;
/// Marker: the table offset comes from a register.
pub const OFFSET_REGISTER: u8 = 0x08;
/// Marker: a variable id.
pub const VARIABLE: u8 = 0x10;
/// Marker: an entry of the address table.
pub const TABLE: u8 = 0x20;
/// Marker: the element counts come from a register.
pub const SHAPE: u8 = 0x40;
/// Marker: the address comes from a register.
pub const REGISTER: u8 = 0x80;

/// The address part of an ADDR8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addr8Form {
    /// A plain byte address; for an SBUF or PSUM side the on-chip address.
    Immediate {
        /// 56 bits.
        address: u64,
    },
    /// The address is in a register pair.
    Register {
        /// Low half.
        low: u8,
        /// High half; 0 when the address has 32 bits.
        high: u8,
    },
    /// A DGE table entry plus a constant.
    Table {
        /// Entry of the address table.
        entry: u16,
        /// Bytes.
        offset: u32,
    },
    /// A DGE table entry plus the content of a register, in bytes.
    TableRegister {
        /// Entry of the address table.
        entry: u16,
        /// The register; the next one holds the high half when `wide`.
        register: u8,
        /// Whether the offset has 64 bits.
        wide: bool,
    },
    /// A variable plus a constant.
    Variable {
        /// 24 bits.
        id: u32,
        /// Bytes.
        offset: u32,
    },
}

/// An ADDR8 word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addr8 {
    /// Where.
    pub form: Addr8Form,
    /// Counts come from a register.
    pub shape_register: bool,
}

fn register(id: u32, at: u8) -> Result<u8, Fault> {
    if id > 0x3F {
        return Err(Fault::new(&code::ISA_REGISTER, at, id as i64, "a register number 0..63"));
    }
    Ok(id as u8)
}

impl Addr8 {
    const fn plain(form: Addr8Form) -> Addr8 {
        Addr8 { form, shape_register: false }
    }

    /// A byte address.
    pub fn immediate(address: u64) -> Result<Addr8, Fault> {
        if address >> 56 != 0 {
            return Err(Fault::new(&code::ISA_ADDR8, 7, (address >> 56) as i64, "an address of 56 bits"));
        }
        Ok(Self::plain(Addr8Form::Immediate { address }))
    }

    /// An address in one register or a pair.
    pub fn in_registers(low: u32, high: u32) -> Result<Addr8, Fault> {
        Ok(Self::plain(Addr8Form::Register { low: register(low, 0)?, high: register(high, 1)? }))
    }

    /// A DGE table entry and a constant byte offset.
    pub fn table(entry: u32, offset: u32) -> Result<Addr8, Fault> {
        Ok(Self::plain(Addr8Form::Table { entry: table_entry(entry)?, offset }))
    }

    /// A DGE table entry and an offset register; `wide` takes the next register too.
    pub fn table_register(entry: u32, id: u32, wide: bool) -> Result<Addr8, Fault> {
        let form = Addr8Form::TableRegister { entry: table_entry(entry)?, register: register(id, 0)?, wide };
        if wide {
            register(id + 1, 0)?;
        }
        Ok(Self::plain(form))
    }

    /// A variable and a constant byte offset.
    pub fn variable(id: u32, offset: u32) -> Result<Addr8, Fault> {
        if id >> 24 != 0 {
            return Err(Fault::new(&code::ISA_ADDR8, 4, id as i64, "a variable id of 24 bits"));
        }
        Ok(Self::plain(Addr8Form::Variable { id, offset }))
    }

    /// The same with the counts taken from a register.
    pub fn with_shape_register(self) -> Addr8 {
        Addr8 { shape_register: true, ..self }
    }

    /// The eight bytes.
    pub fn to_bytes(self) -> [u8; 8] {
        let pack = |low: u32, mid: u16, byte6: u8, marker: u8| {
            low as u64 | (mid as u64) << 32 | (byte6 as u64) << 48 | (marker as u64) << 56
        };
        let word = match self.form {
            Addr8Form::Immediate { address } => address & (u64::MAX >> 8),
            Addr8Form::Register { low, high } => pack(low as u32 | (high as u32) << 8, 0, 0, REGISTER),
            Addr8Form::Table { entry, offset } => pack(offset, entry, 0, TABLE),
            Addr8Form::TableRegister { entry, register, wide } => {
                pack(register as u32, entry, 0, TABLE | OFFSET_REGISTER | if wide { WIDE } else { 0 })
            }
            Addr8Form::Variable { id, offset } => pack(offset, id as u16, (id >> 16) as u8, VARIABLE),
        };
        (word | if self.shape_register { (SHAPE as u64) << 56 } else { 0 }).to_le_bytes()
    }

    /// Reads eight bytes.
    pub fn from_bytes(b: [u8; 8]) -> Result<Addr8, Fault> {
        let [b0, b1, b2, b3, b4, b5, b6, marker] = b;
        let low = u32::from_le_bytes([b0, b1, b2, b3]);
        let entry = u16::from_le_bytes([b4, b5]);
        let zero = |bytes: &[u8], at: u8| match bytes.iter().position(|b| *b != 0) {
            Some(i) => Err(Fault::new(
                &code::ISA_RESERVED,
                at + i as u8,
                bytes.iter().map(|b| *b as i64).sum(),
                "zero",
            )),
            None => Ok(()),
        };
        let base = match marker & !SHAPE {
            0 => Self::immediate(u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, 0]))?,
            REGISTER => {
                zero(&[b2, b3, b4, b5, b6], 2)?;
                Self::in_registers(b0 as u32, b1 as u32)?
            }
            TABLE => {
                zero(&[b6], 6)?;
                Self::table(entry as u32, low)?
            }
            m if m & !WIDE == TABLE | OFFSET_REGISTER => {
                zero(&[b6], 6)?;
                Self::table_register(entry as u32, low, m & WIDE != 0)?
            }
            VARIABLE => Self::variable(entry as u32 | (b6 as u32) << 16, low)?,
            _ => {
                let want = "a marker 00, 10, 20, 28, 2C or 80, with or without 40";
                return Err(Fault::new(&code::ISA_ADDR8, 7, marker as i64, want));
            }
        };
        Ok(Addr8 { shape_register: marker & SHAPE != 0, ..base })
    }
}

fn table_entry(entry: u32) -> Result<u16, Fault> {
    u16::try_from(entry)
        .map_err(|_| Fault::new(&code::ISA_ADDR8, 4, entry as i64, "a table entry that fits 16 bits"))
}

impl Wire for Addr8 {
    const BYTES: u8 = 8;
    fn put(&self, r: &mut Record, p: Place) {
        store(r, p.at, &self.to_bytes());
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Addr8::from_bytes(bytes_at(r, p.at)).map_err(|f| f.shifted(p.at))
    }
}

/// The register that bounds a dynamic side's offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BoundRegister {
    /// Register of the bound (the next one holds the high half when the offset is wide); `None`: no check.
    pub register: Option<u8>,
    /// Out-of-bounds notifications are suppressed.
    pub quiet: bool,
}

impl BoundRegister {
    /// No check.
    pub const NONE: BoundRegister = BoundRegister { register: None, quiet: false };

    /// Checks against the content of register `id`.
    pub fn checked(id: u32, quiet: bool) -> Result<Self, Fault> {
        Ok(BoundRegister { register: Some(register(id, 0)?), quiet })
    }

    /// The byte: bits 0..5 register, bit 6 quiet, bit 7 enabled.
    pub fn to_byte(self) -> u8 {
        match self.register {
            Some(id) => (id & 0x3F) | 0x80 | if self.quiet { 0x40 } else { 0 },
            None => 0,
        }
    }

    /// Reads the byte; anything half set is refused.
    pub fn from_byte(b: u8) -> Result<Self, Fault> {
        match b {
            0 => Ok(Self::NONE),
            b if b & 0x80 != 0 => Ok(BoundRegister { register: Some(b & 0x3F), quiet: b & 0x40 != 0 }),
            _ => Err(Fault::new(&code::ISA_BOUND, 0, b as i64, "zero, or bit 7 set")),
        }
    }
}

impl Wire for BoundRegister {
    const BYTES: u8 = 1;
    fn put(&self, r: &mut Record, p: Place) {
        self.to_byte().put(r, at(p.at));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Self::from_byte(u8::get(r, p)?).map_err(|f| f.shifted(p.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_its_bytes_and_comes_back() {
        let cases: &[(Addr8, [u8; 8])] = &[
            (Addr8::table(7, 0x1234).unwrap(), [0x34, 0x12, 0, 0, 7, 0, 0, 0x20]),
            (Addr8::table_register(7, 5, false).unwrap(), [5, 0, 0, 0, 7, 0, 0, 0x28]),
            (Addr8::table_register(7, 6, true).unwrap(), [6, 0, 0, 0, 7, 0, 0, 0x2C]),
            (Addr8::table_register(7, 6, true).unwrap().with_shape_register(), [6, 0, 0, 0, 7, 0, 0, 0x6C]),
            (Addr8::variable(0x030201, 0x40).unwrap(), [0x40, 0, 0, 0, 1, 2, 3, 0x10]),
            (Addr8::immediate(0x00FC_0100).unwrap(), [0, 1, 0xFC, 0, 0, 0, 0, 0]),
            (Addr8::in_registers(4, 5).unwrap(), [4, 5, 0, 0, 0, 0, 0, 0x80]),
            (Addr8::in_registers(4, 5).unwrap().with_shape_register(), [4, 5, 0, 0, 0, 0, 0, 0xC0]),
        ];
        for (word, bytes) in cases {
            assert_eq!(word.to_bytes(), *bytes);
            assert_eq!(Addr8::from_bytes(*bytes), Ok(*word));
        }
    }

    #[test]
    fn ids_that_do_not_fit_are_refused() {
        let id = |r: Result<Addr8, Fault>| r.unwrap_err().code.id;
        assert_eq!(id(Addr8::table(0x10000, 0)), "MUR0816");
        assert_eq!(id(Addr8::variable(1 << 24, 0)), "MUR0816");
        assert_eq!(id(Addr8::immediate(1 << 56)), "MUR0816");
        assert_eq!(id(Addr8::table_register(0, 64, false)), "MUR0807");
        assert_eq!(id(Addr8::table_register(0, 63, true)), "MUR0807");
        assert_eq!(id(Addr8::from_bytes([0, 0, 0, 0, 0, 0, 0, 0x30])), "MUR0816");
        assert_eq!(id(Addr8::from_bytes([0, 0, 0, 0, 0, 0, 0, 0x01])), "MUR0816");
        assert_eq!(id(Addr8::from_bytes([1, 2, 0, 9, 0, 0, 0, 0x80])), "MUR0802");
    }

    #[test]
    fn bound_bytes_are_all_or_nothing() {
        assert_eq!(BoundRegister::checked(9, true).unwrap().to_byte(), 0xC9);
        assert_eq!(BoundRegister::from_byte(0x89), BoundRegister::checked(9, false));
        assert_eq!(BoundRegister::from_byte(0), Ok(BoundRegister::NONE));
        assert_eq!(BoundRegister::from_byte(0x09).unwrap_err().code.id, "MUR0817");
        assert_eq!(BoundRegister::from_byte(0x40).unwrap_err().code.id, "MUR0817");
        assert_eq!(BoundRegister::checked(64, false).unwrap_err().code.id, "MUR0807");
    }
}
