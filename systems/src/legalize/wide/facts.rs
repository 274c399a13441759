//! What is known of a module's integers before it is rewritten: the range of every leaf of every value, across the
//! boundaries of computations. In: a module. Out: [`Facts`], from which follows how each 64-bit value is held.
//!
//! Ranges only grow. A computation is looked at again when what its callers give it or what its callees return has
//! grown; a range that grows for the fifth time becomes that of its type. So a loop's carry is everything that its type
//! holds, unless the loop leaves it alone or counts with it: a carry that moves by a bounded step in one direction, while
//! a comparison with a bound holds, stays between its start and one step behind the bound.

use super::range::{Form, Range, transfer};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// A range that grew this often becomes the whole type.
const PATIENCE: u8 = 4;
/// Rounds after which everything is taken for the whole of its type.
const ROUNDS: usize = 100;

/// A computation of two scalars that folds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reducer {
    /// One operation on the two, in any order.
    Op(HloOp),
    /// The second of them.
    Second,
}

/// The computation as a plain reducer, if it is one.
pub fn reducer(module: &HloModule, comp: CompId) -> Option<Reducer> {
    use HloOp::*;
    let comp = module.comp(comp);
    let [first, second] = comp.parameters[..] else { return None };
    if comp.root == second {
        return Some(Reducer::Second);
    }
    let root = module.inst(comp.root);
    let both = root.operands() == [first, second] || root.operands() == [second, first];
    (both && matches!(root.op, Add | Multiply | Minimum | Maximum | And | Or | Xor))
        .then_some(Reducer::Op(root.op))
}

/// Ranges of leaves that can grow.
#[derive(Clone, Default)]
struct Growing {
    ranges: Vec<Range>,
    types: Vec<HloType>,
    grown: Vec<u8>,
}

impl Growing {
    fn new(types: Vec<HloType>) -> Growing {
        Growing { ranges: vec![Range::EMPTY; types.len()], grown: vec![0; types.len()], types }
    }

    /// Whether leaf `i` grew to take in `range`.
    fn grow(&mut self, i: usize, range: Range) -> bool {
        let Some(have) = self.ranges.get_mut(i) else { return false };
        if have.holds(range) {
            return false;
        }
        self.grown[i] += 1;
        let whole = Range::of_type(self.types[i]);
        *have = if self.grown[i] > PATIENCE { whole } else { have.join(range).within(self.types[i]) };
        true
    }

    fn grow_all(&mut self, ranges: &[Range]) -> bool {
        let mut any = false;
        for (i, r) in ranges.iter().enumerate() {
            any |= self.grow(i, *r);
        }
        any
    }
}

/// Ranges of a module's values.
pub struct Facts {
    /// Where the leaves of each instruction begin.
    start: Vec<u32>,
    leaves: Growing,
    /// Per computation: its parameters' leaves.
    parameters: Vec<Vec<Growing>>,
    /// Per computation: what it returns, as its callers want it.
    returned: Vec<Growing>,
    /// Per computation: those that call it.
    callers: Vec<Vec<CompId>>,
}

fn leaf_types(shape: &Shape) -> Vec<HloType> {
    shape.leaves().iter().map(|s| s.array().map_or(HloType::Token, |a| a.ty)).collect()
}

impl Facts {
    /// Looks at a verified module.
    pub fn of(module: &HloModule) -> Facts {
        let mut types = Vec::new();
        let mut start = Vec::with_capacity(module.len() + 1);
        let by_shape: Vec<Vec<HloType>> = module.shapes().iter().map(leaf_types).collect();
        for inst in module.insts() {
            start.push(types.len() as u32);
            types.extend_from_slice(&by_shape[inst.shape_id().index()]);
        }
        start.push(types.len() as u32);
        let of = |id: HloId| Growing::new(by_shape[module.inst(id).shape_id().index()].clone());
        let computations = &module.computations;
        let mut facts = Facts {
            start,
            leaves: Growing::new(types),
            parameters: computations.iter().map(|c| c.parameters.iter().map(|p| of(*p)).collect()).collect(),
            returned: computations.iter().map(|c| of(c.root)).collect(),
            callers: vec![Vec::new(); computations.len()],
        };
        for (c, comp) in computations.iter().enumerate() {
            for callee in comp.instructions.iter().flat_map(|id| module.inst(id).called()) {
                let callers = &mut facts.callers[callee.index()];
                if callers.last() != Some(&CompId::new(c)) {
                    callers.push(CompId::new(c));
                }
            }
        }
        for p in facts.parameters.get_mut(module.entry.index()).into_iter().flatten() {
            p.ranges = p.types.iter().map(|t| Range::of_type(*t)).collect();
        }
        facts.settle(module);
        facts
    }

    fn settle(&mut self, module: &HloModule) {
        let mut dirty = vec![true; module.computations.len()];
        for _ in 0..ROUNDS {
            if !dirty.iter().any(|d| *d) {
                return;
            }
            for c in 0..module.computations.len() {
                if std::mem::take(&mut dirty[c]) {
                    self.look(module, CompId::new(c), &mut dirty);
                }
            }
        }
        let everything = |g: &mut Growing| g.ranges = g.types.iter().map(|t| Range::of_type(*t)).collect();
        everything(&mut self.leaves);
        self.parameters.iter_mut().flatten().chain(&mut self.returned).for_each(everything);
    }

    /// The ranges of an instruction's leaves.
    pub fn ranges(&self, id: HloId) -> &[Range] {
        &self.leaves.ranges[self.start[id.index()] as usize..self.start[id.index() + 1] as usize]
    }

    /// The range of an array.
    pub fn range(&self, id: HloId) -> Range {
        self.ranges(id).first().copied().unwrap_or(Range::EMPTY)
    }

    /// How the leaves of an instruction are held, were they all 64-bit.
    pub fn forms(&self, id: HloId) -> Vec<Form> {
        let at = self.start[id.index()] as usize..self.start[id.index() + 1] as usize;
        at.map(|i| self.leaves.ranges[i].form(self.leaves.types[i])).collect()
    }

    /// How a parameter of a computation is held.
    pub fn parameter_forms(&self, comp: CompId, number: usize) -> Vec<Form> {
        self.parameters[comp.index()].get(number).map(forms).unwrap_or_default()
    }

    /// How the leaves are held that a computation returns.
    pub fn returned_forms(&self, comp: CompId) -> Vec<Form> {
        forms(&self.returned[comp.index()])
    }

    fn set(&mut self, id: HloId, ranges: &[Range]) {
        let start = self.start[id.index()] as usize;
        for (k, r) in ranges.iter().enumerate() {
            self.leaves.grow(start + k, *r);
        }
    }

    fn look(&mut self, module: &HloModule, c: CompId, dirty: &mut [bool]) {
        let comp = module.comp(c);
        let before = self.ranges(comp.root).to_vec();
        for id in comp.instructions.iter() {
            let inst = module.inst(id);
            let ranges = self.result(module, c, inst, dirty);
            self.set(id, &ranges);
        }
        if before != self.ranges(comp.root) {
            self.callers[c.index()].iter().for_each(|c| dirty[c.index()] = true);
        }
    }

    fn result(&mut self, module: &HloModule, c: CompId, inst: HloInst<'_>, dirty: &mut [bool]) -> Vec<Range> {
        use HloOp::*;
        let operands = inst.operands();
        match (inst.op, inst.attrs()) {
            (Parameter, Attrs::Parameter { number }) => {
                let given = self.parameters[c.index()].get(*number as usize);
                given.map(|g| g.ranges.clone()).unwrap_or_default()
            }
            (Tuple, _) => operands.iter().flat_map(|o| self.ranges(*o).to_vec()).collect(),
            (GetTupleElement, Attrs::GetTupleElement { index }) => match operands {
                [tuple] => {
                    let at = leaf_offset(module.inst(*tuple).shape(), *index as usize);
                    let count = (self.start[inst.id.index() + 1] - self.start[inst.id.index()]) as usize;
                    self.ranges(*tuple).get(at..at + count).map(<[Range]>::to_vec).unwrap_or_default()
                }
                _ => Vec::new(),
            },
            (Copy | OptimizationBarrier, _) if operands.len() == 1 => self.ranges(operands[0]).to_vec(),
            (While, _) => self.while_loop(module, inst, dirty),
            (Conditional, _) => self.conditional(module, inst, dirty),
            (Call | Fusion, _) => {
                let Some(callee) = inst.called().first().copied() else { return Vec::new() };
                for (k, o) in operands.iter().enumerate() {
                    let given = self.ranges(*o).to_vec();
                    self.give(callee, k, &given, dirty);
                }
                self.give_root(module, callee, dirty);
                self.returned[callee.index()].ranges.clone()
            }
            (Sort, _) => {
                let ranges: Vec<Range> = operands.iter().map(|o| self.range(*o)).collect();
                for callee in inst.called() {
                    for (k, r) in ranges.iter().enumerate() {
                        self.give(*callee, 2 * k, &[*r], dirty);
                        self.give(*callee, 2 * k + 1, &[*r], dirty);
                    }
                }
                ranges
            }
            (Reduce | ReduceWindow | Scatter | Map, _) if !inst.called().is_empty() => {
                self.folded(module, inst, dirty)
            }
            _ => {
                for callee in inst.called() {
                    for k in 0..self.parameters[callee.index()].len() {
                        let types = self.parameters[callee.index()][k].types.clone();
                        let all: Vec<Range> = types.into_iter().map(Range::of_type).collect();
                        self.give(*callee, k, &all, dirty);
                    }
                    self.give_root(module, *callee, dirty);
                }
                match inst.shape() {
                    Shape::Array(shape) => {
                        let from = operands.first().and_then(|o| module.inst(*o).shape().array());
                        let operand = |i: usize| operands.get(i).map_or(Range::EMPTY, |o| self.range(*o));
                        vec![transfer(inst, shape, from.map_or(HloType::Token, |a| a.ty), operand)]
                    }
                    other => leaf_types(other).into_iter().map(Range::of_type).collect(),
                }
            }
        }
    }

    /// Callers give a parameter these ranges.
    fn give(&mut self, callee: CompId, number: usize, ranges: &[Range], dirty: &mut [bool]) {
        if let Some(p) = self.parameters[callee.index()].get_mut(number)
            && p.grow_all(ranges)
        {
            self.changed(callee, dirty);
        }
    }

    /// A computation returns these ranges, or callers take what it returns for these.
    fn give_back(&mut self, callee: CompId, ranges: &[Range], dirty: &mut [bool]) {
        if self.returned[callee.index()].grow_all(ranges) {
            self.changed(callee, dirty);
        }
    }

    /// Callers take what a computation computes.
    fn give_root(&mut self, module: &HloModule, callee: CompId, dirty: &mut [bool]) {
        let root = self.ranges(module.comp(callee).root).to_vec();
        self.give_back(callee, &root, dirty);
    }

    fn changed(&self, callee: CompId, dirty: &mut [bool]) {
        dirty[callee.index()] = true;
        self.callers[callee.index()].iter().for_each(|c| dirty[c.index()] = true);
    }

    fn while_loop(&mut self, module: &HloModule, inst: HloInst<'_>, dirty: &mut [bool]) -> Vec<Range> {
        let ([init], [body, condition]) = (inst.operands(), inst.called()) else { return Vec::new() };
        let counted = self.counters(module, *body, *condition);
        let init = self.ranges(*init).to_vec();
        let root = self.ranges(module.comp(*body).root).to_vec();
        let mut carry = init.clone();
        for (k, r) in carry.iter_mut().enumerate() {
            let given = |c: &CompId| self.parameters[c.index()].first().and_then(|p| p.ranges.get(k));
            let known = [given(body), given(condition), self.returned[body.index()].ranges.get(k)];
            let counter = counted.iter().find(|x| x.leaf == k);
            match counter.and_then(|x| x.reached(init[k])) {
                Some(reached) if Range::of_type(self.returned[body.index()].types[k]).holds(reached) => {
                    *r = reached;
                }
                // Its bound is not known yet.
                None if counter.is_some() => {}
                _ => *r = r.join(root.get(k).copied().unwrap_or(Range::EMPTY)),
            }
            *r = known.into_iter().flatten().fold(*r, |all, x| all.join(*x));
        }
        self.give(*body, 0, &carry, dirty);
        self.give(*condition, 0, &carry, dirty);
        self.give_back(*body, &carry, dirty);
        carry
    }

    /// The carries of a loop that count.
    fn counters(&self, module: &HloModule, body: CompId, condition: CompId) -> Vec<Counter> {
        let comparison = module.inst(module.comp(condition).root);
        let (Attrs::Compare { direction, .. }, [left, right]) = (comparison.attrs(), comparison.operands())
        else {
            return Vec::new();
        };
        let turned = match direction {
            Direction::Lt => Direction::Gt,
            Direction::Gt => Direction::Lt,
            Direction::Le => Direction::Ge,
            Direction::Ge => Direction::Le,
            _ => return Vec::new(),
        };
        let mut found = Vec::new();
        for (x, bound, direction) in [(left, right, *direction), (right, left, turned)] {
            let Some((index, leaf)) = carry_element(module, condition, *x) else { continue };
            let next = match index {
                Some(index) => {
                    let root = module.inst(module.comp(body).root);
                    if root.op != HloOp::Tuple {
                        continue;
                    }
                    root.operands().get(index).copied()
                }
                None => Some(module.comp(body).root),
            };
            let Some(next) = next.map(|n| module.inst(n)) else { continue };
            let same = |o: &HloId| carry_element(module, body, *o) == Some((index, leaf));
            let step = match (next.op, next.operands()) {
                (HloOp::Add, [a, b]) if same(a) => self.range(*b),
                (HloOp::Add, [a, b]) if same(b) => self.range(*a),
                (HloOp::Subtract, [a, b]) if same(a) => {
                    let r = self.range(*b);
                    Range::new(-r.high, -r.low)
                }
                _ => continue,
            };
            found.push(Counter { leaf, direction, bound: self.range(*bound), step });
        }
        found
    }

    fn conditional(&mut self, module: &HloModule, inst: HloInst<'_>, dirty: &mut [bool]) -> Vec<Range> {
        let mut result: Vec<Range> = Vec::new();
        for (branch, operand) in inst.called().iter().zip(inst.operands().iter().skip(1)) {
            let given = self.ranges(*operand).to_vec();
            self.give(*branch, 0, &given, dirty);
            self.give_root(module, *branch, dirty);
            let returned = &self.returned[branch.index()].ranges;
            result.resize(result.len().max(returned.len()), Range::EMPTY);
            for (r, x) in result.iter_mut().zip(returned) {
                *r = r.join(*x);
            }
        }
        for branch in inst.called() {
            self.give_back(*branch, &result, dirty);
        }
        result
    }

    /// Reductions, scatters and maps: a computation from twice `n` scalars to `n`.
    fn folded(&mut self, module: &HloModule, inst: HloInst<'_>, dirty: &mut [bool]) -> Vec<Range> {
        let (operands, Some(callee)) = (inst.operands(), inst.called().first().copied()) else {
            return Vec::new();
        };
        let ranges: Vec<Range> = operands.iter().map(|o| self.range(*o)).collect();
        if inst.op == HloOp::Map {
            for (k, r) in ranges.iter().enumerate() {
                self.give(callee, k, &[*r], dirty);
            }
            self.give_root(module, callee, dirty);
            return self.returned[callee.index()].ranges.clone();
        }
        let n =
            if inst.op == HloOp::Scatter { operands.len().saturating_sub(1) / 2 } else { operands.len() / 2 };
        let other = |k: usize| k + n + usize::from(inst.op == HloOp::Scatter);
        if n == 1
            && ranges.len() > other(0)
            && let Some(plain) = reducer(module, callee)
            && let Some(ty) = self.returned[callee.index()].types.first().copied()
        {
            let (a, b) = (ranges[0], ranges[other(0)]);
            if a.is_empty() || b.is_empty() {
                return vec![Range::EMPTY];
            }
            let elements = |i: usize| {
                let shape = module.inst(operands[i]).shape().array();
                shape.map_or(i128::MAX >> 70, |s| i128::from(s.elements().min(1 << 50)))
            };
            let zero = Range::new(0, 0);
            let folded = match (plain, inst.op) {
                (Reducer::Op(HloOp::Add), op) => {
                    // Of a window, what is padded is the initial value again.
                    let (start, count, each) = match (op, inst.attrs()) {
                        (HloOp::Scatter, _) => (a, elements(other(0)), b.join(zero)),
                        (_, Attrs::Window(w)) => {
                            let size = w.iter().fold(1i128, |p, d| p.saturating_mul(i128::from(d.size)));
                            (b, size.min(1 << 50), a.join(b).join(zero))
                        }
                        _ => (b, elements(0), a.join(zero)),
                    };
                    Range::new(start.low + count * each.low, start.high + count * each.high)
                }
                (Reducer::Op(HloOp::Minimum | HloOp::Maximum) | Reducer::Second, _) => a.join(b),
                (Reducer::Op(HloOp::And | HloOp::Or | HloOp::Xor), _) if a.low >= 0 && b.low >= 0 => {
                    let top = a.high.max(b.high);
                    Range::new(0, if top == 0 { 0 } else { (1 << (128 - top.leading_zeros())) - 1 })
                }
                _ => Range::of_type(ty),
            };
            return vec![folded.within(ty)];
        }
        self.give_root(module, callee, dirty);
        let mut carry = Vec::new();
        for k in 0..n {
            let mut r = ranges.get(k).copied().unwrap_or(Range::EMPTY);
            r = r.join(ranges.get(other(k)).copied().unwrap_or(Range::EMPTY));
            for p in [k, k + n] {
                let given = self.parameters[callee.index()].get(p).and_then(|g| g.ranges.first());
                r = r.join(given.copied().unwrap_or(Range::EMPTY));
            }
            r = r.join(self.returned[callee.index()].ranges.get(k).copied().unwrap_or(Range::EMPTY));
            carry.push(r);
        }
        for (k, r) in carry.iter().enumerate() {
            self.give(callee, k, &[*r], dirty);
            self.give(callee, k + n, &[*r], dirty);
        }
        self.give_back(callee, &carry, dirty);
        carry
    }
}

fn forms(g: &Growing) -> Vec<Form> {
    g.ranges.iter().zip(&g.types).map(|(r, t)| r.form(*t)).collect()
}

/// The number of leaves before element `index` of a tuple.
pub fn leaf_offset(shape: &Shape, index: usize) -> usize {
    match shape {
        Shape::Tuple(parts) => parts
            .iter()
            .take(index)
            .map(|p| if matches!(p, Shape::Tuple(_)) { p.leaves().len() } else { 1 })
            .sum(),
        _ => 0,
    }
}

/// Which element of its computation's one parameter an instruction is, if it is one: its index, unless it is the parameter
/// itself, and its leaf.
fn carry_element(module: &HloModule, comp: CompId, id: HloId) -> Option<(Option<usize>, usize)> {
    let [parameter] = module.comp(comp).parameters[..] else { return None };
    let inst = module.inst(id);
    inst.shape().array()?;
    if id == parameter {
        return Some((None, 0));
    }
    match (inst.attrs(), inst.operands()) {
        (Attrs::GetTupleElement { index }, [p]) if *p == parameter => {
            Some((Some(*index as usize), leaf_offset(module.inst(parameter).shape(), *index as usize)))
        }
        _ => None,
    }
}

/// A carry that moves by `step` while it compares so with `bound`.
struct Counter {
    leaf: usize,
    direction: Direction,
    bound: Range,
    step: Range,
}

impl Counter {
    /// What it reaches from its start, the last step included; `None` while bound or step are not known. Where it does
    /// not move towards its bound, no type holds that.
    fn reached(&self, init: Range) -> Option<Range> {
        if self.bound.is_empty() || self.step.is_empty() || init.is_empty() {
            return None;
        }
        let (bound, step) = (self.bound, self.step);
        Some(match self.direction {
            Direction::Lt if step.low >= 0 => Range::new(init.low, init.high.max(bound.high - 1 + step.high)),
            Direction::Le if step.low >= 0 => Range::new(init.low, init.high.max(bound.high + step.high)),
            Direction::Gt if step.high <= 0 => Range::new(init.low.min(bound.low + 1 + step.low), init.high),
            Direction::Ge if step.high <= 0 => Range::new(init.low.min(bound.low + step.low), init.high),
            _ => Range::new(i128::MIN, i128::MAX),
        })
    }
}
