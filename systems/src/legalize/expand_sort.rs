//! `expand_sort`: sort and top-k become a merging network. Blocks of 2, 4, 8 ... elements are merged: first each element
//! of a block meets its mirror image, then the ones at falling distances; every meeting is one comparison and a select
//! an operand, on whole arrays. A position rides along as a last key, so that equal elements keep their order and the
//! elements that fill up to a power of two stay at the end.
//!
//! Facts: `spec/hlo.md 7`; `n` elements take `log n (log n + 1) / 2` steps.

use super::build::{Build, Expander, computation, expand_all};
use super::rebuild::Rebuild;
use super::region::{apply, is_elementwise};
use super::total_order::{from_total_key, key_type, total_key};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn expand_sort(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut Sort { module: &module, extremes: None });
    if let Some(new) = new {
        *module = new;
    }
}

struct Sort<'m> {
    module: &'m HloModule,
    /// Minimum and maximum of s32, once a top-k was met.
    extremes: Option<[CompId; 2]>,
}

/// Largest array that is sorted.
const MAX_ELEMENTS: u64 = 1 << 26;

/// A top-k of at most this many picks one after the other.
const PICKED: i64 = 16;

impl Sort<'_> {
    /// The `k` first of each row and their places.
    fn top_k(&self, inst: HloInst<'_>, x: HloId, k: i64, largest: bool, b: &mut Build<'_>) -> Option<HloId> {
        let dims = b.dims(x);
        let d = dims.len() - 1;
        let words = !matches!(b.ty(x), HloType::U32);
        let picks = match self.extremes {
            Some(extremes) if (1..=PICKED).contains(&k) && dims[d] > 4 * k && words && !dims.contains(&0) => {
                picked(b, x, d, k, largest, extremes)
            }
            _ => {
                let places = b.iota(HloType::S32, &dims, d);
                let sorted = sorted(b, &[x, places], d, &Less::Key { largest }, false);
                sorted.iter().map(|v| b.slice_dim(*v, d, 0, k, 1)).collect()
            }
        };
        Some(if inst.shape().array().is_some() { *picks.first()? } else { b.tuple(&picks) })
    }
}

/// The best of each row, `k` times: its key, the first place that has it, the element there; then that place is out.
fn picked(
    b: &mut Build<'_>,
    x: HloId,
    d: usize,
    k: i64,
    largest: bool,
    [least, most]: [CompId; 2],
) -> Vec<HloId> {
    let (ty, dims) = (b.ty(x), b.dims(x));
    let keys = total_key(b, x);
    let mut keys = b.convert(keys, HloType::S32);
    if !largest {
        // The order backwards, without overflow.
        keys = b.unary(HloOp::Not, keys);
    }
    let places = b.iota(HloType::S32, &dims, d);
    let lowest = b.integer(HloType::S32, i64::from(i32::MIN));
    let end = b.integer(HloType::S32, dims[d]);
    let kept: Vec<i64> = (0..d as i64).collect();
    let mut one = dims.clone();
    one[d] = 1;
    let mut alive: Option<HloId> = None;
    let (mut found_keys, mut found_places) = (Vec::new(), Vec::new());
    for _ in 0..k {
        let best = b.reduce(keys, lowest, &[d as i64], most);
        let wide = b.broadcast(best, &dims, &kept);
        let mut same = b.compare(Direction::Eq, keys, wide);
        if let Some(alive) = alive {
            same = b.binary(HloOp::And, same, alive);
        }
        let ends = b.spread(end, &dims);
        let candidates = b.select(same, places, ends);
        let place = b.reduce(candidates, end, &[d as i64], least);
        found_keys.push(b.reshape(best, &one));
        found_places.push(b.reshape(place, &one));
        let wide = b.broadcast(place, &dims, &kept);
        let stays = b.compare(Direction::Ne, places, wide);
        alive = Some(match alive {
            Some(alive) => b.binary(HloOp::And, alive, stays),
            None => stays,
        });
        let floor = b.spread(lowest, &dims);
        keys = b.select(stays, keys, floor);
    }
    let mut values = b.concatenate(&found_keys, d);
    if !largest {
        values = b.unary(HloOp::Not, values);
    }
    let values = from_total_key(b, values, ty);
    vec![values, b.concatenate(&found_places, d)]
}

/// How two rows compare.
enum Less {
    /// By a computation on a pair of scalars for each operand.
    By(CompId),
    /// The first operand's elements, descending or ascending, NaNs beyond infinity by their sign.
    Key { largest: bool },
}

impl Expander for Sort<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Sort, HloOp::TopK, HloOp::CustomCall])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        let large = || {
            let mut arrays = inst.operands().iter().map(|o| self.module.inst(*o).shape().array());
            arrays.any(|a| a.is_none_or(|a| a.elements() > MAX_ELEMENTS))
        };
        match inst.op {
            HloOp::Sort | HloOp::TopK | HloOp::CustomCall if large() => false,
            HloOp::Sort => inst.called().first().is_some_and(|c| is_elementwise(self.module, *c)),
            HloOp::CustomCall if !matches!(inst.attrs(), Attrs::CustomCall { target, .. } if target == "TopK") => {
                false
            }
            HloOp::TopK | HloOp::CustomCall => inst
                .operands()
                .first()
                .and_then(|o| self.module.inst(*o).shape().array())
                .is_some_and(|a| key_type(a.ty).is_some()),
            _ => false,
        }
    }

    fn prepare(&mut self, _old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) {
        if inst.op == HloOp::Sort || self.extremes.is_some() {
            return;
        }
        let word = Shape::Array(ArrayShape::new(HloType::S32, []));
        let both = [word.clone(), word];
        let least = computation(out, "topk.least", &both, inst, |b, p| b.binary(HloOp::Minimum, p[0], p[1]));
        let most = computation(out, "topk.most", &both, inst, |b, p| b.binary(HloOp::Maximum, p[0], p[1]));
        self.extremes = Some([least, most]);
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        match inst.attrs() {
            Attrs::Sort { dimension, stable } => {
                let by = b.out.computations[inst.called().first()?.index()];
                let alone = operands.len() == 1 && !stable;
                let less = plain_key(self.module, *inst.called().first()?).unwrap_or(Less::By(by));
                let sorted = sorted(b, operands, *dimension as usize, &less, alone);
                Some(if inst.shape().array().is_some() { sorted[0] } else { b.tuple(&sorted) })
            }
            Attrs::TopK { k, largest } => self.top_k(inst, operands[0], *k, *largest, b),
            Attrs::CustomCall { .. } => {
                let k = *inst.shape().leaves().first()?.array()?.dims.last()?;
                self.top_k(inst, operands[0], k, true, b)
            }
            _ => None,
        }
    }
}

/// How a comparator orders, if it compares the first operand's elements and nothing else, floats by their total order.
fn plain_key(module: &HloModule, by: CompId) -> Option<Less> {
    let comp = module.comp(by);
    let root = module.inst(comp.root);
    let Attrs::Compare { direction, total_order } = *root.attrs() else { return None };
    let ty = module.inst(*comp.parameters.first()?).shape().array()?.ty;
    let direct = root.operands() == comp.parameters.get(..2)?;
    let ordered = total_order || !ty.is_float();
    match direction {
        _ if !direct || !ordered || key_type(ty).is_none() => None,
        Direction::Lt => Some(Less::Key { largest: false }),
        Direction::Gt => Some(Less::Key { largest: true }),
        _ => None,
    }
}

/// Sorts rows along `d`.
fn sorted(b: &mut Build<'_>, operands: &[HloId], d: usize, less: &Less, alone: bool) -> Vec<HloId> {
    let dims = b.dims(operands[0]);
    let n = dims[d];
    let rows: i64 = dims.iter().enumerate().filter(|(k, _)| *k != d).map(|(_, n)| n).product();
    if n < 2 || rows == 0 {
        return operands.to_vec();
    }
    // The sorted dimension last, all others one.
    let mut order: Vec<i64> = (0..dims.len() as i64).filter(|k| *k != d as i64).collect();
    order.push(d as i64);
    let turned: Vec<i64> = order.iter().map(|k| dims[*k as usize]).collect();
    let full = (n as u64).next_power_of_two() as i64;
    let mut x: Vec<HloId> = Vec::with_capacity(operands.len() + 2);
    for o in operands {
        let t = b.transpose(*o, &order);
        let flat = b.reshape(t, &[rows, n]);
        let zero = b.integer(b.ty(*o), 0);
        x.push(b.pad(flat, zero, &[0, 0], &[0, full - n], &[0, 0]));
    }
    if let Less::Key { .. } = less {
        let k = total_key(b, x[0]);
        x.push(k);
    }
    let positions = (!alone || full != n).then(|| {
        let i = b.iota(HloType::S32, &[rows, full], 1);
        x.push(i);
        x.len() - 1
    });
    let network = Network { less, operands: operands.len(), positions, real: n, filled: full != n };
    let mut block = 2;
    while block <= full {
        x = network.step(b, x, rows, full, block, true);
        let mut inner = block / 2;
        while inner >= 2 {
            x = network.step(b, x, rows, full, inner, false);
            inner /= 2;
        }
        block *= 2;
    }
    let back: Vec<i64> =
        (0..dims.len()).map(|k| order.iter().position(|o| *o == k as i64).unwrap_or(0) as i64).collect();
    x.truncate(operands.len());
    x.into_iter()
        .map(|v| {
            let cut = b.slice_dim(v, 1, 0, n, 1);
            let shaped = b.reshape(cut, &turned);
            b.transpose(shaped, &back)
        })
        .collect()
}

struct Network<'l> {
    less: &'l Less,
    /// Number of the sort's own operands.
    operands: usize,
    /// Which carried array holds positions.
    positions: Option<usize>,
    /// Number of real elements.
    real: i64,
    /// Whether there are others.
    filled: bool,
}

impl Network<'_> {
    /// One meeting in every block: mirrored or at half a block's distance.
    fn step(
        &self,
        b: &mut Build<'_>,
        x: Vec<HloId>,
        rows: i64,
        full: i64,
        block: i64,
        mirrored: bool,
    ) -> Vec<HloId> {
        let half = block / 2;
        let split = [rows, full / block, block];
        let mut left = Vec::with_capacity(x.len());
        let mut right = Vec::with_capacity(x.len());
        for v in &x {
            let blocks = b.reshape(*v, &split);
            left.push(b.slice_dim(blocks, 2, 0, half, 1));
            let far = b.slice_dim(blocks, 2, half, block, 1);
            right.push(if mirrored { b.reverse(far, 2) } else { far });
        }
        let swap = self.less(b, &right, &left);
        let mut out = Vec::with_capacity(x.len());
        for (l, r) in left.into_iter().zip(right) {
            let low = b.select(swap, r, l);
            let high = b.select(swap, l, r);
            let high = if mirrored { b.reverse(high, 2) } else { high };
            let joined = b.concatenate(&[low, high], 2);
            out.push(b.reshape(joined, &[rows, full]));
        }
        out
    }

    /// Whether row `a` stands strictly before row `c`.
    fn less(&self, b: &mut Build<'_>, a: &[HloId], c: &[HloId]) -> HloId {
        let dims = b.dims(a[0]);
        let compare = |b: &mut Build<'_>, a: &[HloId], c: &[HloId]| match self.less {
            Less::By(by) => {
                let pairs: Vec<HloId> = (0..self.operands).flat_map(|k| [a[k], c[k]]).collect();
                apply(b, *by, &pairs, &dims)[0]
            }
            Less::Key { largest } => {
                let direction = if *largest { Direction::Gt } else { Direction::Lt };
                b.compare(direction, a[self.operands], c[self.operands])
            }
        };
        let first = compare(b, a, c);
        let Some(p) = self.positions else { return first };
        let earlier = b.compare(Direction::Lt, a[p], c[p]);
        let back = compare(b, c, a);
        let not_back = b.unary(HloOp::Not, back);
        let tie = b.binary(HloOp::And, not_back, earlier);
        let ordered = b.binary(HloOp::Or, first, tie);
        if !self.filled {
            return ordered;
        }
        let n = self.real as f64;
        let a_real = b.compare_with(Direction::Lt, a[p], n);
        let c_real = b.compare_with(Direction::Lt, c[p], n);
        let both = b.binary(HloOp::And, ordered, a_real);
        b.select(c_real, both, earlier)
    }
}
