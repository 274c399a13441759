//! Run-time sizes: results at their bounds, what stands behind a size where an operation reads there, reshapes of live
//! elements, and the faults of a run whose sizes cannot be.
//!
//! In: arrays at their bounds with sizes beside them. Out: arrays for static kernels, and results with their sizes.
//! Facts: `spec/dynamic_shapes.md 3`, `5`, `8`.
//!
//! ```text
//! reshape f32[4,<=6] of 4x3 -> f32[<=24]   sizes: 12   element j from row j / 3, column j % 3
//! ```

use super::Outcome;
use super::dispatch::extents_of;
use super::lanes::{Kind, kind};
use super::machine::Machine;
use super::movement;
use super::places::count;
use super::tensor::{Scalar, Tensor};
use murre_components::diag::codes::sim;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Shape};
use std::borrow::Cow;

/// The result at the bounds of `shape`, with sizes where `shape` has dynamic dimensions.
pub(crate) fn sized(t: Tensor, shape: &Shape, size: impl Fn(usize) -> i64) -> Tensor {
    let bounds = extents_of(shape);
    let sizes = shape.array().filter(|a| a.has_dynamic()).map(|a| {
        (0..bounds.len()).map(|d| if a.is_dynamic(d) { size(d) } else { bounds[d] as i64 }).collect()
    });
    t.grow(&bounds, sizes)
}

impl Machine<'_> {
    /// The size that the current instruction gives a dimension, unless it is negative or above `most`.
    pub(crate) fn legal_size(&self, d: usize, size: i64, most: i64, bound: usize) -> Outcome<i64> {
        if (0..=most).contains(&size) {
            return Ok(size);
        }
        let name = self.current().name();
        let what = format!("{name} gives dimension {d} the size {size}");
        let fault = self.fault(&sim::SIM_SIZE, what).found(size.to_string());
        Err(Box::new(fault.expected(format!("a size from 0 to {bound}"))))
    }

    /// Sizes that meet in dimension `d` of the current instruction: each is `result` or, where rows behind the smaller one
    /// are not read, more.
    pub(crate) fn agreeing(
        &self,
        d: usize,
        result: i64,
        sizes: impl IntoIterator<Item = i64>,
    ) -> Outcome<()> {
        let Some(other) = sizes.into_iter().find(|n| *n < result) else { return Ok(()) };
        let name = self.current().name();
        let what = format!("{name} reads dimension {d} of an operand behind its end, which is at {other}");
        let fault = self.fault(&sim::SIM_EXTENTS, what).found(other.to_string());
        Err(Box::new(fault.expected("the same extent as its other operands")))
    }
}

/// The size that each dynamic operand declares in dimension `d`: the shapes stand beside the arrays.
pub(crate) fn declared<'a>(
    t: &'a [&'a Tensor],
    shapes: &'a [Option<&'a ArrayShape>],
    d: usize,
) -> impl Iterator<Item = i64> + 'a {
    let own = t.iter().zip(shapes).filter(move |(_, s)| s.is_some_and(|s| s.is_dynamic(d)));
    own.map(move |(t, _)| t.size(d))
}

/// Two sizes of an elementwise operation: 1 stretches to the other, otherwise the smaller one holds.
pub(crate) fn meet(a: i64, b: i64) -> i64 {
    if a.min(b) == 1 { a.max(b) } else { a.min(b) }
}

/// `a` with `value` behind its sizes in the dimensions that `wanted` names, at the bounds and without sizes.
pub(crate) fn behind<'a>(a: &'a Tensor, value: &Tensor, wanted: impl Fn(usize) -> bool) -> Cow<'a, Tensor> {
    let live: Vec<usize> = a
        .extents()
        .iter()
        .zip(&a.dims)
        .enumerate()
        .map(|(d, (n, b))| if wanted(d) { *n } else { *b })
        .collect();
    if live == a.dims {
        return Cow::Borrowed(a);
    }
    let (cut, none) = (a.cut_to(&live), vec![0; a.dims.len()]);
    let high: Vec<i64> = a.dims.iter().zip(&live).map(|(b, n)| (*b - *n) as i64).collect();
    Cow::Owned(movement::pad(&cut, value, &none, &high, &none))
}

/// The arrays and the initial values of a reduction. Behind an array's size stands its initial value, which is folded in
/// once more for each such element, as in XLA.
pub(crate) fn filled<'a>(t: &[&'a Tensor]) -> (Vec<Cow<'a, Tensor>>, Vec<Scalar>) {
    let (arrays, inits) = t.split_at(t.len() / 2);
    let fill = |(a, init): (&&'a Tensor, &&'a Tensor)| behind(a, init, |_| true);
    (arrays.iter().zip(inits).map(fill).collect(), inits.iter().map(|i| i.first()).collect())
}

/// What loses every comparison: the lowest integer, or minus infinity.
pub(crate) fn lowest(ty: HloType) -> Tensor {
    let value = match kind(ty) {
        Kind::Float => Scalar::Float(f64::NEG_INFINITY),
        _ if ty.is_signed_int() => Scalar::Int(-1 << (ty.bits() - 1)),
        _ => Scalar::Int(0),
    };
    Tensor::scalar(ty, value)
}

/// `a` with its one row repeated in each dimension in which it has size 1 and `other` more.
pub(crate) fn stretched<'a>(a: &'a Tensor, other: &Tensor) -> Cow<'a, Tensor> {
    let mut out = Cow::Borrowed(a);
    if a.dims != other.dims || a.sizes.is_none() || other.sizes.is_none() {
        return out;
    }
    for d in 0..a.dims.len() {
        if a.size(d) != 1 || other.size(d) <= 1 {
            continue;
        }
        let (mut row, none, step) = (a.dims.clone(), vec![0; a.dims.len()], vec![1; a.dims.len()]);
        row[d] = 1;
        let one = movement::slice(&out, &row, &none, &step);
        row.remove(d);
        let places: Vec<i64> = (0..a.dims.len() as i64).filter(|k| *k != d as i64).collect();
        let wide = movement::broadcast(&Tensor::new(a.ty, row, one.data), &a.dims, &places);
        out = Cow::Owned(Tensor { sizes: a.sizes.clone(), ..wide });
    }
    out
}

/// Dimensions of operand and result that hold the same elements; those of extent 1 are in none.
#[derive(Default)]
struct Group {
    from: Vec<usize>,
    into: Vec<usize>,
}

fn groups(from: &[usize], into: &[usize]) -> Vec<Group> {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    let mut group = Group::default();
    let (mut p, mut q) = (1usize, 1usize);
    while i < from.len() || j < into.len() {
        if i < from.len() && (p <= q || j == into.len()) {
            p = p.saturating_mul(from[i]);
            group.from.extend((from[i] != 1).then_some(i));
            i += 1;
        } else {
            q = q.saturating_mul(into[j]);
            group.into.extend((into[j] != 1).then_some(j));
            j += 1;
        }
        if p == q {
            if p != 1 {
                out.push(std::mem::take(&mut group));
            }
            (p, q) = (1, 1);
        }
    }
    out
}

/// For each place in a group of the result's bounds: the place in the operand's bounds whose element stands there. Of
/// both sides the live elements are counted in row-major order.
fn places(from: &[(usize, i64)], into: &[(usize, i64)]) -> Option<Vec<usize>> {
    let later_is_cut = |dims: &[(usize, i64)]| dims.iter().skip(1).any(|(bound, n)| *n < *bound as i64);
    if from.len() == 1 && into.len() == 1 || !later_is_cut(from) && !later_is_cut(into) {
        return None;
    }
    let total: usize = into.iter().map(|d| d.0).product();
    let source = |at: usize| -> Option<usize> {
        let (mut rest, mut rank, mut step) = (at, 0usize, 1usize);
        for (k, (bound, size)) in into.iter().enumerate().rev() {
            let digit = if k == 0 { rest } else { rest % bound };
            if k > 0 && digit as i64 >= *size {
                return None;
            }
            rank = rank.checked_add(digit.checked_mul(step)?)?;
            (rest, step) = (rest / bound, step.checked_mul((*size).max(1) as usize)?);
        }
        let (mut place, mut step) = (0, 1);
        for (k, (bound, size)) in from.iter().enumerate().rev() {
            let n = (*size).clamp(0, *bound as i64) as usize;
            let digit = if k == 0 { rank } else { rank.checked_rem(n)? };
            if digit >= *bound {
                return None;
            }
            place += digit * step;
            (rank, step) = (rank / n.max(1), step * bound);
        }
        Some(place)
    };
    // What nothing live belongs to is garbage; the first element serves.
    Some((0..total).map(|at| source(at).unwrap_or(0)).collect())
}

/// A reshape of the live elements, in row-major order. `given` are the sizes of a dynamic-reshape; a reshape finds them:
/// one dynamic dimension of each group of the result takes what the group's operand dimensions hold. `None` where
/// several could.
pub(crate) fn reshape(
    a: Tensor,
    shape: &Shape,
    given: Option<&[i64]>,
    inferred: Option<usize>,
) -> Option<Tensor> {
    let to = shape.array()?;
    let bounds = extents_of(shape);
    let mut sizes: Vec<i64> = bounds.iter().map(|d| *d as i64).collect();
    if count(&bounds) == 0 || a.sizes.is_none() && !to.has_dynamic() {
        return Some(sized(Tensor::new(a.ty, bounds, a.data), shape, |d| sizes[d]));
    }
    let groups = groups(&a.dims, &bounds);
    match given {
        Some(given) => sizes = given.get(..bounds.len())?.to_vec(),
        None => {
            for d in (0..a.dims.len()).filter(|d| a.dims[*d] == 1) {
                let to = if d == 0 { 0 } else { bounds.len().saturating_sub(1) };
                let at_an_end = d == 0 || d + 1 == a.dims.len();
                if let Some(size) = sizes.get_mut(to).filter(|n| at_an_end && **n == 1) {
                    *size = a.size(d);
                }
            }
            for g in &groups {
                let dynamic: Vec<usize> = g.into.iter().copied().filter(|d| to.is_dynamic(*d)).collect();
                let cut = g.from.iter().any(|d| a.size(*d) != a.dims[*d] as i64);
                let to = match (inferred.filter(|d| g.into.contains(d)), dynamic.as_slice()) {
                    (Some(d), _) => d,
                    (None, [one]) => *one,
                    (None, []) => continue,
                    (None, _) if !cut => continue,
                    (None, _) => return None,
                };
                let live: i64 = g.from.iter().map(|d| a.size(*d)).fold(1, i64::saturating_mul);
                let rest: i64 = g.into.iter().filter(|d| **d != to).map(|d| bounds[*d] as i64).product();
                sizes[to] = live / rest.max(1);
            }
        }
    }
    let maps: Vec<(usize, Option<Vec<usize>>)> = groups
        .iter()
        .map(|g| {
            let from: Vec<_> = g.from.iter().map(|d| (a.dims[*d], a.size(*d))).collect();
            let into: Vec<_> = g.into.iter().map(|d| (bounds[*d], sizes[*d])).collect();
            (into.iter().map(|d| d.0).product(), places(&from, &into))
        })
        .collect();
    let data = if maps.iter().all(|(_, map)| map.is_none()) {
        a.data
    } else {
        let place = |flat: usize| {
            let (mut rest, mut at, mut step) = (flat, 0, 1);
            for (width, map) in maps.iter().rev() {
                let digit = rest % width;
                at += map.as_ref().map_or(digit, |m| m[digit]) * step;
                (rest, step) = (rest / width, step * width);
            }
            at
        };
        let from: Vec<usize> = (0..count(&bounds)).map(place).collect();
        a.data.at(&from)
    };
    Some(sized(Tensor::new(a.ty, bounds, data), shape, |d| sizes[d]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::lanes;

    fn reshaped(
        dims: &[usize],
        sizes: &[i64],
        to: ArrayShape,
        given: Option<&[i64]>,
    ) -> (Vec<i64>, Vec<i64>) {
        let n = count(dims) as i64;
        let whole = lanes::tensor(HloType::S32, dims.to_vec(), &(0..n).collect::<Vec<_>>());
        let a = Tensor { sizes: Some(sizes.to_vec()), ..whole };
        let out = reshape(a, &Shape::Array(to), given, None).expect("a rule");
        (lanes::all(&out.cut()), (0..out.dims.len()).map(|d| out.size(d)).collect())
    }

    fn shape(dims: &[i64], dynamic: &[bool]) -> ArrayShape {
        ArrayShape { dynamic: dynamic.to_vec(), ..ArrayShape::new(HloType::S32, dims) }
    }

    #[test]
    fn live_elements_come_together_and_apart() {
        let joined = reshaped(&[2, 3], &[2, 2], shape(&[6], &[true]), None);
        assert_eq!(joined, (vec![0, 1, 3, 4], vec![4]));
        let split = reshaped(&[6], &[4], shape(&[2, 3], &[false, true]), None);
        assert_eq!(split, (vec![0, 1, 2, 3], vec![2, 2]));
        let given = reshaped(&[4, 3], &[4, 1], shape(&[2, 6], &[true, true]), Some(&[2, 2]));
        assert_eq!(given, (vec![0, 3, 6, 9], vec![2, 2]));
        let nothing = reshaped(&[2, 3], &[2, 0], shape(&[6], &[true]), None);
        assert_eq!(nothing, (vec![], vec![0]));
    }

    #[test]
    fn what_is_behind_a_size_is_replaced() {
        let whole = lanes::tensor(HloType::S32, vec![2, 2], &[1i64, 2, 3, 4]);
        let a = Tensor { sizes: Some(vec![1, 1]), ..whole };
        let value = Tensor::scalar(HloType::S32, Scalar::Int(9));
        assert_eq!(lanes::all::<i64>(&behind(&a, &value, |_| true)), [1, 9, 9, 9]);
        assert_eq!(lanes::all::<i64>(&behind(&a, &value, |d| d == 1)), [1, 9, 3, 9]);
        assert_eq!(lowest(HloType::S8).first(), Scalar::Int(-128));
    }
}
