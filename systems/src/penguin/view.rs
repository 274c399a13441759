//! Strided views of locations. Broadcast, transpose, slice, reverse and most reshapes are views: no data moves until
//! an operator asks for a layout that the view does not have.

use arrayvec::ArrayVec;
use murre_components::bir::ApPattern;
use murre_components::dtype::HloType;
use murre_components::ids::LocId;
use smallvec::SmallVec;

/// `(extent, stride)` of each dimension. Few arrays have more than four.
pub type Dims = SmallVec<[(u64, i64); 4]>;

/// Extents.
pub type Sizes = SmallVec<[u64; 4]>;

/// A logical array on a location: element `i` stands at `offset + sum(i_d * stride_d)` of the location's element space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The location.
    pub loc: LocId,
    /// Element type.
    pub ty: HloType,
    /// First element.
    pub offset: i64,
    /// `(extent, stride)` of each logical dimension.
    pub dims: Dims,
}

/// Row-major strides of `dims`.
pub fn row_major(dims: &[u64]) -> Dims {
    let mut stride = 1i64;
    let mut out: Dims = dims.iter().map(|d| (*d, 0)).collect();
    for d in out.iter_mut().rev() {
        d.1 = stride;
        stride = stride.saturating_mul(d.0 as i64);
    }
    out
}

/// Drops dimensions of extent 1 and merges neighbours that walk as one.
pub fn merged(dims: &[(u64, i64)]) -> Dims {
    let mut out = Dims::new();
    dims.iter().for_each(|d| merge(&mut out, *d));
    out
}

/// Adds a dimension behind merged ones.
#[inline]
fn merge(out: &mut Dims, (n, s): (u64, i64)) {
    if n == 1 {
        return;
    }
    match out.last_mut() {
        Some((m, t)) if *t == s * n as i64 => (*m, *t) = (*m * n, s),
        _ => out.push((n, s)),
    }
}

impl View {
    /// A whole location, row-major.
    pub fn whole(loc: LocId, ty: HloType, dims: &[u64]) -> View {
        View { loc, ty, offset: 0, dims: row_major(dims) }
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().map(|d| d.0).product()
    }

    /// Extents.
    pub fn extents(&self) -> Sizes {
        self.dims.iter().map(|d| d.0).collect()
    }

    /// Whether the elements are `offset, offset + 1, ...` in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.dims.iter().rev().filter(|d| d.0 != 1).all(|(n, s)| {
            let follows = *s == step;
            step = s * *n as i64;
            follows
        })
    }

    /// HLO broadcast: operand dimension `k` becomes result dimension `map[k]`.
    pub fn broadcast(&self, map: &[i64], result: &[u64]) -> View {
        let mut dims: Dims = result.iter().map(|n| (*n, 0)).collect();
        for (k, &d) in map.iter().enumerate() {
            dims[d as usize].1 = self.dims[k].1;
        }
        View { dims, ..self.clone() }
    }

    /// HLO transpose: result dimension `k` is operand dimension `permutation[k]`.
    pub fn transpose(&self, permutation: &[i64]) -> View {
        View { dims: permutation.iter().map(|d| self.dims[*d as usize]).collect(), ..self.clone() }
    }

    /// Sub-array with strides.
    pub fn slice(&self, start: &[i64], limit: &[i64], stride: &[i64]) -> View {
        let mut v = self.clone();
        for (d, dim) in v.dims.iter_mut().enumerate() {
            // Of one element the step does not matter, however large it is.
            let length = limit.get(d).copied().unwrap_or(0) - start.get(d).copied().unwrap_or(0);
            let step = stride.get(d).copied().unwrap_or(1).clamp(1, length.max(1));
            v.offset += start[d] * dim.1;
            let length = (limit[d] - start[d]).max(0);
            *dim = (((length + step - 1) / step) as u64, dim.1 * step);
        }
        v
    }

    /// Reverses dimensions.
    pub fn reverse(&self, which: &[i64]) -> View {
        let mut v = self.clone();
        for &d in which {
            let (n, s) = v.dims[d as usize];
            v.offset += s * (n.max(1) as i64 - 1);
            v.dims[d as usize].1 = -s;
        }
        v
    }

    /// The same elements in row-major order under other extents, where strides can say it.
    pub fn reshape(&self, extents: &[u64]) -> Option<View> {
        let mut groups = merged(&self.dims).into_iter();
        let mut current = groups.next();
        let mut dims = Dims::with_capacity(extents.len());
        // From the outside in: every new dimension is cut off the front of the current merged dimension.
        for &n in extents {
            if n == 1 {
                dims.push((1, 0));
                continue;
            }
            let (have, stride) = current?;
            if have % n != 0 {
                return None;
            }
            let inner = have / n;
            dims.push((n, stride * inner as i64));
            current = if inner == 1 { groups.next() } else { Some((inner, stride)) };
        }
        if current.is_some() { None } else { Some(View { dims, ..self.clone() }) }
    }
}

/// A layout in SBUF: `parts` partitions of `free` elements, row-major; the outer part of the logical dimensions is the
/// partition index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Layout {
    pub parts: u64,
    pub free: u64,
}

/// Largest tensor that is laid out along one partition, elements.
pub const FLAT_ELEMENTS: u64 = 512;

impl Layout {
    /// One partition.
    pub fn flat(elements: u64) -> Layout {
        Layout { parts: 1, free: elements.max(1) }
    }

    /// The layout that a fresh tensor of these extents gets: one partition when small, else spread.
    pub fn choose(extents: &[u64]) -> Layout {
        let n: u64 = extents.iter().product::<u64>().max(1);
        if n <= FLAT_ELEMENTS { Layout::flat(n) } else { Layout::spread(extents) }
    }

    /// The largest split of leading dimensions (the last dividing one cut) that has at most 128 partitions.
    pub fn spread(extents: &[u64]) -> Layout {
        let n: u64 = extents.iter().product::<u64>().max(1);
        let mut best = 1;
        let mut prefix = 1;
        for &d in extents {
            for a in (1..=d.min(128 / prefix)).rev() {
                if d % a == 0 {
                    best = best.max(prefix * a);
                    break;
                }
            }
            prefix *= d;
            if prefix > 128 {
                break;
            }
        }
        Layout { parts: best, free: n / best }
    }
}

/// Cuts the dimensions of `dims` so that the first ones have exactly `parts` elements together.
pub fn split_at(dims: &[(u64, i64)], parts: u64) -> Option<(Dims, Dims)> {
    let (mut outer, mut inner) = (Dims::new(), Dims::new());
    split(dims, parts, |d| outer.push(d), |d| inner.push(d))?;
    Some((outer, inner))
}

/// Hands the dimensions of [`split_at`] out one by one.
#[inline]
fn split(
    dims: &[(u64, i64)],
    parts: u64,
    mut outer: impl FnMut((u64, i64)),
    mut inner: impl FnMut((u64, i64)),
) -> Option<()> {
    let mut left = parts;
    for &(n, s) in dims {
        if left == 1 {
            inner((n, s));
        } else if left.is_multiple_of(n) {
            outer((n, s));
            left /= n;
        } else if n.is_multiple_of(left) {
            outer((left, s * (n / left) as i64));
            inner((n / left, s));
            left = 1;
        } else {
            return None;
        }
    }
    (left == 1).then_some(())
}

/// An engine operand for a result of `parts` partitions: the partition pair and at most `slots` free pairs. `None`
/// where the view is not partition-compatible and must be copied first. `part_elems` is the location's.
pub fn engine_pattern(
    view: &View,
    location_parts: u64,
    part_elems: u64,
    parts: u64,
    slots: usize,
) -> Option<(u32, ApPattern)> {
    let (mut outer, mut inner) = (Dims::new(), Dims::new());
    split(&view.dims, parts, |d| merge(&mut outer, d), |d| merge(&mut inner, d))?;
    let first_partition = view.offset.div_euclid(part_elems as i64);
    match outer.as_slice() {
        [] => {}
        [(n, s)] if *s == part_elems as i64 && first_partition as u64 + n <= location_parts => {}
        _ => return None,
    }
    // A start partition that the count does not allow (spec/isa_compute.md 2.6) needs a copy.
    let legal = match parts {
        65.. => first_partition == 0,
        33..=64 => first_partition == 0 || first_partition == 64,
        _ => matches!(first_partition, 0 | 32 | 64 | 96),
    };
    let (mut low, mut high) =
        (view.offset.rem_euclid(part_elems as i64), view.offset.rem_euclid(part_elems as i64));
    for (n, s) in &inner {
        let reach = s * (*n as i64 - 1);
        if reach < 0 { low += reach } else { high += reach }
    }
    let fits = legal
        && inner.len() <= slots
        && low >= 0
        && high < part_elems as i64
        && inner.iter().all(|(n, s)| *n <= 65_535 && (-32_768..=32_767).contains(s));
    if !fits || view.offset < 0 {
        return None;
    }
    let mut pairs: ArrayVec<(i32, u32), 5> = ArrayVec::new();
    pairs.push((part_elems as i32, parts as u32));
    if inner.is_empty() {
        pairs.push((1, 1));
    }
    for (n, s) in inner {
        pairs.push((s as i32, n as u32));
    }
    Some((view.offset as u32, ApPattern::new(pairs)?))
}

/// One side of a DMA: whether steps that are multiples of `part_elems` cross partitions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct DmaSide {
    /// `Some(part_elems)` in SBUF, `None` in DRAM.
    pub part_elems: Option<u64>,
}

impl DmaSide {
    fn crosses(self, step: i64) -> bool {
        self.part_elems.is_some_and(|f| step != 0 && step % f as i64 == 0)
    }
}

/// Extent and strides of both sides, of each common dimension.
pub type DmaDims = SmallVec<[(u64, i64, i64); 5]>;

/// The common dimensions of a DMA between two views of equal extents: each pair crosses partitions of a side wholly
/// or not at all, neighbours are merged where both sides allow it. `None` if a dimension straddles a partition border.
pub fn dma_dims(source: &View, source_side: DmaSide, target: &View, target_side: DmaSide) -> Option<DmaDims> {
    let pairs = source.dims.iter().zip(&target.dims);
    let mut dims: DmaDims = pairs.filter(|(s, _)| s.0 != 1).map(|(s, t)| (s.0, s.1, t.1)).collect();
    for (side, pick) in [(source_side, 0), (target_side, 1)] {
        let Some(f) = side.part_elems else { continue };
        let mut cut = DmaDims::with_capacity(dims.len() + 1);
        for (n, s, t) in dims {
            let step = if pick == 0 { s } else { t };
            let magnitude = step.unsigned_abs();
            if magnitude == 0 || magnitude % f == 0 || magnitude * (n - 1) < f {
                cut.push((n, s, t));
                continue;
            }
            // Elements of one partition first: the step divides the partition.
            if f % magnitude != 0 || n % (f / magnitude) != 0 {
                return None;
            }
            let inner = f / magnitude;
            cut.push((n / inner, s * inner as i64, t * inner as i64));
            cut.push((inner, s, t));
        }
        dims = cut;
        // What does not cross must stay inside the partition from wherever it starts.
        let offset = if pick == 0 { source.offset } else { target.offset };
        let start = offset.rem_euclid(f as i64);
        let (mut low, mut high) = (start, start);
        for (n, s, t) in &dims {
            let step = if pick == 0 { *s } else { *t };
            if !side.crosses(step) {
                let reach = step * (*n as i64 - 1);
                if reach < 0 { low += reach } else { high += reach }
            }
        }
        if low < 0 || high >= f as i64 {
            return None;
        }
    }
    let mut out = DmaDims::new();
    for (n, s, t) in dims {
        match out.last_mut() {
            Some((m, ms, mt))
                if *ms == s * n as i64
                    && *mt == t * n as i64
                    && source_side.crosses(*ms) == source_side.crosses(s)
                    && target_side.crosses(*mt) == target_side.crosses(t) =>
            {
                *m *= n;
                *ms = s;
                *mt = t;
            }
            _ => out.push((n, s, t)),
        }
    }
    if out.is_empty() {
        out.push((1, 1, 1));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(dims: &[u64]) -> View {
        View::whole(LocId(0), HloType::F32, dims)
    }

    #[test]
    fn reshape_splits_and_merges() {
        let x = v(&[4, 6]);
        assert_eq!(x.reshape(&[2, 2, 3, 2]).unwrap().dims[..], [(2, 12), (2, 6), (3, 2), (2, 1)]);
        assert!(x.transpose(&[1, 0]).reshape(&[24]).is_none());
        assert_eq!(x.transpose(&[1, 0]).reshape(&[3, 2, 4]).unwrap().dims[..], [(3, 2), (2, 1), (4, 6)]);
        assert_eq!(v(&[]).broadcast(&[], &[5]).dims[..], [(5, 0)]);
        assert_eq!(v(&[]).broadcast(&[], &[5]).reshape(&[5, 1]).unwrap().dims[..], [(5, 0), (1, 0)]);
    }

    #[test]
    fn slice_and_reverse_compose() {
        let x = v(&[10]).slice(&[2], &[9], &[3]).reverse(&[0]);
        assert_eq!((x.offset, &x.dims[..]), (8, &[(3, -3)][..]));
    }

    #[test]
    fn layouts_divide_leading_dimensions() {
        assert_eq!(Layout::choose(&[12, 8]), Layout { parts: 1, free: 96 });
        assert_eq!(Layout::choose(&[20, 20, 64]), Layout { parts: 100, free: 256 });
        assert_eq!(Layout::choose(&[1000, 64]), Layout { parts: 125, free: 512 });
        assert_eq!(Layout::choose(&[1009]), Layout { parts: 1, free: 1009 });
    }

    #[test]
    fn a_dma_dimension_is_cut_at_the_partition_border() {
        let flat = DmaSide { part_elems: Some(96) };
        let tall = DmaSide { part_elems: Some(8) };
        let (line, rows) = (v(&[96]), v(&[12, 8]));
        let d = dma_dims(&line, flat, &line, tall).unwrap();
        assert_eq!(d[..], [(12, 8, 8), (8, 1, 1)]);
        let back = dma_dims(&rows, tall, &rows, flat).unwrap();
        assert_eq!(back[..], [(12, 8, 8), (8, 1, 1)]);
        let dram = DmaSide { part_elems: None };
        assert_eq!(dma_dims(&rows, dram, &rows, flat).unwrap()[..], [(96, 1, 1)]);
    }

    #[test]
    fn a_short_run_that_starts_late_in_a_partition_straddles() {
        let tall = DmaSide { part_elems: Some(8) };
        let dram = DmaSide { part_elems: None };
        let inside = v(&[96]).slice(&[4], &[8], &[]);
        let across = v(&[96]).slice(&[6], &[10], &[]);
        let target = v(&[4]);
        assert!(dma_dims(&inside, tall, &target, dram).is_some());
        assert!(dma_dims(&across, tall, &target, dram).is_none());
    }

    #[test]
    fn engine_patterns_need_the_partition_stride() {
        let x = v(&[4, 6]);
        let (o, p) = engine_pattern(&x, 4, 6, 4, 3).unwrap();
        assert_eq!((o, p.0.as_slice()[0].step, p.0.len()), (0, 6, 2));
        assert!(engine_pattern(&x.transpose(&[1, 0]), 4, 6, 6, 3).is_none());
        assert!(engine_pattern(&v(&[6]).broadcast(&[1], &[4, 6]), 1, 6, 4, 3).is_none());
        assert!(engine_pattern(&v(&[6]).broadcast(&[1], &[4, 6]), 1, 6, 1, 3).is_some());
    }
}
