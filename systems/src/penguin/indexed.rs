//! gather and scatter as indirect DMAs (`spec/isa.md 4.4`): every row that is moved is a contiguous run, and a vector of
//! run-time offsets in SBUF says where each stands.
//!
//! The offsets are computed on tiles: a gather clamps each index into its range, a scatter marks an update whose window is
//! not wholly inside with all ones, which the descriptor's bound skips (`spec/hlo.md 7`, D17). A window of several runs
//! becomes several rows. Offsets count granules, the largest step that divides every distance, so that a row gather's
//! offsets are its row numbers (D12).

use super::leaf::{Leaf, integer};
use super::lower::{Lower, Lowered, extents};
use super::view::{Dims, Layout, Sizes, View, row_major};
use murre_components::bir::{ApPattern, Space};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::{DType, HloType};
use murre_components::hlo::{Attrs, Direction, HloInst, HloOp};
use murre_components::ids::{HloId, LocId};
use murre_components::penguin::{
    Access, AccessMode, ApIndices, DynamicIndex, NodeKind, NodeOperand, NodeScalars, TensorCopyDynamic,
};
use murre_components::program::VarKind;
use smallvec::smallvec;

/// Offsets of one descriptor (`spec/isa.md 4.4`).
const MAX_INDICES: u64 = 4096;
/// Bytes of one row.
const MAX_ROW: u64 = 65_536;
/// Rows of one gather or scatter, offsets of all its descriptors together.
const MAX_ROWS: u64 = 1 << 22;

/// How windows lie in the indexed tensor.
pub(super) struct Rows {
    /// Elements of a contiguous run.
    pub(super) run: u64,
    /// Elements that an offset counts.
    pub(super) granule: i64,
    /// Offsets of a window's runs from its start, granules.
    pub(super) within: Vec<i64>,
}

/// Dimension numbers that gather and scatter share.
pub(super) struct Numbers<'a> {
    /// Operand dimension of each index component.
    map: &'a [i64],
    /// Operand dimensions and index dimensions that run together.
    operand_batch: &'a [i64],
    index_batch: &'a [i64],
    vector: i64,
    /// Window extents in the operand.
    pub(super) window: Vec<u64>,
}

impl Lower<'_> {
    /// Lowers a gather.
    pub fn gather(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Gather(d)) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "gather without dimension numbers");
        };
        let result = extents(shape);
        let Leaf::View(source) = leaves[0] else {
            return Ok(leaves[0].resized(&result));
        };
        let numbers = Numbers {
            map: &d.start_index_map,
            operand_batch: &d.operand_batching_dims,
            index_batch: &d.start_indices_batching_dims,
            vector: d.index_vector_dim,
            window: d.slice_sizes.iter().map(|n| (*n).max(0) as u64).collect(),
        };
        let batch = batch_extents(&leaves[1].extents(), d.index_vector_dim);
        let mut memory = batch.clone();
        memory.extend(&numbers.window);
        let target = if self.is_table(source, &batch, &numbers) {
            self.gather_elements(source, leaves[1], &batch, &numbers)?
        } else {
            let source = self.in_dram(source, &numbers.window)?;
            let rows = self.rows(&source, &numbers)?;
            let count = batch.iter().product::<u64>() * rows.within.len() as u64;
            let target = self.row_home(self.dtype(shape.ty)?, count, rows.run)?;
            let offsets = self.offsets(leaves[1], &batch, &source, &numbers, &rows, None)?;
            self.move_rows(NodeKind::GatherRows, 0, target, 0, &source, offsets, count, &rows)?;
            target
        };
        // Memory order is batch, then window; result order is what offset_dims says.
        let whole = View::whole(target, shape.ty, &memory);
        let skipped = |k: &i64| d.collapsed_slice_dims.contains(k) || d.operand_batching_dims.contains(k);
        let mut window =
            (0..numbers.window.len() as i64).filter(|k| !skipped(k)).map(|k| batch.len() as i64 + k);
        let mut outer = 0..batch.len() as i64;
        let mut dims = Dims::with_capacity(result.len());
        for p in 0..result.len() as i64 {
            let from = if d.offset_dims.contains(&p) { window.next() } else { outer.next() };
            match from {
                Some(k) => dims.push(whole.dims[k as usize]),
                None => {
                    return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "gather with odd dimension numbers");
                }
            }
        }
        Ok(Leaf::View(View { dims, ..whole }))
    }

    /// Lowers a scatter that a descriptor can say: `combine` is its operator (`spec/isa.md 4.4`).
    pub fn scatter(&mut self, id: HloId, inst: HloInst<'_>, leaves: &[&Leaf], combine: u8) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Scatter { dims: d, .. }) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "scatter without dimension numbers");
        };
        let dims = extents(shape);
        let update = leaves[2].extents();
        if update.contains(&0) {
            return Ok(leaves[0].clone());
        }
        let mut window = vec![1u64; dims.len()];
        let skipped = |k: &i64| d.inserted_window_dims.contains(k) || d.input_batching_dims.contains(k);
        for (k, u) in (0..dims.len() as i64).filter(|k| !skipped(k)).zip(&d.update_window_dims) {
            window[k as usize] = update[*u as usize];
        }
        let numbers = Numbers {
            map: &d.scatter_dims_to_operand_dims,
            operand_batch: &d.input_batching_dims,
            index_batch: &d.scatter_indices_batching_dims,
            vector: d.index_vector_dim,
            window,
        };
        let home = self.overwritable_home(id, shape.ty, &dims, leaves[0])?;
        let whole = View::whole(home, shape.ty, &dims);
        let batch = batch_extents(&leaves[1].extents(), d.index_vector_dim);
        let rows = self.rows(&whole, &numbers)?;
        // Updates in memory order: batch, then window.
        let source = self.as_view(leaves[2])?;
        let scattered: Vec<i64> =
            (0..update.len() as i64).filter(|k| !d.update_window_dims.contains(k)).collect();
        let order: Vec<i64> = scattered.iter().chain(&d.update_window_dims).copied().collect();
        let turned = source.transpose(&order);
        // The updates may be a view of the very location that is written.
        let dense = match turned.loc == home {
            true => self.compact_in_dram(&Leaf::View(turned))?,
            false => self.dense_rows(&turned)?,
        };
        let count = batch.iter().product::<u64>() * rows.within.len() as u64;
        let offsets = self.offsets(leaves[1], &batch, &whole, &numbers, &rows, Some(()))?;
        self.move_rows(
            NodeKind::ScatterRows,
            combine,
            dense.loc,
            dense.offset as u64,
            &whole,
            offsets,
            count,
            &rows,
        )?;
        Ok(Leaf::View(whole))
    }

    /// A location that holds `leaf` and may be overwritten: its own where it dies here, else a copy, in the output
    /// itself where the value is only that.
    fn overwritable_home(&mut self, id: HloId, ty: HloType, dims: &[u64], leaf: &Leaf) -> Lowered<LocId> {
        let own = self.owns_whole(leaf).filter(|loc| {
            let f = self.facts(*loc);
            f.remaining == 0 && f.space == Space::Dram && f.dtype.bytes() as usize == ty.bytes()
        });
        if let Some(loc) = own {
            return Ok(loc);
        }
        let loc = match self.result_home(id, ty, dims)? {
            Some(loc) => loc,
            None => {
                let n = dims.iter().product::<u64>().max(1);
                self.new_loc(Space::Dram, VarKind::Internal, self.dtype(ty)?, 1, n)
            }
        };
        self.fill_from(loc, leaf)?;
        Ok(loc)
    }

    /// The view in DRAM, dense where its windows would fall apart otherwise.
    fn in_dram(&mut self, v: &View, window: &[u64]) -> Lowered<View> {
        let f = self.facts(v.loc);
        let forward = v.dims.iter().all(|(n, s)| *n <= 1 || *s >= 0);
        let last = v.dims.iter().rposition(|(n, _)| *n > 1);
        let runs = last.is_none_or(|d| window[d] <= 1 || v.dims[d].1 == 1);
        if f.space == Space::Dram && forward && runs {
            return Ok(v.clone());
        }
        self.compact_in_dram(&Leaf::View(v.clone()))
    }

    /// A dense copy whose rows a DMA can walk with one step: along one partition or in DRAM.
    fn dense_rows(&mut self, v: &View) -> Lowered<View> {
        let f = self.facts(v.loc);
        if v.is_contiguous() && (f.space == Space::Dram || f.parts == 1) {
            return Ok(v.clone());
        }
        let dims = v.extents();
        if v.elements() <= super::view::FLAT_ELEMENTS {
            let loc = self.copy_to_tile(&Leaf::View(v.clone()), Layout::flat(v.elements()))?;
            return Ok(View { loc, ty: v.ty, offset: 0, dims: row_major(&dims) });
        }
        self.compact_in_dram(&Leaf::View(v.clone()))
    }

    /// Where gathered rows go: along one partition when few, one row a partition where that fits, else DRAM.
    fn row_home(&mut self, ty: DType, count: u64, run: u64) -> Lowered<LocId> {
        let bytes = run * ty.bytes() as u64;
        if count * run <= super::view::FLAT_ELEMENTS {
            return self.tile(ty, Layout::flat(count * run));
        }
        if count <= 128 && bytes <= super::lower::SBUF_HOME_BYTES {
            return self.tile(ty, Layout { parts: count, free: run });
        }
        Ok(self.new_loc(Space::Dram, VarKind::Internal, ty, 1, count * run))
    }

    /// Runs of a window and the granule of all offsets.
    fn rows(&mut self, v: &View, n: &Numbers<'_>) -> Lowered<Rows> {
        let (mut run, mut next, mut outer) = (1u64, 1i64, v.dims.len());
        for (d, (_, stride)) in v.dims.iter().enumerate().rev() {
            if n.window[d] > 1 {
                if *stride != next {
                    break;
                }
                run *= n.window[d];
                next = if n.window[d] == v.dims[d].0 { stride * v.dims[d].0 as i64 } else { -1 };
            }
            outer = d;
        }
        let limit = (MAX_ROW / v.ty.bytes().max(1) as u64).max(1);
        let mut within = vec![0i64];
        // A run of more than one descriptor row is cut where it can be cut evenly.
        let pieces = (run.div_ceil(limit)..=run).find(|k| run.is_multiple_of(*k)).unwrap_or(run);
        let piece = run / pieces;
        for d in 0..outer {
            let step = v.dims[d].1;
            within = spread_offsets(&within, n.window[d], step);
        }
        within = spread_offsets(&within, pieces, piece as i64);
        let mut granule = 0i64;
        for d in n.map.iter().chain(n.operand_batch) {
            let (extent, stride) = v.dims[*d as usize];
            if extent > n.window[*d as usize] {
                granule = gcd(granule, stride);
            }
        }
        for w in &within {
            granule = gcd(granule, *w);
        }
        let granule = if granule == 0 { piece as i64 } else { granule };
        let within = within.iter().map(|w| w / granule).collect();
        Ok(Rows { run: piece, granule, within })
    }

    /// The offset of every row, granules, as one row-major array of batch and runs. `masked`: of a window that is not
    /// wholly inside all ones; else indices are clamped.
    pub(super) fn offsets(
        &mut self,
        indices: &Leaf,
        batch: &[u64],
        v: &View,
        n: &Numbers<'_>,
        rows: &Rows,
        masked: Option<()>,
    ) -> Lowered<Leaf> {
        let count = batch.iter().product::<u64>();
        if count * rows.within.len() as u64 > MAX_ROWS {
            return self
                .refuse(&codes::LOWER_LAYOUT, format!("{count} windows of {} rows", rows.within.len()));
        }
        let flat = [count];
        let mut fixed = 0i64;
        let mut sum: Option<Leaf> = None;
        let mut inside: Option<Leaf> = None;
        for (c, d) in n.map.iter().enumerate() {
            let d = *d as usize;
            let high = v.dims[d].0 as i64 - n.window[d] as i64;
            let stride = v.dims[d].1 / rows.granule;
            let part = component(indices, n.vector, c as i64, &flat).unwrap_or_else(|| indices.clone());
            let part = match part {
                Leaf::View(view) if view.extents()[..] != flat => {
                    let dense = self.compact(&view)?;
                    Leaf::View(View { dims: row_major(&flat), ..dense })
                }
                other => other,
            };
            if let (Leaf::Splat { ty, bits, .. }, None) = (&part, masked) {
                fixed += integer(*ty, *bits).clamp(0, high.max(0)) * stride;
                continue;
            }
            if high <= 0 && masked.is_none() {
                continue;
            }
            let (index, ok) = self.index_words(&part, high, masked.is_some(), &flat)?;
            if let Some(ok) = ok {
                inside = Some(match inside {
                    Some(before) => self.emit(HloOp::And, 0, &[&before, &ok], HloType::Pred, &flat)?,
                    None => ok,
                });
            }
            if high <= 0 {
                continue;
            }
            sum = Some(self.add_scaled(sum, index, stride, &flat)?);
        }
        for (d, k) in n.operand_batch.iter().zip(n.index_batch) {
            let stride = v.dims[*d as usize].1 / rows.granule;
            // Position along the batching dimension of each window.
            let axis = if *k > n.vector { *k - 1 } else { *k } as usize;
            let inner: u64 = batch[axis + 1..].iter().product();
            let extent = batch[axis];
            let words: Vec<u8> = (0..count)
                .flat_map(|i| ((i / inner % extent) as i64 * stride).to_le_bytes()[..4].to_vec())
                .collect();
            let loc = self.constant(DType::I32, &words);
            let places = self.whole_view(loc, HloType::S32, &flat);
            sum = Some(self.add_scaled(sum, places, 1, &flat)?);
        }
        let splat = |value: i64, dims: &[u64]| Leaf::Splat {
            ty: HloType::S32,
            bits: value as u32 as u64,
            dims: Sizes::from_slice(dims),
        };
        let mut total = match sum {
            Some(s) if fixed != 0 => {
                self.emit(HloOp::Add, 0, &[&s, &splat(fixed, &flat)], HloType::S32, &flat)?
            }
            Some(s) => s,
            None => splat(fixed, &flat),
        };
        let mut shape = flat.to_vec();
        if rows.within.len() > 1 {
            shape.push(rows.within.len() as u64);
            let words: Vec<u8> = rows.within.iter().flat_map(|w| (*w as i32).to_le_bytes()).collect();
            let loc = self.constant(DType::I32, &words);
            let line = View::whole(loc, HloType::S32, &[rows.within.len() as u64]).broadcast(&[1], &shape);
            let wide = widen(&total, &shape);
            total = self.emit(HloOp::Add, 0, &[&wide, &Leaf::View(line)], HloType::S32, &shape)?;
        }
        if let Some(inside) = inside {
            let wide = widen(&inside, &shape);
            let out = splat(-1, &shape);
            total = self.emit(HloOp::Select, 0, &[&wide, &total, &out], HloType::S32, &shape)?;
        }
        Ok(total)
    }

    /// `sum + index * stride`.
    fn add_scaled(&mut self, sum: Option<Leaf>, index: Leaf, stride: i64, dims: &[u64]) -> Lowered<Leaf> {
        let scaled = if stride == 1 {
            index
        } else {
            let factor =
                Leaf::Splat { ty: HloType::S32, bits: stride as u32 as u64, dims: Sizes::from_slice(dims) };
            self.emit(HloOp::Multiply, 0, &[&index, &factor], HloType::S32, dims)?
        };
        match sum {
            Some(s) => self.emit(HloOp::Add, 0, &[&s, &scaled], HloType::S32, dims),
            None => Ok(scaled),
        }
    }

    /// Indices as s32: clamped to `[0, high]`, or with whether each is inside.
    fn index_words(
        &mut self,
        leaf: &Leaf,
        high: i64,
        masked: bool,
        dims: &[u64],
    ) -> Lowered<(Leaf, Option<Leaf>)> {
        let ty = leaf.ty();
        let limit = |ty: HloType, value: i64| Leaf::Splat {
            ty,
            bits: value as u32 as u64,
            dims: Sizes::from_slice(dims),
        };
        // u32 compares in its own signedness before it is read as s32.
        let wide = match ty {
            HloType::S32 | HloType::U32 => leaf.clone(),
            HloType::Pred | HloType::S8 | HloType::U8 | HloType::S16 | HloType::U16 => {
                self.emit(HloOp::Convert, 0, &[leaf], HloType::S32, dims)?
            }
            other => {
                return self.refuse(&codes::LOWER_TYPE, format!("indices of type {}", other.name()));
            }
        };
        let word = if ty == HloType::U32 { HloType::U32 } else { HloType::S32 };
        let signed = word == HloType::S32;
        if masked {
            let top = self.emit(
                HloOp::Compare,
                Direction::Le as u8,
                &[&wide, &limit(word, high.max(0))],
                HloType::Pred,
                dims,
            )?;
            let ok = if high < 0 {
                Leaf::Splat { ty: HloType::Pred, bits: 0, dims: Sizes::from_slice(dims) }
            } else if signed {
                let bottom = self.emit(
                    HloOp::Compare,
                    Direction::Ge as u8,
                    &[&wide, &limit(word, 0)],
                    HloType::Pred,
                    dims,
                )?;
                self.emit(HloOp::And, 0, &[&top, &bottom], HloType::Pred, dims)?
            } else {
                top
            };
            return Ok((self.reread(wide, HloType::S32)?, Some(ok)));
        }
        let mut clamped = wide;
        if signed {
            clamped = self.emit(HloOp::Maximum, 0, &[&clamped, &limit(word, 0)], word, dims)?;
        }
        clamped = self.emit(HloOp::Minimum, 0, &[&clamped, &limit(word, high)], word, dims)?;
        Ok((self.reread(clamped, HloType::S32)?, None))
    }

    /// The transfers: rows of `near` in order, rows of `far` where the offsets say.
    #[allow(clippy::too_many_arguments)]
    fn move_rows(
        &mut self,
        kind: NodeKind,
        combine: u8,
        near: LocId,
        near_offset: u64,
        far: &View,
        offsets: Leaf,
        count: u64,
        rows: &Rows,
    ) -> Lowered<()> {
        let all = match &offsets {
            Leaf::View(v) if count <= MAX_INDICES && !v.is_contiguous() | (self.facts(v.loc).parts != 1) => {
                let loc = self.copy_to_tile(&offsets, Layout::flat(count))?;
                View::whole(loc, HloType::S32, &[count])
            }
            Leaf::View(v) => View { dims: smallvec![(count, 1)], ..self.dense_rows(v)? },
            other => {
                let wide = other.resized(&[count]);
                let loc = self.copy_to_tile(&wide, Layout::flat(count))?;
                View::whole(loc, HloType::S32, &[count])
            }
        };
        let scatter = kind == NodeKind::ScatterRows;
        let mut at = 0;
        while at < count {
            let n = (count - at).min(MAX_INDICES);
            // The offsets of one descriptor stand along partition 0.
            let line = all.slice(&[at as i64], &[(at + n) as i64], &[]);
            let f = self.facts(line.loc);
            let in_place = f.space == Space::Sbuf && f.parts == 1 && f.dtype.bytes() == 4;
            let (loc, offset) = if in_place {
                (line.loc, line.offset as u32)
            } else {
                (self.copy_to_tile(&Leaf::View(line), Layout::flat(n))?, 0)
            };
            let part = self.facts(loc).part_elems;
            let index = NodeOperand::Access(Access {
                loc,
                offset,
                dtype: DType::U32,
                pattern: ApPattern::of([(part as i32, 1), (1, n as u32)]),
                mode: AccessMode::Load,
            });
            let run = rows.run as u32;
            let near_mode = if scatter { AccessMode::Load } else { AccessMode::Store };
            let far_mode = if scatter { AccessMode::Store } else { AccessMode::Load };
            let start = near_offset + at * rows.run;
            let near_view = View { loc: near, dims: Dims::new(), ..far.clone() };
            let near_pattern = ApPattern::of([(run as i32, n as u32), (1, run)]);
            let near_side = self.access_view(&near_view, start as u32, near_pattern.clone(), near_mode);
            let far_pattern = ApPattern::of([(rows.granule as i32, n as u32), (1, run)]);
            let far_side = self.access_view(far, far.offset as u32, far_pattern.clone(), far_mode);
            let imm = self.dynamic.len() as u32;
            let size = self.part_elems(far);
            let (data, src) = if scatter { (near, &near_pattern) } else { (far.loc, &far_pattern) };
            let scale = rows.granule as u32;
            self.dynamic.push(TensorCopyDynamic {
                indices: [DynamicIndex { dim: 0, scale }].into_iter().collect(),
                ap: ApIndices::of(src, self.partition_of(data), &far_pattern, &[i64::from(scale)]),
                shape: Default::default(),
                max_index: (size / rows.granule as u64).clamp(1, u32::MAX as u64) as u32,
            });
            let scalars = NodeScalars { imm, ..Default::default() };
            let operands =
                if scatter { vec![far_side, near_side, index] } else { vec![near_side, far_side, index] };
            self.node(kind, HloOp::Copy, combine, 0, operands, scalars);
            at += n;
        }
        Ok(())
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Each offset followed by `n` positions of a dimension.
fn spread_offsets(offsets: &[i64], n: u64, step: i64) -> Vec<i64> {
    offsets.iter().flat_map(|o| (0..n.max(1) as i64).map(move |i| o + i * step)).collect()
}

/// Extents of the index array without the vector dimension.
fn batch_extents(indices: &[u64], vector: i64) -> Vec<u64> {
    indices.iter().enumerate().filter(|(d, _)| *d as i64 != vector).map(|(_, n)| *n).collect()
}

/// Component `c` of every index vector, flat; `None` where strides cannot say it flat.
fn component(indices: &Leaf, vector: i64, c: i64, flat: &[u64]) -> Option<Leaf> {
    match indices {
        Leaf::View(v) => {
            let mut part = v.clone();
            if (vector as usize) < v.dims.len() {
                part.offset += c * v.dims[vector as usize].1;
                part.dims.remove(vector as usize);
            }
            Some(match part.reshape(flat) {
                Some(line) => Leaf::View(line),
                None => Leaf::View(part),
            })
        }
        other => other.reshaped(flat),
    }
}

/// A flat leaf repeated along a new last dimension.
fn widen(leaf: &Leaf, shape: &[u64]) -> Leaf {
    match leaf {
        Leaf::View(v) if v.dims.len() < shape.len() => Leaf::View(v.broadcast(&[0], shape)),
        other => other.resized(shape),
    }
}
