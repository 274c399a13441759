//! Writing the instructions of an expansion. New instructions are named `old.xK` and carry the source of the
//! instruction they stand for.

use super::rebuild::Rebuild;
use murre_components::dtype::HloType;
use murre_components::hlo::{
    ArrayShape, Attrs, Computation, Direction, DotDims, Draft, HloInst, HloModule, HloOp, HloRange, Literal,
    OpSet, Shape,
};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};
use std::sync::Arc;

/// What an expansion pass knows.
pub trait Expander {
    /// The operations of its family: others are not looked at.
    fn family(&self) -> OpSet;

    /// Whether this instruction, which is one of its family, has to go.
    fn wants(&self, inst: HloInst<'_>) -> bool;

    /// Writes computations that the expansion will call; runs before the instruction's own computation begins.
    fn prepare(&mut self, _old: &HloModule, _inst: HloInst<'_>, _out: &mut Rebuild) {}

    /// Writes what stands for the instruction; `None` leaves it as it is.
    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId>;
}

/// Rewrites a module by an expander; `None` when there is nothing to do.
pub fn expand_all(old: &HloModule, expander: &mut dyn Expander) -> Option<HloModule> {
    let family = expander.family();
    if !old.ops().meets(family) || !old.insts().any(|i| family.contains(i.op) && expander.wants(i)) {
        return None;
    }
    let mut out = Rebuild::new(old);
    let mut operands = Vec::new();
    for (index, comp) in old.computations.iter().enumerate() {
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            if family.contains(inst.op) && expander.wants(inst) {
                expander.prepare(old, inst, &mut out);
            }
        }
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            if family.contains(inst.op) && expander.wants(inst) {
                operands.clear();
                operands.extend(inst.operands().iter().map(|o| out.moved[o.index()]));
                let mut build = Build::new(&mut out, inst);
                if let Some(new) = expander.expand(inst, &operands, &mut build) {
                    out.moved[id.index()] = new;
                    continue;
                }
            }
            out.copy(old, id);
        }
        let root = out.moved[comp.root.index()];
        out.finish(old, CompId::new(index), root);
    }
    Some(out.module)
}

/// Adds a computation of its own, whose parameters have the given shapes; returns its id.
pub fn computation(
    out: &mut Rebuild,
    name: &str,
    parameters: &[Shape],
    like: HloInst<'_>,
    body: impl FnOnce(&mut Build<'_>, &[HloId]) -> HloId,
) -> CompId {
    let first = out.module.len() as u32;
    let mut ids = Vec::with_capacity(parameters.len());
    for (k, shape) in parameters.iter().enumerate() {
        let shape = out.module.intern_shape(shape.clone());
        let attrs = out.module.intern_attrs(Attrs::Parameter { number: k as u32 });
        ids.push(out.push(Draft { attrs, ..Draft::new(&format!("{name}.p{k}"), HloOp::Parameter, shape) }));
    }
    let mut build = Build::new(out, like);
    build.stem = name.to_string();
    let root = body(&mut build, &ids);
    let count = out.module.len() as u32 - first;
    let id = out.next_computation();
    out.module.computations.push(Computation {
        name: name.to_string(),
        instructions: HloRange { first, count },
        parameters: ids,
        root,
        extra: Vec::new(),
    });
    out.begin();
    id
}

/// Writes a number behind a text.
fn push_decimal(text: &mut String, number: u32) {
    let end = text.len();
    let mut rest = number;
    loop {
        text.insert(end, (b'0' + (rest % 10) as u8) as char);
        rest /= 10;
        if rest == 0 {
            return;
        }
    }
}

/// Writes instructions on behalf of one old instruction.
pub struct Build<'r> {
    /// The module under construction.
    pub out: &'r mut Rebuild,
    stem: String,
    metadata: TextId,
    line: u32,
    column: u16,
    made: u32,
}

impl<'r> Build<'r> {
    /// For `inst`.
    pub fn new(out: &'r mut Rebuild, inst: HloInst<'_>) -> Self {
        let draft = inst.draft();
        Build {
            out,
            stem: inst.name().to_string(),
            metadata: draft.metadata,
            line: draft.line,
            column: draft.column,
            made: 0,
        }
    }

    /// The same with names `old.tag.xK`, for a second builder of one instruction.
    pub fn tagged(mut self, tag: &str) -> Self {
        self.stem = format!("{}.{tag}", self.stem);
        self
    }

    /// The array shape of a value.
    pub fn shape(&self, id: HloId) -> ArrayShape {
        match self.out.module.inst(id).shape() {
            Shape::Array(a) => a.clone(),
            _ => ArrayShape::new(HloType::Token, []),
        }
    }

    /// Element type of a value.
    pub fn ty(&self, id: HloId) -> HloType {
        self.out.module.inst(id).shape().array().map_or(HloType::Token, |a| a.ty)
    }

    /// Extents of a value.
    pub fn dims(&self, id: HloId) -> Vec<i64> {
        self.out.module.inst(id).shape().array().map_or_else(Vec::new, |a| a.dims.clone())
    }

    /// Any instruction.
    pub fn any(
        &mut self,
        op: HloOp,
        shape: Shape,
        operands: &[HloId],
        called: &[CompId],
        attrs: Attrs,
    ) -> HloId {
        let shape = self.out.module.intern_shape(shape);
        let attrs = self.out.module.intern_attrs(attrs);
        self.interned(op, shape, operands, called, attrs)
    }

    /// Any instruction whose shape and attributes are interned.
    fn interned(
        &mut self,
        op: HloOp,
        shape: ShapeId,
        operands: &[HloId],
        called: &[CompId],
        attrs: AttrId,
    ) -> HloId {
        let stem = self.stem.len();
        self.stem.push_str(".x");
        push_decimal(&mut self.stem, self.made);
        self.made += 1;
        let id = self.out.push(Draft {
            operands,
            called,
            attrs,
            metadata: self.metadata,
            line: self.line,
            column: self.column,
            ..Draft::new(&self.stem, op, shape)
        });
        self.stem.truncate(stem);
        id
    }

    /// An instruction with an array result.
    pub fn op(&mut self, op: HloOp, ty: HloType, dims: &[i64], operands: &[HloId], attrs: Attrs) -> HloId {
        self.any(op, Shape::Array(ArrayShape::new(ty, dims)), operands, &[], attrs)
    }

    /// A scalar constant from its bytes.
    pub fn constant_bytes(&mut self, ty: HloType, dims: &[i64], data: Vec<u8>) -> HloId {
        if dims.is_empty() && data.len() <= 8 {
            let (shape, attrs) = self.out.scalar(ty, &data);
            return self.interned(HloOp::Constant, shape, &[], &[], attrs);
        }
        let literal = Literal::Array { shape: ArrayShape::new(ty, dims), data: data.into() };
        self.op(HloOp::Constant, ty, dims, &[], Attrs::Constant(Arc::new(literal)))
    }

    /// A scalar constant of any numeric type, rounded to it.
    pub fn constant(&mut self, ty: HloType, value: f64) -> HloId {
        let bytes = match ty {
            HloType::F32 => (value as f32).to_le_bytes().to_vec(),
            HloType::F64 => value.to_le_bytes().to_vec(),
            HloType::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            HloType::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            _ if ty.is_float() && value.to_bits() == 0 => vec![0; ty.bytes()],
            _ if ty.is_float() => {
                let wide = self.constant(HloType::F32, value);
                return self.convert(wide, ty);
            }
            _ => return self.integer(ty, value as i64),
        };
        self.constant_bytes(ty, &[], bytes)
    }

    /// A scalar integer constant.
    pub fn integer(&mut self, ty: HloType, value: i64) -> HloId {
        if ty.is_float() {
            return self.constant(ty, value as f64);
        }
        self.constant_bytes(ty, &[], value.to_le_bytes()[..ty.bytes().min(8)].to_vec())
    }

    /// A constant array whose elements are all `value`.
    pub fn full(&mut self, ty: HloType, dims: &[i64], value: f64) -> HloId {
        let c = self.constant(ty, value);
        self.spread(c, dims)
    }

    /// A constant with the type and extents of `like`.
    pub fn like(&mut self, like: HloId, value: f64) -> HloId {
        let c = self.constant(self.ty(like), value);
        self.spread_like(c, like)
    }

    /// An integer constant with the type and extents of `like`.
    pub fn like_int(&mut self, like: HloId, value: i64) -> HloId {
        let c = self.integer(self.ty(like), value);
        self.spread_like(c, like)
    }

    /// A scalar of the type of `like` broadcast to its extents.
    fn spread_like(&mut self, scalar: HloId, like: HloId) -> HloId {
        if self.out.module.inst(like).shape().array().is_none_or(|a| a.rank() == 0) {
            return scalar;
        }
        let (shape, map) =
            (self.out.plain(like), self.out.module.intern_attrs(Attrs::Dimensions(Vec::new())));
        self.interned(HloOp::Broadcast, shape, &[scalar], &[], map)
    }

    /// A scalar broadcast to `dims`.
    pub fn spread(&mut self, scalar: HloId, dims: &[i64]) -> HloId {
        if self.dims(scalar) == dims {
            return scalar;
        }
        self.broadcast(scalar, dims, &[])
    }

    /// Broadcast: operand dimension `k` becomes result dimension `map[k]`.
    pub fn broadcast(&mut self, x: HloId, dims: &[i64], map: &[i64]) -> HloId {
        let ty = self.ty(x);
        self.op(HloOp::Broadcast, ty, dims, &[x], Attrs::Dimensions(map.to_vec()))
    }

    /// `f(x)` of the same type.
    pub fn unary(&mut self, op: HloOp, x: HloId) -> HloId {
        let shape = self.out.plain(x);
        self.interned(op, shape, &[x], &[], AttrId::NONE)
    }

    /// `a op b` of the same type.
    pub fn binary(&mut self, op: HloOp, a: HloId, b: HloId) -> HloId {
        let shape = self.out.plain(a);
        self.interned(op, shape, &[a, b], &[], AttrId::NONE)
    }

    /// `a op value`.
    pub fn with(&mut self, op: HloOp, a: HloId, value: f64) -> HloId {
        let b = self.like(a, value);
        self.binary(op, a, b)
    }

    /// `a op value` with an exact integer.
    pub fn with_int(&mut self, op: HloOp, a: HloId, value: i64) -> HloId {
        let b = self.like_int(a, value);
        self.binary(op, a, b)
    }

    /// Comparison.
    pub fn compare(&mut self, direction: Direction, a: HloId, b: HloId) -> HloId {
        let dims = self.dims(a);
        self.op(
            HloOp::Compare,
            HloType::Pred,
            &dims,
            &[a, b],
            Attrs::Compare { direction, total_order: false },
        )
    }

    /// Comparison with a constant.
    pub fn compare_with(&mut self, direction: Direction, a: HloId, value: f64) -> HloId {
        let b = self.like(a, value);
        self.compare(direction, a, b)
    }

    /// Comparison with an exact integer.
    pub fn compare_int(&mut self, direction: Direction, a: HloId, value: i64) -> HloId {
        let b = self.like_int(a, value);
        self.compare(direction, a, b)
    }

    /// `p ? a : b`.
    pub fn select(&mut self, p: HloId, a: HloId, b: HloId) -> HloId {
        let shape = self.out.plain(a);
        self.interned(HloOp::Select, shape, &[p, a, b], &[], AttrId::NONE)
    }

    /// Conversion, where the types differ.
    pub fn convert(&mut self, x: HloId, ty: HloType) -> HloId {
        if self.ty(x) == ty {
            return x;
        }
        let dims = self.dims(x);
        self.op(HloOp::Convert, ty, &dims, &[x], Attrs::None)
    }

    /// The same bits as another type of the same width.
    pub fn bits_as(&mut self, x: HloId, ty: HloType) -> HloId {
        if self.ty(x) == ty {
            return x;
        }
        let dims = self.dims(x);
        self.op(HloOp::BitcastConvert, ty, &dims, &[x], Attrs::None)
    }

    /// Row-major reshape, where the extents differ.
    pub fn reshape(&mut self, x: HloId, dims: &[i64]) -> HloId {
        if self.dims(x) == dims {
            return x;
        }
        let ty = self.ty(x);
        self.op(HloOp::Reshape, ty, dims, &[x], Attrs::None)
    }

    /// Result dimension `k` is operand dimension `permutation[k]`.
    pub fn transpose(&mut self, x: HloId, permutation: &[i64]) -> HloId {
        if permutation.iter().enumerate().all(|(k, p)| *p == k as i64) {
            return x;
        }
        let (ty, old) = (self.ty(x), self.dims(x));
        let dims: Vec<i64> = permutation.iter().map(|p| old[*p as usize]).collect();
        self.op(HloOp::Transpose, ty, &dims, &[x], Attrs::Dimensions(permutation.to_vec()))
    }

    /// Reverses one dimension.
    pub fn reverse(&mut self, x: HloId, d: usize) -> HloId {
        let (ty, dims) = (self.ty(x), self.dims(x));
        self.op(HloOp::Reverse, ty, &dims, &[x], Attrs::Dimensions(vec![d as i64]))
    }

    /// `start..limit` of dimension `d` with a stride, all of the others.
    pub fn slice_dim(&mut self, x: HloId, d: usize, start: i64, limit: i64, step: i64) -> HloId {
        let dims = self.dims(x);
        let (mut starts, mut limits, mut steps) = (vec![0; dims.len()], dims.clone(), vec![1; dims.len()]);
        (starts[d], limits[d], steps[d]) = (start, limit, step);
        self.slice(x, &starts, &limits, &steps)
    }

    /// Slice.
    pub fn slice(&mut self, x: HloId, start: &[i64], limit: &[i64], stride: &[i64]) -> HloId {
        let (ty, dims) = (self.ty(x), self.dims(x));
        if start.iter().all(|s| *s == 0) && limit == dims && stride.iter().all(|s| *s == 1) {
            return x;
        }
        let out: Vec<i64> =
            (0..dims.len()).map(|d| (limit[d] - start[d] + stride[d] - 1).max(0) / stride[d]).collect();
        let attrs = Attrs::Slice { start: start.to_vec(), limit: limit.to_vec(), stride: stride.to_vec() };
        self.op(HloOp::Slice, ty, &out, &[x], attrs)
    }

    /// Concatenation along `d`.
    pub fn concatenate(&mut self, parts: &[HloId], d: usize) -> HloId {
        if let [one] = parts {
            return *one;
        }
        let (ty, mut dims) = (self.ty(parts[0]), self.dims(parts[0]));
        dims[d] = parts.iter().map(|p| self.dims(*p)[d]).sum();
        self.op(HloOp::Concatenate, ty, &dims, parts, Attrs::Dimensions(vec![d as i64]))
    }

    /// Pad with a scalar.
    pub fn pad(&mut self, x: HloId, value: HloId, low: &[i64], high: &[i64], interior: &[i64]) -> HloId {
        if [low, high, interior].iter().all(|v| v.iter().all(|n| *n == 0)) {
            return x;
        }
        let (ty, dims) = (self.ty(x), self.dims(x));
        let out: Vec<i64> = (0..dims.len())
            .map(|d| dims[d] + low[d] + high[d] + interior[d] * (dims[d] - 1).max(0))
            .collect();
        let attrs = Attrs::Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() };
        self.op(HloOp::Pad, ty, &out, &[x, value], attrs)
    }

    /// `0, 1, 2 ...` along `d`.
    pub fn iota(&mut self, ty: HloType, dims: &[i64], d: usize) -> HloId {
        self.op(HloOp::Iota, ty, dims, &[], Attrs::Iota { dimension: d as i64 })
    }

    /// General dot.
    pub fn dot(&mut self, ty: HloType, a: HloId, b: HloId, dims: DotDims) -> HloId {
        let (da, db) = (self.dims(a), self.dims(b));
        let free = |d: &[i64], x: &[i64], y: &[i64]| -> Vec<i64> {
            (0..d.len() as i64).filter(|k| !x.contains(k) && !y.contains(k)).map(|k| d[k as usize]).collect()
        };
        let mut out: Vec<i64> = dims.lhs_batch.iter().map(|k| da[*k as usize]).collect();
        out.extend(free(&da, &dims.lhs_batch, &dims.lhs_contracting));
        out.extend(free(&db, &dims.rhs_batch, &dims.rhs_contracting));
        self.op(HloOp::Dot, ty, &out, &[a, b], Attrs::Dot(Box::new(dims)))
    }

    /// Reduction over `dims` by a computation of two scalars.
    pub fn reduce(&mut self, x: HloId, init: HloId, dims: &[i64], by: CompId) -> HloId {
        let (ty, all) = (self.ty(x), self.dims(x));
        let kept: Vec<i64> =
            (0..all.len() as i64).filter(|d| !dims.contains(d)).map(|d| all[d as usize]).collect();
        let shape = Shape::Array(ArrayShape::new(ty, kept));
        self.any(HloOp::Reduce, shape, &[x, init], &[by], Attrs::Dimensions(dims.to_vec()))
    }

    /// Tuple.
    pub fn tuple(&mut self, parts: &[HloId]) -> HloId {
        let shapes = parts.iter().map(|p| self.out.module.inst(*p).shape().clone()).collect();
        self.any(HloOp::Tuple, Shape::Tuple(shapes), parts, &[], Attrs::None)
    }

    /// Element of a tuple.
    pub fn element(&mut self, tuple: HloId, index: usize) -> HloId {
        let shape = match self.out.module.inst(tuple).shape() {
            Shape::Tuple(parts) => parts.get(index).cloned().unwrap_or(Shape::Token),
            other => other.clone(),
        };
        let attrs = Attrs::GetTupleElement { index: index as u32 };
        self.any(HloOp::GetTupleElement, shape, &[tuple], &[], attrs)
    }
}
