//! Comparing a result with its golden.
//!
//! * exact: the same value; NaN where the golden has NaN; -0 equals 0.
//! * close: NaN and infinities where the golden has them, else `|got - want| <= atol + rtol * |want|`.

use super::{HostArray, dims_text, float};
use crate::hlo::number::format_element;
use murre_components::dtype::HloType;

/// How near a result must come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The same values.
    Exact,
    /// Within `atol + rtol * |want|`.
    Close {
        /// Relative part.
        rtol: f64,
        /// Absolute part.
        atol: f64,
    },
}

/// The first place where a result differs from its golden.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// What differs, in words.
    pub message: String,
}

impl core::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}

/// A real number to compare: integers exactly, floats by value.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Real(f64),
}

fn parts(array: &HostArray, i: usize) -> [Number; 2] {
    let bits = array.bits(i);
    let width = array.ty.bytes();
    match array.ty {
        HloType::C64 => {
            let part = |shift: u32| Number::Real(float::decode(HloType::F32, bits >> shift & 0xffff_ffff));
            [part(0), part(32)]
        }
        HloType::C128 => {
            let tail = array.data.get(i * width + 8..(i + 1) * width).unwrap_or_default();
            let imaginary = tail.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
            [Number::Real(f64::from_bits(bits)), Number::Real(f64::from_bits(imaginary))]
        }
        ty if ty.is_float() => [Number::Real(float::decode(ty, bits)), Number::Int(0)],
        ty if ty.is_signed_int() => {
            let unused = 64 - 8 * width as u32;
            [Number::Int(((bits << unused) as i64 >> unused).into()), Number::Int(0)]
        }
        _ => [Number::Int(bits.into()), Number::Int(0)],
    }
}

fn agree(got: Number, want: Number, tolerance: &Tolerance) -> bool {
    let real = |n: Number| match n {
        Number::Int(i) => i as f64,
        Number::Real(r) => r,
    };
    match (got, want, tolerance) {
        (Number::Int(a), Number::Int(b), Tolerance::Exact) => a == b,
        _ => {
            let (a, b) = (real(got), real(want));
            if a.is_nan() || b.is_nan() {
                return a.is_nan() && b.is_nan();
            }
            match tolerance {
                Tolerance::Close { rtol, atol } if a.is_finite() && b.is_finite() => {
                    (a - b).abs() <= atol + rtol * b.abs()
                }
                _ => a == b,
            }
        }
    }
}

/// Compares a result with its golden; `Err` says where they first differ, and how much of them does.
pub fn compare(got: &HostArray, want: &HostArray, tolerance: &Tolerance) -> Result<(), Mismatch> {
    if got.ty != want.ty || got.dims != want.dims {
        let (a, b) = (dims_text(&got.dims), dims_text(&want.dims));
        let message = format!("got {}{a}, want {}{b}", got.ty.name(), want.ty.name());
        return Err(Mismatch { message });
    }
    let count = want.elements() as usize;
    let bad = |i: usize| {
        let (a, b) = (parts(got, i), parts(want, i));
        !agree(a[0], b[0], tolerance) || !agree(a[1], b[1], tolerance)
    };
    let Some(first) = (0..count).find(|i| bad(*i)) else { return Ok(()) };
    let differing = (first..count).filter(|i| bad(*i)).count();
    let mut rest = first as u64;
    let mut index: Vec<String> = Vec::new();
    for d in want.dims.iter().rev() {
        index.push((rest % d.max(&1)).to_string());
        rest /= d.max(&1);
    }
    index.reverse();
    let (a, b) = (format_element(got.ty, got.bits(first)), format_element(want.ty, want.bits(first)));
    let how = match tolerance {
        Tolerance::Exact => "exactly".to_owned(),
        Tolerance::Close { rtol, atol } => format!("within atol {atol} + rtol {rtol}"),
    };
    let message =
        format!("element [{}]: got {a}, want {b} {how}; {differing} of {count} differ", index.join(","));
    Err(Mismatch { message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> HostArray {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        HostArray { ty: HloType::F32, dims: vec![values.len() as u64], data }
    }

    #[test]
    fn exact_and_close() {
        let close = Tolerance::Close { rtol: 1e-5, atol: 1e-6 };
        assert!(compare(&f32s(&[f32::NAN, -0.0]), &f32s(&[f32::NAN, 0.0]), &Tolerance::Exact).is_ok());
        assert!(compare(&f32s(&[1.000001]), &f32s(&[1.0]), &close).is_ok());
        assert!(compare(&f32s(&[1.000001]), &f32s(&[1.0]), &Tolerance::Exact).is_err());
        assert!(compare(&f32s(&[f32::MAX]), &f32s(&[f32::INFINITY]), &close).is_err());
        assert!(compare(&f32s(&[f32::NAN]), &f32s(&[0.0]), &close).is_err());
        let fault = compare(&f32s(&[1.0, 2.0, 9.0]), &f32s(&[1.0, 3.0, 4.0]), &Tolerance::Exact).err();
        let message = fault.map(|m| m.message).unwrap_or_default();
        assert_eq!(message, "element [1]: got 2, want 3 exactly; 2 of 3 differ");
        let other = HostArray { dims: vec![1], ..f32s(&[1.0]) };
        assert!(compare(&other, &f32s(&[1.0, 2.0]), &close).is_err());
    }
}
