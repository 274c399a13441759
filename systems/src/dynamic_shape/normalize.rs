//! Batch norm over run-time extents: sums take zeros behind the sizes, and the count of elements is the product of the
//! sizes. In: the operation at its bounds. Out: its expansion. Facts: `spec/dynamic_shapes.md 7` (it is expanded before
//! anything is padded).
//!
//! ```text
//! batch-norm-training(x f32[<=8,4], s, o), feature_index=1  ->  mean = reduce(pad(x, 0)) / n ...
//! ```

use super::padding::pad;
use super::rules::{Op, Ruled, Stand, refuse};
use super::sizes::{Known, Sizes};
use crate::legalize::build::Build;
use crate::legalize::expand_batch_norm::batch_norm;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloOp, Shape};
use murre_components::ids::CompId;

/// The stand-in of a batch norm.
pub fn rule(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Attrs::BatchNorm { feature_index, .. } = *op.inst.attrs() else {
        return refuse(None, "a batch norm names its feature");
    };
    let feature = feature_index as usize;
    let sizes = op.sizes[0].clone();
    // Every element by itself, with the statistics given.
    if op.inst.op == HloOp::BatchNormInference {
        return op.same(b, sizes);
    }
    let others: Vec<usize> = (0..sizes.len()).filter(|d| *d != feature).collect();
    for d in &others {
        let all = if op.inst.op == HloOp::BatchNormGrad { &op.sizes[4] } else { &sizes };
        if all[*d] != sizes[*d] {
            return refuse(*d, "the gradient has another run-time extent than the array");
        }
    }
    let Some(sum) = known.float_sum else {
        return refuse(op.first_sized(0), "the sum that the statistics need was not written");
    };
    let fixed: f64 =
        others.iter().filter(|d| sizes[**d].is_none()).map(|d| op.bounds(0)[*d] as f64).product();
    let mut count = b.constant(HloType::F32, fixed);
    for n in others.iter().filter_map(|d| sizes[*d]) {
        let n = b.convert(n, HloType::F32);
        count = b.binary(HloOp::Multiply, count, n);
    }
    let zero = b.constant(HloType::F32, 0.0);
    let mut live = |b: &mut Build<'_>, x| pad(b, known, x, &sizes, zero, |d| d != feature);
    let value = expanded(op, b, sum, count, &mut live)?;
    let leaf = |s: &&Shape| -> Sizes {
        match s.array().map_or(0, |a| a.rank()) {
            n if n == sizes.len() && n != 1 => sizes.clone(),
            _ => vec![sizes[feature]],
        }
    };
    Ok(Stand { value, sizes: op.inst.shape().leaves().iter().map(leaf).collect() })
}

fn expanded(
    op: &Op<'_, '_>,
    b: &mut Build<'_>,
    sum: CompId,
    count: murre_components::ids::HloId,
    live: &mut dyn FnMut(&mut Build<'_>, murre_components::ids::HloId) -> murre_components::ids::HloId,
) -> Result<murre_components::ids::HloId, super::rules::Refusal> {
    match batch_norm(b, op.inst, op.x, sum, Some(count), live) {
        Some(value) => Ok(value),
        None => refuse(None, "a batch norm names its feature"),
    }
}
