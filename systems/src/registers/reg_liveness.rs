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
    aps: Query<&ApHead>,
    regs: Query<&RegHead>,
    mut lives: ResMut<RegLives>,
) {
    let (heads, operands, inst_regs): (&[InstHead], &[InstOperands], &[InstRegs]) = columns!(insts);
    let ap_heads: &[ApHead] = columns!(aps);
    let regs: &[RegHead] = columns!(regs);
    let mut hulls = LoopHulls::new(regs.len());
    for (position, id) in order.0.iter().enumerate() {
        let (position, row) = (position as u32, id.index());
        match heads[row].op {
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => hulls.enter(position, false),
            Opcode::Terminator => drop(hulls.leave(position)),
            _ => {}
        }
        let r = inst_regs[row];
        for ApHead { dynamic: d, .. } in &ap_heads[operands[row].range()] {
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
    let live = |row| hulls.interval(row).map_or(RegLive::NEVER, |(first, last)| RegLive { first, last });
    lives.0 = (0..regs.len()).map(live).collect();
}
