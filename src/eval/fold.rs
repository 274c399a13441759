//! Reductions over elements: reduce, reduce-window and select-and-scatter.
//!
//! A float sum is taken in `f64`, block by block, and rounded once: a long sequential sum in the element's own type
//! would be far off (`spec/hlo.md 7`). Any other computation is applied in order, the accumulator first, and rounds at
//! every step.

use super::Outcome;
use super::lanes::{self, BLOCK, Lane, with_lane};
use super::movement::transpose;
use super::places::{count, count_up};
use super::region::{Callee, Known};
use super::tensor::{Scalar, Tensor, of_scalars};
use super::window::{Taps, Windows};
use murre_components::dtype::HloType;
use murre_components::hlo::{HloOp, WindowDim};
use std::ops::Deref;

/// One known operation on the lanes of one type.
#[derive(Clone, Copy)]
struct Combine<L> {
    rule: fn(L, L) -> L,
    ty: HloType,
    /// Float sums round once, at the end.
    late: bool,
}

impl<L: Lane> Combine<L> {
    fn of(known: Known, ty: HloType) -> Option<Self> {
        let Known::Binary(op) = known else { return None };
        Some(Combine { rule: L::binary(op, ty)?, ty, late: op == HloOp::Add })
    }

    #[inline]
    fn join(&self, acc: L, x: L) -> L {
        let value = (self.rule)(acc, x);
        if self.late { value } else { value.fit(self.ty) }
    }

    /// Folds lanes into an accumulator; a sum in eight partial ones, which also bounds its error.
    fn fold(&self, acc: L, lanes: &[L]) -> L {
        if !self.late || lanes.len() < 16 {
            return lanes.iter().fold(acc, |acc, x| self.join(acc, *x));
        }
        let (chunks, rest) = lanes.as_chunks::<8>();
        let mut part = [L::ZERO; 8];
        for chunk in chunks {
            part.iter_mut().zip(chunk).for_each(|(p, x)| *p = p.plus(*x));
        }
        let total = part.iter().chain(rest).fold(L::ZERO, |sum, x| sum.plus(*x));
        self.join(acc, total)
    }
}

/// The dimensions as three: kept ones, reduced ones, kept ones. `None` when they alternate more often.
fn three(dims: &[usize], reduced: &[bool]) -> Option<[usize; 3]> {
    let mut out = [1usize; 3];
    let mut part = 0;
    for (n, r) in dims.iter().zip(reduced) {
        if *n == 1 {
            continue;
        }
        match (part, r) {
            (0, true) => part = 1,
            (1, false) => part = 2,
            (2, true) => return None,
            _ => {}
        }
        out[part] = out[part].checked_mul(*n)?;
    }
    Some(out)
}

/// Reduces the listed dimensions of N arrays of the same extents.
pub(crate) fn reduce(
    callee: &mut Callee<'_, '_>,
    arrays: &[impl Deref<Target = Tensor>],
    inits: &[Scalar],
    dims: &[i64],
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let rank = first.dims.len();
    let reduced: Vec<bool> = (0..rank).map(|d| dims.contains(&(d as i64))).collect();
    let (inner, kept): (Vec<usize>, Vec<usize>) = (0..rank).partition(|d| reduced[*d]);
    let kept_dims: Vec<usize> = kept.iter().map(|d| first.dims[*d]).collect();
    let inner_count = count(&inner.iter().map(|d| first.dims[*d]).collect::<Vec<_>>());
    callee.machine.work(first.data.len() as u64)?;
    let order = [kept, inner].concat();
    if let ([a], [init]) = (arrays, inits) {
        let done = with_lane!(a.ty, L => Combine::<L>::of(callee.region.known, a.ty).map(|combine| {
            let init = L::of(*init);
            let out = match three(&a.dims, &reduced) {
                Some(shape) if count(&a.dims) > 0 => columns(a, shape, init, &combine),
                _ => columns(&transpose(a, &order), [count(&kept_dims), inner_count, 1], init, &combine),
            };
            lanes::tensor(a.ty, kept_dims.clone(), &out)
        }));
        if let Some(done) = done {
            return Ok(vec![done]);
        }
    }
    // Any computation: the elements of each result one behind the other.
    let rows: Vec<Box<Tensor>> = arrays.iter().map(|a| Box::new(transpose(a, &order))).collect();
    let mut results: Vec<Vec<Scalar>> = vec![Vec::with_capacity(count(&kept_dims)); arrays.len()];
    for row in 0..count(&kept_dims) {
        let acc = fold_any(callee, &rows, inits.to_vec(), row * inner_count..(row + 1) * inner_count)?;
        results.iter_mut().zip(acc).for_each(|(r, v)| r.push(v));
    }
    Ok(arrays.iter().zip(&results).map(|(a, r)| of_scalars(a.ty, kept_dims.clone(), r)).collect())
}

/// Folds elements of N arrays into N accumulators, in order.
fn fold_any(
    callee: &mut Callee<'_, '_>,
    arrays: &[impl Deref<Target = Tensor>],
    mut acc: Vec<Scalar>,
    places: impl Iterator<Item = usize>,
) -> Outcome<Vec<Scalar>> {
    let mut args = Vec::with_capacity(2 * arrays.len());
    for place in places {
        args.clear();
        args.extend_from_slice(&acc);
        args.extend(arrays.iter().map(|a| a.get(place)));
        acc.clear();
        acc.extend_from_slice(callee.call(&args)?);
    }
    Ok(acc)
}

/// Folds the middle one of three dimensions.
fn columns<L: Lane>(t: &Tensor, [outer, n, inner]: [usize; 3], init: L, combine: &Combine<L>) -> Vec<L> {
    let mut block = [L::ZERO; BLOCK];
    let mut out = vec![init; outer * inner];
    if inner == 1 {
        for (row, acc) in out.iter_mut().enumerate() {
            for at in (0..n).step_by(BLOCK) {
                let part = &mut block[..BLOCK.min(n - at)];
                L::load(t, row * n + at, part);
                *acc = combine.fold(*acc, part);
            }
        }
        return out;
    }
    for (o, accs) in out.chunks_exact_mut(inner.max(1)).enumerate() {
        for row in 0..n {
            let start = (o * n + row) * inner;
            for (accs, at) in accs.chunks_mut(BLOCK).zip((0..inner).step_by(BLOCK)) {
                let part = &mut block[..accs.len()];
                L::load(t, start + at, part);
                accs.iter_mut().zip(&*part).for_each(|(acc, x)| *acc = combine.join(*acc, *x));
            }
        }
    }
    out
}

/// Folds what lies under each window; padding is skipped.
pub(crate) fn reduce_window(
    callee: &mut Callee<'_, '_>,
    arrays: &[impl Deref<Target = Tensor>],
    inits: &[Scalar],
    window: &[WindowDim],
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let windows = Windows::new(&first.dims, window);
    if let ([a], [init]) = (arrays, inits) {
        let done = with_lane!(a.ty, L => match Combine::<L>::of(callee.region.known, a.ty) {
            Some(combine) => {
                let values = lanes::all::<L>(a);
                let folded = sweep(callee, &windows, window, L::of(*init), |_, acc, dims, step, base| {
                    Ok(fold_box(&combine, acc, &values, dims, step, base))
                })?;
                Some(lanes::tensor(a.ty, windows.dims.clone(), &folded))
            }
            None => None,
        });
        if let Some(done) = done {
            return Ok(vec![done]);
        }
    }
    let folded = sweep(callee, &windows, window, inits.to_vec(), |callee, acc, dims, step, base| {
        let places = super::places::Places { base, step: step.to_vec() }.list(dims);
        fold_any(callee, arrays, acc, places.into_iter())
    })?;
    let column = |k: usize| folded.iter().map(|row| row[k]).collect::<Vec<_>>();
    Ok((0..arrays.len()).map(|k| of_scalars(arrays[k].ty, windows.dims.clone(), &column(k))).collect())
}

fn fold_box<L: Lane>(
    combine: &Combine<L>,
    mut acc: L,
    values: &[L],
    dims: &[usize],
    step: &[isize],
    base: isize,
) -> L {
    let (Some((&n, outer)), Some(&last)) = (dims.split_last(), step.last()) else {
        return combine.join(acc, values[base as usize]);
    };
    if dims.contains(&0) {
        return acc;
    }
    let mut index = vec![0; outer.len()];
    loop {
        let at = base + index.iter().zip(step).map(|(i, s)| *i as isize * s).sum::<isize>();
        if last == 1 {
            acc = combine.fold(acc, &values[at as usize..at as usize + n]);
        } else {
            acc = (0..n as isize).fold(acc, |acc, i| combine.join(acc, values[(at + i * last) as usize]));
        }
        if outer.is_empty() || !count_up(&mut index, outer) {
            return acc;
        }
    }
}

/// The fold of every window. Where only one dimension has windows of more than an element, and a window holds all that
/// the one before it (or, for operations whose order does not matter, behind it) holds and more, only what is new is
/// folded in: a running sum then takes one step an element.
fn sweep<A: Clone>(
    callee: &mut Callee<'_, '_>,
    windows: &Windows,
    window: &[WindowDim],
    init: A,
    mut fold: impl FnMut(&mut Callee<'_, '_>, A, &[usize], &[isize], isize) -> Outcome<A>,
) -> Outcome<Vec<A>> {
    let total = count(&windows.dims);
    let mut out = vec![init.clone(); total];
    if total == 0 {
        return Ok(out);
    }
    let mut wide = (0..window.len()).filter(|d| window[*d].size > 1);
    let line = match (wide.next(), wide.next()) {
        (Some(d), None) => Some(d),
        _ => None,
    };
    let commutes = matches!(callee.region.known, Known::Binary(_));
    let strides = super::places::strides(&windows.dims);
    let (mut dims, mut step) = (vec![0; window.len()], vec![0isize; window.len()]);
    let mut box_under = |at: &[usize], part: Option<(usize, Taps)>| {
        let base = windows.under(at, part, &mut dims, &mut step);
        (dims.clone(), step.clone(), base)
    };
    let mut index = vec![0; window.len()];
    let mut outer = windows.dims.clone();
    if let Some(d) = line {
        outer[d] = 1;
    }
    loop {
        let place: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        let Some(d) = line else {
            let (dims, step, base) = box_under(&index, None);
            callee.machine.work(count(&dims) as u64 + 1)?;
            out[place] = fold(callee, init.clone(), &dims, &step, base)?;
            if !count_up(&mut index, &outer) {
                return Ok(out);
            }
            continue;
        };
        let n = windows.dims[d];
        let backward = commutes && n > 1 && grows_backward(windows.taps(d, 0), windows.taps(d, 1));
        let mut before: Option<(Taps, usize)> = None;
        for k in 0..n {
            let at = if backward { n - 1 - k } else { k };
            index[d] = at;
            let taps = windows.taps(d, at);
            let (acc, part) = match &before {
                Some((b, place))
                    if !backward && b.first == taps.first && b.count <= taps.count && b.count > 0 =>
                {
                    (out[*place].clone(), taps.skip(b.count))
                }
                Some((b, place)) if backward && grows_backward(taps, *b) && b.count > 0 => {
                    (out[*place].clone(), Taps { count: taps.count - b.count, ..taps })
                }
                _ => (init.clone(), taps),
            };
            let (dims, step, base) = box_under(&index, Some((d, part)));
            callee.machine.work(count(&dims) as u64 + 1)?;
            let here = place + at * strides[d];
            out[here] = fold(callee, acc, &dims, &step, base)?;
            before = Some((taps, here));
        }
        index[d] = 0;
        if !count_up(&mut index, &outer) {
            return Ok(out);
        }
    }
}

/// Whether `taps` ends where `next` ends and begins no later.
fn grows_backward(taps: Taps, next: Taps) -> bool {
    let end = |t: Taps| t.first + (t.count as isize - 1) * t.step;
    taps.step == next.step && taps.count >= next.count && end(taps) == end(next)
}

/// Scatters each source element to the element that its window selects.
pub(crate) fn select(
    callee: &mut Callee<'_, '_>,
    a: &Tensor,
    window: &[WindowDim],
) -> Outcome<Vec<Option<usize>>> {
    let windows = Windows::new(&a.dims, window);
    let mut chosen = Vec::with_capacity(count(&windows.dims));
    let mut index = vec![0; window.len()];
    let (mut dims, mut step) = (vec![0; window.len()], vec![0isize; window.len()]);
    if count(&windows.dims) == 0 {
        return Ok(chosen);
    }
    loop {
        let base = windows.under(&index, None, &mut dims, &mut step);
        let places = super::places::Places { base, step: step.clone() }.list(&dims);
        callee.machine.work(places.len() as u64 + 1)?;
        let mut best: Option<(usize, Scalar)> = None;
        for p in places {
            let x = a.get(p);
            let keep = match best {
                Some((_, b)) => callee.call_one(&[b, x])?.is_true(),
                None => false,
            };
            if !keep {
                best = Some((p, x));
            }
        }
        chosen.push(best.map(|(p, _)| p));
        if !count_up(&mut index, &windows.dims) {
            return Ok(chosen);
        }
    }
}

/// Adds each source element to the chosen element, by the computation given.
pub(crate) fn scatter_chosen(
    callee: &mut Callee<'_, '_>,
    chosen: &[Option<usize>],
    a: &Tensor,
    source: &Tensor,
    init: Scalar,
) -> Outcome<Tensor> {
    let mut out = vec![init; a.data.len()];
    for (i, place) in chosen.iter().enumerate() {
        if let Some(p) = *place {
            out[p] = callee.call_one(&[out[p], source.get(i)])?;
        }
    }
    Ok(of_scalars(a.ty, a.dims.clone(), &out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_fold_into_three() {
        assert_eq!(three(&[2, 3, 4], &[false, true, true]), Some([2, 12, 1]));
        assert_eq!(three(&[2, 3, 4], &[true, true, false]), Some([1, 6, 4]));
        assert_eq!(three(&[2, 1, 4], &[true, false, true]), Some([1, 8, 1]));
        assert_eq!(three(&[2, 3, 4], &[true, false, true]), None);
    }

    #[test]
    fn a_sum_rounds_once_and_a_product_at_each_step() {
        let sum = Combine::<f64>::of(Known::Binary(HloOp::Add), HloType::Bf16);
        let total = sum.map(|c| c.fold(0.0, &vec![1.0; 1000]).fit(HloType::Bf16));
        assert_eq!(total, Some(1000.0), "in bf16 it would stop at 256");
        let product = Combine::<f64>::of(Known::Binary(HloOp::Multiply), HloType::F32);
        let of = product.map(|c| c.fold(1.0, &[1e30, 1e30, 1e-30]));
        assert_eq!(of, Some(f64::INFINITY));
    }

    #[test]
    fn columns_and_rows_agree() {
        let values: Vec<f64> = (0..2 * 700 * 3).map(|i| f64::from(i % 11)).collect();
        let t = lanes::tensor(HloType::F32, vec![2, 700, 3], &values);
        let Some(max) = Combine::<f64>::of(Known::Binary(HloOp::Maximum), HloType::F32) else { return };
        let Some(add) = Combine::<f64>::of(Known::Binary(HloOp::Add), HloType::F32) else { return };
        for combine in [max, add] {
            let direct = columns(&t, [2, 700, 3], 0.0, &combine);
            let turned = columns(&transpose(&t, &[0, 2, 1]), [6, 700, 1], 0.0, &combine);
            assert_eq!(direct, turned);
        }
    }
}
