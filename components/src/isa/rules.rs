//! The checked fields of each instruction, as data. In: an opcode. Out: its rules, which `check` applies. Facts: `spec/isa_compute.md 12.3` (the "fixed and checked" column),
//! `spec/isa.md 4, 5`. What needs more than the record itself (engine, generation, the record before) is not here.

use super::act;
use super::alu::*;
use super::codes::*;
use super::field::{Place, at, high, low};
use Rule::*;

/// A slot: offset and rank.
pub type Slot = (u8, u8);

/// One check.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// One of these values.
    In(Place, &'static [u8]),
    /// Inclusive bounds.
    Range(Place, u8, u8),
    /// The same value in both places.
    Same(Place, Place),
    /// Different values.
    Differ(Place, Place),
    /// `len` zero bytes from the offset.
    Zero(u8, u8),
    /// A 32-bit value.
    Value(u8, u32),
    /// When the place holds the value, the rules hold.
    When(Place, u8, &'static [Rule]),
    /// When it does not.
    Unless(Place, u8, &'static [Rule]),
    /// One of these pairs.
    Pairs(Place, Place, &'static [(u8, u8)]),
    /// Elements of a slot, inclusive bounds.
    Elements(Slot, u64, u64),
    /// Elements of a slot are a multiple.
    Multiple(Slot, u64),
    /// Both slots have the same number of elements.
    SameElements(Slot, Slot),
    /// The slot holds as many elements as the byte says.
    ElementsByte(Slot, u8),
    /// The slot holds as many elements as the 32-bit word says.
    ElementsWord(Slot, u8),
    /// The slot holds as many elements as the product of the four counts at the offset.
    ElementsCounts(Slot, u8),
    /// The destination holds the source's dims outside the axis code.
    Kept(Slot, Slot, u8),
    /// The slot is no gather.
    Strided(Slot),
    /// Mask bytes: below 32, or 255.
    Mask(u8),
    /// The 32-bit value has no bits above the width of the dtype.
    Narrow(u8, Place),
    /// fp32 halves of the element count, rounded up and down.
    Halves(Slot, u8, u8),
    /// The register lists of a move.
    Move,
    /// The counts of a DMA side: not zero, unless the side's ADDR8 takes them from a register; then they and the outer
    /// step are zero. Offsets of the ADDR8, of the steps and of the counts.
    Rows(u8, u8, u8),
    /// First semaphore not above the last.
    Ordered(u8, u8),
}

const CH0C: Rule = Range(at(0x0C), 1, 128);
const CH0F: Rule = Range(at(0x0F), 1, 128);
const CH22: Rule = Range(at(0x22), 1, 128);
const CH2A: Rule = Range(at(0x2A), 1, 128);
const IN20: Rule = In(at(0x20), ANY_IN);
const OUT20: Rule = In(at(0x20), ANY_OUT);
const OUT21: Rule = In(at(0x21), ANY_OUT);
const SAME2021: Rule = Same(at(0x20), at(0x21));
const PE_DTYPE: &[u8] = &[6, 7, 10, 13, 14, 15];
const PE_FP32: Rule = When(at(0x20), 10, &[In(at(0x21), &[2, 3])]);
const PE_OTHER: Rule = Unless(at(0x20), 10, &[In(at(0x21), &[0])]);
const GROUPS: &[u8] = &[1, 2, 4, 8, 3, 12, 15];
const PAIR_OPS: &[u8] = &[
    0x00, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0D, 0x0E, 0x0F, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
    0x19, 0x1A, 0x20, 0x21, 0x22, 0x23,
];
const STORED: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const REDUCIBLE: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15];
const UP_TO_4_BYTES: &[u8] = &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15];
const ONE: u32 = 0x3F80_0000;
const WAITS: &[u8] = &[0x00, 0x05, 0x85];
const UPDATES: &[u8] = &[0x00, 0x11, 0x13, 0x14, 0x15, 0x17, 0x19];
const REGISTER_OPS: &[u8] = &[
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F, 0x10,
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x18, 0x19, 0x1A, 0x1B, 0x1D,
];
const S4: Slot = (0x0C, 4);
const D4: Slot = (0x2C, 4);
const S3: Slot = (0x10, 3);
const D3: Slot = (0x30, 3);
const NO_REDUCE: Rule = Zero(0x23, 4);
const DTYPE64: &[u8] = &[1, 8, 9];

/// Opcodes and their rules.
static TABLE: &[(&[u8], &[Rule])] = &[
    (
        &[0x01],
        &[
            In(at(0x20), PE_DTYPE),
            PE_FP32,
            PE_OTHER,
            In(at(0x22), &[0, 1]),
            Range(at(0x26), 1, 128),
            Range(at(0x27), 1, 128),
            In(at(0x2C), GROUPS),
            In(at(0x2D), GROUPS),
            ElementsByte(S3, 0x27),
        ],
    ),
    (
        &[0x02],
        &[
            In(at(0x20), PE_DTYPE),
            PE_FP32,
            PE_OTHER,
            In(at(0x22), &[0, 1]),
            Range(at(0x26), 1, 128),
            Range(at(0x27), 1, 128),
            In(at(0x28), &[0, 10]),
            In(at(0x2B), &[0, 1, 2, 3, 4, 6]),
            When(at(0x22), 1, &[In(at(0x2B), &[3])]),
            In(at(0x2C), GROUPS),
            In(at(0x2D), GROUPS),
            Zero(0x2F, 1),
            Elements(S3, 1, 512),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x21],
        &[
            Range(at(0x0E), 0, 4),
            In(low(0x20), ANY_IN),
            In(high(0x20), ANY_IN),
            OUT21,
            CH22,
            In(at(0x23), act::CODES),
            Unless(at(0x23), 4, &[Range(at(0x0C), 0, 1), Zero(0x2C, 4)]),
            SameElements(S3, D3),
        ],
    ),
    (&[0x23], &[Range(at(0x23), 0, 20)]),
    (&[0x24], &[OUT20, Zero(0x21, 1), CH22, Elements((0x2C, 1), 1, 1)]),
    (&[0x9B], &[OUT20, Range(at(0x21), 0, 1), CH22, Elements((0x2C, 1), 1, 1)]),
    (
        &[0x43],
        &[
            Zero(0x0C, 1),
            IN20,
            OUT21,
            CH22,
            In(at(0x24), TENSOR_SCALAR),
            In(at(0x25), PAIR_OPS),
            When(at(0x24), 0x1D, &[Zero(0x23, 1), Zero(0x25, 1), Zero(0x27, 9)]),
            Range(at(0x26), 0, 3),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x53],
        &[
            Zero(0x0C, 1),
            In(at(0x20), INT32_OR_LESS),
            SAME2021,
            CH22,
            In(at(0x24), BITVEC),
            In(at(0x25), BITVEC),
            When(at(0x24), 3, &[In(at(0x20), &[8, 9])]),
            When(at(0x25), 3, &[In(at(0x20), &[8, 9])]),
            When(at(0x24), 2, &[When(at(0x25), 0x11, &[In(at(0x20), &[8, 9])])]),
            Range(at(0x26), 0, 3),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x9A, 0xE6],
        &[
            In(at(0x0C), &[2, 3, 4]),
            IN20,
            OUT21,
            CH22,
            In(at(0x24), PAIR_OPS),
            In(at(0x25), FOLD),
            Zero(0x26, 1),
            Unless(at(0x0C), 4, &[Zero(0x27, 1), Zero(0x2C, 4)]),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x41],
        &[
            In(at(0x0E), TENSOR_TENSOR),
            In(low(0x0C), ANY_IN),
            In(high(0x0C), ANY_IN),
            In(at(0x0D), ANY_OUT),
            CH0F,
            SameElements(S3, (0x20, 3)),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x51],
        &[
            In(at(0x0E), BITVEC),
            In(low(0x0C), INT32_OR_LESS),
            Same(low(0x0C), high(0x0C)),
            Same(low(0x0C), at(0x0D)),
            When(at(0x0E), 3, &[In(at(0x0D), &[8, 9])]),
            CH0F,
            SameElements(S3, (0x20, 3)),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x72],
        &[
            Zero(0x0E, 1),
            In(low(0x0C), INT32_OR_LESS),
            Same(high(0x0C), at(0x0D)),
            In(at(0x0D), UP_TO_4_BYTES),
            CH0F,
            SameElements(S3, (0x20, 3)),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x99],
        &[
            Zero(0x0E, 1),
            In(low(0x0C), INT32_OR_LESS),
            Differ(high(0x0C), at(0x0D)),
            In(high(0x0C), ANY_IN),
            In(at(0x0D), ANY_OUT),
            CH0F,
            SameElements(S3, (0x20, 3)),
            SameElements(S3, D3),
        ],
    ),
    (
        &[0x9D],
        &[
            STT_SRC,
            STT_SRC1,
            STT_OUT,
            CH2A,
            In(at(0x24), PAIR_OPS),
            In(at(0x25), PAIR_OPS),
            Range(at(0x26), 0, 3),
            In(at(0x2B), &[10]),
            In(at(0x2C), &[0, 2, 3]),
            STT_COUNT,
            STT_COUNT1,
        ],
    ),
    (
        &[0x9E],
        &[
            In(low(0x28), INT32_OR_LESS),
            Same(low(0x28), high(0x28)),
            Same(low(0x28), at(0x29)),
            Same(low(0x28), at(0x2B)),
            CH2A,
            In(at(0x24), BITVEC),
            In(at(0x25), BITVEC),
            Range(at(0x26), 0, 3),
            Zero(0x2C, 1),
            STT_COUNT,
            STT_COUNT1,
        ],
    ),
    (
        &[0xE5],
        &[
            STT_SRC,
            STT_SRC1,
            STT_OUT,
            CH2A,
            In(at(0x24), ARITH),
            In(at(0x25), ARITH),
            Range(at(0x26), 0, 3),
            In(at(0x2B), &[10]),
            Zero(0x2C, 1),
            STT_COUNT,
            STT_COUNT1,
        ],
    ),
    (
        &[0xEA],
        &[
            In(low(0x28), INT32_OR_LESS),
            In(high(0x28), &[2, 3, 4, 5, 6, 7, 10, 13, 14, 15]),
            STT_OUT,
            CH2A,
            Zero(0x24, 1),
            In(at(0x25), &[8]),
            Range(at(0x26), 0, 1),
            In(at(0x2B), &[10]),
            In(at(0x2C), &[0, 2, 3]),
            STT_COUNT,
            STT_COUNT1,
        ],
    ),
    (
        &[0x74],
        &[
            In(low(0x28), DTYPE64),
            In(high(0x28), DTYPE64),
            In(low(0x29), DTYPE64),
            In(high(0x29), DTYPE64),
            Pairs(at(0x2C), at(0x2D), &[(6, 4), (4, 0), (6, 0), (5, 0x16)]),
            Range(at(0x2E), 1, 128),
            Range(at(0x2F), 0, 3),
            SameElements((0x0C, 2), (0x34, 2)),
        ],
    ),
    (
        &[0x42],
        &[
            In(at(0x20), REDUCIBLE),
            In(at(0x21), STORED),
            CH22,
            Range(at(0x23), 0, 1),
            In(at(0x24), REDUCE),
            Range(at(0x25), 2, 5),
            Zero(0x26, 1),
            Strided(S4),
            Strided(D4),
            Kept(S4, D4, 0x25),
        ],
    ),
    (
        &[0x52],
        &[
            In(at(0x20), INT32_OR_LESS),
            SAME2021,
            CH22,
            Zero(0x23, 1),
            In(at(0x24), REDUCE_BITVEC),
            Range(at(0x25), 2, 5),
            Zero(0x26, 1),
            Strided(S4),
            Strided(D4),
            Kept(S4, D4, 0x25),
        ],
    ),
    (&[0x46], &[In(at(0x20), STORED), SAME2021, CH22, NO_REDUCE, SameElements(S4, D4)]),
    (&[0x47], &[IN20, OUT21, Differ(at(0x20), at(0x21)), CH22, NO_REDUCE, SameElements(S4, D4)]),
    (
        &[0x48],
        &[
            In(at(0x20), FLOATS),
            In(at(0x21), FLOATS),
            CH22,
            NO_REDUCE,
            Strided(S4),
            Strided(D4),
            SameElements(S4, D4),
        ],
    ),
    (
        &[0x6A],
        &[
            In(at(0x20), UP_TO_4_BYTES),
            SAME2021,
            In(at(0x22), &[32, 64, 96, 128]),
            NO_REDUCE,
            Strided(S4),
            Strided(D4),
            SameElements(S4, D4),
        ],
    ),
    (
        &[0x6B],
        &[
            In(at(0x20), UP_TO_4_BYTES),
            SAME2021,
            In(at(0x22), &[32, 64, 96, 128]),
            Zero(0x23, 3),
            In(at(0x26), &[1]),
            Strided(S4),
            Strided(D4),
            In(at(0x1E), &[1]),
            Zero(0x1F, 1),
            Multiple(S4, 32),
            SameElements(S4, D4),
        ],
    ),
    (&[0x69], &[Mask(0x20)]),
    (
        &[0x45],
        &[
            IN20,
            OUT21,
            CH22,
            In(at(0x24), &[1, 2]),
            In(at(0x25), &[2, 3]),
            When(at(0x24), 1, &[Value(0x28, ONE)]),
            Kept(S4, D4, 0x25),
        ],
    ),
    (&[0x49], &[In(at(0x20), UP_TO_4_BYTES), CH22, ElementsWord(D4, 0x1C), Narrow(0x28, at(0x20))]),
    (&[0x4D], &[In(at(0x20), UP_TO_4_BYTES), CH22, ElementsWord(D4, 0x1C), Zero(0x28, 4)]),
    (
        &[0xE8],
        &[
            In(at(0x20), INT32_OR_LESS),
            Range(at(0x21), 0, 1),
            CH22,
            In(at(0x29), UP_TO_4_BYTES),
            Same(at(0x29), at(0x2A)),
            SameElements(S3, D3),
        ],
    ),
    (&[0x7E], &[OUT21, CH22, ElementsCounts(D4, 0x18)]),
    (
        &[0x92],
        &[
            CH0C,
            In(low(0x0D), ANY_IN),
            In(high(0x0D), ANY_OUT),
            Range(at(0x0E), 0, 3),
            Range(at(0x0F), 0, 61),
            ElementsCounts((0x24, 2), 0x1C),
            SameElements((0x24, 2), (0x30, 2)),
        ],
    ),
    (
        &[0xBC],
        &[
            CH0C,
            In(low(0x0D), FLOATS),
            In(high(0x0D), FLOATS),
            In(at(0x0E), &[0, 2, 3]),
            In(at(0x0F), &[8]),
            Value(0x14, 0xFF7F_FFFF),
            Range(at(0x24), 0x12, 0x16),
            Range(at(0x25), 0x12, 0x16),
            SameElements((0x18, 2), (0x30, 2)),
        ],
    ),
    (
        &[0x7C],
        &[
            IN20,
            OUT21,
            CH22,
            In(at(0x23), &[0, 1, 2]),
            Range(at(0x24), 0, 1),
            Unless(at(0x23), 1, &[Value(0x28, ONE)]),
        ],
    ),
    (
        &[0x7D],
        &[
            In(at(0x20), INT32_OR_LESS),
            SAME2021,
            CH22,
            In(at(0x23), &[3, 4, 5]),
            Range(at(0x24), 0, 1),
            Zero(0x28, 4),
        ],
    ),
    (&[0x6C], &[IN20, SAME2021, CH22, Elements(S4, 8, 16384), Elements((0x30, 2), 8, 8), Zero(0x28, 8)]),
    (&[0x6D], &[IN20, CH22, Elements((0x10, 2), 8, 8)]),
    (&[0x6E], &[IN20, In(at(0x21), &[5, 9]), CH22, Elements((0x30, 2), 8, 8), Zero(0x28, 8)]),
    (&[0x6F], &[IN20, OUT21, CH22, SameElements(S4, D4)]),
    (
        &[0x61],
        &[
            IN20,
            In(at(0x21), &[6, 7, 10]),
            CH22,
            Elements(S4, 1, 512),
            Elements((0x30, 2), 6, 6),
            Halves(S4, 0x28, 0x2C),
        ],
    ),
    (
        &[0x62],
        &[
            In(at(0x20), &[6, 7, 10]),
            In(at(0x21), &[6, 7, 10]),
            CH22,
            Multiple(S4, 3),
            Elements((0x30, 2), 2, 2),
            Zero(0x28, 8),
        ],
    ),
    (&[0x67], &[IN20, CH22, Elements(S4, 1, 512), Value(0x2C, 0x1FF)]),
    (
        &[0x68],
        &[
            In(at(0x20), &[3, 5, 9]),
            OUT21,
            CH22,
            Range(at(0x24), 0, 1),
            Range(at(0x25), 0, 1),
            SameElements(S4, D4),
        ],
    ),
    (&[0x7F], &[IN20, SAME2021, CH22, Zero(0x24, 1), Range(at(0x2B), 0, 1), SameElements(S3, D3)]),
    (&[0xE2], &[In(at(0x20), FLOATS), CH22]),
    (&[0x77], &[CH22, Elements(D4, 24, 24)]),
    (&[0x78], &[Range(at(0x2A), 1, 128), Elements((0x20, 1), 24, 24)]),
    (&[0xA0], &[In(at(0x04), WAITS), Zero(0x06, 2), In(at(0x20), WAITS), In(at(0x22), UPDATES)]),
    (&[0xA7], &[Range(at(0x0C), 1, 8), In(at(0x0D), &[8, 9, 10]), Range(at(0x0E), 0, 1), Move]),
    (
        &[0xA8],
        &[
            In(at(0x0C), REGISTER_OPS),
            In(at(0x0D), &[1, 8, 9, 12]),
            Range(at(0x0E), 0, 1),
            In(at(0x0F), &[0, 1, 8, 9, 12]),
            When(at(0x0E), 0, &[Zero(0x18, 8)]),
            When(at(0x0E), 1, &[Zero(0x12, 2)]),
        ],
    ),
    (
        &[0xA9],
        &[
            In(at(0x0C), &[0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14]),
            In(at(0x0D), &[0, 1, 8, 9, 10, 12]),
            When(at(0x0C), 0, &[Zero(0x10, 4), Zero(0x20, 2)]),
        ],
    ),
    (
        &[0xB0],
        &[
            In(at(0x0C), &[1, 2]),
            When(at(0x0C), 1, &[Zero(0x20, 32), Ordered(0x0D, 0x0E)]),
            When(at(0x0C), 2, &[Zero(0x0D, 2)]),
        ],
    ),
    (&[0xAA, 0xAB, 0xCD, 0xCE], &[In(at(0x0C), STORED)]),
    (
        &[0xD4],
        &[
            Range(at(0x0C), 0, 4),
            Range(at(0x0F), 0, 3),
            Rows(0x10, 0x18, 0x20),
            Rows(0x28, 0x30, 0x38),
            In(at(0x3E), DMA_DTYPES),
            In(at(0x3F), DMA_DTYPES),
        ],
    ),
    (
        &[0xDA],
        &[
            In(at(0x02), &[0, 128]),
            Range(at(0x03), 0, 4),
            In(at(0x18), &[0, 16]),
            In(at(0x19), &[0, 128]),
            In(low(0x01), &[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]),
        ],
    ),
    (&[0xCF], &[Range(at(0x3B), 0, 1)]),
];

/// Row of [`TABLE`] plus one, by opcode.
static ROW_OF: [u8; 256] = {
    let mut out = [0u8; 256];
    let mut row = 0;
    while row < TABLE.len() {
        let mut i = 0;
        while i < TABLE[row].0.len() {
            out[TABLE[row].0[i] as usize] = row as u8 + 1;
            i += 1;
        }
        row += 1;
    }
    out
};

/// The rules of an opcode.
pub fn rules(opcode: u8) -> &'static [Rule] {
    let row = ROW_OF[opcode as usize] as usize;
    row.checked_sub(1).and_then(|row| TABLE.get(row)).map_or(&[], |(_, rules)| *rules)
}

const STT_SRC: Rule = In(low(0x28), ANY_IN);
const STT_SRC1: Rule = In(high(0x28), ANY_IN);
const STT_OUT: Rule = In(at(0x29), ANY_OUT);
const STT_COUNT: Rule = SameElements((0x0C, 2), (0x18, 2));
const STT_COUNT1: Rule = SameElements((0x0C, 2), (0x30, 2));
const DMA_DTYPES: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
