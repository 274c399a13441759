//! `expand_convolution`: a convolution becomes one dot. The input positions that each output position sees are gathered
//! by one strided slice a kernel position, so that the contraction runs over kernel positions and features at once and
//! accumulates in one place.
//!
//! ```text
//! convolution(x[n,h,w,c], k[2,2,c,o])  ->  dot(concatenate(4 slices of x)[n,h',w',4*c], k[4*c,o])
//! ```
//!
//! Facts: `spec/hlo.md 7`.

use super::build::{Build, Expander, expand_all};
use bevy_ecs::prelude::*;
use murre_components::hlo::{Attrs, DotDims, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_convolution(mut module: ResMut<HloModule>) {
    if let Some(new) = expand_all(&module, &mut Convolution) {
        *module = new;
    }
}

/// Most kernel positions that are gathered.
const MAX_POSITIONS: i64 = 4096;

struct Convolution;

impl Expander for Convolution {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Convolution])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        match inst.attrs() {
            Attrs::Convolution { window, .. } => {
                let empty = inst.shape().array().is_none_or(|s| s.elements() == 0);
                !empty && window.iter().map(|w| w.size).product::<i64>() <= MAX_POSITIONS
            }
            _ => false,
        }
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Convolution { window, dims, feature_groups, batch_groups } = inst.attrs() else {
            return None;
        };
        let shape = inst.shape().array()?;
        let rank = window.len();
        // Input as [n, spatial.., c], padded and dilated.
        let mut order = vec![dims.input_batch];
        order.extend(&dims.input_spatial);
        order.push(dims.input_feature);
        let x = b.transpose(operands[0], &order);
        let pads = |f: &dyn Fn(usize) -> i64| -> Vec<i64> {
            std::iter::once(0).chain((0..rank).map(f)).chain([0]).collect()
        };
        let zero = b.constant(b.ty(x), 0.0);
        let (low, high) = (pads(&|d| window[d].pad_low), pads(&|d| window[d].pad_high));
        let holes = pads(&|d| window[d].base_dilation - 1);
        let x = b.pad(x, zero, &low, &high, &holes);
        // Kernel as [spatial.., i, o].
        let mut order = dims.kernel_spatial.clone();
        order.extend([dims.kernel_input_feature, dims.kernel_output_feature]);
        let k = b.transpose(operands[1], &order);
        let (xd, kd) = (b.dims(x), b.dims(k));
        let (n, c) = (xd[0], xd[rank + 1]);
        let (i, o) = (kd[rank], kd[rank + 1]);
        let out: Vec<i64> = dims.output_spatial.iter().map(|d| shape.dims[*d as usize]).collect();
        let positions: i64 = kd[..rank].iter().product();
        if positions == 0 || i == 0 {
            return None;
        }
        let mut parts = Vec::with_capacity(positions as usize);
        let mut at = vec![0i64; rank];
        for _ in 0..positions {
            let (mut start, mut limit, mut step) = (vec![0], vec![n], vec![1]);
            for (d, w) in window.iter().enumerate() {
                let tap = if w.reversal { w.size - 1 - at[d] } else { at[d] };
                let first = tap * w.window_dilation;
                start.push(first);
                limit.push(first + (out[d] - 1) * w.stride + 1);
                step.push(w.stride);
            }
            start.push(0);
            limit.push(c);
            step.push(1);
            let seen = b.slice(x, &start, &limit, &step);
            let mut with_tap = vec![n];
            with_tap.extend(&out);
            with_tap.extend([1, c]);
            parts.push(b.reshape(seen, &with_tap));
            for d in (0..rank).rev() {
                at[d] += 1;
                if at[d] < kd[d] {
                    break;
                }
                at[d] = 0;
            }
        }
        let patches = b.concatenate(&parts, rank + 1);
        let places: i64 = out.iter().product();
        let (groups, by_batch) =
            if *batch_groups > 1 { (*batch_groups, true) } else { (*feature_groups, false) };
        let group_out = o / groups;
        // Both sides as [group, rows, taps * features].
        let (rows, left) = if by_batch {
            let rows = n / groups * places;
            (rows, b.reshape(patches, &[groups, rows, positions * c]))
        } else {
            let rows = n * places;
            let split = b.reshape(patches, &[rows, positions, groups, c / groups]);
            let turned = b.transpose(split, &[2, 0, 1, 3]);
            (rows, b.reshape(turned, &[groups, rows, positions * (c / groups)]))
        };
        let right = b.reshape(k, &[positions * i, groups, group_out]);
        let right = b.transpose(right, &[1, 0, 2]);
        let product = b.dot(
            shape.ty,
            left,
            right,
            DotDims {
                lhs_batch: vec![0],
                rhs_batch: vec![0],
                lhs_contracting: vec![2],
                rhs_contracting: vec![1],
            },
        );
        // [group, rows, group_out] -> [rows, group * group_out] -> [n, out.., o] -> the output's order.
        let turned = b.transpose(product, &[1, 0, 2]);
        let mut natural = vec![rows / places];
        natural.extend(&out);
        natural.push(o);
        let y = b.reshape(turned, &natural);
        let mut place = vec![0i64; rank + 2];
        place[dims.output_batch as usize] = 0;
        for (k, d) in dims.output_spatial.iter().enumerate() {
            place[*d as usize] = k as i64 + 1;
        }
        place[dims.output_feature as usize] = rank as i64 + 1;
        Some(b.transpose(y, &place))
    }
}
