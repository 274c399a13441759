//! `reg_liveness`: live ranges of registers in positions of [`Order`] (`spec/ir.md 6`). Loops stand between their head
//! label and their Terminator label; see [`crate::place::loop_hull`] for how they stretch a range. A counter or a
//! carried scalar, which is written before the loop, therefore lives to the end of it.
//!
//! Uses: `src0`, `src1` and the address register of each operand. The offset and ordinal registers that a register
//! pattern remembers are not on the wire and keep nothing alive.

use crate::columns;
use crate::place::loop_hull::LoopHulls;
use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The pass.
pub fn reg_liveness(
    order: Res<Order>,
    insts: Query<(&InstHead, &InstOperands, &InstRegs)>,
    aps: Query<&ApDynamic>,
    mut regs: Query<&mut RegLive>,
) {
    let (heads, operands, inst_regs): (&[InstHead], &[InstOperands], &[InstRegs]) = columns!(insts);
    let dynamics: &[ApDynamic] = columns!(aps);
    let Ok(mut tables) = regs.contiguous_iter_mut() else {
        return;
    };
    let Some(mut lives) = tables.next() else {
        return;
    };
    let lives = lives.bypass_change_detection();
    let mut hulls = LoopHulls::new(lives.len());
    for (position, id) in order.0.iter().enumerate() {
        let (position, row) = (position as u32, id.index());
        match heads[row].op {
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => hulls.enter(position, false),
            Opcode::Terminator => drop(hulls.leave(position)),
            _ => {}
        }
        let r = inst_regs[row];
        for d in &dynamics[operands[row].range()] {
            if d.address.is_some() {
                hulls.access(d.address.index(), position, false);
            }
        }
        for source in [r.src0, r.src1] {
            if source.is_some() {
                hulls.access(source.index(), position, false);
            }
        }
        if r.dst.is_some() {
            hulls.access(r.dst.index(), position, true);
        }
    }
    for (row, live) in lives.iter_mut().enumerate() {
        *live = match hulls.interval(row) {
            Some((first, last)) => RegLive { first, last },
            None => RegLive { first: u32::MAX, last: 0 },
        };
    }
}
