//! While loops. A loop that counts becomes a dynamic for-loop (106), any other a do-while (108) behind a guard.
//!
//! The carry is flattened: a leaf that the body passes through unchanged is the outer value; an integer scalar lives in
//! a register; a tensor lives in a location of its own that the body updates.

use super::leaf::{Leaf, fits_register};
use super::lower::{Lower, Lowered, type_range};
use super::scalar::{SIGNED, Scalar, UNSIGNED};
use super::uses::{Uses, element_offset, leaf_count};
use murre_components::bir::*;
use murre_components::diag::codes::lower as codes;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloOp};
use murre_components::ids::*;
use murre_components::isa::alu::AluOp;
use murre_components::penguin::{NodeKind, NodeScalars};

/// Loops and branches inside each other. Lowering enters them by recursion, and its stack is that of any thread.
const MAX_NESTING: usize = 256;

/// Where a carried leaf lives.
#[derive(Clone, Debug)]
enum Carry {
    /// Passed through: the outer leaf.
    Invariant,
    /// A control scalar.
    Register(RegId),
    /// A location.
    Memory(LocId),
}

/// A counting condition: leaf `counter` starts anywhere, goes up by `step`, runs while below `bound`.
struct Counting {
    leaf: usize,
    step: i64,
    /// The instruction of the condition computation that gives the bound.
    bound: HloId,
    /// The bound itself still runs (`LE`).
    inclusive: bool,
}

impl Lower<'_> {
    /// Lowers a while.
    pub fn while_loop(&mut self, inst: HloInst<'_>, init: &[Leaf]) -> Lowered<Vec<Leaf>> {
        let init = &self.hoisted(init)?;
        let [body, condition] = inst.called() else {
            return self.refuse(&codes::LOWER_UNSUPPORTED_OP, "while without a body and a condition");
        };
        let (body, condition) = (*body, *condition);
        let invariant = self.invariant_leaves(body, init.len());
        let counting = self.counting(body, condition, &invariant);

        // Homes of the carry.
        let mut carries = Vec::with_capacity(init.len());
        for (k, leaf) in init.iter().enumerate() {
            carries.push(if invariant[k] || leaf == &Leaf::Token || leaf.extents().contains(&0) {
                Carry::Invariant
            } else if fits_register(leaf.ty()) && leaf.extents().iter().product::<u64>() == 1 {
                let (lo, hi) = type_range(leaf.ty());
                let value = self.scalar(leaf)?;
                let reg = self.reg(RegRole::Scalar, lo, hi);
                self.move_scalar(reg, value);
                Carry::Register(reg)
            } else {
                // A location that two leaves of the carry share belongs to neither.
                let shared = leaf.view().is_some_and(|v| {
                    init.iter().filter(|other| other.view().is_some_and(|o| o.loc == v.loc)).count() > 1
                });
                Carry::Memory(self.carry_home(leaf, shared)?)
            });
        }

        let axis = AxisId(self.staging.axes.len() as u32);
        let plan = match &counting {
            Some(c) => self.plan_counted(c, condition, init, &carries)?,
            None => None,
        };
        let kind = if plan.is_some() { LoopKind::DynamicFor } else { LoopKind::DoWhile };
        let none = ExprId::NONE;
        let mut row = AxisRow {
            head: AxisHead {
                parent: self.axis(),
                begin: InstId::NONE,
                end: InstId::NONE,
                kind,
                unsigned: 0,
                depth: self.depth() as u16,
            },
            bounds: AxisBounds { lb: none, ub: none, step: none, max_trip: u32::MAX as u64 },
            regs: AxisRegs {
                iv: RegId::NONE,
                limit: RegId::NONE,
                condition: RegId::NONE,
                per_engine: [RegId::NONE; 5],
            },
        };
        let mut inside = self.carry_leaves(init, &carries);
        let mut counter_is_axis = false;
        match &plan {
            Some(p) => {
                let iv = self.reg(RegRole::Induction, p.lb, (p.ub_bounds.1 - 1).max(p.lb));
                row.regs.iv = iv;
                row.head.unsigned = p.unsigned as u8;
                row.bounds.lb = self.exprs.constant(p.lb);
                row.bounds.step = self.exprs.constant(p.step);
                let limit = self.exprs.intern(Expr::RuntimeInt(p.limit));
                row.bounds.ub = self.exprs.affine([(limit, 1)], p.constant);
                let range = |r: RegId| (self.bounds(r).lo, self.bounds(r).hi);
                row.bounds.max_trip = row.bounds.max_tripcount(&self.exprs, range).unwrap_or(u32::MAX as u64);
                if let (true, Some(c)) = (p.counter_is_axis, &counting) {
                    counter_is_axis = true;
                    inside[c.leaf] = Leaf::Scalar { ty: HloType::S32, reg: iv, dims: init[c.leaf].extents() };
                }
            }
            None => {
                row.regs.limit = self.reg(RegRole::Limit, 0, 1);
                row.regs.condition = self.reg(RegRole::Scalar, 0, 1);
                let guard = self.run_condition(condition, &inside)?;
                self.move_scalar(row.regs.limit, guard);
            }
        }
        self.staging.axis(row);

        self.axes.push(axis);
        for c in &carries {
            if let Carry::Memory(loc) = c {
                self.locs[loc.index()].owner = self.depth();
            }
        }
        self.node(NodeKind::LoopBegin, HloOp::While, 0, 0, [], NodeScalars::default());
        let outside = self.stash(&carries);
        let result = self.run_body(body, &inside)?;
        let skip = counting.as_ref().filter(|_| counter_is_axis).map(|c| c.leaf);
        self.update_carry(&carries, &inside, result, skip)?;
        if plan.is_none() {
            let again = self.run_condition(condition, &inside)?;
            self.move_scalar(row.regs.condition, again);
        }
        self.node(NodeKind::LoopEnd, HloOp::While, 0, 0, [], NodeScalars::default());
        self.axes.pop();
        for (loc, remaining) in outside {
            self.locs[loc.index()].owner = self.depth();
            self.locs[loc.index()].remaining = remaining;
        }
        if let (true, Some(c), Some(p)) = (counter_is_axis, &counting, &plan) {
            // Behind the loop the counter has passed the last value it has inside.
            let last = self.reg(RegRole::Scalar, p.lb, (p.ub_bounds.1 - 1 + p.step).max(p.lb));
            self.scalar_move(last, row.regs.iv);
            inside[c.leaf] = Leaf::Scalar { ty: HloType::S32, reg: last, dims: init[c.leaf].extents() };
        }
        Ok(inside)
    }

    /// Carried locations with the readers they have outside the body.
    fn stash(&mut self, carries: &[Carry]) -> Vec<(LocId, i64)> {
        let mut out = Vec::new();
        for c in carries {
            if let Carry::Memory(loc) = c {
                out.push((*loc, 0));
                self.locs[loc.index()].remaining = 0;
            }
        }
        out
    }

    /// Which result leaves of the body are its own parameter's leaf, unchanged.
    fn invariant_leaves(&self, body: CompId, leaves: usize) -> Vec<bool> {
        let comp = self.module.comp(body);
        (0..leaves).map(|k| self.parameter_leaf(comp.root, k, comp.parameters[0]) == Some(k)).collect()
    }

    /// The leaf of `parameter` that leaf `k` of `id` is, unchanged.
    fn parameter_leaf(&self, mut id: HloId, mut k: usize, parameter: HloId) -> Option<usize> {
        loop {
            if id == parameter {
                return Some(k);
            }
            let inst = self.module.inst(id);
            match inst.op {
                HloOp::Tuple => {
                    let mut found = None;
                    for &operand in inst.operands() {
                        let n = leaf_count(self.module.inst(operand).shape());
                        if k < n {
                            found = Some(operand);
                            break;
                        }
                        k -= n;
                    }
                    id = found?;
                }
                HloOp::GetTupleElement => {
                    k += element_offset(self.module, id);
                    id = inst.operands()[0];
                }
                HloOp::Copy | HloOp::OptimizationBarrier => id = inst.operands()[0],
                _ => return None,
            }
        }
    }

    /// Recognises a condition `counter < bound` with a bound that the body does not change and a counter that goes up
    /// by a positive constant.
    fn counting(&self, body: CompId, condition: CompId, invariant: &[bool]) -> Option<Counting> {
        let cond = self.module.comp(condition);
        let root = self.module.inst(cond.root);
        let Attrs::Compare { direction, .. } = root.attrs() else { return None };
        if root.op != HloOp::Compare {
            return None;
        }
        let (left, right) = (root.operands()[0], root.operands()[1]);
        let (counter, bound, inclusive) = match direction {
            Direction::Lt => (left, right, false),
            Direction::Le => (left, right, true),
            Direction::Gt => (right, left, false),
            Direction::Ge => (right, left, true),
            _ => return None,
        };
        let leaf = self.parameter_leaf(counter, 0, cond.parameters[0])?;
        let shape = self.module.inst(counter).shape().array()?;
        if shape.ty != HloType::S32 || shape.rank() != 0 || invariant[leaf] {
            return None;
        }
        // The bound reads invariant leaves and constants only, through scalar arithmetic.
        let mut pending = vec![bound];
        while let Some(id) = pending.pop() {
            if let Some(k) = self.parameter_leaf(id, 0, cond.parameters[0]) {
                if !invariant[k] {
                    return None;
                }
                continue;
            }
            let inst = self.module.inst(id);
            if inst.shape().array().is_none_or(|s| s.elements() != 1) || inst.op == HloOp::While {
                return None;
            }
            pending.extend(inst.operands());
        }
        // The body adds a constant.
        let comp = self.module.comp(body);
        let next = self.root_leaf(comp.root, leaf)?;
        let add = self.module.inst(next);
        if add.op != HloOp::Add {
            return None;
        }
        let constant = |id: HloId| match self.module.inst(id).attrs() {
            Attrs::Constant(l) => Some(super::leaf::integer(HloType::S32, le_bits(l.bytes()))),
            _ => None,
        };
        let own = |id: HloId| self.parameter_leaf(id, 0, comp.parameters[0]) == Some(leaf);
        let step = match (add.operands()[0], add.operands()[1]) {
            (a, b) if own(a) => constant(b)?,
            (a, b) if own(b) => constant(a)?,
            _ => return None,
        };
        (step > 0 && step < 1 << 24).then_some(Counting { leaf, step, bound, inclusive })
    }

    /// The instruction that gives leaf `k` of a tuple root.
    fn root_leaf(&self, root: HloId, k: usize) -> Option<HloId> {
        let inst = self.module.inst(root);
        match inst.op {
            HloOp::Tuple => {
                let mut k = k;
                for &operand in inst.operands() {
                    let n = leaf_count(self.module.inst(operand).shape());
                    if k < n {
                        return (n == 1).then_some(operand);
                    }
                    k -= n;
                }
                None
            }
            _ if leaf_count(inst.shape()) == 1 => Some(root),
            _ => None,
        }
    }

    /// Limit register and bounds of a counted loop; `None` where no form is safe from overflow.
    fn plan_counted(
        &mut self,
        c: &Counting,
        condition: CompId,
        init: &[Leaf],
        carries: &[Carry],
    ) -> Lowered<Option<Plan>> {
        let outer = self.carry_leaves(init, carries);
        let bound = self.run_scalar(condition, c.bound, &outer)?;
        let bounds = self.range(bound);
        let (lo, hi) = type_range(HloType::S32);
        let start = match &init[c.leaf] {
            Leaf::Splat { bits, .. } => Some(super::leaf::integer(HloType::S32, *bits)),
            _ => None,
        };
        if let Some(lb) = start {
            // Counter and bound are the loop's own: the counter stops at most `step - 1` above the bound.
            let ub = (bounds.0 + c.inclusive as i64, bounds.1 + c.inclusive as i64);
            if ub.1 + c.step - 1 <= hi && ub.0 >= lo && lb <= hi {
                let limit = self.in_register(bound);
                return Ok(Some(Plan {
                    lb,
                    step: c.step,
                    limit,
                    constant: c.inclusive as i64,
                    unsigned: false,
                    counter_is_axis: true,
                    ub_bounds: ub,
                }));
            }
        }
        if c.step != 1 || c.inclusive {
            return Ok(None);
        }
        // Trips = bound - start as an unsigned difference, 0 unless start < bound.
        let first = self.scalar(&init[c.leaf])?;
        let runs = self.compare(Direction::Lt, first, bound, SIGNED);
        let start = self.range(first);
        let widest = (bounds.1 - start.0).clamp(0, u32::MAX as i64);
        let difference = self.alu(AluOp::Subtract, bound, first, UNSIGNED, (0, u32::MAX as i64));
        let trips = self.alu(AluOp::Mult, difference, runs, UNSIGNED, (0, widest));
        let limit = self.in_register(trips);
        Ok(Some(Plan {
            lb: 0,
            step: 1,
            limit,
            constant: 0,
            unsigned: true,
            counter_is_axis: false,
            ub_bounds: (0, widest),
        }))
    }

    /// A location for a carried tensor, holding its initial value: the value's own where it dies here.
    fn carry_home(&mut self, leaf: &Leaf, shared: bool) -> Lowered<LocId> {
        if let Some(loc) = self.owns_whole(leaf).filter(|_| !shared) {
            let f = self.facts(loc);
            if f.remaining == 0 && f.space != Space::Psum && (f.space == Space::Dram || f.parts == 1) {
                return Ok(loc);
            }
        }
        let loc = self.updatable_home(leaf.ty(), &leaf.extents())?;
        self.fill_from(loc, leaf)?;
        Ok(loc)
    }

    fn carry_leaves(&self, init: &[Leaf], carries: &[Carry]) -> Vec<Leaf> {
        init.iter()
            .zip(carries)
            .map(|(leaf, carry)| match carry {
                Carry::Invariant => leaf.clone(),
                Carry::Register(reg) => Leaf::Scalar { ty: leaf.ty(), reg: *reg, dims: leaf.extents() },
                Carry::Memory(loc) => self.whole_view(*loc, leaf.ty(), &leaf.extents()),
            })
            .collect()
    }

    fn move_scalar(&mut self, dst: RegId, value: Scalar) {
        match value {
            Scalar::Const(c) => self.scalar_move_imm(dst, c as u32),
            Scalar::Reg(r) if r != dst => self.scalar_move(dst, r),
            Scalar::Reg(_) => {}
        }
    }

    /// Lowers a body on the carry's leaves and returns its root's leaves. What the carry owns may be overwritten when
    /// its last reader has run.
    fn run_body(&mut self, computation: CompId, parameter: &[Leaf]) -> Lowered<Vec<Leaf>> {
        let uses = Uses::count(self.module, computation);
        let number = self.module.comp(computation).parameters[0];
        for (k, leaf) in parameter.iter().enumerate() {
            if let Leaf::View(v) = leaf
                && self.facts(v.loc).owner == self.depth()
            {
                self.locs[v.loc.index()].remaining = uses.of(number, k) as i64;
            }
        }
        self.enter(uses, number, parameter, |this| this.lower_computation(computation))?;
        Ok(self.values.of(self.module.comp(computation).root).to_vec())
    }

    /// Runs `lower` inside a computation whose parameter has the given leaves.
    fn enter(
        &mut self,
        uses: Uses,
        parameter: HloId,
        leaves: &[Leaf],
        lower: impl FnOnce(&mut Self) -> Lowered<()>,
    ) -> Lowered<()> {
        if self.uses.len() > MAX_NESTING {
            let what = format!("loops and branches nest more than {MAX_NESTING} deep");
            return self.refuse(&codes::LOWER_RECURSION, what);
        }
        self.uses.push(uses);
        let caller = self.current;
        self.values.set(parameter, leaves.iter().cloned());
        let done = lower(self);
        self.current = caller;
        self.uses.pop();
        done
    }

    /// Runs `lower` inside a computation that only looks: nothing of the parameter may be overwritten in it.
    pub fn enter_reading(
        &mut self,
        computation: CompId,
        leaves: &[Leaf],
        lower: impl FnOnce(&mut Self) -> Lowered<()>,
    ) -> Lowered<()> {
        const HELD: i64 = 1 << 40;
        let held: Vec<LocId> = leaves.iter().filter_map(|l| l.view().map(|v| v.loc)).collect();
        for loc in &held {
            self.locs[loc.index()].remaining += HELD;
        }
        let uses = Uses::count(self.module, computation);
        let parameter = self.module.comp(computation).parameters[0];
        for (k, leaf) in leaves.iter().enumerate() {
            if let Leaf::View(v) = leaf {
                self.locs[v.loc.index()].remaining += uses.of(parameter, k) as i64;
            }
        }
        let done = self.enter(uses, parameter, leaves, lower);
        for loc in &held {
            self.locs[loc.index()].remaining -= HELD;
        }
        done
    }

    /// Lowers the condition and returns its value.
    fn run_condition(&mut self, computation: CompId, parameter: &[Leaf]) -> Lowered<Scalar> {
        self.enter_reading(computation, parameter, |this| this.lower_computation(computation))?;
        let result = self.values.of(self.module.comp(computation).root).to_vec();
        match result.first() {
            Some(leaf) => {
                let leaf = leaf.clone();
                self.scalar(&leaf)
            }
            None => self.refuse(&codes::LOWER_UNSUPPORTED_OP, "a condition without a value"),
        }
    }

    /// Lowers what one scalar of a computation needs.
    fn run_scalar(&mut self, computation: CompId, wanted: HloId, parameter: &[Leaf]) -> Lowered<Scalar> {
        let module = self.module;
        let mut needed = vec![wanted];
        let mut k = 0;
        while k < needed.len() {
            for operand in module.inst(needed[k]).operands() {
                if !needed.contains(operand) {
                    needed.push(*operand);
                }
            }
            k += 1;
        }
        self.enter_reading(computation, parameter, |this| {
            let order = module.comp(computation).instructions.iter();
            for id in order.filter(|id| needed.contains(id)) {
                this.lower_instruction(id)?;
            }
            Ok(())
        })?;
        let leaf = self.values.of(wanted).first().cloned().unwrap_or(Leaf::Token);
        self.scalar(&leaf)
    }

    /// Moves the body's results into the carry as if all at once.
    fn update_carry(
        &mut self,
        carries: &[Carry],
        inside: &[Leaf],
        mut result: Vec<Leaf>,
        skip: Option<usize>,
    ) -> Lowered<()> {
        let live = |k: usize| Some(k) != skip && !matches!(carries[k], Carry::Invariant);
        // Results that read another leaf's home are taken aside first.
        for k in (0..carries.len()).filter(|k| live(*k)) {
            let clobbered = match &result[k] {
                Leaf::View(v) => {
                    result[k] != inside[k]
                        && carries.iter().any(|c| matches!(c, Carry::Memory(l) if *l == v.loc))
                }
                _ => false,
            };
            if clobbered && let Leaf::View(v) = result[k].clone() {
                result[k] = Leaf::View(self.compact(&v)?);
            }
            if let Leaf::Scalar { reg, ty, dims } = result[k].clone() {
                let other = carries.iter().enumerate();
                let clobbered =
                    other.into_iter().any(|(j, c)| j != k && matches!(c, Carry::Register(r) if *r == reg));
                if clobbered {
                    let b = self.bounds(reg);
                    let copy = self.reg(RegRole::Scalar, b.lo, b.hi);
                    self.scalar_move(copy, reg);
                    result[k] = Leaf::Scalar { ty, reg: copy, dims };
                }
            }
        }
        // Registers that need loads are loaded before any carry register is overwritten.
        let mut scalars = Vec::new();
        for k in (0..carries.len()).filter(|k| live(*k)) {
            if let Carry::Register(reg) = carries[k] {
                let value = self.scalar(&result[k].clone())?;
                scalars.push((reg, value));
            }
        }
        for k in (0..carries.len()).filter(|k| live(*k)) {
            if let Carry::Memory(loc) = carries[k]
                && result[k] != inside[k]
            {
                self.fill_from(loc, &result[k].clone())?;
            }
        }
        for (reg, value) in scalars {
            self.move_scalar(reg, value);
        }
        Ok(())
    }
}

/// How a counted loop runs.
struct Plan {
    lb: i64,
    step: i64,
    limit: RegId,
    constant: i64,
    unsigned: bool,
    counter_is_axis: bool,
    ub_bounds: (i64, i64),
}

fn le_bits(bytes: &[u8]) -> u64 {
    let mut b = [0u8; 8];
    let n = bytes.len().min(8);
    b[..n].copy_from_slice(&bytes[..n]);
    u64::from_le_bytes(b)
}
