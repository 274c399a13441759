//! MX operands of generation 4: data and the rows of their scales, strided (MXMEM_PATTERN1D) or gathered
//! (MXINDIRECT16B). In: bases, indices and what is known of the two accesses. Out: 16-byte slots and back, and whether
//! a slot is legal. Facts: `spec/isa.md 3.2..3.5`, 9 nos. 5 and 8.
//!
//! No HLO element type is an MX type, so no compiled program holds one: the forms are encoded, decoded and checked
//! here and lowered to by nothing. A scale's partition travels in two pieces, quadrant in the address and the rest in
//! a byte of its own.
//!
//! ```text
//! index p32+0x40, data p32+0x800, scale p36+0x2000, 24 indices of f8e4m3fn_x4   =>   40 00 80 20 00 08 80 00 00 20 80 00 60 00 00 04
//! ```

use super::addr4::{Addr4, BASE_MASK, INDIRECT, MARKERS, REGISTER, SHAPE_REGISTER, start_address_valid};
use super::field::{Fault, Place, Wire, at};
use crate::diag::codes::isa as code;
use crate::dtype::DType;
use crate::engine::Target;
use crate::program::Record;

/// One of the two accesses of an MX operand, as a compiler holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxLeg {
    /// Number of the instruction that the access belongs to.
    pub parent: u32,
    /// Argument that holds its indices; `None` when it is not gathered.
    pub index: Option<u32>,
}

impl MxLeg {
    /// Whether the scale is gathered as the data is: same instruction, both or neither, by the same argument.
    pub fn paired(data: MxLeg, scale: MxLeg) -> Result<(), Fault> {
        let fault = |code, found: u32, expected| Err(Fault::new(code, 8, i64::from(found), expected));
        if data.parent != scale.parent {
            return fault(&code::ISA_MX_PARENT, scale.parent, "the instruction of the data");
        }
        match (data.index, scale.index) {
            (Some(d), Some(s)) if d != s => fault(&code::ISA_MX_INDEX, s, "the index argument of the data"),
            (Some(_), None) => fault(&code::ISA_MX_BOTH, 0, "a gathered scale, as the data is"),
            (None, Some(s)) => fault(&code::ISA_MX_BOTH, s, "a scale without indices, as the data is"),
            _ => Ok(()),
        }
    }
}

/// Elements of the packed types count four times.
const fn times(dtype: DType) -> u64 {
    if matches!(dtype, DType::F4x4 | DType::F8E4M3FnX4 | DType::F8E5M2X4) { 4 } else { 1 }
}

fn count_of(at: u8, n: u32, dtype: DType) -> Result<u16, Fault> {
    match u16::try_from(u64::from(n) * times(dtype)) {
        Ok(0) => Err(Fault::new(&code::ISA_COUNT, at, 0, "at least one element")),
        Ok(n) => Ok(n),
        Err(_) => Err(Fault::new(&code::ISA_COUNT, at, i64::from(n), "a count that fits 16 bits")),
    }
}

fn scale_byte(at: u8, partition: u8) -> Result<(), Fault> {
    if partition > 15 || partition & 3 != 0 {
        return Err(Fault::new(&code::ISA_SCALE, at, i64::from(partition), "a multiple of 4 below 16"));
    }
    Ok(())
}

fn on_generation_4(target: Target) -> Result<u32, Fault> {
    match target.arch() {
        arch if arch >= 40 => Ok(arch),
        arch => Err(Fault::new(&code::ISA_MX_TARGET, 0, i64::from(arch), "generation 4 or later")),
    }
}

/// MXINDIRECT16B: a gather of MX data and scale rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxGather {
    /// Where the indices start; carries the gather marker.
    pub index: Addr4,
    /// Where the data starts.
    pub data: Addr4,
    /// The scale rows' quadrant base plus offset.
    pub scale: Addr4,
    /// Number of indices, already times 4 for the x4 dtypes.
    pub count: u16,
    /// Residual partition of the scale rows: below 16, a multiple of 4.
    pub scale_partition: u8,
}

impl MxGather {
    /// A gather of `indices` rows of IR dtype `dtype`; the scale rows start at SBUF partition `scale_part`.
    pub fn new(
        index: Addr4,
        data: Addr4,
        (scale_part, scale_off): (u32, u32),
        indices: u32,
        dtype: DType,
    ) -> Result<Self, Fault> {
        let (scale, scale_partition) = Addr4::mx_scale(scale_part, scale_off)?;
        let count = count_of(12, indices, dtype)?;
        let index = index.indirect()?;
        if data.word() & BASE_MASK != 0 {
            return Err(Fault::new(&code::ISA_MARKED, 7, i64::from(data.word() >> 24), "a static base"));
        }
        MxGather { index, data, scale, count, scale_partition }.checked(0)
    }

    fn checked(self, base: u8) -> Result<Self, Fault> {
        for (word, at) in [(self.data.word(), 7), (self.scale.word(), 11)] {
            if word & MARKERS != 0 {
                let found = i64::from(word >> 24);
                return Err(Fault::new(&code::ISA_MARKED, base + at, found, "a static base"));
            }
        }
        if self.index.word() & MARKERS != INDIRECT {
            let found = i64::from(self.index.word() >> 24);
            return Err(Fault::new(&code::ISA_MARKED, base + 3, found, "a static index base"));
        }
        if self.count == 0 {
            return Err(Fault::new(&code::ISA_COUNT, base + 12, 0, "at least one index"));
        }
        scale_byte(base + 15, self.scale_partition)?;
        Ok(self)
    }

    /// Whether the slot is legal on a target: index and data as 4-byte words, scale as bytes, none of them in PSUM.
    pub fn valid(&self, target: Target) -> Result<(), Fault> {
        let arch = on_generation_4(target)?;
        for (word, tag, at) in [(self.index, 9, 0), (self.data, 9, 4), (self.scale, 3, 8)] {
            start_address_valid(word.word(), tag, false, false, true, arch).map_err(|f| f.shifted(at))?;
        }
        Ok(())
    }
}

impl Wire for MxGather {
    const BYTES: u8 = 16;
    fn put(&self, r: &mut Record, p: Place) {
        self.index.put(r, p);
        self.data.put(r, at(p.at + 4));
        self.scale.put(r, at(p.at + 8));
        self.count.put(r, at(p.at + 12));
        self.scale_partition.put(r, at(p.at + 15));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let spare = u8::get(r, at(p.at + 14))?;
        if spare != 0 {
            return Err(Fault::new(&code::ISA_RESERVED, p.at + 14, i64::from(spare), "zero"));
        }
        MxGather {
            index: Addr4::get(r, p)?,
            data: Addr4::get(r, at(p.at + 4))?,
            scale: Addr4::get(r, at(p.at + 8))?,
            count: u16::get(r, at(p.at + 12))?,
            scale_partition: u8::get(r, at(p.at + 15))?,
        }
        .checked(p.at)
    }
}

/// MXMEM_PATTERN1D: MX data in one dimension, walked forwards or backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MxTensor {
    /// Where the data starts.
    pub data: Addr4,
    /// The scale rows' quadrant base plus offset.
    pub scale: Addr4,
    /// Elements, already times 4 for the x4 dtypes.
    pub count: u16,
    /// The data is walked backwards.
    pub backwards: bool,
    /// Residual partition of the scale rows.
    pub scale_partition: u8,
}

impl MxTensor {
    /// `elements` of IR dtype `dtype` with the given step's sign; the scale rows start at SBUF partition `scale_part`.
    pub fn new(
        data: Addr4,
        (scale_part, scale_off): (u32, u32),
        elements: u32,
        step: i32,
        dtype: DType,
    ) -> Result<Self, Fault> {
        let (scale, scale_partition) = Addr4::mx_scale(scale_part, scale_off)?;
        let count = count_of(8, elements, dtype)?;
        if data.register_id().is_none() {
            scale_byte(11, scale_partition)?;
        }
        Ok(MxTensor { data, scale, count, backwards: step < 0, scale_partition })
    }

    /// Whether the slot is legal on a target, in the order of the tests: data (as 4-byte words, packed fp4 as 2-byte
    /// ones), scale as bytes, neither in PSUM; with data in a register nothing more.
    pub fn valid(&self, packed_fp4: bool, target: Target) -> Result<(), Fault> {
        let arch = on_generation_4(target)?;
        let tag = if packed_fp4 { 5 } else { 9 };
        start_address_valid(self.data.word(), tag, false, false, true, arch)?;
        start_address_valid(self.scale.word(), 3, false, false, true, arch).map_err(|f| f.shifted(4))?;
        if self.data.word() & SHAPE_REGISTER == 0 && self.count == 0 {
            return Err(Fault::new(&code::ISA_COUNT, 8, 0, "at least one element"));
        }
        if self.data.word() & REGISTER != 0 { Ok(()) } else { scale_byte(11, self.scale_partition) }
    }
}

const FORWARDS: u8 = 0x01;
const BACKWARDS: u8 = 0xFF;

impl Wire for MxTensor {
    const BYTES: u8 = 16;
    fn put(&self, r: &mut Record, p: Place) {
        self.data.put(r, p);
        self.scale.put(r, at(p.at + 4));
        self.count.put(r, at(p.at + 8));
        if self.backwards { BACKWARDS } else { FORWARDS }.put(r, at(p.at + 10));
        self.scale_partition.put(r, at(p.at + 11));
    }
    fn get(r: &Record, p: Place) -> Result<Self, Fault> {
        let data = Addr4::get(r, p)?;
        if data.word() & INDIRECT != 0 {
            let found = i64::from(data.word() >> 24);
            return Err(Fault::new(&code::ISA_MODE, p.at + 3, found, "a slot that is no gather"));
        }
        let scale = Addr4::get(r, at(p.at + 4))?;
        if scale.word() & MARKERS != 0 {
            let found = i64::from(scale.word() >> 24);
            return Err(Fault::new(&code::ISA_MARKED, p.at + 7, found, "a static scale base"));
        }
        let shaped = data.word() & SHAPE_REGISTER != 0;
        let count = u16::get(r, at(p.at + 8))?;
        if !shaped && count == 0 {
            return Err(Fault::new(&code::ISA_COUNT, p.at + 8, 0, "at least one element"));
        }
        let backwards = match u8::get(r, at(p.at + 10))? {
            FORWARDS => false,
            BACKWARDS => true,
            b => {
                let want = "a direction of 01 or FF";
                return Err(Fault::new(&code::ISA_FIELD, p.at + 10, i64::from(b), want));
            }
        };
        let scale_partition = u8::get(r, at(p.at + 11))?;
        if data.word() & REGISTER == 0 {
            scale_byte(p.at + 11, scale_partition)?;
        }
        if let Some(i) = (12..16).find(|i| u8::get(r, at(p.at + i)) != Ok(0)) {
            return Err(Fault::new(&code::ISA_RESERVED, p.at + i, 1, "zero"));
        }
        Ok(MxTensor { data, scale, count, backwards, scale_partition })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id<T: core::fmt::Debug>(r: Result<T, Fault>) -> &'static str {
        r.unwrap_err().code.id
    }

    fn slot(x: &impl Wire) -> Record {
        let mut r = [0; 64];
        x.put(&mut r, at(0));
        r
    }

    #[test]
    fn data_and_scale_are_gathered_alike() {
        let leg = |parent, index| MxLeg { parent, index };
        assert_eq!(MxLeg::paired(leg(4, Some(2)), leg(4, Some(2))), Ok(()));
        assert_eq!(MxLeg::paired(leg(4, None), leg(4, None)), Ok(()));
        assert_eq!(id(MxLeg::paired(leg(4, Some(2)), leg(5, Some(2)))), "MUR0828");
        assert_eq!(id(MxLeg::paired(leg(4, Some(2)), leg(4, None))), "MUR0829");
        assert_eq!(id(MxLeg::paired(leg(4, None), leg(4, Some(2)))), "MUR0829");
        assert_eq!(id(MxLeg::paired(leg(4, Some(2)), leg(4, Some(3)))), "MUR0830");
    }

    #[test]
    fn gathers_refuse_what_the_encoder_refuses() {
        let (a, r) = (Addr4::ZERO, Addr4::register(1).unwrap());
        assert_eq!(id(MxGather::new(a, a, (36, 0), 20_000, DType::F8E4M3FnX4)), "MUR0811");
        assert_eq!(id(MxGather::new(a, a, (36, 0), 0, DType::F8E4)), "MUR0811");
        assert_eq!(id(MxGather::new(a, r, (36, 0), 4, DType::F8E4)), "MUR0805");
        assert_eq!(id(MxGather::new(r, a, (36, 0), 4, DType::F8E4)), "MUR0805");
        assert_eq!(
            id(MxGather::new(a, Addr4::physical(0x0400_0000).unwrap(), (36, 0), 4, DType::F8E4)),
            "MUR0805"
        );
    }

    #[test]
    fn scales_start_at_small_multiples_of_four_of_every_quadrant() {
        for part in 0..128 {
            let legal = part % 32 <= 15 && part % 4 == 0;
            let gather = MxGather::new(Addr4::ZERO, Addr4::ZERO, (part, 0), 4, DType::F8E4);
            let tensor = MxTensor::new(Addr4::ZERO, (part, 0), 4, 1, DType::F8E4);
            assert_eq!((gather.is_ok(), tensor.is_ok()), (legal, legal), "{part}");
            if let Ok(g) = gather {
                assert_eq!((g.scale.word(), g.scale_partition), ((part / 32) << 23, (part % 32) as u8));
            } else {
                assert_eq!((id(gather), id(tensor)), ("MUR0815", "MUR0815"));
            }
        }
    }

    #[test]
    fn strided_slots_have_their_bytes_and_refuse_others() {
        let data = Addr4::sbuf(32, 0x800).unwrap();
        let t = MxTensor::new(data, (36, 0x2000), 24, -1, DType::F8E5M2X4).unwrap();
        let r = slot(&t);
        assert_eq!(r[..16], [0, 8, 0x80, 0, 0, 0x20, 0x80, 0, 0x60, 0, 0xFF, 4, 0, 0, 0, 0]);
        assert_eq!(MxTensor::get(&r, at(0)), Ok(t));
        let with = |i: usize, v: u8| {
            let mut r = r;
            r[i] = v;
            MxTensor::get(&r, at(0))
        };
        assert_eq!(id(with(3, 0x20)), "MUR0804");
        assert_eq!(id(with(7, 0x40)), "MUR0805");
        assert_eq!(id(with(8, 0)), "MUR0811");
        assert_eq!(id(with(10, 2)), "MUR0803");
        assert_eq!(id(with(11, 5)), "MUR0815");
        assert_eq!(id(with(11, 16)), "MUR0815");
        assert_eq!(id(with(13, 1)), "MUR0802");
        // With the data's address in a register the scale byte is not looked at.
        let mut register = r;
        register[..4].copy_from_slice(&[5, 0, 0, 0x80]);
        register[11] = 5;
        assert!(MxTensor::get(&register, at(0)).is_ok_and(|t| t.valid(false, Target::Trn3).is_ok()));
    }

    #[test]
    fn validity_asks_for_generation_4_sbuf_and_alignment() {
        let sbuf = |off| Addr4::sbuf(32, off).unwrap();
        let g = MxGather::new(sbuf(0x40), sbuf(0x800), (36, 1), 4, DType::F8E4).unwrap();
        assert_eq!(g.valid(Target::Trn3), Ok(()));
        assert_eq!(id(g.valid(Target::Trn2)), "MUR0827");
        assert_eq!(
            id(MxGather { index: sbuf(0x42).indirect().unwrap(), ..g }.valid(Target::Trn3)),
            "MUR0809"
        );
        assert_eq!(id(MxGather { data: sbuf(0x802), ..g }.valid(Target::Trn3)), "MUR0809");
        assert_eq!(id(MxGather { data: Addr4::psum(0, 0, 0).unwrap(), ..g }.valid(Target::Trn3)), "MUR0808");
        assert_eq!(id(MxGather { scale: Addr4::psum(0, 0, 0).unwrap(), ..g }.valid(Target::Trn3)), "MUR0808");
        let t = MxTensor::new(sbuf(0x802), (36, 1), 4, 1, DType::F4x4).unwrap();
        assert_eq!(t.valid(true, Target::Trn3), Ok(()), "packed fp4 is aligned to 2 bytes");
        assert_eq!(id(t.valid(false, Target::Trn3)), "MUR0809");
        assert_eq!(id(t.valid(true, Target::Trn1)), "MUR0827");
        assert_eq!(
            id(MxTensor { data: Addr4::psum(0, 0, 0).unwrap(), ..t }.valid(true, Target::Trn3)),
            "MUR0808"
        );
        assert_eq!(
            id(MxTensor { scale: Addr4::psum(0, 0, 0).unwrap(), ..t }.valid(true, Target::Trn3)),
            "MUR0808"
        );
        assert_eq!(id(MxTensor { count: 0, ..t }.valid(true, Target::Trn3)), "MUR0811");
    }
}
