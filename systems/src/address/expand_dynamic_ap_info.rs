//! `expand_dynamic_ap_info`: the run-time offset of a dynamic DMA as register arithmetic in front of it.
//!
//! In: dynamic DMAs with `DynamicApInfo` over registers of their engine. Out: the byte offset `c + sum(coef * index)` in
//! one register and the variable's size in another, both on the instruction (`regs.src0`, `regs.src1`). Offsets turn
//! from elements to bytes here and only here. Equal terms of an instruction are multiplied once.
//!
//! ```text
//! DMACopy L4[c + 8*r3] = L1     ->  mov off, 4*c ; mult t, r3, 32 ; add off, off, t ; mov bound, 4*n ; DMACopy [off]
//! ```
//!
//! Facts: `spec/ir.md 5.5`, `spec/isa.md 4.2, 4.3`, D9, D17. A location of 2 GiB or more would need the pair form of the
//! sum; such locations are refused.

use super::affine::index_register;
use super::walk::{Walk, op};
use crate::staging::Staging;
use arrayvec::ArrayVec;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::codes::lower::LOWER_TILE;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::ids::*;

/// The pass.
pub fn expand_dynamic_ap_info(world: &mut World) {
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut inst_query = world.query::<(&InstHead, &InstOperands, &InstFrom)>();
    let mut ap_query = world.query::<(&ApHead, &ApDynamic)>();
    let mut loc_query = world.query::<&LocHead>();
    let mut axis_query = world.query::<&AxisRegs>();
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    let mut done: Vec<(InstId, ApId, RegId, RegId)> = Vec::new();
    {
        let (heads, operands, from) = crate::columns!(inst_query, world);
        let (ap_heads, dynamic) = crate::columns!(ap_query, world);
        let locs = crate::columns!(loc_query, world);
        let axes = crate::columns!(axis_query, world);
        let exprs = world.resource::<Exprs>();
        let payloads = world.resource::<Payloads>();
        let diagnostics = world.resource::<Diagnostics>();
        for &id in &order.0 {
            let head = heads[id.index()];
            if head.flags & InstHead::DYNAMIC == 0 {
                walk.order.push(id);
                continue;
            }
            for ap in operands[id.index()].range() {
                let Some(info) = payloads.dynamic(dynamic[ap].payload) else { continue };
                if matches!(info.kind, OffsetKind::Vector(_)) {
                    // The offsets are in memory; the record names them.
                    continue;
                }
                let from = from[id.index()];
                let fail = |what: &str| {
                    diagnostics.push(Diagnostic::error(&INTERNAL, what.to_string()).ordered(from.hlo.0));
                };
                if !head.op.is_dma() {
                    fail("only a dynamic DMA can carry a dynamic access pattern");
                    continue;
                }
                let loc = ap_heads[ap].loc;
                let bytes = ap_heads[ap].dtype.bytes() as i64;
                let size = locs[loc.index()].part_bytes();
                if size >= 1 << 31 {
                    let what = format!("a run-time offset into {size} bytes needs 64-bit registers");
                    diagnostics.push(Diagnostic::error(&LOWER_TILE, what).ordered(from.hlo.0));
                    continue;
                }
                let engine = head.engine;
                let sum = walk.reg(engine, RegRole::DynamicOffset, from, id, loc);
                walk.move_imm(engine, from.hlo, id, sum, info.c * bytes);
                let mut cache: ArrayVec<(ExprId, i64, RegId), 8> = ArrayVec::new();
                for term in &info.terms {
                    if term.coef <= 0 {
                        fail("a run-time offset with a coefficient that is not positive");
                        continue;
                    }
                    let scaled = term.coef * bytes;
                    let known = cache.iter().find(|c| c.0 == term.expr && c.1 == scaled).map(|c| c.2);
                    let product = match known {
                        Some(p) => p,
                        None => {
                            let index = match index_register(exprs, axes, term.expr, engine) {
                                Ok(r) => r,
                                Err(fault) => {
                                    fail(fault.message());
                                    continue;
                                }
                            };
                            let p = walk.reg(engine, RegRole::DynamicTerm, from, id, loc);
                            walk.alu_imm(engine, from.hlo, id, op::MULT, index, scaled, p);
                            cache.push((term.expr, scaled, p));
                            p
                        }
                    };
                    walk.alu_reg(engine, from.hlo, id, op::ADD, sum, product, sum);
                }
                let bound = walk.reg(engine, RegRole::Bound, from, id, loc);
                walk.move_imm(engine, from.hlo, id, bound, size as i64);
                done.push((id, ApId(ap as u32), sum, bound));
            }
            walk.order.push(id);
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    {
        let mut q = world.query::<&mut InstRegs>();
        if let Ok(mut tables) = q.contiguous_iter_mut(world)
            && let Some(mut rows) = tables.next()
        {
            let rows = rows.bypass_change_detection();
            for (id, _, sum, bound) in &done {
                rows[id.index()] = InstRegs { src0: *sum, src1: *bound, dst: RegId::NONE };
            }
        }
    }
    let mut keys = Vec::new();
    let mut q = world.query::<&mut ApDynamic>();
    if let Ok(mut tables) = q.contiguous_iter_mut(world)
        && let Some(mut rows) = tables.next()
    {
        let rows = rows.bypass_change_detection();
        for (_, ap, sum, bound) in &done {
            rows[ap.index()].address = *sum;
            keys.push((rows[ap.index()].payload, *sum, *bound));
        }
    }
    let mut payloads = world.resource_mut::<Payloads>();
    for (key, sum, bound) in keys {
        if let Some(Payload::Dynamic(info)) = payloads.0.get_mut(key) {
            (info.offset_reg, info.bound_reg) = (sum, bound);
        }
    }
}
