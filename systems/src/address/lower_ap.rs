//! `lower_ap`: a symbolic access pattern becomes a register access pattern (`convert_sym_ap`), and a dynamic on-chip copy
//! an ordinary copy.
//!
//! In: symbolic patterns on SBUF or PSUM, placed locations. Out: register patterns whose address register holds
//! `base + (off / step) * partition stride + (off % step) * element bytes`; instructions 24 and 25 are now 23.
//!
//! ```text
//! TensorCopyDynamicDst L7[8*r3]   step 96
//! ->  mov ap_offset, 0 ; mult t, r3, 8 ; add ap_offset, ap_offset, t ; mov sub_tensor, 0 ; mov ap_addr, base
//!     div t, ap_offset, 96 ; mult t, t, 0x40000 ; add ap_addr, ap_addr, t
//!     mod t, ap_offset, 96 ; mult t, t, 4 ; add ap_addr, ap_addr, t
//!     TensorCopy [ap_addr]
//! ```
//!
//! Facts: `spec/ir.md 5.4`. The base is the location's address as an immediate instead of the load through a pointer
//! location, because locations have their addresses before this pass (D13); the three registers of that load are not
//! minted. Offsets are not negative (D14): every index was clamped.

use super::affine::lower_affine_expr;
use super::walk::{Walk, op};
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{PSUM_BASE, PSUM_PARTITION_STRIDE, SBUF_PARTITION_STRIDE};
use murre_components::ids::*;

/// The registers that survive into the register pattern.
#[derive(Clone, Copy)]
struct Survivors {
    address: RegId,
    ap_offset: RegId,
    sub_tensor: RegId,
}

/// The pass.
pub fn lower_ap(world: &mut World) {
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut inst_query = world.query::<(&InstHead, &InstOperands, &InstFrom)>();
    let mut ap_query = world.query::<(&ApHead, &ApPattern, &ApDynamic)>();
    let mut loc_query = world.query::<(&LocHead, &LocPlace)>();
    let mut axis_query = world.query::<&AxisRegs>();
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    let mut done: Vec<(InstId, ApId, Survivors)> = Vec::new();
    {
        let (heads, operands, from) = crate::columns!(inst_query, world);
        let (ap_heads, patterns, dynamic) = crate::columns!(ap_query, world);
        let (locs, places) = crate::columns!(loc_query, world);
        let axes = crate::columns!(axis_query, world);
        let exprs = world.resource::<Exprs>();
        let payloads = world.resource::<Payloads>();
        let diagnostics = world.resource::<Diagnostics>();
        for &id in &order.0 {
            let (head, ops) = (heads[id.index()], operands[id.index()]);
            if head.flags & InstHead::DYNAMIC == 0 || head.op.is_dma() {
                walk.order.push(id);
                continue;
            }
            for ap in ops.range().filter(|a| ap_heads[*a].kind == ApKind::Symbolic) {
                let Some(address) = payloads.symbolic(dynamic[ap].payload) else { continue };
                let loc = ap_heads[ap].loc;
                let moving = head.op == Opcode::Matmult && ApId(ap as u32) == ops.input(1);
                let site = Site {
                    id,
                    head: ap_heads[ap],
                    pattern: &patterns[ap],
                    loc: locs[loc.index()],
                    place: places[loc.index()],
                    engine: head.engine,
                    from: from[id.index()],
                    second_of_matmult: moving,
                };
                match convert_sym_ap(&mut walk, exprs, axes, address, &site) {
                    Ok(survivors) => done.push((id, ApId(ap as u32), survivors)),
                    Err(what) => {
                        diagnostics.push(Diagnostic::error(&INTERNAL, what).ordered(from[id.index()].hlo.0));
                    }
                }
            }
            walk.order.push(id);
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    let mut q = world.query::<(&mut ApHead, &mut ApDynamic)>();
    if let Ok(mut tables) = q.contiguous_iter_mut(world)
        && let Some((mut heads, mut dynamic)) = tables.next()
    {
        let (heads, dynamic) = (heads.bypass_change_detection(), dynamic.bypass_change_detection());
        for (_, ap, s) in &done {
            heads[ap.index()].kind = ApKind::Register;
            let d = &mut dynamic[ap.index()];
            (d.address, d.ap_offset, d.sub_tensor) = (s.address, s.ap_offset, s.sub_tensor);
        }
    }
    let mut q = world.query::<&mut InstHead>();
    if let Ok(mut tables) = q.contiguous_iter_mut(world)
        && let Some(mut heads) = tables.next()
    {
        let heads = heads.bypass_change_detection();
        for (id, _, _) in &done {
            let op = &mut heads[id.index()].op;
            if matches!(op, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst) {
                *op = Opcode::TensorCopy;
            }
        }
    }
}

/// Where a symbolic pattern stands.
struct Site<'a> {
    id: InstId,
    head: ApHead,
    pattern: &'a ApPattern,
    loc: LocHead,
    place: LocPlace,
    engine: murre_components::engine::EngineId,
    from: InstFrom,
    second_of_matmult: bool,
}

/// The exact sequence of `spec/ir.md 5.4`, with an immediate base.
fn convert_sym_ap(
    walk: &mut Walk,
    exprs: &Exprs,
    axes: &[AxisRegs],
    address: &SymbolicAddress,
    site: &Site<'_>,
) -> Result<Survivors, String> {
    let (stride, base) = match site.loc.space {
        Space::Dram => return Err("a symbolic access pattern cannot be in DRAM".to_string()),
        Space::Sbuf => (SBUF_PARTITION_STRIDE, 0),
        Space::Psum => (PSUM_PARTITION_STRIDE, PSUM_BASE),
    };
    let step = site.pattern.0.first().map_or(0, |p| p.step) as i64;
    if step <= 0 {
        return Err("the partition step of a symbolic access pattern is not positive".to_string());
    }
    if site.place.address == u32::MAX {
        return Err("a symbolic access pattern on a location without an address".to_string());
    }
    let bytes = site.head.dtype.bytes() as i64;
    let (e, hlo, id) = (site.engine, site.from.hlo, site.id);
    let mint = |walk: &mut Walk, role| walk.reg(e, role, site.from, id, site.head.loc);
    let ap_offset = mint(walk, RegRole::ApOffset);
    let sub_tensor = mint(walk, RegRole::SubTensorId);
    let tmp = mint(walk, RegRole::Temp);
    let addr = mint(walk, RegRole::ApAddr);
    let lowered = lower_affine_expr(walk, exprs, axes, address.tile, e, hlo, id, ap_offset, tmp)
        .and_then(|()| lower_affine_expr(walk, exprs, axes, address.block, e, hlo, id, sub_tensor, tmp));
    lowered.map_err(|fault| fault.message().to_string())?;
    walk.move_imm(e, hlo, id, addr, (base + site.place.address) as i64);
    walk.alu_imm(e, hlo, id, op::DIVIDE, ap_offset, step, tmp);
    walk.alu_imm(e, hlo, id, op::MULT, tmp, stride as i64, tmp);
    walk.alu_reg(e, hlo, id, op::ADD, addr, tmp, addr);
    walk.alu_imm(e, hlo, id, op::MOD, ap_offset, step, tmp);
    walk.alu_imm(e, hlo, id, op::MULT, tmp, bytes, tmp);
    walk.alu_reg(e, hlo, id, op::ADD, addr, tmp, addr);
    if site.second_of_matmult {
        let last: i64 = site.pattern.0.iter().skip(1).map(|p| p.num as i64).product::<i64>() - 1;
        walk.alu_imm(e, hlo, id, op::ADD, addr, bytes * last, addr);
    }
    Ok(Survivors { address: addr, ap_offset, sub_tensor })
}
