//! Data movement of 64-bit elements: the same movement of each word. And movement of anything by 64-bit indices, which
//! become s32. In: an old instruction. Out: what stands for it.

use super::range::{Form, literal_element};
use super::value::{Value, has_wide};
use super::{Refusal, Split, no_rule};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp, Literal};
use murre_components::ids::HloId;

impl<'m> Split<'m> {
    /// An index operand: as it is, or as s32 if it has 64 bits.
    pub fn index(&mut self, id: HloId) -> Result<HloId, Refusal> {
        let value = self.value(id);
        match &value {
            Value::Whole(own) => Ok(*own),
            Value::Narrow(word) if self.shape_of(*word).ty == HloType::S32 => Ok(*word),
            wide => {
                let pair = self.pair(wide)?;
                let ty = self.old.inst(id).shape().array().map(|a| a.ty);
                Ok(self.pair_to_index(pair, ty == Some(HloType::S64)))
            }
        }
    }

    /// The instruction word by word: `moved` are its operands that hold elements, `rest` those behind them.
    fn by_words(&mut self, inst: HloInst<'m>, moved: &[HloId], rest: &[HloId]) -> Result<Value, Refusal> {
        if !has_wide(inst.shape()) {
            let mut operands = Vec::new();
            for o in moved {
                operands.push(self.whole(*o)?);
            }
            operands.extend_from_slice(rest);
            return Ok(Value::Whole(self.copied(inst, &operands)));
        }
        let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
        let dims = inst.shape().array().map(|a| a.dims.clone()).unwrap_or_default();
        let mut words = vec![Vec::new(); form.words()];
        for o in moved {
            for (k, w) in self.words_of(*o, form)?.into_iter().enumerate() {
                words[k].push(w);
            }
        }
        let mut made = Vec::new();
        for (k, mut operands) in words.into_iter().enumerate() {
            operands.extend_from_slice(rest);
            if form == Form::Pair {
                self.tagged(["lo", "hi"][k.min(1)]);
            }
            made.push(self.array(inst.op, form.ty(), &dims, &operands, inst.attrs().clone()));
        }
        Ok(Value::of_words(&made))
    }

    /// Data movement and what makes arrays from nothing.
    pub fn movement(&mut self, inst: HloInst<'m>) -> Result<Value, Refusal> {
        let operands = inst.operands();
        match (inst.op, inst.attrs(), operands) {
            (HloOp::Copy, _, [a]) => Ok(self.value(*a)),
            (HloOp::DynamicSlice, _, [a, starts @ ..]) => {
                let starts: Result<Vec<HloId>, Refusal> = starts.iter().map(|s| self.index(*s)).collect();
                self.by_words(inst, &[*a], &starts?)
            }
            (HloOp::DynamicUpdateSlice, _, [a, update, starts @ ..]) => {
                let starts: Result<Vec<HloId>, Refusal> = starts.iter().map(|s| self.index(*s)).collect();
                self.by_words(inst, &[*a, *update], &starts?)
            }
            (HloOp::Gather, _, [a, indices]) => {
                let indices = self.index(*indices)?;
                self.by_words(inst, &[*a], &[indices])
            }
            (HloOp::AddDependency, _, [a, token]) => {
                let token = self.whole(*token)?;
                self.by_words(inst, &[*a], &[token])
            }
            (HloOp::GetDimensionSize, _, [a]) => {
                let value = self.value(*a);
                let low = self.low(&value)?;
                Ok(Value::Whole(self.copied(inst, &[low])))
            }
            (HloOp::Iota, Attrs::Iota { .. }, _) => {
                let f64 = inst.shape().array().is_some_and(|a| a.ty == HloType::F64);
                if f64 || self.facts.forms(inst.id).first() == Some(&Form::Pair) {
                    return Err(no_rule("an iota of this type and extent has no rule"));
                }
                self.by_words(inst, &[], &[])
            }
            (HloOp::Constant, Attrs::Constant(literal), _) => match &**literal {
                Literal::Array { shape, data } => {
                    let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
                    let ty = if shape.ty == HloType::F64 { HloType::U64 } else { shape.ty };
                    let count = shape.elements() as usize;
                    let mut words = Vec::new();
                    for k in 0..form.words() {
                        let part = |i| (literal_element(ty, data, i).unwrap_or(0) >> (32 * k)) as u32;
                        if form == Form::Pair {
                            self.tagged(["lo", "hi"][k.min(1)]);
                        }
                        words.push(self.literal(form.ty(), &shape.dims, (0..count).map(part)));
                    }
                    Ok(Value::of_words(&words))
                }
                Literal::Tuple(_) => Err(no_rule("a tuple constant with 64-bit parts has no rule")),
            },
            (HloOp::Constant | HloOp::DynamicSlice | HloOp::DynamicUpdateSlice, ..) => Err(Refusal::Silent),
            _ => self.by_words(inst, operands, &[]),
        }
    }
}
