//! The instruction as a sum of layouts, to and from 64 bytes. In: an [`Instr`] and its [`Events`]. Out: a record; and
//! back, where every reserved byte, fixed byte and checked field is looked at. Facts: `spec/isa_compute.md 12`,
//! `spec/isa.md 4, 5, 8`.

use super::check;
use super::compute::*;
use super::control::*;
use super::dma::*;
use super::elementwise::*;
use super::event::Events;
use super::field::{Fault, Shape, Wire, at};
use crate::diag::{Diagnostic, codes::isa as code};
use crate::program::Record;

/// What has a record: a layout, which is written as it stands, or an [`Instr`], which finds its layout first.
pub trait Encode {
    /// The opcode byte.
    fn code(&self) -> u8;
    /// Bytes with one legal value.
    fn fixed(&self) -> &'static [(u8, u8)];
    /// Writes the fields.
    fn put(&self, r: &mut Record);
}

macro_rules! instructions {
    ($($layout:ident: $($opcode:literal)|+;)*) => {
        /// An instruction, decoded.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, clippy::large_enum_variant)]
        pub enum Instr { $($layout($layout)),* }

        impl Instr {
            /// The opcode byte.
            pub fn opcode(&self) -> u8 {
                match self { $(Instr::$layout(x) => x.code()),* }
            }

            /// Fields, fixed bytes and coverage of the layout.
            pub fn shape(&self) -> Shape {
                match self { $(Instr::$layout(_) => $layout::SHAPE),* }
            }

            fn write(&self, r: &mut Record) {
                match self { $(Instr::$layout(x) => x.write(r)),* }
            }

            fn read(r: &Record) -> Result<Instr, Fault> {
                match r[0] { $($($opcode)|+ => $layout::read(r).map(Instr::$layout),)* b => Err(unknown(b)) }
            }
        }

        impl Encode for Instr {
            #[inline]
            fn code(&self) -> u8 {
                self.opcode()
            }
            #[inline]
            fn fixed(&self) -> &'static [(u8, u8)] {
                self.shape().fixed
            }
            #[inline]
            fn put(&self, r: &mut Record) {
                self.write(r);
            }
        }

        $(impl Encode for $layout {
            #[inline]
            fn code(&self) -> u8 {
                $layout::code(self)
            }
            #[inline]
            fn fixed(&self) -> &'static [(u8, u8)] {
                $layout::SHAPE.fixed
            }
            #[inline]
            fn put(&self, r: &mut Record) {
                self.write(r);
            }
        })*

        $(impl From<$layout> for Instr {
            fn from(x: $layout) -> Instr {
                Instr::$layout(x)
            }
        })*

        /// The shape of the layout that an opcode selects.
        pub fn shape_of(opcode: u8) -> Option<Shape> {
            match opcode { $($($opcode)|+ => Some($layout::SHAPE),)* _ => None }
        }
    };
}

instructions! {
    LoadStationary: 0x01;
    MultiplyMoving: 0x02;
    Activate: 0x21;
    LoadActFuncSet: 0x23;
    ReadAccumulator: 0x24 | 0x9B;
    TensorScalar: 0x43 | 0x53 | 0x9A | 0xE6;
    TensorTensor: 0x41 | 0x51 | 0x72 | 0x99;
    ScalarTensorTensor: 0x9D | 0x9E | 0xE5 | 0xEA;
    TensorScalarAddr: 0x74;
    CopyPredicatedScalar: 0xE8;
    TensorReduce: 0x42 | 0x52 | 0x46 | 0x47 | 0x48 | 0x6A | 0x6B;
    AffineSelect: 0x92;
    RangeSelect: 0xBC;
    Dropout: 0x7F;
    LoadMaskSelect: 0x69;
    Pool: 0x45;
    CrossReduce: 0x7C | 0x7D;
    Memset: 0x49 | 0x4D;
    Iota: 0x7E;
    Search: 0x61 | 0x62 | 0x6C | 0x6E;
    MatchValueLoad: 0x6D;
    MatchReplace8: 0x6F;
    PoolBufferLoad: 0x67;
    GatherBuffer: 0x68;
    Rand2: 0xE2;
    RandGetState: 0x77;
    RandSetState: 0x78;
    EventSemaphore: 0xA0;
    Bare: 0xA1 | 0xA4 | 0xD2 | 0xD5;
    Drain: 0xA2;
    RegisterMove: 0xA7;
    RegisterAlu: 0xA8;
    Branch: 0xA9;
    BranchHint: 0xDD;
    GroupResetSemaphores: 0xB0;
    CoreBarrier: 0xD8;
    Call: 0xD3;
    Exit: 0xDF;
    VariableAccess: 0xCE | 0xCD;
    RegisterAccess: 0xAA | 0xAB;
    DmaDirect: 0xD4;
    DmaExtension: 0xDA;
    DmaTrigger: 0xC1;
    SwitchQueue: 0xCF;
    ResetQueue: 0xC2;
}

fn unknown(opcode: u8) -> Fault {
    Fault::new(&code::ISA_UNKNOWN_OPCODE, 0, opcode as i64, "an opcode of the profile")
}

/// Record length in 32-bit words, the second header byte.
pub const LENGTH_WORDS: u8 = 0x10;
/// Bytes of the common prefix: header and events.
const PREFIX: u64 = 0xFFF;

/// Whether a record begins with header and events. The DMA extension does not.
#[inline]
pub const fn has_prefix(opcode: u8) -> bool {
    opcode != 0xDA
}

/// The 64 bytes of an instruction. Events of a DMA extension are not written: it has no place for them.
#[inline]
pub fn encode(instr: &impl Encode, events: &Events) -> Record {
    let mut r = [0u8; 64];
    let opcode = instr.code();
    r[0] = opcode;
    if has_prefix(opcode) {
        r[1] = LENGTH_WORDS;
        events.put(&mut r, at(4));
    }
    for (at, value) in instr.fixed() {
        super::field::store(&mut r, *at, &[*value]);
    }
    instr.put(&mut r);
    r
}

/// Reads a record, or says which byte is wrong. [`decode_record`] is the same with a fault of a few words.
#[allow(clippy::result_large_err)]
pub fn decode(record: &Record) -> Result<(Instr, Events), Diagnostic> {
    decode_record(record).map_err(Diagnostic::from)
}

/// [`decode`] with the small fault type.
pub fn decode_record(record: &Record) -> Result<(Instr, Events), Fault> {
    let opcode = record[0];
    let shape = shape_of(opcode).ok_or(unknown(opcode))?;
    let mut events = Events::NONE;
    let mut cover = shape.cover | 1;
    if has_prefix(opcode) {
        for (at, want) in [(1usize, LENGTH_WORDS), (2, 0), (3, 0)] {
            if record[at] != want {
                return Err(Fault::new(&code::ISA_HEADER, at as u8, record[at] as i64, "opcode, 10, 00, 00"));
            }
        }
        events = Events::get(record, at(4))?;
        cover |= PREFIX;
    }
    for (i, b) in record.iter().enumerate() {
        if *b != 0 && cover & (1 << i) == 0 {
            return Err(Fault::new(&code::ISA_RESERVED, i as u8, *b as i64, "zero"));
        }
    }
    for (at, want) in shape.fixed {
        let b = super::field::bytes_at::<1>(record, *at)[0];
        if b != *want {
            return Err(Fault::new(&code::ISA_FIELD, *at, b as i64, "the layout's constant"));
        }
    }
    let instr = Instr::read(record)?;
    check::check(record)?;
    Ok((instr, events))
}
