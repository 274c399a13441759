//! Reductions, windowed ones and scatters of 64-bit elements. In: an old instruction. Out: what stands for it.
//!
//! Where the result fits one word, or the operation does not cross words, the words reduce by themselves. A sum of pairs
//! is the sums of their 16-bit (or 8-bit) pieces, none of which leaves a word; the least or greatest pair has the least or
//! greatest high word, and of those that have it the low word that is so.

use super::facts::{Reducer, reducer};
use super::range::{Form, Range};
use super::value::{Pair, Value, has_wide};
use super::{Refusal, Split, no_rule};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, Draft, HloInst, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

const REDUCERS: [HloOp; 7] =
    [HloOp::Add, HloOp::Multiply, HloOp::Minimum, HloOp::Maximum, HloOp::And, HloOp::Or, HloOp::Xor];

impl<'m> Split<'m> {
    /// Writes the computations of two words that reductions call; the second word alone is under `Copy`.
    pub fn write_reducers(&mut self) {
        let old = self.old;
        let folds = |op| matches!(op, HloOp::Reduce | HloOp::ReduceWindow | HloOp::Scatter);
        let wide = |id: &HloId| has_wide(old.inst(*id).shape());
        if !old.insts().any(|i| folds(i.op) && i.operands().iter().any(wide)) {
            return;
        }
        for ty in [HloType::S32, HloType::U32] {
            for op in REDUCERS.into_iter().chain([HloOp::Copy]) {
                let shape = self.out.module.intern_shape(Shape::Array(ArrayShape::new(ty, [])));
                let parameters: Vec<HloId> = ["a", "b"]
                    .into_iter()
                    .zip(0..)
                    .map(|(name, number)| {
                        let attrs = self.out.module.intern_attrs(Attrs::Parameter { number });
                        self.out.push(Draft { attrs, ..Draft::new(name, HloOp::Parameter, shape) })
                    })
                    .collect();
                let root = if op == HloOp::Copy {
                    parameters[1]
                } else {
                    self.out.push(Draft { operands: &parameters, ..Draft::new("result", op, shape) })
                };
                let name = if op == HloOp::Copy { "second" } else { op.name() };
                let comp = self.finish_new(&format!("{name}.{}", ty.name()), &parameters, root);
                self.reducers.push(((op, ty), comp));
            }
        }
    }

    fn word_reducer(&self, op: HloOp, ty: HloType) -> Result<CompId, Refusal> {
        let found = self.reducers.iter().find(|(key, _)| *key == (op, ty));
        found.map(|(_, comp)| *comp).ok_or(Refusal::Silent)
    }

    /// The instruction on one word of its operands.
    fn fold_word(&mut self, inst: HloInst<'m>, op: HloOp, operands: &[HloId]) -> Result<HloId, Refusal> {
        let dims = inst.shape().array().map(|a| a.dims.clone()).unwrap_or_default();
        let ty = operands.first().map_or(HloType::U32, |o| self.shape_of(*o).ty);
        let called = self.word_reducer(op, ty)?;
        let shape = Shape::Array(ArrayShape::new(ty, dims));
        Ok(self.put(inst.op, shape, operands, inst.attrs().clone(), &[called]))
    }

    /// Reduce, reduce-window and scatter.
    pub fn fold(&mut self, inst: HloInst<'m>) -> Result<Value, Refusal> {
        let operands = inst.operands();
        let Some(callee) = inst.called().first().copied() else { return Err(Refusal::Silent) };
        let scatter = inst.op == HloOp::Scatter;
        let arrays = operands.len().saturating_sub(usize::from(scatter)) / 2;
        let mut between = Vec::new();
        if scatter {
            between.push(self.index(*operands.get(arrays).ok_or(Refusal::Silent)?)?);
        }
        if !has_wide(inst.shape()) {
            let mut new = Vec::new();
            for (k, o) in operands.iter().enumerate() {
                new.push(if scatter && k == arrays { between[0] } else { self.whole(*o)? });
            }
            return Ok(Value::Whole(self.copied(inst, &new)));
        }
        let (Some(plain), 1) = (reducer(self.old, callee), arrays) else {
            return self.variadic(inst, arrays, &between);
        };
        let (a, b) = (operands[0], operands[operands.len() - 1]);
        let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
        let op = match plain {
            Reducer::Op(op) => op,
            Reducer::Second => HloOp::Copy,
        };
        let ordered = matches!(op, HloOp::Minimum | HloOp::Maximum);
        let crosses = ordered || matches!(op, HloOp::Add | HloOp::Multiply);
        if form != Form::Pair || !crosses {
            let (a, b) = (self.words_of(a, form)?, self.words_of(b, form)?);
            let mut words = Vec::new();
            for (k, (a, b)) in a.into_iter().zip(b).enumerate() {
                let given: Vec<HloId> = [a].into_iter().chain(between.iter().copied()).chain([b]).collect();
                if form == Form::Pair {
                    self.tagged(["lo", "hi"][k.min(1)]);
                }
                words.push(self.fold_word(inst, op, &given)?);
            }
            return Ok(Value::of_words(&words));
        }
        let signed = inst.shape().array().is_some_and(|s| s.ty.is_signed_int());
        match inst.op {
            HloOp::Reduce | HloOp::ReduceWindow if op == HloOp::Add => self.sum(inst, a, b).map(Value::Pair),
            HloOp::Reduce if ordered => self.extreme(inst, op, a, b, signed).map(Value::Pair),
            other => {
                let what = format!("{} by {} of 64-bit elements has no rule", other.name(), op.name());
                Err(no_rule(what))
            }
        }
    }

    /// The sum over dimensions or windows.
    fn sum(&mut self, inst: HloInst<'m>, a: HloId, init: HloId) -> Result<Pair, Refusal> {
        let shape = self.old.inst(a).shape().array();
        let count = match (inst.attrs(), shape) {
            (Attrs::Dimensions(dims), Some(shape)) => dims
                .iter()
                .filter_map(|d| usize::try_from(*d).ok().and_then(|d| shape.dims.get(d)))
                .fold(1i64, |n, d| n.saturating_mul(*d)),
            (Attrs::Window(window), _) => window.iter().fold(1i64, |n, w| n.saturating_mul(w.size)),
            _ => return Err(Refusal::Silent),
        };
        // Of a window, what is padded is the initial value: pieces have 0 there.
        if inst.op == HloOp::ReduceWindow && self.facts.range(init) != Range::new(0, 0) {
            return Err(no_rule("a windowed sum of 64-bit elements starts with 0"));
        }
        let bits = if count <= 1 << 16 {
            16
        } else if count <= 1 << 24 {
            8
        } else {
            return Err(no_rule("a sum of so many 64-bit elements has no rule"));
        };
        let pair = self.pair_of(a)?;
        let zero = self.splat(HloType::U32, &[], 0);
        let mut sum: Option<Pair> = None;
        for piece in 0..64 / bits {
            let at = piece * bits;
            let word = if at < 32 { pair.lo } else { pair.hi };
            let moved = if at % 32 > 0 { self.with(HloOp::ShiftRightLogical, word, at % 32) } else { word };
            let own = if at % 32 + bits < 32 { self.with(HloOp::And, moved, (1 << bits) - 1) } else { moved };
            let total = self.fold_word(inst, HloOp::Add, &[own, zero])?;
            let none = self.word(total, 0);
            let total = self.pair_shift_by(HloOp::ShiftLeft, Pair { lo: total, hi: none }, at);
            sum = Some(match sum {
                Some(sum) => self.pair_add(sum, total),
                None => total,
            });
        }
        let sum = sum.ok_or(Refusal::Silent)?;
        let init = self.pair_of(init)?;
        let dims = self.shape_of(sum.lo).dims;
        let init = Pair { lo: self.spread(init.lo, &dims), hi: self.spread(init.hi, &dims) };
        Ok(self.pair_add(sum, init))
    }

    /// The least or the greatest over dimensions.
    fn extreme(
        &mut self,
        inst: HloInst<'m>,
        op: HloOp,
        a: HloId,
        init: HloId,
        signed: bool,
    ) -> Result<Pair, Refusal> {
        let Attrs::Dimensions(reduced) = inst.attrs() else { return Err(Refusal::Silent) };
        let pair = self.pair_of(a)?;
        let all = self.shape_of(pair.hi).dims;
        let kept: Vec<i64> = (0..all.len() as i64).filter(|d| !reduced.contains(d)).collect();
        let ty = if signed { HloType::S32 } else { HloType::U32 };
        let lowest = if signed { i32::MIN as u32 } else { 0 };
        let neutral = if op == HloOp::Maximum { lowest } else { !lowest };
        let high = self.convert(pair.hi, ty);
        let start = self.splat(ty, &[], neutral);
        let best = self.fold_word(inst, op, &[high, start])?;
        let spread = self.array(HloOp::Broadcast, ty, &all, &[best], Attrs::Dimensions(kept));
        let same = self.compare(Direction::Eq, high, spread);
        let neutral = if op == HloOp::Maximum { 0 } else { u32::MAX };
        let out = self.word(pair.lo, neutral);
        let low = self.select(same, pair.lo, out);
        let start = self.splat(HloType::U32, &[], neutral);
        let lo = self.fold_word(inst, op, &[low, start])?;
        let hi = self.convert(best, HloType::U32);
        let init = self.pair_of(init)?;
        let dims = self.shape_of(lo).dims;
        let init = Pair { lo: self.spread(init.lo, &dims), hi: self.spread(init.hi, &dims) };
        Ok(self.pair_extreme(op, Pair { lo, hi }, init, signed))
    }
}
