//! Operations that only say where elements stand: views where strides can say it, copies where they cannot.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::view::{Layout, View, row_major};
use murre_components::bir::Space;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::DType;
use murre_components::hlo::{Attrs, HloInst, HloOp, Literal};
use murre_components::program::VarKind;

impl Lower<'_> {
    /// The leaf of an array literal: a splat where all elements are equal, else a constant location.
    pub fn literal(&mut self, literal: &Literal) -> Lowered<Leaf> {
        let Literal::Array { shape, data } = literal else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "a tuple constant");
        };
        let width = shape.ty.bytes().max(1);
        let dims = extents(shape);
        let first = &data[..width.min(data.len())];
        if !first.is_empty() && width <= 8 && data.chunks_exact(width).all(|c| c == first) {
            let mut bits = [0u8; 8];
            bits[..width].copy_from_slice(first);
            return Ok(Leaf::Splat { ty: shape.ty, bits: u64::from_le_bytes(bits), dims });
        }
        let ty = self.dtype(shape.ty)?;
        if data.is_empty() {
            return Ok(Leaf::Splat { ty: shape.ty, bits: 0, dims });
        }
        let loc = self.constant(ty, data);
        Ok(self.whole_view(loc, shape.ty, &dims))
    }

    /// Broadcast, transpose, slice, reverse, reshape: a view or, for a reshape that strides cannot say, a copy.
    pub fn shape_op(&mut self, inst: HloInst<'_>, leaf: &Leaf) -> Lowered<Leaf> {
        let Some(shape) = inst.shape().array() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, format!("{} of a tuple", inst.op.name()));
        };
        if inst.op == HloOp::Bitcast {
            // `expand_one_device` has rewritten all others.
            let what = "a bitcast to elements of another width, or between layouts with tiles";
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, what);
        }
        if shape.ty != leaf.ty() {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, format!("{} as written", inst.op.name()));
        }
        let result = extents(shape);
        let Leaf::View(v) = leaf else {
            return match leaf.reshaped(&result) {
                Some(l) => Ok(l),
                None => self.refuse(&codes::LOWER_UNSUPPORTED_OP, "a token has no shape"),
            };
        };
        Ok(Leaf::View(match (inst.op, inst.attrs()) {
            (HloOp::Broadcast, Attrs::Dimensions(map)) => v.broadcast(map, &result),
            (HloOp::Broadcast, _) => v.broadcast(&[], &result),
            (HloOp::Transpose, Attrs::Dimensions(p)) => v.transpose(p),
            (HloOp::Reverse, Attrs::Dimensions(d)) => v.reverse(d),
            (HloOp::Slice, Attrs::Slice { start, limit, stride }) => v.slice(start, limit, stride),
            (HloOp::Reshape | HloOp::Copy | HloOp::OptimizationBarrier, _) => match v.reshape(&result) {
                Some(r) => r,
                None => self.compact(v)?.reshape(&result).unwrap_or_else(|| v.clone()),
            },
            _ => return self.refuse(&codes::LOWER_UNSUPPORTED_OP, format!("{} as written", inst.op.name())),
        }))
    }

    /// A row-major copy of a view: a tile where it fits into SBUF, else DRAM.
    pub fn compact(&mut self, v: &View) -> Lowered<View> {
        let dims = v.extents();
        let ty = self.dtype(v.ty)?;
        let layout = Layout::choose(&dims);
        let fits = layout.free * ty.bytes() as u64 <= super::lower::TILE_BYTES;
        let loc = if fits {
            self.tile(ty, layout)?
        } else {
            self.new_loc(Space::Dram, VarKind::Internal, ty, 1, v.elements().max(1))
        };
        let target = View { loc, ty: v.ty, offset: 0, dims: row_major(&dims) };
        self.dma_copy(&target, v)?;
        Ok(target)
    }

    /// A row-major copy of a leaf in DRAM.
    pub fn compact_in_dram(&mut self, leaf: &Leaf) -> Lowered<View> {
        let dims = leaf.extents();
        let ty = self.dtype(leaf.ty())?;
        let n = dims.iter().product::<u64>().max(1);
        let loc = self.new_loc(Space::Dram, VarKind::Internal, ty, 1, n);
        self.fill_from(loc, leaf)?;
        Ok(View { loc, ty: leaf.ty(), offset: 0, dims: row_major(&dims) })
    }

    /// A new home for a result assembled from parts that differ from dimension `axis` on: the dimensions before it may be
    /// partitions, where the parts are engine copies; else along one partition where it is small, else DRAM.
    fn assembled_home(
        &mut self,
        ty: DType,
        dims: &[u64],
        axis: usize,
    ) -> Lowered<murre_components::ids::LocId> {
        let n = dims.iter().product::<u64>().max(1);
        if n > super::view::FLAT_ELEMENTS {
            let mut parts = 1;
            for d in &dims[..axis] {
                if parts * d > 128 {
                    break;
                }
                parts *= d;
            }
            let free = n / parts;
            if parts > 1 && free * ty.bytes() as u64 <= super::lower::SBUF_HOME_BYTES {
                return self.tile(ty, Layout { parts, free });
            }
        }
        if n * ty.bytes() as u64 <= super::lower::SBUF_HOME_BYTES {
            self.tile(ty, Layout::flat(n))
        } else {
            Ok(self.new_loc(Space::Dram, VarKind::Internal, ty, 1, n))
        }
    }

    /// A leaf as memory, for a copy out of it.
    pub fn as_view(&mut self, leaf: &Leaf) -> Lowered<View> {
        match leaf {
            Leaf::View(v) => Ok(v.clone()),
            other => {
                let (dims, layout) = (other.extents(), Layout::choose(&other.extents()));
                if layout.free * other.ty().bytes() as u64 > super::lower::TILE_BYTES {
                    return self.compact_in_dram(other);
                }
                let tile = self.copy_to_tile(other, layout)?;
                Ok(View { loc: tile, ty: other.ty(), offset: 0, dims: row_major(&dims) })
            }
        }
    }

    /// A leaf as memory whose location has the leaf's own element type: a reinterpreted one is copied.
    pub fn as_own_view(&mut self, leaf: &Leaf) -> Lowered<View> {
        let v = self.as_view(leaf)?;
        if DType::of(v.ty) == Some(self.facts(v.loc).dtype) { Ok(v) } else { self.compact(&v) }
    }

    /// Concatenation: one copy per operand into its part of the result.
    pub fn concatenate(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Dimensions(d)) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "concatenate without a dimension");
        };
        let axis = d.first().copied().unwrap_or(0) as usize;
        let dims = extents(shape);
        let ty = self.dtype(shape.ty)?;
        let loc = self.assembled_home(ty, &dims, axis)?;
        let whole = View::whole(loc, shape.ty, &dims);
        let mut at = 0i64;
        for leaf in leaves {
            let part = leaf.extents();
            if part.contains(&0) {
                continue;
            }
            let mut start = vec![0i64; dims.len()];
            let mut limit: Vec<i64> = dims.iter().map(|d| *d as i64).collect();
            start[axis] = at;
            at += part[axis] as i64;
            limit[axis] = at;
            let source = self.as_view(leaf)?;
            self.dma_copy(&whole.slice(&start, &limit, &[]), &source)?;
        }
        Ok(Leaf::View(whole))
    }

    /// Pad: fill, then copy the part of the operand that stays inside.
    pub fn pad(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Pad { low, high, interior }) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "pad without a configuration");
        };
        let dims = extents(shape);
        let ty = self.dtype(shape.ty)?;
        let plain = |d: usize| low[d] == 0 && high[d] == 0 && interior.get(d).copied().unwrap_or(0) == 0;
        let axis = (0..dims.len()).find(|d| !plain(*d)).unwrap_or(dims.len());
        let loc = self.assembled_home(ty, &dims, axis)?;
        let filler = match leaves[1] {
            Leaf::View(v) => Leaf::View(v.broadcast(&[], &dims)),
            other => other.reshaped(&dims).unwrap_or(Leaf::Token),
        };
        self.fill_from(loc, &filler)?;
        let mut source = self.as_view(leaves[0])?;
        let mut target = View::whole(loc, shape.ty, &dims);
        for d in 0..dims.len() {
            // Operand element i stands at low + i * (interior + 1); keep those inside the result.
            let gap = interior.get(d).copied().unwrap_or(0) + 1;
            let (n, source_step) = source.dims[d];
            let first = if low[d] < 0 { (-low[d] + gap - 1) / gap } else { 0 };
            let room = dims[d] as i64 - 1 - low[d];
            let last = if room < 0 { -1 } else { (room / gap).min(n as i64 - 1) };
            let count = (last - first + 1).max(0) as u64;
            source.offset += first * source_step;
            source.dims[d] = (count, source_step);
            let target_step = target.dims[d].1;
            target.offset += (low[d] + first * gap) * target_step;
            target.dims[d] = (count, target_step * gap);
        }
        if source.elements() > 0 {
            self.dma_copy(&target, &source)?;
        }
        Ok(Leaf::View(View::whole(loc, shape.ty, &dims)))
    }
}
