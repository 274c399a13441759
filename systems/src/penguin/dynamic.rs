//! dynamic-slice and dynamic-update-slice as dynamic copies (`spec/ir.md 2.2`). Every start is clamped by register
//! arithmetic before it becomes an address; the machine does not clamp.
//!
//! A DRAM side becomes a dynamic DMA, an SBUF side an engine copy with a symbolic address. In SBUF only the free
//! dimension may be dynamic, so a tile that spans partitions is taken to DRAM first.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::scalar::{SIGNED, Scalar};
use super::view::{Layout, Sizes, View, dma_dims, engine_pattern, merged, row_major};
use arrayvec::ArrayVec;
use murre_components::bir::{ApPattern, Space};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::DType;
use murre_components::hlo::{HloInst, HloOp};
use murre_components::ids::{HloId, LocId, RegId};
use murre_components::isa::alu::AluOp;
use murre_components::penguin::{
    AccessMode, ApIndices, DynamicIndex, NodeKind, NodeOperand, NodeScalars, TensorCopyDynamic,
};
use murre_components::program::VarKind;
use smallvec::{SmallVec, smallvec};

/// A run-time address on its way into a node: what each index counts, and its register (`generic_addrs`).
#[derive(Clone, Default, Debug)]
pub struct RunTime {
    /// The payload.
    pub copy: TensorCopyDynamic,
    /// A register an index.
    pub addrs: ArrayVec<RegId, 8>,
}

impl RunTime {
    /// Whether the address is a constant after all.
    pub fn is_static(&self) -> bool {
        self.addrs.is_empty()
    }
}

/// The clamped starts of a window.
struct Starts {
    /// Static part per dimension.
    fixed: SmallVec<[i64; 4]>,
    /// Run-time parts.
    dynamic: RunTime,
}

impl Lower<'_> {
    /// Clamps the starts of a window of `window` in `whole` and splits them into constants and registers.
    fn starts(&mut self, indices: &[&Leaf], whole: &View, window: &[u64]) -> Lowered<Starts> {
        let mut starts = Starts { fixed: smallvec![0; window.len()], dynamic: RunTime::default() };
        if whole.is_contiguous() && whole.dims.len() <= 8 {
            // Dense: the scales below are the row strides.
            starts.dynamic.copy.shape = whole.dims.iter().map(|d| d.0).collect();
        }
        let mut highest = 0i64;
        for (d, leaf) in indices.iter().enumerate() {
            let (extent, stride) = whole.dims[d];
            let high = extent as i64 - window[d] as i64;
            if high < 0 {
                return self
                    .refuse(&codes::LOWER_UNSUPPORTED_OP, format!("a window wider than dimension {d}"));
            }
            // No choice, or a broadcast dimension: every start is the same.
            if high == 0 || stride == 0 {
                continue;
            }
            let index = self.scalar(leaf)?;
            match self.clamp_start(index, leaf.ty(), high) {
                Scalar::Const(c) => starts.fixed[d] = c,
                start => {
                    // Along a reversed dimension the address falls as the index grows: count from the far end.
                    let start = if stride < 0 {
                        starts.fixed[d] = high;
                        self.alu(AluOp::Subtract, Scalar::Const(high), start, SIGNED, (0, high))
                    } else {
                        start
                    };
                    let addr = self.in_register(start);
                    let stride = stride.abs();
                    if stride > i32::MAX as i64 {
                        return self
                            .refuse(&codes::LOWER_LAYOUT, "a run-time index with a stride past 32 bits");
                    }
                    highest += high * stride;
                    let index = DynamicIndex { dim: d as u32, scale: stride as u32 };
                    if starts.dynamic.copy.indices.try_push(index).is_err() {
                        return self.refuse(&codes::LOWER_LAYOUT, "more than eight run-time indices");
                    }
                    starts.dynamic.addrs.push(addr);
                }
            }
        }
        starts.dynamic.copy.max_index = (highest + 1).min(u32::MAX as i64) as u32;
        Ok(starts)
    }

    /// The window of `whole` at its static starts.
    fn window(whole: &View, fixed: &[i64], sizes: &[u64]) -> View {
        let limit: SmallVec<[i64; 4]> = fixed.iter().zip(sizes).map(|(s, n)| s + *n as i64).collect();
        whole.slice(fixed, &limit, &[])
    }

    /// Whether a run-time window of this view can be an engine operand: one partition, at most four free pairs.
    fn engine_window(&self, window: &View) -> Option<(u32, ApPattern)> {
        let f = self.facts(window.loc);
        if f.space != Space::Sbuf || f.parts != 1 {
            return None;
        }
        engine_pattern(window, 1, self.part_elems(window), 1, 4)
    }

    /// Lowers a dynamic-slice.
    pub fn dynamic_slice(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let Some(shape) = inst.shape().array() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "dynamic-slice of a tuple");
        };
        let sizes = extents(shape);
        let Leaf::View(whole) = leaves[0] else {
            return Ok(leaves[0].reshaped(&sizes).unwrap_or(Leaf::Token));
        };
        let starts = self.starts(&leaves[1..], whole, &sizes)?;
        let source = Self::window(whole, &starts.fixed, &sizes);
        if starts.dynamic.is_static() || source.elements() == 0 {
            // Nothing is dynamic after clamping: an eager copy, since later writes may hit the operand.
            let tile = self.compact(&source)?;
            return Ok(Leaf::View(tile));
        }
        let f = self.facts(whole.loc);
        if f.space == Space::Sbuf {
            if let Some((offset, pattern)) = self.engine_window(&source) {
                let dtype = self.dtype(source.ty)?;
                let tile = self.tile(dtype, Layout::flat(source.elements()))?;
                let target = self.line(tile, &source, AccessMode::Store)?;
                let operand = self.access_view(&source, offset, pattern, AccessMode::Load);
                self.dynamic_node(NodeKind::TensorCopyDynamicSrc, target, operand, starts.dynamic);
                return Ok(self.whole_view(tile, source.ty, &sizes));
            }
            // A tile over partitions: its rows cannot be addressed by a register, so it goes through DRAM.
            let dram = self.compact_in_dram(leaves[0])?;
            let leaf = Leaf::View(dram);
            let mut again = leaves.to_vec();
            again[0] = &leaf;
            return self.dynamic_slice(inst, &again);
        }
        let dtype = self.dtype(source.ty)?;
        let layout = Layout::choose(&sizes);
        let tile = match layout.free * dtype.bytes() as u64 > super::lower::TILE_BYTES {
            true => self.dram_home(source.ty, &sizes)?,
            false => self.tile(dtype, layout)?,
        };
        let target = View { loc: tile, ty: source.ty, offset: 0, dims: row_major(&sizes) };
        self.dynamic_dma(NodeKind::TensorCopyDynamicSrc, &target, &source, starts.dynamic)?;
        Ok(Leaf::View(target))
    }

    /// Lowers a dynamic-update-slice: in place where the operand dies here and may be overwritten, else on a copy.
    pub fn dynamic_update_slice(&mut self, id: HloId, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let Some(shape) = inst.shape().array() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "dynamic-update-slice of a tuple");
        };
        let dims = extents(shape);
        let sizes = leaves[1].extents();
        if dims.contains(&0) || sizes.contains(&0) {
            return Ok(leaves[0].clone());
        }
        let in_place = self.owns_whole(leaves[0]).filter(|loc| {
            let f = self.facts(*loc);
            f.remaining == 0 && (f.space == Space::Dram || f.parts == 1)
        });
        let home = match in_place {
            Some(loc) => loc,
            None => {
                let loc = match self.result_home(id, shape.ty, &dims)? {
                    Some(loc) => loc,
                    None => self.updatable_home(shape.ty, &dims)?,
                };
                self.fill_from(loc, leaves[0])?;
                loc
            }
        };
        let whole = View::whole(home, shape.ty, &dims);
        let starts = self.starts(&leaves[2..], &whole, &sizes)?;
        let target = Self::window(&whole, &starts.fixed, &sizes);
        // The update may be a view of the very location that is written.
        let own;
        let update = match leaves[1] {
            Leaf::View(v) if v.loc == home => {
                own = Leaf::View(self.compact(v)?);
                &own
            }
            other => other,
        };
        if starts.dynamic.is_static() {
            let source = self.as_view(update)?;
            self.dma_copy(&target, &source)?;
            return Ok(Leaf::View(whole));
        }
        if let Some((offset, pattern)) = self.engine_window(&target) {
            let tile = self.materialize(update, Layout::flat(target.elements()))?;
            let source = self.line(tile, &target, AccessMode::Load)?;
            let result = self.access(home, offset, pattern, AccessMode::Store);
            self.dynamic_node(NodeKind::TensorCopyDynamicDst, result, source, starts.dynamic);
            return Ok(Leaf::View(whole));
        }
        if self.facts(home).space == Space::Sbuf {
            return self
                .refuse(&codes::LOWER_LAYOUT, "a run-time window in SBUF needs more than four dimensions");
        }
        let source = self.as_view(update)?;
        self.dynamic_dma(NodeKind::TensorCopyDynamicDst, &target, &source, starts.dynamic)?;
        Ok(Leaf::View(whole))
    }

    /// The network output itself, when the value is that result. Other readers may read it there: as the result is a
    /// reader to the end, nothing overwrites it.
    pub fn result_home(
        &mut self,
        id: HloId,
        ty: murre_components::dtype::HloType,
        dims: &[u64],
    ) -> Lowered<Option<LocId>> {
        if self.depth() != 0 || self.uses.len() != 1 {
            return Ok(None);
        }
        let Some(k) = self.uses[0].result(id, 0) else { return Ok(None) };
        if self.outputs[k as usize].is_some() {
            return Ok(None);
        }
        let dtype = self.dtype(ty)?;
        let n = dims.iter().product::<u64>().max(1);
        let loc = self.new_loc(Space::Dram, VarKind::Output, dtype, 1, n);
        if let Some(row) = self.staging.locs.last_mut() {
            row.from.ordinal = k;
        }
        self.outputs[k as usize] = loc;
        Ok(Some(loc))
    }

    /// The elements of a flat tile in the order of a window's free pairs.
    fn line(&self, tile: LocId, window: &View, mode: AccessMode) -> Lowered<NodeOperand> {
        let shape: Sizes = merged(&window.dims).iter().map(|d| d.0).collect();
        let n = window.elements();
        let free = row_major(&shape).into_iter().map(|(n, s)| (s as i32, n as u32));
        let pairs = std::iter::once((self.facts(tile).part_elems as i32, 1));
        let pattern = if shape.is_empty() {
            ApPattern::new(pairs.chain([(1, n as u32)]))
        } else {
            ApPattern::new(pairs.chain(free))
        };
        match pattern {
            Some(p) => Ok(self.access(tile, 0, p, mode)),
            None => self.refuse(&codes::LOWER_LAYOUT, "a window has too many dimensions"),
        }
    }

    /// A dynamic copy between a DRAM window and another home.
    pub fn dynamic_dma(
        &mut self,
        kind: NodeKind,
        target: &View,
        source: &View,
        dynamic: RunTime,
    ) -> Lowered<()> {
        let dims = dma_dims(source, self.side(source), target, self.side(target));
        let Some(dims) = dims else {
            return self.refuse(
                &codes::LOWER_LAYOUT,
                "a run-time window straddles partitions in a way no pattern can say",
            );
        };
        let from = ApPattern::new(dims.iter().map(|d| (d.1 as i32, d.0 as u32)));
        let to = ApPattern::new(dims.iter().map(|d| (d.2 as i32, d.0 as u32)));
        let (Some(from), Some(to)) = (from, to) else {
            return self.refuse(&codes::LOWER_LAYOUT, "a run-time window has too many dimensions");
        };
        let target = self.access_view(target, target.offset as u32, to, AccessMode::Store);
        let source = self.access_view(source, source.offset as u32, from, AccessMode::Load);
        self.dynamic_node(kind, target, source, dynamic);
        Ok(())
    }

    /// A dynamic copy: engine operands for a side in SBUF, DMA sides otherwise. Its operands are the result, the source
    /// and the addresses.
    pub fn dynamic_node(
        &mut self,
        kind: NodeKind,
        target: NodeOperand,
        source: NodeOperand,
        dynamic: RunTime,
    ) {
        let RunTime { mut copy, addrs } = dynamic;
        let dynamic_side = if kind == NodeKind::TensorCopyDynamicSrc { &source } else { &target };
        if let (Some(src), Some(side)) = (source.access(), dynamic_side.access()) {
            let scales: ArrayVec<i64, 8> = copy.indices.iter().map(|i| i64::from(i.scale)).collect();
            copy.ap = ApIndices::of(&src.pattern, self.partition_of(src.loc), &side.pattern, &scales);
        }
        let imm = self.dynamic.len() as u32;
        self.dynamic.push(copy);
        let scalars = NodeScalars { imm, ..Default::default() };
        let addrs = addrs.into_iter().map(|r| NodeOperand::Scalar(r, DType::I32));
        let operands = [target, source].into_iter().chain(addrs);
        self.node(kind, HloOp::Copy, 0, 0, operands, scalars);
    }

    /// Elements of a partition of an on-chip location.
    pub fn partition_of(&self, loc: LocId) -> Option<i64> {
        let f = self.facts(loc);
        (f.space != Space::Dram).then_some(f.part_elems as i64)
    }
}
