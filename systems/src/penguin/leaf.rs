//! What stands for an HLO value during lowering.

use super::view::{Sizes, View};
use murre_components::dtype::HloType;
use murre_components::ids::RegId;

/// A leaf of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Leaf {
    /// Every element is this constant: the bits of one element, zero-extended to 64 bits.
    Splat {
        /// Element type.
        ty: HloType,
        /// Bits.
        bits: u64,
        /// Extents.
        dims: Sizes,
    },
    /// Every element is a control scalar.
    Scalar {
        /// Element type: an integer of at most 32 bits, or pred. Narrow types are kept extended in the register.
        ty: HloType,
        /// Register on engine ALL.
        reg: RegId,
        /// Extents.
        dims: Sizes,
    },
    /// Memory.
    View(View),
    /// A token: nothing.
    Token,
}

impl Leaf {
    /// Extents; none for a token.
    pub fn extents(&self) -> Sizes {
        match self {
            Leaf::Splat { dims, .. } | Leaf::Scalar { dims, .. } => dims.clone(),
            Leaf::View(v) => v.extents(),
            Leaf::Token => Sizes::new(),
        }
    }

    /// Element type; pred for a token.
    pub fn ty(&self) -> HloType {
        match self {
            Leaf::Splat { ty, .. } | Leaf::Scalar { ty, .. } => *ty,
            Leaf::View(v) => v.ty,
            Leaf::Token => HloType::Pred,
        }
    }

    /// The view, if it is memory.
    pub fn view(&self) -> Option<&View> {
        match self {
            Leaf::View(v) => Some(v),
            _ => None,
        }
    }

    /// A constant or control scalar with other extents, whatever their number of elements; memory as it is.
    pub fn resized(&self, extents: &[u64]) -> Leaf {
        match self {
            Leaf::Splat { ty, bits, .. } => {
                Leaf::Splat { ty: *ty, bits: *bits, dims: Sizes::from_slice(extents) }
            }
            Leaf::Scalar { ty, reg, .. } => {
                Leaf::Scalar { ty: *ty, reg: *reg, dims: Sizes::from_slice(extents) }
            }
            other => other.clone(),
        }
    }

    /// The same value under other extents with the same number of elements, if no data has to move.
    pub fn reshaped(&self, extents: &[u64]) -> Option<Leaf> {
        Some(match self {
            Leaf::Splat { ty, bits, .. } => {
                Leaf::Splat { ty: *ty, bits: *bits, dims: Sizes::from_slice(extents) }
            }
            Leaf::Scalar { ty, reg, .. } => {
                Leaf::Scalar { ty: *ty, reg: *reg, dims: Sizes::from_slice(extents) }
            }
            Leaf::View(v) => Leaf::View(v.reshape(extents)?),
            Leaf::Token => Leaf::Token,
        })
    }
}

/// The integer that the low bits of a constant of type `ty` mean.
pub fn integer(ty: HloType, bits: u64) -> i64 {
    match ty {
        HloType::Pred => (bits & 0xFF != 0) as i64,
        HloType::S8 => bits as u8 as i8 as i64,
        HloType::S16 => bits as u16 as i16 as i64,
        HloType::S32 => bits as u32 as i32 as i64,
        HloType::U8 => bits as u8 as i64,
        HloType::U16 => bits as u16 as i64,
        HloType::U32 => bits as u32 as i64,
        _ => bits as i64,
    }
}

/// Whether a value of this type can be a control scalar: what a 32-bit register holds exactly.
pub fn fits_register(ty: HloType) -> bool {
    matches!(
        ty,
        HloType::Pred | HloType::S8 | HloType::S16 | HloType::S32 | HloType::U8 | HloType::U16 | HloType::U32
    )
}
