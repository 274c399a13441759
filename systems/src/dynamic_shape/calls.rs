//! Custom calls, collectives and top-k on arrays with run-time extents. In: the call, its operands at their bounds, their
//! sizes. Out: what stands for it. Facts: `spec/dynamic_shapes.md 3.2`, `6.1`, `6.2`.
//!
//! ```text
//! (f32[8], s32[]) custom-call(x), custom_call_target="PadToStatic"         ->  tuple(x, n)
//! f32[<=8] custom-call(x, n), custom_call_target="SliceToDynamic"          ->  x, of size n
//! f32[<=8] custom-call(x), custom_call_target="Sharding"                   ->  the same, of x's size
//! ```

use super::rules::{Op, Ruled, Stand, refuse};
use super::sizes::{Check, Known, Legal, Sizes};
use crate::legalize::build::Build;
use murre_components::hlo::{ANNOTATIONS, Attrs, HloInst, Shape};

/// The call that takes an array with run-time extents apart.
pub const PAD_TO_STATIC: &str = "PadToStatic";

/// The call that puts an array with run-time extents together.
pub const SLICE_TO_DYNAMIC: &str = "SliceToDynamic";

/// Whether an instruction gives the sizes of an array, which may be static.
pub fn takes_apart(inst: HloInst<'_>) -> bool {
    matches!(inst.attrs(), Attrs::CustomCall { target, .. } if target == PAD_TO_STATIC)
}

/// The stand-in of a custom call.
pub fn rule(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let Attrs::CustomCall { target, .. } = op.inst.attrs() else { return refuse(None, "it calls nothing") };
    match target.as_str() {
        PAD_TO_STATIC => pad_to_static(op, b, known),
        SLICE_TO_DYNAMIC => slice_to_dynamic(op, b, known),
        "TopK" => top(op, b),
        name if ANNOTATIONS.contains(&name) => op.same(b, op.sizes.first().cloned().unwrap_or_default()),
        name => {
            let sized = (0..op.sizes.len()).find_map(|k| op.first_sized(k));
            refuse(sized, format!("a custom call to \"{name}\" has no rule for run-time extents"))
        }
    }
}

fn pad_to_static(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let (Shape::Tuple(parts), [x]) = (op.inst.shape(), op.x) else {
        return refuse(None, "it gives an array and the size of each of its dimensions");
    };
    let rank = op.bounds(0).len();
    let is_scalar =
        |s: &Shape| s.array().is_some_and(|a| a.rank() == 0 && a.ty == murre_components::dtype::HloType::S32);
    if parts.len() != rank + 1 || !parts[1..].iter().all(is_scalar) {
        return refuse(None, "it gives an array and the size of each of its dimensions");
    }
    known.shows = true;
    let mut all = vec![*x];
    for (d, bound) in op.bounds(0).iter().enumerate() {
        all.push(match op.size(0, d) {
            Some(size) => size,
            None => known.constant(b, *bound),
        });
    }
    Ok(Stand { value: b.tuple(&all), sizes: Vec::new() })
}

fn slice_to_dynamic(op: &Op<'_, '_>, b: &mut Build<'_>, known: &mut Known) -> Ruled {
    let bounds = op.bounds(0);
    if op.x.len() != bounds.len() + 1 {
        return refuse(None, "it takes an array and the size of each of its dimensions");
    }
    let mut sizes: Sizes = vec![None; bounds.len()];
    for (d, size) in sizes.iter_mut().enumerate().filter(|(d, _)| op.is_dynamic(*d)) {
        let check = Check { inst: op.inst.id, dimension: d, legal: Legal::Within(bounds[d]) };
        let Some(n) = known.checked(b, op.x[d + 1], check, bounds[d]) else {
            return refuse(d, "a loop's condition sets a size that only a run can check");
        };
        *size = Some(n);
    }
    Ok(Stand { value: op.x[0], sizes: vec![sizes] })
}

/// A collective: of one participant, each result is its operand.
pub fn together(op: &Op<'_, '_>, b: &mut Build<'_>) -> Ruled {
    let results: Vec<&Shape> = op.inst.shape().leaves();
    let fits = results.len() == op.x.len()
        && results.iter().enumerate().all(|(k, s)| s.array().is_some_and(|a| a.dims == op.bounds(k)));
    if !fits {
        return refuse(op.first_sized(0), "a collective of several devices changes a run-time extent");
    }
    let value = op.copied(b, op.x);
    Ok(Stand { value, sizes: op.sizes.clone() })
}

/// Top-k along the last dimension: rows behind a size are chosen from as well, and are nobody's.
pub fn top(op: &Op<'_, '_>, b: &mut Build<'_>) -> Ruled {
    let last = op.bounds(0).len().saturating_sub(1);
    if op.size(0, last).is_some() {
        return refuse(last, "the dimension that is chosen from has a run-time extent");
    }
    let value = op.copied(b, op.x);
    let leaves = op.inst.shape().leaves().len();
    Ok(Stand { value, sizes: vec![op.sizes[0].clone(); leaves] })
}
