//! Iota: generated once along its dimension, on one partition where it is short, then viewed with step 0 along all
//! others.

use super::leaf::Leaf;
use super::lower::{Lower, Lowered, TILE_BYTES, extents};
use super::tiling::PIECE_BYTES;
use super::view::{Layout, View};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp};
use murre_components::penguin::{AccessMode, NodeKind, NodeScalars};

/// Longest iota that is generated along one partition, elements.
const LINE: u64 = 4096;

impl Lower<'_> {
    /// Iota along a dimension.
    pub fn iota(&mut self, inst: HloInst<'_>) -> Lowered<Leaf> {
        let (Some(shape), Attrs::Iota { dimension }) = (inst.shape().array(), inst.attrs()) else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "iota without a dimension");
        };
        let dims = extents(shape);
        let n = dims[*dimension as usize];
        let exact = match shape.ty {
            HloType::S32 | HloType::U32 => true,
            HloType::F32 => n <= 1 << 24,
            HloType::F16 | HloType::Bf16 => true,
            HloType::S8 => n <= 128,
            HloType::U8 => n <= 256,
            HloType::S16 => n <= 1 << 15,
            HloType::U16 => n <= 1 << 16,
            _ => false,
        };
        if !exact {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, format!("iota of {n} {}", shape.ty.name()));
        }
        if n <= 1 || dims.contains(&0) {
            return Ok(Leaf::Splat { ty: shape.ty, bits: 0, dims });
        }
        let layout = if n <= LINE { Layout::flat(n) } else { Layout::choose(&[n]) };
        let line = if layout.free * shape.ty.bytes() as u64 > TILE_BYTES {
            let most = PIECE_BYTES / shape.ty.bytes().max(1) as u64;
            self.in_pieces(shape.ty, &[n], most, |this, part| {
                let (start, size) = (part.start[0], part.size[0]);
                this.counted(shape.ty, start, Layout::choose(&[size]))
            })?
        } else {
            self.counted(shape.ty, 0, layout)?
        };
        match line {
            Leaf::View(line) => Ok(Leaf::View(line.broadcast(&[*dimension], &dims))),
            other => Ok(other),
        }
    }

    /// `first, first + 1, ...` over a tile.
    fn counted(&mut self, ty: HloType, first: u64, layout: Layout) -> Lowered<Leaf> {
        let dtype = self.dtype(ty)?;
        let loc = self.tile(dtype, layout)?;
        let target = self.whole_tile(loc, AccessMode::Store);
        let scalars = NodeScalars { imm: first as u32, ..Default::default() };
        self.node(NodeKind::Iota, HloOp::Iota, 0, 0, [target], scalars);
        Ok(Leaf::View(View::whole(loc, ty, &[layout.parts * layout.free])))
    }
}
