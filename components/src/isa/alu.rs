//! ALU operators: IR ordinals, wire bytes and classes. In: an operator. Out: its wire byte on a target, or a coded
//! refusal. Facts: `spec/isa.md 6.1`, `spec/isa_compute.md 2.7`.

use super::field::Fault;
use crate::diag::codes::isa as code;
use serde::{Deserialize, Serialize};

/// An operator, by its IR ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum AluOp {
    Bypass = 0,
    BitwiseNot = 1,
    ArithShiftLeft = 2,
    ArithShiftRight = 3,
    Add = 4,
    Subtract = 5,
    Mult = 6,
    Divide = 7,
    Max = 8,
    Min = 9,
    BitwiseAnd = 10,
    BitwiseOr = 11,
    BitwiseXor = 12,
    LogicalAnd = 13,
    LogicalOr = 14,
    LogicalXor = 15,
    LogicalShiftLeft = 16,
    LogicalShiftRight = 17,
    IsEqual = 18,
    NotEqual = 19,
    IsGt = 20,
    IsGe = 21,
    IsLt = 22,
    IsLe = 23,
    Average = 24,
    ElemwiseMul = 25,
    Pow = 26,
    Mod = 27,
    Rsqrt = 28,
    Abs = 29,
    AbsMax = 30,
    AbsMin = 31,
    ModInt = 32,
}

/// First generation whose converter knows an operator.
const ALWAYS: u32 = 0;
const GEN4: u32 = 40;

/// IR ordinal, text name, wire byte, first architecture.
type Row = (AluOp, &'static str, Option<u8>, u32);

const ROWS: [Row; 33] = [
    (AluOp::Bypass, "bypass", Some(0x00), ALWAYS),
    (AluOp::BitwiseNot, "bitwise_not", Some(0x01), ALWAYS),
    (AluOp::ArithShiftLeft, "arith_shift_left", Some(0x02), ALWAYS),
    (AluOp::ArithShiftRight, "arith_shift_right", Some(0x03), ALWAYS),
    (AluOp::Add, "add", Some(0x04), ALWAYS),
    (AluOp::Subtract, "subtract", Some(0x05), ALWAYS),
    (AluOp::Mult, "mult", Some(0x06), ALWAYS),
    (AluOp::Divide, "divide", Some(0x07), ALWAYS),
    (AluOp::Max, "max", Some(0x08), ALWAYS),
    (AluOp::Min, "min", Some(0x09), ALWAYS),
    (AluOp::BitwiseAnd, "bitwise_and", Some(0x0A), ALWAYS),
    (AluOp::BitwiseOr, "bitwise_or", Some(0x0B), ALWAYS),
    (AluOp::BitwiseXor, "bitwise_xor", Some(0x0C), ALWAYS),
    (AluOp::LogicalAnd, "logical_and", Some(0x0D), ALWAYS),
    (AluOp::LogicalOr, "logical_or", Some(0x0E), ALWAYS),
    (AluOp::LogicalXor, "logical_xor", Some(0x0F), ALWAYS),
    (AluOp::LogicalShiftLeft, "logical_shift_left", Some(0x10), ALWAYS),
    (AluOp::LogicalShiftRight, "logical_shift_right", Some(0x11), ALWAYS),
    (AluOp::IsEqual, "is_equal", Some(0x12), ALWAYS),
    (AluOp::NotEqual, "not_equal", Some(0x18), ALWAYS),
    (AluOp::IsGt, "is_gt", Some(0x13), ALWAYS),
    (AluOp::IsGe, "is_ge", Some(0x14), ALWAYS),
    (AluOp::IsLt, "is_lt", Some(0x16), ALWAYS),
    (AluOp::IsLe, "is_le", Some(0x15), ALWAYS),
    (AluOp::Average, "average", None, ALWAYS),
    (AluOp::ElemwiseMul, "elemwise_mul", None, ALWAYS),
    (AluOp::Pow, "pow", Some(0x1A), ALWAYS),
    (AluOp::Mod, "mod", Some(0x1B), ALWAYS),
    (AluOp::Rsqrt, "rsqrt", Some(0x1D), ALWAYS),
    (AluOp::Abs, "abs", Some(0x19), ALWAYS),
    (AluOp::AbsMax, "abs_max", Some(0x20), GEN4),
    (AluOp::AbsMin, "abs_min", Some(0x21), GEN4),
    (AluOp::ModInt, "mod_int", Some(0xC8), GEN4),
];

impl AluOp {
    /// Every operator, by IR ordinal.
    pub fn all() -> impl Iterator<Item = AluOp> {
        ROWS.iter().map(|r| r.0)
    }

    /// The operator with this IR ordinal.
    pub fn from_ordinal(n: u8) -> Option<AluOp> {
        ROWS.get(n as usize).map(|r| r.0)
    }

    /// The operator that a wire byte stands for, where an IR ordinal exists.
    pub fn from_wire(wire: u8) -> Option<AluOp> {
        ROWS.iter().find(|r| r.2 == Some(wire)).map(|r| r.0)
    }

    /// The wire byte on an architecture level. `average` and `elemwise_mul` have none anywhere; the last three only
    /// from generation 4 on.
    pub fn wire(self, arch: u32) -> Result<u8, Fault> {
        match ROWS.get(self as usize) {
            Some((_, _, Some(wire), first)) if arch >= *first => Ok(*wire),
            _ => Err(Fault::new(
                &code::ISA_NO_WIRE_CODE,
                0,
                self as i64,
                "an operator that this converter knows",
            )),
        }
    }

    /// The wire byte that RegisterAlu takes: its converter stops at ordinal 29 on every generation.
    pub fn register_wire(self) -> Result<u8, Fault> {
        self.wire(30)
    }

    /// The text name.
    pub fn name(self) -> &'static str {
        ROWS.get(self as usize).map_or("?", |r| r.1)
    }
}

/// Wire bytes without an IR ordinal.
pub mod wire {
    #![allow(missing_docs)]
    pub const ABS_DIFF: u8 = 0x17;
    pub const CRC32: u8 = 0x1C;
    pub const ABS_MAX: u8 = 0x20;
    pub const ABS_MIN: u8 = 0x21;
    pub const RELU: u8 = 0x22;
    pub const SQUARE: u8 = 0x23;
}

/// The integer-engine band, exact 32-bit two's complement (`spec/isa.md 6.1`, `spec/isa_compute.md 9.2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum IntOp {
    Add = 0xC4,
    Mult = 0xC5,
    Subtract = 0xC6,
    Divide = 0xC7,
    Mod = 0xC8,
    Eq = 0xC9,
    Ne = 0xCA,
    AbsMax = 0xCB,
    AbsMin = 0xCC,
    AbsDiff = 0xCD,
    Abs = 0xCE,
    Max = 0xCF,
    Min = 0xD0,
    Gt = 0xD1,
    Ge = 0xD2,
    Le = 0xD3,
    Lt = 0xD4,
    UMax = 0xD5,
    UMin = 0xD6,
    UGt = 0xD7,
    UGe = 0xD8,
    ULe = 0xD9,
    ULt = 0xDA,
    UMult = 0xDB,
    UDivide = 0xDC,
    UMod = 0xDD,
    ArgMax = 0xDE,
    ArgMin = 0xDF,
    UArgMax = 0xE0,
    UArgMin = 0xE1,
}

impl IntOp {
    /// The band, in wire order.
    pub const ALL: [IntOp; 30] = [
        IntOp::Add,
        IntOp::Mult,
        IntOp::Subtract,
        IntOp::Divide,
        IntOp::Mod,
        IntOp::Eq,
        IntOp::Ne,
        IntOp::AbsMax,
        IntOp::AbsMin,
        IntOp::AbsDiff,
        IntOp::Abs,
        IntOp::Max,
        IntOp::Min,
        IntOp::Gt,
        IntOp::Ge,
        IntOp::Le,
        IntOp::Lt,
        IntOp::UMax,
        IntOp::UMin,
        IntOp::UGt,
        IntOp::UGe,
        IntOp::ULe,
        IntOp::ULt,
        IntOp::UMult,
        IntOp::UDivide,
        IntOp::UMod,
        IntOp::ArgMax,
        IntOp::ArgMin,
        IntOp::UArgMax,
        IntOp::UArgMin,
    ];

    /// The operator with this wire byte.
    pub fn from_wire(wire: u8) -> Option<IntOp> {
        Self::ALL.get(wire.wrapping_sub(0xC4) as usize).copied()
    }

    /// The wire byte.
    pub const fn wire(self) -> u8 {
        self as u8
    }
}

/// Operators on raw bits: bypass, not, the shifts, and, or, xor.
pub const BITVEC: &[u8] = &[0x00, 0x01, 0x02, 0x03, 0x0A, 0x0B, 0x0C, 0x10, 0x11];
/// Operators on fp32 of generations 2 and 3.
pub const ARITH: &[u8] = &[
    0x00, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0D, 0x0E, 0x0F, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
    0x20, 0x21, 0x22, 0x23,
];
/// TensorScalar: arith, and divide, pow, rsqrt.
pub const TENSOR_SCALAR: &[u8] = &[
    0x00, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0D, 0x0E, 0x0F, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    0x19, 0x1A, 0x1D, 0x20, 0x21, 0x22, 0x23,
];
/// TensorTensor: arith, divide, pow and the integer band forms of profile v1.
pub const TENSOR_TENSOR: &[u8] = &[
    0x00, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0D, 0x0E, 0x0F, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    0x19, 0x1A, 0x20, 0x21, 0x22, 0x23, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCF, 0xD0, 0xD1, 0xD2,
    0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xDC, 0xDD,
];
/// Integer-band operators of TensorTensor on int32.
pub const BAND_I32: &[u8] = &[0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3, 0xD4];
/// Integer-band operators of TensorTensor on uint32.
pub const BAND_U32: &[u8] = &[0xC4, 0xC5, 0xC6, 0xC9, 0xCA, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xDC, 0xDD];
/// Operators that may fold into an accumulator.
pub const FOLD: &[u8] = &[0x04, 0x05, 0x06, 0x08, 0x09];
/// TensorReduce on numbers.
pub const REDUCE: &[u8] = &[0x04, 0x05, 0x06, 0x08, 0x09, 0x0D, 0x0E, 0x0F, 0x20, 0x21];
/// TensorReduce on bits.
pub const REDUCE_BITVEC: &[u8] = &[0x0A, 0x0B, 0x0C];

/// Text names of every wire byte that has a meaning.
pub const NAMES: &[(u8, &str)] = &[
    (0x00, "bypass"),
    (0x01, "bitwise_not"),
    (0x02, "arith_shift_left"),
    (0x03, "arith_shift_right"),
    (0x04, "add"),
    (0x05, "subtract"),
    (0x06, "mult"),
    (0x07, "divide"),
    (0x08, "max"),
    (0x09, "min"),
    (0x0A, "bitwise_and"),
    (0x0B, "bitwise_or"),
    (0x0C, "bitwise_xor"),
    (0x0D, "logical_and"),
    (0x0E, "logical_or"),
    (0x0F, "logical_xor"),
    (0x10, "logical_shift_left"),
    (0x11, "logical_shift_right"),
    (0x12, "is_equal"),
    (0x13, "is_gt"),
    (0x14, "is_ge"),
    (0x15, "is_le"),
    (0x16, "is_lt"),
    (0x17, "abs_diff"),
    (0x18, "not_equal"),
    (0x19, "abs"),
    (0x1A, "pow"),
    (0x1B, "mod"),
    (0x1C, "crc32"),
    (0x1D, "rsqrt"),
    (0x20, "abs_max"),
    (0x21, "abs_min"),
    (0x22, "relu"),
    (0x23, "square"),
    (0x24, "symmetric_clamp"),
    (0xC4, "int_add"),
    (0xC5, "int_mult"),
    (0xC6, "int_subtract"),
    (0xC7, "int_divide"),
    (0xC8, "int_mod"),
    (0xC9, "int_eq"),
    (0xCA, "int_ne"),
    (0xCB, "int_abs_max"),
    (0xCC, "int_abs_min"),
    (0xCD, "int_abs_diff"),
    (0xCE, "int_abs"),
    (0xCF, "int_max"),
    (0xD0, "int_min"),
    (0xD1, "int_gt"),
    (0xD2, "int_ge"),
    (0xD3, "int_le"),
    (0xD4, "int_lt"),
    (0xD5, "uint_max"),
    (0xD6, "uint_min"),
    (0xD7, "uint_gt"),
    (0xD8, "uint_ge"),
    (0xD9, "uint_le"),
    (0xDA, "uint_lt"),
    (0xDB, "uint_mult"),
    (0xDC, "uint_divide"),
    (0xDD, "uint_mod"),
    (0xDE, "int_argmax"),
    (0xDF, "int_argmin"),
    (0xE0, "uint_argmax"),
    (0xE1, "uint_argmin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_and_wire_bytes_agree_with_the_table() {
        let wire: Vec<i32> = AluOp::all().map(|o| o.wire(40).map_or(-1, |w| w as i32)).collect();
        let spec = [
            0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F,
            0x10, 0x11, 0x12, 0x18, 0x13, 0x14, 0x16, 0x15, -1, -1, 0x1A, 0x1B, 0x1D, 0x19, 0x20, 0x21, 0xC8,
        ];
        assert_eq!(wire, spec);
        for (i, op) in AluOp::all().enumerate() {
            assert_eq!(op as usize, i);
            if let Ok(w) = op.wire(40) {
                assert_eq!(AluOp::from_wire(w), Some(op));
            }
        }
    }

    #[test]
    fn some_operators_have_no_code() {
        assert_eq!(AluOp::Average.wire(40).unwrap_err().code.id, "MUR0823");
        assert_eq!(AluOp::AbsMax.wire(30).unwrap_err().code.id, "MUR0823");
        assert_eq!(AluOp::AbsMax.register_wire().unwrap_err().code.id, "MUR0823");
        assert_eq!(AluOp::ModInt.wire(40), Ok(IntOp::Mod.wire()));
    }

    #[test]
    fn band_is_dense() {
        for (i, op) in IntOp::ALL.iter().enumerate() {
            assert_eq!(op.wire(), 0xC4 + i as u8);
            assert_eq!(IntOp::from_wire(op.wire()), Some(*op));
        }
        assert_eq!(IntOp::from_wire(0xC3), None);
        assert_eq!(IntOp::from_wire(0xE2), None);
    }
}
