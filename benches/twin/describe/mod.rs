//! DMA copies become single-record dynamic DMAs, or descriptors in blocks behind triggers.

mod convert_dma_to_trigger;
mod lower_dma;
mod lower_dynamic_dma;
mod split_large_dmas;

pub use convert_dma_to_trigger::ConvertDmaToTrigger;
pub use lower_dma::LowerDma;
pub use lower_dynamic_dma::LowerDynamicDma;
pub use split_large_dmas::SplitLargeDmas;

use super::instruction::Operand;
use murre_systems::describe::shape::{CopyShape, copy_shape};

/// The geometry of a copy.
pub fn shape(to: &Operand, from: &Operand) -> Option<CopyShape> {
    copy_shape(
        (&to.head(), &to.pattern, &to.location.head),
        (&from.head(), &from.pattern, &from.location.head),
    )
}
