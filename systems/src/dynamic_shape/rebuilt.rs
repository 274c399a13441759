//! Operations whose movement of data hangs on sizes: they are built anew from movements at run-time offsets.
//! Facts: `spec/dynamic_shapes.md 5.2, 5.3, 5.4, 5.6`.
//!
//! ```text
//! concatenate(a, b)  ->  dynamic-update-slice(pad(a), b, size(a))
//! reverse(x)         ->  dynamic-slice(pad(reverse(x)), B - size(x))
//! ```

use super::padding::{mask, zero};
use super::rules::{Op, Ruled, Stand, refuse};
use super::sizes::{Check, Known, Legal, Sizes};
use crate::legalize::build::Build;
use crate::legalize::rebuild::Rebuild;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Computation, Draft, HloInst, HloModule, HloOp, HloRange, Shape};
use murre_components::ids::{CompId, HloId};

/// The stand-in of one of them.
pub fn rule(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    match (op.inst.op, op.inst.attrs()) {
        (HloOp::Concatenate, Attrs::Dimensions(list)) => {
            concatenate(op, list.first().map_or(0, |d| *d as usize), b, known)
        }
        (HloOp::Reverse, Attrs::Dimensions(list)) => reverse(op, list, b, known),
        (HloOp::Sort, Attrs::Sort { dimension, .. }) => sort(op, *dimension as usize, b, known),
        (HloOp::DynamicUpdateSlice, _) => dynamic_update_slice(op, b, known),
        (other, _) => refuse(None, format!("{} has no rule for run-time extents", other.name())),
    }
}

fn starts(b: &mut Build<'_>, rank: usize, d: usize, at: HloId) -> Vec<HloId> {
    (0..rank).map(|k| if k == d { at } else { b.integer(HloType::S32, 0) }).collect()
}

fn concatenate(op: &Op<'_, '_>, along: usize, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let rank = op.bounds(0).len();
    let mut sizes: Sizes = vec![None; rank];
    for k in 0..op.x.len() {
        for (d, size) in sizes.iter_mut().enumerate().filter(|(d, _)| *d != along) {
            *size = op.size(k, d).or(*size);
        }
    }
    op.read_together(b, known, 0..op.x.len(), &sizes)?;
    if (0..op.x.len()).all(|k| op.size(k, along).is_none()) {
        return op.same(b, sizes);
    }
    let total = (0..op.x.len()).fold(0i64, |n, k| n.saturating_add(op.bounds(k)[along]));
    if total > i64::from(i32::MAX) {
        return refuse(along, "the joined dimension is longer than an s32 counts");
    }
    known.rebuilt.push("parts stand behind each other at run-time offsets");
    let ty = b.ty(op.x[0]);
    let nothing = zero(b, ty);
    let (mut high, none) = (vec![0; rank], vec![0; rank]);
    high[along] = total - op.bounds(0)[along];
    let mut joined = b.pad(op.x[0], nothing, &none, &high, &none);
    // The parts follow each other at their sizes; each part's surplus is overwritten by the next one.
    let (mut fixed, mut running, mut most) = (0, None, 0);
    for (k, x) in op.x.iter().enumerate() {
        if k > 0 {
            let at = end(b, fixed, running);
            known.within.insert(at, most);
            let at = starts(b, rank, along, at);
            let operands: Vec<HloId> = [joined, *x].into_iter().chain(at).collect();
            let dims = b.dims(joined);
            joined = b.op(HloOp::DynamicUpdateSlice, ty, &dims, &operands, Attrs::None);
        }
        let bound = op.bounds(k)[along];
        most += bound;
        match op.size(k, along) {
            None => fixed += bound,
            Some(size) => {
                let size = known.clamp(b, size, bound);
                running = Some(running.map_or(size, |r| b.binary(HloOp::Add, r, size)));
            }
        }
    }
    let size = end(b, fixed, running);
    known.within.insert(size, total);
    sizes[along] = Some(size);
    Ok(Stand { value: joined, sizes: vec![sizes] })
}

fn end(b: &mut Build<'_>, fixed: i64, running: Option<HloId>) -> HloId {
    match running {
        None => b.integer(HloType::S32, fixed),
        Some(r) => super::rules::plus(b, r, fixed),
    }
}

fn reverse(op: &Op<'_, '_>, list: &[i64], b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let sizes = op.sizes[0].clone();
    let mut x = op.copied(b, op.x);
    let (ty, dims) = (b.ty(x), b.dims(x));
    for d in list.iter().map(|d| *d as usize) {
        let Some(size) = op.size(0, d) else { continue };
        // Turned at the bound, the live part ends at the bound: it is moved to the front.
        known.rebuilt.push("turned at the bound, then moved to the front");
        let size = known.clamp(b, size, dims[d]);
        let bound = b.integer(HloType::S32, dims[d]);
        let start = b.binary(HloOp::Subtract, bound, size);
        let (mut high, none) = (vec![0; dims.len()], vec![0; dims.len()]);
        high[d] = dims[d];
        let nothing = zero(b, ty);
        let wide = b.pad(x, nothing, &none, &high, &none);
        let at = starts(b, dims.len(), d, start);
        let operands: Vec<HloId> = std::iter::once(wide).chain(at).collect();
        x = b.op(HloOp::DynamicSlice, ty, &dims, &operands, Attrs::DynamicSlice { sizes: dims.clone() });
    }
    Ok(Stand { value: x, sizes: vec![sizes] })
}

fn dynamic_update_slice(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let (mut sizes, base, part) = (op.sizes[0].clone(), op.bounds(0), op.bounds(1));
    let mut update = op.x[1];
    let within: Vec<usize> =
        (0..part.len()).filter(|d| op.size(1, *d).is_some() && part[*d] < base[*d]).collect();
    if !within.is_empty() {
        // Behind the update's size stays what was there.
        known.rebuilt.push("behind the update's size stays what was there");
        let ty = b.ty(update);
        let operands: Vec<HloId> = std::iter::once(op.x[0]).chain(op.x[2..].iter().copied()).collect();
        let cut = Attrs::DynamicSlice { sizes: part.to_vec() };
        let there = b.op(HloOp::DynamicSlice, ty, part, &operands, cut);
        for d in within {
            let Some(size) = op.size(1, d) else { continue };
            let live = mask(b, known, part, d, size);
            update = b.select(live, update, there);
        }
    }
    for (d, size) in sizes.iter_mut().enumerate() {
        if part.get(d) == base.get(d) {
            *size = op.size(1, d).or(*size);
        }
    }
    let mut operands = op.x.to_vec();
    operands[1] = update;
    let value = op.copied(b, &operands);
    Ok(Stand { value, sizes: vec![sizes] })
}

/// Whether a sort orders a dimension that has a run-time extent.
pub fn sorts_dynamic(old: &HloModule, inst: HloInst<'_>) -> bool {
    let Attrs::Sort { dimension, .. } = inst.attrs() else { return false };
    let dynamic = |o: &HloId| old.inst(*o).shape().array().is_some_and(|a| a.is_dynamic(*dimension as usize));
    inst.op == HloOp::Sort && inst.operands().iter().any(dynamic)
}

/// Writes the comparator of a sort of `n` arrays and their mask: what is live comes first, in the order of `compare`.
pub fn comparator(out: &mut Rebuild, name: &str, compare: CompId, like: HloInst<'_>) -> CompId {
    let inner = out.module.comp(compare).clone();
    let first = out.module.len() as u32;
    let mut here = vec![HloId::NONE; inner.instructions.len()];
    for id in inner.instructions.iter() {
        let operands: Vec<HloId> = out
            .module
            .inst(id)
            .operands()
            .iter()
            .map(|o| here[(o.0 - inner.instructions.first) as usize])
            .collect();
        let title = out.module.inst(id).name().to_owned();
        here[(id.0 - inner.instructions.first) as usize] = out.push_like(id, &title, &operands);
    }
    let at = |id: HloId| here[(id.0 - inner.instructions.first) as usize];
    let mut parameters: Vec<HloId> = inner.parameters.iter().map(|p| at(*p)).collect();
    let shape =
        out.module.intern_shape(Shape::Array(murre_components::hlo::ArrayShape::new(HloType::S32, [])));
    for side in ["lhs", "rhs"] {
        let attrs = out.module.intern_attrs(Attrs::Parameter { number: parameters.len() as u32 });
        let title = format!("{}.live_{side}", like.name());
        parameters.push(out.push(Draft { attrs, ..Draft::new(&title, HloOp::Parameter, shape) }));
    }
    let (left, right) = (parameters[parameters.len() - 2], parameters[parameters.len() - 1]);
    let root = at(inner.root);
    let mut b = Build::new(out, like);
    let in_left = b.compare_int(murre_components::hlo::Direction::Ne, left, 0);
    let out_right = b.compare_int(murre_components::hlo::Direction::Eq, right, 0);
    let before = b.binary(HloOp::Or, root, out_right);
    let root = b.binary(HloOp::And, in_left, before);
    let id = out.next_computation();
    let count = out.module.len() as u32 - first;
    out.module.computations.push(Computation {
        name: name.to_string(),
        instructions: HloRange { first, count },
        parameters,
        root,
        extra: Vec::new(),
    });
    out.begin();
    id
}

fn sort(op: &Op<'_, '_>, along: usize, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let n = op.x.len();
    let Some(size) = (0..n).find_map(|k| op.size(k, along)) else {
        let value = op.copied(b, op.x);
        return Ok(Stand { value, sizes: op.sizes.clone() });
    };
    for k in (0..n).filter(|k| op.size(*k, along).is_some_and(|own| own != size)) {
        let own = op.size(k, along).unwrap_or(size);
        let check = Check { inst: op.inst.id, dimension: along, legal: Legal::Beside };
        if !known.reaches(b, own, size, check) || !known.reaches(b, size, own, check) {
            return refuse(along, "a loop's condition sorts arrays whose sizes only a run can compare");
        }
    }
    let Some(compare) = known.comparators.get(&op.inst.id).copied() else {
        return refuse(along, "the comparison of the sort was not rebuilt");
    };
    known.rebuilt.push("what lies behind the size is sorted to the end");
    let dims = op.bounds(0).to_vec();
    let live = mask(b, known, &dims, along, size);
    let live = b.convert(live, HloType::S32);
    let mut operands = op.x.to_vec();
    operands.push(live);
    let shapes = operands.iter().map(|o| b.out.module.inst(*o).shape().clone()).collect();
    let attrs = op.inst.attrs().clone();
    let sorted = b.any(HloOp::Sort, Shape::Tuple(shapes), &operands, &[compare], attrs);
    let parts: Vec<HloId> = (0..n).map(|k| b.element(sorted, k)).collect();
    let value = match (op.inst.shape(), parts.as_slice()) {
        (Shape::Array(_), [one, ..]) => *one,
        _ => b.tuple(&parts),
    };
    Ok(Stand { value, sizes: op.sizes.clone() })
}
