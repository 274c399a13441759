//! `expand_select_and_scatter`: which position of its window each source element goes to is found by comparing one shifted
//! view of the operand after the other; then each window position scatters its own share by a dilating pad.
//!
//! Facts: `spec/hlo.md 7`: positions outside of the operand are never selected, and an earlier position stays while the
//! select computation holds for it.

use super::build::{Build, Expander, expand_all};
use super::region::{apply, is_elementwise};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// Most window positions that are written out.
const MAX_POSITIONS: i64 = 1024;

/// The pass.
pub fn expand_select_and_scatter(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut SelectAndScatter { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

struct SelectAndScatter<'m> {
    module: &'m HloModule,
}

impl Expander for SelectAndScatter<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::SelectAndScatter])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        let Attrs::Window(window) = inst.attrs() else { return false };
        inst.op == HloOp::SelectAndScatter
            && inst.called().iter().all(|c| is_elementwise(self.module, *c))
            && window.iter().map(|w| w.size).product::<i64>() <= MAX_POSITIONS
            && inst
                .operands()
                .iter()
                .all(|o| self.module.inst(*o).shape().array().is_some_and(|a| a.elements() > 0))
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Window(window) = inst.attrs() else { return None };
        let [select, scatter] = inst.called() else { return None };
        let (select, scatter) = (b.out.computations[select.index()], b.out.computations[scatter.index()]);
        let [x, source, init] = operands else { return None };
        let (low, high): (Vec<i64>, Vec<i64>) = window.iter().map(|w| (w.pad_low, w.pad_high)).unzip();
        let none = vec![0; window.len()];
        let padded = low.iter().chain(&high).any(|n| *n != 0);
        let zero = b.constant(b.ty(*x), 0.0);
        let all = b.pad(*x, zero, &low, &high, &none);
        let inside = padded.then(|| {
            let (yes, no) = (b.constant(HloType::Pred, 1.0), b.constant(HloType::Pred, 0.0));
            let dims = b.dims(*x);
            let ones = b.spread(yes, &dims);
            b.pad(ones, no, &low, &high, &none)
        });
        let (dims, whole) = (b.dims(*source), b.dims(all));
        let positions: Vec<Vec<i64>> = positions(&window.iter().map(|w| w.size).collect::<Vec<_>>());
        let view = |b: &mut Build<'_>, v: HloId, at: &[i64]| {
            let limit: Vec<i64> =
                (0..at.len()).map(|d| at[d] + (dims[d] - 1) * window[d].stride + 1).collect();
            let stride: Vec<i64> = window.iter().map(|w| w.stride).collect();
            b.slice(v, at, &limit, &stride)
        };
        let mut best = view(b, all, &positions[0]);
        let mut legal = inside.map(|i| view(b, i, &positions[0]));
        let mut chosen = b.full(HloType::S32, &dims, 0.0);
        for (k, at) in positions.iter().enumerate().skip(1) {
            let value = view(b, all, at);
            let keep = apply(b, select, &[best, value], &dims)[0];
            let mut take = b.unary(HloOp::Not, keep);
            if let (Some(i), Some(had)) = (inside, legal) {
                let here = view(b, i, at);
                let lacked = b.unary(HloOp::Not, had);
                let wanted = b.binary(HloOp::Or, take, lacked);
                take = b.binary(HloOp::And, wanted, here);
                legal = Some(b.binary(HloOp::Or, had, here));
            }
            best = b.select(take, value, best);
            let number = b.full(HloType::S32, &dims, k as f64);
            chosen = b.select(take, number, chosen);
        }
        let mut result = b.spread(*init, &whole);
        let no = b.constant(HloType::Pred, 0.0);
        let stretch: Vec<i64> = window.iter().map(|w| w.stride - 1).collect();
        for (k, at) in positions.iter().enumerate() {
            let mut mine = b.compare_with(Direction::Eq, chosen, k as f64);
            if let Some(legal) = legal {
                mine = b.binary(HloOp::And, mine, legal);
            }
            let rest: Vec<i64> =
                (0..at.len()).map(|d| whole[d] - at[d] - ((dims[d] - 1) * window[d].stride + 1)).collect();
            let mask = b.pad(mine, no, at, &rest, &stretch);
            let filler = b.constant(b.ty(*source), 0.0);
            let values = b.pad(*source, filler, at, &rest, &stretch);
            let sum = apply(b, scatter, &[result, values], &whole)[0];
            result = b.select(mask, sum, result);
        }
        let cut = |v: &[i64]| -> Vec<i64> { v.iter().map(|n| -n).collect() };
        let filler = b.constant(b.ty(result), 0.0);
        Some(b.pad(result, filler, &cut(&low), &cut(&high), &none))
    }
}

/// Every position of a window, row-major.
fn positions(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &n in sizes {
        all = all
            .into_iter()
            .flat_map(|p: Vec<i64>| (0..n).map(move |i| p.iter().copied().chain([i]).collect()))
            .collect();
    }
    all
}
