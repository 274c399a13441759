//! Batch norm: normalises over all dimensions but one, the feature. Sums are taken in `f64`; each result is rounded once.

use super::lanes;
use super::places::strides;
use super::tensor::Tensor;
use murre_components::hlo::HloOp;

/// The values of an array with the feature of each.
struct Columns {
    values: Vec<f64>,
    stride: usize,
    features: usize,
}

impl Columns {
    fn new(t: &Tensor, feature: usize) -> Columns {
        Columns { values: lanes::all(t), stride: strides(&t.dims)[feature], features: t.dims[feature] }
    }

    fn feature(&self, i: usize) -> usize {
        (i / self.stride.max(1)) % self.features.max(1)
    }

    /// Sums of `f(element, feature)` for each feature.
    fn sums(&self, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.features];
        for i in 0..self.values.len() {
            let column = self.feature(i);
            sums[column] += f(i, column);
        }
        sums
    }

    fn map(&self, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..self.values.len()).map(|i| f(i, self.feature(i))).collect()
    }
}

/// The results of the operation; `None` where the operands do not fit it.
pub(crate) fn batch_norm(op: HloOp, args: &[&Tensor], epsilon: f64, feature: usize) -> Option<Vec<Tensor>> {
    let a = args.first()?;
    let x = Columns::new(a, feature);
    let count = x.values.len() as f64 / x.features.max(1) as f64;
    let whole = |values: Vec<f64>| lanes::tensor(a.ty, a.dims.clone(), &values);
    let vector = |values: Vec<f64>| lanes::tensor(a.ty, vec![x.features], &values);
    let rest: Vec<Vec<f64>> = args[1..].iter().map(|t| lanes::all(t)).collect();
    let root = |variance: f64| (variance + epsilon).sqrt();
    match (op, rest.as_slice()) {
        (HloOp::BatchNormTraining, [scale, offset]) => {
            let mean: Vec<f64> = x.sums(|i, _| x.values[i]).iter().map(|s| s / count).collect();
            let squares = x.sums(|i, f| (x.values[i] - mean[f]).powi(2));
            let variance: Vec<f64> = squares.iter().map(|s| s / count).collect();
            let y = x.map(|i, f| (x.values[i] - mean[f]) / root(variance[f]) * scale[f] + offset[f]);
            Some(vec![whole(y), vector(mean), vector(variance)])
        }
        (HloOp::BatchNormInference, [scale, offset, mean, variance]) => {
            let y = x.map(|i, f| (x.values[i] - mean[f]) / root(variance[f]) * scale[f] + offset[f]);
            Some(vec![whole(y)])
        }
        (HloOp::BatchNormGrad, [scale, mean, variance, grad]) => {
            let centred = |i: usize, f: usize| (x.values[i] - mean[f]) / root(variance[f]);
            let by_offset = x.sums(|i, _| grad[i]);
            let by_scale = x.sums(|i, f| grad[i] * centred(i, f));
            let dx = x.map(|i, f| {
                let rest = grad[i] - by_offset[f] / count - centred(i, f) * by_scale[f] / count;
                scale[f] / root(variance[f]) * rest
            });
            Some(vec![whole(dx), vector(by_scale), vector(by_offset)])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::HloType::F32;

    #[test]
    fn the_feature_s_mean_and_variance() {
        let a = lanes::tensor(F32, vec![2, 2], &[1.0, 10.0, 3.0, 30.0]);
        let (one, zero) =
            (lanes::tensor(F32, vec![2], &[1.0, 1.0]), lanes::tensor(F32, vec![2], &[0.0, 0.0]));
        let out = batch_norm(HloOp::BatchNormTraining, &[&a, &one, &zero], 0.0, 1).unwrap_or_default();
        let all: Vec<Vec<f64>> = out.iter().map(lanes::all).collect();
        assert_eq!(all, [vec![-1.0, -1.0, 1.0, 1.0], vec![2.0, 20.0], vec![1.0, 100.0]]);
        assert_eq!(batch_norm(HloOp::BatchNormGrad, &[&a, &one, &zero], 0.0, 1), None);
    }
}
