//! Sort and top-k.
//!
//! A sort is stable: merge sort asks each question once, so that a comparator that is no order (a plain `<` on NaNs)
//! still ends. Top-k goes by the total order, ties by the lower index. Facts: `spec/hlo.md 7`.

use super::Outcome;
use super::lanes::{self, Kind, Lane, kind};
use super::places::{Places, count, strides};
use super::program::{Program, bits};
use super::region::{Callee, Known};
use super::scalar::{order_key, total_key};
use super::tensor::{Data, Tensor, Word, on_words};
use murre_components::dtype::HloType;
use murre_components::hlo::Direction;
use std::ops::Deref;

/// Sorts along `d` by a comparator that gets a pair of scalars for each array.
pub(crate) fn sort(
    callee: &mut Callee<'_, '_>,
    arrays: &[impl Deref<Target = Tensor>],
    d: usize,
) -> Outcome<Vec<Tensor>> {
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let n = first.dims[d];
    let mut outer = first.dims.clone();
    outer[d] = usize::from(n > 0);
    let step = strides(&first.dims)[d];
    let bases = Places::whole(&first.dims).list(&outer);
    let mut out: Vec<Tensor> = arrays.iter().map(|a| (**a).clone()).collect();
    if n < 2 {
        return Ok(out);
    }
    let rows = bases.len() as u64;
    let passes = u64::from(usize::BITS - (n - 1).leading_zeros());
    callee.machine.work(rows.saturating_mul(n as u64).saturating_mul(passes))?;
    let program = callee.region.program.clone();
    let keys: Option<Vec<i64>> = keys_of(first, callee.region.known);
    let registers: Option<Vec<Vec<u64>>> = match (&keys, &program) {
        (None, Some(_)) => Some(arrays.iter().map(|a| register_values(a)).collect()),
        _ => None,
    };
    let mut scratch = program.as_ref().map(Program::registers).unwrap_or_default();
    for base in bases {
        let at = |i: u32| base + i as usize * step;
        let order = if let Some(keys) = &keys {
            let row: Vec<i64> = (0..n).map(|i| keys[base + i * step]).collect();
            merge_sort(n, |x, y| Ok(row[x as usize] < row[y as usize]))?
        } else if let (Some(values), Some(program)) = (&registers, &program) {
            let mut asked = 0u64;
            let order = merge_sort(n, |x, y| {
                asked += 1;
                for (k, v) in values.iter().enumerate() {
                    scratch[2 * k] = v[at(x)];
                    scratch[2 * k + 1] = v[at(y)];
                }
                program.run(&mut scratch);
                // Steps are counted now and then: each question asks the same of them.
                if asked.is_multiple_of(1024) {
                    callee.machine.count(1024 * program.len() as u64)?;
                }
                Ok(program.results.first().is_some_and(|r| scratch[*r as usize] != 0))
            })?;
            callee.machine.count(asked % 1024 * program.len() as u64)?;
            order
        } else {
            merge_sort(n, |x, y| {
                let args: Vec<_> = arrays.iter().flat_map(|a| [a.get(at(x)), a.get(at(y))]).collect();
                Ok(callee.call_one(&args)?.is_true())
            })?
        };
        for (a, o) in arrays.iter().zip(&mut out) {
            arrange(&a.data, &mut o.data, &order, base, step);
        }
    }
    Ok(out)
}

/// Keys whose plain order is the comparator's, where it compares elements of the first array.
fn keys_of(first: &Tensor, known: Known) -> Option<Vec<i64>> {
    let Known::Compare { direction, total } = known else { return None };
    let down = match direction {
        Direction::Lt => false,
        Direction::Gt => true,
        _ => return None,
    };
    let key: Vec<i64> = match kind(first.ty) {
        Kind::Int => lanes::all::<i64>(first).into_iter().map(|x| order_key(first.ty, x)).collect(),
        Kind::Float => {
            let values = lanes::all::<f64>(first);
            if !total && values.iter().any(|x| x.is_nan()) {
                return None;
            }
            // Without the total order the two zeros are equal.
            values.into_iter().map(|x| total_key(if total { x } else { x + 0.0 })).collect()
        }
        Kind::Complex => return None,
    };
    Some(if down { key.into_iter().map(|k| !k).collect() } else { key })
}

fn register_values(t: &Tensor) -> Vec<u64> {
    match kind(t.ty) {
        Kind::Float => lanes::all::<f64>(t).into_iter().map(|x| bits(x.scalar())).collect(),
        _ => lanes::all::<i64>(t).into_iter().map(|x| bits(x.scalar())).collect(),
    }
}

fn arrange(from: &Data, to: &mut Data, order: &[u32], base: usize, step: usize) {
    fn words<W: Word>(from: &[W], to: &mut Data, order: &[u32], base: usize, step: usize) {
        let to = W::slice_mut(to);
        for (i, o) in order.iter().enumerate() {
            to[base + i * step] = from[base + *o as usize * step];
        }
    }
    on_words!(from, v => words(v, to, order, base, step));
}

/// The stable order of `0..n`.
fn merge_sort(n: usize, mut less: impl FnMut(u32, u32) -> Outcome<bool>) -> Outcome<Vec<u32>> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    let mut merged = Vec::with_capacity(n);
    let mut width = 1;
    while width < n {
        merged.clear();
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
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

/// The `k` largest (or smallest) of each row in total order, with their indices.
pub(crate) fn topk(a: &Tensor, k: usize, largest: bool) -> (Tensor, Tensor) {
    let n = a.dims.last().copied().unwrap_or(1);
    let mut dims = a.dims.clone();
    dims.pop();
    let rows = count(&dims);
    dims.push(k);
    let keys: Vec<i64> = match kind(a.ty) {
        Kind::Float => lanes::all::<f64>(a).into_iter().map(total_key).collect(),
        _ => lanes::all::<i64>(a).into_iter().map(|x| order_key(a.ty, x)).collect(),
    };
    let (mut places, mut indices) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let key = |i: &u32| {
            let key = keys[row * n + *i as usize];
            (if largest { !key } else { key }, *i)
        };
        let mut order: Vec<u32> = (0..n as u32).collect();
        if k < n && k > 0 {
            order.select_nth_unstable_by_key(k - 1, key);
        }
        order.truncate(k);
        order.sort_unstable_by_key(key);
        places.extend(order.iter().map(|i| row * n + *i as usize));
        indices.extend(order.into_iter().map(i64::from));
    }
    (Tensor::new(a.ty, dims.clone(), a.data.at(&places)), lanes::tensor(HloType::S32, dims, &indices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_keep_their_order() {
        let keys = [3, 1, 3, 1, 2];
        let order = merge_sort(keys.len(), |x, y| Ok(keys[x as usize] < keys[y as usize]));
        assert_eq!(order.ok(), Some(vec![1, 3, 4, 0, 2]));
    }

    #[test]
    fn topk_goes_by_the_total_order_and_the_lower_index() {
        let values = [1.0, f64::NAN, 0.0, -0.0, 1.0, -f64::NAN];
        let a = lanes::tensor(HloType::F32, vec![6], &values);
        let indices = |k, largest| lanes::all::<i64>(&topk(&a, k, largest).1);
        assert_eq!(indices(6, true), [1, 0, 4, 2, 3, 5]);
        assert_eq!(indices(3, false), [5, 3, 2]);
        assert_eq!(indices(0, true), Vec::<i64>::new());
    }

    #[test]
    fn zeros_are_equal_unless_the_order_is_total() {
        let a = lanes::tensor(HloType::F32, vec![2], &[0.0, -0.0]);
        let keys = |total| keys_of(&a, Known::Compare { direction: Direction::Lt, total });
        assert_eq!(keys(false), Some(vec![0, 0]));
        assert_eq!(keys(true), Some(vec![0, -1]));
        let nan = lanes::tensor(HloType::F32, vec![1], &[f64::NAN]);
        assert_eq!(keys_of(&nan, Known::Compare { direction: Direction::Lt, total: false }), None);
    }
}
