//! Copies between views: by the vector engine where both sides are on chip and every element stays on its partition, else
//! by DMA; through DRAM where a dimension straddles partitions.

use super::lower::{Lower, Lowered};
use super::view::{DmaSide, Sizes, View, dma_dims, engine_pattern};
use murre_components::bir::{ApPattern, Space};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::HloOp;
use murre_components::ids::LocId;
use murre_components::penguin::{AccessMode, NodeKind, NodeScalars};
use murre_components::program::VarKind;
use smallvec::{SmallVec, smallvec};

impl Lower<'_> {
    /// Copies `source` onto `target` (equal extents) by DMA; more dimensions than a pattern has are unrolled.
    pub fn dma_copy(&mut self, target: &View, source: &View) -> Lowered<()> {
        if target.elements() == 0 || self.engine_copy(target, source) {
            return Ok(());
        }
        let Some(dims) = dma_dims(source, self.side(source), target, self.side(target)) else {
            return self.copy_through_dram(target, source);
        };
        let extra = dims.len().saturating_sub(5);
        let copies: u64 = dims[..extra].iter().map(|d| d.0).product();
        if copies > 4096 {
            return self.refuse(&codes::LOWER_LAYOUT, format!("a copy needs {copies} patterns"));
        }
        let mut index: Sizes = smallvec![0; extra];
        for _ in 0..copies {
            let at = |pick: fn(&(u64, i64, i64)) -> i64| -> i64 {
                index.iter().zip(&dims).map(|(i, d)| *i as i64 * pick(d)).sum()
            };
            let (s, t) = (source.offset + at(|d| d.1), target.offset + at(|d| d.2));
            let source_pairs = ApPattern::new(dims[extra..].iter().map(|d| (d.1 as i32, d.0 as u32)));
            let target_pairs = ApPattern::new(dims[extra..].iter().map(|d| (d.2 as i32, d.0 as u32)));
            let (Some(sp), Some(tp)) = (source_pairs, target_pairs) else {
                return self.refuse(&codes::LOWER_LAYOUT, "a copy has too many dimensions");
            };
            if s < 0 || t < 0 || s > u32::MAX as i64 || t > u32::MAX as i64 {
                return self.refuse(&codes::LOWER_LAYOUT, "an element offset does not fit 32 bits");
            }
            let operands = [
                self.access_view(target, t as u32, tp, AccessMode::Store),
                self.access_view(source, s as u32, sp, AccessMode::Load),
            ];
            self.node(NodeKind::Copy, HloOp::Copy, 0, 0, operands, NodeScalars::default());
            for (i, d) in index.iter_mut().zip(&dims).rev() {
                *i += 1;
                if *i < d.0 {
                    break;
                }
                *i = 0;
            }
        }
        Ok(())
    }

    /// Copies by the vector engine, where both sides are on chip and every element stays in the place of its partition
    /// among those of the copy.
    fn engine_copy(&mut self, target: &View, source: &View) -> bool {
        let (t, s) = (self.facts(target.loc), self.facts(source.loc));
        if t.space != Space::Sbuf || s.space != Space::Sbuf || target.ty.bytes() > 4 || target.ty != source.ty
        {
            return false;
        }
        let mut parts = 1;
        let mut candidates: SmallVec<[u64; 8]> = smallvec![1];
        for (n, _) in &target.dims {
            parts *= n;
            if parts > 128 {
                break;
            }
            candidates.push(parts);
        }
        let (tp, sp) = (self.part_elems(target), self.part_elems(source));
        for parts in candidates.into_iter().rev() {
            let to = engine_pattern(target, t.parts, tp, parts, 3);
            let from = engine_pattern(source, s.parts, sp, parts, 3);
            if let (Some((to, to_pattern)), Some((from, from_pattern))) = (to, from) {
                let operands = [
                    self.access_view(target, to, to_pattern, AccessMode::Store),
                    self.access_view(source, from, from_pattern, AccessMode::Load),
                ];
                self.node(NodeKind::Elementwise, HloOp::Copy, 0, 0, operands, NodeScalars::default());
                return true;
            }
        }
        false
    }

    /// A copy that straddles partitions of a tile: the tile goes to DRAM whole, where nothing straddles.
    fn copy_through_dram(&mut self, target: &View, source: &View) -> Lowered<()> {
        let whole = |this: &Self, loc: LocId, ty: HloType| {
            let v = View::whole(loc, ty, &[]);
            View::whole(loc, ty, &[this.facts(loc).parts, this.part_elems(&v)])
        };
        let image = |this: &mut Self, loc: LocId| {
            let f = this.facts(loc);
            this.new_loc(Space::Dram, VarKind::Internal, f.dtype, 1, f.parts * f.part_elems)
        };
        let alone = |v: &View| View { loc: v.loc, ty: v.ty, offset: 0, dims: smallvec![(v.elements(), 1)] };
        let (dram, tile) = (DmaSide { part_elems: None }, |this: &Self, v: &View| this.side(v));
        if dma_dims(
            source,
            tile(self, source),
            &alone(source).reshape(&source.extents()).unwrap_or_else(|| source.clone()),
            dram,
        )
        .is_none()
        {
            let loc = image(self, source.loc);
            let (from, to) = (whole(self, source.loc, source.ty), whole(self, source.loc, source.ty));
            self.dma_copy(&View { loc, ..to }, &from)?;
            return self.dma_copy(target, &View { loc, ..source.clone() });
        }
        let f = self.facts(target.loc);
        if f.space == Space::Dram {
            return self
                .refuse(&codes::LOWER_LAYOUT, "a copy straddles partitions in a way no pattern can say");
        }
        let loc = image(self, target.loc);
        let (here, there) = (whole(self, target.loc, target.ty), whole(self, target.loc, target.ty));
        let there = View { loc, ..there };
        if target.elements() < f.parts * self.part_elems(target) {
            // The rest of the tile keeps what it holds.
            self.dma_copy(&there, &here)?;
        }
        self.dma_copy(&View { loc, ..target.clone() }, source)?;
        self.dma_copy(&here, &there)
    }
}
