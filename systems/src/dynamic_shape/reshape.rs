//! Reshapes of arrays with run-time extents. Dimensions are cut into groups of equal products; in a group that joins or
//! splits dimensions the live elements move, by a gather whose indices are computed from the sizes.
//! Facts: `spec/dynamic_shapes.md 3.5, 5.7`. The result equals a reshape of the compact live array.
//!
//! ```text
//! f32[4,<=6] -> f32[<=24]    element j comes from (j / n) * 6 + j % n
//! f32[<=24] -> f32[4,<=6]    element (i, k) comes from i * n + k
//! ```

use super::rules::{Op, Ruled, Stand, refuse};
use super::sizes::{Check, Known, Legal, Sizes};
use crate::legalize::build::Build;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, GatherDims, HloOp};
use murre_components::ids::HloId;

/// Dimensions of the operand and of the result with the same product of bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    from: Vec<usize>,
    into: Vec<usize>,
}

/// The groups; dimensions of extent 1 are in none.
fn groups(from: &[i64], into: &[i64]) -> Vec<Group> {
    let long = |dims: &[i64]| (0..dims.len()).filter(|d| dims[*d] != 1).collect::<Vec<_>>();
    let (mut left, mut right) = (long(from).into_iter(), long(into).into_iter());
    let mut groups = Vec::new();
    while let (Some(i), Some(j)) = (left.next(), right.next()) {
        let (mut p, mut q) = (from[i], into[j]);
        let mut group = Group { from: vec![i], into: vec![j] };
        while p != q {
            let next = if p < q { left.next() } else { right.next() };
            let Some(next) = next else { break };
            if p < q {
                p = p.saturating_mul(from[next]);
                group.from.push(next);
            } else {
                q = q.saturating_mul(into[next]);
                group.into.push(next);
            }
        }
        groups.push(group);
    }
    groups
}

/// Saturates.
fn product(dims: &[i64]) -> i64 {
    dims.iter().fold(1i64, |n, d| n.saturating_mul(*d))
}

/// The stand-in of a reshape or dynamic-reshape.
pub fn rule(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Some(shape) = op.shape() else { return refuse(None, "a reshape gives an array") };
    let (from, into) = (op.bounds(0).to_vec(), shape.dims.clone());
    let mut sizes: Sizes = vec![None; into.len()];
    let given = op.inst.op == HloOp::DynamicReshape;
    if given {
        for (d, size) in sizes.iter_mut().enumerate().filter(|(d, _)| shape.is_dynamic(*d)) {
            let Some(n) = op.x.get(d + 1) else { return refuse(d, "the reshape is not given its size") };
            let check = Check { inst: op.inst.id, dimension: d, legal: Legal::Within(into[d]) };
            let Some(n) = known.checked(b, *n, check, into[d]) else {
                return refuse(d, "a loop's condition sets a size that only a run can check");
            };
            *size = Some(n);
        }
    }
    let groups = if shape.elements() == 0 { Vec::new() } else { groups(&from, &into) };
    short_dimensions(op, &from, &into, given, &mut sizes)?;
    let mut x = op.x[0];
    for group in &groups {
        if !given {
            group_sizes(op, group, &from, &into, &mut sizes, b, known)?;
        }
        if group.from.len() == 1 && group.into.len() == 1 {
            continue;
        }
        let later = |dims: &[usize], size: &dyn Fn(usize) -> Option<HloId>| {
            dims.iter().skip(1).any(|d| size(*d).is_some())
        };
        let joins = group.from.len() > 1 && later(&group.from, &|d| op.size(0, d));
        let splits = group.into.len() > 1 && later(&group.into, &|d| sizes[d]);
        let Some(first) = group.from.first().copied() else { continue };
        let before = product(&from[..first]);
        let within = group.from.iter().fold(1i64, |n, d| n.saturating_mul(from[*d]));
        let after = product(&from) / before.saturating_mul(within).max(1);
        let parts = [before, within, after];
        if (joins || splits) && within > i64::from(i32::MAX) {
            return refuse(first, "it holds more elements than an s32 counts");
        }
        if joins {
            known.rebuilt.push("live elements move together");
            let own: Vec<(i64, Option<HloId>)> =
                group.from.iter().map(|d| (from[*d], op.size(0, *d))).collect();
            let Some(index) = joining(b, known, &own) else {
                return refuse(first, "the sum that counts live elements was not written");
            };
            x = moved(b, x, parts, index);
        }
        if splits {
            known.rebuilt.push("live elements move apart");
            let own: Vec<(i64, Option<HloId>)> = group.into.iter().map(|d| (into[*d], sizes[*d])).collect();
            let index = splitting(b, &own);
            x = moved(b, x, parts, index);
        }
    }
    let value = b.reshape(x, &into);
    Ok(Stand { value, sizes: vec![sizes] })
}

/// Dimensions of bound 1 come and go; one that has a size must find its like at the same end.
fn short_dimensions(
    op: &Op<'_, '_>,
    from: &[i64],
    into: &[i64],
    given: bool,
    sizes: &mut Sizes,
) -> Result<(), super::rules::Refusal> {
    for d in (0..from.len()).filter(|d| from[*d] == 1) {
        let Some(size) = op.size(0, d).filter(|_| !into.is_empty() && !given) else { continue };
        let to = match d {
            0 => 0,
            _ if d + 1 == from.len() => into.len() - 1,
            _ => return refuse(d, "a dimension of bound 1 between others has no place in the result"),
        };
        if into[to] != 1 {
            return refuse(d, "a dimension of bound 1 has no place in the result");
        }
        sizes[to] = Some(size);
    }
    Ok(())
}

/// The sizes of a group's result dimensions.
fn group_sizes(
    op: &Op<'_, '_>,
    group: &Group,
    from: &[i64],
    into: &[i64],
    sizes: &mut Sizes,
    b: &mut Build<'_>,
    known: &mut Known,
) -> Result<(), super::rules::Refusal> {
    let Some(first) = group.from.iter().copied().find(|d| op.size(0, *d).is_some()) else { return Ok(()) };
    let inferred = op.inst.kept_value("inferred_dimension").and_then(|t| t.trim().parse::<usize>().ok());
    let dynamic: Vec<usize> =
        group.into.iter().copied().filter(|d| op.shape().is_some_and(|a| a.is_dynamic(*d))).collect();
    let to = match (inferred.filter(|d| group.into.contains(d)), dynamic.as_slice(), group.into.as_slice()) {
        (Some(d), ..) => d,
        (None, [one], _) | (None, _, [one]) => *one,
        (None, [], _) => return refuse(first, "no dimension of the result can take its size"),
        (None, ..) => return refuse(first, "several dimensions of the result could take its size"),
    };
    if !op.shape().is_some_and(|a| a.is_dynamic(to)) {
        return refuse(first, "the dimension of the result that takes its size is declared static");
    }
    // All live elements, over what the other dimensions of the group hold.
    let rest: i64 = group.into.iter().filter(|d| **d != to).map(|d| into[*d]).product();
    let mut fixed = 1;
    let mut live: Option<HloId> = None;
    let mut whole = true;
    for d in &group.from {
        match op.size(0, *d) {
            None => fixed *= from[*d],
            Some(n) => {
                whole &= known.within.get(&n).is_some_and(|most| *most <= from[*d]);
                live = Some(live.map_or(n, |l| b.binary(HloOp::Multiply, l, n)));
            }
        }
    }
    let Some(mut n) = live else { return Ok(()) };
    if fixed % rest == 0 {
        if fixed / rest != 1 {
            n = b.with_int(HloOp::Multiply, n, fixed / rest);
        }
    } else {
        if fixed != 1 {
            n = b.with_int(HloOp::Multiply, n, fixed);
        }
        n = b.with_int(HloOp::Divide, n, rest);
    }
    if whole {
        known.within.insert(n, into[to]);
    }
    sizes[to] = Some(n);
    Ok(())
}

/// `x` as `[before, within, after]` with the middle dimension taken by `index`.
fn moved(b: &mut Build<'_>, x: HloId, [before, within, after]: [i64; 3], index: HloId) -> HloId {
    let mut dims = Vec::new();
    let (mut offset, mut sizes, mut at) = (Vec::new(), Vec::new(), 0);
    for (n, is_middle) in [(before, false), (within, true), (after, false)] {
        if is_middle {
            at = dims.len() as i64;
            sizes.push(1);
        } else if n != 1 {
            offset.push(dims.len() as i64);
            sizes.push(n);
        } else {
            continue;
        }
        dims.push(n);
    }
    let ty = b.ty(x);
    let x = b.reshape(x, &dims);
    let attrs = Attrs::Gather(Box::new(GatherDims {
        offset_dims: offset,
        collapsed_slice_dims: vec![at],
        start_index_map: vec![at],
        index_vector_dim: 1,
        slice_sizes: sizes,
        ..GatherDims::default()
    }));
    b.op(HloOp::Gather, ty, &dims, &[x, index], attrs)
}

/// By place in the joined dimension: the place at the bounds of the element that belongs there. Digits are taken off from
/// the last dimension on; division by a size counts its multiples.
fn joining(b: &mut Build<'_>, known: &Known, dims: &[(i64, Option<HloId>)]) -> Option<HloId> {
    let total: i64 = dims.iter().map(|(n, _)| n).product();
    let mut rest = b.iota(HloType::S32, &[total], 0);
    let mut source = b.full(HloType::S32, &[total], 0.0);
    let mut stride = 1;
    for (k, (bound, size)) in dims.iter().enumerate().rev() {
        if k == 0 {
            let part = if stride == 1 { rest } else { b.with_int(HloOp::Multiply, rest, stride) };
            return Some(b.binary(HloOp::Add, source, part));
        }
        let rows: i64 = dims[..k].iter().map(|(n, _)| n).product();
        let (quotient, back) = match size {
            None => (b.with_int(HloOp::Divide, rest, *bound), b.full(HloType::S32, &[total], *bound as f64)),
            Some(n) => (quotient(b, known, rest, *n, total, rows)?, b.spread(*n, &[total])),
        };
        let whole = b.binary(HloOp::Multiply, quotient, back);
        let digit = b.binary(HloOp::Subtract, rest, whole);
        let part = if stride == 1 { digit } else { b.with_int(HloOp::Multiply, digit, stride) };
        source = b.binary(HloOp::Add, source, part);
        stride *= bound;
        rest = quotient;
    }
    Some(source)
}

/// `x / n` for `0 <= x < rows * n`: how many of `n, 2n .. (rows - 1) n` are not above `x`.
fn quotient(b: &mut Build<'_>, known: &Known, x: HloId, n: HloId, total: i64, rows: i64) -> Option<HloId> {
    let sum = known.sum?;
    if rows <= 1 {
        return Some(b.full(HloType::S32, &[total], 0.0));
    }
    let multiples = b.iota(HloType::S32, &[rows - 1], 0);
    let multiples = b.with_int(HloOp::Add, multiples, 1);
    let size = b.spread(n, &[rows - 1]);
    let multiples = b.binary(HloOp::Multiply, multiples, size);
    let dims = [total, rows - 1];
    let multiples = b.broadcast(multiples, &dims, &[1]);
    let x = b.broadcast(x, &dims, &[0]);
    let passed = b.compare(Direction::Ge, x, multiples);
    let passed = b.convert(passed, HloType::S32);
    let zero = b.integer(HloType::S32, 0);
    Some(b.reduce(passed, zero, &[1], sum))
}

/// By place at the bounds of the split dimensions: the place in the joined one that the element comes from.
fn splitting(b: &mut Build<'_>, dims: &[(i64, Option<HloId>)]) -> HloId {
    let extents: Vec<i64> = dims.iter().map(|(n, _)| *n).collect();
    let total: i64 = extents.iter().product();
    let mut source = b.full(HloType::S32, &[total], 0.0);
    for (k, (bound, size)) in dims.iter().enumerate() {
        let digit = b.iota(HloType::S32, &extents, k);
        let digit = b.reshape(digit, &[total]);
        let scaled = match size {
            None => b.with_int(HloOp::Multiply, source, *bound),
            Some(n) => {
                let n = b.spread(*n, &[total]);
                b.binary(HloOp::Multiply, source, n)
            }
        };
        source = b.binary(HloOp::Add, scaled, digit);
    }
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_equal_products() {
        let group = |from: &[usize], into: &[usize]| Group { from: from.into(), into: into.into() };
        assert_eq!(groups(&[4, 6], &[24]), [group(&[0, 1], &[0])]);
        assert_eq!(groups(&[4, 1, 6], &[4, 6, 1]), [group(&[0], &[0]), group(&[2], &[1])]);
        assert_eq!(groups(&[4, 6], &[8, 3]), [group(&[0, 1], &[0, 1])]);
        assert_eq!(
            groups(&[2, 12, 5], &[2, 3, 4, 5]),
            [group(&[0], &[0]), group(&[1], &[1, 2]), group(&[2], &[3])]
        );
    }
}
