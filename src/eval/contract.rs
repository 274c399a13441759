//! Dot and convolution: products are accumulated in the widest lanes (integers wrap) and rounded once.

use super::lanes::{self, Lane, with_lane};
use super::matmul::{TILE, Target, multiply};
use super::movement::transpose;
use super::places::{Places, count, count_up, strides};
use super::tensor::Tensor;
use super::window::Windows;
use murre_components::dtype::HloType;
use murre_components::hlo::{ConvDims, DotDims, WindowDim};
use std::borrow::Cow;

fn usizes(values: &[i64]) -> Vec<usize> {
    values.iter().map(|v| *v as usize).collect()
}

/// One side of a dot as matrices, one a batch: lines are free indices.
struct Side<'a> {
    tensor: Cow<'a, Tensor>,
    batches: usize,
    lines: usize,
    inner: usize,
    free: Vec<usize>,
    /// Whether the inner index moves faster than the line.
    inner_last: bool,
}

impl<'a> Side<'a> {
    fn new(t: &'a Tensor, batch: &[i64], contracting: &[i64]) -> Self {
        let (batch, inner) = (usizes(batch), usizes(contracting));
        let free: Vec<usize> =
            (0..t.dims.len()).filter(|d| !batch.contains(d) && !inner.contains(d)).collect();
        let extents = |dims: &[usize]| dims.iter().map(|d| t.dims[*d]).collect::<Vec<_>>();
        let plain = |order: &[usize]| order.iter().enumerate().all(|(i, d)| i == *d);
        let lines_first = [batch.clone(), free.clone(), inner.clone()].concat();
        let inner_first = [batch.clone(), inner.clone(), free.clone()].concat();
        let inner_last = !plain(&inner_first);
        let order = if inner_last { lines_first } else { inner_first };
        let (batches, inner) = (count(&extents(&batch)), count(&extents(&inner)));
        let free = extents(&free);
        let tensor = if plain(&order) { Cow::Borrowed(t) } else { Cow::Owned(transpose(t, &order)) };
        Side { tensor, batches, lines: count(&free), inner, free, inner_last }
    }

    /// Fills `inner` times [`TILE`] lanes with the lines from `first` on.
    fn pack<L: Lane>(&self, batch: usize, first: usize, to: &mut [L]) {
        let n = TILE.min(self.lines - first);
        let step = if self.inner_last { [1, self.inner as isize] } else { [self.lines as isize, 1] };
        let base = (batch * self.lines * self.inner) as isize + first as isize * step[1];
        let part = self.tensor.data.pick(&[self.inner, n], &Places { base, step: step.to_vec() });
        let part = Tensor::new(self.tensor.ty, Vec::new(), part);
        if n == TILE {
            L::load(&part, 0, to);
        } else {
            let few = lanes::all::<L>(&part);
            to.chunks_exact_mut(TILE)
                .zip(few.chunks_exact(n))
                .for_each(|(to, few)| to[..n].copy_from_slice(few));
        }
    }
}

/// Batch dimensions, then the left's free ones, then the right's. Each result dimension is as long as the shorter of
/// those that make it: a run-time size cuts.
pub(crate) fn dot(a: &Tensor, b: &Tensor, d: &DotDims, ty: HloType) -> Tensor {
    let left = Side::new(a, &d.lhs_batch, &d.lhs_contracting);
    let right = Side::new(b, &d.rhs_batch, &d.rhs_contracting);
    let mut dims: Vec<usize> = d.lhs_batch.iter().map(|d| a.dims[*d as usize]).collect();
    dims.extend(&left.free);
    dims.extend(&right.free);
    with_lane!(ty, L => {
        let mut out = vec![L::ZERO; count(&dims)];
        let size = left.lines * right.lines;
        for batch in 0..if size == 0 { 0 } else { left.batches } {
            let mut to = Target { lanes: &mut out[batch * size..(batch + 1) * size], stride: right.lines };
            multiply(
                [left.lines, right.lines, left.inner],
                |first, to: &mut [L]| left.pack(batch, first, to),
                |first, to: &mut [L]| right.pack(batch, first, to),
                &mut to,
            );
        }
        lanes::tensor(ty, dims, &out)
    })
}

/// Multiplications that a dot takes.
pub(crate) fn dot_work(a: &Tensor, b: &Tensor, d: &DotDims) -> u64 {
    let inner: Vec<usize> =
        d.lhs_contracting.iter().chain(&d.lhs_batch).map(|d| a.dims[*d as usize]).collect();
    (count(&a.dims) as u64).saturating_mul((count(&b.dims) / count(&inner).max(1)) as u64)
}

/// A convolution with any labels, dilations, groups and reversal. Padding and holes take no part: not even a NaN of
/// the kernel reaches a result through them.
pub(crate) fn convolution(
    a: &Tensor,
    kernel: &Tensor,
    window: &[WindowDim],
    c: &ConvDims,
    groups: (usize, usize),
    ty: HloType,
) -> Tensor {
    with_lane!(ty, L => Convolution::<L>::new(a, kernel, window, c, groups).run(ty))
}

/// Multiplications that a convolution takes, at most.
pub(crate) fn convolution_work(kernel: &Tensor, result: &[usize], c: &ConvDims) -> u64 {
    let outer = kernel.dims[c.kernel_output_feature as usize].max(1);
    (count(result) as u64).saturating_mul((count(&kernel.dims) / outer) as u64)
}

struct Convolution<'a, L> {
    input: Vec<L>,
    /// The kernel as a matrix: a row for each window element and input feature, a column for each output feature.
    kernel: Vec<L>,
    outer: usize,
    /// Input features of a group.
    inner: usize,
    windows: Windows,
    /// Result batches.
    batch: usize,
    groups: (usize, usize),
    steps: Vec<usize>,
    sizes: Vec<usize>,
    c: &'a ConvDims,
}

impl<'a, L: Lane> Convolution<'a, L> {
    fn new(
        a: &Tensor,
        kernel: &Tensor,
        window: &[WindowDim],
        c: &'a ConvDims,
        groups: (usize, usize),
    ) -> Self {
        let spatial: Vec<usize> = c.input_spatial.iter().map(|d| a.dims[*d as usize]).collect();
        let mut order = usizes(&c.kernel_spatial);
        order.extend([c.kernel_input_feature as usize, c.kernel_output_feature as usize]);
        Convolution {
            input: lanes::all(a),
            kernel: lanes::all(&transpose(kernel, &order)),
            outer: kernel.dims[c.kernel_output_feature as usize],
            inner: kernel.dims[c.kernel_input_feature as usize],
            windows: Windows::new(&spatial, window),
            batch: a.dims[c.input_batch as usize] / groups.1.max(1),
            groups,
            steps: strides(&a.dims),
            sizes: window.iter().map(|w| w.size as usize).collect(),
            c,
        }
    }

    fn run(&self, ty: HloType) -> Tensor {
        let positions = count(&self.windows.dims);
        let (rows, taps) = (self.batch * positions, count(&self.sizes) * self.inner);
        let mut out = vec![L::ZERO; rows * self.outer];
        let count = self.groups.0.max(self.groups.1).max(1);
        let columns = self.outer / count;
        let careful = self.kernel.iter().any(|k| !k.is_finite());
        for group in 0..if out.is_empty() { 0 } else { count } {
            let first = group * columns;
            if careful {
                self.one_by_one(group, &mut out);
                continue;
            }
            let mut to = Target { lanes: &mut out[first..], stride: self.outer };
            multiply(
                [rows, columns, taps],
                |row, to: &mut [L]| {
                    for i in 0..TILE.min(rows - row) {
                        self.patch(group, row + i, |k, x| to[k * TILE + i] = x);
                    }
                },
                |column, to: &mut [L]| {
                    let n = TILE.min(columns - column);
                    for (to, from) in to.chunks_exact_mut(TILE).zip(self.kernel.chunks_exact(self.outer)) {
                        to[..n].copy_from_slice(&from[first + column..first + column + n]);
                    }
                },
                &mut to,
            );
        }
        self.labelled(ty, &out)
    }

    /// The input elements under the window of a row, each with its row of the kernel's matrix.
    fn patch(&self, group: usize, row: usize, mut visit: impl FnMut(usize, L)) {
        let n = self.windows.dims.len();
        let step = |d: i64| self.steps[d as usize];
        let mut at = vec![0; n];
        let mut rest = row;
        for d in (0..n).rev() {
            at[d] = rest % self.windows.dims[d];
            rest /= self.windows.dims[d];
        }
        let (batches, features) = (rest + if self.groups.1 > 1 { group * self.batch } else { 0 }, self.inner);
        let feature = if self.groups.0 > 1 { group * features } else { 0 };
        let base = batches * step(self.c.input_batch) + feature * step(self.c.input_feature);
        let taps: Vec<_> = (0..n).map(|d| self.windows.taps(d, at[d])).collect();
        let counts: Vec<usize> = taps.iter().map(|t| t.count).collect();
        if counts.contains(&0) {
            return;
        }
        let mut k = vec![0; n];
        loop {
            let (mut place, mut tap) = (base as isize, 0);
            for (d, t) in taps.iter().enumerate() {
                place += (t.first + k[d] as isize * t.step) * step(self.c.input_spatial[d]) as isize;
                tap = tap * self.sizes[d] + t.tap + k[d] * t.tap_step;
            }
            for z in 0..features {
                visit(tap * features + z, self.input[place as usize + z * step(self.c.input_feature)]);
            }
            if n == 0 || !count_up(&mut k, &counts) {
                return;
            }
        }
    }

    /// Sums over exactly what lies under each window, for kernels with infinities or NaN.
    fn one_by_one(&self, group: usize, out: &mut [L]) {
        let columns = self.outer / self.groups.0.max(self.groups.1).max(1);
        for (row, sums) in out.chunks_exact_mut(self.outer).enumerate() {
            let sums = &mut sums[group * columns..(group + 1) * columns];
            self.patch(group, row, |k, x| {
                let kernel = &self.kernel[k * self.outer + group * columns..];
                sums.iter_mut().zip(kernel).for_each(|(sum, w)| *sum = sum.plus(x.times(*w)));
            });
        }
    }

    /// Batch, positions, features, put where the labels say.
    fn labelled(&self, ty: HloType, lanes: &[L]) -> Tensor {
        let mut dims = vec![self.batch];
        dims.extend(&self.windows.dims);
        dims.push(self.outer);
        let mut order = vec![0; dims.len()];
        order[self.c.output_batch as usize] = 0;
        order[self.c.output_feature as usize] = dims.len() - 1;
        for (i, d) in self.c.output_spatial.iter().enumerate() {
            order[*d as usize] = 1 + i;
        }
        transpose(&lanes::tensor(ty, dims, lanes), &order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(dims: &[usize], values: &[f64]) -> Tensor {
        lanes::tensor(HloType::F32, dims.to_vec(), values)
    }

    #[test]
    fn contracting_dims_may_stand_anywhere() {
        let (a, b) = (floats(&[2, 3], &[1., 2., 3., 4., 5., 6.]), floats(&[3, 2], &[1., 0., 0., 1., 1., 1.]));
        let dims = |l: i64, r: i64| DotDims {
            lhs_contracting: vec![l],
            rhs_contracting: vec![r],
            ..DotDims::default()
        };
        let plain = dot(&a, &b, &dims(1, 0), HloType::F32);
        assert_eq!(lanes::all::<f64>(&plain), [4., 5., 10., 11.]);
        assert_eq!(dot(&transpose(&a, &[1, 0]), &transpose(&b, &[1, 0]), &dims(0, 1), HloType::F32), plain);
        assert_eq!(dot_work(&a, &b, &dims(1, 0)), 12);
        let none = dot(&floats(&[2, 0], &[]), &floats(&[0, 2], &[]), &dims(1, 0), HloType::F32);
        assert_eq!(lanes::all::<f64>(&none), [0.0; 4]);
    }

    #[test]
    fn integers_wrap_in_the_result_s_type() {
        let a = lanes::tensor(HloType::S8, vec![2], &[100i64, 100]);
        let d = DotDims { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDims::default() };
        assert_eq!(lanes::all::<i64>(&dot(&a, &a, &d, HloType::S8)), [32]);
        assert_eq!(lanes::all::<i64>(&dot(&a, &a, &d, HloType::S32)), [20000]);
    }

    #[test]
    fn padding_keeps_a_kernel_s_nan_out() {
        let plain = |size| WindowDim {
            size,
            stride: 1,
            pad_low: 1,
            pad_high: 0,
            window_dilation: 1,
            base_dilation: 1,
            reversal: false,
        };
        let c = ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: vec![2],
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: vec![2],
            output_batch: 0,
            output_feature: 1,
            output_spatial: vec![2],
        };
        let a = floats(&[1, 1, 3], &[1., 2., 3.]);
        let of = |k: [f64; 2]| {
            lanes::all::<f64>(&convolution(
                &a,
                &floats(&[1, 1, 2], &k),
                &[plain(2)],
                &c,
                (1, 1),
                HloType::F32,
            ))
        };
        assert_eq!(of([10., 1.]), [1., 12., 23.]);
        let careful = of([f64::NAN, 1.]);
        assert!(careful[0] == 1.0 && careful[1].is_nan());
    }
}
