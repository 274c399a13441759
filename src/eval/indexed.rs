//! Runtime offsets: dynamic-slice, dynamic-update-slice, gather and scatter.
//!
//! A slice's start clamps to `[0, dim - size]` in the index's own signedness, and so does a gather's window; a scatter's
//! window that is not wholly inside is skipped. Facts: offsets in `spec/hlo.md 7`.

use super::Outcome;
use super::tensor::{Data, Places, Scalar, Tensor, count_up, strides};
use murre_components::hlo::{GatherDims, ScatterDims};

/// An index element as a number: `u64` values beyond `i64` are huge, not negative.
fn index_value(t: &Tensor, i: usize) -> i128 {
    let raw = t.data.get(i).int();
    if t.ty.is_signed_int() { raw.into() } else { (raw as u64).into() }
}

fn clamped(index: i128, extent: usize, size: usize) -> usize {
    index.clamp(0, extent as i128 - size as i128) as usize
}

/// Starts from scalars, or from the one vector of the old form.
pub(crate) fn starts(offsets: &[&Tensor], dims: &[usize], sizes: &[usize]) -> Vec<usize> {
    let value = |d: usize| match offsets {
        [vector] if vector.data.len() == dims.len() => index_value(vector, d),
        scalars => index_value(scalars[d], 0),
    };
    (0..dims.len()).map(|d| clamped(value(d), dims[d], sizes[d])).collect()
}

/// The box of these sizes at the clamped start.
pub(crate) fn dynamic_slice(a: &Tensor, offsets: &[&Tensor], sizes: &[usize]) -> Tensor {
    let start = starts(offsets, &a.dims, sizes);
    Tensor::new(a.ty, sizes.to_vec(), a.data.pick(Places::of_box(sizes, &start, &a.dims)))
}

/// `a` with `update` written at the clamped start; in place when nobody else holds `a`.
pub(crate) fn dynamic_update_slice(a: &mut Tensor, update: &Tensor, offsets: &[&Tensor]) {
    let start = starts(offsets, &a.dims, &update.dims);
    a.data.put(Places::of_box(&update.dims, &start, &a.dims), &update.data);
}

/// The start vector at a batch index: place of its element `k` in the indices.
fn index_place(indices: &Tensor, batch: &[usize], vector_dim: usize, k: usize) -> usize {
    let s = strides(&indices.dims);
    let mut batch = batch.iter();
    (0..indices.dims.len())
        .map(|d| s[d] * if d == vector_dim { k } else { *batch.next().unwrap_or(&0) })
        .sum()
}

/// Position of indices dimension `d` among the batch dimensions.
fn batch_position(d: i64, vector_dim: i64) -> usize {
    (if d > vector_dim { d - 1 } else { d }) as usize
}

/// A gather.
pub(crate) fn gather(a: &Tensor, indices: &Tensor, g: &GatherDims) -> Tensor {
    let rank = a.dims.len();
    let vector = g.index_vector_dim as usize;
    let batch_dims: Vec<usize> =
        (0..indices.dims.len()).filter(|d| *d != vector).map(|d| indices.dims[d]).collect();
    let gone = |d: usize| {
        g.collapsed_slice_dims.contains(&(d as i64)) || g.operand_batching_dims.contains(&(d as i64))
    };
    let kept: Vec<usize> = (0..rank).filter(|d| !gone(*d)).collect();
    let out_rank = batch_dims.len() + kept.len();
    let is_offset: Vec<bool> = (0..out_rank).map(|d| g.offset_dims.contains(&(d as i64))).collect();
    let (mut windows, mut batches) = (kept.iter(), batch_dims.iter());
    let dims: Vec<usize> = is_offset
        .iter()
        .map(|offset| match offset {
            true => windows.next().map_or(1, |d| g.slice_sizes[*d] as usize),
            false => *batches.next().unwrap_or(&1),
        })
        .collect();
    let s = strides(&a.dims);
    let mut index = vec![0; out_rank];
    let mut places = Vec::with_capacity(dims.iter().product());
    for _ in 0..dims.iter().product() {
        let batch: Vec<usize> = (0..out_rank).filter(|d| !is_offset[*d]).map(|d| index[d]).collect();
        let mut start = vec![0usize; rank];
        for (k, d) in g.start_index_map.iter().enumerate() {
            let d = *d as usize;
            let raw = index_value(indices, index_place(indices, &batch, vector, k));
            start[d] = clamped(raw, a.dims[d], g.slice_sizes[d] as usize);
        }
        for (d, i) in g.operand_batching_dims.iter().zip(&g.start_indices_batching_dims) {
            start[*d as usize] = batch[batch_position(*i, g.index_vector_dim)];
        }
        let offsets = (0..out_rank).filter(|d| is_offset[*d]).map(|d| index[d]);
        for (d, offset) in kept.iter().zip(offsets) {
            start[*d] += offset;
        }
        places.push(start.iter().zip(&s).map(|(i, s)| i * s).sum());
        count_up(&mut index, &dims);
    }
    Tensor::new(a.ty, dims, a.data.pick(places.into_iter()))
}

/// A scatter into `arrays`, in index order; `combine` gets the old values and the updates.
pub(crate) fn scatter(
    arrays: &mut [Tensor],
    indices: &Tensor,
    updates: &[Tensor],
    s: &ScatterDims,
    mut combine: impl FnMut(&[Scalar], &[Scalar]) -> Outcome<Vec<Scalar>>,
) -> Outcome<()> {
    let (Some(dims), Some(update)) = (arrays.first().map(|a| a.dims.clone()), updates.first()) else {
        return Ok(());
    };
    let rank = dims.len();
    let vector = s.index_vector_dim as usize;
    let gone = |d: usize| {
        s.inserted_window_dims.contains(&(d as i64)) || s.input_batching_dims.contains(&(d as i64))
    };
    let kept: Vec<usize> = (0..rank).filter(|d| !gone(*d)).collect();
    let is_window: Vec<bool> =
        (0..update.dims.len()).map(|d| s.update_window_dims.contains(&(d as i64))).collect();
    // Extent of the window in each operand dimension.
    let mut extent = vec![1usize; rank];
    let window_extents = (0..is_window.len()).filter(|d| is_window[*d]).map(|d| update.dims[d]);
    kept.iter().zip(window_extents).for_each(|(d, n)| extent[*d] = n);
    let steps = strides(&dims);
    let mut index = vec![0; update.dims.len()];
    for i in 0..update.data.len() {
        let batch: Vec<usize> = (0..index.len()).filter(|d| !is_window[*d]).map(|d| index[d]).collect();
        let mut start = vec![0i128; rank];
        for (k, d) in s.scatter_dims_to_operand_dims.iter().enumerate() {
            start[*d as usize] = index_value(indices, index_place(indices, &batch, vector, k));
        }
        for (d, b) in s.input_batching_dims.iter().zip(&s.scatter_indices_batching_dims) {
            start[*d as usize] = batch[batch_position(*b, s.index_vector_dim)] as i128;
        }
        let inside = (0..rank).all(|d| start[d] >= 0 && start[d] + extent[d] as i128 <= dims[d] as i128);
        if inside {
            let mut place: usize = start.iter().zip(&steps).map(|(p, s)| *p as usize * s).sum();
            let offsets = (0..index.len()).filter(|d| is_window[*d]).map(|d| index[d]);
            place += kept.iter().zip(offsets).map(|(d, o)| o * steps[*d]).sum::<usize>();
            let old: Vec<Scalar> = arrays.iter().map(|a| a.data.get(place)).collect();
            let new: Vec<Scalar> = updates.iter().map(|u| u.data.get(i)).collect();
            for (a, v) in arrays.iter_mut().zip(combine(&old, &new)?) {
                a.data.set(place, v);
            }
        }
        count_up(&mut index, &update.dims);
    }
    Ok(())
}

/// The `k` largest (or smallest) of each row in total order, ties by the lower index, with their indices.
pub(crate) fn topk(a: &Tensor, k: usize, largest: bool) -> (Tensor, Tensor) {
    let n = a.dims.last().copied().unwrap_or(1);
    let mut dims = a.dims.clone();
    dims.pop();
    let rows: usize = dims.iter().product();
    dims.push(k);
    let (mut values, mut indices) = (Data::new(a.ty), Vec::new());
    let key = |i: usize| match a.data.get(i) {
        Scalar::Float(f) => i128::from(super::scalar::total_key(f)),
        other if a.ty.is_signed_int() => other.int().into(),
        other => (other.int() as u64).into(),
    };
    for row in 0..rows {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|i| if largest { -key(row * n + i) } else { key(row * n + i) });
        for i in order.into_iter().take(k) {
            values.push(a.data.get(row * n + i));
            indices.push(i as i64);
        }
    }
    let places = Tensor::new(murre_components::dtype::HloType::S32, dims.clone(), Data::Int(indices));
    (Tensor::new(a.ty, dims, values), places)
}
