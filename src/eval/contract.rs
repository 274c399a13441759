//! Dot and convolution: products are accumulated in `f64` (integers wrap) and rounded once.

use super::movement::{transpose, window_place};
use super::tensor::{Data, Scalar, Tensor, count_up, strides, wrap};
use crate::array::float::round_to;
use crate::hlo::infer::window_extent;
use murre_components::dtype::HloType;
use murre_components::hlo::{ConvDims, DotDims, WindowDim};

fn finish(ty: HloType, value: Scalar) -> Scalar {
    match value {
        Scalar::Int(i) => Scalar::Int(wrap(ty, i)),
        Scalar::Float(f) => Scalar::Float(round_to(ty, f)),
        Scalar::Complex([re, im]) => {
            let part = if ty == HloType::C64 { HloType::F32 } else { HloType::F64 };
            Scalar::Complex([round_to(part, re), round_to(part, im)])
        }
    }
}

/// Sum of products of `n` element pairs.
fn products(a: &Data, b: &Data, pairs: impl Iterator<Item = (usize, usize)>) -> Scalar {
    match (a, b) {
        (Data::Float(a), Data::Float(b)) => Scalar::Float(pairs.fold(0.0, |sum, (i, j)| sum + a[i] * b[j])),
        (Data::Int(a), Data::Int(b)) => {
            Scalar::Int(pairs.fold(0i64, |sum, (i, j)| sum.wrapping_add(a[i].wrapping_mul(b[j]))))
        }
        _ => Scalar::Complex(pairs.fold([0.0, 0.0], |[re, im], (i, j)| {
            let ([x, y], [u, v]) = (a.get(i).complex(), b.get(j).complex());
            [re + x * u - y * v, im + x * v + y * u]
        })),
    }
}

/// Batch dimensions, then the left's free ones, then the right's.
pub(crate) fn dot(a: &Tensor, b: &Tensor, d: &DotDims, ty: HloType) -> Tensor {
    let order = |t: &Tensor, batch: &[i64], contracting: &[i64]| {
        let batch: Vec<usize> = batch.iter().map(|d| *d as usize).collect();
        let inner: Vec<usize> = contracting.iter().map(|d| *d as usize).collect();
        let free: Vec<usize> =
            (0..t.dims.len()).filter(|d| !batch.contains(d) && !inner.contains(d)).collect();
        let count = |dims: &[usize]| dims.iter().map(|d| t.dims[*d]).product::<usize>();
        let (b, f, k) = (count(&batch), count(&free), count(&inner));
        let dims: Vec<usize> = free.iter().map(|d| t.dims[*d]).collect();
        (transpose(t, &[batch, free, inner].concat()), b, f, k, dims)
    };
    let (left, batches, rows, inner, left_dims) = order(a, &d.lhs_batch, &d.lhs_contracting);
    let (right, _, columns, _, right_dims) = order(b, &d.rhs_batch, &d.rhs_contracting);
    let mut dims: Vec<usize> = d.lhs_batch.iter().map(|d| a.dims[*d as usize]).collect();
    dims.extend(left_dims);
    dims.extend(right_dims);
    let mut data = Data::new(ty);
    for batch in 0..batches {
        for row in 0..rows {
            let i = (batch * rows + row) * inner;
            for column in 0..columns {
                let j = (batch * columns + column) * inner;
                let sum = products(&left.data, &right.data, (0..inner).map(|k| (i + k, j + k)));
                data.push(finish(ty, sum));
            }
        }
    }
    Tensor::new(ty, dims, data)
}

/// A convolution with any labels, dilations, groups and reversal.
pub(crate) fn convolution(
    a: &Tensor,
    kernel: &Tensor,
    window: &[WindowDim],
    c: &ConvDims,
    (feature_groups, batch_groups): (usize, usize),
    ty: HloType,
) -> Tensor {
    let n = window.len();
    let (sa, sk) = (strides(&a.dims), strides(&kernel.dims));
    let at = |d: i64| d as usize;
    let batch = a.dims[at(c.input_batch)] / batch_groups;
    let inner = kernel.dims[at(c.kernel_input_feature)];
    let outer = kernel.dims[at(c.kernel_output_feature)];
    let mut dims = vec![0; n + 2];
    dims[at(c.output_batch)] = batch;
    dims[at(c.output_feature)] = outer;
    for (i, w) in window.iter().enumerate() {
        dims[at(c.output_spatial[i])] =
            window_extent(a.dims[at(c.input_spatial[i])] as i64, w).max(0) as usize;
    }
    let sizes: Vec<usize> = window.iter().map(|w| w.size as usize).collect();
    let mut data = Data::new(ty);
    let mut index = vec![0; n + 2];
    let mut pairs = Vec::new();
    for _ in 0..dims.iter().product() {
        let (b, f) = (index[at(c.output_batch)], index[at(c.output_feature)]);
        let feature_base = f / (outer / feature_groups).max(1) * inner;
        let b = b + f / (outer / batch_groups).max(1) * batch;
        pairs.clear();
        let mut k = vec![0; n];
        loop {
            let place = (0..n).try_fold((0, 0), |(i, j), d| {
                let extent = a.dims[at(c.input_spatial[d])];
                let p = window_place(index[at(c.output_spatial[d])], k[d], &window[d], extent)?;
                // The window element of a reversed window is the kernel's own element.
                Some((i + p * sa[at(c.input_spatial[d])], j + k[d] * sk[at(c.kernel_spatial[d])]))
            });
            if let Some((i, j)) = place {
                for z in 0..inner {
                    let i = i + b * sa[at(c.input_batch)] + (feature_base + z) * sa[at(c.input_feature)];
                    let j = j + z * sk[at(c.kernel_input_feature)] + f * sk[at(c.kernel_output_feature)];
                    pairs.push((i, j));
                }
            }
            if !count_up(&mut k, &sizes) {
                break;
            }
        }
        data.push(finish(ty, products(&a.data, &kernel.data, pairs.iter().copied())));
        count_up(&mut index, &dims);
    }
    Tensor::new(ty, dims, data)
}
