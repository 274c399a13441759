//! Operands of a dot in SBUF: the contraction (or the rows of a matrix) on partitions, everything else along them.
//!
//! A dimension of `parts * tiles` elements is dealt so that index `p * tiles + j` stands on partition `p` in tile `j`:
//! then what a partition holds is contiguous in memory, and a vector that elementwise operations left spread over
//! partitions is an operand as it stands. What does not divide is a segment of its own.

use super::lower::{Lower, Lowered};
use super::rolled::{At, run_time};
use super::view::{Dims, Layout, View};
use murre_components::bir::{ApPattern, Space};
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeOperand};
use smallvec::{SmallVec, smallvec};

/// Part of a dimension that is dealt over partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First index.
    pub start: u64,
    /// Partitions.
    pub parts: u64,
    /// Elements of the dimension on each partition.
    pub tiles: u64,
}

/// The segments of a dimension: a rest follows the main part.
pub type Segments = SmallVec<[Segment; 2]>;

/// Deals a dimension over at most 128 partitions: evenly where a divisor is large enough, else in a main part and a rest.
pub fn segments(n: u64) -> Segments {
    let parts = Layout::spread(&[n]).parts;
    if n <= 128 || parts >= 64 {
        return smallvec![Segment { start: 0, parts, tiles: n / parts }];
    }
    let main = n / 128 * 128;
    smallvec![
        Segment { start: 0, parts: 128, tiles: main / 128 },
        Segment { start: main, parts: n - main, tiles: 1 },
    ]
}

/// A half-open range.
pub type Span = (u64, u64);

/// Where a range begins, and its length.
pub type Reach = (At, u64);

/// An operand in SBUF: element `(p, b, j, c)` of its part stands on partition `p` at `offset + b * batch + j * tile +
/// c * free`.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The location.
    pub loc: LocId,
    /// Partitions.
    pub parts: u64,
    /// First element.
    pub offset: i64,
    /// Step of the batch.
    pub batch: i64,
    /// Step of the tile.
    pub tile: i64,
    /// Step of the free dimension.
    pub free: i64,
}

impl Lower<'_> {
    /// Brings a part of `v` (dimensions batch, dealt, free) to SBUF, with one DMA whose runs are as long as they are in
    /// memory; what already stands there suitably is used in place. Only a part in DRAM may begin at a run-time index.
    pub fn hold(&mut self, v: &View, s: &Segment, b: Reach, j: Span, c: Reach) -> Lowered<Held> {
        let [(_, sb), (_, sk), (_, sc)] = [v.dims[0], v.dims[1], v.dims[2]];
        let base = v.offset + b.0.fixed as i64 * sb + (s.start + j.0) as i64 * sk + c.0.fixed as i64 * sc;
        let across = (s.parts, sk * s.tiles as i64);
        let inner = [(b.1, sb), (j.1 - j.0, sk), (c.1, sc)];
        let dynamic = run_time(&[(b.0, sb), (c.0, sc)]);
        if dynamic.is_static()
            && let Some(held) = self.in_place(v.loc, base, across, inner)
        {
            return Ok(held);
        }
        // The order in memory, slowest first.
        let mut order = [0usize, 1, 2];
        order.sort_by_key(|d| (inner[*d].0 != 1, std::cmp::Reverse(inner[*d].1.unsigned_abs())));
        let mut steps = [0i64; 3];
        let mut step = 1i64;
        for &d in order.iter().rev() {
            steps[d] = step;
            step *= inner[d].0 as i64;
        }
        let dtype = self.dtype(v.ty)?;
        let loc = self.tile(dtype, Layout { parts: s.parts, free: step as u64 })?;
        let source = std::iter::once(across).chain(order.map(|d| inner[d])).collect();
        let target = std::iter::once((s.parts, step)).chain(order.map(|d| (inner[d].0, steps[d]))).collect();
        let target = View { loc, ty: v.ty, offset: 0, dims: target };
        let source = View { loc: v.loc, ty: v.ty, offset: base, dims: source };
        match dynamic.is_static() {
            true => self.dma_copy(&target, &source)?,
            false => self.dynamic_dma(NodeKind::TensorCopyDynamicSrc, &target, &source, dynamic)?,
        }
        let [batch, tile, free] = steps;
        Ok(Held { loc, parts: s.parts, offset: 0, batch, tile, free })
    }

    /// The part where it stands, if its dealt dimension is on partitions from the first on.
    fn in_place(&self, loc: LocId, base: i64, across: (u64, i64), inner: [(u64, i64); 3]) -> Option<Held> {
        let f = self.facts(loc);
        let elems = f.part_elems as i64;
        let reach: i64 = inner.iter().map(|(n, s)| (*n as i64 - 1) * s).sum();
        let suits = f.space == Space::Sbuf
            && (across.1 == elems || across.0 == 1)
            && across.0 <= f.parts
            && inner.iter().all(|(n, s)| *n == 1 || (0..32_768).contains(s))
            && base >= 0
            && base + reach < elems;
        let [batch, tile, free] = inner.map(|d| d.1);
        suits.then_some(Held { loc, parts: across.0, offset: base, batch, tile, free })
    }

    /// An engine operand of held elements: partition pair, then the given `(count, step)`s from `at` on.
    pub fn held(&self, h: &Held, at: i64, free: &[(u64, i64)], mode: AccessMode) -> NodeOperand {
        let elems = self.facts(h.loc).part_elems as i32;
        let mut pattern = ApPattern::of([(elems, h.parts as u32)]);
        let mut pairs: Dims = free.iter().copied().filter(|d| d.0 != 1).collect();
        if pairs.is_empty() {
            pairs.push((1, 1));
        }
        for (num, step) in pairs.into_iter().take(4) {
            pattern.0.push(murre_components::bir::ApPair { step: step as i32, num: num as u32 });
        }
        self.access(h.loc, (h.offset + at) as u32, pattern, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_dealt_evenly_or_with_a_rest() {
        let s = |start, parts, tiles| Segment { start, parts, tiles };
        assert_eq!(segments(4096)[..], [s(0, 128, 32)]);
        assert_eq!(segments(11_008)[..], [s(0, 128, 86)]);
        assert_eq!(segments(7)[..], [s(0, 7, 1)]);
        assert_eq!(segments(130)[..], [s(0, 65, 2)]);
        assert_eq!(segments(1009)[..], [s(0, 128, 7), s(896, 113, 1)]);
        assert_eq!(segments(50_257)[..], [s(0, 128, 392), s(50_176, 81, 1)]);
    }
}
