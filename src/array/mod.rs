//! Arrays on the host: what `.npy` and `.npz` files hold, and how results are compared with goldens.
//!
//! An array is row-major and little-endian whatever its file was. bf16 travels as `uint16` and f8 as `uint8` with the
//! same bits, so an array only gets its true type when [`HostArray::conform`] checks it against a shape.

pub mod case;
pub mod compare;
pub mod files;
pub mod float;
pub mod npy;

use murre_components::diag::{Diagnostic, codes::read};
use murre_components::dtype::HloType;
use murre_components::hlo::ArrayShape;

/// A dense array: element type, extents, and its elements row-major and little-endian ([`HloType::bytes`] each).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostArray {
    /// Element type.
    pub ty: HloType,
    /// Extents.
    pub dims: Vec<u64>,
    /// The elements.
    pub data: Vec<u8>,
}

/// The type whose bits a file may carry in place of `ty`.
fn carrier(ty: HloType) -> HloType {
    use HloType::*;
    match ty {
        Bf16 => U16,
        S1 | S2 | S4 => S8,
        t if t.bytes() == 1 && (t.is_float() || t.is_unsigned_int()) => U8,
        other => other,
    }
}

fn dims_text(dims: &[u64]) -> String {
    let words: Vec<String> = dims.iter().map(|d| d.to_string()).collect();
    format!("[{}]", words.join(","))
}

impl HostArray {
    /// Number of elements. Saturates.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1u64, |n, d| n.saturating_mul(*d))
    }

    /// The little-endian bits of element `i`; 0 behind the end. Of a complex element, its real part.
    pub fn bits(&self, i: usize) -> u64 {
        let width = self.ty.bytes();
        let bytes = self.data.get(i * width..(i + 1) * width).unwrap_or_default();
        bytes.iter().take(8).rev().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    /// The array as one of shape `want`: the same bits with the true element type, after rank, extents and type were
    /// checked. A bounded dimension takes any extent up to its bound. `name` names the array in the diagnostic.
    #[allow(clippy::result_large_err)] // a diagnostic is what the caller reports; it is made once
    pub fn conform(mut self, want: &ArrayShape, name: &str) -> Result<HostArray, Diagnostic> {
        let found = format!("{}{}", self.ty.name(), dims_text(&self.dims));
        let fault =
            |code, what: String| Diagnostic::error(code, what).found(found).expected(want.to_string());
        if self.ty != want.ty && self.ty != carrier(want.ty) {
            let what = format!("{name} has element type {}, not {}", self.ty.name(), want.ty.name());
            return Err(fault(&read::ARRAY_DTYPE, what));
        }
        if self.dims.len() != want.rank() {
            let what = format!("{name} has {} dimensions, not {}", self.dims.len(), want.rank());
            return Err(fault(&read::ARRAY_RANK, what));
        }
        for (d, (&have, &wanted)) in self.dims.iter().zip(&want.dims).enumerate() {
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            if have != wanted && !(want.is_dynamic(d) && have <= wanted) {
                let limit = if want.is_dynamic(d) { "at most " } else { "" };
                let what = format!("{name} has extent {have} in dimension {d}, not {limit}{wanted}");
                return Err(fault(&read::ARRAY_EXTENT, what));
            }
        }
        if self.elements().checked_mul(want.ty.bytes() as u64) != Some(self.data.len() as u64) {
            return Err(fault(
                &read::ARRAY_CORRUPT,
                format!("{name} holds {} bytes of data", self.data.len()),
            ));
        }
        self.ty = want.ty;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(have: (HloType, &[u64]), want: ArrayShape) -> Option<&'static str> {
        let bytes = have.1.iter().product::<u64>() as usize * have.0.bytes();
        let array = HostArray { ty: have.0, dims: have.1.to_vec(), data: vec![0; bytes] };
        array.conform(&want, "input 0").err().map(|d| d.code.id)
    }

    #[test]
    fn rank_extent_and_type_are_checked() {
        use HloType::*;
        assert_eq!(code((F32, &[2, 3]), ArrayShape::new(F32, [2, 3])), None);
        assert_eq!(code((U16, &[2]), ArrayShape::new(Bf16, [2])), None);
        assert_eq!(code((U8, &[2]), ArrayShape::new(F8E5M2, [2])), None);
        assert_eq!(code((F32, &[6]), ArrayShape::new(F32, [2, 3])), Some("MUR0121"));
        assert_eq!(code((F32, &[2, 4]), ArrayShape::new(F32, [2, 3])), Some("MUR0122"));
        assert_eq!(code((F64, &[2]), ArrayShape::new(F32, [2])), Some("MUR0123"));
        assert_eq!(code((U16, &[2]), ArrayShape::new(F16, [2])), Some("MUR0123"));
        let bounded = ArrayShape { dynamic: vec![true], ..ArrayShape::new(F32, [8]) };
        assert_eq!(code((F32, &[3]), bounded.clone()), None);
        assert_eq!(code((F32, &[9]), bounded), Some("MUR0122"));
    }
}
