//! Reductions over elements: reduce, reduce-window, select-and-scatter, sort and batch norm.
//!
//! A float sum is pairwise in `f64`: one long sequential sum in the element's own type would be far off
//! (`spec/hlo.md 7`). Any other computation is applied in order, the accumulator first.

use super::Outcome;
use super::machine::Machine;
use super::movement::windows;
use super::region::Region;
use super::scalar::fit;
use super::tensor::{Data, Scalar, Tensor, count_up, strides};
use murre_components::hlo::{HloOp, WindowDim};

/// Pairwise sum.
fn sum(values: &[f64]) -> f64 {
    if values.len() <= 16 {
        return values.iter().sum();
    }
    let (a, b) = values.split_at(values.len() / 2);
    sum(a) + sum(b)
}

/// Folds elements at `places` of N arrays into N accumulators.
fn fold<'m>(
    machine: &mut Machine<'m>,
    region: &Region<'m>,
    arrays: &[Tensor],
    inits: &[Scalar],
    places: &[Option<usize>],
) -> Outcome<Vec<Scalar>> {
    if region.combiner == Some(HloOp::Add)
        && let ([Tensor { data: Data::Float(v), ty, .. }], [init]) = (arrays, inits)
    {
        let values: Vec<f64> = places.iter().map(|p| p.map_or(init.float(), |p| v[p])).collect();
        return Ok(vec![fit(*ty, Scalar::Float(init.float() + sum(&values)))]);
    }
    let mut acc = inits.to_vec();
    let mut args = Vec::with_capacity(2 * arrays.len());
    for place in places {
        args.clear();
        args.extend_from_slice(&acc);
        for (a, init) in arrays.iter().zip(inits) {
            args.push(place.map_or(*init, |p| a.data.get(p)));
        }
        acc = region.call(machine, &args)?;
    }
    Ok(acc)
}

fn collect(arrays: &[Tensor], dims: &[usize], results: Vec<Vec<Scalar>>) -> Vec<Tensor> {
    let mut data: Vec<Data> = arrays.iter().map(|a| Data::new(a.ty)).collect();
    for row in results {
        data.iter_mut().zip(row).for_each(|(d, v)| d.push(v));
    }
    arrays.iter().zip(data).map(|(a, d)| Tensor::new(a.ty, dims.to_vec(), d)).collect()
}

/// Reduces the listed dimensions of N arrays of the same extents.
pub(crate) fn reduce<'m>(
    machine: &mut Machine<'m>,
    region: &Region<'m>,
    arrays: &[Tensor],
    inits: &[Scalar],
    dims: &[i64],
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let rank = first.dims.len();
    let (inner, kept): (Vec<usize>, Vec<usize>) = (0..rank).partition(|d| dims.contains(&(*d as i64)));
    let extents = |list: &[usize]| list.iter().map(|d| first.dims[*d]).collect::<Vec<_>>();
    let (inner_dims, kept_dims) = (extents(&inner), extents(&kept));
    let s = strides(&first.dims);
    let places = |list: &[usize], dims: &[usize]| -> Vec<usize> {
        let step = list.iter().map(|d| s[*d] as isize).collect();
        super::tensor::Places::new(dims, 0, step).collect()
    };
    let offsets = places(&inner, &inner_dims);
    let mut results = Vec::new();
    let mut here = Vec::with_capacity(offsets.len());
    for base in places(&kept, &kept_dims) {
        here.clear();
        here.extend(offsets.iter().map(|o| Some(base + o)));
        results.push(fold(machine, region, arrays, inits, &here)?);
    }
    Ok(collect(arrays, &kept_dims, results))
}

/// Folds each window; padding counts as the initial value.
pub(crate) fn reduce_window<'m>(
    machine: &mut Machine<'m>,
    region: &Region<'m>,
    arrays: &[Tensor],
    inits: &[Scalar],
    window: &[WindowDim],
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let mut results = Vec::new();
    let mut fault = None;
    let dims = windows(&first.dims, window, |_, places| {
        // Padding adds nothing: skipping it gives the same fold as folding the initial value in.
        let inside: Vec<Option<usize>> = places.iter().copied().filter(Option::is_some).collect();
        match fold(machine, region, arrays, inits, &inside) {
            Ok(row) => results.push(row),
            Err(f) => fault = fault.take().or(Some(f)),
        }
    });
    match fault {
        Some(fault) => Err(fault),
        None => Ok(collect(arrays, &dims, results)),
    }
}

/// Scatters each source element to the element that its window selects.
pub(crate) fn select_and_scatter<'m>(
    machine: &mut Machine<'m>,
    (select, scatter): (&Region<'m>, &Region<'m>),
    a: &Tensor,
    source: &Tensor,
    init: Scalar,
    window: &[WindowDim],
) -> Outcome<Tensor> {
    let mut out = Tensor::new(a.ty, a.dims.clone(), Data::filled(a.ty, init, a.data.len()));
    let mut chosen = Vec::new();
    let mut fault = None;
    windows(&a.dims, window, |_, places| {
        let mut best: Option<usize> = None;
        for p in places.iter().flatten() {
            let keep = match best {
                None => Ok(false),
                Some(b) => select.call(machine, &[a.data.get(b), a.data.get(*p)]).map(|r| r[0].is_true()),
            };
            match keep {
                Ok(true) => {}
                Ok(false) => best = Some(*p),
                Err(f) => fault = fault.take().or(Some(f)),
            }
        }
        chosen.push(best);
    });
    if let Some(fault) = fault {
        return Err(fault);
    }
    for (i, place) in chosen.into_iter().enumerate() {
        if let Some(p) = place {
            let row = scatter.call(machine, &[out.data.get(p), source.data.get(i)])?;
            out.data.set(p, row[0]);
        }
    }
    Ok(out)
}

/// Sorts along `d`, stably, by a comparator that gets a pair of scalars for each array. A comparator that is no order
/// (a plain `<` on NaNs) still ends: merge sort asks each question once.
pub(crate) fn sort<'m>(
    machine: &mut Machine<'m>,
    region: &Region<'m>,
    arrays: &[Tensor],
    d: usize,
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let n = first.dims[d];
    let step = strides(&first.dims)[d];
    let mut outer = first.dims.clone();
    outer[d] = 1;
    let mut out = arrays.to_vec();
    let mut index = vec![0; outer.len()];
    if n == 0 || first.data.len() == 0 {
        return Ok(out);
    }
    loop {
        let base: usize = index.iter().zip(strides(&first.dims)).map(|(i, s)| i * s).sum();
        let mut less = |x: usize, y: usize| -> Outcome<bool> {
            let pairs =
                arrays.iter().flat_map(|a| [a.data.get(base + x * step), a.data.get(base + y * step)]);
            let args: Vec<Scalar> = pairs.collect();
            Ok(region.call(machine, &args)?[0].is_true())
        };
        let order = merge_sort(n, &mut less)?;
        for (a, o) in arrays.iter().zip(&mut out) {
            for (to, from) in order.iter().enumerate() {
                o.data.set(base + to * step, a.data.get(base + from * step));
            }
        }
        if !count_up(&mut index, &outer) {
            return Ok(out);
        }
    }
}

fn merge_sort(n: usize, less: &mut impl FnMut(usize, usize) -> Outcome<bool>) -> Outcome<Vec<usize>> {
    let mut order: Vec<usize> = (0..n).collect();
    let mut width = 1;
    while width < n {
        let mut merged = Vec::with_capacity(n);
        for run in order.chunks(2 * width) {
            let (a, b) = run.split_at(width.min(run.len()));
            let (mut i, mut j) = (0, 0);
            while i < a.len() && j < b.len() {
                // The right one goes first only when it is less: equals keep their order.
                if less(b[j], a[i])? {
                    merged.push(b[j]);
                    j += 1;
                } else {
                    merged.push(a[i]);
                    i += 1;
                }
            }
            merged.extend_from_slice(&a[i..]);
            merged.extend_from_slice(&b[j..]);
        }
        order = merged;
        width *= 2;
    }
    Ok(order)
}

/// Batch norm: normalises over all dimensions but `feature`.
pub(crate) fn batch_norm(op: HloOp, args: &[&Tensor], epsilon: f64, feature: usize) -> Option<Vec<Tensor>> {
    let a = args.first()?;
    let features = a.dims[feature];
    let s = strides(&a.dims)[feature];
    let of = |i: usize| (i / s.max(1)) % features.max(1);
    let total = a.data.len();
    let count = total as f64 / features.max(1) as f64;
    let x = |t: &Tensor, i: usize| t.data.get(i).float();
    let per_feature = |f: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let mut rows = vec![Vec::new(); features];
        for i in 0..total {
            rows[of(i)].push(f(i));
        }
        rows.iter().map(|r| sum(r)).collect()
    };
    let vector = |values: &[f64]| {
        let data = values.iter().map(|v| crate::array::float::round_to(a.ty, *v)).collect();
        Tensor::new(a.ty, vec![features], Data::Float(data))
    };
    let whole = |f: &dyn Fn(usize) -> f64| {
        let data = (0..total).map(|i| crate::array::float::round_to(a.ty, f(i))).collect();
        Tensor::new(a.ty, a.dims.clone(), Data::Float(data))
    };
    let column = |t: &Tensor| (0..features).map(|f| x(t, f)).collect::<Vec<f64>>();
    match op {
        HloOp::BatchNormTraining => {
            let [_, scale, offset] = args else { return None };
            let mean: Vec<f64> = per_feature(&|i| x(a, i)).iter().map(|s| s / count).collect();
            let variance: Vec<f64> =
                per_feature(&|i| (x(a, i) - mean[of(i)]).powi(2)).iter().map(|s| s / count).collect();
            let y = whole(&|i| {
                let f = of(i);
                (x(a, i) - mean[f]) / (variance[f] + epsilon).sqrt() * x(scale, f) + x(offset, f)
            });
            Some(vec![y, vector(&mean), vector(&variance)])
        }
        HloOp::BatchNormInference => {
            let [_, scale, offset, mean, variance] = args else { return None };
            Some(vec![whole(&|i| {
                let f = of(i);
                (x(a, i) - x(mean, f)) / (x(variance, f) + epsilon).sqrt() * x(scale, f) + x(offset, f)
            })])
        }
        _ => {
            let [_, scale, mean, variance, grad] = args else { return None };
            let (mean, variance) = (column(mean), column(variance));
            let by_beta = per_feature(&|i| x(grad, i));
            let by_gamma =
                per_feature(&|i| x(grad, i) * (x(a, i) - mean[of(i)]) / (variance[of(i)] + epsilon).sqrt());
            let dx = whole(&|i| {
                let f = of(i);
                let inverse = 1.0 / (variance[f] + epsilon).sqrt();
                let centred = (x(a, i) - mean[f]) * inverse;
                x(scale, f) * inverse * (x(grad, i) - by_beta[f] / count - centred * by_gamma[f] / count)
            });
            Some(vec![dx, vector(&by_gamma), vector(&by_beta)])
        }
    }
}
