//! In: dynamic DMAs on Pool, before their offsets are registers. Out: those that the hardware generator takes stand on
//! its engine, so that offset and bound are computed there (D7: registers are read at issue, on the issuing engine).
//!
//! This is the early slot of the scan (`spec/ir.md 14-y`) and of the binder (8.2). The route table names software first
//! for every dynamic copy (14-c), so there is nothing to do unless `--dge-route hw` promotes.
//!
//! ```text
//! DMACopy(pool) sbuf:3 <- in0[reg7 + ..] dge=unassigned     =>     DMACopy(sp) .. dge=hwdge
//! ```

use super::assign_hwdge_engine::{HwdgeTurn, hwdge_engine};
use super::dynamic_dma_scan::DmaView;
use super::reason::{EngineReason, EngineReasons, RouteReason, RouteReasons};
use crate::columns;
use crate::options::{CompileOptions, DgeRoute};
use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The system.
pub fn bind_dynamic_dma(
    mut insts: Query<(&mut InstHead, &InstOperands, &InstArgs)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    payloads: Res<Payloads>,
    order: Res<Order>,
    options: Res<CompileOptions>,
    mut commands: Commands,
) {
    if options.dge_route != DgeRoute::Hardware {
        return;
    }
    let arch = options.target.arch();
    let (heads, patterns) = columns!(aps);
    let view = DmaView { heads, patterns, locs: columns!(locs), payloads: &payloads };
    let Ok(mut tables) = insts.contiguous_iter_mut() else { return };
    let Some((mut head, operands, args)) = tables.next() else { return };
    let head = head.bypass_change_detection();
    let mut turn = HwdgeTurn::default();
    let mut routes = vec![RouteReason::NotScanned; head.len()];
    let mut engines = vec![EngineReason::NotBound; head.len()];
    for &id in &order.0 {
        let row = id.index();
        let Some(h) = head.get_mut(row) else { continue };
        let dynamic = h.op == Opcode::DmaCopy && h.flags & InstHead::DYNAMIC != 0 && h.live();
        if !dynamic || h.dge != DgeType::Unassigned {
            continue;
        }
        // What is refused is refused by the late scan.
        if let Ok((DgeType::Hwdge, reason)) = view.decide(*h, operands[row], args[row], &options)
            && let Some(engine) = hwdge_engine(arch, h.engine, &mut turn)
        {
            (h.dge, h.engine, routes[row]) = (DgeType::Hwdge, engine, reason);
            engines[row] = if arch <= 49 { EngineReason::Ladder } else { EngineReason::Turn };
        }
    }
    commands.insert_resource(turn);
    commands.insert_resource(RouteReasons(routes));
    commands.insert_resource(EngineReasons(engines));
}
