//! Runtime offsets: dynamic-slice, dynamic-update-slice, gather and scatter.
//!
//! A slice's start clamps to `[0, dim - size]` in the index's own signedness, and so does a gather's window; a scatter's
//! window that is not wholly inside is skipped. Facts: offsets in `spec/hlo.md 7`.

use super::Outcome;
use super::lanes::{self, Lane, with_lane};
use super::movement::transpose;
use super::places::{Places, count, strides};
use super::region::{Callee, Known};
use super::tensor::{Data, Scalar, Tensor, Word, of_scalars, on_words};
use murre_components::dtype::HloType;
use murre_components::hlo::{GatherDims, ScatterDims};
use std::borrow::Cow;
use std::ops::Deref;

/// One element updated for itself costs as much as this many in a pass over all.
const FEW: usize = 16;

/// Index elements as numbers: a `u64` beyond `i64` is huge, not negative.
fn index_values(t: &Tensor) -> Vec<i64> {
    let mut values = lanes::all::<i64>(t);
    if t.ty == HloType::U64 {
        values.iter_mut().filter(|v| **v < 0).for_each(|v| *v = i64::MAX);
    }
    values
}

fn clamped(index: i64, extent: usize, size: usize) -> usize {
    index.clamp(0, extent as i64 - size as i64) as usize
}

/// Starts from scalars, or from the one vector of the old form.
fn starts(offsets: &[&Tensor], dims: &[usize], sizes: &[usize]) -> Vec<usize> {
    let values: Vec<i64> = offsets.iter().flat_map(|t| index_values(t)).collect();
    let value = |d: usize| values.get(d).copied().unwrap_or(0);
    (0..dims.len()).map(|d| clamped(value(d), dims[d], sizes[d])).collect()
}

/// The box of these sizes at the clamped start.
pub(crate) fn dynamic_slice(a: &Tensor, offsets: &[&Tensor], sizes: &[usize]) -> Tensor {
    let start = starts(offsets, &a.dims, sizes);
    Tensor::new(a.ty, sizes.to_vec(), a.data.pick(sizes, &Places::within(&a.dims, &start)))
}

/// `a` with `update` written at the clamped start; in place when nobody else holds `a`.
pub(crate) fn dynamic_update_slice(a: &mut Tensor, update: &Tensor, offsets: &[&Tensor]) {
    let start = starts(offsets, &a.dims, &update.dims);
    let to = Places::within(&a.dims, &start);
    a.data.put(&update.dims, &to, &update.data, &Places::whole(&update.dims));
}

/// The starts of all windows: for each batch index in row-major order, one number a dimension of the operand.
struct Starts {
    values: Vec<i64>,
    rank: usize,
    batches: usize,
}

impl Starts {
    /// `map` says which dimension each element of an index vector is for; batching dimensions pair `own` with `theirs`.
    fn new(
        indices: &Tensor,
        rank: usize,
        vector_dim: i64,
        map: &[i64],
        own: &[i64],
        theirs: &[i64],
    ) -> Starts {
        let vector = vector_dim as usize;
        let batch: Vec<usize> = (0..indices.dims.len()).filter(|d| *d != vector).collect();
        let dims: Vec<usize> = batch.iter().map(|d| indices.dims[*d]).collect();
        let batches = count(&dims);
        // The index vectors one behind the other.
        let flat = if vector < indices.dims.len() && vector + 1 != indices.dims.len() {
            let mut order = batch.clone();
            order.push(vector);
            index_values(&transpose(indices, &order))
        } else {
            index_values(indices)
        };
        let mut values = vec![0; batches * rank];
        if !map.is_empty() && rank > 0 {
            for (row, index) in values.chunks_exact_mut(rank).zip(flat.chunks_exact(map.len())) {
                map.iter().zip(index).for_each(|(d, i)| row[*d as usize] = *i);
            }
        }
        for (d, i) in own.iter().zip(theirs) {
            let position = if *i > vector_dim { i - 1 } else { *i } as usize;
            let (stride, n) = (strides(&dims)[position], dims[position]);
            for (b, row) in values.chunks_exact_mut(rank.max(1)).enumerate() {
                row[*d as usize] = ((b / stride) % n) as i64;
            }
        }
        Starts { values, rank, batches }
    }

    fn of(&self, batch: usize) -> &[i64] {
        &self.values[batch * self.rank..(batch + 1) * self.rank]
    }
}

/// Dimensions of the operand that a window keeps.
fn kept(rank: usize, gone: [&[i64]; 2]) -> Vec<usize> {
    (0..rank).filter(|d| !gone.iter().any(|list| list.contains(&(*d as i64)))).collect()
}

/// Places inside a window, relative to its start.
fn window_places(dims: &[usize], sizes: &[usize]) -> Vec<usize> {
    Places::whole(dims).list(sizes)
}

/// A gather.
pub(crate) fn gather(a: &Tensor, indices: &Tensor, g: &GatherDims) -> Tensor {
    let rank = a.dims.len();
    let starts = Starts::new(
        indices,
        rank,
        g.index_vector_dim,
        &g.start_index_map,
        &g.operand_batching_dims,
        &g.start_indices_batching_dims,
    );
    let sizes: Vec<usize> = g.slice_sizes.iter().map(|s| *s as usize).collect();
    let kept = kept(rank, [&g.collapsed_slice_dims, &g.operand_batching_dims]);
    let vector = g.index_vector_dim as usize;
    let mut dims: Vec<usize> =
        (0..indices.dims.len()).filter(|d| *d != vector).map(|d| indices.dims[d]).collect();
    let batch_rank = dims.len();
    dims.extend(kept.iter().map(|d| sizes[*d]));
    let steps = strides(&a.dims);
    let bases: Vec<usize> = (0..if count(&dims) == 0 { 0 } else { starts.batches })
        .map(|b| {
            let start = starts.of(b).iter().enumerate();
            start.map(|(d, i)| clamped(*i, a.dims[d], sizes[d]) * steps[d]).sum()
        })
        .collect();
    let data = windows_at(&a.data, &bases, &window_places(&a.dims, &sizes));
    let result = Tensor::new(a.ty, dims, data);
    // Offset dimensions may stand anywhere among the batch dimensions.
    let mut order = vec![0; batch_rank + kept.len()];
    let (mut batches, mut windows) = (0..batch_rank, batch_rank..batch_rank + kept.len());
    for (d, slot) in order.iter_mut().enumerate() {
        let next = if g.offset_dims.contains(&(d as i64)) { windows.next() } else { batches.next() };
        *slot = next.unwrap_or(0);
    }
    if order.iter().enumerate().all(|(d, o)| d == *o) { result } else { transpose(&result, &order) }
}

/// The windows at these bases, one behind the other.
fn windows_at(data: &Data, bases: &[usize], offsets: &[usize]) -> Data {
    fn words<W: Word>(source: &[W], bases: &[usize], offsets: &[usize]) -> Data {
        let mut out = Vec::with_capacity(bases.len() * offsets.len());
        let run = offsets.iter().enumerate().all(|(i, o)| i == *o);
        for base in bases {
            if run {
                out.extend_from_slice(&source[*base..base + offsets.len()]);
            } else {
                out.extend(offsets.iter().map(|o| source[base + o]));
            }
        }
        W::data(out)
    }
    on_words!(data, v => words(v, bases, offsets))
}

/// Indices and updates cut to the windows that both have, and the updates to their windows' sizes.
pub(crate) fn live_updates<'a>(
    indices: &'a Tensor,
    updates: &[&'a Tensor],
    s: &ScatterDims,
) -> (Cow<'a, Tensor>, Vec<Cow<'a, Tensor>>) {
    let mut own = indices.extents();
    let places: Vec<usize> = (0..own.len()).filter(|d| *d as i64 != s.index_vector_dim).collect();
    let rows = |u: &Tensor| {
        (0..u.dims.len()).filter(|d| !s.update_window_dims.contains(&(*d as i64))).collect::<Vec<_>>()
    };
    for u in updates {
        for (d, row) in places.iter().zip(rows(u)) {
            own[*d] = own[*d].min(u.extents()[row]);
        }
    }
    let cut = |u: &&'a Tensor| {
        let mut extents = u.extents();
        places.iter().zip(rows(u)).for_each(|(d, row)| extents[row] = own[*d]);
        u.cut_to(&extents)
    };
    let updates = updates.iter().map(cut).collect();
    (indices.cut_to(&own), updates)
}

/// A scatter into `arrays`: window by window in index order; the computation gets the old values and the updates.
pub(crate) fn scatter(
    callee: &mut Callee<'_, '_>,
    arrays: &mut [Tensor],
    indices: &Tensor,
    updates: &[impl Deref<Target = Tensor>],
    s: &ScatterDims,
) -> Outcome<()> {
    let (Some(dims), Some(update)) = (arrays.first().map(|a| a.dims.clone()), updates.first()) else {
        return Ok(());
    };
    let rank = dims.len();
    let starts = Starts::new(
        indices,
        rank,
        s.index_vector_dim,
        &s.scatter_dims_to_operand_dims,
        &s.input_batching_dims,
        &s.scatter_indices_batching_dims,
    );
    // The updates window by window.
    let is_window = |d: &usize| s.update_window_dims.contains(&(*d as i64));
    let (windows, batch): (Vec<usize>, Vec<usize>) = (0..update.dims.len()).partition(is_window);
    let order = [batch, windows.clone()].concat();
    let updates: Vec<Tensor> = updates.iter().map(|u| transpose(u, &order)).collect();
    // Extent of the window in each operand dimension.
    let mut extent = vec![1usize; rank];
    let kept = kept(rank, [&s.inserted_window_dims, &s.input_batching_dims]);
    kept.iter().zip(&windows).for_each(|(d, w)| extent[*d] = update.dims[*w]);
    let offsets = window_places(&dims, &extent);
    let steps = strides(&dims);
    let inside = |start: &[i64]| {
        (0..rank).all(|d| start[d] >= 0 && start[d].saturating_add(extent[d] as i64) <= dims[d] as i64)
    };
    let batches = match offsets.len() {
        0 => 0,
        n => updates.iter().map(|u| u.data.len() / n).fold(starts.batches, usize::min),
    };
    // Each window that is inside: its number and the place of its start.
    let bases: Vec<(usize, usize)> = (0..batches)
        .filter(|b| inside(starts.of(*b)))
        .map(|b| (b, starts.of(b).iter().zip(&steps).map(|(i, s)| *i as usize * s).sum()))
        .collect();
    callee.machine.work((bases.len() * offsets.len()) as u64)?;
    match (callee.region.known, arrays, updates.as_slice()) {
        (Known::Second, [a], [u]) => overwrite(&mut a.data, &u.data, &bases, &offsets),
        (Known::Binary(op), [a], [u]) => {
            let done = with_lane!(a.ty, L => {
                let rule = L::binary(op, a.ty);
                if let Some(rule) = rule {
                    combine::<L>(a, u, &bases, &offsets, rule);
                }
                rule.is_some()
            });
            if !done {
                return Err(callee.machine.unsupported_here(op.name()));
            }
        }
        (_, arrays, updates) => return each(callee, arrays, updates, &bases, &offsets),
    }
    Ok(())
}

fn overwrite(data: &mut Data, updates: &Data, bases: &[(usize, usize)], offsets: &[usize]) {
    fn words<W: Word>(to: &mut [W], updates: &Data, bases: &[(usize, usize)], offsets: &[usize]) {
        let from = W::slice(updates);
        for (batch, base) in bases {
            let row = &from[batch * offsets.len()..];
            offsets.iter().zip(row).for_each(|(o, u)| to[base + o] = *u);
        }
    }
    on_words!(data, v => words(v, updates, bases, offsets));
}

fn combine<L: Lane>(
    a: &mut Tensor,
    updates: &Tensor,
    bases: &[(usize, usize)],
    offsets: &[usize],
    rule: fn(L, L) -> L,
) {
    let (ty, from) = (a.ty, lanes::all::<L>(updates));
    let each = |visit: &mut dyn FnMut(usize, L)| {
        for (batch, base) in bases {
            offsets.iter().zip(&from[batch * offsets.len()..]).for_each(|(o, u)| visit(base + o, *u));
        }
    };
    // A few elements of a large array are worth no pass over all of it.
    if bases.len() * offsets.len() * FEW < a.data.len() {
        each(&mut |place, u| {
            let mut old = [L::ZERO];
            L::load(a, place, &mut old);
            set(a, place, rule(old[0], u).scalar());
        });
        return;
    }
    let mut to = lanes::all::<L>(a);
    each(&mut |place, u| to[place] = rule(to[place], u).fit(ty));
    *a = lanes::tensor(ty, a.dims.clone(), &to);
}

/// Any computation, element by element.
fn each(
    callee: &mut Callee<'_, '_>,
    arrays: &mut [Tensor],
    updates: &[Tensor],
    bases: &[(usize, usize)],
    offsets: &[usize],
) -> Outcome<()> {
    let mut args = Vec::with_capacity(2 * arrays.len());
    for (batch, base) in bases {
        for (w, o) in offsets.iter().enumerate() {
            let place = base + o;
            args.clear();
            args.extend(arrays.iter().map(|a| a.get(place)));
            args.extend(updates.iter().map(|u| u.get(batch * offsets.len() + w)));
            let results = callee.call(&args)?;
            arrays.iter_mut().zip(results).for_each(|(a, v)| set(a, place, *v));
        }
    }
    Ok(())
}

fn set(a: &mut Tensor, place: usize, value: Scalar) {
    let one = of_scalars(a.ty, Vec::new(), &[value]);
    let to = Places { base: place as isize, step: Vec::new() };
    a.data.put(&[], &to, &one.data, &Places::whole(&[]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use HloType::*;

    fn ints(ty: HloType, dims: &[usize], values: &[i64]) -> Tensor {
        lanes::tensor(ty, dims.to_vec(), values)
    }

    #[test]
    fn starts_clamp_in_their_own_signedness() {
        let a = ints(S32, &[5], &[0, 1, 2, 3, 4]);
        let at = |ty, i| lanes::all::<i64>(&dynamic_slice(&a, &[&ints(ty, &[], &[i])], &[2]));
        assert_eq!(at(S32, -3), [0, 1]);
        assert_eq!(at(S8, 2), [2, 3]);
        assert_eq!(at(U32, -1), [3, 4], "a huge unsigned index");
        assert_eq!(at(U64, i64::MIN), [3, 4]);
        let mut b = a.clone();
        dynamic_update_slice(&mut b, &ints(S32, &[2], &[8, 9]), &[&ints(S64, &[], &[99])]);
        assert_eq!(lanes::all::<i64>(&b), [0, 1, 2, 8, 9]);
    }

    #[test]
    fn gathered_windows_clamp_and_offset_dims_may_come_first() {
        let a = ints(S32, &[3, 2], &[0, 1, 10, 11, 20, 21]);
        let g = |offset_dims: &[i64]| GatherDims {
            offset_dims: offset_dims.to_vec(),
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 1,
            slice_sizes: vec![1, 2],
            ..GatherDims::default()
        };
        let indices = ints(S32, &[3], &[2, -5, 7]);
        assert_eq!(lanes::all::<i64>(&gather(&a, &indices, &g(&[1]))), [20, 21, 0, 1, 20, 21]);
        assert_eq!(lanes::all::<i64>(&gather(&a, &indices, &g(&[0]))), [20, 0, 20, 21, 1, 21]);
    }

    #[test]
    fn batching_dims_walk_with_the_indices() {
        let a = ints(S32, &[2, 3], &[0, 1, 2, 10, 11, 12]);
        let g = GatherDims {
            start_index_map: vec![1],
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            index_vector_dim: 1,
            slice_sizes: vec![1, 1],
            ..GatherDims::default()
        };
        assert_eq!(lanes::all::<i64>(&gather(&a, &ints(S32, &[2], &[2, 0]), &g)), [2, 10]);
    }

    #[test]
    fn a_few_updates_and_many_give_the_same() {
        let updates = ints(U8, &[2], &[200, 100]);
        let bases = [(0, 3), (1, 3)];
        let of = |n: usize| {
            let mut a = ints(U8, &[n], &vec![1; n]);
            combine::<i64>(&mut a, &updates, &bases, &[0], |x, y| x + y);
            lanes::all::<i64>(&a)
        };
        let (few, many) = (of(100), of(5));
        assert_eq!((&few[..5], many.as_slice()), ([1, 1, 1, 45, 1].as_slice(), [1, 1, 1, 45, 1].as_slice()));
    }
}
