//! Activate (21), LoadActFuncSet (23) and the accumulator reads (24, 9B). Facts: `spec/isa_compute.md 4`.
//! `y = f(scale * x + bias)`: product and sum are two fp32 roundings, the function is evaluated in f64 and rounded once.

use super::{Done, On, cannot, same, state};
use murre_components::isa::{ActFunc, Activate, LoadActFuncSet, ReadAccumulator, ReadAccumulatorOp};

/// Error function, to about 1e-16: a series near zero, a continued fraction away from it.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 2.5 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term.abs() > sum.abs() * 1e-17 && n < 200.0 {
            n += 1.0;
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let mut f = 0.0;
        for k in (1..=80).rev() {
            f = k as f64 / 2.0 / (a + f);
        }
        1.0 - (-a * a).exp() / (a + f) / std::f64::consts::PI.sqrt()
    };
    value.copysign(x)
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

fn softplus(z: f64) -> f64 {
    (-z.abs()).exp().ln_1p() + z.max(0.0)
}

/// The function's value, `spec/isa_compute.md 4.3`.
pub fn evaluate(f: ActFunc, z32: f32, alpha: f32) -> f32 {
    use ActFunc::*;
    if z32.is_nan() {
        return match f {
            IsFinite | Relu => 0.0,
            _ => f32::NAN,
        };
    }
    let z = z32 as f64;
    let y = match f {
        Identity | Copy => z,
        Square => z * z,
        Relu => z.max(0.0),
        Lrelu => {
            if z > 0.0 {
                z
            } else {
                0.01 * z
            }
        }
        Prelu => {
            if z > 0.0 {
                z
            } else {
                alpha as f64 * z
            }
        }
        Sigmoid => sigmoid(z),
        Tanh => z.tanh(),
        Exp => z.exp(),
        Softplus => softplus(z),
        Sqrt => z.sqrt(),
        Rsqrt => 1.0 / z.sqrt(),
        Ln => z.ln(),
        Erf => erf(z),
        Sin => z.sin(),
        Arctan => z.atan(),
        Sign => (z > 0.0) as i8 as f64 - (z < 0.0) as i8 as f64,
        Gelu => 0.5 * z * (1.0 + erf(z * std::f64::consts::FRAC_1_SQRT_2)),
        Mish => z * softplus(z).tanh(),
        GeluApprxTanh => 0.5 * z * (1.0 + (0.797_884_56 * (z + 0.044_715 * z * z * z)).tanh()),
        GeluApprxSigmoid => z * sigmoid(1.702 * z),
        DerivativeGeluApprxSigmoid => {
            let s = sigmoid(1.702 * z);
            s + 1.702 * z * s * (1.0 - s)
        }
        DerivativeGelu => {
            0.5 * (1.0 + erf(z * std::f64::consts::FRAC_1_SQRT_2)) + 0.398_942_3 * z * (-z * z / 2.0).exp()
        }
        DerivativeErf => std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp(),
        Abs => z.abs(),
        Reciprocal => 1.0 / z,
        AbsReciprocalSqrt => 1.0 / z.abs().sqrt(),
        Silu => z / (1.0 + (-z).exp()),
        DerivativeSilu => {
            let s = sigmoid(z);
            s * (1.0 + z * (1.0 - s))
        }
        IsFinite => z.is_finite() as u8 as f64,
    };
    y as f32
}

pub(super) fn activate(on: &mut On<'_>, x: &Activate) -> Done {
    let f = ActFunc::from_code(x.func).ok_or_else(|| cannot(format!("activation code {}", x.func)))?;
    if !f.hardwired() && !on.core.table_set.is_some_and(|s| f.in_set(s)) {
        return Err(state(format!(
            "'{}' is not in the resident table set {:?}",
            f.name(),
            on.core.table_set
        )));
    }
    let v = on.view(&x.src, x.src_dtype, x.channels)?;
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    same("source and destination", v.count, d.count)?;
    let scale = on.imm(&x.scale, 10, x.channels)?;
    let bias = on.imm(&x.bias.0, if x.bias_dtype == 0 { 10 } else { x.bias_dtype }, x.channels)?;
    let alpha = on.imm(&x.alpha, 10, x.channels)?;
    for p in 0..x.channels as usize {
        let mut values = on.read(&v, p)?;
        for y in &mut values {
            let scaled = scale[p] * *y;
            *y = evaluate(f, scaled + bias[p], alpha[p]);
        }
        on.begin(x.cmd, v.partition + p, 0.0, 0.0);
        if x.cmd >= 2 {
            let acc = on.accumulator(v.partition + p);
            values.iter().for_each(|y| *acc += *y);
        }
        on.write(&d, p, &values)?;
    }
    Ok(())
}

pub(super) fn load_set(on: &mut On<'_>, x: &LoadActFuncSet) -> Done {
    on.core.table_set = Some(x.set);
    Ok(())
}

pub(super) fn read_accumulator(on: &mut On<'_>, x: &ReadAccumulator) -> Done {
    let d = on.target(&x.dst, x.out_dtype, x.channels)?;
    for p in 0..x.channels as usize {
        let acc = *on.accumulator(d.partition + p);
        let negate = x.opcode == ReadAccumulatorOp::DveReadAccumulator && x.negate != 0;
        on.write(&d, p, &[if negate { -acc } else { acc }])?;
    }
    Ok(())
}
