//! The rule of an elementwise operation on 64-bit elements. In: an old instruction. Out: what stands for it. Where its
//! result fits one word and only the low words of the operands count, or where the operands fit words of one kind, it is
//! the same operation on words; else it computes with pairs. Facts: `spec/hlo.md 7`.

use super::range::{Form, Range, is_wide};
use super::value::{Pair, Value};
use super::{Refusal, Split, divide, no_rule};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloOp, Shape};
use murre_components::ids::HloId;

impl<'m> Split<'m> {
    /// Element type of an old array.
    fn old_type(&self, id: HloId) -> HloType {
        self.old.inst(id).shape().array().map_or(HloType::Token, |a| a.ty)
    }

    /// Whether the elements of an old array fit the words of a narrow form.
    fn fits(&self, id: HloId, form: Form) -> bool {
        form != Form::Pair && Range::of_type(form.ty()).holds(self.facts.range(id))
    }

    /// The narrow form that fits all of these.
    fn common(&self, ids: &[HloId]) -> Option<Form> {
        [Form::Signed, Form::Unsigned].into_iter().find(|form| ids.iter().all(|id| self.fits(*id, *form)))
    }

    /// The one word of an array that fits it.
    fn one_word(&mut self, id: HloId, form: Form) -> Result<HloId, Refusal> {
        self.words_of(id, form)?.first().copied().ok_or(Refusal::Silent)
    }

    /// An old 64-bit array as a pair.
    pub fn pair_of(&mut self, id: HloId) -> Result<Pair, Refusal> {
        let value = self.value(id);
        self.pair(&value)
    }

    /// A value in the form that is the instruction's.
    pub fn formed(&mut self, inst: HloInst<'_>, value: Value) -> Result<Value, Refusal> {
        let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
        Ok(Value::of_words(&self.words(&value, form)?))
    }

    /// The loop that an instruction divides by, if it is one that needs it.
    pub fn prepare_division(&mut self, id: HloId) {
        let inst = self.old.inst(id);
        let (HloOp::Divide | HloOp::Remainder, Shape::Array(shape), [_, b]) =
            (inst.op, inst.shape(), inst.operands())
        else {
            return;
        };
        let integer = is_wide(shape.ty) && shape.ty != HloType::F64;
        let have = self.divisions.iter().any(|d| d.0 == shape.dims);
        if !integer || have || divide::is_digit(self.facts.range(*b)) || self.words_divide(inst).is_some() {
            return;
        }
        self.begin();
        self.stand_for(id);
        let made = self.write_division(&shape.dims);
        self.divisions.push((shape.dims.clone(), made));
    }

    /// The form in which words divide as the old elements do, if there is one.
    fn words_divide(&self, inst: HloInst<'_>) -> Option<Form> {
        self.common(inst.operands()).filter(|form| self.fits(inst.id, *form))
    }

    /// Elementwise operations and conversions.
    pub fn elementwise(&mut self, inst: HloInst<'m>) -> Result<Value, Refusal> {
        let operands = inst.operands();
        let from = operands.first().map_or(HloType::Token, |o| self.old_type(*o));
        let ty = self.old_type(inst.id);
        match (inst.op, inst.attrs(), operands) {
            (HloOp::Convert, _, [a]) => self.conversion(inst, *a, from, ty),
            (HloOp::BitcastConvert, _, [a]) => self.bitcast(inst, *a, from, ty),
            (HloOp::Select, _, [p, a, b]) => {
                let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
                let p = self.whole(*p)?;
                let (a, b) = (self.words_of(*a, form)?, self.words_of(*b, form)?);
                let mut words = Vec::new();
                for (k, (a, b)) in a.into_iter().zip(b).enumerate() {
                    let dims = self.shape_of(a).dims;
                    let p = self.spread(p, &dims);
                    words.push(self.tagged(["lo", "hi"][k.min(1)]).select(p, a, b));
                }
                Ok(Value::of_words(&words))
            }
            _ if from == HloType::F64 || ty == HloType::F64 => {
                Err(no_rule(format!("{} on f64 that depends on run-time values", inst.op.name())))
            }
            (HloOp::Compare, Attrs::Compare { direction, .. }, [a, b]) => {
                if let Some(form) = self.common(operands) {
                    let (a, b) = (self.one_word(*a, form)?, self.one_word(*b, form)?);
                    return Ok(Value::Whole(self.compare(*direction, a, b)));
                }
                let (a, b) = (self.pair_of(*a)?, self.pair_of(*b)?);
                Ok(Value::Whole(self.pair_compare(*direction, a, b, from.is_signed_int())))
            }
            _ if is_wide(ty) && operands.iter().all(|o| self.old_type(*o) == ty) => {
                let value = self.arithmetic(inst, ty.is_signed_int())?;
                self.formed(inst, value)
            }
            _ => Err(no_rule(format!("{} on 64-bit elements has no rule", inst.op.name()))),
        }
    }

    fn arithmetic(&mut self, inst: HloInst<'m>, signed: bool) -> Result<Value, Refusal> {
        use HloOp::*;
        let operands = inst.operands();
        let form = self.facts.forms(inst.id).first().copied().unwrap_or(Form::Pair);
        let op = inst.op;
        match (op, operands) {
            // The low words of the result hang on low words alone.
            (Add | Subtract | Multiply | And | Or | Xor | Not | Negate, _) if form != Form::Pair => {
                let words: Result<Vec<HloId>, Refusal> =
                    operands.iter().map(|o| self.one_word(*o, form)).collect();
                let words = words?;
                let dims = words.first().map(|w| self.shape_of(*w).dims).unwrap_or_default();
                Ok(Value::Narrow(self.array(op, form.ty(), &dims, &words, Attrs::None)))
            }
            (Minimum | Maximum | Clamp, _) => self.bounded(inst, signed),
            (ShiftLeft | ShiftRightLogical | ShiftRightArithmetic, [a, amount]) => {
                self.shifted(op, *a, *amount, form)
            }
            (Divide | Remainder, [a, b]) => {
                if let Some(form) = self.words_divide(inst) {
                    let (a, b) = (self.one_word(*a, form)?, self.one_word(*b, form)?);
                    return Ok(Value::Narrow(self.two(op, a, b)));
                }
                let divisor = self.facts.range(*b);
                let (a, b) = (self.pair_of(*a)?, self.pair_of(*b)?);
                let result = self.pair_divide(op, a, b, signed, divisor);
                result.map(Value::Pair).ok_or_else(|| no_rule("a 64-bit division has no loop"))
            }
            (Abs | Sign, [a])
                if self.fits(*a, Form::Signed) && self.fits(inst.id, Form::Signed) && signed =>
            {
                let a = self.one_word(*a, Form::Signed)?;
                Ok(Value::Narrow(self.one(op, a)))
            }
            (Abs, [a]) => {
                let a = self.pair_of(*a)?;
                Ok(Value::Pair(if signed { self.pair_magnitude(a).0 } else { a }))
            }
            (Sign, [a]) if signed => {
                let a = self.pair_of(*a)?;
                Ok(Value::Pair(self.pair_sign(a)))
            }
            (Negate, [a]) => {
                let a = self.pair_of(*a)?;
                Ok(Value::Pair(self.pair_negate(a)))
            }
            (Not, [a]) => {
                let a = self.pair_of(*a)?;
                Ok(Value::Pair(self.pair_not(a)))
            }
            (PopulationCount, [a]) => {
                let a = self.pair_of(*a)?;
                Ok(Value::Narrow(self.pair_popcount(a)))
            }
            (CountLeadingZeros, [a]) => {
                let a = self.pair_of(*a)?;
                Ok(Value::Narrow(self.pair_leading_zeros(a)))
            }
            (Add | Subtract | Multiply | And | Or | Xor, [a, b]) => {
                let (a, b) = (self.pair_of(*a)?, self.pair_of(*b)?);
                Ok(Value::Pair(match op {
                    Add => self.pair_add(a, b),
                    Subtract => self.pair_subtract(a, b),
                    Multiply => self.pair_multiply(a, b),
                    _ => self.pair_bits(op, a, b),
                }))
            }
            _ => Err(no_rule(format!("{} on 64-bit elements has no rule", op.name()))),
        }
    }

    /// Minimum, maximum and clamp, whose bounds may be scalars.
    fn bounded(&mut self, inst: HloInst<'m>, signed: bool) -> Result<Value, Refusal> {
        let operands = inst.operands();
        let dims = inst.shape().array().map(|a| a.dims.clone()).unwrap_or_default();
        let form = self.common(operands);
        let mut values = Vec::new();
        for o in operands {
            let mut words = self.words_of(*o, form.unwrap_or(Form::Pair))?;
            for w in &mut words {
                *w = self.spread(*w, &dims);
            }
            values.push(Value::of_words(&words));
        }
        Ok(match (&values[..], form) {
            ([Value::Narrow(a), Value::Narrow(b)], _) => Value::Narrow(self.two(inst.op, *a, *b)),
            ([Value::Narrow(low), Value::Narrow(x), Value::Narrow(high)], _) => {
                let lifted = self.two(HloOp::Maximum, *low, *x);
                Value::Narrow(self.two(HloOp::Minimum, lifted, *high))
            }
            ([Value::Pair(a), Value::Pair(b)], _) => Value::Pair(self.pair_extreme(inst.op, *a, *b, signed)),
            ([Value::Pair(low), Value::Pair(x), Value::Pair(high)], _) => {
                let lifted = self.pair_extreme(HloOp::Maximum, *low, *x, signed);
                Value::Pair(self.pair_extreme(HloOp::Minimum, lifted, *high, signed))
            }
            _ => return Err(Refusal::Silent),
        })
    }

    fn shifted(&mut self, op: HloOp, a: HloId, amount: HloId, form: Form) -> Result<Value, Refusal> {
        let (value_range, by) = (self.facts.range(a), self.facts.range(amount));
        let narrow_amount = self.common(&[amount]).is_some();
        // To the left, low words hang on low words; to the right, words that hold the value do as it does.
        let left = op == HloOp::ShiftLeft && form != Form::Pair;
        let own = self.common(&[a]).filter(|_| {
            op == HloOp::ShiftRightLogical && value_range.low >= 0 || op == HloOp::ShiftRightArithmetic
        });
        if let Some(form) = if left { Some(form) } else { own }
            && narrow_amount
        {
            let x = self.one_word(a, form)?;
            let value = self.value(amount);
            let s = self.low(&value)?;
            let s = self.convert(s, form.ty());
            let op = if form == Form::Unsigned && !left { HloOp::ShiftRightLogical } else { op };
            return Ok(Value::Narrow(self.two(op, x, s)));
        }
        let pair = self.pair_of(a)?;
        if by.low == by.high && (0..64).contains(&by.low) {
            return Ok(Value::Pair(self.pair_shift_by(op, pair, by.low as u32)));
        }
        let amount = self.pair_of(amount)?;
        let amount = self.shift_amount(amount);
        Ok(Value::Pair(self.pair_shift(op, pair, amount)))
    }

    fn conversion(
        &mut self,
        inst: HloInst<'m>,
        a: HloId,
        from: HloType,
        ty: HloType,
    ) -> Result<Value, Refusal> {
        let value = self.value(a);
        let integer = |t: HloType| t == HloType::S64 || t == HloType::U64;
        let small_float = |t: HloType| t.is_float() && t != HloType::F64;
        if from == ty {
            return Ok(value);
        }
        match (from, ty) {
            (f, t) if integer(f) && integer(t) => self.formed(inst, value),
            (f, HloType::Pred) if integer(f) => {
                let pair = self.pair(&value)?;
                Ok(Value::Whole(self.pair_is_nonzero(pair)))
            }
            (f, t) if integer(f) && t.is_int() => {
                let low = self.low(&value)?;
                Ok(Value::Whole(self.convert(low, t)))
            }
            (f, t) if integer(f) && small_float(t) => {
                if let Some(form) = self.common(&[a]) {
                    let word = self.one_word(a, form)?;
                    return Ok(Value::Whole(self.convert(word, t)));
                }
                let pair = self.pair(&value)?;
                Ok(Value::Whole(self.pair_to_float(pair, f.is_signed_int(), t)))
            }
            (f, t) if integer(t) && (f.is_int() || f == HloType::Pred) => {
                let own = self.whole(a)?;
                let word = if f.is_signed_int() { HloType::S32 } else { HloType::U32 };
                let word = self.convert(own, word);
                self.formed(inst, Value::Narrow(word))
            }
            (f, t) if integer(t) && small_float(f) => {
                let own = self.whole(a)?;
                let pair = self.float_to_pair(own, t.is_signed_int());
                self.formed(inst, Value::Pair(pair))
            }
            (HloType::F64, HloType::F32) => {
                let pair = self.pair(&value)?;
                Ok(Value::Whole(self.double_to_float(pair, false)))
            }
            (HloType::F64, HloType::Bf16 | HloType::F16) => {
                // A sticky last digit keeps the second rounding from seeing a tie that is none.
                let pair = self.pair(&value)?;
                let near = self.double_to_float(pair, true);
                Ok(Value::Whole(self.convert(near, ty)))
            }
            (f, HloType::F64) if small_float(f) => {
                let own = self.whole(a)?;
                let own = self.convert(own, HloType::F32);
                Ok(Value::Pair(self.float_to_double(own)))
            }
            (HloType::F64, t) => {
                Err(no_rule(format!("a conversion to {} of f64 that depends on run-time values", t.name())))
            }
            (f, t) => Err(no_rule(format!("a conversion from {} to {} has no rule", f.name(), t.name()))),
        }
    }

    /// The same bits in another type: the pair is two u32, which are bits of what they are made from or become.
    fn bitcast(&mut self, inst: HloInst<'m>, a: HloId, from: HloType, ty: HloType) -> Result<Value, Refusal> {
        let dims = inst.shape().array().map(|s| s.dims.clone()).unwrap_or_default();
        let fault = || no_rule(format!("the bits of {} as {} have no rule", from.name(), ty.name()));
        let plain = |t: HloType| t.bits() >= 8 && t.bytes() as u32 * 8 == t.bits() && t.bits() <= 32;
        if is_wide(from) && is_wide(ty) {
            let pair = self.pair_of(a)?;
            return self.formed(inst, Value::Pair(pair));
        }
        if is_wide(ty) && plain(from) {
            let own = self.whole(a)?;
            let per_word = i64::from(32 / from.bits());
            let mut split = dims.clone();
            split.push(2);
            let words = if per_word == 1 {
                self.bits_as(own, HloType::U32)
            } else {
                let mut parts = split.clone();
                parts.push(per_word);
                let parts = self.reshape(own, &parts);
                self.array(HloOp::BitcastConvert, HloType::U32, &split, &[parts], Attrs::None)
            };
            let pair = Pair { lo: self.tagged("lo").minor(words, 0), hi: self.tagged("hi").minor(words, 1) };
            return self.formed(inst, Value::Pair(pair));
        }
        if is_wide(from) && plain(ty) {
            let pair = self.pair_of(a)?;
            let words = self.stack(&[pair.lo, pair.hi]);
            let per_word = i64::from(32 / ty.bits());
            if per_word == 1 {
                return Ok(Value::Whole(self.bits_as(words, ty)));
            }
            let mut split = self.shape_of(words).dims;
            split.push(per_word);
            let parts = self.array(HloOp::BitcastConvert, ty, &split, &[words], Attrs::None);
            return Ok(Value::Whole(self.reshape(parts, &dims)));
        }
        Err(fault())
    }
}
