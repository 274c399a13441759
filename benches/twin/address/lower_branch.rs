//! Counted loops become counters and branches on engine ALL.

use crate::twin::graph::{Axis, Expr, Program, Register};
use crate::twin::instruction::{Instruction, Link, Registers};
use crate::twin::pass::Pass;
use crate::twin::walk::{Site, Walk};
use murre_components::bir::branch::{Transfer, compare, transfer};
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_systems::address::walk::op;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The pass.
pub struct LowerBranch;

impl Pass for LowerBranch {
    fn name(&self) -> &'static str {
        "lower_branch"
    }

    fn run(&self, program: &mut Program) {
        if program.axes.is_empty() {
            return;
        }
        let (old, mut walk) = Walk::over(program);
        for instruction in old {
            if let Some(label) = instruction.label() {
                match instruction.op.get() {
                    Opcode::DynamicForLoop => enter(&mut walk, &label.axis, &instruction),
                    Opcode::Terminator => leave(&mut walk, &label.axis, &instruction),
                    _ => walk.program.faults.push("a loop that is not counted".into()),
                }
            }
            walk.out.push(instruction);
        }
        walk.end();
    }
}

/// On engine ALL, for a label.
fn site(label: &Instruction) -> Site {
    Site { engine: EngineId::All, ..Site::before(label) }
}

fn enter(walk: &mut Walk<'_>, axis: &Axis, label: &Rc<Instruction>) {
    let site = site(label);
    let limit = walk.register(RegRole::Limit, site);
    let tmp = walk.register(RegRole::Temp, site);
    walk.move_imm(site, &axis.iv, axis.lb.constant());
    walk.affine(site, &axis.ub, &limit, &tmp);
    test(walk, axis, label, &limit, Edge::Begin);
    // Each loop is entered once.
    let _ = axis.limit.set(limit);
}

fn leave(walk: &mut Walk<'_>, axis: &Axis, label: &Rc<Instruction>) {
    let step = if let Expr::Affine { c, .. } = &*axis.step { *c } else { 1 };
    walk.alu_imm(site(label), op::ADD, &axis.iv, step, &axis.iv);
    if let Some(limit) = axis.limit.get() {
        test(walk, axis, label, limit, Edge::End);
    }
}

/// One end of a loop.
#[derive(Clone, Copy, PartialEq)]
enum Edge {
    Begin,
    End,
}

/// The branch of `counter < limit`, in front of the label `next`.
fn test(walk: &mut Walk<'_>, axis: &Axis, label: &Instruction, limit: &Rc<Register>, next: Edge) {
    let mut push = |op, op0, to: Edge| {
        let target = if to == Edge::Begin { &axis.begin } else { &axis.end };
        let Some(target) = target.borrow().upgrade() else { return };
        let compares = op == Opcode::CompareAndBranch;
        let args = InstArgs { op0, dtype: if axis.unsigned { 9 } else { 8 }, ..Default::default() };
        let sources = [Some(axis.iv.clone()), Some(limit.clone())];
        let site = site(label);
        let from = InstFrom { hlo: site.hlo, owner: site.owner };
        let branch = Instruction {
            flags: InstHead::ENDS_BLOCK,
            args: Cell::new(if compares { args } else { InstArgs::default() }),
            registers: RefCell::new(if compares {
                Registers { sources, destination: None }
            } else {
                Registers::default()
            }),
            link: Link::Target(target),
            ..Instruction::new(walk.program.number(), op, site.engine, from)
        };
        walk.out.push(branch.share());
    };
    match transfer(compare::LT + compare::REGISTER, Edge::Begin, Edge::End, next) {
        Some(Transfer::Compare(op, to)) => push(Opcode::CompareAndBranch, op, to),
        Some(Transfer::CompareThenJump(op, to, other)) => {
            push(Opcode::CompareAndBranch, op, to);
            push(Opcode::UnconditionalBranch, 0, other);
        }
        Some(Transfer::Nothing) | None => {}
    }
}
