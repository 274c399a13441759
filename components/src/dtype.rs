//! Element types: the ones HLO programs use ([`HloType`]) and the ones the machine uses ([`DType`]), with the
//! hardware's wire tags. Facts: `spec/isa.md 6.2`, `spec/hlo.md 5`.

use serde::{Deserialize, Serialize};

/// An HLO primitive type, numbered as in `xla.PrimitiveType`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum HloType {
    Pred = 1,
    S8 = 2,
    S16 = 3,
    S32 = 4,
    S64 = 5,
    U8 = 6,
    U16 = 7,
    U32 = 8,
    U64 = 9,
    F16 = 10,
    F32 = 11,
    F64 = 12,
    Tuple = 13,
    Opaque = 14,
    C64 = 15,
    Bf16 = 16,
    Token = 17,
    C128 = 18,
    F8E5M2 = 19,
    F8E4M3Fn = 20,
    S4 = 21,
    U4 = 22,
    F8E4M3B11Fnuz = 23,
    F8E5M2Fnuz = 24,
    F8E4M3Fnuz = 25,
    S2 = 26,
    U2 = 27,
    F8E4M3 = 28,
    F8E3M4 = 29,
    S1 = 30,
    U1 = 31,
    F4E2M1Fn = 32,
    F8E8M0Fnu = 33,
    F6E3M2Fn = 35,
    F6E2M3Fn = 36,
}

impl HloType {
    /// Every type with its HLO text name, in `PrimitiveType` order.
    pub const ALL: &'static [(HloType, &'static str)] = &[
        (HloType::Pred, "pred"),
        (HloType::S8, "s8"),
        (HloType::S16, "s16"),
        (HloType::S32, "s32"),
        (HloType::S64, "s64"),
        (HloType::U8, "u8"),
        (HloType::U16, "u16"),
        (HloType::U32, "u32"),
        (HloType::U64, "u64"),
        (HloType::F16, "f16"),
        (HloType::F32, "f32"),
        (HloType::F64, "f64"),
        (HloType::Tuple, "tuple"),
        (HloType::Opaque, "opaque"),
        (HloType::C64, "c64"),
        (HloType::Bf16, "bf16"),
        (HloType::Token, "token"),
        (HloType::C128, "c128"),
        (HloType::F8E5M2, "f8e5m2"),
        (HloType::F8E4M3Fn, "f8e4m3fn"),
        (HloType::S4, "s4"),
        (HloType::U4, "u4"),
        (HloType::F8E4M3B11Fnuz, "f8e4m3b11fnuz"),
        (HloType::F8E5M2Fnuz, "f8e5m2fnuz"),
        (HloType::F8E4M3Fnuz, "f8e4m3fnuz"),
        (HloType::S2, "s2"),
        (HloType::U2, "u2"),
        (HloType::F8E4M3, "f8e4m3"),
        (HloType::F8E3M4, "f8e3m4"),
        (HloType::S1, "s1"),
        (HloType::U1, "u1"),
        (HloType::F4E2M1Fn, "f4e2m1fn"),
        (HloType::F8E8M0Fnu, "f8e8m0fnu"),
        (HloType::F6E3M2Fn, "f6e3m2fn"),
        (HloType::F6E2M3Fn, "f6e2m3fn"),
    ];

    /// The type named `name` in HLO text.
    pub fn from_name(name: &str) -> Option<HloType> {
        Self::ALL.iter().find(|(_, n)| *n == name).map(|(t, _)| *t)
    }

    /// The type with this `PrimitiveType` number.
    pub fn from_number(number: i32) -> Option<HloType> {
        Self::ALL.iter().find(|(t, _)| *t as i32 == number).map(|(t, _)| *t)
    }

    /// The HLO text name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(t, _)| *t == self).map_or("?", |(_, n)| n)
    }

    /// Bytes of one element in memory and in a `.npy` file; sub-byte types take one byte, tuples and tokens none.
    pub fn bytes(self) -> usize {
        use HloType::*;
        match self {
            Tuple | Opaque | Token => 0,
            S16 | U16 | F16 | Bf16 => 2,
            S32 | U32 | F32 => 4,
            S64 | U64 | F64 | C64 => 8,
            C128 => 16,
            _ => 1,
        }
    }

    /// Signed or unsigned integer (not `pred`).
    pub fn is_int(self) -> bool {
        self.is_signed_int() || self.is_unsigned_int()
    }

    /// Two's complement integer.
    pub fn is_signed_int(self) -> bool {
        use HloType::*;
        matches!(self, S1 | S2 | S4 | S8 | S16 | S32 | S64)
    }

    /// Unsigned integer (not `pred`).
    pub fn is_unsigned_int(self) -> bool {
        use HloType::*;
        matches!(self, U1 | U2 | U4 | U8 | U16 | U32 | U64)
    }

    /// Real floating point.
    pub fn is_float(self) -> bool {
        use HloType::*;
        matches!(self, F16 | F32 | F64 | Bf16)
            || matches!(
                self,
                F8E5M2
                    | F8E4M3Fn
                    | F8E4M3B11Fnuz
                    | F8E5M2Fnuz
                    | F8E4M3Fnuz
                    | F8E4M3
                    | F8E3M4
                    | F4E2M1Fn
                    | F6E2M3Fn
                    | F6E3M2Fn
                    | F8E8M0Fnu
            )
    }

    /// Width of the value in bits (`pred` is 1).
    pub fn bits(self) -> u32 {
        use HloType::*;
        match self {
            Pred | S1 | U1 => 1,
            S2 | U2 => 2,
            S4 | U4 | F4E2M1Fn => 4,
            F6E2M3Fn | F6E3M2Fn => 6,
            other => other.bytes() as u32 * 8,
        }
    }
}

/// A machine element type, numbered by its IR ordinal (`spec/isa.md 6.2`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    U8 = 0,
    I8 = 1,
    F4x4 = 2,
    F8E3 = 3,
    F8E4 = 4,
    F8E4M3Fn = 5,
    F8E8M0 = 6,
    F8E5 = 7,
    F8E4M3FnX4 = 8,
    F8E5M2X4 = 9,
    U16 = 10,
    I16 = 11,
    Bf16 = 12,
    F16 = 13,
    U32 = 14,
    I32 = 15,
    F32 = 16,
    F32R = 17,
    U64 = 18,
    I64 = 19,
}

impl DType {
    /// Every type, by IR ordinal.
    pub const ALL: [DType; 20] = [
        DType::U8,
        DType::I8,
        DType::F4x4,
        DType::F8E3,
        DType::F8E4,
        DType::F8E4M3Fn,
        DType::F8E8M0,
        DType::F8E5,
        DType::F8E4M3FnX4,
        DType::F8E5M2X4,
        DType::U16,
        DType::I16,
        DType::Bf16,
        DType::F16,
        DType::U32,
        DType::I32,
        DType::F32,
        DType::F32R,
        DType::U64,
        DType::I64,
    ];
    const BYTES: [u8; 20] = [1, 1, 2, 1, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8];
    const TAGS: [u8; 20] = [3, 2, 0x10, 0xD, 0xE, 0xE, 3, 0xF, 0xE, 0xF, 5, 4, 6, 7, 9, 8, 0xA, 0xB, 1, 0xC];

    /// Bytes of one element.
    #[inline]
    pub fn bytes(self) -> u32 {
        Self::BYTES[self as usize] as u32
    }

    /// The hardware's dtype code.
    #[inline]
    pub fn wire_tag(self) -> u8 {
        Self::TAGS[self as usize]
    }

    /// The machine type that represents an HLO type in memory, `None` where profile v1 has none.
    /// `pred` is a byte holding 0 or 1.
    pub fn of(t: HloType) -> Option<DType> {
        Some(match t {
            HloType::Pred | HloType::U8 => DType::U8,
            HloType::S8 => DType::I8,
            HloType::S16 => DType::I16,
            HloType::U16 => DType::U16,
            HloType::S32 => DType::I32,
            HloType::U32 => DType::U32,
            HloType::S64 => DType::I64,
            // A 64-bit float is only moved, as its bits.
            HloType::U64 | HloType::F64 => DType::U64,
            HloType::F16 => DType::F16,
            HloType::Bf16 => DType::Bf16,
            HloType::F32 => DType::F32,
            HloType::F8E4M3Fn => DType::F8E4M3Fn,
            HloType::F8E5M2 => DType::F8E5,
            _ => return None,
        })
    }

    /// Signed or unsigned integer.
    pub fn is_int(self) -> bool {
        use DType::*;
        matches!(self, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64)
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        use DType::*;
        match self {
            U8 => "u8",
            I8 => "i8",
            F4x4 => "f4x4",
            F8E3 => "f8e3",
            F8E4 => "f8e4",
            F8E4M3Fn => "f8e4m3fn",
            F8E8M0 => "f8e8m0",
            F8E5 => "f8e5",
            F8E4M3FnX4 => "f8e4m3fnx4",
            F8E5M2X4 => "f8e5m2x4",
            U16 => "u16",
            I16 => "i16",
            Bf16 => "bf16",
            F16 => "f16",
            U32 => "u32",
            I32 => "i32",
            F32 => "f32",
            F32R => "f32r",
            U64 => "u64",
            I64 => "i64",
        }
    }
}
