//! Fourier transforms over the last dimensions, of any length: by prime factors, each result a sum over the residues.
//! A real transform keeps the first half of the last dimension and what lies in the middle; its inverse takes the rest
//! from the symmetry.

use super::lanes;
use super::places::{Places, count};
use super::tensor::Tensor;
use murre_components::dtype::HloType;
use std::f64::consts::TAU;

/// A kind of transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transform {
    Forward,
    Inverse,
    Real,
    RealInverse,
}

impl Transform {
    /// By its name in HLO text.
    pub fn named(name: &str) -> Option<Transform> {
        Some(match name {
            "FFT" => Transform::Forward,
            "IFFT" => Transform::Inverse,
            "RFFT" => Transform::Real,
            "IRFFT" => Transform::RealInverse,
            _ => return None,
        })
    }
}

type C = [f64; 2];

/// The powers of the first root of unity.
fn roots(n: usize, inverse: bool) -> Vec<C> {
    let turn = if inverse { TAU } else { -TAU } / n.max(1) as f64;
    (0..n).map(|k| [libm::cos(turn * k as f64), libm::sin(turn * k as f64)]).collect()
}

/// The transform of every `step`-th element from `start`, `n` of them; `roots` are those of the whole length.
fn transform(x: &[C], start: usize, step: usize, n: usize, roots: &[C], out: &mut [C]) {
    if n == 1 {
        out[0] = x[start];
        return;
    }
    let factor = (2..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)).unwrap_or(n);
    let inner = n / factor;
    let mut parts = vec![[0.0; 2]; n];
    for (r, part) in parts.chunks_exact_mut(inner).enumerate() {
        transform(x, start + r * step, step * factor, inner, roots, part);
    }
    let scale = roots.len() / n;
    for (k, slot) in out.iter_mut().enumerate() {
        *slot = (0..factor).fold([0.0; 2], |[re, im], r| {
            let ([a, b], [c, d]) = (parts[r * inner + k % inner], roots[(r * k) % n * scale]);
            [re + a * c - b * d, im + a * d + b * c]
        });
    }
}

/// Transforms dimension `d` of an array.
fn along(values: &mut [C], dims: &[usize], d: usize, inverse: bool) {
    let n = dims[d];
    if count(dims) == 0 {
        return;
    }
    let roots = roots(n, inverse);
    let places = Places::whole(dims);
    let mut outer = dims.to_vec();
    outer[d] = 1;
    let (step, scale) = (places.step[d] as usize, if inverse { 1.0 / n as f64 } else { 1.0 });
    let mut out = vec![[0.0; 2]; n];
    for base in places.list(&outer) {
        transform(values, base, step, n, &roots, &mut out);
        out.iter().enumerate().for_each(|(k, [re, im])| values[base + k * step] = [re * scale, im * scale]);
    }
}

/// The last dimension with another extent: element `i` of each row is `f(row, i)`.
fn rows(values: &[C], old: usize, new: usize, f: impl Fn(&[C], usize) -> C) -> Vec<C> {
    values.chunks_exact(old.max(1)).flat_map(|row| (0..new).map(|i| f(row, i)).collect::<Vec<_>>()).collect()
}

/// Multiplications that transforms of these lengths take: for every element, the sum of the prime factors.
pub(crate) fn fft_work(elements: u64, lengths: &[usize]) -> u64 {
    let factors = |n: usize| {
        let (mut n, mut sum) = (n.max(1), 0u64);
        while let Some(p) = (2..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)) {
            n /= p;
            sum += p as u64;
        }
        sum + n as u64
    };
    elements.saturating_mul(lengths.iter().map(|n| factors(*n)).sum())
}

/// Transforms the last dimensions, as many as there are lengths. The result has the type `ty`.
pub(crate) fn fft(a: &Tensor, kind: Transform, lengths: &[usize], ty: HloType) -> Option<Tensor> {
    let first = a.dims.len().checked_sub(lengths.len())?;
    let (last, &length) = (a.dims.len().checked_sub(1)?, lengths.last()?);
    let mut dims = a.dims.clone();
    let mut values: Vec<C> = match a.ty.is_float() {
        true => lanes::all::<f64>(a).into_iter().map(|x| [x, 0.0]).collect(),
        false => lanes::all(a),
    };
    let half = length / 2 + 1;
    match kind {
        Transform::Forward | Transform::Inverse if dims[first..] == *lengths => {
            (first..=last).rev().for_each(|d| along(&mut values, &dims, d, kind == Transform::Inverse));
        }
        Transform::Real if dims[first..] == *lengths => {
            along(&mut values, &dims, last, false);
            values = rows(&values, length, half, |row, i| row[i]);
            dims[last] = half;
            (first..last).rev().for_each(|d| along(&mut values, &dims, d, false));
        }
        Transform::RealInverse if dims[first..last] == lengths[..lengths.len() - 1] && dims[last] == half => {
            (first..last).for_each(|d| along(&mut values, &dims, d, true));
            // Nothing imaginary is left at either end of the half: only its real part counts.
            values = rows(&values, half, length, |row, i| match i {
                0 => [row[0][0], 0.0],
                _ if 2 * i == length => [row[i][0], 0.0],
                _ if i < half => row[i],
                _ => [row[length - i][0], -row[length - i][1]],
            });
            dims[last] = length;
            along(&mut values, &dims, last, true);
        }
        _ => return None,
    }
    let real = || values.iter().map(|[re, _]| *re).collect::<Vec<f64>>();
    Some(if ty.is_float() { lanes::tensor(ty, dims, &real()) } else { lanes::tensor(ty, dims, &values) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: &Tensor, b: &[f64]) -> bool {
        let a = lanes::all::<f64>(a);
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-12)
    }

    #[test]
    fn a_real_transform_undoes_its_inverse_at_any_length() {
        for n in [1, 2, 3, 4, 5, 6, 7, 12, 30, 49] {
            let values: Vec<f64> = (0..2 * n).map(|i| ((i * 37) % 11) as f64 - 5.0).collect();
            let a = lanes::tensor(HloType::F64, vec![2, n], &values);
            let there = fft(&a, Transform::Real, &[2, n], HloType::C128);
            let back = there.and_then(|t| fft(&t, Transform::RealInverse, &[2, n], HloType::F64));
            assert!(back.is_some_and(|b| near(&b, &values)), "{n}");
        }
    }

    #[test]
    fn a_transform_is_the_sum_over_roots() {
        let a = lanes::tensor(HloType::C128, vec![4], &[[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 0.0]]);
        let out =
            fft(&a, Transform::Forward, &[4], HloType::C128).map(|t| lanes::all::<C>(&t)).unwrap_or_default();
        let want = [[10.0, 0.0], [-2.0, 2.0], [-2.0, 0.0], [-2.0, -2.0]];
        assert!(out.iter().zip(want).all(|(x, y)| (x[0] - y[0]).abs() + (x[1] - y[1]).abs() < 1e-12));
        assert_eq!((fft_work(10, &[12]), fft_work(1, &[7, 1])), (70, 8));
        assert_eq!(fft(&a, Transform::Forward, &[5], HloType::C128), None);
    }
}
