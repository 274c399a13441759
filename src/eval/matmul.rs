//! The product of two matrices of lanes, four rows by four columns at a time.
//!
//! The sides are packed as the inner loop reads them: four lines wide, inner index outermost. Products of `f32` and
//! narrower are exact in `f64`, so only the sum rounds, far below what the result's type can hold.

use super::lanes::Lane;

/// Lines that are packed side by side.
pub(crate) const TILE: usize = 4;

/// Lanes of packed rows that are kept while the columns go by.
const KEPT: usize = 1 << 15;

/// Where a product goes: the lanes of its rows, `stride` apart.
pub(crate) struct Target<'a, L> {
    pub lanes: &'a mut [L],
    pub stride: usize,
}

/// `rows` by `columns` sums of `inner` products. A packer fills `inner` times [`TILE`] lanes with the lines from the
/// first one given on; what lies beyond the last line is left zero.
pub(crate) fn multiply<L: Lane>(
    [rows, columns, inner]: [usize; 3],
    mut pack_rows: impl FnMut(usize, &mut [L]),
    mut pack_columns: impl FnMut(usize, &mut [L]),
    to: &mut Target<'_, L>,
) {
    if inner == 0 || rows == 0 || columns == 0 {
        return;
    }
    let size = inner * TILE;
    let kept = (KEPT / size).clamp(8, 64).min(rows.div_ceil(TILE));
    let mut left = vec![L::ZERO; kept * size];
    let mut right = vec![L::ZERO; size];
    for chunk in (0..rows).step_by(kept * TILE) {
        let tiles = (rows - chunk).div_ceil(TILE).min(kept);
        for (t, tile) in left.chunks_exact_mut(size).take(tiles).enumerate() {
            tile.fill(L::ZERO);
            pack_rows(chunk + t * TILE, tile);
        }
        for column in (0..columns).step_by(TILE) {
            right.fill(L::ZERO);
            pack_columns(column, &mut right);
            for (t, tile) in left.chunks_exact(size).take(tiles).enumerate() {
                let sums = tile_product(tile, &right);
                let row = chunk + t * TILE;
                for (i, sums) in sums.iter().enumerate().take(rows - row) {
                    let at = (row + i) * to.stride + column;
                    let n = TILE.min(columns - column);
                    to.lanes[at..at + n].copy_from_slice(&sums[..n]);
                }
            }
        }
    }
}

#[inline(never)]
fn tile_product<L: Lane>(left: &[L], right: &[L]) -> [[L; TILE]; TILE] {
    let mut sums = [[L::ZERO; TILE]; TILE];
    let (left, right) = (left.as_chunks::<TILE>().0, right.as_chunks::<TILE>().0);
    for (a, b) in left.iter().zip(right) {
        for i in 0..TILE {
            for j in 0..TILE {
                sums[i][j] = sums[i][j].plus(a[i].times(b[j]));
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_of_the_tiling_is_right() {
        for (rows, columns, inner) in [(1, 1, 1), (4, 4, 3), (5, 7, 9), (300, 3, 40), (2, 9, 0)] {
            let a: Vec<i64> = (0..rows * inner).map(|i| (i * 7 % 13) as i64 - 5).collect();
            let b: Vec<i64> = (0..columns * inner).map(|i| (i * 5 % 11) as i64 - 4).collect();
            let pack = |side: &[i64], lines: usize, first: usize, to: &mut [i64]| {
                for (k, part) in to.chunks_exact_mut(TILE).enumerate() {
                    for (i, slot) in part.iter_mut().enumerate().take(lines - first) {
                        *slot = side[(first + i) * inner + k];
                    }
                }
            };
            let mut out = vec![0i64; rows * columns];
            let mut to = Target { lanes: &mut out, stride: columns };
            multiply(
                [rows, columns, inner],
                |first, to: &mut [i64]| pack(&a, rows, first, to),
                |first, to: &mut [i64]| pack(&b, columns, first, to),
                &mut to,
            );
            let want =
                |i: usize, j: usize| (0..inner).map(|k| a[i * inner + k] * b[j * inner + k]).sum::<i64>();
            for i in 0..rows {
                for j in 0..columns {
                    assert_eq!(out[i * columns + j], want(i, j));
                }
            }
        }
    }
}
