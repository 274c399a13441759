//! Reductions over any dimensions: the kept dimensions on partitions and outside, the reduced ones innermost. A long
//! reduction to one element runs in two steps, over partitions and then along one.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES, extents};
use super::tiling::PIECE_BYTES;
use super::view::{Dims, Layout, Sizes, View, engine_pattern, merged, row_major, split_at};
use crate::legalize::region::{monoid, reduces_natively};
use murre_components::bir::{ApPattern, Space};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloOp};
use murre_components::penguin::{AccessMode, NodeKind, NodeOperand, NodeScalars};

/// Reductions of more elements than this to one element are split over partitions.
const LONG: u64 = 1024;

impl Lower<'_> {
    /// Lowers a one-operand reduction.
    pub fn reduce(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Dimensions(reduced)) = (inst.shape().array(), inst.attrs()) else {
            return self
                .refuse(&codes::LOWER_UNSUPPORTED_OP, "a reduction of several operands is not lowered");
        };
        let ty = shape.ty;
        let by = inst.called().first().copied();
        let known = by.filter(|by| reduces_natively(self.module, *by, ty));
        let Some(op) = known.and_then(|by| monoid(self.module, by)) else {
            return self.refuse(
                &codes::LOWER_UNSUPPORTED_OP,
                format!("a reduction of {} by this computation is not lowered", ty.name()),
            );
        };
        let result = extents(shape);
        let source = self.as_view(leaves[0])?;
        if source.elements() == 0 {
            let init = super::elementwise::broadcast_scalar(leaves[1], &result);
            return Ok(init);
        }
        let is_reduced = |d: usize| reduced.contains(&(d as i64));
        let kept: Vec<_> =
            (0..source.dims.len()).filter(|d| !is_reduced(*d)).map(|d| source.dims[d]).collect();
        let inner: Vec<_> =
            (0..source.dims.len()).filter(|d| is_reduced(*d)).map(|d| source.dims[d]).collect();
        let ordered = View { dims: kept.iter().chain(&inner).copied().collect(), ..source };
        let folded = if ty.is_int() {
            self.reduce_halving(op, &ordered, kept.len(), &result)?
        } else {
            self.reduce_sized(op, &ordered, kept.len(), &result)?
        };
        self.with_initial(op, folded, leaves[1], ty, &result)
    }

    /// Reduces 32-bit integers exactly: the reduction record works in fp32, so the reduced elements are combined
    /// half with half by the integer operators.
    fn reduce_halving(&mut self, op: HloOp, v: &View, kept: usize, result: &[u64]) -> Lowered<Leaf> {
        let mut dims: Vec<u64> = v.dims[..kept].iter().map(|d| d.0).collect();
        let count: u64 = v.dims[kept..].iter().map(|d| d.0).product();
        dims.push(count);
        let mut rest = match v.reshape(&dims) {
            Some(flat) => flat,
            None => {
                let dense = self.compact(v)?;
                View { dims: row_major(&dims), ..dense }
            }
        };
        let part = |v: &View, from: u64, to: u64| {
            let mut start = vec![0; dims.len()];
            let mut limit: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
            (start[kept], limit[kept]) = (from as i64, to as i64);
            Leaf::View(v.slice(&start, &limit, &[]))
        };
        let mut n = count;
        while n > 1 {
            let half = n / 2;
            let (a, b) = (part(&rest, 0, half), part(&rest, half, 2 * half));
            let mut halved = dims.clone();
            halved[kept] = half;
            let mut folded = self.emit(op, 0, &[&a, &b], v.ty, &halved)?;
            if n % 2 == 1 {
                // The odd one out joins the first of the folded half.
                let last = part(&rest, n - 1, n);
                let mut one = dims.clone();
                one[kept] = 1;
                let joined = match &folded {
                    Leaf::View(f) => {
                        let first = part(f, 0, 1);
                        self.emit(op, 0, &[&first, &last], v.ty, &one)?
                    }
                    _ => break,
                };
                if half == 1 {
                    folded = joined;
                } else if let (Leaf::View(f), Leaf::View(j)) = (&folded, &joined) {
                    let mut start = vec![0; dims.len()];
                    let mut limit: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
                    (start[kept], limit[kept]) = (0, 1);
                    let target = f.slice(&start, &limit, &[]);
                    self.dma_copy(&target, j)?;
                }
            }
            match folded {
                Leaf::View(f) => rest = f,
                other => return Ok(other),
            }
            n = half;
        }
        match Leaf::View(View { dims: Dims::from_slice(&rest.dims[..kept]), ..rest }).reshaped(result) {
            Some(leaf) => Ok(leaf),
            None => self.refuse(&codes::LOWER_LAYOUT, "a reduction's result has no view"),
        }
    }

    /// Reduces the dimensions of `v` from `kept` on, in pieces where a partition's share is too large: over the kept
    /// dimensions where one result's elements fit, else over the halves of a reduced one.
    fn reduce_sized(&mut self, op: HloOp, v: &View, kept: usize, result: &[u64]) -> Lowered<Leaf> {
        let most = TILE_BYTES / self.dtype(v.ty)?.bytes() as u64;
        let inner: Vec<u64> = v.dims[kept..].iter().map(|d| d.0).collect();
        let (count, outputs): (u64, u64) = (inner.iter().product(), result.iter().product());
        let share = if outputs == 1 && count > LONG {
            Layout::choose(&inner).free
        } else {
            Self::reduced_layout(outputs, count, result).free * count
        };
        if share <= most {
            return self.reduce_inner(op, v, kept, result);
        }
        if outputs > 1 && count <= most {
            let piece = (PIECE_BYTES / self.dtype(v.ty)?.bytes() as u64 / count).max(1);
            return self.in_pieces(v.ty, result, piece, |this, part| {
                let (mut start, mut limit) = (vec![0i64; v.dims.len()], Vec::with_capacity(v.dims.len()));
                limit.extend(v.dims.iter().map(|d| d.0 as i64));
                for (d, (s, n)) in part.start.iter().zip(&part.size).enumerate() {
                    (start[d], limit[d]) = (*s as i64, (s + n) as i64);
                }
                this.reduce_sized(op, &v.slice(&start, &limit, &[]), kept, &part.size)
            });
        }
        let Some(d) = (kept..v.dims.len()).find(|d| v.dims[*d].0 > 1) else {
            return self.reduce_inner(op, v, kept, result);
        };
        let n = v.dims[d].0;
        // A multiple of 128 in front, so that the halves have good layouts.
        let half = if n > 256 { (n / 2).next_multiple_of(128) } else { n / 2 };
        let mut folded = Vec::with_capacity(2);
        for (from, to) in [(0, half), (half, n)] {
            let mut start = vec![0i64; v.dims.len()];
            let mut limit: Vec<i64> = v.dims.iter().map(|d| d.0 as i64).collect();
            (start[d], limit[d]) = (from as i64, to as i64);
            folded.push(self.reduce_sized(op, &v.slice(&start, &limit, &[]), kept, result)?);
        }
        self.emit(op, 0, &[&folded[0], &folded[1]], v.ty, result)
    }

    /// Layout of a reduction's result. Many elements: the kept dimensions go on partitions, so that each partition
    /// holds its own rows.
    fn reduced_layout(outputs: u64, count: u64, result: &[u64]) -> Layout {
        if outputs * count <= 2 * LONG { Layout::choose(result) } else { Layout::spread(result) }
    }

    /// Reduces the dimensions of `v` from `kept` on.
    fn reduce_inner(&mut self, op: HloOp, v: &View, kept: usize, result: &[u64]) -> Lowered<Leaf> {
        let count: u64 = v.dims[kept..].iter().map(|d| d.0).product();
        let outputs: u64 = v.dims[..kept].iter().map(|d| d.0).product();
        if outputs == 1 && count > LONG {
            let inner: Vec<u64> = v.dims[kept..].iter().map(|d| d.0).collect();
            let layout = Layout::choose(&inner);
            if layout.parts > 1 {
                let tile = self.materialize(
                    &Leaf::View(View { dims: Dims::from_slice(&v.dims[kept..]), ..v.clone() }),
                    layout,
                )?;
                let rows = View::whole(tile, v.ty, &[layout.parts, layout.free]);
                let partial =
                    self.reduce_tile(op, &rows, 1, Layout { parts: layout.parts, free: 1 }, &[layout.parts])?;
                let Leaf::View(column) = partial else { return Ok(partial) };
                return self.reduce_tile(op, &column, 0, Layout::flat(1), result);
            }
        }
        let layout = Self::reduced_layout(outputs, count, result);
        if let Some(parts) = self.sum_in_parts(op, v, kept) {
            let mut partial: Vec<u64> = result.to_vec();
            partial.push(parts.dims[kept].0);
            let wide = Layout { parts: layout.parts, free: layout.free * parts.dims[kept].0 };
            let Leaf::View(sums) = self.reduce_tile(op, &parts, kept + 1, wide, &partial)? else {
                return self.refuse(&codes::LOWER_LAYOUT, "a reduction has no pattern");
            };
            let kept_dims = &sums.dims[..sums.dims.len() - 1];
            let dims = kept_dims.iter().chain(sums.dims.last()).copied().collect();
            return self.reduce_tile(op, &View { dims, ..sums.clone() }, kept_dims.len(), layout, result);
        }
        self.reduce_tile(op, v, kept, layout, result)
    }

    /// An f32 sum along one line as sums of parts: a record adds from left to right, so that rounding errors grow with the
    /// number of elements; in two steps they grow with its square root. The line becomes two dimensions.
    fn sum_in_parts(&self, op: HloOp, v: &View, kept: usize) -> Option<View> {
        let [(n, step)] = merged(&v.dims[kept..])[..] else { return None };
        if op != HloOp::Add || v.ty != HloType::F32 || n < 16 {
            return None;
        }
        let root = (n as f64).sqrt() as u64;
        let inner = (root / 2..=2 * root).filter(|k| *k > 1 && n % k == 0).min_by_key(|k| k + n / k)?;
        let mut dims = Dims::from_slice(&v.dims[..kept]);
        dims.extend([(n / inner, step * inner as i64), (inner, step)]);
        Some(View { dims, ..v.clone() })
    }

    /// Emits the reduction node, copying the source first where its view does not suit.
    fn reduce_tile(
        &mut self,
        op: HloOp,
        v: &View,
        kept: usize,
        layout: Layout,
        result: &[u64],
    ) -> Lowered<Leaf> {
        let (source, pairs) = match self.reduce_operand(v, kept, layout) {
            Some(found) => found,
            None => {
                let count: u64 = v.dims[kept..].iter().map(|d| d.0).product();
                let tile_layout = Layout { parts: layout.parts, free: layout.free * count };
                let tile = self.copy_to_tile(&Leaf::View(v.clone()), tile_layout)?;
                let dense = View { loc: tile, ty: v.ty, offset: 0, dims: row_major(&v.extents()) };
                match self.reduce_operand(&dense, kept, layout) {
                    Some(found) => found,
                    None => return self.refuse(&codes::LOWER_LAYOUT, "a reduction has no pattern"),
                }
            }
        };
        let float = v.ty.is_float();
        let reduced = |this: &mut Self, op: HloOp, source: NodeOperand, pairs: u32, ty| -> Lowered<_> {
            let loc = this.tile(ty, layout)?;
            let target = this.whole_tile(loc, AccessMode::Store);
            let scalars = NodeScalars { imm: pairs, ..Default::default() };
            this.node(NodeKind::Reduce, op, 0, 0, [target, source], scalars);
            Ok(loc)
        };
        let dtype = self.dtype(v.ty)?;
        let loc = reduced(self, op, source.clone(), pairs, dtype)?;
        let folded = self.whole_view(loc, v.ty, result);
        if !(float && matches!(op, HloOp::Maximum | HloOp::Minimum)) {
            return Ok(folded);
        }
        // The machine's max and min lose a NaN on the left: find NaNs apart and put one where any was.
        let dims = v.extents();
        let leaf = Leaf::View(v.clone());
        let is_nan = self.emit(HloOp::Compare, Direction::Ne as u8, &[&leaf, &leaf], HloType::Pred, &dims)?;
        let any = match is_nan {
            Leaf::View(mask) => {
                let tile_layout = Layout { parts: layout.parts, free: mask.elements() / layout.parts };
                let tile = self.materialize(&Leaf::View(mask.clone()), tile_layout)?;
                let dense = View { loc: tile, ty: HloType::Pred, offset: 0, dims: row_major(&dims) };
                match self.reduce_operand(&dense, kept, layout) {
                    Some((source, pairs)) => {
                        let u8s = self.dtype(HloType::Pred)?;
                        let loc = reduced(self, HloOp::Maximum, source, pairs, u8s)?;
                        self.whole_view(loc, HloType::Pred, result)
                    }
                    None => return self.refuse(&codes::LOWER_LAYOUT, "a reduction has no pattern"),
                }
            }
            other => other,
        };
        let nan = Leaf::Splat { ty: v.ty, bits: nan_bits(v.ty), dims: Sizes::from_slice(result) };
        self.emit(HloOp::Select, 0, &[&any, &nan, &folded], v.ty, result)
    }

    /// Partition pair, kept pairs, reduced pairs innermost; at most four free pairs.
    fn reduce_operand(&self, v: &View, kept: usize, layout: Layout) -> Option<(NodeOperand, u32)> {
        let f = self.facts(v.loc);
        if f.space != Space::Sbuf {
            return None;
        }
        let (outer, kept_inner) = split_at(&v.dims[..kept], layout.parts)?;
        let kept_inner = merged(&kept_inner);
        let mut inner = merged(&v.dims[kept..]);
        if inner.is_empty() {
            inner.push((1, 1));
        }
        // The partition check of an ordinary operand, on the dimensions without merging across the border.
        let probe =
            View { dims: outer.iter().chain(&kept_inner).chain(&inner).copied().collect(), ..v.clone() };
        let (offset, _) = engine_pattern(&probe, f.parts, self.part_elems(v), layout.parts, 4)?;
        if kept_inner.len() + inner.len() > 4 {
            return None;
        }
        let pairs = std::iter::once((self.part_elems(v) as i32, layout.parts as u32))
            .chain(kept_inner.iter().chain(&inner).map(|(n, s)| (*s as i32, *n as u32)));
        let pattern = ApPattern::new(pairs)?;
        let count = inner.len() as u32;
        Some((self.access_view(v, offset, pattern, AccessMode::Load), count))
    }

    /// Folds the initial value in, unless it is the identity.
    fn with_initial(
        &mut self,
        op: HloOp,
        folded: Leaf,
        init: &Leaf,
        ty: HloType,
        result: &[u64],
    ) -> Lowered<Leaf> {
        if let Leaf::Splat { bits, .. } = init
            && is_identity(op, ty, *bits)
        {
            return Ok(folded);
        }
        let init = super::elementwise::broadcast_scalar(init, result);
        self.emit(op, 0, &[&init, &folded], ty, result)
    }
}

/// A quiet NaN.
fn nan_bits(ty: HloType) -> u64 {
    match ty {
        HloType::Bf16 => 0x7FC0,
        HloType::F16 => 0x7E00,
        _ => 0x7FC0_0000,
    }
}

/// Whether `bits` is the identity of `op` on `ty`. A sum's -0 counts: it cannot change a non-empty sum.
pub fn is_identity(op: HloOp, ty: HloType, bits: u64) -> bool {
    let float = |x: f32| match ty {
        HloType::F32 => bits as u32 == x.to_bits(),
        HloType::Bf16 => bits == (x.to_bits() >> 16) as u64,
        HloType::F16 => match x {
            f if f == f32::INFINITY => bits == 0x7C00,
            f if f == f32::NEG_INFINITY => bits == 0xFC00,
            1.0 => bits == 0x3C00,
            f if f.to_bits() == 0 => bits == 0,
            _ => bits == 0x8000,
        },
        _ => false,
    };
    let integer = super::leaf::integer(ty, bits);
    let (lowest, highest) = super::lower::type_range(ty);
    match op {
        HloOp::Add if ty.is_float() => float(0.0) || float(-0.0),
        HloOp::Multiply if ty.is_float() => float(1.0),
        HloOp::Maximum if ty.is_float() => float(f32::NEG_INFINITY),
        HloOp::Minimum if ty.is_float() => float(f32::INFINITY),
        HloOp::Add => integer == 0,
        HloOp::Multiply => integer == 1,
        HloOp::Maximum => integer == lowest,
        HloOp::Minimum => integer == highest,
        HloOp::Or | HloOp::Xor => integer == 0,
        HloOp::And if ty == HloType::Pred => integer == 1,
        HloOp::And => integer as u32 == u32::MAX,
        _ => false,
    }
}
