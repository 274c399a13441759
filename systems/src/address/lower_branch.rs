//! `lower_branch`: structured loops become counters and branches on engine ALL.
//!
//! In: heads and terminators in `Order`. Out: the same rows as labels, with control operations around them. A counted
//! loop tests before its first trip, so zero trips are zero. Branches end basic blocks.
//!
//! ```text
//! DynamicForLoop a0 (0, 1*r1 + 0, 1) { .. }
//! ->  mov iv, 0 ; mov limit, 0 ; mult t, r1, 1 ; add limit, limit, t ; branch GE iv, limit -> end
//!     head: .. ; add iv, iv, 1 ; branch LT iv, limit -> head
//!     end:
//! ```
//!
//! A static loop (105) is the same with a constant limit.
//!
//! Facts: `spec/ir.md 5.9`, `spec/isa.md 5.4, 5.5`; the limit is an affine form and is lowered like one.

use super::affine::lower_affine_expr;
use super::walk::{Walk, op};
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::LOWER_LOOP_RULE;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// IR compare operators with an immediate right side; six more for a register right side.
mod cmp {
    pub const LT: u8 = 0;
    pub const EQ: u8 = 2;
    pub const NE: u8 = 3;
    pub const GE: u8 = 4;
    pub const REGISTER: u8 = 6;
}

/// The pass.
pub fn lower_branch(world: &mut World) {
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut axes = world.query::<(&AxisHead, &AxisBounds, &AxisRegs)>();
    let mut insts = world.query::<(&InstHead, &InstArgs, &InstFrom)>();
    if crate::columns!(axes, world).0.is_empty() {
        world.insert_resource(order);
        return;
    }
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    let mut limits: Vec<(AxisId, RegId)> = Vec::new();
    let mut open: Vec<RegId> = Vec::new();
    {
        let (heads, bounds, regs) = crate::columns!(axes, world);
        let (inst_heads, args, from) = crate::columns!(insts, world);
        let exprs = world.resource::<Exprs>();
        let diagnostics = world.resource::<Diagnostics>();
        for &id in &order.0 {
            let op = inst_heads[id.index()].op;
            if !op.is_structure() {
                walk.order.push(id);
                continue;
            }
            let axis = args[id.index()].axis();
            let (head, bounds, regs) = (&heads[axis.index()], &bounds[axis.index()], &regs[axis.index()]);
            let hlo = from[id.index()].hlo;
            let begin = op != Opcode::Terminator;
            let tag = if head.unsigned != 0 { 9 } else { 8 };
            let target = if begin { head.end } else { head.begin };
            match head.kind {
                LoopKind::DynamicFor if begin => {
                    let constant = |e| exprs.as_affine(e).map_or(0, |(_, c)| c);
                    let limit = walk.reg(EngineId::All, RegRole::Limit, from[id.index()], id, LocId::NONE);
                    let tmp = walk.reg(EngineId::All, RegRole::Temp, from[id.index()], id, LocId::NONE);
                    walk.move_imm(EngineId::All, hlo, id, regs.iv, constant(bounds.lb));
                    let lowered = lower_affine_expr(
                        &mut walk,
                        exprs,
                        &[],
                        bounds.ub,
                        EngineId::All,
                        hlo,
                        id,
                        limit,
                        tmp,
                    );
                    if let Err(fault) = lowered {
                        diagnostics.push(Diagnostic::error(&LOWER_LOOP_RULE, fault.message()).ordered(hlo.0));
                    }
                    limits.push((axis, limit));
                    open.push(limit);
                    branch(&mut walk, cmp::GE + cmp::REGISTER, tag, regs.iv, limit, target, hlo, id);
                }
                LoopKind::DynamicFor => {
                    let step = exprs.as_affine(bounds.step).map_or(1, |(_, c)| c);
                    let limit = open.pop().unwrap_or_default();
                    walk.alu_imm(EngineId::All, hlo, id, op::ADD, regs.iv, step, regs.iv);
                    branch(&mut walk, cmp::LT + cmp::REGISTER, tag, regs.iv, limit, target, hlo, id);
                }
                LoopKind::DoWhile if begin => {
                    branch(&mut walk, cmp::EQ, 8, regs.limit, RegId::NONE, target, hlo, id);
                }
                LoopKind::DoWhile => {
                    branch(&mut walk, cmp::NE, 8, regs.condition, RegId::NONE, target, hlo, id);
                }
                // The limit is a constant. The guard is never taken: it puts a fence before the first trip.
                LoopKind::Static if begin => {
                    let constant = |e| exprs.as_affine(e).map_or(0, |(_, c)| c);
                    walk.move_imm(EngineId::All, hlo, id, regs.iv, constant(bounds.lb));
                    let ub = constant(bounds.ub) as u32;
                    branch_imm(&mut walk, cmp::GE, tag, regs.iv, ub, target, hlo, id);
                }
                LoopKind::Static => {
                    let constant = |e| exprs.as_affine(e).map_or(0, |(_, c)| c);
                    walk.alu_imm(EngineId::All, hlo, id, op::ADD, regs.iv, constant(bounds.step), regs.iv);
                    let ub = constant(bounds.ub) as u32;
                    branch_imm(&mut walk, cmp::LT, tag, regs.iv, ub, target, hlo, id);
                }
            }
            walk.order.push(id);
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    let mut q = world.query::<&mut AxisRegs>();
    if let Ok(mut tables) = q.contiguous_iter_mut(world)
        && let Some(mut rows) = tables.next()
    {
        let rows = rows.bypass_change_detection();
        for (axis, limit) in limits {
            rows[axis.index()].limit = limit;
        }
    }
}

/// A compare-and-branch on engine ALL against a register or 0.
fn branch(
    walk: &mut Walk,
    compare: u8,
    tag: u8,
    left: RegId,
    right: RegId,
    target: InstId,
    hlo: HloId,
    owner: InstId,
) {
    let mut row = InstRow::new(Opcode::CompareAndBranch, EngineId::All, hlo);
    row.head.flags = InstHead::ENDS_BLOCK;
    row.args = InstArgs { op0: compare, dtype: tag, aux: target.0, ..Default::default() };
    row.regs = InstRegs { src0: left, src1: right, dst: RegId::NONE };
    walk.push(row, owner);
}

/// A compare-and-branch on engine ALL against a constant.
fn branch_imm(
    walk: &mut Walk,
    compare: u8,
    tag: u8,
    left: RegId,
    right: u32,
    target: InstId,
    hlo: HloId,
    owner: InstId,
) {
    let mut row = InstRow::new(Opcode::CompareAndBranch, EngineId::All, hlo);
    row.head.flags = InstHead::ENDS_BLOCK;
    row.args = InstArgs { op0: compare, dtype: tag, imm0: right, aux: target.0, ..Default::default() };
    row.regs = InstRegs { src0: left, src1: RegId::NONE, dst: RegId::NONE };
    walk.push(row, owner);
}
