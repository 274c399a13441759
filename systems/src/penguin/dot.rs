//! Dot products as tiles on the PE array: contraction on partitions (at most 128 a tile), weights of at most 128
//! columns, moving operands of at most 512 (`spec/isa_compute.md 3.4`). Partial sums stay in PSUM over the K tiles.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, extents};
use super::view::{Layout, View, row_major};
use murre_components::bir::Space;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::{DType, HloType};
use murre_components::hlo::{Attrs, HloInst, HloOp};
use murre_components::penguin::{AccessMode, NodeKind, NodeScalars};
use murre_components::program::VarKind;

const K_TILE: u64 = 128;
const M_TILE: u64 = 128;
const N_TILE: u64 = 512;
/// Most batch members that are unrolled.
const MAX_BATCH: u64 = 1024;

/// An operand as `[batch, contraction, free]`, each one logical dimension.
struct Side {
    view: View,
}

impl Lower<'_> {
    /// Lowers a dot.
    pub fn dot(&mut self, inst: HloInst<'_>, leaves: &[&Leaf]) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Dot(d)) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "dot without dimension numbers");
        };
        let float = |t: HloType| matches!(t, HloType::F32 | HloType::Bf16 | HloType::F16);
        if !float(leaves[0].ty()) || leaves[0].ty() != leaves[1].ty() || !float(shape.ty) {
            return self.refuse(
                &codes::LOWER_UNSUPPORTED_OP,
                format!("a dot of {} and {} is not lowered", leaves[0].ty().name(), leaves[1].ty().name()),
            );
        }
        let result = extents(shape);
        let size = |leaf: &Leaf, which: &[i64]| -> u64 {
            let e = leaf.extents();
            which.iter().map(|k| e[*k as usize]).product()
        };
        let (batch, k) = (size(leaves[0], &d.lhs_batch), size(leaves[0], &d.lhs_contracting));
        let total = |leaf: &Leaf| leaf.extents().iter().product::<u64>();
        if k == 0 || batch == 0 || total(leaves[0]) == 0 || total(leaves[1]) == 0 {
            return Ok(Leaf::Splat { ty: shape.ty, bits: 0, dims: result });
        }
        let m = total(leaves[0]) / (batch * k);
        let n = total(leaves[1]) / (batch * k);
        if batch > MAX_BATCH {
            return self
                .refuse(&codes::LOWER_TILE, format!("a dot over {batch} batch members is not lowered"));
        }
        let lhs = self.dot_side(leaves[0], &d.lhs_batch, &d.lhs_contracting, [batch, k, m])?;
        let rhs = self.dot_side(leaves[1], &d.rhs_batch, &d.rhs_contracting, [batch, k, n])?;
        // The side that becomes partitions of the result is the stationary one. A row or column comes out along one
        // partition.
        let swap = n == 1 && m > 1;
        let (stationary, moving) = if swap { (&rhs, &lhs) } else { (&lhs, &rhs) };
        let (rows, columns) = if swap { (n, m) } else { (m, n) };
        let dtype = self.dtype(shape.ty)?;
        let single = batch == 1 && rows <= M_TILE && columns <= N_TILE;
        if single {
            let tile = self.dot_tile(stationary, moving, 0, (0, rows), (0, columns), k, dtype)?;
            return Ok(self.whole_view(tile, shape.ty, &result));
        }
        let home = self.new_loc(Space::Dram, VarKind::Internal, dtype, 1, batch * rows * columns);
        let whole = View::whole(home, shape.ty, &[batch, rows, columns]);
        for b in 0..batch {
            for m0 in (0..rows).step_by(M_TILE as usize) {
                let m1 = rows.min(m0 + M_TILE);
                for n0 in (0..columns).step_by(N_TILE as usize) {
                    let n1 = columns.min(n0 + N_TILE);
                    let tile = self.dot_tile(stationary, moving, b, (m0, m1), (n0, n1), k, dtype)?;
                    let part = View::whole(tile, shape.ty, &[1, m1 - m0, n1 - n0]);
                    let at = |x: u64| x as i64;
                    let target = whole.slice(&[at(b), at(m0), at(n0)], &[at(b + 1), at(m1), at(n1)], &[]);
                    self.dma_copy(&target, &part)?;
                }
            }
        }
        Ok(self.whole_view(home, shape.ty, &result))
    }

    /// Permutes an operand to batch, contraction, free and makes each of them one dimension, copying to DRAM where the
    /// strides do not allow it.
    fn dot_side(
        &mut self,
        leaf: &Leaf,
        batch: &[i64],
        contracting: &[i64],
        shape: [u64; 3],
    ) -> Lowered<Side> {
        let v = self.as_view(leaf)?;
        let free = (0..v.dims.len() as i64).filter(|d| !batch.contains(d) && !contracting.contains(d));
        let order: Vec<i64> = batch.iter().chain(contracting).copied().chain(free).collect();
        let permuted = v.transpose(&order);
        let flat = self.merge_groups(&permuted, &shape);
        let view = match flat {
            Some(v) => v,
            None => {
                let dense = self.compact_in_dram(&Leaf::View(permuted))?;
                View { dims: row_major(&shape), ..dense }
            }
        };
        Ok(Side { view })
    }

    /// Reshapes to the three groups where each group's strides merge.
    fn merge_groups(&self, v: &View, shape: &[u64; 3]) -> Option<View> {
        let mut dims = Vec::with_capacity(3);
        let mut rest = v.dims.as_slice();
        for (g, &want) in shape.iter().enumerate() {
            let mut taken = Vec::new();
            let mut have = 1;
            while !rest.is_empty() && (have < want || rest[0].0 == 1 || g == 2) {
                have *= rest[0].0;
                taken.push(rest[0]);
                rest = &rest[1..];
            }
            if have != want {
                return None;
            }
            match super::view::merged(&taken).as_slice() {
                [] => dims.push((1, 0)),
                [one] => dims.push(*one),
                _ => return None,
            }
        }
        // In SBUF a merged dimension may straddle partitions in a way a DMA cannot say; that is found when it is copied.
        Some(View { dims, ..v.clone() })
    }

    /// One result tile in SBUF, accumulated over K.
    fn dot_tile(
        &mut self,
        stationary: &Side,
        moving: &Side,
        b: u64,
        m: (u64, u64),
        n: (u64, u64),
        k: u64,
        dtype: DType,
    ) -> Lowered<murre_components::ids::LocId> {
        let (rows, columns) = (m.1 - m.0, n.1 - n.0);
        let psum = self.new_loc(Space::Psum, VarKind::Internal, DType::F32, rows, columns);
        let mut k0 = 0;
        while k0 < k {
            let k1 = k.min(k0 + K_TILE);
            let w = self.dot_operand(stationary, b, (k0, k1), m)?;
            let x = self.dot_operand(moving, b, (k0, k1), n)?;
            // PSUM flags: START on the first, STOP on the last (spec/isa_compute.md 3.3).
            let flags = (k0 == 0) as u8 | ((k1 == k) as u8) << 1;
            let operands = vec![
                self.whole_tile(psum, AccessMode::Store),
                self.whole_tile(x, AccessMode::Load),
                self.whole_tile(w, AccessMode::Load),
            ];
            self.node(NodeKind::DotTile, HloOp::Dot, 0, flags, operands, NodeScalars::default());
            k0 = k1;
        }
        let tile = self.tile(dtype, Layout { parts: rows, free: columns })?;
        let operands =
            vec![self.whole_tile(tile, AccessMode::Store), self.whole_tile(psum, AccessMode::Load)];
        self.node(NodeKind::Elementwise, HloOp::Convert, 0, 0, operands, NodeScalars::default());
        Ok(tile)
    }

    /// A `[K, columns]` tile of an operand, K on partitions.
    fn dot_operand(
        &mut self,
        side: &Side,
        b: u64,
        k: (u64, u64),
        c: (u64, u64),
    ) -> Lowered<murre_components::ids::LocId> {
        let at = |x: u64| x as i64;
        let part = side.view.slice(&[at(b), at(k.0), at(c.0)], &[at(b + 1), at(k.1), at(c.1)], &[]);
        let v = View { dims: part.dims[1..].to_vec(), ..part };
        let layout = Layout { parts: k.1 - k.0, free: c.1 - c.0 };
        let f = self.facts(v.loc);
        let usable = f.space == Space::Sbuf
            && v.offset == 0
            && f.parts == layout.parts
            && f.part_elems == layout.free
            && v.is_contiguous();
        if usable {
            return Ok(v.loc);
        }
        self.copy_to_tile(&Leaf::View(v), layout)
    }
}
