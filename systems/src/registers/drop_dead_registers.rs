//! `drop_dead_registers`: drops register instructions whose result nothing needs (`spec/ir.md 5.8`).
//!
//! Control operations are cloned for every engine, but most scalars matter to one or two: an offset to the engine that
//! issues the DMA, an address to the one that computes. What branches, operands and DMAs read is needed; what is
//! needed makes the sources of all of its definitions needed. Moves, ALU operations and loads of other registers go.
//! This works through cycles, such as a carried scalar that only feeds itself.

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::RegId;

/// An operation that does nothing but write its register.
fn is_pure(op: Opcode) -> bool {
    matches!(op, Opcode::RegisterAlu | Opcode::RegisterMove | Opcode::TensorLoad)
}

/// The pass.
pub fn drop_dead_registers(
    mut order: ResMut<Order>,
    regs: Query<&RegHead>,
    aps: Query<&ApHead>,
    mut insts: Query<(&mut InstHead, &InstOperands, &InstRegs)>,
) {
    const NONE: u32 = u32::MAX;
    let (reg_heads, ap_heads): (&[RegHead], &[ApHead]) = (columns!(regs), columns!(aps));
    let Ok(mut tables) = insts.contiguous_iter_mut() else {
        return;
    };
    let Some((mut heads, operands, inst_regs)) = tables.next() else {
        return;
    };
    let heads = heads.bypass_change_detection();
    // Definitions of a register as a list through the instructions.
    let mut last_definition = vec![NONE; reg_heads.len()];
    let mut earlier = vec![NONE; heads.len()];
    let mut needed = vec![false; reg_heads.len()];
    let mut work: Vec<RegId> = Vec::new();
    let mut need = |r: RegId, work: &mut Vec<RegId>| {
        if let Some(n) = needed.get_mut(r.index())
            && !std::mem::replace(n, true)
        {
            work.push(r);
        }
    };
    for id in &order.0 {
        let (row, r) = (id.index(), inst_regs[id.index()]);
        if is_pure(heads[row].op)
            && let Some(last) = last_definition.get_mut(r.dst.index())
        {
            earlier[row] = std::mem::replace(last, id.0);
            continue;
        }
        need(r.src0, &mut work);
        need(r.src1, &mut work);
        for a in &ap_heads[operands[row].range()] {
            need(a.dynamic.address, &mut work);
        }
    }
    while let Some(r) = work.pop() {
        let mut at = last_definition[r.index()];
        while at != NONE {
            let (row, sources) = (at as usize, inst_regs[at as usize]);
            need(sources.src0, &mut work);
            need(sources.src1, &mut work);
            for a in &ap_heads[operands[row].range()] {
                need(a.dynamic.address, &mut work);
            }
            at = earlier[row];
        }
    }
    order.0.retain(|id| {
        let row = id.index();
        let keep = !is_pure(heads[row].op) || needed.get(inst_regs[row].dst.index()).is_none_or(|n| *n);
        if !keep {
            heads[row].flags |= InstHead::DEAD;
        }
        keep
    });
}

#[cfg(test)]
mod tests {
    use super::super::color_registers::tests::Code;
    use super::*;
    use murre_components::ids::InstId;

    #[test]
    fn what_only_feeds_itself_goes_and_what_a_branch_reads_stays() {
        const N: RegId = RegId::NONE;
        let mut code = Code::new();
        let (iv, lost, source) = (code.reg(1), code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, source, N, N, 0);
        code.op(Opcode::RegisterAlu, iv, source, N, 0);
        code.op(Opcode::RegisterMove, lost, N, N, 0);
        let label = code.op(Opcode::DynamicForLoop, N, N, N, 0);
        code.op(Opcode::RegisterAlu, lost, lost, iv, 0);
        code.op(Opcode::RegisterAlu, iv, iv, N, 0);
        code.op(Opcode::CompareAndBranch, N, iv, N, label.0);
        code.op(Opcode::Terminator, N, N, N, 0);
        let c = code.run();
        assert!(!c.world.resource::<murre_components::diag::Diagnostics>().has_errors());
        assert_eq!(c.world.resource::<Order>().0, [0, 1, 3, 5, 6, 7].map(InstId));
    }
}
