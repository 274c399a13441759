//! `verify_address`: after this stage nothing symbolic survives, nothing runs on engine ALL, every register belongs to
//! the engine of the instruction that names it, and every dynamic DMA has its offset and bound.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::EngineId;

/// The pass.
pub fn verify_address(
    insts: Query<(&InstHead, &InstOperands, &InstRegs, &InstFrom)>,
    aps: Query<&ApHead>,
    regs: Query<&RegHead>,
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
) {
    let (heads, operands, inst_regs, from) = crate::columns!(insts);
    let ap_heads = crate::columns!(aps);
    let regs = crate::columns!(regs);
    for &id in &order.0 {
        let (head, r) = (heads[id.index()], inst_regs[id.index()]);
        let fault = |what: String| {
            let name = head.op.name();
            diagnostics.push(
                Diagnostic::error(&INTERNAL, format!("{name}: {what}")).ordered(from[id.index()].hlo.0),
            );
        };
        if head.op.is_structure() {
            continue;
        }
        if head.engine == EngineId::All {
            fault("is still on engine ALL".to_string());
        }
        let addresses = operands[id.index()].range().map(|a| ap_heads[a].dynamic.address);
        for reg in [r.src0, r.src1, r.dst].into_iter().chain(addresses).filter(|r| r.is_some()) {
            if regs[reg.index()].engine != head.engine {
                fault(format!("register {} is on {}", reg.0, regs[reg.index()].engine.name()));
            }
        }
        for a in operands[id.index()].range() {
            match ap_heads[a].kind {
                ApKind::Symbolic => fault("a symbolic access pattern survived".to_string()),
                ApKind::Register if ap_heads[a].dynamic.address.is_none() => {
                    fault("a register pattern without one".to_string())
                }
                _ => {}
            }
        }
        if head.op.is_dma()
            && head.flags & InstHead::DYNAMIC != 0
            && operands[id.index()].inputs == 1
            && (r.src0.is_none() || r.src1.is_none())
        {
            fault("a dynamic DMA without offset or bound".to_string());
        }
    }
}
