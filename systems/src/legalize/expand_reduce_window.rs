//! `expand_reduce_window`: windows are boxes and the computation is associative, so dimensions are reduced one after the
//! other. Along one, combinations of 1, 2, 4 ... neighbours are made by doubling and put together to the window's size: a
//! window of w costs about 2 log w array operations, which makes cumulative sums cheap.
//!
//! ```text
//! reduce-window(x[n]) size=3  ->  p2 = add(x[0:n-1], x[1:n]) ; add(x[0:n-2], p2[1:n-1])
//! ```
//!
//! Facts: `spec/hlo.md 7`; positions that padding or dilation adds do not count.

use super::build::{Build, Expander, expand_all};
use super::region::{apply, is_associative, is_elementwise, monoid};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloModule, HloOp, OpSet, WindowDim};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn expand_reduce_window(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut ReduceWindow { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

struct ReduceWindow<'m> {
    module: &'m HloModule,
}

impl Expander for ReduceWindow<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::ReduceWindow])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        inst.op == HloOp::ReduceWindow
            && inst.called().first().is_some_and(|c| is_elementwise(self.module, *c))
            && inst.shape().leaves().iter().all(|s| s.array().is_some_and(|a| a.elements() > 0))
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Window(window) = inst.attrs() else { return None };
        let by = b.out.computations[inst.called().first()?.index()];
        let n = operands.len() / 2;
        let (arrays, inits) = operands.split_at(n);
        let side = |f: fn(&WindowDim) -> i64| -> Vec<i64> { window.iter().map(f).collect() };
        let (low, high) = (side(|w| w.pad_low), side(|w| w.pad_high));
        let holes = side(|w| w.base_dilation - 1);
        // Positions that padding or dilation adds are no elements: they must not count, whatever the initial value is.
        let added = [&low, &high, &holes].iter().any(|side| side.iter().any(|n| *n != 0));
        let one = monoid(self.module, *inst.called().first()?).filter(|_| n == 1);
        let grouped = is_associative(self.module, *inst.called().first()?) && (one.is_some() || !added);
        let mut values: Vec<HloId> = Vec::with_capacity(n);
        for (x, init) in arrays.iter().zip(inits) {
            let filler = match one {
                Some(op) => neutral(b, op, b.ty(*x)),
                None => *init,
            };
            values.push(b.pad(*x, filler, &low, &high, &holes));
        }
        let result = if grouped {
            for (d, w) in window.iter().enumerate() {
                values = along(b, by, values, d, w);
            }
            let dims = b.dims(values[0]);
            let starts: Vec<HloId> = inits.iter().map(|i| b.spread(*i, &dims)).collect();
            let arguments: Vec<HloId> = starts.into_iter().chain(values).collect();
            apply(b, by, &arguments, &dims)
        } else {
            let real = added.then(|| {
                let (yes, no) = (b.constant(HloType::Pred, 1.0), b.constant(HloType::Pred, 0.0));
                let dims = b.dims(arrays[0]);
                let ones = b.spread(yes, &dims);
                b.pad(ones, no, &low, &high, &holes)
            });
            in_order(b, by, &values, real, inits, window)?
        };
        Some(if n == 1 && inst.shape().array().is_some() { result[0] } else { b.tuple(&result) })
    }
}

/// What an operation leaves everything as it is with.
fn neutral(b: &mut Build<'_>, op: HloOp, ty: HloType) -> HloId {
    let bits = i64::from(ty.bits().min(63));
    let (lowest, highest) = match ty {
        HloType::Pred => (0, 1),
        t if t.is_signed_int() && bits < 63 => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        t if t.is_signed_int() => (i64::MIN, i64::MAX),
        _ => (0, if bits < 63 { (1i64 << bits) - 1 } else { -1 }),
    };
    match op {
        HloOp::Multiply => b.integer(ty, 1),
        HloOp::And if ty == HloType::Pred => b.integer(ty, 1),
        HloOp::And => b.integer(ty, -1),
        HloOp::Maximum if ty.is_float() => b.constant(ty, f64::NEG_INFINITY),
        HloOp::Minimum if ty.is_float() => b.constant(ty, f64::INFINITY),
        HloOp::Maximum => b.integer(ty, lowest),
        HloOp::Minimum => b.integer(ty, highest),
        // -0 keeps a sum of negative zeros what it is.
        HloOp::Add if ty.is_float() => b.constant(ty, -0.0),
        _ => b.integer(ty, 0),
    }
}

/// Most window positions that are taken one by one.
const MAX_POSITIONS: i64 = 1024;

/// A computation that is not known to combine in any grouping sees the positions of its window in order; those that are
/// not `real` are passed over.
fn in_order(
    b: &mut Build<'_>,
    by: CompId,
    values: &[HloId],
    real: Option<HloId>,
    inits: &[HloId],
    window: &[WindowDim],
) -> Option<Vec<HloId>> {
    let padded = b.dims(values[0]);
    let reach = |w: &WindowDim| (w.size - 1) * w.window_dilation;
    let out: Vec<i64> =
        window.iter().zip(&padded).map(|(w, n)| (n - reach(w) - 1).div_euclid(w.stride) + 1).collect();
    let positions: i64 = window.iter().map(|w| w.size).product();
    if positions > MAX_POSITIONS {
        return None;
    }
    let stride: Vec<i64> = window.iter().map(|w| w.stride).collect();
    let mut result: Vec<HloId> = inits.iter().map(|i| b.spread(*i, &out)).collect();
    for p in 0..positions {
        let (mut rest, mut start) = (p, vec![0; window.len()]);
        for (d, w) in window.iter().enumerate().rev() {
            start[d] = rest % w.size * w.window_dilation;
            rest /= w.size;
        }
        let limit: Vec<i64> = (0..window.len()).map(|d| start[d] + (out[d] - 1) * stride[d] + 1).collect();
        let seen: Vec<HloId> = values.iter().map(|v| b.slice(*v, &start, &limit, &stride)).collect();
        let arguments: Vec<HloId> = result.iter().copied().chain(seen).collect();
        let mut next = apply(b, by, &arguments, &out);
        if let Some(real) = real {
            let here = b.slice(real, &start, &limit, &stride);
            for (n, old) in next.iter_mut().zip(&result) {
                *n = b.select(here, *n, *old);
            }
        }
        result = next;
    }
    Some(result)
}

/// Windows along one dimension.
fn along(b: &mut Build<'_>, by: CompId, x: Vec<HloId>, d: usize, w: &WindowDim) -> Vec<HloId> {
    let length = b.dims(x[0])[d];
    let reach = (w.size - 1) * w.window_dilation;
    let out = if length <= reach { 0 } else { (length - reach - 1) / w.stride + 1 };
    let last = (out - 1) * w.stride + 1;
    let part = |b: &mut Build<'_>, v: &[HloId], from: i64| -> Vec<HloId> {
        let from = from * w.window_dilation;
        v.iter().map(|v| b.slice_dim(*v, d, from, from + last, w.stride)).collect()
    };
    let join = |b: &mut Build<'_>, a: Vec<HloId>, c: Vec<HloId>| -> Vec<HloId> {
        let dims = b.dims(a[0]);
        let arguments: Vec<HloId> = a.into_iter().chain(c).collect();
        apply(b, by, &arguments, &dims)
    };
    let (mut power, mut size) = (x, 1);
    let (mut done, mut covered): (Option<Vec<HloId>>, i64) = (None, 0);
    loop {
        if w.size & size != 0 {
            let next = part(b, &power, covered);
            done = Some(match done {
                Some(before) => join(b, before, next),
                None => next,
            });
            covered += size;
        }
        if covered == w.size {
            return done.unwrap_or_default();
        }
        // Twice as many neighbours.
        let length = b.dims(power[0])[d] - size * w.window_dilation;
        let near: Vec<HloId> = power.iter().map(|v| b.slice_dim(*v, d, 0, length, 1)).collect();
        let far = size * w.window_dilation;
        let beyond: Vec<HloId> = power.iter().map(|v| b.slice_dim(*v, d, far, far + length, 1)).collect();
        power = join(b, near, beyond);
        size *= 2;
    }
}
