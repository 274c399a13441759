//! The rule of each operation on arrays: where its result's sizes come from, and which operand dimensions need a neutral
//! element. In: an instruction with a dynamic operand or result. Out: what stands for it at the bounds, and its sizes.
//! Facts: `spec/dynamic_shapes.md 3.2, 5.1`.
//!
//! Movements that hang on a size are in [`super::rebuilt`], reshapes in [`super::reshape`].

use super::padding::{largest, lowest, pad, zero};
use super::sizes::{Check, Known, Legal, Sizes, at_bounds};
use crate::legalize::build::Build;
use crate::legalize::region::is_pointwise;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloModule, HloOp, Shape, WindowDim};
use murre_components::ids::HloId;

/// Why an instruction has no static form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The dimension, where one is to blame.
    pub dimension: Option<usize>,
    /// The reason.
    pub reason: String,
}

/// A refusal for dimension `d`.
pub fn refuse<T>(dimension: impl Into<Option<usize>>, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { dimension: dimension.into(), reason: reason.into() })
}

/// What stands for an instruction.
pub struct Stand {
    /// The value at the bounds.
    pub value: HloId,
    /// The sizes of each leaf, as far as the operation gives any.
    pub sizes: Vec<Sizes>,
}

/// What a rule gives.
pub type Ruled = Result<Stand, Refusal>;

/// An instruction and what stands for its operands.
pub struct Op<'a, 'm> {
    /// The module as read.
    pub old: &'m HloModule,
    /// The instruction.
    pub inst: HloInst<'m>,
    /// Its operands at the bounds.
    pub x: &'a [HloId],
    /// Their sizes; empty for what is not an array.
    pub sizes: Vec<Sizes>,
}

impl<'m> Op<'_, 'm> {
    /// The declared shape of the result.
    pub fn shape(&self) -> Option<&'m ArrayShape> {
        self.inst.shape().array()
    }

    /// Whether dimension `d` of the result is declared dynamic.
    pub fn is_dynamic(&self, d: usize) -> bool {
        self.shape().is_some_and(|a| a.is_dynamic(d))
    }

    /// The declared bounds of operand `k`.
    pub fn bounds(&self, k: usize) -> &'m [i64] {
        let operand = self.inst.operands().get(k).map(|o| self.old.inst(*o).shape());
        operand.and_then(Shape::array).map_or(&[], |a| &a.dims)
    }

    /// The size of dimension `d` of operand `k`.
    pub fn size(&self, k: usize, d: usize) -> Option<HloId> {
        self.sizes.get(k)?.get(d).copied().flatten()
    }

    /// Whether operand `k` has any size.
    pub fn is_sized(&self, k: usize) -> bool {
        self.sizes.get(k).is_some_and(|s| s.iter().any(Option::is_some))
    }

    /// The first sized dimension of operand `k`.
    pub fn first_sized(&self, k: usize) -> Option<usize> {
        self.sizes.get(k)?.iter().position(Option::is_some)
    }

    /// The same instruction on these operands, its shape at the bounds.
    pub fn copied(&self, b: &mut Build<'_>, operands: &[HloId]) -> HloId {
        let new = b.out.copy_with(self.old, self.inst.id, operands);
        let shape = b.out.module.intern_shape(at_bounds(self.inst.shape()));
        b.out.module.set_shape(new, shape);
        new
    }

    /// Has the run report an operand that ends before the result does, in the dimensions in which each has a size;
    /// dimensions of operands and result are the same.
    pub fn read_together(
        &self,
        b: &mut Build<'_>,
        known: &mut Known,
        operands: std::ops::Range<usize>,
        sizes: &Sizes,
    ) -> Result<(), Refusal> {
        for (d, size) in sizes.iter().enumerate() {
            let Some(size) = *size else { continue };
            for k in operands.clone() {
                let Some(own) = self.size(k, d) else { continue };
                let check = Check { inst: self.inst.id, dimension: d, legal: Legal::Beside };
                if !known.reaches(b, own, size, check) {
                    return refuse(d, "a loop's condition reads arrays whose sizes only a run can compare");
                }
            }
        }
        Ok(())
    }

    /// Has the run report a derived size that is negative.
    fn natural(&self, b: &mut Build<'_>, known: &mut Known, d: usize, size: HloId) -> Result<(), Refusal> {
        let bound = self.shape().map_or(0, |a| a.dims[d]);
        match known.natural(b, size, Check { inst: self.inst.id, dimension: d, legal: Legal::Natural(bound) })
        {
            true => Ok(()),
            false => refuse(d, "a loop's condition computes a size that only a run can check"),
        }
    }

    /// The same with its own operands and these sizes of an array result.
    pub fn same(&self, b: &mut Build<'_>, sizes: Sizes) -> Ruled {
        let value = self.copied(b, self.x);
        Ok(Stand { value, sizes: vec![sizes] })
    }
}

/// Whether each element of the result comes from the elements in the same place.
pub fn is_elementwise(op: HloOp) -> bool {
    use HloOp::*;
    is_pointwise(op)
        || matches!(
            op,
            Acos | Acosh
                | Asin
                | Asinh
                | Atanh
                | Complex
                | Cosh
                | Imag
                | Map
                | Mulhi
                | Real
                | Sinh
                | StochasticConvert
        )
}

/// The stand-in of an operation on arrays.
pub fn rule(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    use HloOp::*;
    let inst = op.inst;
    if is_elementwise(inst.op) {
        return elementwise(op, b, known);
    }
    match (inst.op, inst.attrs()) {
        (Iota | Constant, _) => op.same(b, Vec::new()),
        (Copy | AddDependency, _) => op.same(b, op.sizes.first().cloned().unwrap_or_default()),
        (Broadcast, Attrs::Dimensions(map)) => {
            let mut sizes = vec![None; op.shape().map_or(0, ArrayShape::rank)];
            for (d, to) in map.iter().enumerate() {
                sizes[*to as usize] = op.size(0, d);
            }
            op.same(b, sizes)
        }
        (Transpose, Attrs::Dimensions(from)) => {
            op.same(b, from.iter().map(|d| op.size(0, *d as usize)).collect())
        }
        (Reduce, Attrs::Dimensions(list)) => reduce(op, list, b, known),
        (ReduceWindow, Attrs::Window(window)) => reduce_window(op, window, b, known),
        (SelectAndScatter, Attrs::Window(window)) => select_and_scatter(op, window, b, known),
        (Dot, Attrs::Dot(_)) => dot(op, b, known),
        (Convolution, _) => convolution(op, b, known),
        (Pad, Attrs::Pad { low, high, interior }) => {
            if op.is_sized(1) {
                return refuse(None, "the padding value has a run-time extent");
            }
            let x = pad(b, known, op.x[0], &op.sizes[0], op.x[1], |_| true);
            let mut sizes = Sizes::new();
            for d in 0..low.len() {
                sizes.push(op.size(0, d).map(|n| {
                    let mut grown = n;
                    if interior[d] != 0 {
                        let gaps = b.with_int(Add, n, -1);
                        let gaps = b.with_int(Maximum, gaps, 0);
                        let gaps = b.with_int(Multiply, gaps, interior[d]);
                        grown = b.binary(Add, gaps, n);
                    }
                    plus(b, grown, low[d] + high[d])
                }));
                if let Some(n) = sizes[d].filter(|_| low[d] + high[d] < 0) {
                    op.natural(b, known, d, n)?;
                }
            }
            let value = op.copied(b, &[x, op.x[1]]);
            Ok(Stand { value, sizes: vec![sizes] })
        }
        (Slice, Attrs::Slice { start, stride, .. }) => {
            let mut sizes = Sizes::new();
            for d in 0..start.len() {
                sizes.push(op.size(0, d).map(|n| {
                    let n = plus(b, n, -start[d]);
                    if stride[d] == 1 {
                        return n;
                    }
                    let n = plus(b, n, stride[d] - 1);
                    b.with_int(Divide, n, stride[d])
                }));
                // A slice to extent 1 is static, whatever lies there.
                if let Some(n) = sizes[d].filter(|_| start[d] > 0 && op.is_dynamic(d)) {
                    op.natural(b, known, d, n)?;
                }
            }
            op.same(b, sizes)
        }
        (DynamicSlice, Attrs::DynamicSlice { sizes: cut }) => {
            let mut sizes = Sizes::new();
            for (d, n) in cut.iter().enumerate() {
                if op.size(0, d).is_some() && *n != 1 && *n != op.bounds(0)[d] {
                    return refuse(
                        d,
                        "a dynamic-slice takes part of a dimension whose extent is a run-time value",
                    );
                }
                sizes.push(op.size(0, d).filter(|_| *n == op.bounds(0)[d]));
            }
            op.same(b, sizes)
        }
        (Gather, Attrs::Gather(_)) => gather(op, b),
        (Scatter, Attrs::Scatter { .. }) => scatter(op, b, known),
        (GetDimensionSize, Attrs::Dimensions(list)) => {
            let d = list.first().map_or(0, |d| *d as usize);
            let value = match op.size(0, d) {
                Some(size) => size,
                None => known.constant(b, op.bounds(0).get(d).copied().unwrap_or(0)),
            };
            Ok(Stand { value, sizes: Vec::new() })
        }
        (SetDimensionSize, Attrs::Dimensions(list)) => {
            let d = list.first().map_or(0, |d| *d as usize);
            set_dimension_size(op, d, b, known)
        }
        (Concatenate | Reverse | DynamicUpdateSlice | Sort, _) => super::rebuilt::rule(op, b, known),
        (Reshape | DynamicReshape, _) => super::reshape::rule(op, b, known),
        (CustomCall, _) => super::calls::rule(op, b, known),
        (BatchNormTraining | BatchNormInference | BatchNormGrad, _) => super::normalize::rule(op, b, known),
        (AllReduce | AllGather | ReduceScatter | AllToAll | CollectiveBroadcast | CollectivePermute, _) => {
            super::calls::together(op, b)
        }
        (TopK, _) => super::calls::top(op, b),
        (other, _) => {
            let sized = (0..op.sizes.len()).find_map(|k| op.first_sized(k));
            refuse(sized, format!("{} has no rule for run-time extents", other.name()))
        }
    }
}

/// `n + k`.
pub fn plus(b: &mut Build<'_>, n: HloId, k: i64) -> HloId {
    if k == 0 { n } else { b.with_int(HloOp::Add, n, k) }
}

fn elementwise(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let rank = op.shape().map_or(0, ArrayShape::rank);
    if op.inst.op == HloOp::BitcastConvert {
        let widths = |s: Option<&ArrayShape>| s.map_or(0, |a| a.ty.bits());
        if widths(op.shape()) != widths(op.old.inst(op.inst.operands()[0]).shape().array()) {
            // A last dimension of parts of elements comes or goes; it is never cut.
            let last = op.bounds(0).len().checked_sub(1).filter(|_| rank < op.bounds(0).len());
            if let Some(d) = last.filter(|d| op.size(0, *d).is_some()) {
                return refuse(d, "the parts that make an element have a run-time extent");
            }
            return op.same(b, (0..rank).map(|d| op.size(0, d)).collect());
        }
    }
    let mut sizes: Sizes = vec![None; rank];
    for (d, size) in sizes.iter_mut().enumerate() {
        for k in 0..op.x.len() {
            let Some(own) = op.size(k, d) else { continue };
            *size = Some(match *size {
                // Of a clamp the last operand decides.
                Some(before) if op.inst.op != HloOp::Clamp => known.meet(b, before, own),
                _ => own,
            });
        }
    }
    if op.x.len() != 2 || op.inst.op == HloOp::Map {
        op.read_together(b, known, 0..op.x.len(), &sizes)?;
        return op.same(b, sizes);
    }
    // A side whose size is 1 is stretched to the other side's.
    let (mut left, mut right) = (op.x[0], op.x[1]);
    for d in 0..rank {
        let (Some(p), Some(q)) = (op.size(0, d), op.size(1, d)) else { continue };
        if p != q {
            known.rebuilt.push("a side of size 1 is stretched to the other");
            let stretched = stretch(b, left, d, p, q);
            right = stretch(b, right, d, q, p);
            left = stretched;
        }
    }
    let value = op.copied(b, &[left, right]);
    Ok(Stand { value, sizes: vec![sizes] })
}

/// `x`, its first row of dimension `d` everywhere when its size is 1 and less than the other.
fn stretch(b: &mut Build<'_>, x: HloId, d: usize, own: HloId, other: HloId) -> HloId {
    let dims = b.dims(x);
    if dims[d] <= 1 {
        return x;
    }
    let one = b.compare_int(Direction::Eq, own, 1);
    let less = b.compare(Direction::Lt, own, other);
    let wanted = b.binary(HloOp::And, one, less);
    let wanted = b.spread(wanted, &dims);
    let row = b.slice_dim(x, d, 0, 1, 1);
    let (mut kept, mut map) = (dims.clone(), (0..dims.len() as i64).collect::<Vec<_>>());
    kept.remove(d);
    map.remove(d);
    let row = b.reshape(row, &kept);
    let row = b.broadcast(row, &dims, &map);
    b.select(wanted, row, x)
}

fn reduce(op: &Op<'_, '_>, list: &[i64], b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let n = op.x.len() / 2;
    let reduced = |d: usize| list.contains(&(d as i64));
    let mut operands = op.x.to_vec();
    let mut sizes = vec![None; op.bounds(0).len()];
    for (j, operand) in operands.iter_mut().enumerate().take(n) {
        *operand = pad(b, known, op.x[j], &op.sizes[j], op.x[n + j], reduced);
        for (d, size) in sizes.iter_mut().enumerate() {
            *size = op.size(j, d).or(*size);
        }
    }
    let beside = sizes.iter().enumerate().map(|(d, s)| s.filter(|_| !reduced(d))).collect();
    op.read_together(b, known, 0..n, &beside)?;
    let kept: Sizes = sizes.iter().enumerate().filter(|(d, _)| !reduced(*d)).map(|(_, s)| *s).collect();
    let value = op.copied(b, &operands);
    Ok(Stand { value, sizes: vec![kept; n] })
}

fn is_trivial(w: &WindowDim) -> bool {
    w.size == 1
        && w.stride == 1
        && w.pad_low == 0
        && w.pad_high == 0
        && w.window_dilation == 1
        && w.base_dilation == 1
}

fn reduce_window(op: &Op<'_, '_>, window: &[WindowDim], b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let n = op.x.len() / 2;
    let mut operands = op.x.to_vec();
    let mut sizes: Sizes = vec![None; window.len()];
    for (j, operand) in operands.iter_mut().enumerate().take(n) {
        *operand = pad(b, known, op.x[j], &op.sizes[j], op.x[n + j], |d| window[d].size != 1);
        for (d, w) in window.iter().enumerate() {
            let Some(size) = op.size(j, d) else { continue };
            if is_trivial(w) {
                sizes[d] = Some(size);
                continue;
            }
            // Windows are counted without the padding, whatever the window declares.
            let reach = (w.size - 1) * w.window_dilation + 1;
            let room = plus(b, size, w.stride - reach);
            sizes[d] = Some(if w.stride == 1 { room } else { b.with_int(HloOp::Divide, room, w.stride) });
        }
    }
    let last = |d| (0..n).rev().find_map(|j| op.size(j, d));
    op.read_together(b, known, 0..n, &(0..window.len()).map(last).collect())?;
    let value = op.copied(b, &operands);
    Ok(Stand { value, sizes: vec![sizes; n] })
}

fn select_and_scatter(op: &Op<'_, '_>, window: &[WindowDim], b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let chooses_most = op.inst.called().first().is_some_and(|c| {
        let comp = op.old.comp(*c);
        let root = op.old.inst(comp.root);
        let direction = matches!(root.attrs(), Attrs::Compare { direction: Direction::Ge, .. });
        root.op == HloOp::Compare && direction && root.operands() == comp.parameters
    });
    if !chooses_most {
        return refuse(op.first_sized(0), "the selection is not `compare(a, b), direction=GE`");
    }
    let ty = b.ty(op.x[0]);
    let low = lowest(b, ty);
    let wide = |d: usize| window[d].size != 1;
    let x = pad(b, known, op.x[0], &op.sizes[0], low, wide);
    let source = pad(b, known, op.x[1], &op.sizes[1], op.x[2], wide);
    let value = op.copied(b, &[x, source, op.x[2]]);
    Ok(Stand { value, sizes: vec![op.sizes[0].clone()] })
}

fn dot(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Attrs::Dot(dims) = op.inst.attrs() else { return op.same(b, Vec::new()) };
    let mut operands = Vec::new();
    let mut sizes = Sizes::new();
    for (i, j) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        let (left, right) = (op.size(0, *i as usize), op.size(1, *j as usize));
        if let (Some(own), Some(result)) = (left, right) {
            let check = Check { inst: op.inst.id, dimension: sizes.len(), legal: Legal::Beside };
            if !known.reaches(b, own, result, check) {
                return refuse(
                    *i as usize,
                    "a loop's condition reads arrays whose sizes only a run can compare",
                );
            }
        }
        sizes.push(right.or(left));
    }
    let sides = [(&dims.lhs_batch, &dims.lhs_contracting), (&dims.rhs_batch, &dims.rhs_contracting)];
    for (k, (batch, contracting)) in sides.into_iter().enumerate() {
        let zero = zero(b, element(op, k));
        let own = |d: usize| contracting.contains(&(d as i64));
        operands.push(pad(b, known, op.x[k], &op.sizes[k], zero, own));
        let free = (0..op.bounds(k).len()).filter(|d| !own(*d) && !batch.contains(&(*d as i64)));
        sizes.extend(free.map(|d| op.size(k, d)));
    }
    let value = op.copied(b, &operands);
    Ok(Stand { value, sizes: vec![sizes] })
}

fn element(op: &Op<'_, '_>, k: usize) -> HloType {
    op.old.inst(op.inst.operands()[k]).shape().array().map_or(HloType::F32, |a| a.ty)
}

fn convolution(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Attrs::Convolution { window, dims, .. } = op.inst.attrs() else { return op.same(b, Vec::new()) };
    for d in 0..op.bounds(0).len() {
        let spatial = dims.input_spatial.iter().position(|s| *s == d as i64);
        if op.size(0, d).is_some() && spatial.is_some_and(|s| !window.get(s).is_some_and(is_trivial)) {
            return refuse(d, "a spatial dimension of a convolution has a run-time extent");
        }
    }
    for d in (0..op.bounds(1).len()).filter(|d| op.size(1, *d).is_some()) {
        if d as i64 != dims.kernel_input_feature {
            return refuse(d, "a dimension of the kernel has a run-time extent");
        }
    }
    let mut operands = Vec::new();
    for (k, feature) in [dims.input_feature, dims.kernel_input_feature].into_iter().enumerate() {
        let zero = zero(b, element(op, k));
        operands.push(pad(b, known, op.x[k], &op.sizes[k], zero, |d| d as i64 == feature));
    }
    let mut sizes = vec![None; op.shape().map_or(0, ArrayShape::rank)];
    sizes[dims.output_batch as usize] = op.size(0, dims.input_batch as usize);
    for (from, to) in dims.input_spatial.iter().zip(&dims.output_spatial) {
        sizes[*to as usize] = op.size(0, *from as usize);
    }
    let value = op.copied(b, &operands);
    Ok(Stand { value, sizes: vec![sizes] })
}

fn gather(op: &Op<'_, '_>, b: &mut Build<'_>) -> Ruled {
    let Attrs::Gather(g) = op.inst.attrs() else { return op.same(b, Vec::new()) };
    let rank = op.shape().map_or(0, ArrayShape::rank);
    let mut sizes = vec![None; rank];
    let dropped = |d: usize| {
        g.collapsed_slice_dims.contains(&(d as i64)) || g.operand_batching_dims.contains(&(d as i64))
    };
    let windows = (0..op.bounds(0).len()).filter(|d| !dropped(*d));
    for (d, to) in windows.zip(&g.offset_dims) {
        sizes[*to as usize] = op.size(0, d).filter(|_| g.slice_sizes[d] == op.bounds(0)[d]);
    }
    for d in (0..op.bounds(0).len()).filter(|d| op.size(0, *d).is_some()) {
        if g.slice_sizes[d] != 1 && g.slice_sizes[d] != op.bounds(0)[d] {
            return refuse(d, "a gather takes part of a dimension whose extent is a run-time value");
        }
    }
    if op.size(1, g.index_vector_dim as usize).is_some() {
        return refuse(g.index_vector_dim as usize, "the number of indices of a gather is a run-time value");
    }
    let places = (0..op.bounds(1).len()).filter(|d| *d as i64 != g.index_vector_dim);
    let batch = (0..rank).filter(|d| !g.offset_dims.contains(&(*d as i64)));
    for (d, to) in places.zip(batch) {
        sizes[to] = op.size(1, d);
    }
    op.same(b, sizes)
}

fn scatter(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Attrs::Scatter { dims: s, .. } = op.inst.attrs() else { return op.same(b, Vec::new()) };
    if op.x.len() != 3 {
        return refuse(
            (0..op.x.len()).find_map(|k| op.first_sized(k)),
            "a scatter of several arrays has no rule",
        );
    }
    if op.size(1, s.index_vector_dim as usize).is_some() {
        return refuse(s.index_vector_dim as usize, "the number of indices of a scatter is a run-time value");
    }
    let dropped = |d: usize| {
        s.inserted_window_dims.contains(&(d as i64)) || s.input_batching_dims.contains(&(d as i64))
    };
    let windows = (0..op.bounds(0).len()).filter(|d| !dropped(*d));
    for (d, u) in windows.zip(&s.update_window_dims) {
        let u = *u as usize;
        let Some(size) = op.size(2, u) else { continue };
        if op.bounds(2)[u] != op.bounds(0)[d] || op.size(0, d).is_some_and(|own| own != size) {
            return refuse(u, "a window of the updates has another run-time extent than the array");
        }
    }
    // Rows of the updates behind a size go nowhere: their indices are out of bounds.
    let mut indices = op.x[1];
    let far = largest(b, element(op, 1));
    let places = (0..op.bounds(1).len()).filter(|d| *d as i64 != s.index_vector_dim);
    let rows = (0..op.bounds(2).len()).filter(|d| !s.update_window_dims.contains(&(*d as i64)));
    let mut sizes = op.sizes[1].clone();
    for (d, u) in places.zip(rows) {
        sizes[d] = match (sizes[d], op.size(2, u)) {
            (Some(x), Some(y)) if x != y => Some(b.binary(HloOp::Minimum, x, y)),
            (x, y) => x.or(y),
        };
    }
    indices = pad(b, known, indices, &sizes, far, |_| true);
    let value = op.copied(b, &[op.x[0], indices, op.x[2]]);
    Ok(Stand { value, sizes: vec![op.sizes[0].clone()] })
}

/// The value of a scalar integer constant.
pub fn constant_of(old: &HloModule, id: HloId) -> Option<i64> {
    let Attrs::Constant(literal) = old.inst(id).attrs() else { return None };
    let bytes: [u8; 4] = literal.bytes().try_into().ok()?;
    Some(i64::from(i32::from_le_bytes(bytes)))
}

fn set_dimension_size(op: &Op<'_, '_>, d: usize, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let bound = op.bounds(0).get(d).copied().unwrap_or(0);
    let mut sizes = op.sizes[0].clone();
    if sizes.len() <= d {
        return refuse(d, "there is no such dimension");
    }
    known.shows |= sizes[d].is_some();
    let fixed = constant_of(op.old, op.inst.operands()[1]);
    if !op.shape().is_some_and(|a| a.is_dynamic(d)) {
        if fixed != Some(bound) {
            return refuse(d, "the dimension is declared static, but its size may be less than its extent");
        }
        sizes[d] = None;
        return Ok(Stand { value: op.x[0], sizes: vec![sizes] });
    }
    let size = match fixed {
        Some(n) if (0..=bound).contains(&n) => known.constant(b, n),
        Some(n) => return refuse(d, format!("the size {n} is not between 0 and the bound {bound}")),
        None => op.x[1],
    };
    let check = Check { inst: op.inst.id, dimension: d, legal: Legal::Within(bound) };
    let Some(size) = known.checked(b, size, check, bound) else {
        return refuse(d, "a loop's condition sets a size that only a run can check");
    };
    sizes[d] = Some(size);
    Ok(Stand { value: op.x[0], sizes: vec![sizes] })
}
