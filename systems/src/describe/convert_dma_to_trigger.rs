//! In: copies that have a block. Out: each is its block's trigger, in place: same engine, operands kept for the
//! dependences. Facts: `spec/ir.md 9.4`.
//!
//! ```text
//! DMACopy(sp) sbuf:3 <- in0 block=0   =>   DMATrigger(sp) sbuf:3 <- in0 block=0
//! ```

use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The system.
pub fn convert_dma_to_trigger(mut insts: Query<&mut InstHead>, dmas: Res<InstDmas>) {
    let Ok(tables) = insts.contiguous_iter_mut() else { return };
    for mut head in tables {
        for (h, d) in head.bypass_change_detection().iter_mut().zip(&dmas.0) {
            if h.op == Opcode::DmaCopy && d.block.is_some() {
                h.op = Opcode::DmaTrigger;
            }
        }
    }
}
