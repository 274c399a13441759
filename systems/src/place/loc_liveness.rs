//! `loc_liveness`: live ranges of locations in positions of [`Order`], loops included (see [`super::loop_hull`]).
//!
//! A write defines a location unless it is predicated or its address is decided at run time: then a trip may read
//! what an earlier trip wrote. Network inputs, outputs and constants live over the whole program, and so does the
//! dynamic-DMA scratch. A location that nothing touches keeps the empty range.

use super::loop_hull::LoopHulls;
use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::program::VarKind;
use slotmap::Key;

/// The pass.
pub fn loc_liveness(
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands)>,
    aps: Query<&ApHead>,
    locs: Query<&LocHead>,
    mut lives: ResMut<LocLives>,
) {
    let (heads, operands): (&[InstHead], &[InstOperands]) = columns!(insts);
    let ap_heads: &[ApHead] = columns!(aps);
    let loc_heads: &[LocHead] = columns!(locs);
    let mut hulls = LoopHulls::new(loc_heads.len());
    let mut balanced = true;
    for (position, id) in order.0.iter().enumerate() {
        let (position, head) = (position as u32, heads[id.index()]);
        match head.op {
            Opcode::Loop => hulls.enter(position, true),
            Opcode::DynamicForLoop | Opcode::DoWhile => hulls.enter(position, false),
            Opcode::Terminator => balanced &= hulls.leave(position),
            _ => {}
        }
        let o = operands[id.index()];
        let (rows, outputs) = (o.range(), o.outputs as usize);
        for row in rows.clone().skip(outputs) {
            hulls.access(ap_heads[row].loc.index(), position, false);
        }
        for row in rows.take(outputs) {
            let a = ap_heads[row];
            let fixed = a.kind == ApKind::Physical && a.dynamic.payload.is_null();
            hulls.access(a.loc.index(), position, fixed && head.op != Opcode::CopyPredicated);
        }
    }
    if !balanced {
        diagnostics.push(Diagnostic::error(&INTERNAL, "a Terminator closes no loop"));
        return;
    }
    let whole = LocLive { first: 0, last: (order.0.len() as u32).saturating_sub(1) };
    let live = |(row, head): (usize, &LocHead)| {
        let network = head.space == Space::Dram && head.kind != VarKind::Internal;
        match hulls.interval(row) {
            _ if network || head.flags & LocHead::SCRATCH != 0 => whole,
            Some((first, last)) => LocLive { first, last },
            None => LocLive::NEVER,
        }
    };
    lives.0 = loc_heads.iter().enumerate().map(live).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;
    use murre_components::ids::*;

    fn at(loc: u32, kind: ApKind) -> Operand {
        Operand {
            loc: LocId(loc),
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::default(),
            kind,
            payload: PayloadKey::default(),
            flags: 0,
        }
    }

    /// Ranges of four tiles after a loop at 0..=5 whose body is `body`: operation, output, inputs.
    fn lives(body: &[(Opcode, Operand, &[Operand])]) -> Vec<(u32, u32)> {
        let mut c = Compiler::new(HloModule::default(), Default::default());
        let mut rows = Staging::new(&c.world);
        for _ in 0..4 {
            rows.loc(LocRow::new(Space::Sbuf, DType::F32, 128, 16, HloId::NONE));
        }
        let row = |op| InstRow::new(op, EngineId::Dve, HloId::NONE);
        let mut order = vec![rows.inst(row(Opcode::DynamicForLoop), &[], &[])];
        for (op, output, inputs) in body {
            order.push(rows.inst(row(*op), std::slice::from_ref(output), inputs));
        }
        order.push(rows.inst(row(Opcode::Terminator), &[], &[]));
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        let mut schedule = Schedule::default();
        schedule.add_systems(loc_liveness);
        schedule.run(&mut c.world);
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        c.world.resource::<LocLives>().0.iter().map(|l| (l.first, l.last)).collect()
    }

    #[test]
    fn writes_that_leave_something_of_the_old_content_carry_it() {
        use ApKind::{Physical, Symbolic};
        let (x, y) = (at(0, Physical), at(1, Physical));
        let plain = [(Opcode::TensorCopy, x.clone(), &[] as &[_]), (Opcode::TensorCopy, y.clone(), &[x])];
        assert_eq!(lives(&plain)[..3], [(1, 2), (2, 2), (u32::MAX, 0)]);
        let (x, z) = (at(0, Physical), at(2, Symbolic));
        let partial = [(Opcode::CopyPredicated, x, &[] as &[_]), (Opcode::TensorCopyDynamicDst, z, &[y])];
        assert_eq!(lives(&partial)[..3], [(0, 3), (0, 3), (0, 3)]);
    }
}
