//! The dynamic halves of access patterns, behind keys in a side arena because few patterns have one
//! (`spec/ir.md 3.8, 4`).

use crate::ids::{ApId, ExprId, RegId};
use arrayvec::ArrayVec;
use bevy_ecs::prelude::Resource;
use slotmap::{SlotMap, new_key_type};

new_key_type! {
    /// Key of a payload in [`Payloads`].
    pub struct PayloadKey;
}

/// One term of a run-time offset: `coef * expr`, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct DynamicTerm {
    pub expr: ExprId,
    pub coef: i64,
}

/// Row stride of dimension `from - 1` in elements: the product of the extents from `from` inward, 1 for none. `None` past
/// the rank plus one, or when it does not fit. The product takes the dimensions *inside* the indexed one: that is what
/// makes `coef * index` the start of row `index` (D12).
pub fn accumulated_shape(shape: &[u64], from: usize) -> Option<u64> {
    if from > shape.len() + 1 {
        return None;
    }
    shape.iter().skip(from).try_fold(1u64, |product, n| product.checked_mul(*n))
}

/// Scalar or vector offset: exactly one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OffsetKind {
    /// A run-time register value.
    Scalar,
    /// A tensor of indices: its access pattern.
    Vector(ApId),
}

/// The run-time offset of a physical pattern: `c + sum(coef * expr)` elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DynamicApInfo {
    /// Scalar or vector.
    pub kind: OffsetKind,
    /// The terms.
    pub terms: ArrayVec<DynamicTerm, 8>,
    /// The static portion, elements.
    pub c: i64,
    /// The indexed dimension (0 for vector offsets).
    pub indirect_dim: u8,
    /// Largest admissible index plus one.
    pub indirect_dim_max_index: u32,
    /// Dense id of the index argument after renumbering, -1 for a register value.
    pub tensor_indirect_arg_id: i32,
    /// Number of indices of a vector offset.
    pub num_tensor_indirect_indices: u32,
    /// Register with the byte offset, once `expand_dynamic_ap_info` has run.
    pub offset_reg: RegId,
    /// Register with the bound in bytes, once expanded.
    pub bound_reg: RegId,
}

/// The address of a symbolic pattern: flat element offset and block ordinal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct SymbolicAddress {
    pub tile: ExprId,
    pub block: ExprId,
}

/// A payload.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Payload {
    Dynamic(DynamicApInfo),
    Symbolic(SymbolicAddress),
}

/// All payloads of a compilation.
#[derive(Resource, Default)]
pub struct Payloads(pub SlotMap<PayloadKey, Payload>);

impl Payloads {
    /// The dynamic info behind a key.
    pub fn dynamic(&self, key: PayloadKey) -> Option<&DynamicApInfo> {
        match self.0.get(key) {
            Some(Payload::Dynamic(d)) => Some(d),
            _ => None,
        }
    }

    /// The symbolic address behind a key.
    pub fn symbolic(&self, key: PayloadKey) -> Option<&SymbolicAddress> {
        match self.0.get(key) {
            Some(Payload::Symbolic(s)) => Some(s),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::accumulated_shape;

    /// D12 by numbers: with the row stride, `stride * index` is the first element of row `index` of a dense tensor.
    #[test]
    fn the_accumulated_shape_is_the_row_stride() {
        let shape = [5u64, 3, 4, 2];
        let flat = |at: [u64; 4]| at.iter().zip(shape).fold(0, |f, (i, n)| f * n + i);
        for dim in 0..4 {
            let stride = accumulated_shape(&shape, dim + 1);
            for index in 0..shape[dim] {
                let mut at = [0; 4];
                at[dim] = index;
                assert_eq!(stride.map(|s| s * index), Some(flat(at)), "dimension {dim}, index {index}");
            }
            // The largest index as multiplier goes wrong for every row but the first.
            assert_ne!(Some(shape[dim]), stride.filter(|_| dim != 2));
        }
        assert_eq!(accumulated_shape(&shape, 4), Some(1));
        assert_eq!(accumulated_shape(&shape, 5), Some(1));
        assert_eq!(accumulated_shape(&shape, 6), None);
        assert_eq!(accumulated_shape(&[u64::MAX, u64::MAX, 2], 0), None);
    }
}
