//! Small enumerations of the wire and their text names. Facts: `spec/isa_compute.md 2.3..2.5, 6`, `spec/isa.md 5, 6.6`.

/// The names of a code list.
pub type Names = &'static [(u8, &'static str)];

/// Accumulate command: leave the accumulator alone.
pub const ACC_IDLE: u8 = 0;
/// Accumulate command: set the reducer's identity.
pub const ACC_ZERO: u8 = 1;
/// Accumulate command: fold into it.
pub const ACC_ACCUMULATE: u8 = 2;
/// Accumulate command: identity, then fold.
pub const ACC_ZERO_ACCUMULATE: u8 = 3;
/// Accumulate command: seed from imm1, then fold.
pub const ACC_LOAD_ACCUMULATE: u8 = 4;
/// Accumulate commands.
pub const CMD: Names = &[(0, "idle"), (1, "reset"), (2, "reduce"), (3, "reset_reduce"), (4, "load_reduce")];
/// Reversed operands.
pub const REVERSE: Names = &[(0, "none"), (1, "first"), (2, "second"), (3, "both")];
/// Innermost dims that a reduce folds.
pub const AXIS: Names = &[(0, "none"), (2, "X"), (3, "XY"), (4, "XYZ"), (5, "XYZW")];
/// fp32 passes of the matrix unit.
pub const FP32_MODE: Names = &[(0, "none"), (1, "low"), (2, "high"), (3, "low_high")];
/// PSUM flags: write, more to come.
pub const PSUM_START: u8 = 1;
/// PSUM flags: last of its group.
pub const PSUM_STOP: u8 = 2;
/// PSUM flags: opens a group that adds to what is there.
pub const PSUM_ACCUM_START: u8 = 4;
/// PSUM accumulation flags.
pub const PSUM: Names =
    &[(0, "mid"), (1, "start"), (2, "end"), (3, "single"), (4, "accum_start"), (6, "accum_single")];
/// Pool kinds.
pub const POOL_KIND: Names = &[(1, "max"), (2, "avg")];
/// Cross-partition reduce operators.
pub const CROSS_OP: Names = &[(0, "add"), (1, "average"), (2, "max"), (3, "or"), (4, "and"), (5, "xor")];
/// Cross-partition reduce axes.
pub const CROSS_AXIS: Names = &[(0, "all"), (1, "partitions")];
/// AffineSelect comparisons against zero.
pub const AFFINE_CMP: Names = &[(0, "gt"), (1, "ge"), (2, "eq"), (3, "ne")];
/// Gather: what to do with an index outside the buffer.
pub const MISS: Names = &[(0, "write"), (1, "skip")];
/// Dropout kinds.
pub const DROPOUT: Names = &[(0, "drop"), (1, "keep")];
/// Branch comparisons; 1..6 against an immediate, 9..14 against a register.
pub const BRANCH: Names = &[
    (0, "always"),
    (1, "lt"),
    (2, "le"),
    (3, "eq"),
    (4, "ne"),
    (5, "ge"),
    (6, "gt"),
    (9, "lt_reg"),
    (10, "le_reg"),
    (11, "eq_reg"),
    (12, "ne_reg"),
    (13, "ge_reg"),
    (14, "gt_reg"),
];
/// Second source of a RegisterAlu, source of a RegisterMove.
pub const SOURCE: Names = &[(0, "reg"), (1, "imm")];
/// Forms of a semaphore reset.
pub const RESET_KIND: Names = &[(1, "range"), (2, "mask")];
/// What the descriptor generator does with a record.
pub const DGE_OP: Names = &[(0, "direct"), (1, "indirect"), (2, "transpose"), (3, "gather_transpose")];
/// DMA compute operators.
pub const DMA_COMPUTE: Names = &[(0, "none"), (1, "add"), (2, "mult"), (3, "max"), (4, "min")];

/// Comparison of a branch. The IR ordinals 0..5 are the immediate forms, 6..11 the register forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum CmpOp {
    Lt = 0,
    Le = 1,
    Eq = 2,
    Ne = 3,
    Ge = 4,
    Gt = 5,
}

impl CmpOp {
    /// Every comparison, by IR ordinal.
    pub const ALL: [CmpOp; 6] = [CmpOp::Lt, CmpOp::Le, CmpOp::Eq, CmpOp::Ne, CmpOp::Ge, CmpOp::Gt];

    /// The wire code against an immediate or a register.
    pub const fn wire(self, register: bool) -> u8 {
        self as u8 + if register { 9 } else { 1 }
    }

    /// The comparison of a wire code, and whether its right side is a register.
    pub const fn from_wire(code: u8) -> Option<(CmpOp, bool)> {
        let (n, register) = match code {
            1..=6 => (code - 1, false),
            9..=14 => (code - 9, true),
            _ => return None,
        };
        Some((Self::ALL[n as usize], register))
    }

    /// The comparison that holds exactly when this one does not.
    pub const fn negated(self) -> CmpOp {
        match self {
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Ge => CmpOp::Lt,
            CmpOp::Gt => CmpOp::Le,
        }
    }

    /// Whether `left cmp right`.
    pub fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            CmpOp::Lt => left < right,
            CmpOp::Le => left <= right,
            CmpOp::Eq => left == right,
            CmpOp::Ne => left != right,
            CmpOp::Ge => left >= right,
            CmpOp::Gt => left > right,
        }
    }
}

/// dtype names in text, by wire tag.
pub const DTYPE: Names = &[
    (0x00, "none"),
    (0x01, "u64"),
    (0x02, "i8"),
    (0x03, "u8"),
    (0x04, "i16"),
    (0x05, "u16"),
    (0x06, "bf16"),
    (0x07, "fp16"),
    (0x08, "i32"),
    (0x09, "u32"),
    (0x0A, "fp32"),
    (0x0B, "fp32r"),
    (0x0C, "i64"),
    (0x0D, "fp8e3"),
    (0x0E, "fp8e4"),
    (0x0F, "fp8e5"),
    (0x10, "fp4x4"),
];

/// Bytes of one element of a wire dtype, `None` for tags without one.
#[inline]
pub const fn tag_bytes(tag: u8) -> Option<u32> {
    match tag {
        2 | 3 | 13..=15 => Some(1),
        4..=7 | 16 => Some(2),
        8..=11 => Some(4),
        1 | 12 => Some(8),
        _ => None,
    }
}

/// Integer dtypes of at most 32 bits.
pub const INT32_OR_LESS: &[u8] = &[2, 3, 4, 5, 8, 9];
/// Every integer dtype.
pub const INTEGERS: &[u8] = &[1, 2, 3, 4, 5, 8, 9, 12];
/// Floating dtypes.
pub const FLOATS: &[u8] = &[6, 7, 10, 11, 13, 14, 15];
/// Inputs of the 32-bit path.
pub const ANY_IN: &[u8] = &[2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15];
/// Outputs of the 32-bit path: fp32r too.
pub const ANY_OUT: &[u8] = &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_codes_and_negation() {
        let wire: Vec<u8> = CmpOp::ALL.iter().flat_map(|c| [c.wire(false), c.wire(true)]).collect();
        assert_eq!(wire, [1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14]);
        let negated: Vec<u8> = CmpOp::ALL.iter().map(|c| c.negated() as u8).collect();
        assert_eq!(negated, [4, 5, 3, 2, 0, 1]);
        for c in CmpOp::ALL {
            assert_eq!(CmpOp::from_wire(c.wire(true)), Some((c, true)));
            assert_ne!(c.holds(1, 2), c.negated().holds(1, 2));
        }
        assert_eq!(CmpOp::from_wire(7), None);
    }
}
