//! `expand_scatter`: a scatter that no descriptor can say becomes a loop over its updates: each reads its window, combines
//! it with the update and writes it back, if the window lies wholly inside.
//!
//! What descriptors can say stays: one operand, combined by "take the update" or by an addition. The hardware lists
//! multiplication, maximum and minimum too, and no compiled program may ask for them.
//!
//! Facts: `spec/hlo.md 7`, `spec/isa.md 4.4`, `spec/ir.md 2.3, 9.6` (XCG986); core_v5 has no arithmetic in its DMA, and DGE
//! level `dst_reduce` allows it elsewhere (`spec/ir.md 7.1`).

use super::build::{Build, Expander, computation, expand_all};
use super::rebuild::Rebuild;
use super::region::{apply, is_elementwise, monoid};
use crate::options::{CompileOptions, DgeLevels};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::engine::Target;
use murre_components::hlo::{
    ArrayShape, Attrs, Direction, HloInst, HloModule, HloOp, OpSet, ScatterDims, Shape,
};
use murre_components::ids::{CompId, HloId};
use murre_components::isa::transfer::EMITTED_COMPUTE;

/// The pass.
pub fn expand_scatter(mut module: ResMut<HloModule>, options: Res<CompileOptions>) {
    let reduce = options.dge_levels.has(DgeLevels::DST_REDUCE);
    let mut scatter = Scatter { module: &module, target: options.target, reduce, loops: Vec::new() };
    let new = expand_all(&module, &mut scatter);
    if let Some(new) = new {
        *module = new;
    }
}

/// How a descriptor combines old and new elements (`spec/isa.md 4.4`), if one can.
pub fn descriptor_combiner(module: &HloModule, inst: HloInst<'_>, target: Target) -> Option<u8> {
    let by = *inst.called().first()?;
    let ty = inst.shape().array()?.ty;
    let comp = module.comp(by);
    if comp.parameters.get(1) == Some(&comp.root) {
        return (ty.bytes() <= 4).then_some(0);
    }
    if target == Target::CoreV5 {
        return None;
    }
    let float = matches!(ty, HloType::F32 | HloType::Bf16 | HloType::F16);
    let whole = matches!(ty, HloType::S32 | HloType::U32);
    match monoid(module, by)? {
        HloOp::Add if float || whole => Some(EMITTED_COMPUTE),
        _ => None,
    }
}

struct Scatter<'m> {
    module: &'m HloModule,
    target: Target,
    /// Whether descriptors may combine.
    reduce: bool,
    /// Condition and body by scatter.
    loops: Vec<(HloId, CompId, CompId)>,
}

impl Expander for Scatter<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Scatter])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        inst.op == HloOp::Scatter
            && inst.called().first().is_some_and(|c| is_elementwise(self.module, *c))
            && inst.shape().leaves().iter().all(|s| s.array().is_some_and(|a| a.elements() > 0))
            && (inst.operands().len() != 3
                || descriptor_combiner(self.module, inst, self.target)
                    .is_none_or(|op| op > 0 && !self.reduce))
    }

    fn prepare(&mut self, old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) {
        let Some(plan) = Plan::of(old, inst) else { return };
        let Some(by) = inst.called().first().map(|c| out.computations[c.index()]) else { return };
        let carry = plan.carry();
        let name = |what: &str| format!("{}.{what}", inst.name());
        let tuple = [Shape::Tuple(carry)];
        let condition = computation(out, &name("condition"), &tuple, inst, |b, p| {
            let i = b.element(p[0], 0);
            let count = b.integer(HloType::S32, plan.updates);
            b.compare(Direction::Lt, i, count)
        });
        let body = computation(out, &name("body"), &tuple, inst, |b, p| plan.body(b, by, p[0]));
        self.loops.push((inst.id, condition, body));
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let plan = Plan::of(self.module, inst)?;
        let (_, condition, body) = *self.loops.iter().find(|l| l.0 == inst.id)?;
        let n = plan.operands.len();
        let (arrays, rest) = operands.split_at(n);
        let (indices, updates) = rest.split_first()?;
        let mut parts = vec![b.integer(HloType::S32, 0)];
        parts.extend(arrays);
        parts.push(plan.index_rows(b, *indices));
        for u in updates {
            parts.push(plan.update_rows(b, *u));
        }
        let start = b.tuple(&parts);
        let shape = Shape::Tuple(plan.carry());
        let done = b.any(HloOp::While, shape, &[start], &[body, condition], Attrs::None);
        let results: Vec<HloId> = (0..n).map(|k| b.element(done, k + 1)).collect();
        Some(if inst.shape().array().is_some() { results[0] } else { b.tuple(&results) })
    }
}

/// The shapes of a scatter.
struct Plan {
    dims: ScatterDims,
    operands: Vec<ArrayShape>,
    indices: ArrayShape,
    update: Vec<i64>,
    /// Number of windows.
    updates: i64,
    /// Components of an index.
    components: i64,
    /// Extents of a window in the operand.
    window: Vec<i64>,
}

impl Plan {
    fn of(module: &HloModule, inst: HloInst<'_>) -> Option<Plan> {
        let Attrs::Scatter { dims, .. } = inst.attrs() else { return None };
        let n = inst.operands().len() / 2;
        let array = |k: usize| module.inst(*inst.operands().get(k)?).shape().array().cloned();
        let operands: Option<Vec<ArrayShape>> = (0..n).map(array).collect();
        let (operands, indices, update) = (operands?, array(n)?, array(n + 1)?.dims);
        let rank = operands.first()?.rank();
        let mut window = vec![1; rank];
        let skipped = |d: &i64| dims.inserted_window_dims.contains(d) || dims.input_batching_dims.contains(d);
        let kept = (0..rank as i64).filter(|d| !skipped(d));
        for (d, u) in kept.zip(&dims.update_window_dims) {
            window[d as usize] = update[*u as usize];
        }
        let components = indices.dims.get(dims.index_vector_dim as usize).copied().unwrap_or(1);
        let updates = (0..update.len() as i64)
            .filter(|d| !dims.update_window_dims.contains(d))
            .map(|d| update[d as usize])
            .product();
        Some(Plan { dims: (**dims).clone(), operands, indices, update, updates, components, window })
    }

    /// Components that are written to index rows: the given ones, then positions along batching dimensions.
    fn width(&self) -> i64 {
        self.components + self.dims.input_batching_dims.len() as i64
    }

    fn update_row(&self) -> Vec<i64> {
        self.dims.update_window_dims.iter().map(|d| self.update[*d as usize]).collect()
    }

    fn carry(&self) -> Vec<Shape> {
        let mut out = vec![Shape::Array(ArrayShape::new(HloType::S32, []))];
        out.extend(self.operands.iter().map(|o| Shape::Array(ArrayShape::new(o.ty, o.dims.clone()))));
        out.push(Shape::Array(ArrayShape::new(self.indices.ty, [self.updates, self.width()])));
        for o in &self.operands {
            let mut dims = vec![self.updates];
            dims.extend(self.update_row());
            out.push(Shape::Array(ArrayShape::new(o.ty, dims)));
        }
        out
    }

    /// Indices as `[updates, components]`, batching positions behind the given components.
    fn index_rows(&self, b: &mut Build<'_>, indices: HloId) -> HloId {
        let v = self.dims.index_vector_dim;
        let rank = self.indices.rank() as i64;
        let mut batch: Vec<i64> = self.indices.dims.clone();
        let rows = if v < rank {
            let mut order: Vec<i64> = (0..rank).filter(|d| *d != v).collect();
            batch.remove(v as usize);
            order.push(v);
            let turned = b.transpose(indices, &order);
            b.reshape(turned, &[self.updates, self.components])
        } else {
            b.reshape(indices, &[self.updates, self.components])
        };
        let mut parts = vec![rows];
        for d in &self.dims.scatter_indices_batching_dims {
            let at = if *d > v { d - 1 } else { *d };
            let places = b.iota(self.indices.ty, &batch, at as usize);
            parts.push(b.reshape(places, &[self.updates, 1]));
        }
        b.concatenate(&parts, 1)
    }

    /// Updates as `[updates, window..]`.
    fn update_rows(&self, b: &mut Build<'_>, updates: HloId) -> HloId {
        let rank = self.update.len() as i64;
        let mut order: Vec<i64> = (0..rank).filter(|d| !self.dims.update_window_dims.contains(d)).collect();
        order.extend(&self.dims.update_window_dims);
        let turned = b.transpose(updates, &order);
        let mut dims = vec![self.updates];
        dims.extend(self.update_row());
        b.reshape(turned, &dims)
    }

    /// One update: `(i, operands.., indices, updates..) -> (i + 1, ..)`.
    fn body(&self, b: &mut Build<'_>, by: CompId, carry: HloId) -> HloId {
        let n = self.operands.len();
        let i = b.element(carry, 0);
        let arrays: Vec<HloId> = (0..n).map(|k| b.element(carry, k + 1)).collect();
        let indices = b.element(carry, n + 1);
        let updates: Vec<HloId> = (0..n).map(|k| b.element(carry, n + 2 + k)).collect();
        let zero = b.integer(HloType::S32, 0);
        let ty = self.indices.ty;
        let mut starts = vec![b.integer(ty, 0); self.window.len()];
        let mut inside: Option<HloId> = None;
        let operand_dims = &self.operands[0].dims;
        let mapped = self.dims.scatter_dims_to_operand_dims.iter().chain(&self.dims.input_batching_dims);
        for (c, d) in mapped.enumerate() {
            let component = b.integer(HloType::S32, c as i64);
            let sizes = Attrs::DynamicSlice { sizes: vec![1, 1] };
            let one = b.op(HloOp::DynamicSlice, ty, &[1, 1], &[indices, i, component], sizes);
            let start = b.reshape(one, &[]);
            starts[*d as usize] = start;
            let high = operand_dims[*d as usize] - self.window[*d as usize];
            let low_ok = b.compare_with(Direction::Ge, start, 0.0);
            let high_ok = at_most(b, start, high);
            let mut ok = low_ok;
            if let Some(h) = high_ok {
                ok = b.binary(HloOp::And, ok, h);
            }
            inside = Some(match inside {
                Some(before) => b.binary(HloOp::And, before, ok),
                None => ok,
            });
        }
        let mut olds = Vec::with_capacity(n);
        let mut news = Vec::with_capacity(n);
        for (x, u) in arrays.iter().zip(&updates) {
            let mut operands = vec![*x];
            operands.extend(&starts);
            let sizes = Attrs::DynamicSlice { sizes: self.window.clone() };
            let element = b.ty(*x);
            olds.push(b.op(HloOp::DynamicSlice, element, &self.window, &operands, sizes));
            let mut row = self.update_row();
            row.insert(0, 1);
            let mut operands = vec![*u, i];
            operands.extend(std::iter::repeat_n(zero, row.len() - 1));
            let sizes = Attrs::DynamicSlice { sizes: row.clone() };
            let taken = b.op(HloOp::DynamicSlice, element, &row, &operands, sizes);
            news.push(b.reshape(taken, &self.window));
        }
        let arguments: Vec<HloId> = olds.iter().chain(&news).copied().collect();
        let combined = apply(b, by, &arguments, &self.window);
        let one = b.integer(HloType::S32, 1);
        let mut parts = vec![b.binary(HloOp::Add, i, one)];
        for ((x, old), new) in arrays.iter().zip(&olds).zip(&combined) {
            let value = match inside {
                Some(p) => {
                    let p = b.spread(p, &self.window);
                    b.select(p, *new, *old)
                }
                None => *new,
            };
            let mut operands = vec![*x, value];
            operands.extend(&starts);
            let (element, dims) = (b.ty(*x), b.dims(*x));
            parts.push(b.op(HloOp::DynamicUpdateSlice, element, &dims, &operands, Attrs::None));
        }
        parts.push(indices);
        parts.extend(updates);
        b.tuple(&parts)
    }
}

/// `x <= limit`, if any value of its type is larger.
fn at_most(b: &mut Build<'_>, x: HloId, limit: i64) -> Option<HloId> {
    let bits = b.ty(x).bits();
    let largest = match b.ty(x).is_signed_int() {
        true if bits < 64 => (1i64 << (bits - 1)) - 1,
        false if bits < 63 => (1i64 << bits) - 1,
        _ => i64::MAX,
    };
    if limit >= largest {
        return None;
    }
    let bound = b.like_int(x, limit);
    Some(b.compare(Direction::Le, x, bound))
}
