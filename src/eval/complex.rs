//! Complex elementwise operations on pairs of `f64`. Square roots, tangents and powers are written so that neither part
//! overflows or cancels where the result does not.

use super::scalar::{Complex1, Complex2};
use murre_components::hlo::HloOp;

type C = [f64; 2];

fn times([a, b]: C, [c, d]: C) -> C {
    [a * c - b * d, a * d + b * c]
}

/// Smith's quotient: scales by the larger part of the divisor.
fn over([a, b]: C, [c, d]: C) -> C {
    if c.abs() >= d.abs() {
        if c == 0.0 && d == 0.0 {
            return [a / c.abs(), b / c.abs()];
        }
        let r = d / c;
        let n = c + d * r;
        [(a + b * r) / n, (b - a * r) / n]
    } else {
        let r = c / d;
        let n = c * r + d;
        [(a * r + b) / n, (b * r - a) / n]
    }
}

fn abs([re, im]: C) -> f64 {
    libm::hypot(re, im)
}

/// `e^re` times the unit of angle `im`; a real argument has a real result, whatever its size.
fn exp([re, im]: C) -> C {
    let r = libm::exp(re);
    if im == 0.0 { [r, im] } else { [r * libm::cos(im), r * libm::sin(im)] }
}

fn log(z: C) -> C {
    [libm::log(abs(z)), libm::atan2(z[1], z[0])]
}

fn log1p([re, im]: C) -> C {
    // |1 + z|^2 - 1 = re (2 + re) + im^2 keeps its digits near zero.
    let near = re.abs() < 0.5 && im.abs() < 0.5;
    let size = if near {
        0.5 * libm::log1p(re * (2.0 + re) + im * im)
    } else {
        libm::log(libm::hypot(1.0 + re, im))
    };
    [size, libm::atan2(im, 1.0 + re)]
}

fn expm1([re, im]: C) -> C {
    let half = libm::sin(0.5 * im);
    // e^re cos(im) - 1 = expm1(re) cos(im) - 2 sin(im / 2)^2
    let real = libm::expm1(re) * libm::cos(im) - 2.0 * half * half;
    [real, if im == 0.0 { im } else { libm::exp(re) * libm::sin(im) }]
}

fn sqrt(z: C) -> C {
    let [re, im] = z;
    if re == 0.0 && im == 0.0 {
        return [0.0, im];
    }
    if im.is_infinite() {
        return [f64::INFINITY, im];
    }
    let size = abs(z);
    if re >= 0.0 {
        let root = ((size + re) * 0.5).sqrt();
        [root, if im == 0.0 { im } else { im / (2.0 * root) }]
    } else {
        let root = ((size - re) * 0.5).sqrt();
        [im.abs() / (2.0 * root), root.copysign(im)]
    }
}

fn sin([re, im]: C) -> C {
    [libm::sin(re) * libm::cosh(im), libm::cos(re) * libm::sinh(im)]
}

fn cos([re, im]: C) -> C {
    [libm::cos(re) * libm::cosh(im), -(libm::sin(re) * libm::sinh(im))]
}

fn tanh([re, im]: C) -> C {
    if re.abs() > 20.0 {
        // sinh^2 has long swallowed cos^2.
        return [1f64.copysign(re), 4.0 * libm::sin(im) * libm::cos(im) * libm::exp(-2.0 * re.abs())];
    }
    let (s, c) = (libm::sinh(re), libm::cos(im));
    let n = s * s + c * c;
    [s * libm::cosh(re) / n, libm::sin(im) * c / n]
}

fn tan([re, im]: C) -> C {
    let [a, b] = tanh([-im, re]);
    [b, -a]
}

fn pow(z: C, w: C) -> C {
    if z == [0.0, 0.0] {
        // Only powers that are real and not negative have a value here.
        return match w {
            [re, im] if re == 0.0 && im == 0.0 => [1.0, 0.0],
            [re, im] if re > 0.0 && im == 0.0 => [0.0, 0.0],
            _ => [f64::NAN; 2],
        };
    }
    exp(times(log(z), w))
}

/// `-i log((x + i y) / sqrt(x^2 + y^2))`.
fn atan2(y: C, x: C) -> C {
    let up = [x[0] - y[1], x[1] + y[0]];
    let (x2, y2) = (times(x, x), times(y, y));
    let [re, im] = log(over(up, sqrt([x2[0] + y2[0], x2[1] + y2[1]])));
    [im, -re]
}

/// Complex to complex.
pub(crate) fn complex_unary(op: HloOp) -> Option<Complex1> {
    use HloOp::*;
    Some(match op {
        Copy => |z| z,
        Negate => |[re, im]| [-re, -im],
        Exponential => exp,
        ExponentialMinusOne => expm1,
        Log => log,
        LogPlusOne => log1p,
        Sqrt => sqrt,
        Rsqrt => |z| over([1.0, 0.0], sqrt(z)),
        Cbrt => |z| pow(z, [1.0 / 3.0, 0.0]),
        Logistic => |[re, im]| {
            let [a, b] = exp([-re, -im]);
            over([1.0, 0.0], [1.0 + a, b])
        },
        Sine => sin,
        Cosine => cos,
        Tan => tan,
        Tanh => tanh,
        Sign => |z| {
            if z == [0.0, 0.0] {
                return z;
            }
            let size = abs(z);
            [z[0] / size, z[1] / size]
        },
        _ => return None,
    })
}

/// Two complex numbers to one.
pub(crate) fn complex_binary(op: HloOp) -> Option<Complex2> {
    use HloOp::*;
    Some(match op {
        Add => |[a, b], [c, d]| [a + c, b + d],
        Subtract => |[a, b], [c, d]| [a - c, b - d],
        Multiply => times,
        Divide => over,
        Power => pow,
        Atan2 => atan2,
        _ => return None,
    })
}

/// Complex to float.
pub(crate) fn complex_to_float(op: HloOp) -> Option<fn(C) -> f64> {
    Some(match op {
        HloOp::Abs => abs,
        HloOp::Real => |[re, _]| re,
        HloOp::Imag => |[_, im]| im,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: C, b: C) -> bool {
        (a[0] - b[0]).abs() + (a[1] - b[1]).abs() < 1e-12 * (1.0 + abs(b))
    }

    #[test]
    fn inverses_undo_each_other() {
        for z in [[1.5, -0.25], [-3.0, 4.0], [-1.0, 0.0], [1e-9, 2.0], [0.0, -2.0]] {
            assert!(near(times(sqrt(z), sqrt(z)), z), "{z:?}");
            assert!(near(exp(log(z)), z), "{z:?}");
            assert!(near(times(over([1.0, 2.0], z), z), [1.0, 2.0]), "{z:?}");
            assert!(near(pow(z, [2.0, 0.0]), times(z, z)), "{z:?}");
            assert!(near(over(sin(z), cos(z)), tan(z)), "{z:?}");
            assert!(near(log1p(expm1([0.1 * z[0], 0.1 * z[1]])), [0.1 * z[0], 0.1 * z[1]]), "{z:?}");
        }
        assert_eq!(sqrt([-1.0, -0.0]), [0.0, -1.0]);
        assert_eq!(abs([3.0, 4.0]), 5.0);
        assert_eq!(tanh([40.0, 1.0])[0], 1.0);
    }
}
