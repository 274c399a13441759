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
//! Facts: `spec/ir.md 5.4`, D13. By default the base is an immediate, because locations have their addresses before this
//! pass. With `pointer_bases` it is loaded through a pointer location ([`super::pointer_base`]), the sequence in full. Of
//! its seven registers two pairs are one row each: `RegTemp:RegTemp1` and `RegDramAddr0:RegDramAddr1`. Offsets are not
//! negative (D14): every index was clamped.

use super::affine::lower_affine_expr;
use super::pointer_base::PointerBases;
use super::walk::{Walk, op};
use crate::options::CompileOptions;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::SYMBOLIC_AP;
use murre_components::diag::{Code, Diagnostic, Diagnostics};
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
pub fn lower_ap(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    all_locs: &mut QueryState<(&LocHead, &LocPlace, &LocFrom)>,
    axes: &mut QueryState<&AxisRegs>,
    aps_mut: &mut QueryState<&mut ApHead>,
    heads_mut: &mut QueryState<&mut InstHead>,
) {
    if world.resource::<Payloads>().0.is_empty() {
        return;
    }
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    let mut done: Vec<(InstId, ApId, Survivors)> = Vec::new();
    let constants;
    {
        let (heads, operands, from) = crate::columns!(insts, world);
        let (ap_heads, patterns) = crate::columns!(aps, world);
        let (locs, places, loc_from) = crate::columns!(all_locs, world);
        let axes = crate::columns!(axes, world);
        let payloads = world.resource::<Payloads>();
        let diagnostics = world.resource::<Diagnostics>();
        let pointers = world.resource::<CompileOptions>().pointer_bases;
        let constant_bytes = world.resource::<ConstPool>().0.len();
        let mut convert = Convert {
            walk: &mut walk,
            exprs: world.resource::<Exprs>(),
            axes,
            pointers: pointers.then(|| PointerBases::new(locs, places, constant_bytes)),
        };
        for &id in &order.0 {
            let (head, ops) = (heads[id.index()], operands[id.index()]);
            let copy = matches!(head.op, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst);
            if !copy && (head.flags & InstHead::DYNAMIC == 0 || head.op.is_dma()) {
                convert.walk.order.push(id);
                continue;
            }
            for ap in ops.range().filter(|a| ap_heads[*a].kind == ApKind::Symbolic) {
                let loc = ap_heads[ap].loc;
                let site = Site {
                    id,
                    head: ap_heads[ap],
                    pattern: &patterns[ap],
                    loc: locs[loc.index()],
                    place: places[loc.index()],
                    loc_from: loc_from[loc.index()],
                    engine: head.engine,
                    from: from[id.index()],
                    second_of_matmult: head.op == Opcode::Matmult && ApId(ap as u32) == ops.input(1),
                };
                match convert.sym_ap(payloads.symbolic(ap_heads[ap].dynamic.payload), &site) {
                    Ok(survivors) => done.push((id, ApId(ap as u32), survivors)),
                    Err((code, what)) => {
                        diagnostics.push(Diagnostic::error(code, what).ordered(from[id.index()].hlo.0));
                    }
                }
            }
            convert.walk.order.push(id);
        }
        constants = convert.pointers.map(|p| p.bytes).unwrap_or_default();
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    world.resource_mut::<ConstPool>().0.extend_from_slice(&constants);
    if let Ok(mut tables) = aps_mut.contiguous_iter_mut(world)
        && let Some(mut heads) = tables.next()
    {
        let heads = heads.bypass_change_detection();
        for (_, ap, s) in &done {
            heads[ap.index()].kind = ApKind::Register;
            heads[ap.index()].dynamic.address = s.address;
        }
    }
    let origin = |&(_, ap, ref s): &(InstId, ApId, Survivors)| ApOrigin {
        ap,
        ap_offset: s.ap_offset,
        sub_tensor: s.sub_tensor,
    };
    let mut origins: Vec<ApOrigin> = done.iter().map(origin).collect();
    origins.sort_unstable_by_key(|o| o.ap);
    world.insert_resource(ApOrigins(origins));
    if let Ok(mut tables) = heads_mut.contiguous_iter_mut(world)
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
    loc_from: LocFrom,
    engine: murre_components::engine::EngineId,
    from: InstFrom,
    second_of_matmult: bool,
}

/// Converts symbolic patterns one after the other.
struct Convert<'a> {
    walk: &'a mut Walk,
    exprs: &'a Exprs,
    axes: &'a [AxisRegs],
    /// The pointer locations, if bases are loaded.
    pointers: Option<PointerBases>,
}

impl Convert<'_> {
    /// The sequence of `spec/ir.md 5.4`, its guards first and in their order.
    fn sym_ap(
        &mut self,
        address: Option<&SymbolicAddress>,
        site: &Site<'_>,
    ) -> Result<Survivors, (Code, String)> {
        let fault = |what: &str| Err((&SYMBOLIC_AP as Code, format!("a symbolic access pattern {what}")));
        if site.loc.space == Space::Dram {
            return fault("cannot be in DRAM");
        }
        if site.place.address == u32::MAX {
            return fault("on a location without an address");
        }
        let Some(address) = address.filter(|a| a.tile.is_some()) else {
            return fault("without a tile address");
        };
        if address.block.is_none() {
            return fault("without a block address");
        }
        let step = site.pattern.0.first().map_or(0, |p| p.step) as i64;
        if step <= 0 {
            return fault("whose partition step is not positive");
        }
        let bytes = i64::from(site.head.dtype.bytes());
        let (stride, base) = match site.loc.space {
            Space::Sbuf => (SBUF_PARTITION_STRIDE, site.place.address),
            Space::Psum => (PSUM_PARTITION_STRIDE, PSUM_BASE + site.place.address),
            Space::Dram => return fault("has no partition stride in DRAM"),
        };
        let (e, hlo, id) = (site.engine, site.from.hlo, site.id);
        let lanes = if self.pointers.is_some() { 2 } else { 1 };
        let mint = |walk: &mut Walk, role, lanes| walk.reg_of(e, role, lanes, site.from, id, site.head.loc);
        let walk = &mut *self.walk;
        let ap_offset = mint(walk, RegRole::ApOffset, 1);
        let sub_tensor = mint(walk, RegRole::SubTensorId, 1);
        let tmp = mint(walk, RegRole::Temp, lanes);
        let dram = if lanes == 2 { mint(walk, RegRole::DramAddr0, 2) } else { RegId::NONE };
        let addr = mint(walk, RegRole::ApAddr, 1);
        lower_affine_expr(walk, self.exprs, self.axes, address.tile, e, hlo, id, ap_offset, tmp)
            .and_then(|()| {
                lower_affine_expr(walk, self.exprs, self.axes, address.block, e, hlo, id, sub_tensor, tmp)
            })
            .map_err(|fault| (fault.code(), fault.message().to_string()))?;
        match &mut self.pointers {
            None => walk.move_imm(e, hlo, id, addr, i64::from(base)),
            Some(pointers) => {
                let p = pointers.of(&mut walk.staging, site.head.loc, u64::from(base), site.loc_from);
                walk.tensor_load(e, hlo, id, p, dram, true);
                // The high half is zero (D13); so is the low one, which still holds a term of the block address.
                walk.move_imm64(e, hlo, id, tmp, 0);
                walk.alu_reg64(e, hlo, id, op::ADD, dram, tmp, dram);
                walk.tensor_load(e, hlo, id, p, addr, false);
            }
        }
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
}

#[cfg(test)]
mod tests;
