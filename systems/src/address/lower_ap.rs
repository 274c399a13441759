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
            let copy = matches!(head.op, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst);
            if !copy && (head.flags & InstHead::DYNAMIC == 0 || head.op.is_dma()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompileOptions;
    use crate::staging::Operand;
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;

    /// One instruction with a symbolic input over `terms` registers, on a location of `parts x elems`.
    fn lowered(space: Space, op: Opcode, dtype: DType, coefs: &[i64], c: i64) -> Vec<String> {
        let mut world = crate::Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let engine = if op == Opcode::Matmult { EngineId::Pe } else { EngineId::Dve };
        let mut s = Staging::new(&world);
        let mut row = LocRow::new(space, dtype, 4, 96, HloId(0));
        row.place.address = 0x5000;
        let loc = s.loc(row);
        let regs: Vec<RegId> =
            coefs.iter().map(|_| s.reg(RegRow::new(engine, RegRole::Scalar, HloId(0)))).collect();
        let (tile, block) = {
            let mut exprs = world.resource_mut::<Exprs>();
            let terms: Vec<_> = regs.iter().map(|r| exprs.intern(Expr::RuntimeInt(*r))).collect();
            (exprs.affine(terms.into_iter().zip(coefs.iter().copied()), c), exprs.constant(0))
        };
        let payload =
            world.resource_mut::<Payloads>().0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
        let fixed = Operand {
            loc,
            offset: 0,
            dtype,
            pattern: ApPattern::new([(96, 1), (1, 8)]).unwrap(),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        };
        let symbolic = Operand { kind: ApKind::Symbolic, payload, ..fixed.clone() };
        let mut row = InstRow::new(op, engine, HloId(0));
        row.head.flags = InstHead::DYNAMIC;
        let inputs = if op == Opcode::Matmult { vec![fixed.clone(), symbolic] } else { vec![symbolic] };
        let id = s.inst(row, &[fixed], &inputs);
        s.flush(&mut world);
        world.insert_resource(Order(vec![id]));
        lower_ap(&mut world);
        assert!(!world.resource::<murre_components::diag::Diagnostics>().has_errors());
        let order = world.resource::<Order>().0.clone();
        let mut names = world.query::<(&RegHead, &RegFrom)>();
        let names: Vec<&'static str> = names.iter(&world).map(|(h, _)| h.role.suffix()).collect();
        let mut insts = world.query::<(&InstHead, &InstArgs, &InstRegs)>();
        let rows: Vec<_> = insts.iter(&world).map(|(h, a, r)| (*h, *a, *r)).collect();
        let mut aps = world.query::<(&ApHead, &ApDynamic)>();
        let registers = aps.iter(&world).filter(|(h, _)| h.kind == ApKind::Register).count();
        assert_eq!(registers, 1);
        order
            .iter()
            .map(|id| {
                let (h, a, r) = rows[id.index()];
                let name = |r: RegId| if r.is_some() { names[r.index()] } else { "-" };
                match h.op {
                    Opcode::RegisterMove => format!("mov {} {}", name(r.dst), a.imm0),
                    Opcode::RegisterAlu if a.mode == 1 => {
                        format!("{:02x} {} {} {}", a.op0, name(r.dst), name(r.src0), a.imm0)
                    }
                    Opcode::RegisterAlu => {
                        format!("{:02x} {} {} {}", a.op0, name(r.dst), name(r.src0), name(r.src1))
                    }
                    other => other.name().to_string(),
                }
            })
            .collect()
    }

    #[test]
    fn the_sequence_for_sbuf() {
        let expected = [
            "mov RegAPOffset 5",
            "06 RegTemp Scalar 8",
            "04 RegAPOffset RegAPOffset RegTemp",
            "mov RegSubTensorId 0",
            "mov RegAPAddr 20480",
            "07 RegTemp RegAPOffset 96",
            "06 RegTemp RegTemp 262144",
            "04 RegAPAddr RegAPAddr RegTemp",
            "1b RegTemp RegAPOffset 96",
            "06 RegTemp RegTemp 4",
            "04 RegAPAddr RegAPAddr RegTemp",
            "TensorCopy",
        ];
        assert_eq!(lowered(Space::Sbuf, Opcode::TensorCopyDynamicSrc, DType::F32, &[8], 5), expected);
    }

    #[test]
    fn psum_has_its_own_base_and_stride() {
        let got = lowered(Space::Psum, Opcode::TensorCopyDynamicDst, DType::F32, &[], 7);
        assert_eq!(got[0], "mov RegAPOffset 7");
        assert_eq!(got[2], format!("mov RegAPAddr {}", 0x0200_0000 + 0x5000));
        assert_eq!(got[4], format!("06 RegTemp RegTemp {}", 0x8000));
        assert_eq!(got.len(), 10);
    }

    #[test]
    fn the_second_operand_of_a_matmult_points_at_its_last_element() {
        let got = lowered(Space::Sbuf, Opcode::Matmult, DType::Bf16, &[1, 96], 0);
        assert_eq!(got[got.len() - 2], format!("04 RegAPAddr RegAPAddr {}", 2 * 7));
        assert_eq!(got.last().map(String::as_str), Some("Matmult"));
        assert_eq!(got.iter().filter(|l| l.starts_with("06 RegTemp Scalar")).count(), 2);
    }

    #[test]
    fn dram_is_refused() {
        let mut world = crate::Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = Staging::new(&world);
        let loc = s.loc(LocRow::new(Space::Dram, DType::F32, 1, 96, HloId(0)));
        let (tile, block) = {
            let mut exprs = world.resource_mut::<Exprs>();
            (exprs.constant(0), exprs.constant(0))
        };
        let payload =
            world.resource_mut::<Payloads>().0.insert(Payload::Symbolic(SymbolicAddress { tile, block }));
        let symbolic = Operand {
            loc,
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::new([(96, 1), (1, 8)]).unwrap(),
            kind: ApKind::Symbolic,
            payload,
            flags: 0,
        };
        let mut row = InstRow::new(Opcode::TensorCopyDynamicSrc, EngineId::Dve, HloId(0));
        row.head.flags = InstHead::DYNAMIC;
        let id = s.inst(row, &[], &[symbolic]);
        s.flush(&mut world);
        world.insert_resource(Order(vec![id]));
        lower_ap(&mut world);
        let found = world.resource::<murre_components::diag::Diagnostics>().take();
        assert!(found[0].message.contains("cannot be in DRAM"));
    }
}
