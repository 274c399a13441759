//! Values on their way into computations and out of them. A loop, a branch or a call carries one value, in which a split
//! leaf is two; a sort and a reduction take arrays, and what they call takes scalars: a split array is two arrays, and its
//! scalars are two parameters each. In: an old instruction. Out: what stands for it.

use super::range::Form;
use super::value::{Value, carried_shape, flat_shapes, has_wide};
use super::{Refusal, Split, no_rule};
use murre_components::hlo::{Attrs, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// How a computation takes its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Each is one value.
    Carried,
    /// The words of each follow each other.
    Flat,
    /// The two scalars of an operand follow each other, word by word.
    Sort,
    /// Its callers do not agree.
    Mixed,
}

/// How computations take their parameters; `None` where no reached computation calls one.
pub fn styles(module: &HloModule) -> Vec<Option<Style>> {
    let mut styles = vec![None; module.computations.len()];
    // Callees stand before their callers, so one walk backwards finds all.
    for c in (0..module.computations.len()).rev() {
        if c != module.entry.index() && styles[c].is_none() {
            continue;
        }
        for id in module.computations[c].instructions.iter() {
            let inst = module.inst(id);
            let style = match inst.op {
                HloOp::While | HloOp::Conditional | HloOp::Call | HloOp::Fusion => Style::Carried,
                HloOp::Sort => Style::Sort,
                _ => Style::Flat,
            };
            for callee in inst.called() {
                if let Some(known) = styles.get_mut(callee.index()) {
                    *known = match *known {
                        Some(other) if other != style => Some(Style::Mixed),
                        _ => Some(style),
                    };
                }
            }
        }
    }
    styles
}

impl<'m> Split<'m> {
    /// The parameters of the entry: as they were.
    pub fn entry_parameters(&mut self, c: CompId) -> Vec<HloId> {
        let old = self.old;
        let mut parameters = Vec::new();
        for id in &old.comp(c).parameters {
            self.stand_for(*id);
            let new = self.out.copy_with(old, *id, &[]);
            let value = self.edge(new);
            self.values[id.index()] = Some(value);
            parameters.push(new);
        }
        parameters
    }

    /// The parameters of another computation, and what they stand for.
    pub fn parameters(&mut self, c: CompId) -> Vec<HloId> {
        let old = self.old;
        let ids = &old.comp(c).parameters;
        let style = self.styles[c.index()];
        let wide = ids.iter().any(|id| has_wide(old.inst(*id).shape()));
        if style == Some(Style::Mixed) && wide {
            if let Some(first) = ids.first() {
                self.refuse(
                    old.inst(*first),
                    no_rule("a computation with 64-bit parameters is called in two ways"),
                );
            }
            return Vec::new();
        }
        let mut parameters = Vec::new();
        let group = if style == Some(Style::Sort) { 2 } else { 1 };
        for (g, ids) in ids.chunks(group).enumerate() {
            let mut words: Vec<Vec<HloId>> = vec![Vec::new(); ids.len()];
            let forms: Vec<Vec<Form>> =
                (0..ids.len()).map(|k| self.facts.parameter_forms(c, group * g + k)).collect();
            let shapes: Vec<Vec<Shape>> = ids
                .iter()
                .zip(&forms)
                .map(|(id, forms)| match style {
                    Some(Style::Carried) => vec![carried_shape(old.inst(*id).shape(), forms)],
                    _ => flat_shapes(old.inst(*id).shape(), forms),
                })
                .collect();
            let most = shapes.iter().map(Vec::len).max().unwrap_or(0);
            for w in 0..most {
                for (k, id) in ids.iter().enumerate() {
                    let Some(shape) = shapes[k].get(w).cloned() else { continue };
                    let attrs = Attrs::Parameter { number: parameters.len() as u32 };
                    self.stand_for(*id);
                    let new = if has_wide(old.inst(*id).shape()) {
                        let tag = ["lo", "hi"].get(w).filter(|_| most > 1).copied().unwrap_or("parameter");
                        self.tagged(tag).put(HloOp::Parameter, shape, &[], attrs, &[])
                    } else {
                        let new = self.out.copy_with(old, *id, &[]);
                        let attrs = self.out.module.intern_attrs(attrs);
                        self.out.module.set_attrs(new, attrs);
                        new
                    };
                    parameters.push(new);
                    words[k].push(new);
                }
            }
            for (k, id) in ids.iter().enumerate() {
                self.stand_for(*id);
                let shape = old.inst(*id).shape();
                let value = match (style, words[k].first()) {
                    (Some(Style::Carried), Some(one)) => self.uncarried(*one, shape, &forms[k]),
                    _ => self.unflat(shape, &forms[k], &mut words[k].iter().copied()),
                };
                self.values[id.index()] = Some(value);
            }
        }
        parameters
    }

    /// New computations by old ones.
    pub fn called(&self, inst: HloInst<'_>) -> Vec<CompId> {
        inst.called().iter().map(|c| self.out.computations[c.index()]).collect()
    }

    /// An instruction whose result is carried in these forms.
    fn result(&mut self, inst: HloInst<'m>, operands: &[HloId], forms: &[Form]) -> Value {
        if !has_wide(inst.shape()) {
            return Value::Whole(self.copied(inst, operands));
        }
        let shape = carried_shape(inst.shape(), forms);
        let called = self.called(inst);
        let new = self.put(inst.op, shape, operands, inst.attrs().clone(), &called);
        self.uncarried(new, inst.shape(), forms)
    }

    /// Tuples, and what calls computations or keeps values together.
    pub fn control(&mut self, inst: HloInst<'m>) -> Result<Value, Refusal> {
        let old = self.old;
        let operands = inst.operands();
        match (inst.op, inst.attrs(), operands) {
            (HloOp::Tuple, ..) => Ok(Value::Tuple(operands.iter().map(|o| self.value(*o)).collect())),
            (HloOp::GetTupleElement, Attrs::GetTupleElement { index }, [tuple]) => match self
                .values
                .get(tuple.index())
            {
                Some(Some(Value::Tuple(parts))) => parts.get(*index as usize).cloned().ok_or(Refusal::Silent),
                _ => Err(Refusal::Silent),
            },
            (HloOp::OptimizationBarrier, _, [a]) => {
                let forms = self.facts.forms(*a);
                let value = self.value(*a);
                let carried = self.carried(&value, inst.shape(), &forms)?;
                Ok(self.result(inst, &[carried], &forms))
            }
            (HloOp::While, _, [init]) => {
                let Some(body) = inst.called().first() else { return Err(Refusal::Silent) };
                let forms = self.facts.parameter_forms(*body, 0);
                let value = self.value(*init);
                let carried = self.carried(&value, inst.shape(), &forms)?;
                Ok(self.result(inst, &[carried], &forms))
            }
            (HloOp::Conditional, _, [selector, given @ ..]) => {
                let mut new = vec![self.whole(*selector)?];
                for (branch, operand) in inst.called().iter().zip(given) {
                    let forms = self.facts.parameter_forms(*branch, 0);
                    let value = self.value(*operand);
                    new.push(self.carried(&value, old.inst(*operand).shape(), &forms)?);
                }
                let forms = inst.called().first().map(|b| self.facts.returned_forms(*b));
                Ok(self.result(inst, &new, &forms.unwrap_or_default()))
            }
            (HloOp::Call | HloOp::Fusion, ..) => {
                let Some(callee) = inst.called().first() else { return Err(Refusal::Silent) };
                let mut new = Vec::new();
                for (k, operand) in operands.iter().enumerate() {
                    let forms = self.facts.parameter_forms(*callee, k);
                    let value = self.value(*operand);
                    new.push(self.carried(&value, old.inst(*operand).shape(), &forms)?);
                }
                let forms = self.facts.returned_forms(*callee);
                Ok(self.result(inst, &new, &forms))
            }
            (HloOp::Sort, ..) => {
                let Some(callee) = inst.called().first() else { return Err(Refusal::Silent) };
                let (mut new, mut forms) = (Vec::new(), Vec::new());
                for (k, operand) in operands.iter().enumerate() {
                    let form = self.facts.parameter_forms(*callee, 2 * k).first().copied();
                    let form = form.unwrap_or(Form::Pair);
                    new.extend(self.words_of(*operand, form)?);
                    forms.push(form);
                }
                Ok(self.result(inst, &new, &forms))
            }
            _ => Err(no_rule(format!("{} on 64-bit elements has no rule", inst.op.name()))),
        }
    }

    /// A variadic operation with twice as many scalars as arrays: the arrays in the forms of the scalars.
    pub fn variadic(
        &mut self,
        inst: HloInst<'m>,
        arrays: usize,
        between: &[HloId],
    ) -> Result<Value, Refusal> {
        let Some(callee) = inst.called().first() else { return Err(Refusal::Silent) };
        let operands = inst.operands();
        let (mut first, mut second, mut forms) = (Vec::new(), Vec::new(), Vec::new());
        for k in 0..arrays {
            let form = self.facts.parameter_forms(*callee, k).first().copied().unwrap_or(Form::Pair);
            let other = operands.get(operands.len() - arrays + k).ok_or(Refusal::Silent)?;
            first.extend(self.words_of(operands[k], form)?);
            second.extend(self.words_of(*other, form)?);
            forms.push(form);
        }
        first.extend_from_slice(between);
        first.extend(second);
        Ok(self.result(inst, &first, &forms))
    }
}
