//! The shape of a copy: both sides of a DMA as one loop nest in bytes, and its cut into 2-D records.
//!
//! In: the two access patterns (equal counts pair by pair) and the geometry of their locations. Out: a [`CopyShape`]
//! whose adjacent dimensions are fused where they continue each other on both sides, and the [`Cut`]s that a 0xD4
//! record can express: a contiguous run and at most two strided dimensions a side (`spec/isa.md 4.3`, `spec/ir.md 9`,
//! D1). Bytes of SBUF are linear addresses: the next partition is `0x40000` further.

use super::peel::peel;
use super::unroll::{MAX_COUNT, unroll};
use arrayvec::ArrayVec;
use murre_components::bir::{ApHead, ApPattern, LocHead, LocPlace, Space};
use murre_components::engine::{MAX_DESCRIPTOR_BYTES, SBUF_PARTITION_STRIDE};

/// A step of one side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// In elements of the location's element space.
    pub elems: i64,
    /// In bytes of the side's address space.
    pub bytes: i64,
    /// Whether it goes from partition to partition.
    pub crosses: bool,
}

impl Step {
    pub(super) fn times(self, n: i64) -> Step {
        Step { elems: self.elems * n, bytes: self.bytes * n, crosses: self.crosses }
    }

    pub(super) fn plus(self, o: Step) -> Step {
        Step { elems: self.elems + o.elems, bytes: self.bytes + o.bytes, crosses: false }
    }

    fn fits(self) -> bool {
        i32::try_from(self.bytes).is_ok() && i32::try_from(self.elems).is_ok()
    }
}

/// One dimension of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct CopyDim {
    pub num: u32,
    pub src: Step,
    pub dst: Step,
}

impl CopyDim {
    /// Whether its steps fit a record.
    pub(super) fn fits(&self) -> bool {
        self.src.fits() && self.dst.fits()
    }

    pub(super) const UNIT: CopyDim = CopyDim {
        num: 1,
        src: Step { elems: 0, bytes: 0, crosses: false },
        dst: Step { elems: 0, bytes: 0, crosses: false },
    };
}

/// A copy as a loop nest around a contiguous run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyShape {
    /// Strided dimensions, slowest first.
    pub dims: ArrayVec<CopyDim, 6>,
    /// Elements of the run; 1 when the innermost dimension is strided on a side.
    pub run: u32,
    /// Bytes of an element of the source.
    pub src_bytes: u32,
    /// Bytes of an element of the destination.
    pub dst_bytes: u32,
}

/// What one record copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Distance of its first element from the copy's first element, source side.
    pub src: Step,
    /// The same of the destination.
    pub dst: Step,
    /// The faster strided dimension, count 1 when unused.
    pub dim0: CopyDim,
    /// The slower strided dimension, count 1 when unused.
    pub dim1: CopyDim,
    /// Elements of the run.
    pub run: u32,
}

/// Elements of one partition in units of the pattern's type; the whole location in DRAM.
fn part_elems(head: &ApHead, loc: &LocHead) -> u64 {
    loc.part_bytes() / u64::from(head.dtype.bytes().max(1))
}

fn step_of(step: i32, head: &ApHead, loc: &LocHead) -> Step {
    let (elems, bytes) = (i64::from(step), i64::from(head.dtype.bytes()));
    let part = i64::try_from(part_elems(head, loc)).unwrap_or(i64::MAX);
    if loc.space == Space::Dram || part == 0 || elems == 0 || elems % part != 0 {
        Step { elems, bytes: elems * bytes, crosses: false }
    } else {
        Step { elems, bytes: elems / part * i64::from(SBUF_PARTITION_STRIDE), crosses: true }
    }
}

/// Base of a static side: `(variable, byte offset)` in DRAM, `(u32::MAX, linear address)` in SBUF. `None` when the
/// location is not placed, is in PSUM, or the offset does not fit 32 bits.
pub fn side_base(head: &ApHead, loc: &LocHead, place: &LocPlace) -> Option<(u32, u32)> {
    let bytes = u64::from(head.dtype.bytes());
    if place.address == u32::MAX {
        return None;
    }
    match loc.space {
        Space::Dram => Some((place.address, u32::try_from(u64::from(head.offset) * bytes).ok()?)),
        Space::Sbuf => {
            let part = part_elems(head, loc).max(1);
            let (p, off) = (u64::from(head.offset) / part, u64::from(head.offset) % part);
            let address = p * u64::from(SBUF_PARTITION_STRIDE) + u64::from(place.address) + off * bytes;
            Some((u32::MAX, u32::try_from(address).ok()?))
        }
        Space::Psum => None,
    }
}

/// The shape of a copy, or `None` when the counts of the two sides differ.
pub fn copy_shape(
    dst: (&ApHead, &ApPattern, &LocHead),
    src: (&ApHead, &ApPattern, &LocHead),
) -> Option<CopyShape> {
    if dst.1.0.len() != src.1.0.len()
        || dst.1.0.iter().zip(&src.1.0).any(|(d, s)| d.num != s.num || d.num == 0)
    {
        return None;
    }
    nested(dst, src)
}

/// The shape of two sides with equal counts. A shape is large; it is made where it is handed out and not moved.
fn nested(dst: (&ApHead, &ApPattern, &LocHead), src: (&ApHead, &ApPattern, &LocHead)) -> Option<CopyShape> {
    let (src_bytes, dst_bytes) = (src.0.dtype.bytes(), dst.0.dtype.bytes());
    let mut made = Some(CopyShape { dims: ArrayVec::new(), run: 1, src_bytes, dst_bytes });
    if let Some(shape) = &mut made {
        nest(shape, dst, src);
    }
    made
}

/// The dimensions, what goes on being one, and the run taken off.
fn nest(shape: &mut CopyShape, dst: (&ApHead, &ApPattern, &LocHead), src: (&ApHead, &ApPattern, &LocHead)) {
    let (src_bytes, dst_bytes) = (shape.src_bytes, shape.dst_bytes);
    let dims = &mut shape.dims;
    for (d, s) in dst.1.0.iter().zip(&src.1.0).filter(|(d, _)| d.num != 1) {
        let dim =
            CopyDim { num: d.num, src: step_of(s.step, src.0, src.2), dst: step_of(d.step, dst.0, dst.2) };
        if let Some(slow) = dims.last_mut() {
            let continues = |slow: Step, fast: Step| {
                slow.crosses == fast.crosses && fast.bytes.checked_mul(i64::from(dim.num)) == Some(slow.bytes)
            };
            if continues(slow.src, dim.src)
                && continues(slow.dst, dim.dst)
                && let Some(num) = slow.num.checked_mul(dim.num)
            {
                *slow = CopyDim { num, ..dim };
                continue;
            }
        }
        dims.push(dim);
    }
    let contiguous = |s: Step, bytes: u32| !s.crosses && s.elems == 1 && s.bytes == i64::from(bytes);
    if let Some(d) = dims.last()
        && contiguous(d.src, src_bytes)
        && contiguous(d.dst, dst_bytes)
    {
        shape.run = d.num;
        shape.dims.pop();
    }
}

/// The shape of a copy with a vector of offsets: pair 0 counts the rows, pair 1 is the contiguous run of a row. Rows are
/// never one with their runs, because each stands where its offset says. `None` for any other form.
pub fn indexed_shape(
    dst: (&ApHead, &ApPattern, &LocHead),
    src: (&ApHead, &ApPattern, &LocHead),
) -> Option<CopyShape> {
    let ([d0, d1], [s0, s1]) = (dst.1.0.as_slice(), src.1.0.as_slice()) else { return None };
    let run = (d1.step == 1 || d1.num == 1) && (s1.step == 1 || s1.num == 1) && d1.num == s1.num;
    if !run || d0.num != s0.num || d0.num == 0 || d1.num == 0 {
        return None;
    }
    let row =
        CopyDim { num: d0.num, src: step_of(s0.step, src.0, src.2), dst: step_of(d0.step, dst.0, dst.2) };
    let (src_bytes, dst_bytes) = (src.0.dtype.bytes(), dst.0.dtype.bytes());
    let shape = CopyShape { dims: ArrayVec::from_iter([row]), run: d1.num, src_bytes, dst_bytes };
    (shape.run <= shape.max_run() && row.fits() && row.num <= MAX_INDICES).then_some(shape)
}

/// Offsets that one record takes (`spec/isa.md 4.4`).
pub const MAX_INDICES: u32 = 4096;

impl CopyShape {
    /// Elements copied.
    pub fn elements(&self) -> u64 {
        self.dims.iter().map(|d| u64::from(d.num)).product::<u64>() * u64::from(self.run)
    }

    /// Largest run of a record, in elements (D1).
    pub fn max_run(&self) -> u32 {
        MAX_DESCRIPTOR_BYTES / self.src_bytes.max(self.dst_bytes).max(1)
    }

    /// Whether one record says it all.
    pub fn single(&self) -> bool {
        let whole = |dims: &[CopyDim]| dims.len() <= 2 && dims.iter().all(|d| d.num <= MAX_COUNT && d.fits());
        if self.run <= self.max_run() {
            return whole(&self.dims);
        }
        matches!(peel(self).as_slice(), [one] if whole(&one.dims))
    }

    /// Rows that the records of the copy have together.
    pub fn rows(&self) -> u64 {
        let mut rows = 0;
        self.cuts(|c| rows += u64::from(c.dim0.num) * u64::from(c.dim1.num));
        rows
    }

    /// Calls `each` for every record, in a fixed order: peeled, then unrolled.
    pub fn cuts(&self, mut each: impl FnMut(Cut)) {
        if self.run <= self.max_run() {
            return unroll([Step::default(); 2], &self.dims, self.run, &mut each);
        }
        for nest in peel(self) {
            unroll([nest.src, nest.dst], &nest.dims, nest.run, &mut each);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::bir::{ApDynamic, ApKind, LocRow};
    use murre_components::dtype::DType;
    use murre_components::ids::*;

    fn ap(dtype: DType, pairs: &[(i32, u32)]) -> (ApHead, ApPattern) {
        let head = ApHead {
            loc: LocId(0),
            offset: 0,
            inst: InstId(0),
            dtype,
            kind: ApKind::Physical,
            output: 0,
            flags: 0,
            dynamic: ApDynamic::default(),
        };
        (head, ApPattern::new(pairs.iter().copied()).unwrap_or_default())
    }

    fn cuts(shape: &CopyShape) -> Vec<Cut> {
        let mut all = Vec::new();
        shape.cuts(|c| all.push(c));
        all
    }

    #[test]
    fn dram_rows_to_sbuf_partitions_are_one_record() {
        let dram = LocRow::new(Space::Dram, DType::F32, 1, 128 * 64, HloId::NONE).head;
        let sbuf = LocRow::new(Space::Sbuf, DType::F32, 128, 64, HloId::NONE).head;
        let (d, s) = (ap(DType::F32, &[(64, 128), (1, 64)]), ap(DType::F32, &[(64, 128), (1, 64)]));
        let shape = copy_shape((&d.0, &d.1, &sbuf), (&s.0, &s.1, &dram)).expect("equal counts");
        assert_eq!((shape.run, shape.dims.len(), shape.single()), (64, 1, true));
        assert_eq!((shape.dims[0].src.bytes, shape.dims[0].dst.bytes), (256, 0x40000));
        assert_eq!(cuts(&shape).len(), 1);
    }

    #[test]
    fn contiguous_pairs_fuse_and_long_runs_peel() {
        let dram = LocRow::new(Space::Dram, DType::U8, 1, 1 << 20, HloId::NONE).head;
        let a = ap(DType::U8, &[(16, 4), (1, 16)]);
        assert_eq!(copy_shape((&a.0, &a.1, &dram), (&a.0, &a.1, &dram)).map(|s| s.run), Some(64));
        let b = ap(DType::U8, &[(1, 200_003)]); // a prime: no even split
        let shape = copy_shape((&b.0, &b.1, &dram), (&b.0, &b.1, &dram)).expect("equal counts");
        assert!(!shape.single());
        let all = cuts(&shape);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].dim0.num, all[0].run, all[1].run), (3, 65_536, 200_003 - 3 * 65_536));
        assert_eq!(all[1].src.bytes, 3 * 65_536);
        let c = ap(DType::U8, &[(1, 262_144)]);
        assert!(copy_shape((&c.0, &c.1, &dram), (&c.0, &c.1, &dram)).is_some_and(|s| s.single()));
    }

    #[test]
    fn outer_dimensions_unroll_and_mismatch_is_none() {
        let dram = LocRow::new(Space::Dram, DType::F32, 1, 1 << 20, HloId::NONE).head;
        let d = ap(DType::F32, &[(1, 3), (300, 7), (5, 11)]);
        let s = ap(DType::F32, &[(400, 3), (20, 7), (1, 11)]);
        let shape = copy_shape((&d.0, &d.1, &dram), (&s.0, &s.1, &dram)).expect("equal counts");
        let all = cuts(&shape);
        assert_eq!(all.len(), 3, "the two largest counts stay in the record");
        assert_eq!(all.iter().map(|c| c.src.bytes).collect::<Vec<_>>(), [0, 1600, 3200]);
        assert_eq!((all[0].dim1.num, all[0].dim0.num, all[0].run), (7, 11, 1));
        let short = ap(DType::F32, &[(1, 3)]);
        assert_eq!(copy_shape((&d.0, &d.1, &dram), (&short.0, &short.1, &dram)), None);
    }
}
