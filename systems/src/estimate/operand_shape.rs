//! What costs depend on, of the operands of one instruction: elements of a partition, types, spaces, strides. In: its
//! access patterns. Out: [`OperandShape`]. Scalars per partition that stand in place of immediates do not count.

use murre_components::bir::*;
use murre_components::dtype::DType;

/// The columns of access patterns and locations.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Patterns<'a> {
    pub heads: &'a [ApHead],
    pub patterns: &'a [ApPattern],
    pub locs: &'a [LocHead],
}

/// The operands of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperandShape {
    /// Most elements of a partition that any operand has.
    pub elements: u64,
    /// Elements of a partition of the output.
    pub output: u64,
    /// Elements of a partition of the second input: of a matmult, the columns of the weights.
    pub second: u64,
    /// Partitions of the first input, or of the output when there is no input.
    pub partitions: u64,
    /// Some operand is in PSUM.
    pub psum: bool,
    /// Some input is in PSUM.
    pub psum_input: bool,
    /// All are of 16 bits.
    pub half: bool,
    /// All are bf16.
    pub bf16: bool,
    /// The fastest step of all is one element.
    pub unit: bool,
    /// Type of the first input, or of the output when there is no input.
    pub dtype: DType,
}

impl OperandShape {
    const EMPTY: OperandShape = OperandShape {
        elements: 1,
        output: 1,
        second: 1,
        partitions: 1,
        psum: false,
        psum_input: false,
        half: true,
        bf16: true,
        unit: true,
        dtype: DType::U8,
    };

    /// The shape of the operands `o` of an instruction `op`.
    #[inline]
    pub fn of(op: Opcode, o: InstOperands, p: &Patterns<'_>) -> OperandShape {
        let mut out = Self::EMPTY;
        let range = o.range();
        let first_input = range.start + usize::from(o.outputs);
        let scalars_from = match op {
            Opcode::TensorScalar | Opcode::Activation => first_input + 1,
            _ => range.end,
        };
        for row in range.start..range.end.min(scalars_from) {
            let (Some(head), Some(pattern)) = (p.heads.get(row), p.patterns.get(row)) else { continue };
            let free = pattern.0.iter().skip(1).map(|d| u64::from(d.num)).product::<u64>();
            let fast = pattern.0.iter().skip(1).rev().find(|d| d.num != 1);
            let psum = p.locs.get(head.loc.index()).is_some_and(|l| l.space == Space::Psum);
            let input = row >= first_input;
            out.elements = out.elements.max(free);
            out.psum |= psum;
            out.psum_input |= psum && input;
            out.half &= head.dtype.bytes() == 2;
            out.bf16 &= head.dtype == DType::Bf16;
            out.unit &= fast.is_none_or(|d| d.step == 1);
            if row == range.start {
                out.output = free;
            }
            if row == first_input + 1 {
                out.second = free;
            }
            if row == first_input || (!input && o.inputs == 0) {
                out.partitions = pattern.0.first().map_or(1, |d| u64::from(d.num));
                out.dtype = head.dtype;
            }
        }
        out
    }
}
