//! Neutral elements where an operation would mix the area behind a size into results. In: a value, its sizes. Out: the
//! value with `identity` at every index that is not below the size. Facts: `spec/dynamic_shapes.md 5.1`.
//!
//! ```text
//! live = pred[B] compare(iota, broadcast(n)), direction=LT     x' = select(broadcast(live), x, broadcast(identity))
//! ```

use super::sizes::{Known, Sizes};
use super::story::Padded;
use crate::legalize::build::Build;
use murre_components::dtype::HloType;
use murre_components::hlo::Direction;
use murre_components::ids::HloId;

/// `pred[bound]`: which indices are below the size.
pub fn live(b: &mut Build<'_>, known: &mut Known, size: HloId, bound: i64) -> HloId {
    if let Some(mask) = known.masks.get(&(size, bound)) {
        return *mask;
    }
    let index = b.iota(HloType::S32, &[bound], 0);
    let limit = b.spread(size, &[bound]);
    let mask = b.compare(Direction::Lt, index, limit);
    known.masks.insert((size, bound), mask);
    mask
}

/// The mask of dimension `d` for an array of these extents.
pub fn mask(b: &mut Build<'_>, known: &mut Known, dims: &[i64], d: usize, size: HloId) -> HloId {
    let live = live(b, known, size, dims[d]);
    if dims.len() == 1 {
        return live;
    }
    b.broadcast(live, dims, &[d as i64])
}

/// `x` with the scalar `identity` behind the sizes of the dimensions that `wanted` names.
pub fn pad(
    b: &mut Build<'_>,
    known: &mut Known,
    x: HloId,
    sizes: &Sizes,
    identity: HloId,
    wanted: impl Fn(usize) -> bool,
) -> HloId {
    let dims = b.dims(x);
    let mut padded = x;
    for (d, size) in sizes.iter().enumerate() {
        let Some(size) = size.filter(|_| wanted(d)) else { continue };
        let mask = mask(b, known, &dims, d, size);
        let fill = b.spread(identity, &dims);
        known.padded.push(Padded { x, dimension: d, identity });
        padded = b.select(mask, padded, fill);
    }
    if let Some(size) = sizes.first().copied().flatten().filter(|_| wanted(0)) {
        known.neutral.insert(padded, size);
    }
    padded
}

/// Zero of a type.
pub fn zero(b: &mut Build<'_>, ty: HloType) -> HloId {
    b.constant_bytes(ty, &[], vec![0; ty.bytes()])
}

/// The largest value of an integer type.
pub fn largest(b: &mut Build<'_>, ty: HloType) -> HloId {
    let mut bytes = vec![0xff; ty.bytes()];
    if let Some(last) = bytes.last_mut().filter(|_| !ty.is_unsigned_int()) {
        *last = 0x7f;
    }
    b.constant_bytes(ty, &[], bytes)
}

/// What loses every comparison: the lowest integer, or minus infinity.
pub fn lowest(b: &mut Build<'_>, ty: HloType) -> HloId {
    if ty.is_float() {
        return b.constant(ty, f64::NEG_INFINITY);
    }
    let mut bytes = vec![0; ty.bytes()];
    if let Some(last) = bytes.last_mut().filter(|_| ty.is_signed_int()) {
        *last = 0x80;
    }
    b.constant_bytes(ty, &[], bytes)
}
