//! Dots on the PE array: contraction on partitions (at most 128), stationary operands of at most 128 columns, moving
//! operands of at most 512 (`spec/isa_compute.md 3.4`).
//!
//! In: a [`Dot`]. Out: groups of result tiles that stand in PSUM at once, at most eight banks; for each group the contraction
//! is walked once, every operand tile is loaded once and used by all result tiles of the group. The moving side comes
//! in DMAs of full rows, each into a tile of its own, so that the next load runs beside the multiplications of this one.
//! A bank is cast to the result's type on its way to SBUF.
//!
//! ```text
//! x[1,4096] . W[4096,4096]: 32 loads of W [128, 8 KiB]; behind each, 8 multiplications into 8 banks
//! ```

use super::dot::Dot;
use super::dot_operand::{Held, Segment, Span, segments};
use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES};
use super::view::{Layout, View};
use murre_components::bir::{ApPattern, Space};
use murre_components::dtype::DType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeOperand, NodeScalars};
use murre_components::program::VarKind;

const ROW_TILE: u64 = 128;
/// fp32 cells of a PSUM bank on a partition.
const BANK: u64 = 512;
const BANKS: u64 = 8;
/// Bytes of a partition that one load of the moving side takes.
const LOAD_BYTES: u64 = 8 * 1024;
/// Bytes of a partition that the whole stationary side of a group may take.
const STATIONARY_BYTES: u64 = 32 * 1024;

/// Result tiles that are accumulated at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Batch members.
    pub members: u64,
    /// Row tiles.
    pub row_tiles: u64,
    /// Columns.
    pub columns: u64,
    /// Batch members that share a bank.
    pub in_bank: u64,
}

/// Fills the banks: a row of the result with as many columns as there are, several row tiles where there are rows, several
/// members of the batch where the columns are few.
pub fn grouping(batch: u64, rows: u64, columns: u64) -> Grouping {
    let row_tiles = rows.div_ceil(ROW_TILE).min(4);
    let banks = BANKS / row_tiles;
    if columns >= BANK {
        return Grouping { members: 1, row_tiles, columns: columns.min(banks * BANK), in_bank: 1 };
    }
    let in_bank = (BANK / columns).min(batch);
    Grouping { members: (in_bank * banks).min(batch), row_tiles, columns, in_bank }
}

/// A bank of the group: which part of the result it holds.
struct Bank {
    loc: LocId,
    rows: Span,
    /// Members, relative to the group.
    members: Span,
    columns: Span,
    started: bool,
}

impl Lower<'_> {
    /// Lowers a dot to tiles.
    pub fn dot_tiles(&mut self, dot: &Dot) -> Lowered<Leaf> {
        let g = grouping(dot.batch, dot.rows, dot.columns);
        let dtype = self.dtype(dot.ty)?;
        let width = dot.batch * dot.columns;
        let in_sbuf = dot.rows <= ROW_TILE && width * dtype.bytes() as u64 <= TILE_BYTES;
        let home = match in_sbuf {
            true => self.tile(dtype, Layout { parts: dot.rows, free: width })?,
            false => self.new_loc(Space::Dram, VarKind::Internal, dtype, 1, dot.rows * width),
        };
        let deal = segments(dot.k);
        let mut b = 0;
        while b < dot.batch {
            let members = (b, dot.batch.min(b + g.members));
            let mut r = 0;
            while r < dot.rows {
                let rows = (r, dot.rows.min(r + g.row_tiles * ROW_TILE));
                let fixed = self.stationary(dot, &deal, members, rows)?;
                let mut c = 0;
                while c < dot.columns {
                    let columns = (c, dot.columns.min(c + g.columns));
                    let banks = self.accumulate(dot, &g, &deal, &fixed, members, rows, columns)?;
                    self.evacuate(dot, &banks, home, in_sbuf, (members, columns))?;
                    c = columns.1;
                }
                r = rows.1;
            }
            b = members.1;
        }
        let (columns, width) = (dot.columns as i64, width as i64);
        let dims = match in_sbuf {
            true => vec![(dot.batch, columns), (dot.rows, width), (dot.columns, 1)],
            false => {
                vec![(dot.batch, dot.rows as i64 * columns), (dot.rows, columns), (dot.columns, 1)]
            }
        };
        self.dot_result(dot, View { loc: home, ty: dot.ty, offset: 0, dims })
    }

    /// The stationary operands of a group by segment, where all of a segment fits; loaded with each tile otherwise.
    fn stationary(
        &mut self,
        dot: &Dot,
        deal: &[Segment],
        members: Span,
        rows: Span,
    ) -> Lowered<Vec<Option<Held>>> {
        let bytes = self.dtype(dot.stationary.ty)?.bytes() as u64;
        let mut out = Vec::with_capacity(deal.len());
        for s in deal {
            let share = (members.1 - members.0) * (rows.1 - rows.0) * s.tiles * bytes;
            out.push(match share <= STATIONARY_BYTES {
                true => Some(self.hold(&dot.stationary, s, members, (0, s.tiles), rows)?),
                false => None,
            });
        }
        Ok(out)
    }

    /// Runs the contraction for one group.
    fn accumulate(
        &mut self,
        dot: &Dot,
        g: &Grouping,
        deal: &[Segment],
        fixed: &[Option<Held>],
        members: Span,
        rows: Span,
        columns: Span,
    ) -> Lowered<Vec<Bank>> {
        let mut banks = self.banks(g, members, rows, columns);
        let bytes = self.dtype(dot.moving.ty)?.bytes() as u64;
        let width = (members.1 - members.0) * (columns.1 - columns.0);
        let last = deal.len() - 1;
        for (n, s) in deal.iter().enumerate() {
            let together = (LOAD_BYTES / (width * bytes).max(1)).clamp(1, s.tiles);
            let mut j = 0;
            while j < s.tiles {
                let tiles = (j, s.tiles.min(j + together));
                let moving = self.hold(&dot.moving, s, members, tiles, columns)?;
                let stationary = match fixed[n] {
                    Some(h) => Held { offset: h.offset + j as i64 * h.tile, ..h },
                    None => self.hold(&dot.stationary, s, members, tiles, rows)?,
                };
                for t in 0..tiles.1 - tiles.0 {
                    let stop = n == last && j + t + 1 == s.tiles;
                    for bank in &mut banks {
                        self.multiply(bank, &stationary, &moving, t, (rows.0, columns.0), stop);
                    }
                }
                j = tiles.1;
            }
        }
        Ok(banks)
    }

    /// The banks of a group, row tile by row tile.
    fn banks(&mut self, g: &Grouping, members: Span, rows: Span, columns: Span) -> Vec<Bank> {
        let mut out = Vec::new();
        let count = members.1 - members.0;
        let mut r = rows.0;
        while r < rows.1 {
            let tile = (r, rows.1.min(r + ROW_TILE));
            let mut b = 0;
            while b < count {
                let shared = (b, count.min(b + g.in_bank));
                let mut c = columns.0;
                while c < columns.1 {
                    let span = (c, columns.1.min(c + BANK));
                    // A whole bank: a START leaves its other cells as if never written.
                    let loc = self.new_loc(Space::Psum, VarKind::Internal, DType::F32, tile.1 - tile.0, BANK);
                    out.push(Bank { loc, rows: tile, members: shared, columns: span, started: false });
                    c = span.1;
                }
                b = shared.1;
            }
            r = tile.1;
        }
        out
    }

    /// One K tile into a bank. The first multiplication of a bank starts it (`spec/isa_compute.md 3.3`): every cell is
    /// then stored to by its first product and added to by the others.
    fn multiply(
        &mut self,
        bank: &mut Bank,
        stationary: &Held,
        moving: &Held,
        tile: u64,
        origin: (u64, u64),
        stop: bool,
    ) {
        let columns = bank.columns.1 - bank.columns.0;
        let rows = bank.rows.1 - bank.rows.0;
        for b in bank.members.0..bank.members.1 {
            let at = |h: &Held, first: u64| b as i64 * h.batch + tile as i64 * h.tile + first as i64 * h.free;
            let w = at(stationary, bank.rows.0 - origin.0);
            let x = at(moving, bank.columns.0 - origin.1);
            let flags = !bank.started as u8 | (stop as u8) << 1;
            bank.started = true;
            let operands = vec![
                self.bank_part(bank, (b - bank.members.0) * columns, columns, AccessMode::Store),
                self.held(moving, x, &[(columns, moving.free)], AccessMode::Load),
                self.held(stationary, w, &[(rows, stationary.free)], AccessMode::Load),
            ];
            self.node(NodeKind::DotTile, HloOp::Dot, 0, flags, operands, NodeScalars::default());
        }
    }

    fn bank_part(&self, bank: &Bank, first: u64, cells: u64, mode: AccessMode) -> NodeOperand {
        let rows = (bank.rows.1 - bank.rows.0) as u32;
        self.access(bank.loc, first as u32, ApPattern::of([(BANK as i32, rows), (1, cells as u32)]), mode)
    }

    /// Casts the banks into the result: straight into its tile, or to DRAM through one tile a row tile.
    fn evacuate(
        &mut self,
        dot: &Dot,
        banks: &[Bank],
        home: LocId,
        in_sbuf: bool,
        group: (Span, Span),
    ) -> Lowered<()> {
        let (members, columns) = group;
        let dtype = self.dtype(dot.ty)?;
        let width = columns.1 - columns.0;
        let mut k = 0;
        while k < banks.len() {
            let rows = banks[k].rows;
            let n = banks[k..].iter().take_while(|b| b.rows == rows).count();
            let free = (members.1 - members.0) * width;
            let parts = rows.1 - rows.0;
            let (tile, stride) = match in_sbuf {
                true => (home, dot.columns),
                false => (self.tile(dtype, Layout { parts, free })?, width),
            };
            for bank in &banks[k..k + n] {
                let cells = (bank.members.1 - bank.members.0) * (bank.columns.1 - bank.columns.0);
                let first = match in_sbuf {
                    true => (members.0 + bank.members.0) * stride + bank.columns.0,
                    false => bank.members.0 * stride + bank.columns.0 - columns.0,
                };
                let elems = self.facts(tile).part_elems as i32;
                let pattern = ApPattern::of([(elems, parts as u32), (1, cells as u32)]);
                let operands = vec![
                    self.access(tile, first as u32, pattern, AccessMode::Store),
                    self.bank_part(bank, 0, cells, AccessMode::Load),
                ];
                self.node(NodeKind::Elementwise, HloOp::Convert, 0, 0, operands, NodeScalars::default());
            }
            if !in_sbuf {
                let count = members.1 - members.0;
                let dims = |member: i64, row: i64| vec![(count, member), (parts, row), (width, 1)];
                let source = View { loc: tile, ty: dot.ty, offset: 0, dims: dims(width as i64, free as i64) };
                let (all_rows, all) = (dot.rows as i64, dot.columns as i64);
                let at = (members.0 as i64 * all_rows + rows.0 as i64) * all + columns.0 as i64;
                let target = View { loc: home, ty: dot.ty, offset: at, dims: dims(all_rows * all, all) };
                self.dma_copy(&target, &source)?;
            }
            k += n;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fill_the_banks() {
        let g = |members, row_tiles, columns, in_bank| Grouping { members, row_tiles, columns, in_bank };
        assert_eq!(grouping(1, 1, 11_008), g(1, 1, 4096, 1));
        assert_eq!(grouping(1, 2048, 4096), g(1, 4, 1024, 1));
        assert_eq!(grouping(32, 1, 128), g(32, 1, 128, 4));
        assert_eq!(grouping(3, 300, 100), g(3, 3, 100, 3));
        assert_eq!(grouping(1, 1, 1), g(1, 1, 1, 1));
        assert_eq!(grouping(1000, 1, 511), g(8, 1, 511, 1));
    }
}
