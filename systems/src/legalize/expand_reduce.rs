//! `expand_reduce`: a reduction that no record knows (several operands, or a computation that is not one of the machine's)
//! combines halves of its operands until one element is left; 8- and 16-bit integers reduce as 32-bit ones. A computation
//! that is not known to combine in any grouping sees its elements one by one, in a loop.
//!
//! ```text
//! (m, i) = reduce(x[8], iota[8])  ->  c4 = f(x[0:4], i[0:4], x[4:8], i[4:8]) ; c2 = f(c4[0:2] .., c4[2:4] ..) ; ..
//! ```
//!
//! Facts: `spec/hlo.md 7`: the order of combination is free.

use super::build::{Build, Expander, computation, expand_all};
use super::rebuild::Rebuild;
use super::region::{apply, is_associative, is_elementwise, monoid, reduces_natively};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn expand_reduce(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut Reduce { module: &module, wide: Vec::new(), loops: Vec::new() });
    if let Some(new) = new {
        *module = new;
    }
}

struct Reduce<'m> {
    module: &'m HloModule,
    /// Computations on 32 bits by operation and type.
    wide: Vec<(HloOp, HloType, CompId)>,
    /// Condition and body of the reductions that take their elements one by one.
    loops: Vec<(HloId, (CompId, CompId))>,
}

impl Reduce<'_> {
    /// The operation and the 32-bit type of a reduction of narrow integers.
    fn widened(&self, inst: HloInst<'_>) -> Option<(HloOp, HloType)> {
        let op = monoid(self.module, *inst.called().first()?)?;
        let ty = inst.shape().array()?.ty;
        let wide = match ty {
            HloType::S8 | HloType::S16 => HloType::S32,
            HloType::U8 | HloType::U16 => HloType::U32,
            _ => return None,
        };
        Some((op, wide))
    }
}

impl Expander for Reduce<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Reduce])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        if inst.op != HloOp::Reduce {
            return false;
        }
        let Some(by) = inst.called().first() else { return false };
        let native = inst.shape().array().is_some_and(|s| reduces_natively(self.module, *by, s.ty));
        let wide = inst.shape().leaves().iter().any(|s| s.array().is_some_and(|a| a.ty.bytes() == 8));
        !native && !wide && is_elementwise(self.module, *by)
    }

    fn prepare(&mut self, old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) {
        if inst.called().first().is_some_and(|by| !is_associative(self.module, *by)) {
            if let Some(l) = prepare_loop(old, inst, out) {
                self.loops.push((inst.id, l));
            }
            return;
        }
        let Some((op, ty)) = self.widened(inst) else { return };
        if !self.wide.iter().any(|w| (w.0, w.1) == (op, ty)) {
            let scalar = Shape::Array(ArrayShape::new(ty, []));
            let name = format!("reduce.{}.{}", op.name(), ty.name());
            let by =
                computation(out, &name, &[scalar.clone(), scalar], inst, |b, p| b.binary(op, p[0], p[1]));
            self.wide.push((op, ty, by));
        }
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Dimensions(reduced) = inst.attrs() else { return None };
        let n = operands.len() / 2;
        let (arrays, inits) = operands.split_at(n);
        if let Some((op, ty)) = self.widened(inst) {
            let by = self.wide.iter().find(|w| (w.0, w.1) == (op, ty))?.2;
            let narrow = b.ty(arrays[0]);
            let (x, init) = (b.convert(arrays[0], ty), b.convert(inits[0], ty));
            let sum = b.reduce(x, init, reduced, by);
            return Some(b.convert(sum, narrow));
        }
        let by = b.out.computations[inst.called().first()?.index()];
        let dims = b.dims(arrays[0]);
        let kept: Vec<i64> = (0..dims.len() as i64).filter(|d| !reduced.contains(d)).collect();
        let result: Vec<i64> = kept.iter().map(|d| dims[*d as usize]).collect();
        let count: i64 = reduced.iter().map(|d| dims[*d as usize]).product();
        let starts: Vec<HloId> = inits.iter().map(|i| b.spread(*i, &result)).collect();
        let leaves = if count == 0 || result.contains(&0) {
            starts
        } else {
            let order: Vec<i64> = kept.iter().chain(reduced).copied().collect();
            let mut flat = result.clone();
            flat.push(count);
            let rows: Vec<HloId> = arrays
                .iter()
                .map(|x| {
                    let turned = b.transpose(*x, &order);
                    b.reshape(turned, &flat)
                })
                .collect();
            if let Some((condition, body)) = self.loops.iter().find(|l| l.0 == inst.id).map(|l| l.1) {
                one_by_one(b, &starts, &rows, condition, body)
            } else {
                let folded = halve(b, by, rows, count);
                let folded: Vec<HloId> = folded.iter().map(|x| b.reshape(*x, &result)).collect();
                let arguments: Vec<HloId> = starts.into_iter().chain(folded).collect();
                apply(b, by, &arguments, &result)
            }
        };
        Some(if inst.shape().array().is_some() { *leaves.first()? } else { b.tuple(&leaves) })
    }
}

/// The carry of a reduction that takes its elements one by one: trip, results so far, operands as rows.
fn carry(old: &HloModule, inst: HloInst<'_>) -> Option<(Vec<Shape>, Vec<i64>, i64)> {
    let Attrs::Dimensions(reduced) = inst.attrs() else { return None };
    let n = inst.operands().len() / 2;
    let arrays: Option<Vec<&ArrayShape>> =
        inst.operands()[..n].iter().map(|o| old.inst(*o).shape().array()).collect();
    let arrays = arrays?;
    let dims = &arrays.first()?.dims;
    let kept: Vec<i64> =
        (0..dims.len() as i64).filter(|d| !reduced.contains(d)).map(|d| dims[d as usize]).collect();
    let count = reduced.iter().map(|d| dims[*d as usize]).product();
    let mut rows = kept.clone();
    rows.push(count);
    let mut out = vec![Shape::Array(ArrayShape::new(HloType::S32, []))];
    out.extend(arrays.iter().map(|a| Shape::Array(ArrayShape::new(a.ty, kept.clone()))));
    out.extend(arrays.iter().map(|a| Shape::Array(ArrayShape::new(a.ty, rows.clone()))));
    Some((out, kept, count))
}

/// Condition and body of the loop over the elements.
fn prepare_loop(old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) -> Option<(CompId, CompId)> {
    let (shapes, kept, count) = carry(old, inst)?;
    let by = out.computations[inst.called().first()?.index()];
    let n = inst.operands().len() / 2;
    let tuple = [Shape::Tuple(shapes)];
    let name = |what: &str| format!("{}.{what}", inst.name());
    let condition = computation(out, &name("condition"), &tuple, inst, |b, p| {
        let i = b.element(p[0], 0);
        let limit = b.integer(HloType::S32, count);
        b.compare(Direction::Lt, i, limit)
    });
    let body = computation(out, &name("body"), &tuple, inst, |b, p| {
        let i = b.element(p[0], 0);
        let zero = b.integer(HloType::S32, 0);
        let results: Vec<HloId> = (0..n).map(|k| b.element(p[0], 1 + k)).collect();
        let rows: Vec<HloId> = (0..n).map(|k| b.element(p[0], 1 + n + k)).collect();
        let mut size = kept.clone();
        size.push(1);
        let mut arguments = results;
        for row in &rows {
            let mut operands = vec![*row];
            operands.extend(std::iter::repeat_n(zero, kept.len()));
            operands.push(i);
            let ty = b.ty(*row);
            let sizes = Attrs::DynamicSlice { sizes: size.clone() };
            let one = b.op(HloOp::DynamicSlice, ty, &size, &operands, sizes);
            arguments.push(b.reshape(one, &kept));
        }
        let next = apply(b, by, &arguments, &kept);
        let one = b.integer(HloType::S32, 1);
        let mut parts = vec![b.binary(HloOp::Add, i, one)];
        parts.extend(next);
        parts.extend(rows);
        b.tuple(&parts)
    });
    Some((condition, body))
}

/// Runs the loop: a computation that is no known combination sees its elements in order.
fn one_by_one(
    b: &mut Build<'_>,
    starts: &[HloId],
    rows: &[HloId],
    condition: CompId,
    body: CompId,
) -> Vec<HloId> {
    let mut parts = vec![b.integer(HloType::S32, 0)];
    parts.extend(starts);
    parts.extend(rows);
    let start = b.tuple(&parts);
    let shape = b.out.module.inst(start).shape().clone();
    let done = b.any(HloOp::While, shape, &[start], &[body, condition], Attrs::None);
    (0..starts.len()).map(|k| b.element(done, 1 + k)).collect()
}

/// Combines the elements of the last dimension until one is left. Only neighbours meet, the earlier one first, so that a
/// computation for which order matters (the first of several NaNs) sees them in order.
fn halve(b: &mut Build<'_>, by: CompId, mut x: Vec<HloId>, count: i64) -> Vec<HloId> {
    let d = b.dims(x[0]).len() - 1;
    let part = |b: &mut Build<'_>, x: &[HloId], from: i64, to: i64, step: i64| -> Vec<HloId> {
        x.iter().map(|v| b.slice_dim(*v, d, from, to, step)).collect()
    };
    let join = |b: &mut Build<'_>, left: Vec<HloId>, right: Vec<HloId>| {
        let dims = b.dims(left[0]);
        let arguments: Vec<HloId> = left.into_iter().chain(right).collect();
        apply(b, by, &arguments, &dims)
    };
    // To a power of two first: as many pairs at the front as there are elements too many.
    let mut n = 1i64 << (63 - (count as u64).leading_zeros());
    if n < count {
        let pairs = 2 * (count - n);
        let (even, odd) = (part(b, &x, 0, pairs, 2), part(b, &x, 1, pairs, 2));
        let front = join(b, even, odd);
        let rest = part(b, &x, pairs, count, 1);
        x = front.into_iter().zip(rest).map(|(f, r)| b.concatenate(&[f, r], d)).collect();
    }
    while n > 1 {
        let (even, odd) = (part(b, &x, 0, n, 2), part(b, &x, 1, n, 2));
        x = join(b, even, odd);
        n /= 2;
    }
    x
}
