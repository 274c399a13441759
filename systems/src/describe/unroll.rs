//! Unroll, the second step: the dimensions that a record cannot hold become several records. In: the dimensions around a
//! run and where it starts. Out: [`Cut`]s of at most two strided dimensions around a run. The dimensions are ordered by cost and the two cheapest to
//! keep stay; all others are walked, slowest first, so that the pieces follow each other in memory where the copy does.
//! Facts: `spec/ir.md 9.1` (the comparator is ours), `spec/isa.md 4.3`.
//!
//! ```text
//! 3 x 7 x 11 x (run 1)   =>   3 records of 7 x 11 x (run 1)
//! ```

use super::shape::{CopyDim, Cut, Step};
use arrayvec::ArrayVec;
use std::cmp::Ordering;

/// Largest count of a record's dimension.
pub const MAX_COUNT: u32 = 65_535;

/// Dimensions of a record.
const KEPT: usize = 2;

/// Which of two dimensions costs more records when it is unrolled: one whose steps do not fit a record has to be
/// unrolled whatever it costs, then the one with more iterations costs more, then the inner one, whose iterations lie
/// closer together.
fn by_cost(a: (usize, &CopyDim), b: (usize, &CopyDim)) -> Ordering {
    (a.1.fits(), a.1.num, a.0).cmp(&(b.1.fits(), b.1.num, b.0))
}

/// The step: calls `each` for every record, in a fixed order. `start`: source and destination.
pub fn unroll(start: [Step; 2], dims: &[CopyDim], run: u32, each: &mut impl FnMut(Cut)) {
    let [src, dst] = start;
    let unit = Cut { src, dst, dim0: CopyDim::UNIT, dim1: CopyDim::UNIT, run };
    let whole = |d: &CopyDim| d.num <= MAX_COUNT && d.fits();
    match dims {
        [] => return each(unit),
        [fast] if whole(fast) => return each(Cut { dim0: *fast, ..unit }),
        [slow, fast] if whole(slow) && whole(fast) => return each(Cut { dim1: *slow, dim0: *fast, ..unit }),
        _ => {}
    }
    let mut dearest: ArrayVec<usize, 7> = (0..dims.len().min(7)).collect();
    dearest.sort_unstable_by(|&a, &b| by_cost((b, &dims[b]), (a, &dims[a])));
    // Elements of each dimension that one record takes.
    let mut taken = [1u32; 7];
    for &k in dearest.iter().take(KEPT).filter(|&&k| dims[k].fits()) {
        taken[k] = MAX_COUNT;
    }
    let mut at = [0u32; 7];
    loop {
        let mut cut = unit;
        for (k, dim) in dims.iter().enumerate() {
            cut.src = cut.src.plus(dim.src.times(i64::from(at[k])));
            cut.dst = cut.dst.plus(dim.dst.times(i64::from(at[k])));
            if taken[k] > 1 {
                cut.dim1 = cut.dim0;
                cut.dim0 = CopyDim { num: taken[k].min(dim.num - at[k]), ..*dim };
            }
        }
        each(cut);
        let mut k = dims.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            at[k] = at[k].saturating_add(taken[k]);
            if at[k] < dims[k].num {
                break;
            }
            at[k] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start, slow count and fast count of every record.
    fn records(dims: &[(u32, i64)]) -> Vec<(i64, u32, u32)> {
        let step = |bytes| Step { elems: bytes, bytes, crosses: false };
        let dim = |&(num, bytes): &(u32, i64)| CopyDim { num, src: step(bytes), dst: step(bytes) };
        let dims: Vec<CopyDim> = dims.iter().map(dim).collect();
        let mut all = Vec::new();
        unroll([Step::default(); 2], &dims, 1, &mut |c| all.push((c.src.bytes, c.dim1.num, c.dim0.num)));
        all
    }

    #[test]
    fn the_cheapest_dimensions_are_walked() {
        assert_eq!(records(&[]), [(0, 1, 1)]);
        assert_eq!(records(&[(5, 8)]), [(0, 1, 5)]);
        assert_eq!(records(&[(3, 400), (7, 40), (11, 2)]), [(0, 7, 11), (400, 7, 11), (800, 7, 11)]);
        assert_eq!(records(&[(7, 400), (2, 40), (11, 2)]), [(0, 7, 11), (40, 7, 11)]);
        assert_eq!(records(&[(2, 400), (2, 40), (2, 4)]), [(0, 2, 2), (400, 2, 2)], "equal: the outer one");
    }

    #[test]
    fn counts_and_steps_that_do_not_fit_are_walked() {
        assert_eq!(records(&[(70_000, 8)]), [(0, 1, 65_535), (8 * 65_535, 1, 4_465)]);
        let far = 1 << 33;
        assert_eq!(records(&[(2, far), (5, 8)]), [(0, 1, 5), (far, 1, 5)], "a step past 32 bits");
    }
}
