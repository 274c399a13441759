//! bitcast-convert: the same bytes read as elements of another type. A view in memory is only read differently; what is
//! not in memory goes there first.

use super::leaf::{Leaf, fits_register};
use super::lower::{Lower, Lowered, extents, type_range};
use super::scalar::{Scalar, UNSIGNED};
use super::view::{Dims, View, row_major};
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::{DType, HloType};
use murre_components::hlo::HloInst;
use murre_components::isa::alu::AluOp;

impl Lower<'_> {
    /// Lowers a bitcast-convert.
    pub fn bitcast_convert(&mut self, inst: HloInst<'_>, leaf: &Leaf) -> Lowered<Leaf> {
        let Some(shape) = inst.shape().array() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "bitcast-convert of a tuple");
        };
        let (from, to) = (leaf.ty(), shape.ty);
        let dims = extents(shape);
        let whole_bytes = |t: HloType| DType::of(t).is_some() && t.bits() as usize == 8 * t.bytes();
        if !whole_bytes(from) || !whole_bytes(to) {
            return self.refuse(
                &codes::LOWER_TYPE,
                format!("bitcast-convert from {} to {}", from.name(), to.name()),
            );
        }
        if from.bytes() == to.bytes() {
            let read = self.reread(leaf.clone(), to)?;
            return Ok(read.reshaped(&dims).unwrap_or(read));
        }
        let v = self.as_view(leaf)?;
        if from.bytes() > to.bytes() {
            let ratio = (from.bytes() / to.bytes()) as i64;
            let mut parts: Dims = v.dims.iter().map(|(n, s)| (*n, s * ratio)).collect();
            parts.push((ratio as u64, 1));
            return Ok(Leaf::View(View { loc: v.loc, ty: to, offset: v.offset * ratio, dims: parts }));
        }
        let ratio = (to.bytes() / from.bytes()) as i64;
        let outer = v.dims.len() - 1;
        let whole = v.dims[outer].1 == 1
            && v.offset % ratio == 0
            && v.dims[..outer].iter().all(|(n, s)| *n <= 1 || s % ratio == 0)
            && self.part_elems(&v).is_multiple_of(ratio as u64);
        let v = if whole {
            v
        } else {
            let dense = self.compact_in_dram(&Leaf::View(v.clone()))?;
            View { dims: row_major(&v.extents()), ..dense }
        };
        let parts = v.dims[..outer].iter().map(|(n, s)| (*n, s / ratio)).collect();
        Ok(Leaf::View(View { loc: v.loc, ty: to, offset: v.offset / ratio, dims: parts }))
    }

    /// The same bits under another type of the same width.
    pub fn reread(&mut self, leaf: Leaf, ty: HloType) -> Lowered<Leaf> {
        let from = leaf.ty();
        if from == ty {
            return Ok(leaf);
        }
        let registers = fits_register(from) && fits_register(ty) && from.bytes() == 4;
        match leaf {
            Leaf::Splat { bits, dims, .. } => Ok(Leaf::Splat { ty, bits, dims }),
            // A register keeps its bits, but what is proved of them as one type says nothing of the other.
            leaf if registers && (matches!(leaf, Leaf::Scalar { .. }) || self.is_scalar_parameter(&leaf)) => {
                let source = Scalar::Reg(self.as_register(&leaf)?);
                let same = self.alu(AluOp::Add, source, Scalar::Const(0), UNSIGNED, type_range(ty));
                Ok(same.leaf(ty, leaf.extents()))
            }
            leaf => {
                let v = self.as_view(&leaf)?;
                Ok(Leaf::View(View { ty, ..v }))
            }
        }
    }
}
