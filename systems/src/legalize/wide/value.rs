//! What stands for an old value in the new module, and the change from one form to another. A 64-bit array is a narrow
//! array, a pair of words, or, at the edge of the program, the array itself, which is opened where it is first computed
//! with; a tuple with 64-bit leaves is its parts.

use super::range::{Form, is_wide};
use super::{Refusal, Split};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloOp, Shape};
use murre_components::ids::HloId;

/// The two words of 64-bit elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Low words.
    pub lo: HloId,
    /// High words.
    pub hi: HloId,
}

/// What stands for an old value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Its copy: nothing in it has 64 bits.
    Whole(HloId),
    /// A 64-bit array of the program's edge, itself.
    Edge(HloId),
    /// A 64-bit array whose elements fit the s32 or u32 array that holds them.
    Narrow(HloId),
    /// A 64-bit array, split.
    Pair(Pair),
    /// A tuple with 64-bit leaves.
    Tuple(Vec<Value>),
    /// Nothing, because it was refused or depends on what was.
    Refused,
}

impl Value {
    /// Of these words.
    pub fn of_words(words: &[HloId]) -> Value {
        match words {
            [word] => Value::Narrow(*word),
            [lo, hi] => Value::Pair(Pair { lo: *lo, hi: *hi }),
            _ => Value::Refused,
        }
    }
}

/// Whether a shape has a 64-bit leaf.
pub fn has_wide(shape: &Shape) -> bool {
    shape.leaves().iter().any(|s| s.array().is_some_and(|a| is_wide(a.ty)))
}

impl<'m> Split<'m> {
    /// The value of an old instruction.
    pub fn value(&self, id: HloId) -> Value {
        self.values.get(id.index()).cloned().flatten().unwrap_or(Value::Refused)
    }

    /// The value of an operand that has no 64-bit leaf.
    pub fn whole(&self, id: HloId) -> Result<HloId, Refusal> {
        match self.value(id) {
            Value::Whole(id) => Ok(id),
            _ => Err(Refusal::Silent),
        }
    }

    /// The words of an array of the program's edge.
    fn open(&mut self, edge: HloId) -> Pair {
        if let Some(pair) = self.opened.get(&edge) {
            return *pair;
        }
        let mut dims = self.shape_of(edge).dims;
        dims.push(2);
        let words = self.array(HloOp::BitcastConvert, HloType::U32, &dims, &[edge], Attrs::None);
        let lo = self.tagged("lo").minor(words, 0);
        let hi = self.tagged("hi").minor(words, 1);
        self.opened.insert(edge, Pair { lo, hi });
        Pair { lo, hi }
    }

    /// A 64-bit array as a pair.
    pub fn pair(&mut self, value: &Value) -> Result<Pair, Refusal> {
        Ok(match value {
            Value::Pair(pair) => *pair,
            Value::Edge(edge) => self.open(*edge),
            Value::Narrow(word) if self.shape_of(*word).ty == HloType::S32 => {
                let dims = self.shape_of(*word).dims;
                let by = self.splat(HloType::S32, &dims, 31);
                let sign = self.two(HloOp::ShiftRightArithmetic, *word, by);
                let (lo, hi) = (self.convert(*word, HloType::U32), self.convert(sign, HloType::U32));
                Pair { lo, hi }
            }
            Value::Narrow(word) => Pair { lo: *word, hi: self.word(*word, 0) },
            _ => return Err(Refusal::Silent),
        })
    }

    /// The low words, as u32.
    pub fn low(&mut self, value: &Value) -> Result<HloId, Refusal> {
        Ok(match value {
            Value::Narrow(word) => self.convert(*word, HloType::U32),
            Value::Pair(pair) => pair.lo,
            Value::Edge(edge) => self.open(*edge).lo,
            _ => return Err(Refusal::Silent),
        })
    }

    /// A 64-bit array in a form that can hold it: its words.
    pub fn words(&mut self, value: &Value, form: Form) -> Result<Vec<HloId>, Refusal> {
        match form {
            Form::Pair => self.pair(value).map(|p| vec![p.lo, p.hi]),
            narrow => {
                if let Value::Narrow(word) = value
                    && self.shape_of(*word).ty == narrow.ty()
                {
                    return Ok(vec![*word]);
                }
                let low = self.low(value)?;
                Ok(vec![self.convert(low, narrow.ty())])
            }
        }
    }

    /// As [`Self::words`], for an operand of any array type: one that is not 64-bit is its own word.
    pub fn words_of(&mut self, id: HloId, form: Form) -> Result<Vec<HloId>, Refusal> {
        match self.value(id) {
            Value::Whole(id) => Ok(vec![id]),
            wide => self.words(&wide, form),
        }
    }

    /// A 64-bit array of type `ty` again.
    fn close(&mut self, value: &Value, ty: HloType) -> Result<HloId, Refusal> {
        if let Value::Edge(edge) = value
            && self.shape_of(*edge).ty == ty
        {
            return Ok(*edge);
        }
        let pair = self.pair(value)?;
        let dims = self.shape_of(pair.lo).dims;
        let words = self.stack(&[pair.lo, pair.hi]);
        Ok(self.array(HloOp::BitcastConvert, ty, &dims, &[words], Attrs::None))
    }

    /// The value in the type that the program's edge has.
    pub fn closed(&mut self, value: &Value, shape: &Shape) -> Result<HloId, Refusal> {
        match (value, shape) {
            (Value::Whole(id), _) => Ok(*id),
            (Value::Tuple(parts), Shape::Tuple(shapes)) => {
                let parts: Result<Vec<HloId>, Refusal> =
                    parts.iter().zip(shapes).map(|(p, s)| self.closed(p, s)).collect();
                Ok(self.put(HloOp::Tuple, shape.clone(), &parts?, Attrs::None, &[]))
            }
            (wide, Shape::Array(array)) => self.close(wide, array.ty),
            _ => Err(Refusal::Silent),
        }
    }

    /// Element `index` of a tuple of the new module.
    pub fn element(&mut self, tuple: HloId, index: usize) -> HloId {
        let shape = match self.out.module.inst(tuple).shape() {
            Shape::Tuple(parts) => parts.get(index).cloned(),
            _ => None,
        };
        let attrs = Attrs::GetTupleElement { index: index as u32 };
        self.put(HloOp::GetTupleElement, shape.unwrap_or(Shape::Token), &[tuple], attrs, &[])
    }

    /// What stands for an instruction of the program's edge: 64-bit arrays stay, tuples with such come apart.
    pub fn edge(&mut self, id: HloId) -> Value {
        match self.out.module.inst(id).shape().clone() {
            shape if !has_wide(&shape) => Value::Whole(id),
            Shape::Tuple(parts) => {
                let elements = (0..parts.len()).map(|k| {
                    let element = self.element(id, k);
                    self.edge(element)
                });
                Value::Tuple(elements.collect())
            }
            _ => Value::Edge(id),
        }
    }

    /// A value as flat parts, its 64-bit leaves in these forms (one a leaf of the shape).
    pub fn flat(&mut self, value: &Value, shape: &Shape, forms: &[Form]) -> Result<Vec<HloId>, Refusal> {
        match (value, shape) {
            (Value::Whole(id), _) => Ok(vec![*id]),
            (Value::Tuple(parts), Shape::Tuple(shapes)) => {
                let (mut flat, mut at) = (Vec::new(), 0);
                for (part, shape) in parts.iter().zip(shapes) {
                    let leaves = shape.leaves().len();
                    flat.extend(self.flat(part, shape, forms.get(at..at + leaves).unwrap_or_default())?);
                    at += leaves;
                }
                Ok(flat)
            }
            (wide, Shape::Array(_)) => self.words(wide, forms.first().copied().unwrap_or(Form::Pair)),
            _ => Err(Refusal::Silent),
        }
    }

    /// As [`Self::flat`], in one instruction: the part itself where there is one and the value is no tuple.
    pub fn carried(&mut self, value: &Value, shape: &Shape, forms: &[Form]) -> Result<HloId, Refusal> {
        if let Value::Whole(id) = value {
            return Ok(*id);
        }
        let parts = self.flat(value, shape, forms)?;
        match (&parts[..], shape) {
            ([one], Shape::Array(_)) => Ok(*one),
            _ => {
                let shapes = parts.iter().map(|p| self.out.module.inst(*p).shape().clone()).collect();
                Ok(self.put(HloOp::Tuple, Shape::Tuple(shapes), &parts, Attrs::None, &[]))
            }
        }
    }

    /// The value that [`Self::flat`] parts stand for; takes them from the front.
    pub fn unflat(
        &mut self,
        shape: &Shape,
        forms: &[Form],
        parts: &mut impl Iterator<Item = HloId>,
    ) -> Value {
        match shape {
            shape if !has_wide(shape) => parts.next().map_or(Value::Refused, Value::Whole),
            Shape::Tuple(shapes) => {
                let mut at = 0;
                let mut values = Vec::new();
                for shape in shapes {
                    let leaves = shape.leaves().len();
                    values.push(self.unflat(shape, forms.get(at..at + leaves).unwrap_or_default(), parts));
                    at += leaves;
                }
                Value::Tuple(values)
            }
            _ => {
                let count = forms.first().copied().unwrap_or(Form::Pair).words();
                let words: Vec<HloId> = parts.by_ref().take(count).collect();
                Value::of_words(&words)
            }
        }
    }

    /// The value that a [`Self::carried`] instruction stands for.
    pub fn uncarried(&mut self, id: HloId, shape: &Shape, forms: &[Form]) -> Value {
        if !has_wide(shape) {
            return Value::Whole(id);
        }
        let parts: Vec<HloId> = match (self.out.module.inst(id).shape(), shape) {
            (Shape::Tuple(parts), _) => (0..parts.len()).map(|k| self.element(id, k)).collect(),
            _ => vec![id],
        };
        self.unflat(shape, forms, &mut parts.into_iter())
    }
}

/// The shape that [`Split::carried`] gives a value of this shape.
pub fn carried_shape(shape: &Shape, forms: &[Form]) -> Shape {
    if !has_wide(shape) {
        return shape.clone();
    }
    let mut parts = flat_shapes(shape, forms);
    match shape {
        Shape::Array(_) if parts.len() == 1 => parts.remove(0),
        _ => Shape::Tuple(parts),
    }
}

/// The shapes of the parts of [`Split::flat`].
pub fn flat_shapes(shape: &Shape, forms: &[Form]) -> Vec<Shape> {
    match shape {
        shape if !has_wide(shape) => vec![shape.clone()],
        Shape::Tuple(shapes) => {
            let (mut flat, mut at) = (Vec::new(), 0);
            for shape in shapes {
                let leaves = shape.leaves().len();
                flat.extend(flat_shapes(shape, forms.get(at..at + leaves).unwrap_or_default()));
                at += leaves;
            }
            flat
        }
        Shape::Array(a) => {
            let form = forms.first().copied().unwrap_or(Form::Pair);
            let word = Shape::Array(ArrayShape::new(form.ty(), a.dims.clone()));
            vec![word; form.words()]
        }
        other => vec![other.clone()],
    }
}
