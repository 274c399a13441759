//! ADDR4, the 32-bit start-address word. In: partition, offset, bank or register. Out: the word; or a word, and out
//! come its mode and whether it is legal for an operand. Facts: `spec/isa.md 1`, worked words in 1.7.
//!
//! The word is an on-chip byte address in bits 0..28 with the partition folded in; bits 29..31 are markers (gather
//! index, counts from register, address from register). The free functions are the hot path of the bulk sweep: no
//! checks, no branches, no allocation. [`Addr4`] is the checked way in.

use super::field::{Fault, Place, Wire, at};
use crate::diag::codes::isa as code;
use crate::engine::{PARTITIONS, PSUM_BANK_BYTES, PSUM_BANKS, PSUM_BASE, Target};
use crate::program::Record;

/// Bits of the on-chip byte address.
pub const ADDRESS_MASK: u32 = 0x1FFF_FFFF;
/// Top address bits: zero for SBUF, some set for PSUM.
pub const REGION_MASK: u32 = 0x1E00_0000;
/// Marker: the word is the index operand of a gather.
pub const INDIRECT: u32 = 0x2000_0000;
/// Marker: element counts come from a register.
pub const SHAPE_REGISTER: u32 = 0x4000_0000;
/// Marker: the address comes from a register.
pub const REGISTER: u32 = 0x8000_0000;
/// All marker bits.
pub const MARKERS: u32 = INDIRECT | SHAPE_REGISTER | REGISTER;
/// What must be zero in a base before an encoder makes a gather of it: the markers, and address bits that no memory
/// uses (byte mask 0xFC, `spec/isa.md 3.3`, 9 no. 8). Addresses of PSUM pass.
pub const BASE_MASK: u32 = 0xFC00_0000;
/// First address behind PSUM.
pub const PSUM_END: u32 = 0x0240_0000;

/// SBUF word of partition `part`, byte `off` of it.
#[inline]
pub const fn addr4_sbuf(part: u32, off: u32) -> u32 {
    (part << 18).wrapping_add(off)
}

/// PSUM word of partition `part`, bank `bank`, byte `off` of the bank.
#[inline]
pub const fn addr4_psum(part: u32, bank: u32, off: u32) -> u32 {
    (part << 15).wrapping_add(PSUM_BASE).wrapping_add(bank << 11).wrapping_add(off)
}

/// MX scale word: the partition rounded down to its quadrant; the residue travels in a byte of its own.
#[inline]
pub const fn addr4_mx_scale(part: u32, off: u32) -> u32 {
    ((part << 18) & 0xFF80_0000).wrapping_add(off)
}

/// Word whose address is the content of register `id`.
#[inline]
pub const fn addr4_register(id: u32) -> u32 {
    REGISTER | (id & 0xFF)
}

/// A start-address word in one of its modes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Addr4(u32);

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddrMode {
    /// A byte address.
    Static {
        /// On-chip byte address.
        address: u32,
    },
    /// A byte address; the element counts come from a register.
    ShapeRegister {
        /// On-chip byte address.
        address: u32,
    },
    /// The byte address is the content of a register.
    Register {
        /// Register number.
        register: u8,
    },
    /// Address and element counts come from registers.
    RegisterShape {
        /// Register number of the address.
        register: u8,
    },
    /// The byte address of a gather's indices.
    Indirect {
        /// On-chip byte address.
        address: u32,
    },
    /// A gather whose index base comes from a register; the profile has no use for it.
    IndirectRegister {
        /// Register number.
        register: u8,
    },
    /// Both gather and shape bits: means nothing.
    Dead,
}

/// The memory of an on-chip address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// State buffer: partition and byte offset in it.
    Sbuf {
        /// 0..127.
        partition: u32,
        /// Bytes from the partition's start.
        offset: u32,
    },
    /// Accumulator memory.
    Psum {
        /// 0..127.
        partition: u32,
        /// 0..7; 8..15 lie in the unused half of the stride.
        bank: u32,
        /// Bytes from the bank's start.
        offset: u32,
    },
    /// In neither.
    Outside,
}

/// The memory that the byte address `address` falls into.
#[inline]
pub const fn space_of(address: u32) -> Space {
    if address < PSUM_BASE {
        Space::Sbuf { partition: address >> 18, offset: address & 0x3_FFFF }
    } else if address < PSUM_END {
        let a = address - PSUM_BASE;
        Space::Psum { partition: a >> 15, bank: (a >> 11) & 0xF, offset: a & 0x7FF }
    } else {
        Space::Outside
    }
}

impl Addr4 {
    /// Partition 0, offset 0 of SBUF.
    pub const ZERO: Addr4 = Addr4(0);

    /// Byte `off` of SBUF partition `part`.
    #[inline]
    pub fn sbuf(part: u32, off: u32) -> Result<Addr4, Fault> {
        if part >= PARTITIONS || off >= 1 << 18 {
            let found = if part >= PARTITIONS { part } else { off };
            return Err(Fault::new(
                &code::ISA_ADDRESS,
                0,
                found as i64,
                "partition 0..127, offset below 0x40000",
            ));
        }
        Ok(Addr4(addr4_sbuf(part, off)))
    }

    /// Byte `off` of bank `bank` of PSUM partition `part`.
    #[inline]
    pub fn psum(part: u32, bank: u32, off: u32) -> Result<Addr4, Fault> {
        if part >= PARTITIONS || bank >= PSUM_BANKS || off >= PSUM_BANK_BYTES {
            let found = if part >= PARTITIONS {
                part
            } else if bank >= PSUM_BANKS {
                bank
            } else {
                off
            };
            return Err(Fault::new(
                &code::ISA_ADDRESS,
                0,
                found as i64,
                "partition 0..127, bank 0..7, offset below 0x800",
            ));
        }
        Ok(Addr4(addr4_psum(part, bank, off)))
    }

    /// MX scale rows at SBUF partition `part`: the word, and the residual partition for its own byte, which the wire
    /// wants below 16 and a multiple of 4.
    #[inline]
    pub fn mx_scale(part: u32, off: u32) -> Result<(Addr4, u8), Fault> {
        Addr4::sbuf(part, off)?;
        Ok((Addr4(addr4_mx_scale(part, off)), (part % 32) as u8))
    }

    /// The content of register `id`.
    #[inline]
    pub fn register(id: u32) -> Result<Addr4, Fault> {
        if id > 0x3F {
            return Err(Fault::new(&code::ISA_REGISTER, 0, id as i64, "a register number 0..63"));
        }
        Ok(Addr4(addr4_register(id)))
    }

    /// The resolver of a physical address: any value that fits 32 bits and carries no marker.
    #[inline]
    pub fn physical(address: u64) -> Result<Addr4, Fault> {
        if address > ADDRESS_MASK as u64 {
            return Err(Fault::new(&code::ISA_ADDRESS, 0, address as i64, "an address of 29 bits"));
        }
        Ok(Addr4(address as u32))
    }

    /// Marks the word as a gather's index; refused when it carries a marker already.
    #[inline]
    pub fn indirect(self) -> Result<Addr4, Fault> {
        if self.0 & BASE_MASK != 0 {
            return Err(Fault::new(
                &code::ISA_MARKED,
                3,
                (self.0 >> 24) as i64,
                "a static base without markers",
            ));
        }
        Ok(Addr4(self.0 | INDIRECT))
    }

    /// Takes a word off the wire. The dead mode and malformed register words are refused; where the address lies is
    /// [`start_address_valid`]'s business.
    #[inline]
    pub fn from_word(word: u32) -> Result<Addr4, Fault> {
        if word & (INDIRECT | SHAPE_REGISTER) == INDIRECT | SHAPE_REGISTER {
            return Err(Fault::new(
                &code::ISA_MODE,
                3,
                (word >> 24) as i64,
                "not both gather and shape bits",
            ));
        }
        if word & REGISTER != 0 && (word & 0x1FFF_FF00 != 0 || word & 0xFF > 0x3F) {
            return Err(Fault::new(
                &code::ISA_REGISTER,
                0,
                word as i64,
                "a register number 0..63, reserved bits zero",
            ));
        }
        Ok(Addr4(word))
    }

    /// The bits.
    #[inline]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// What the bits say.
    #[inline]
    pub const fn mode(self) -> AddrMode {
        word_mode(self.0)
    }

    /// The address of a word that holds one.
    #[inline]
    pub const fn address(self) -> Option<u32> {
        if self.0 & REGISTER == 0 { Some(self.0 & ADDRESS_MASK) } else { None }
    }

    /// The register of a word that names one.
    #[inline]
    pub const fn register_id(self) -> Option<u8> {
        if self.0 & REGISTER != 0 { Some(self.0 as u8) } else { None }
    }
}

/// The mode of any 32 bits.
#[inline]
pub const fn word_mode(word: u32) -> AddrMode {
    let address = word & ADDRESS_MASK;
    let register = word as u8;
    match (word >> 29) & 7 {
        0 => AddrMode::Static { address },
        1 => AddrMode::Indirect { address },
        2 => AddrMode::ShapeRegister { address },
        4 => AddrMode::Register { register },
        5 => AddrMode::IndirectRegister { register },
        6 => AddrMode::RegisterShape { register },
        _ => AddrMode::Dead,
    }
}

impl core::fmt::Debug for Addr4 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Addr4({:#010x})", self.0)
    }
}

impl Wire for Addr4 {
    const BYTES: u8 = 4;
    #[inline]
    fn put(&self, r: &mut Record, p: Place) {
        self.0.put(r, p);
    }
    #[inline]
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        Addr4::from_word(u32::get(r, at(p.at))?).map_err(|f| f.shifted(p.at))
    }
}

/// Alignment in bytes that a wire dtype asks for, `None` where the tag is no legal dtype of the generation.
#[inline]
pub const fn alignment(tag: u8, arch: u32) -> Option<u32> {
    match tag {
        2 | 3 | 13 | 14 | 15 => Some(1),
        4..=7 => Some(2),
        8..=11 => Some(4),
        1 | 12 => Some(8),
        16 if arch >= 40 => Some(1),
        _ => None,
    }
}

/// Whether `word` may start an operand of dtype `tag`: register form, then alignment, then placement, in this order.
/// Generation 2 also wants bits 8..30 of a register word clear; later ones look at bits 8..23 only.
pub fn start_address_valid(
    word: u32,
    tag: u8,
    is_write: bool,
    psum_ok: bool,
    sbuf_ok: bool,
    arch: u32,
) -> Result<(), Fault> {
    if word & REGISTER != 0 {
        let reserved = if arch <= 20 { 0x7FFF_FF00 } else { 0x00FF_FF00 };
        if word & reserved != 0 || word & 0xFF > 0x3F {
            return Err(Fault::new(
                &code::ISA_REGISTER,
                0,
                word as i64,
                "a register number 0..63, reserved bits zero",
            ));
        }
        return Ok(());
    }
    let a = word & ADDRESS_MASK;
    let Some(align) = alignment(tag, arch) else {
        return Err(Fault::new(
            &code::ISA_DTYPE,
            0,
            tag as i64,
            "a dtype with an alignment on this generation",
        ));
    };
    if a & (align - 1) != 0 {
        return Err(Fault::new(&code::ISA_ALIGNMENT, 0, a as i64, "an address aligned to its dtype"));
    }
    if a.wrapping_sub(PSUM_BASE) <= 0x3F_FFFF {
        if !psum_ok {
            return Err(Fault::new(
                &code::ISA_PLACEMENT,
                0,
                a as i64,
                "an operand that may not live in PSUM elsewhere",
            ));
        }
        if is_write && !matches!(tag, 8..=11) {
            return Err(Fault::new(
                &code::ISA_PLACEMENT,
                0,
                tag as i64,
                "a 4-byte dtype for a write to PSUM",
            ));
        }
        return Ok(());
    }
    if a & REGION_MASK != 0 {
        return Err(Fault::new(
            &code::ISA_PLACEMENT,
            0,
            a as i64,
            "an address below the end of PSUM, 0x02400000",
        ));
    }
    if !sbuf_ok {
        return Err(Fault::new(
            &code::ISA_PLACEMENT,
            0,
            a as i64,
            "an operand that may not live in SBUF elsewhere",
        ));
    }
    Ok(())
}

/// Whether an SBUF or PSUM address lies in bytes that exist: the offset below the partition's active size (the strides
/// leave padding behind it, which [`start_address_valid`] does not see).
pub fn address_active(address: u32, target: Target) -> bool {
    match space_of(address) {
        Space::Sbuf { offset, .. } => offset < target.profile().sbuf_partition_bytes,
        Space::Psum { bank, .. } => bank < PSUM_BANKS,
        Space::Outside => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id<T: core::fmt::Debug>(r: Result<T, Fault>) -> &'static str {
        r.unwrap_err().code.id
    }

    #[test]
    fn constructors_refuse_what_the_space_has_not() {
        assert_eq!(id(Addr4::sbuf(128, 0)), "MUR0806");
        assert_eq!(id(Addr4::sbuf(0, 0x40000)), "MUR0806");
        assert_eq!(id(Addr4::psum(0, 8, 0)), "MUR0806");
        assert_eq!(id(Addr4::psum(0, 0, 0x800)), "MUR0806");
        assert_eq!(id(Addr4::physical(1 << 29)), "MUR0806");
        assert_eq!(id(Addr4::register(64)), "MUR0807");
        assert_eq!(Addr4::mx_scale(37, 0x80).unwrap(), (Addr4(0x0080_0080), 5));
        assert_eq!(Addr4::mx_scale(100, 0x10).unwrap(), (Addr4(0x0180_0010), 4));
    }

    #[test]
    fn indirect_wants_a_bare_word() {
        let a = Addr4::sbuf(0, 0x20).unwrap();
        assert_eq!(a.indirect().unwrap().word(), 0x2000_0020);
        assert_eq!(id(a.indirect().unwrap().indirect()), "MUR0805");
        assert_eq!(id(Addr4::register(5).unwrap().indirect()), "MUR0805");
    }

    #[test]
    fn dead_and_malformed_words_are_refused() {
        assert_eq!(id(Addr4::from_word(0x600C_0100)), "MUR0804");
        assert_eq!(id(Addr4::from_word(0x8000_0040)), "MUR0807");
        assert_eq!(id(Addr4::from_word(0x8000_0105)), "MUR0807");
        assert_eq!(Addr4::from_word(0xC000_0005).unwrap().mode(), AddrMode::RegisterShape { register: 5 });
        assert_eq!(Addr4::from_word(0xA000_0005).unwrap().mode(), AddrMode::IndirectRegister { register: 5 });
    }

    #[test]
    fn validity_follows_the_order_of_tests() {
        let ok = |w, tag, write, arch| start_address_valid(w, tag, write, true, true, arch);
        // Bits 24..30 of a register word: generation 2 looks, later ones do not.
        assert!(ok(0xC000_0005, 10, false, 30).is_ok());
        assert_eq!(id(ok(0xC000_0005, 10, false, 20)), "MUR0807");
        assert_eq!(id(ok(0x8000_0040, 10, false, 30)), "MUR0807");
        assert!(ok(0x8000_003F, 0, false, 20).is_ok(), "a register bypasses the dtype");
        assert_eq!(id(ok(0x0000_0002, 10, false, 30)), "MUR0809");
        assert_eq!(id(ok(0x0000_0004, 12, false, 30)), "MUR0809");
        assert_eq!(id(ok(0, 0, false, 30)), "MUR0824");
        assert_eq!(id(ok(0, 16, false, 30)), "MUR0824");
        assert!(ok(1, 16, false, 40).is_ok());
        assert_eq!(id(ok(0x0240_0000, 10, false, 30)), "MUR0808");
        assert!(ok(0x0200_0000, 6, false, 30).is_ok(), "PSUM reads take any dtype");
        assert_eq!(id(ok(0x0200_0000, 6, true, 30)), "MUR0808");
        assert_eq!(id(start_address_valid(0x0200_0000, 10, true, false, true, 30)), "MUR0808");
        assert_eq!(id(start_address_valid(0, 10, true, true, false, 30)), "MUR0808");
    }

    #[test]
    fn padding_is_not_active() {
        assert!(address_active(0x01FF_7FFC, Target::Trn2));
        assert!(!address_active(0x01FF_7FFC, Target::Trn1));
        assert!(!address_active(addr4_psum(0, 8, 0), Target::Trn2));
    }
}
