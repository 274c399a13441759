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
//! Every branch is said as a test with two edges; which of them a record takes is [`murre_components::bir::branch`]'s choice.
//! The profile has no record layout of a BranchHint (80), so none is emitted.
//!
//! Facts: `spec/ir.md 5.9`, `spec/isa.md 5.4, 5.5`; the limit is an affine form and is lowered like one.

use super::affine::lower_affine_expr;
use super::walk::{Walk, op};
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::branch::{Transfer, compare, transfer};
use murre_components::bir::*;
use murre_components::diag::codes::lower::LOWER_LOOP_RULE;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// The pass.
pub fn lower_branch(
    world: &mut World,
    axes: &mut QueryState<(&AxisHead, &AxisBounds, &AxisRegs)>,
    insts: &mut QueryState<(&InstHead, &InstArgs, &InstFrom)>,
    axis_regs: &mut QueryState<&mut AxisRegs>,
) {
    crate::compile::give_back::<LocLives>(world);
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
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
            // Another trip, or on behind the loop; the label of this instruction comes next.
            let edges = Edges { on_true: head.begin, on_false: head.end, next: id };
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
                    branch(&mut walk, Test::registers(compare::LT, tag, regs.iv, limit), edges, hlo);
                }
                LoopKind::DynamicFor => {
                    let step = exprs.as_affine(bounds.step).map_or(1, |(_, c)| c);
                    let limit = open.pop().unwrap_or_default();
                    walk.alu_imm(EngineId::All, hlo, id, op::ADD, regs.iv, step, regs.iv);
                    branch(&mut walk, Test::registers(compare::LT, tag, regs.iv, limit), edges, hlo);
                }
                LoopKind::DoWhile if begin => {
                    branch(&mut walk, Test::constant(compare::NE, 8, regs.limit, 0), edges, hlo);
                }
                LoopKind::DoWhile => {
                    branch(&mut walk, Test::constant(compare::NE, 8, regs.condition, 0), edges, hlo);
                }
                // The limit is a constant. The guard is never taken: it puts a fence before the first trip.
                LoopKind::Static if begin => {
                    let constant = |e| exprs.as_affine(e).map_or(0, |(_, c)| c);
                    walk.move_imm(EngineId::All, hlo, id, regs.iv, constant(bounds.lb));
                    let ub = constant(bounds.ub) as u32;
                    branch(&mut walk, Test::constant(compare::LT, tag, regs.iv, ub), edges, hlo);
                }
                LoopKind::Static => {
                    let constant = |e| exprs.as_affine(e).map_or(0, |(_, c)| c);
                    walk.alu_imm(EngineId::All, hlo, id, op::ADD, regs.iv, constant(bounds.step), regs.iv);
                    let ub = constant(bounds.ub) as u32;
                    branch(&mut walk, Test::constant(compare::LT, tag, regs.iv, ub), edges, hlo);
                }
            }
            walk.order.push(id);
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    world.insert_resource(Order(order));
    if let Ok(mut tables) = axis_regs.contiguous_iter_mut(world)
        && let Some(mut rows) = tables.next()
    {
        let rows = rows.bypass_change_detection();
        for (axis, limit) in limits {
            rows[axis.index()].limit = limit;
        }
    }
}

/// A comparison of a register with a register or a constant.
#[derive(Clone, Copy)]
struct Test {
    op: u8,
    tag: u8,
    left: RegId,
    right: RegId,
    imm: u32,
}

impl Test {
    fn registers(op: u8, tag: u8, left: RegId, right: RegId) -> Test {
        Test { op: op + compare::REGISTER, tag, left, right, imm: 0 }
    }

    fn constant(op: u8, tag: u8, left: RegId, imm: u32) -> Test {
        Test { op, tag, left, right: RegId::NONE, imm }
    }
}

/// Where a branch goes when its test holds and when not, and the label that stands behind it.
#[derive(Clone, Copy)]
struct Edges {
    on_true: InstId,
    on_false: InstId,
    next: InstId,
}

/// The branch on engine ALL for a test, owned by the label behind it; XCG008: one edge is the fall-through, or a jump follows.
fn branch(walk: &mut Walk, test: Test, edges: Edges, hlo: HloId) {
    let Edges { on_true, on_false, next } = edges;
    let mut push = |opcode, op0, target: InstId| {
        let mut row = InstRow::new(opcode, EngineId::All, hlo);
        row.head.flags = InstHead::ENDS_BLOCK;
        row.args.aux = target.0;
        if opcode == Opcode::CompareAndBranch {
            (row.args.op0, row.args.dtype, row.args.imm0) = (op0, test.tag, test.imm);
            row.regs = InstRegs { src0: test.left, src1: test.right, dst: RegId::NONE };
        }
        walk.push(row, next);
    };
    match transfer(test.op, on_true, on_false, next) {
        Some(Transfer::Compare(op, target)) => push(Opcode::CompareAndBranch, op, target),
        Some(Transfer::CompareThenJump(op, taken, other)) => {
            push(Opcode::CompareAndBranch, op, taken);
            push(Opcode::UnconditionalBranch, 0, other);
        }
        // Twelve operators exist, and the caller's are among them.
        Some(Transfer::Nothing) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Staging;

    /// Operators and targets of the branch behind which label 7 stands.
    fn lowered(op: u8, on_true: u32, on_false: u32) -> Vec<(Opcode, u8, u32)> {
        let mut walk = Walk::new(Staging::default(), 0);
        let edges = Edges { on_true: InstId(on_true), on_false: InstId(on_false), next: InstId(7) };
        branch(&mut walk, Test::registers(op, 8, RegId(1), RegId(2)), edges, HloId::NONE);
        walk.staging.insts.iter().map(|i| (i.head.op, i.args.op0, i.args.aux)).collect()
    }

    #[test]
    fn a_guard_is_negated_a_back_edge_is_not_and_a_far_branch_gets_a_jump() {
        use Opcode::{CompareAndBranch, UnconditionalBranch};
        assert_eq!(lowered(compare::LT, 7, 9), [(CompareAndBranch, compare::GE + 6, 9)]);
        assert_eq!(lowered(compare::LT, 3, 7), [(CompareAndBranch, compare::LT + 6, 3)]);
        let both = [(CompareAndBranch, compare::LT + 6, 3), (UnconditionalBranch, 0, 9)];
        assert_eq!(lowered(compare::LT, 3, 9), both);
        assert_eq!(lowered(compare::LT, 7, 7), []);
    }
}
