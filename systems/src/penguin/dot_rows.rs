//! A matrix whose rows lie along the contraction, times a vector, on the vector engine.
//!
//! In: a dot with one row whose matrix is `[columns, k]` in memory. Out: rows of the matrix on partitions, loaded as they
//! lie (a partition's rows are contiguous), multiplied with the vector on every partition and summed along it, all in
//! fp32. The array would need every tile transposed first.
//!
//! ```text
//! rows [128, 8 KiB] by DMA ; product = rows * vector ; acc[:, j] = reduce product
//! ```

use super::dot::Dot;
use super::dot_operand::{Held, Segment, segments};
use super::dot_tiles::LOADS_AHEAD;
use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES};
use super::rolled::At;
use super::view::{Layout, View};
use murre_components::bir::Space;
use murre_components::dtype::DType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeScalars};
use murre_components::program::VarKind;
use smallvec::smallvec;
use std::collections::VecDeque;

/// Fewer elements of the matrix than this go to the array: their transposing DMA is cheap.
const LEAST: u64 = 16 * 1024;
/// Longest contraction, elements.
const LONGEST: u64 = 8192;
/// Elements of the matrix on each partition in one step.
const STEP: u64 = 4096;
/// Most sums on a partition.
const SUMS: u64 = 8192;

impl Lower<'_> {
    /// Whether a dot is a matrix of contiguous rows times a vector.
    pub fn suits_rows(&self, dot: &Dot) -> bool {
        let [_, (_, along), (_, between)] = [dot.moving.dims[0], dot.moving.dims[1], dot.moving.dims[2]];
        let members = (STEP / dot.k).clamp(1, dot.batch);
        dot.rows == 1
            && along == 1
            && between.unsigned_abs() >= dot.k
            && dot.columns >= 32
            && (128..=LONGEST).contains(&dot.k)
            && dot.batch * dot.k * dot.columns >= LEAST
            && members * dot.columns.div_ceil(64) <= SUMS
    }

    /// Lowers such a dot.
    pub fn dot_rows(&mut self, dot: &Dot) -> Lowered<Leaf> {
        let members = (STEP / dot.k).clamp(1, dot.batch);
        let dtype = self.dtype(dot.ty)?;
        // Rows are dealt over partitions, so they take the place of the contraction.
        let matrix = dot.moving.transpose(&[0, 2, 1]);
        let deal = segments(dot.columns);
        if dot.batch == 1 && deal.len() == 1 {
            let sums = self.row_sums(dot, &matrix, &deal[0], (0, 1))?;
            let tile = self.cast_tile(sums, dtype)?;
            return Ok(self.whole_view(tile, dot.ty, &dot.result));
        }
        let home = self.rows_home(dot)?;
        for segment in &deal {
            let mut b = 0;
            while b < dot.batch {
                let n = members.min(dot.batch - b);
                let sums = self.row_sums(dot, &matrix, segment, (b, b + n))?;
                let tile = self.cast_tile(sums, dtype)?;
                let tiles = segment.tiles as i64;
                let columns = dot.columns as i64;
                let across = |step: i64, member: i64| {
                    smallvec![(segment.parts, step), (n, member), (segment.tiles, 1)]
                };
                let source = View { loc: tile, ty: dot.ty, offset: 0, dims: across(n as i64 * tiles, tiles) };
                let at = b as i64 * columns + segment.start as i64;
                let target = View { loc: home, ty: dot.ty, offset: at, dims: across(tiles, columns) };
                self.dma_copy(&target, &source)?;
                b += n;
            }
        }
        Ok(self.whole_view(home, dot.ty, &dot.result))
    }

    /// Members of the batch on partitions where they fit, else DRAM.
    fn rows_home(&mut self, dot: &Dot) -> Lowered<LocId> {
        let dtype = self.dtype(dot.ty)?;
        if dot.batch <= 128 && dot.columns * dtype.bytes() as u64 <= TILE_BYTES {
            self.tile(dtype, Layout { parts: dot.batch, free: dot.columns })
        } else {
            self.dram_home(dot.ty, &dot.result)
        }
    }

    /// fp32 sums of the rows of a segment for some members of the batch: `[parts, member, tile]`.
    fn row_sums(&mut self, dot: &Dot, matrix: &View, s: &Segment, b: (u64, u64)) -> Lowered<LocId> {
        let (n, k) = (b.1 - b.0, dot.k);
        let vector = self.on_every_partition(dot, s.parts, b)?;
        let sums = self.new_loc(Space::Sbuf, VarKind::Internal, DType::F32, s.parts, n * s.tiles);
        let together = (STEP / (n * k)).clamp(1, s.tiles);
        let mut ahead = VecDeque::with_capacity(LOADS_AHEAD);
        let steps = s.tiles.div_ceil(together) as usize;
        for step in 0..steps + LOADS_AHEAD {
            if step < steps {
                let j = step as u64 * together;
                let tiles = (j, s.tiles.min(j + together));
                ahead
                    .push_back((tiles, self.hold(matrix, s, (At::fixed(b.0), n), tiles, (At::fixed(0), k))?));
            }
            if step < LOADS_AHEAD {
                continue;
            }
            let Some(((j, end), rows)) = ahead.pop_front() else { break };
            let g = end - j;
            let product = self.tile(DType::F32, Layout { parts: s.parts, free: g * n * k })?;
            let plain = |loc| Held { loc, parts: s.parts, offset: 0, batch: 0, tile: 0, free: 1 };
            let operands = [
                self.whole_tile(product, AccessMode::Store),
                self.held(&rows, 0, &[(g, rows.tile), (n, rows.batch), (k, rows.free)], AccessMode::Load),
                self.held(&plain(vector), 0, &[(g, 0), (n * k, 1)], AccessMode::Load),
            ];
            self.node(NodeKind::Elementwise, HloOp::Multiply, 0, 0, operands, NodeScalars::default());
            let operands = [
                self.held(&plain(sums), j as i64, &[(g, 1), (n, s.tiles as i64)], AccessMode::Store),
                self.held(&plain(product), 0, &[(g * n, k as i64), (k, 1)], AccessMode::Load),
            ];
            let scalars = NodeScalars { imm: 1, ..Default::default() };
            self.node(NodeKind::Reduce, HloOp::Add, 0, 0, operands, scalars);
        }
        Ok(sums)
    }

    /// The vectors of some members of the batch, on every partition.
    fn on_every_partition(&mut self, dot: &Dot, parts: u64, b: (u64, u64)) -> Lowered<LocId> {
        let v = &dot.stationary;
        let dtype = self.dtype(v.ty)?;
        let tile = self.tile(dtype, Layout { parts, free: (b.1 - b.0) * dot.k })?;
        let dims = smallvec![(parts, 0), (b.1 - b.0, v.dims[0].1), v.dims[1]];
        let source = View { loc: v.loc, ty: v.ty, offset: v.offset + b.0 as i64 * v.dims[0].1, dims };
        self.dma_copy(&View::whole(tile, v.ty, &source.extents()), &source)?;
        Ok(tile)
    }

    /// The tile in another element type.
    fn cast_tile(&mut self, tile: LocId, dtype: DType) -> Lowered<LocId> {
        let f = self.facts(tile);
        if f.dtype == dtype {
            return Ok(tile);
        }
        let out = self.tile(dtype, Layout { parts: f.parts, free: f.part_elems })?;
        let operands = [self.whole_tile(out, AccessMode::Store), self.whole_tile(tile, AccessMode::Load)];
        self.node(NodeKind::Elementwise, HloOp::Convert, 0, 0, operands, NodeScalars::default());
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Staging;
    use murre_components::dtype::HloType;
    use murre_components::hlo::HloModule;

    #[test]
    fn only_long_rows_times_a_vector_suit() {
        let module = HloModule::default();
        let lower = Lower::new(
            &module,
            murre_components::engine::Target::Trn2,
            crate::penguin::lower::LoweredTables::new(Staging::after(Default::default())),
        );
        let dot = |batch, rows, k, columns, along, between| Dot {
            stationary: View::whole(LocId(0), HloType::F32, &[batch, k, rows]),
            moving: View {
                loc: LocId(1),
                ty: HloType::F32,
                offset: 0,
                dims: smallvec![(batch, 0), (k, along), (columns, between)],
            },
            batch,
            k,
            rows,
            columns,
            ty: HloType::F32,
            result: smallvec![batch, rows, columns],
        };
        assert!(lower.suits_rows(&dot(1, 1, 4096, 32_000, 1, 4096)));
        assert!(lower.suits_rows(&dot(32, 1, 128, 2048, 1, 4096)));
        assert!(!lower.suits_rows(&dot(1, 1, 4096, 4096, 4096, 1)), "columns lie along the row");
        assert!(!lower.suits_rows(&dot(1, 2, 4096, 4096, 1, 4096)), "two rows");
        assert!(!lower.suits_rows(&dot(1, 1, 128, 40, 1, 128)), "small");
        assert!(!lower.suits_rows(&dot(1, 1, 20_000, 400, 1, 20_000)), "long");
    }
}
