//! `drop_identity_moves`: a RegisterMove between equal physical ids does nothing, and the wire forbids it (its
//! destination must differ from its source, `spec/isa.md 5.1`). Colouring makes them on purpose.

use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The pass.
pub fn drop_identity_moves(
    mut order: ResMut<Order>,
    regs: Query<&RegHead>,
    mut insts: Query<(&mut InstHead, &InstRegs)>,
) {
    let colours: &[RegHead] = crate::columns!(regs);
    let Ok(mut tables) = insts.contiguous_iter_mut() else {
        return;
    };
    let Some((mut heads, inst_regs)) = tables.next() else {
        return;
    };
    let heads = heads.bypass_change_detection();
    order.0.retain(|id| {
        let (h, r) = (heads[id.index()], inst_regs[id.index()]);
        let same = h.op == Opcode::RegisterMove
            && r.src0.is_some()
            && r.dst.is_some()
            && colours[r.src0.index()].colour == colours[r.dst.index()].colour;
        if same {
            heads[id.index()].flags |= InstHead::DEAD;
        }
        !same
    });
}
