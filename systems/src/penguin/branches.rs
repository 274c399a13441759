//! Conditionals: each branch is a loop of at most one trip behind its guard, and writes its results to homes that all
//! branches share. Exactly one guard holds (`spec/hlo.md 7`: an index outside the branches takes the last one).

use super::leaf::{Leaf, fits_register};
use super::lower::{Lower, Lowered, type_range};
use super::scalar::{SIGNED, Scalar};
use super::uses::leaf_count;
use murre_components::bir::*;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Direction, HloInst, HloOp};
use murre_components::ids::*;
use murre_components::penguin::{NodeKind, NodeScalars};

/// Where a result leaf lives.
enum Home {
    Register(RegId),
    Memory(LocId),
    Token,
}

impl Lower<'_> {
    /// Lowers a conditional. `operands` are the leaves of the selector and of each branch's argument, in order.
    pub fn conditional(&mut self, inst: HloInst<'_>, operands: &[Leaf]) -> Lowered<Vec<Leaf>> {
        let operands = &self.hoisted(operands)?;
        let Some(selector) = operands.first() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "conditional without a selector");
        };
        let pred = selector.ty() == HloType::Pred;
        let branches = inst.called();
        let mut arguments = Vec::with_capacity(branches.len());
        let mut at = 1;
        for operand in inst.operands().iter().skip(1) {
            let n = leaf_count(self.module.inst(*operand).shape());
            arguments.push(operands[at..at + n].to_vec());
            at += n;
        }
        let index = self.scalar(&selector.clone())?;
        if let Scalar::Const(c) = index {
            let last = branches.len() as i64 - 1;
            let k = match pred {
                true => (c == 0) as i64,
                false if c < 0 || c > last => last,
                false => c,
            } as usize;
            return self.run_branch(branches[k], &arguments[k]);
        }
        let mut homes = Vec::new();
        let mut results = Vec::new();
        let shapes: Vec<_> = match inst.shape() {
            murre_components::hlo::Shape::Tuple(_) => inst.shape().leaves().into_iter().cloned().collect(),
            one => vec![one.clone()],
        };
        for shape in &shapes {
            let Some(array) = shape.array() else {
                homes.push(Home::Token);
                results.push(Leaf::Token);
                continue;
            };
            let dims = super::lower::extents(array);
            if dims.contains(&0) {
                homes.push(Home::Token);
                results.push(Leaf::Splat { ty: array.ty, bits: 0, dims });
                continue;
            }
            if fits_register(array.ty) && dims.iter().product::<u64>() == 1 {
                let (lo, hi) = type_range(array.ty);
                let reg = self.reg(RegRole::Scalar, lo, hi);
                // Exactly one branch writes it; that is not visible in the branches, so it has a value on every path.
                self.scalar_move_imm(reg, 0);
                homes.push(Home::Register(reg));
                results.push(Leaf::Scalar { ty: array.ty, reg, dims });
            } else {
                let loc = self.updatable_home(array.ty, &dims)?;
                results.push(self.whole_view(loc, array.ty, &dims));
                homes.push(Home::Memory(loc));
            }
        }
        let count = branches.len();
        for (k, &branch) in branches.iter().enumerate() {
            let guard = self.guard(index, k, count, pred);
            self.guarded(guard, branch, &arguments[k], &homes)?;
        }
        Ok(results)
    }

    /// Whether branch `k` runs.
    fn guard(&mut self, index: Scalar, k: usize, count: usize, pred: bool) -> Scalar {
        if pred {
            let direction = if k == 0 { Direction::Ne } else { Direction::Eq };
            return self.compare(direction, index, Scalar::Const(0), SIGNED);
        }
        if k + 1 < count {
            return self.compare(Direction::Eq, index, Scalar::Const(k as i64), SIGNED);
        }
        // As unsigned numbers, negative indices are large.
        self.compare(Direction::Ge, index, Scalar::Const(k as i64), super::scalar::UNSIGNED)
    }

    fn guarded(&mut self, guard: Scalar, branch: CompId, argument: &[Leaf], homes: &[Home]) -> Lowered<()> {
        let axis = AxisId(self.staging.axes.len() as u32);
        let guard = self.in_register(guard);
        let condition = self.reg(RegRole::Scalar, 0, 0);
        let none = ExprId::NONE;
        self.staging.axis(AxisRow {
            head: AxisHead {
                parent: self.axis(),
                begin: InstId::NONE,
                end: InstId::NONE,
                kind: LoopKind::DoWhile,
                unsigned: 0,
                depth: self.depth() as u16,
            },
            bounds: AxisBounds { lb: none, ub: none, step: none, max_trip: 1 },
            regs: AxisRegs { iv: RegId::NONE, limit: guard, condition, per_engine: [RegId::NONE; 5] },
        });
        self.axes.push(axis);
        self.node(NodeKind::LoopBegin, HloOp::Conditional, 0, 0, [], NodeScalars::default());
        let values = self.run_branch(branch, argument)?;
        for (home, leaf) in homes.iter().zip(&values) {
            if let Home::Memory(loc) = home {
                self.fill_from(*loc, leaf)?;
            }
        }
        for (home, leaf) in homes.iter().zip(&values) {
            if let Home::Register(reg) = home {
                match self.scalar(leaf)? {
                    Scalar::Const(c) => self.scalar_move_imm(*reg, c as u32),
                    Scalar::Reg(r) => self.scalar_move(*reg, r),
                }
            }
        }
        self.scalar_move_imm(condition, 0);
        self.node(NodeKind::LoopEnd, HloOp::Conditional, 0, 0, [], NodeScalars::default());
        self.axes.pop();
        Ok(())
    }

    /// A branch's results for an argument that it may not overwrite.
    fn run_branch(&mut self, branch: CompId, argument: &[Leaf]) -> Lowered<Vec<Leaf>> {
        self.enter_reading(branch, argument, |this| this.lower_computation(branch))?;
        Ok(self.values.of(self.module.comp(branch).root).to_vec())
    }
}
