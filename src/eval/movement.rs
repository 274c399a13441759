//! Data movement: every kernel is a choice of source places. Results are static arrays; run-time sizes are the caller's.

use super::tensor::{Data, Places, Scalar, Tensor, count_up, strides};
use crate::hlo::infer::window_extent;
use murre_components::hlo::WindowDim;

fn signed(steps: Vec<usize>) -> Vec<isize> {
    steps.into_iter().map(|s| s as isize).collect()
}

/// `a` spread to `to`; operand dimension `i` lies at result dimension `dims[i]`.
pub(crate) fn broadcast(a: &Tensor, to: &[usize], dims: &[i64]) -> Tensor {
    let mut step = vec![0isize; to.len()];
    for (i, s) in strides(&a.dims).into_iter().enumerate() {
        step[dims[i] as usize] = s as isize;
    }
    Tensor::new(a.ty, to.to_vec(), a.data.pick(Places::new(to, 0, step)))
}

/// Result dimension `i` is operand dimension `order[i]`.
pub(crate) fn transpose(a: &Tensor, order: &[usize]) -> Tensor {
    let s = strides(&a.dims);
    let dims: Vec<usize> = order.iter().map(|d| a.dims[*d]).collect();
    let step = order.iter().map(|d| s[*d] as isize).collect();
    let data = a.data.pick(Places::new(&dims, 0, step));
    Tensor::new(a.ty, dims, data)
}

/// Every `stride`-th element from `start`, `to` elements a dimension.
pub(crate) fn slice(a: &Tensor, to: &[usize], start: &[usize], stride: &[usize]) -> Tensor {
    let s = strides(&a.dims);
    let base = start.iter().zip(&s).map(|(i, s)| i * s).sum();
    let step = stride.iter().zip(&s).map(|(i, s)| (i * s) as isize).collect();
    Tensor::new(a.ty, to.to_vec(), a.data.pick(Places::new(to, base, step)))
}

/// The listed dimensions backwards.
pub(crate) fn reverse(a: &Tensor, dims: &[i64]) -> Tensor {
    let mut step = signed(strides(&a.dims));
    let mut base = 0;
    for d in dims {
        let d = *d as usize;
        base += step[d] as usize * a.dims[d].saturating_sub(1);
        step[d] = -step[d];
    }
    Tensor::new(a.ty, a.dims.clone(), a.data.pick(Places::new(&a.dims, base, step)))
}

/// The arrays behind each other along dimension `d`.
pub(crate) fn concatenate(parts: &[Tensor], d: usize) -> Option<Tensor> {
    let first = parts.first()?;
    let mut dims = first.dims.clone();
    dims[d] = parts.iter().map(|p| p.dims[d]).sum();
    let mut data = Data::filled(first.ty, Scalar::zero(first.ty), dims.iter().product());
    let mut start = vec![0; dims.len()];
    for part in parts {
        data.put(Places::of_box(&part.dims, &start, &dims), &part.data);
        start[d] += part.dims[d];
    }
    Some(Tensor::new(first.ty, dims, data))
}

/// Interior padding first, then the edges; negative edges cut.
pub(crate) fn pad(a: &Tensor, fill: Scalar, low: &[i64], high: &[i64], interior: &[i64]) -> Tensor {
    let rank = a.dims.len();
    let extent = |d: usize| {
        let n = a.dims[d] as i64;
        (n + (n - 1).max(0) * interior[d] + low[d] + high[d]).max(0) as usize
    };
    let dims: Vec<usize> = (0..rank).map(extent).collect();
    let mut data = Data::filled(a.ty, fill, dims.iter().product());
    let s = strides(&dims);
    let mut index = vec![0; rank];
    for i in 0..a.data.len() {
        let place = (0..rank).try_fold(0usize, |at, d| {
            let p = index[d] as i64 * (interior[d] + 1) + low[d];
            (0..dims[d] as i64).contains(&p).then(|| at + p as usize * s[d])
        });
        if let Some(place) = place {
            data.set(place, a.data.get(i));
        }
        count_up(&mut index, &a.dims);
    }
    Tensor::new(a.ty, dims, data)
}

/// Where the elements of each window lie: calls `visit(window, places)` for every result element in order; a place is
/// `None` where the window covers padding or a hole of the base.
pub(crate) fn windows(
    dims: &[usize],
    window: &[WindowDim],
    mut visit: impl FnMut(usize, &[Option<usize>]),
) -> Vec<usize> {
    let rank = dims.len();
    let out: Vec<usize> =
        (0..rank).map(|d| window_extent(dims[d] as i64, &window[d]).max(0) as usize).collect();
    let sizes: Vec<usize> = window.iter().map(|w| w.size as usize).collect();
    let s = strides(dims);
    let mut at = vec![0; rank];
    let mut places = Vec::with_capacity(sizes.iter().product());
    for i in 0..out.iter().product() {
        places.clear();
        let mut k = vec![0; rank];
        loop {
            places.push((0..rank).try_fold(0usize, |sum, d| {
                window_place(at[d], k[d], &window[d], dims[d]).map(|p| sum + p * s[d])
            }));
            if !count_up(&mut k, &sizes) {
                break;
            }
        }
        visit(i, &places);
        count_up(&mut at, &out);
    }
    out
}

/// The base element under window element `k` of the window at `at`.
pub(crate) fn window_place(at: usize, k: usize, w: &WindowDim, extent: usize) -> Option<usize> {
    let k = if w.reversal { w.size - 1 - k as i64 } else { k as i64 };
    let p = at as i64 * w.stride + k * w.window_dilation - w.pad_low;
    if p < 0 || p % w.base_dilation != 0 {
        return None;
    }
    let p = (p / w.base_dilation) as usize;
    (p < extent).then_some(p)
}
