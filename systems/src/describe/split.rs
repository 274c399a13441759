//! Split, the third step: no record may ask its generator for more descriptors than the ring holds. In: a [`Cut`] and
//! the ring depth of its route (D3: 1,020 software, 65,520 hardware). Out: cuts whose rows fit. Every row is a
//! descriptor. A piece keeps the even spread of the whole over the 16 DMA engines ([`spread`]) where the ring leaves
//! room for it. Facts: `spec/ir.md 9.1, 9.3`.
//!
//! ```text
//! 2,000 rows, depth 1,020   =>   1,008 rows ; 992 rows      (16 engines each)
//! ```

use super::shape::{CopyDim, Cut};

/// DMA engines that work side by side.
pub const PARALLEL_ENGINES: u32 = 16;

/// Engines over which `count` descriptors spread evenly: the largest factor of the count that is at most 16.
pub fn spread(count: u32) -> u32 {
    (1..=PARALLEL_ENGINES).rev().find(|f| count.is_multiple_of(*f)).unwrap_or(1)
}

/// Rows of a piece when `count` rows are cut for a ring of `depth`: as many as fit, a multiple of the whole's spread.
pub fn chunk(count: u32, depth: u32) -> u32 {
    if count <= depth {
        return count.max(1);
    }
    let f = spread(count);
    if f <= depth { depth / f * f } else { depth.max(1) }
}

/// `n` of a dimension's iterations from `from` on, and the distance to the first of them.
fn part(cut: &Cut, dim: CopyDim, from: u32, n: u32) -> (Cut, CopyDim) {
    let past = i64::from(from);
    let moved =
        Cut { src: cut.src.plus(dim.src.times(past)), dst: cut.dst.plus(dim.dst.times(past)), ..*cut };
    (moved, CopyDim { num: n, ..dim })
}

/// Calls `each` with ranges that cover `0..count`: start and length.
pub fn pieces(count: u32, chunk: u32, mut each: impl FnMut(u32, u32)) {
    let mut at = 0;
    while at < count {
        let n = chunk.max(1).min(count - at);
        each(at, n);
        at += n;
    }
}

/// The step: calls `each` for every record.
pub fn split(cut: &Cut, depth: u32, each: &mut impl FnMut(Cut)) {
    let (fast, slow) = (cut.dim0.num, cut.dim1.num);
    if u64::from(fast) * u64::from(slow) <= u64::from(depth) {
        return each(*cut);
    }
    if fast <= depth {
        // Whole fast dimensions, as many as fit.
        let rows = chunk(slow, depth / fast.max(1));
        return pieces(slow, rows, |at, n| {
            let (mut piece, dim1) = part(cut, cut.dim1, at, n);
            piece.dim1 = dim1;
            each(piece);
        });
    }
    for k in 0..slow {
        let (line, dim1) = part(cut, cut.dim1, k, 1);
        pieces(fast, chunk(fast, depth), |at, n| {
            let (mut piece, dim0) = part(&line, cut.dim0, at, n);
            (piece.dim0, piece.dim1) = (dim0, dim1);
            each(piece);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::shape::Step;
    use murre_components::engine::{HWDGE_RING_DEPTH, SWDGE_RING_DEPTH};

    #[test]
    fn the_spread_is_the_largest_factor_up_to_sixteen() {
        for (count, engines) in [(48, 16), (34, 2), (17, 1), (45, 15), (1, 1), (16, 16), (0, 16)] {
            assert_eq!(spread(count), engines, "{count}");
        }
    }

    #[test]
    fn pieces_keep_the_spread_where_the_ring_has_room() {
        assert_eq!(chunk(1_020, SWDGE_RING_DEPTH), 1_020);
        assert_eq!(chunk(2_000, SWDGE_RING_DEPTH), 1_008);
        assert_eq!(chunk(1_021, SWDGE_RING_DEPTH), 1_020, "a prime");
        assert_eq!(chunk(70_000, HWDGE_RING_DEPTH), 65_520);
        assert_eq!(chunk(48, 10), 10, "a ring smaller than the spread");
    }

    fn records(slow: u32, fast: u32, depth: u32) -> Vec<(i64, u32, u32)> {
        let step = |bytes| Step { elems: bytes, bytes, crosses: false };
        let dim = |num, bytes| CopyDim { num, src: step(bytes), dst: step(bytes) };
        let zero = Step::default();
        let cut =
            Cut { src: zero, dst: zero, dim0: dim(fast, 8), dim1: dim(slow, 8 * i64::from(fast)), run: 1 };
        let mut all = Vec::new();
        split(&cut, depth, &mut |c| all.push((c.src.bytes, c.dim1.num, c.dim0.num)));
        all
    }

    #[test]
    fn every_row_is_in_one_piece_and_no_piece_passes_the_ring() {
        assert_eq!(records(2, 10, 20), [(0, 2, 10)]);
        assert_eq!(records(5, 10, 20), [(0, 2, 10), (160, 2, 10), (320, 1, 10)]);
        assert_eq!(records(2, 30, 20), [(0, 1, 15), (120, 1, 15), (240, 1, 15), (360, 1, 15)]);
        for (slow, fast) in [(1, 2_000), (3, 1_021), (4_096, 2), (7, 65_535)] {
            for depth in [SWDGE_RING_DEPTH, HWDGE_RING_DEPTH] {
                let all = records(slow, fast, depth);
                let rows: u64 = all.iter().map(|(_, a, b)| u64::from(*a) * u64::from(*b)).sum();
                assert_eq!(rows, u64::from(slow) * u64::from(fast));
                assert!(all.iter().all(|(_, a, b)| a * b <= depth));
                // Rows are 8 bytes apart: each piece starts where the one before it ends.
                let mut at = 0;
                for (start, a, b) in all {
                    assert_eq!(start, at);
                    at += 8 * i64::from(a) * i64::from(b);
                }
            }
        }
    }
}
