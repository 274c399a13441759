//! Writing new instructions in place of an old one: they are named after it (`add.3.lo`), and its metadata and place in the
//! text become theirs. In: operation and operands in the new module. Out: the new instruction.

use super::Split;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, Draft, HloOp, Literal, Shape};
use murre_components::ids::{CompId, HloId};
use std::sync::Arc;

impl<'m> Split<'m> {
    /// The instructions that follow stand for the old instruction `id`.
    pub fn stand_for(&mut self, id: HloId) {
        self.at = id;
        self.tag = "";
    }

    /// The next instruction is called this behind the name of the old one.
    pub fn tagged(&mut self, tag: &'static str) -> &mut Self {
        self.tag = tag;
        self
    }

    /// A name that nothing else in the computation has.
    fn fresh(&mut self, tag: &str) -> String {
        let base = self.old.inst(self.at).name();
        let first = format!("{base}.{tag}");
        if self.taken.insert(first.clone()) {
            return first;
        }
        // What was given out before under this stem is skipped.
        let mut number = self.numbers.get(&first).copied().unwrap_or(1);
        loop {
            let name = format!("{first}{number}");
            number += 1;
            if self.taken.insert(name.clone()) {
                self.numbers.insert(first, number);
                return name;
            }
        }
    }

    /// Any instruction.
    pub fn put(
        &mut self,
        op: HloOp,
        shape: Shape,
        operands: &[HloId],
        attrs: Attrs,
        called: &[CompId],
    ) -> HloId {
        let tag = match std::mem::take(&mut self.tag) {
            "" => op.name(),
            tag => tag,
        };
        let name = self.fresh(tag);
        let old = self.old.inst(self.at).draft();
        let (shape, attrs) = (self.out.module.intern_shape(shape), self.out.module.intern_attrs(attrs));
        let (metadata, line, column) = (old.metadata, old.line, old.column);
        self.out.push(Draft {
            operands,
            called,
            attrs,
            metadata,
            line,
            column,
            ..Draft::new(&name, op, shape)
        })
    }

    /// The shape of an array of the new module; that of nothing for what is none.
    pub fn shape_of(&self, id: HloId) -> ArrayShape {
        let shape = self.out.module.get(id).and_then(|i| i.shape().array().cloned());
        shape.unwrap_or_else(|| ArrayShape::new(HloType::Pred, []))
    }

    /// An array without a layout.
    pub fn array(&mut self, op: HloOp, ty: HloType, dims: &[i64], operands: &[HloId], attrs: Attrs) -> HloId {
        self.put(op, Shape::Array(ArrayShape::new(ty, dims)), operands, attrs, &[])
    }

    /// An elementwise operation on one value.
    pub fn one(&mut self, op: HloOp, a: HloId) -> HloId {
        let s = self.shape_of(a);
        self.array(op, s.ty, &s.dims, &[a], Attrs::None)
    }

    /// An elementwise operation on two values of one type.
    pub fn two(&mut self, op: HloOp, a: HloId, b: HloId) -> HloId {
        let s = self.shape_of(a);
        self.array(op, s.ty, &s.dims, &[a, b], Attrs::None)
    }

    /// A comparison.
    pub fn compare(&mut self, direction: Direction, a: HloId, b: HloId) -> HloId {
        let s = self.shape_of(a);
        let attrs = Attrs::Compare { direction, total_order: false };
        self.array(HloOp::Compare, HloType::Pred, &s.dims, &[a, b], attrs)
    }

    /// `p ? a : b`.
    pub fn select(&mut self, p: HloId, a: HloId, b: HloId) -> HloId {
        let s = self.shape_of(a);
        self.array(HloOp::Select, s.ty, &s.dims, &[p, a, b], Attrs::None)
    }

    /// The value in another type; itself if it has the type.
    pub fn convert(&mut self, a: HloId, ty: HloType) -> HloId {
        let s = self.shape_of(a);
        if s.ty == ty {
            return a;
        }
        self.array(HloOp::Convert, ty, &s.dims, &[a], Attrs::None)
    }

    /// The bits in another type of the same width.
    pub fn bits_as(&mut self, a: HloId, ty: HloType) -> HloId {
        let s = self.shape_of(a);
        if s.ty == ty {
            return a;
        }
        self.array(HloOp::BitcastConvert, ty, &s.dims, &[a], Attrs::None)
    }

    /// A literal of 32-bit elements.
    pub fn literal(&mut self, ty: HloType, dims: &[i64], elements: impl Iterator<Item = u32>) -> HloId {
        let data: Vec<u8> = elements.flat_map(u32::to_le_bytes).collect();
        let shape = ArrayShape::new(ty, dims);
        let attrs = Attrs::Constant(Arc::new(Literal::Array { shape, data: data.into() }));
        self.array(HloOp::Constant, ty, dims, &[], attrs)
    }

    /// A 32-bit value everywhere in an array of these extents.
    pub fn splat(&mut self, ty: HloType, dims: &[i64], bits: u32) -> HloId {
        let key = (ty, bits, dims.to_vec());
        if let Some(found) = self.constants.get(&key) {
            return *found;
        }
        let tag = std::mem::take(&mut self.tag);
        let made = if dims.is_empty() {
            self.literal(ty, &[], std::iter::once(bits))
        } else {
            let scalar = self.splat(ty, &[], bits);
            self.array(HloOp::Broadcast, ty, dims, &[scalar], Attrs::Dimensions(Vec::new()))
        };
        self.tag = tag;
        self.constants.insert(key, made);
        made
    }

    /// A u32 of the extents of `like`.
    pub fn word(&mut self, like: HloId, bits: u32) -> HloId {
        let dims = self.shape_of(like).dims;
        self.splat(HloType::U32, &dims, bits)
    }

    /// An operation of a u32 with a constant.
    pub fn with(&mut self, op: HloOp, a: HloId, bits: u32) -> HloId {
        let b = self.word(a, bits);
        self.two(op, a, b)
    }

    /// A comparison of a u32 with a constant.
    pub fn compare_with(&mut self, direction: Direction, a: HloId, bits: u32) -> HloId {
        let b = self.word(a, bits);
        self.compare(direction, a, b)
    }

    /// The same elements under other extents.
    pub fn reshape(&mut self, a: HloId, dims: &[i64]) -> HloId {
        let s = self.shape_of(a);
        if s.dims == dims {
            return a;
        }
        self.array(HloOp::Reshape, s.ty, dims, &[a], Attrs::None)
    }

    /// A scalar everywhere in an array of these extents; the value itself if it has them.
    pub fn spread(&mut self, a: HloId, dims: &[i64]) -> HloId {
        let s = self.shape_of(a);
        if s.dims == dims {
            return a;
        }
        self.array(HloOp::Broadcast, s.ty, dims, &[a], Attrs::Dimensions(Vec::new()))
    }

    /// Element `k` of the innermost dimension, which goes.
    pub fn minor(&mut self, a: HloId, k: i64) -> HloId {
        let mut dims = self.shape_of(a).dims;
        let ty = self.shape_of(a).ty;
        let mut start = vec![0; dims.len()];
        let mut limit = dims.clone();
        if let (Some(s), Some(l), Some(d)) = (start.last_mut(), limit.last_mut(), dims.last_mut()) {
            (*s, *l, *d) = (k, k + 1, 1);
        }
        let stride = vec![1; dims.len()];
        let tag = std::mem::take(&mut self.tag);
        let part = self.array(HloOp::Slice, ty, &dims, &[a], Attrs::Slice { start, limit, stride });
        dims.pop();
        self.tag = tag;
        self.array(HloOp::Reshape, ty, &dims, &[part], Attrs::None)
    }

    /// Arrays side by side along a new innermost dimension.
    pub fn stack(&mut self, parts: &[HloId]) -> HloId {
        let Some(first) = parts.first() else { return HloId::NONE };
        let s = self.shape_of(*first);
        let mut dims = s.dims.clone();
        dims.push(1);
        let columns: Vec<HloId> =
            parts.iter().map(|p| self.array(HloOp::Reshape, s.ty, &dims, &[*p], Attrs::None)).collect();
        let last = dims.len() - 1;
        dims[last] = parts.len() as i64;
        self.array(HloOp::Concatenate, s.ty, &dims, &columns, Attrs::Dimensions(vec![last as i64]))
    }
}
