//! Dots on the PE array: contraction on partitions (at most 128), stationary operands of at most 128 columns, moving
//! operands of at most 512 (`spec/isa_compute.md 3.4`).
//!
//! In: a [`Dot`]. Out: groups of result tiles that stand in PSUM at once, at most eight banks; for each group the contraction
//! is walked once, every operand tile is loaded once and used by all result tiles of the group. The moving side comes
//! in DMAs of full rows, each into a tile of its own and some steps ahead, so that loads run beside multiplications.
//! A bank is cast to the result's type on its way to SBUF. A walk of more groups than the limit is a static loop.
//!
//! ```text
//! x[1,4096] . W[4096,4096]: 32 loads of W [128, 8 KiB]; behind each, 8 multiplications into 8 banks
//! ```

use super::dot::Dot;
use super::dot_operand::{Held, Reach, Segment, Span, segments};
use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES};
use super::rolled::run_time;
use super::view::{Layout, View};
use murre_components::bir::{ApPattern, Space};
use murre_components::dtype::DType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeOperand, NodeScalars};
use murre_components::program::VarKind;
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;

const ROW_TILE: u64 = 128;
/// fp32 cells of a PSUM bank on a partition.
const BANK: u64 = 512;
const BANKS: u64 = 8;
/// Bytes of a partition that one load of the moving side takes.
const LOAD_BYTES: u64 = 8 * 1024;
/// Loads of the moving side that stand before the multiplications they belong to.
pub const LOADS_AHEAD: usize = 4;
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
pub fn grouping(batch: u64, rows: u64, columns: u64, banks: u64, most: u64) -> Grouping {
    let row_tiles = rows.div_ceil(ROW_TILE).min(banks / 2).min(most.max(1));
    let banks = banks / row_tiles;
    if columns >= BANK {
        return Grouping { members: 1, row_tiles, columns: columns.min(banks * BANK), in_bank: 1 };
    }
    let in_bank = (BANK / columns).min(batch);
    Grouping { members: (in_bank * banks).min(batch), row_tiles, columns, in_bank }
}

/// How far the walk over batch, rows and columns steps, and what of it is a loop.
struct Walk {
    group: Grouping,
    rolled: [bool; 3],
}

/// Rolls from the columns outwards until what is left in the body is within the limit. Rolled columns make at least two
/// trips, and take a step that divides them where one of at least two banks does.
fn walk(dot: &Dot, limit: u64, turning: &Turning) -> Walk {
    // Half of the banks for what is turned.
    let banks = if turning.moving || turning.stationary { BANKS / 2 } else { BANKS };
    // As many row tiles as the stationary side has room for.
    let deal = segments(dot.k);
    let longest = deal.iter().map(|s| s.tiles).max().unwrap_or(1);
    let most = STATIONARY_BYTES / (longest * ROW_TILE * dot.stationary.ty.bytes().max(1) as u64);
    let mut group = grouping(dot.batch, dot.rows, dot.columns, banks, most);
    group.columns = group.columns.min(turning.columns);
    if group.columns < dot.columns {
        // A bank holds whole rows of several members or a part of one's.
        (group.members, group.in_bank) = (1, 1);
    } else if turning.moving {
        // As many members as their rows leave room for.
        let room = turning.columns / group.columns.next_multiple_of(ROW_TILE);
        group.members = group.members.min(room.max(1));
        group.in_bank = group.in_bank.min(group.members);
    }
    // As many members as the stationary side has room for.
    let columns = dot.rows.min(group.row_tiles * ROW_TILE);
    let share = (longest * columns * dot.stationary.ty.bytes().max(1) as u64).max(1);
    group.members = group.members.min((STATIONARY_BYTES / share).max(1));
    group.in_bank = group.in_bank.min(group.members);
    let mut rolled = [false; 3];
    let tiles: u64 = deal.iter().map(|s| s.tiles).sum();
    let work = |b: u64, r: u64, c: u64| b * tiles * r.div_ceil(ROW_TILE) * c.div_ceil(BANK);
    let step = group.row_tiles * ROW_TILE;
    if work(dot.batch, dot.rows, dot.columns) > limit && dot.columns >= 2 * BANK {
        let most = group.columns.min(dot.columns / 2);
        let even = (2 * BANK..=most).rev().find(|c| dot.columns.is_multiple_of(*c));
        group.columns = even.unwrap_or(if most > BANK { most / BANK * BANK } else { most });
        rolled[2] = true;
    }
    let columns = if rolled[2] { group.columns } else { dot.columns };
    if work(dot.batch, dot.rows, columns) > limit && dot.rows >= 2 * step {
        rolled[1] = true;
    }
    let rows = if rolled[1] { step } else { dot.rows };
    let in_place = !turning.moving && !turning.stationary;
    if work(dot.batch, rows, columns) > limit && dot.batch >= 2 * group.members && in_place {
        rolled[0] = true;
    }
    Walk { group, rolled }
}

/// Which operands are turned on the array.
#[derive(Clone, Copy)]
struct Turning {
    stationary: bool,
    moving: bool,
    /// Most columns whose rows are in SBUF at once.
    columns: u64,
    identity: LocId,
}

/// Part of the result: members, rows, columns.
#[derive(Clone, Copy)]
struct Window {
    members: Reach,
    rows: Reach,
    columns: Reach,
}

/// A bank of the group: which part of the window it holds, relative to it.
struct Bank {
    loc: LocId,
    rows: Span,
    members: Span,
    columns: Span,
    started: bool,
}

/// The banks of a group.
type Banks = SmallVec<[Bank; 2]>;

/// Where the result goes.
struct Home {
    loc: LocId,
    in_sbuf: bool,
}

impl Lower<'_> {
    /// Lowers a dot to tiles.
    pub fn dot_tiles(&mut self, dot: &Dot) -> Lowered<Leaf> {
        let deal = segments(dot.k);
        let turning = self.turning(dot, &deal)?;
        let mut walk = walk(dot, self.unroll_limit, &turning);
        let dtype = self.dtype(dot.ty)?;
        let width = dot.batch * dot.columns;
        let in_sbuf = dot.rows <= ROW_TILE && width * dtype.bytes() as u64 <= TILE_BYTES;
        let loc = match in_sbuf {
            true => self.tile(dtype, Layout { parts: dot.rows, free: width })?,
            false => self.new_loc(Space::Dram, VarKind::Internal, dtype, 1, dot.rows * width),
        };
        let home = Home { loc, in_sbuf };
        // A loop takes its tiles from DRAM, with offsets that registers hold.
        let [members, rows, columns] = walk.rolled;
        let (mut stationary, mut moving) = (dot.stationary.clone(), dot.moving.clone());
        if members || rows {
            stationary = self.loopable(&stationary)?;
        }
        if members || columns {
            moving = self.loopable(&moving)?;
        }
        let fits = |v: &View| v.dims.iter().all(|d| (0..=i32::MAX as i64).contains(&d.1));
        if !fits(&stationary) || !fits(&moving) {
            walk.rolled = [false; 3];
        }
        let dot = &Dot { stationary, moving, result: dot.result.clone(), ..*dot };
        let g = walk.group;
        self.steps(dot.batch, g.members, walk.rolled[0], &mut |this, b, members| {
            this.steps(dot.rows, g.row_tiles * ROW_TILE, walk.rolled[1], &mut |this, r, rows| {
                let fixed = this.stationary(dot, &deal, &turning, (b, members), (r, rows))?;
                this.steps(dot.columns, g.columns, walk.rolled[2], &mut |this, c, columns| {
                    let window = Window { members: (b, members), rows: (r, rows), columns: (c, columns) };
                    let banks = this.accumulate(dot, &g, &deal, &turning, &fixed, window)?;
                    this.evacuate(dot, &banks, &home, window)
                })
            })
        })?;
        let (columns, width) = (dot.columns as i64, width as i64);
        let dims = match in_sbuf {
            true => smallvec![(dot.batch, columns), (dot.rows, width), (dot.columns, 1)],
            false => {
                smallvec![(dot.batch, dot.rows as i64 * columns), (dot.rows, columns), (dot.columns, 1)]
            }
        };
        self.dot_result(dot, View { loc, ty: dot.ty, offset: 0, dims })
    }

    /// Which operands are turned, and the identity for it.
    fn turning(&mut self, dot: &Dot, deal: &[Segment]) -> Lowered<Turning> {
        let whole = dot.k * dot.rows.min(ROW_TILE) * dot.stationary.ty.bytes() as u64;
        let stationary = whole <= STATIONARY_BYTES * ROW_TILE && self.suits_turning(&dot.stationary, deal);
        let moving = self.suits_turning(&dot.moving, deal);
        let columns = if moving { self.turned_at_once(&dot.moving) } else { u64::MAX };
        let identity = match stationary || moving {
            true => self.identity(self.dtype(dot.moving.ty)?)?,
            false => LocId::NONE,
        };
        Ok(Turning { stationary, moving, columns, identity })
    }

    /// The same elements in DRAM.
    fn loopable(&mut self, v: &View) -> Lowered<View> {
        match self.facts(v.loc).space {
            Space::Dram => Ok(v.clone()),
            _ => self.compact_in_dram(&Leaf::View(v.clone())),
        }
    }

    /// The stationary operands of a group by segment, where all of a segment fits; loaded with each tile otherwise.
    fn stationary(
        &mut self,
        dot: &Dot,
        deal: &[Segment],
        turning: &Turning,
        members: Reach,
        rows: Reach,
    ) -> Lowered<SmallVec<[Option<Held>; 2]>> {
        let bytes = self.dtype(dot.stationary.ty)?.bytes() as u64;
        let mut out = SmallVec::new();
        for s in deal {
            let share = members.1 * rows.1 * s.tiles * bytes;
            if turning.stationary && share <= STATIONARY_BYTES {
                let lying = self.rows_of(&dot.stationary, s, members, rows, turning.identity)?;
                out.push(Some(self.turned(&lying, s, members.1, (0, s.tiles))?));
                continue;
            }
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
        turning: &Turning,
        fixed: &[Option<Held>],
        w: Window,
    ) -> Lowered<Banks> {
        let mut banks = self.banks(g, w);
        let bytes = self.dtype(dot.moving.ty)?.bytes() as u64;
        let width = w.members.1 * w.columns.1;
        let mut loads: SmallVec<[(usize, Span); 4]> = SmallVec::new();
        for (n, s) in deal.iter().enumerate() {
            let together = (LOAD_BYTES / (width * bytes).max(1)).clamp(1, s.tiles);
            let begins = (0..s.tiles).step_by(together as usize);
            loads.extend(begins.map(|j| (n, (j, s.tiles.min(j + together)))));
        }
        let mut lying = Vec::new();
        for s in deal.iter().filter(|_| turning.moving) {
            lying.push(self.rows_of(&dot.moving, s, w.members, w.columns, turning.identity)?);
        }
        let mut ahead = VecDeque::with_capacity(LOADS_AHEAD);
        for k in 0..loads.len() + LOADS_AHEAD {
            // A tile's bytes are taken again by the load that many steps later, which runs beside what stands between.
            if let Some(&(n, tiles)) = loads.get(k) {
                let s = &deal[n];
                let moving = match lying.get(n) {
                    Some(rows) => self.turned(rows, s, w.members.1, tiles)?,
                    None => self.hold(&dot.moving, s, w.members, tiles, w.columns)?,
                };
                let stationary = match fixed[n] {
                    Some(h) => Held { offset: h.offset + tiles.0 as i64 * h.tile, ..h },
                    None => self.hold(&dot.stationary, s, w.members, tiles, w.rows)?,
                };
                ahead.push_back((moving, stationary, tiles.1 - tiles.0));
            }
            if k < LOADS_AHEAD {
                continue;
            }
            let Some((moving, stationary, tiles)) = ahead.pop_front() else { break };
            for t in 0..tiles {
                let stop = ahead.is_empty() && t + 1 == tiles;
                for bank in &mut banks {
                    self.multiply(bank, &stationary, &moving, t, stop);
                }
            }
        }
        Ok(banks)
    }

    /// The banks of a group, row tile by row tile.
    fn banks(&mut self, g: &Grouping, w: Window) -> Banks {
        let mut out = Banks::new();
        let mut r = 0;
        while r < w.rows.1 {
            let tile = (r, w.rows.1.min(r + ROW_TILE));
            let mut b = 0;
            while b < w.members.1 {
                let shared = (b, w.members.1.min(b + g.in_bank));
                let mut c = 0;
                while c < w.columns.1 {
                    let span = (c, w.columns.1.min(c + BANK));
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
    fn multiply(&mut self, bank: &mut Bank, stationary: &Held, moving: &Held, tile: u64, stop: bool) {
        let columns = bank.columns.1 - bank.columns.0;
        let rows = bank.rows.1 - bank.rows.0;
        for b in bank.members.0..bank.members.1 {
            let at = |h: &Held, first: u64| b as i64 * h.batch + tile as i64 * h.tile + first as i64 * h.free;
            let w = at(stationary, bank.rows.0);
            let x = at(moving, bank.columns.0);
            let flags = !bank.started as u8 | (stop as u8) << 1;
            bank.started = true;
            let operands = [
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
    fn evacuate(&mut self, dot: &Dot, banks: &[Bank], home: &Home, w: Window) -> Lowered<()> {
        let dtype = self.dtype(dot.ty)?;
        let (members, columns) = (w.members.1, w.columns.1);
        let mut k = 0;
        while k < banks.len() {
            let rows = banks[k].rows;
            let n = banks[k..].iter().take_while(|b| b.rows == rows).count();
            let (parts, free) = (rows.1 - rows.0, members * columns);
            let of_tile = if home.in_sbuf { dot.columns } else { columns };
            let tile = match home.in_sbuf {
                true => home.loc,
                false => self.tile(dtype, Layout { parts, free })?,
            };
            let run_time_column = match home.in_sbuf {
                true => run_time(&[(w.members.0, dot.columns as i64), (w.columns.0, 1)]),
                false => Default::default(),
            };
            for bank in &banks[k..k + n] {
                let cells = (bank.members.1 - bank.members.0) * (bank.columns.1 - bank.columns.0);
                let mut first = bank.members.0 * of_tile + bank.columns.0;
                if home.in_sbuf {
                    first += w.members.0.fixed * of_tile + w.columns.0.fixed;
                }
                let elems = self.facts(tile).part_elems as i32;
                let pattern = ApPattern::of([(elems, parts as u32), (1, cells as u32)]);
                let target = self.access(tile, first as u32, pattern, AccessMode::Store);
                let source = self.bank_part(bank, 0, cells, AccessMode::Load);
                if run_time_column.is_static() {
                    let operands = [target, source];
                    self.node(NodeKind::Elementwise, HloOp::Convert, 0, 0, operands, NodeScalars::default());
                } else {
                    let kind = NodeKind::TensorCopyDynamicDst;
                    self.dynamic_node(kind, target, source, run_time_column.clone());
                }
            }
            if !home.in_sbuf {
                let dims = |member: i64, row: i64| smallvec![(members, member), (parts, row), (columns, 1)];
                let source =
                    View { loc: tile, ty: dot.ty, offset: 0, dims: dims(columns as i64, free as i64) };
                let (all_rows, all) = (dot.rows as i64, dot.columns as i64);
                let row = (w.rows.0.fixed + rows.0) as i64;
                let at = (w.members.0.fixed as i64 * all_rows + row) * all + w.columns.0.fixed as i64;
                let target = View { loc: home.loc, ty: dot.ty, offset: at, dims: dims(all_rows * all, all) };
                let dynamic = run_time(&[(w.members.0, all_rows * all), (w.rows.0, all), (w.columns.0, 1)]);
                match dynamic.is_static() {
                    true => self.dma_copy(&target, &source)?,
                    false => {
                        self.dynamic_dma(NodeKind::TensorCopyDynamicDst, &target, &source, dynamic)?;
                    }
                }
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
    fn long_walks_are_rolled_in_even_steps() {
        let of = |batch, k, rows, columns, limit| {
            let v = |n| View::whole(LocId(0), murre_components::dtype::HloType::Bf16, &[batch, k, n]);
            let ty = murre_components::dtype::HloType::Bf16;
            let (stationary, moving) = (v(rows), v(columns));
            let result = smallvec![batch, rows, columns];
            let none = Turning { stationary: false, moving: false, columns: u64::MAX, identity: LocId::NONE };
            let w = walk(&Dot { stationary, moving, batch, k, rows, columns, ty, result }, limit, &none);
            (w.group.columns, w.rolled)
        };
        assert_eq!(of(1, 4096, 1, 11_008, 1024), (4096, [false; 3]));
        assert_eq!(of(1, 4096, 1, 11_008, 256), (2752, [false, false, true]));
        assert_eq!(of(1, 4096, 1, 32_000, 1024), (4000, [false, false, true]));
        assert_eq!(of(1, 4096, 1, 50_021, 1024), (4096, [false, false, true]), "a prime keeps a rest");
        assert_eq!(of(1, 4096, 2048, 4096, 512), (1024, [false, true, true]));
        assert_eq!(of(4096, 128, 1, 128, 1024).1, [true, false, false]);
    }

    #[test]
    fn groups_fill_the_banks() {
        let g = |members, row_tiles, columns, in_bank| Grouping { members, row_tiles, columns, in_bank };
        assert_eq!(grouping(1, 1, 11_008, BANKS, 4), g(1, 1, 4096, 1));
        assert_eq!(grouping(1, 2048, 4096, BANKS, 4), g(1, 4, 1024, 1));
        assert_eq!(grouping(32, 1, 128, BANKS, 4), g(32, 1, 128, 4));
        assert_eq!(grouping(3, 300, 100, BANKS, 4), g(3, 3, 100, 3));
        assert_eq!(grouping(1, 1, 1, BANKS, 4), g(1, 1, 1, 1));
        assert_eq!(grouping(1000, 1, 511, BANKS, 4), g(8, 1, 511, 1));
    }
}
