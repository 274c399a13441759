//! Operands that lie the wrong way round, turned on the PE array.
//!
//! In: a matrix whose rows lie along the contraction. Out: tiles with the contraction on partitions, as
//! [`super::dot_operand`] would hold them. The rows are loaded as they lie, with long runs; 128 of them at a time are the
//! stationary operand of a transposing multiplication with an identity (exact from gen3 on, `spec/isa_compute.md 3.4`); a
//! bank of results is cast back on its way to SBUF. A DMA that turned them would move an element or a few at a time.

use super::dot_operand::{Held, Reach, Segment, Span};
use super::lower::{Lower, Lowered};
use super::rolled::At;
use super::view::{Layout, View};
use murre_components::bir::{ApPattern, Space};
use murre_components::dtype::{DType, HloType};
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeScalars};
use murre_components::program::VarKind;
use smallvec::smallvec;

/// Columns of the result of one transposing multiplication.
const SQUARE: u64 = 128;
/// fp32 cells of a PSUM bank on a partition.
const BANK: u64 = 512;
/// Matrices of fewer elements are turned by their DMA.
const LEAST: u64 = 64 * 1024;
/// Runs of a DMA that turns are as long as this at least, bytes.
const RUN_BYTES: u64 = 512;
/// Bytes of a partition for rows as they lie.
const ROWS_BYTES: u64 = 48 * 1024;

/// Rows as they lie, `SQUARE` at a time, member by member.
pub struct Rows {
    tiles: Vec<Held>,
    /// Rows of a member.
    count: u64,
    identity: LocId,
}

impl Lower<'_> {
    /// Whether an operand (batch, contraction, free) should be turned on the array.
    pub fn suits_turning(&self, v: &View, segments: &[Segment]) -> bool {
        let [(batch, _), (k, along), (free, between)] = [v.dims[0], v.dims[1], v.dims[2]];
        let bytes = v.ty.bytes() as u64;
        let longest = segments.iter().map(|s| s.tiles).max().unwrap_or(1);
        self.transposes
            && along == 1
            && between >= k as i64
            && free >= 32
            && k >= 32
            && batch * k * free >= LEAST
            && longest * bytes < RUN_BYTES
            && k * bytes <= ROWS_BYTES
    }

    /// How many rows of so long a contraction are loaded at once.
    pub fn turned_at_once(&self, v: &View) -> u64 {
        (ROWS_BYTES / (v.dims[1].0 * v.ty.bytes() as u64)).max(1) * SQUARE
    }

    /// Loads the rows of some members.
    pub fn rows_of(&mut self, v: &View, s: &Segment, b: Reach, c: Reach, identity: LocId) -> Lowered<Rows> {
        let [(_, sb), (_, sk), (free, sc)] = [v.dims[0], v.dims[1], v.dims[2]];
        let k = s.parts * s.tiles;
        let mut tiles = Vec::new();
        for member in 0..b.1 {
            let mut at = 0;
            while at < c.1 {
                let n = SQUARE.min(c.1 - at);
                // Where the rows begin takes the place of the batch, and the rows are what is dealt.
                let dims = smallvec![(free, sc), (n, sc), (k, sk)];
                let first = (b.0.fixed + member) as i64 * sb + s.start as i64 * sk;
                let rows = View { offset: v.offset + first, dims, ..v.clone() };
                let begin = At { fixed: c.0.fixed + at, iv: c.0.iv };
                let dealt = Segment { start: 0, parts: n, tiles: 1 };
                tiles.push(self.hold(&rows, &dealt, (begin, 1), (0, 1), (At::fixed(0), k))?);
                at += n;
            }
        }
        Ok(Rows { tiles, count: c.1, identity })
    }

    /// Turns tiles `j` of a segment: contraction on partitions, then tile, member, row.
    pub fn turned(&mut self, rows: &Rows, s: &Segment, members: u64, j: Span) -> Lowered<Held> {
        let Some(first) = rows.tiles.first() else {
            return self.refuse(&murre_components::diag::codes::lower::LOWER_LAYOUT, "no rows to turn");
        };
        let dtype = self.facts(first.loc).dtype;
        let free = (j.1 - j.0) * members * rows.count;
        let tile = self.tile(dtype, Layout { parts: s.parts, free })?;
        let (mut bank, mut used, mut done) = (LocId::NONE, 0, 0);
        for t in j.0..j.1 {
            for (k, h) in rows.tiles.iter().enumerate() {
                // Only the last tile of a member is narrower.
                let per_member = rows.count.div_ceil(SQUARE);
                let n = SQUARE.min(rows.count - (k as u64 % per_member) * SQUARE);
                if bank.is_none() || used + n > BANK {
                    self.empty_bank(tile, bank, s.parts, done, used);
                    done += used;
                    bank = self.new_loc(Space::Psum, VarKind::Internal, DType::F32, s.parts, BANK);
                    used = 0;
                }
                let cells = ApPattern::of([(BANK as i32, s.parts as u32), (1, n as u32)]);
                let unit = ApPattern::of([(SQUARE as i32, n as u32), (1, n as u32)]);
                let operands = [
                    self.access(bank, used as u32, cells, AccessMode::Store),
                    self.access(rows.identity, 0, unit, AccessMode::Load),
                    self.held(h, t as i64 * h.free, &[(s.parts, h.free * s.tiles as i64)], AccessMode::Load),
                ];
                // START and STOP; the sub-operation says that it transposes.
                self.node(NodeKind::DotTile, HloOp::Transpose, 1, 3, operands, NodeScalars::default());
                used += n;
            }
        }
        self.empty_bank(tile, bank, s.parts, done, used);
        let row = rows.count as i64;
        let loc = tile;
        Ok(Held { loc, parts: s.parts, offset: 0, batch: row, tile: row * members as i64, free: 1 })
    }

    fn empty_bank(&mut self, tile: LocId, bank: LocId, parts: u64, at: u64, cells: u64) {
        if bank.is_none() || cells == 0 {
            return;
        }
        let elems = self.facts(tile).part_elems as i32;
        let pattern = |step: i32| ApPattern::of([(step, parts as u32), (1, cells as u32)]);
        let operands = [
            self.access(tile, at as u32, pattern(elems), AccessMode::Store),
            self.access(bank, 0, pattern(BANK as i32), AccessMode::Load),
        ];
        self.node(NodeKind::Elementwise, HloOp::Convert, 0, 0, operands, NodeScalars::default());
    }

    /// A tile with the 128 x 128 identity.
    pub fn identity(&mut self, dtype: DType) -> Lowered<LocId> {
        let one: &[u8] = match dtype {
            DType::Bf16 => &[0x80, 0x3F],
            DType::F16 => &[0x00, 0x3C],
            _ => &[0x00, 0x00, 0x80, 0x3F],
        };
        let n = SQUARE as usize;
        let mut bytes = vec![0u8; n * n * one.len()];
        for k in 0..n {
            let at = (k * n + k) * one.len();
            bytes[at..at + one.len()].copy_from_slice(one);
        }
        let constant = self.constant(dtype, &bytes);
        let tile = self.tile(dtype, Layout { parts: SQUARE, free: SQUARE })?;
        let ty = match dtype {
            DType::Bf16 => HloType::Bf16,
            DType::F16 => HloType::F16,
            _ => HloType::F32,
        };
        let view = |loc| View::whole(loc, ty, &[SQUARE, SQUARE]);
        self.dma_copy(&view(tile), &view(constant))?;
        Ok(tile)
    }
}
