//! Data movement: every kernel is a choice of places. Results are static arrays; run-time sizes are the caller's.

use super::lanes::{self, Kind, kind};
use super::places::{Places, count, strides};
use super::scalar::int_to_float;
use super::tensor::{Data, Tensor, Word, on_words};
use murre_components::dtype::HloType;
use std::ops::Deref;

/// `a` spread to `to`; operand dimension `i` lies at result dimension `dims[i]`.
pub(crate) fn broadcast(a: &Tensor, to: &[usize], dims: &[i64]) -> Tensor {
    if a.data.len() == 1 {
        return Tensor::new(a.ty, to.to_vec(), a.data.repeat(count(to)));
    }
    let mut step = vec![0isize; to.len()];
    for (i, s) in strides(&a.dims).into_iter().enumerate() {
        step[dims[i] as usize] = s as isize;
    }
    Tensor::new(a.ty, to.to_vec(), a.data.pick(to, &Places { base: 0, step }))
}

/// Result dimension `i` is operand dimension `order[i]`.
pub(crate) fn transpose(a: &Tensor, order: &[usize]) -> Tensor {
    let s = strides(&a.dims);
    let dims: Vec<usize> = order.iter().map(|d| a.dims[*d]).collect();
    let step = order.iter().map(|d| s[*d] as isize).collect();
    let data = a.data.pick(&dims, &Places { base: 0, step });
    Tensor::new(a.ty, dims, data)
}

/// Every `stride`-th element from `start`, `to` elements a dimension.
pub(crate) fn slice(a: &Tensor, to: &[usize], start: &[usize], stride: &[usize]) -> Tensor {
    let mut from = Places::within(&a.dims, start);
    from.step.iter_mut().zip(stride).for_each(|(s, n)| *s = s.saturating_mul(*n as isize));
    Tensor::new(a.ty, to.to_vec(), a.data.pick(to, &from))
}

/// The listed dimensions backwards.
pub(crate) fn reverse(a: &Tensor, dims: &[i64]) -> Tensor {
    let mut from = Places::whole(&a.dims);
    for d in dims {
        let d = *d as usize;
        from.base += from.step[d] * a.dims[d].saturating_sub(1) as isize;
        from.step[d] = -from.step[d];
    }
    Tensor::new(a.ty, a.dims.clone(), a.data.pick(&a.dims, &from))
}

/// The arrays behind each other along dimension `d`.
pub(crate) fn concatenate(parts: &[impl Deref<Target = Tensor>], d: usize) -> Option<Tensor> {
    let first = parts.first()?;
    let mut dims = first.dims.clone();
    dims[d] = parts.iter().map(|p| p.dims[d]).sum();
    let mut data = Data::zeros(first.ty, count(&dims));
    let mut start = vec![0; dims.len()];
    for part in parts {
        data.put(&part.dims, &Places::within(&dims, &start), &part.data, &Places::whole(&part.dims));
        start[d] += part.dims[d];
    }
    Some(Tensor::new(first.ty, dims, data))
}

/// Interior padding first, then the edges; negative edges cut.
pub(crate) fn pad(a: &Tensor, fill: &Tensor, low: &[i64], high: &[i64], interior: &[i64]) -> Tensor {
    let rank = a.dims.len();
    let (mut dims, mut part, mut start, mut at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for d in 0..rank {
        let (n, gap) = (a.dims[d] as i64, interior[d] + 1);
        let extent = (n + (n - 1).max(0) * interior[d] + low[d] + high[d]).max(0);
        // Element `i` lands at `low + i * gap`: the first that lands inside, and the number of those.
        let first = if low[d] < 0 { (-low[d] + gap - 1) / gap } else { 0 };
        let end = if extent > low[d] { ((extent - low[d] - 1) / gap + 1).min(n) } else { 0 };
        dims.push(extent as usize);
        part.push((end - first).max(0) as usize);
        start.push(first.min(n) as usize);
        at.push((low[d] + first * gap, gap));
    }
    let mut data = fill.data.repeat(count(&dims));
    if count(&part) > 0 {
        let mut to = Places::whole(&dims);
        for (d, (first, gap)) in at.into_iter().enumerate() {
            to.base += to.step[d] * first as isize;
            // With one element the step is never taken.
            to.step[d] = to.step[d].saturating_mul(gap as isize);
        }
        data.put(&part, &to, &a.data, &Places::within(&a.dims, &start));
    }
    Tensor::new(a.ty, dims, data)
}

/// Counts up along dimension `d`.
pub(crate) fn iota(ty: HloType, dims: &[usize], d: usize) -> Tensor {
    let n = if count(dims) == 0 { 0 } else { dims[d] };
    let row = match kind(ty) {
        Kind::Int => lanes::tensor(ty, vec![n], &(0..n as i64).collect::<Vec<_>>()),
        Kind::Float => {
            let values: Vec<f64> = (0..n as i64).map(|i| int_to_float(HloType::S64, ty, i)).collect();
            lanes::tensor(ty, vec![n], &values)
        }
        Kind::Complex => {
            lanes::tensor(ty, vec![n], &(0..n).map(|i| [i as f64, 0.0]).collect::<Vec<[f64; 2]>>())
        }
    };
    let mut step = vec![0isize; dims.len()];
    step[d] = 1;
    Tensor::new(ty, dims.to_vec(), row.data.pick(dims, &Places { base: 0, step }))
}

fn wide<W: Word + Into<u128>>(words: &[W]) -> Vec<u128> {
    words.iter().map(|w| (*w).into()).collect()
}

/// The same bits as another type. Between types of different widths a last dimension comes or goes; the first of the
/// narrow elements is the lowest part of the wide one.
pub(crate) fn bitcast(a: Tensor, ty: HloType, dims: Vec<usize>) -> Tensor {
    let (from, to) = (a.ty.bits(), ty.bits());
    if from == to && a.ty.bytes() == ty.bytes() {
        // A one-byte integer of fewer bits is held extended, in its own way.
        let data = if from < 8 { Data::from_bytes(ty, &a.data.to_bytes()) } else { a.data };
        return Tensor::new(ty, dims, data);
    }
    if from.is_multiple_of(8) && to.is_multiple_of(8) {
        return Tensor::new(ty, dims, Data::from_bytes(ty, &a.data.to_bytes()));
    }
    let wide: Vec<u128> = on_words!(&a.data, v => wide(v));
    let mask = |bits: u32| if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    let words: Vec<u128> = if from > to {
        let part = |w: &u128, k: u32| w >> (k * to) & mask(to);
        wide.iter().flat_map(|w| (0..from / to).map(move |k| part(w, k))).collect()
    } else {
        let join = |parts: &[u128]| {
            parts.iter().zip(0u32..).fold(0, |w, (part, k)| w | (part & mask(from)) << (k * from))
        };
        wide.chunks((to / from) as usize).map(join).collect()
    };
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes().into_iter().take(ty.bytes())).collect();
    Tensor::new(ty, dims, Data::from_bytes(ty, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(dims: &[usize], values: &[i64]) -> Tensor {
        lanes::tensor(HloType::S32, dims.to_vec(), values)
    }

    fn values(t: &Tensor) -> Vec<i64> {
        lanes::all(t)
    }

    #[test]
    fn padding_dilates_then_adds_or_cuts_edges() {
        let (a, fill) = (ints(&[3], &[1, 2, 3]), ints(&[], &[9]));
        let padded = |low, high, interior| values(&pad(&a, &fill, &[low], &[high], &[interior]));
        assert_eq!(padded(1, 2, 0), [9, 1, 2, 3, 9, 9]);
        assert_eq!(padded(0, 0, 1), [1, 9, 2, 9, 3]);
        assert_eq!(padded(-1, -1, 1), [9, 2, 9]);
        assert_eq!(padded(-2, 0, 1), [2, 9, 3]);
        assert_eq!(padded(-3, 3, 0), [9, 9, 9]);
        assert_eq!(padded(2, -5, 0), Vec::<i64>::new());
        let none = ints(&[0], &[]);
        assert_eq!(values(&pad(&none, &fill, &[1], &[1], &[3])), [9, 9]);
    }

    #[test]
    fn places_of_each_movement() {
        let a = ints(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(values(&transpose(&a, &[1, 0])), [0, 3, 1, 4, 2, 5]);
        assert_eq!(values(&reverse(&a, &[1])), [2, 1, 0, 5, 4, 3]);
        assert_eq!(values(&slice(&a, &[2, 2], &[0, 0], &[1, 2])), [0, 2, 3, 5]);
        assert_eq!(values(&broadcast(&ints(&[2], &[7, 8]), &[2, 2], &[0])), [7, 7, 8, 8]);
        assert_eq!(values(&broadcast(&ints(&[2], &[7, 8]), &[2, 2], &[1])), [7, 8, 7, 8]);
        assert_eq!(values(&iota(HloType::S32, &[2, 2], 0)), [0, 0, 1, 1]);
        let joined = concatenate(&[&a, &ints(&[2, 1], &[8, 9])], 1).map(|t| values(&t));
        assert_eq!(joined, Some(vec![0, 1, 2, 8, 3, 4, 5, 9]));
    }

    #[test]
    fn bits_split_and_join_from_the_low_end() {
        let a = lanes::tensor(HloType::U16, vec![1], &[0x1234i64]);
        let bytes = bitcast(a.clone(), HloType::U8, vec![1, 2]);
        assert_eq!(values(&bytes), [0x34, 0x12]);
        assert_eq!(bitcast(bytes, HloType::U16, vec![1]), a);
        let nibbles = bitcast(a.clone(), HloType::S4, vec![1, 4]);
        assert_eq!(values(&nibbles), [4, 3, 2, 1]);
        assert_eq!(bitcast(nibbles, HloType::U16, vec![1]), a);
        let high = lanes::tensor(HloType::U4, vec![1], &[15i64]);
        assert_eq!(values(&bitcast(high, HloType::S4, vec![1])), [-1]);
    }
}
