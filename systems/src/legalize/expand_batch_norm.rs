//! `expand_batch_norm`: the three batch-norm operations become reductions and arithmetic, in f32.
//!
//! ```text
//! (y, m, v) = batch-norm-training(x, s, o)  ->  m = sum(x) / n ; v = sum((x - m)^2) / n ; y = (x - m) * rsqrt(v + eps) * s + o
//! ```
//!
//! Facts: `spec/hlo.md 7`.

use super::build::{Build, Expander, computation, expand_all};
use super::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::{CompId, HloId};

/// The pass.
pub fn expand_batch_norm(mut module: ResMut<HloModule>) {
    if let Some(new) = expand_all(&module, &mut BatchNorm::default()) {
        *module = new;
    }
}

#[derive(Default)]
struct BatchNorm {
    sum: CompId,
}

impl Expander for BatchNorm {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::BatchNormTraining, HloOp::BatchNormInference, HloOp::BatchNormGrad])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        matches!(inst.op, HloOp::BatchNormTraining | HloOp::BatchNormInference | HloOp::BatchNormGrad)
    }

    fn prepare(&mut self, _old: &HloModule, inst: HloInst<'_>, out: &mut Rebuild) {
        if self.sum.is_none() {
            let scalar = Shape::Array(ArrayShape::new(HloType::F32, []));
            let parameters = [scalar.clone(), scalar];
            self.sum = computation(out, "batch_norm.sum", &parameters, inst, |b, p| {
                b.binary(HloOp::Add, p[0], p[1])
            });
        }
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        batch_norm(b, inst, operands, self.sum, None, &mut |_, x| x)
    }
}

/// Writes a batch norm. `sum` adds two f32 scalars. Where extents are run-time values, `count` is the f32 number of
/// elements of a feature and `live` puts zeros behind the sizes.
pub fn batch_norm(
    b: &mut Build<'_>,
    inst: HloInst<'_>,
    operands: &[HloId],
    sum: CompId,
    count: Option<HloId>,
    live: &mut dyn FnMut(&mut Build<'_>, HloId) -> HloId,
) -> Option<HloId> {
    let Attrs::BatchNorm { epsilon, feature_index } = *inst.attrs() else { return None };
    let epsilon = f64::from(f32::from_bits(epsilon));
    let (ty, dims) = (b.ty(operands[0]), b.dims(operands[0]));
    let others: Vec<i64> = (0..dims.len() as i64).filter(|d| *d != feature_index).collect();
    let n = others.iter().map(|d| dims[*d as usize]).product::<i64>() as f64;
    let counted = |b: &mut Build<'_>, op, x: HloId| match count {
        None => b.with(op, x, n),
        Some(n) => {
            let extents = b.dims(x);
            let n = b.spread(n, &extents);
            b.binary(op, x, n)
        }
    };
    let o: Vec<HloId> = operands.iter().map(|x| b.convert(*x, HloType::F32)).collect();
    let zero = b.constant(HloType::F32, 0.0);
    let mut total = |b: &mut Build<'_>, x: HloId| {
        let x = live(b, x);
        b.reduce(x, zero, &others, sum)
    };
    let wide = |b: &mut Build<'_>, x: HloId| b.broadcast(x, &dims, &[feature_index]);
    let narrow = |b: &mut Build<'_>, x: HloId| b.convert(x, ty);
    let scale_of = |b: &mut Build<'_>, variance: HloId| {
        let shifted = b.with(HloOp::Add, variance, epsilon);
        b.unary(HloOp::Rsqrt, shifted)
    };
    let normal = |b: &mut Build<'_>, mean: HloId, variance: HloId| {
        let m = wide(b, mean);
        let centred = b.binary(HloOp::Subtract, o[0], m);
        let r = scale_of(b, variance);
        let (r, s, f) = (wide(b, r), wide(b, o[1]), wide(b, o[2]));
        let unit = b.binary(HloOp::Multiply, centred, r);
        let scaled = b.binary(HloOp::Multiply, unit, s);
        b.binary(HloOp::Add, scaled, f)
    };
    Some(match inst.op {
        HloOp::BatchNormInference => {
            let y = normal(b, o[3], o[4]);
            narrow(b, y)
        }
        HloOp::BatchNormTraining => {
            let s = total(b, o[0]);
            let mean = counted(b, HloOp::Divide, s);
            let m = wide(b, mean);
            let centred = b.binary(HloOp::Subtract, o[0], m);
            let squares = b.binary(HloOp::Multiply, centred, centred);
            let s = total(b, squares);
            let variance = counted(b, HloOp::Divide, s);
            let y = normal(b, mean, variance);
            let parts = [narrow(b, y), narrow(b, mean), narrow(b, variance)];
            b.tuple(&parts)
        }
        _ => {
            let (mean, variance, gradient) = (o[2], o[3], o[4]);
            let m = wide(b, mean);
            let centred = b.binary(HloOp::Subtract, o[0], m);
            let r = scale_of(b, variance);
            let offset = total(b, gradient);
            let product = b.binary(HloOp::Multiply, gradient, centred);
            let weighted = total(b, product);
            let scale = b.binary(HloOp::Multiply, weighted, r);
            // grad_x = scale * r / n * (n * g - sum(g) - centred * r^2 * sum(g * centred))
            let r2 = b.binary(HloOp::Multiply, r, r);
            let pull = b.binary(HloOp::Multiply, r2, weighted);
            let pull = wide(b, pull);
            let third = b.binary(HloOp::Multiply, centred, pull);
            let first = counted(b, HloOp::Multiply, gradient);
            let second = wide(b, offset);
            let rest = b.binary(HloOp::Subtract, first, second);
            let rest = b.binary(HloOp::Subtract, rest, third);
            let sr = b.binary(HloOp::Multiply, o[1], r);
            let factor = counted(b, HloOp::Divide, sr);
            let factor = wide(b, factor);
            let x = b.binary(HloOp::Multiply, factor, rest);
            let parts = [narrow(b, x), narrow(b, scale), narrow(b, offset)];
            b.tuple(&parts)
        }
    })
}
