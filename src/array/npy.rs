//! `.npy` files: bytes in, [`HostArray`] out, and back. Fortran order and big-endian elements are turned; an
//! `ml_dtypes` array (a void type of 1 or 2 bytes) reads as the unsigned integer with the same bits.

use super::HostArray;
use murre_components::diag::{Diagnostic, codes::read};
use murre_components::dtype::HloType;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr, WriteOptions, WriterBuilder};

/// Headers longer than this are none of ours; it also bounds what the header's parser may recurse on.
const MAX_HEADER: usize = 4096;

fn corrupt(name: &str, what: impl core::fmt::Display) -> Diagnostic {
    Diagnostic::error(&read::ARRAY_CORRUPT, format!("{name} is not a usable .npy file: {what}"))
}

/// Length of the header's text, when the fixed part is sound.
fn header_text(bytes: &[u8]) -> Option<&[u8]> {
    if !bytes.starts_with(b"\x93NUMPY") {
        return None;
    }
    let (start, length) = match bytes.get(6)? {
        1 => (10, usize::from(u16::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?]))),
        _ => {
            let length = bytes.get(8..12)?;
            (12, length.iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b)))
        }
    };
    if length > MAX_HEADER { None } else { bytes.get(start..start + length) }
}

/// Whether the numbers of the header multiply to something that can be counted, and its brackets nest little.
fn is_tame(text: &[u8]) -> bool {
    let mut product = 1u128;
    let mut number = 0u128;
    for b in text {
        if b.is_ascii_digit() {
            number = (number * 10 + u128::from(b - b'0')).min(1 << 64);
        } else {
            product = product.saturating_mul(number.max(1));
            number = 0;
        }
    }
    product < 1 << 60 && text.iter().filter(|b| matches!(b, b'(' | b'[' | b'{')).count() < 16
}

fn element_type(ty: &TypeStr) -> Option<HloType> {
    use HloType::*;
    Some(match (ty.type_char(), ty.size_field()) {
        (TypeChar::Bool, 1) => Pred,
        (TypeChar::Int, 1) => S8,
        (TypeChar::Int, 2) => S16,
        (TypeChar::Int, 4) => S32,
        (TypeChar::Int, 8) => S64,
        (TypeChar::Uint, 1) | (TypeChar::RawData, 1) => U8,
        (TypeChar::Uint, 2) | (TypeChar::RawData, 2) => U16,
        (TypeChar::Uint, 4) => U32,
        (TypeChar::Uint, 8) => U64,
        (TypeChar::Float, 2) => F16,
        (TypeChar::Float, 4) => F32,
        (TypeChar::Float, 8) => F64,
        (TypeChar::Complex, 8) => C64,
        (TypeChar::Complex, 16) => C128,
        _ => return None,
    })
}

/// Reads one `.npy` file; `name` names it in diagnostics.
#[allow(clippy::result_large_err)] // one diagnostic a file
pub fn read_npy(bytes: &[u8], name: &str) -> Result<HostArray, Diagnostic> {
    let text = header_text(bytes).ok_or_else(|| corrupt(name, "its header is damaged"))?;
    if !is_tame(text) {
        return Err(corrupt(name, "its header is out of bounds"));
    }
    let mut rest = bytes;
    let header = NpyHeader::from_reader(&mut rest).map_err(|e| corrupt(name, e))?;
    let dtype = header.dtype();
    let (ty, swapped) = match &dtype {
        DType::Plain(plain) => (element_type(plain), plain.endianness() == Endianness::Big),
        _ => (None, false),
    };
    let Some(ty) = ty else {
        let fault =
            Diagnostic::error(&read::ARRAY_DTYPE, format!("{name} has an element type that HLO has not"));
        return Err(fault.found(dtype.descr()).expected("bool, int, uint, float or complex"));
    };
    let dims = header.shape().to_vec();
    let width = ty.bytes();
    let count =
        dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).and_then(|n| n.checked_mul(width as u64));
    if count != Some(rest.len() as u64) {
        return Err(corrupt(name, format!("it holds {} bytes of data", rest.len())));
    }
    let mut data = rest.to_vec();
    if swapped {
        let part = if matches!(ty, HloType::C64 | HloType::C128) { width / 2 } else { width };
        data.chunks_exact_mut(part).for_each(|element| element.reverse());
    }
    if ty == HloType::Pred && data.iter().any(|b| *b > 1) {
        return Err(corrupt(name, "a bool is neither 0 nor 1"));
    }
    if header.order() == Order::Fortran {
        data = from_fortran(&data, width, &dims);
    }
    Ok(HostArray { ty, dims, data })
}

/// Elements stored first dimension fastest, to row-major.
fn from_fortran(data: &[u8], width: usize, dims: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0u64; dims.len()];
    for _ in 0..data.len() / width.max(1) {
        let (mut at, mut step) = (0, 1);
        for (i, d) in index.iter().zip(dims) {
            at += (*i * step) as usize;
            step *= d;
        }
        // The index is below the extents, whose product is the number of elements.
        out.extend_from_slice(&data[at * width..(at + 1) * width]);
        for d in (0..dims.len()).rev() {
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
    out
}

/// The descr that numpy gives the type; bf16 and f8 as the unsigned integer with the same bits.
fn descr(ty: HloType) -> &'static str {
    use HloType::*;
    match ty {
        Pred => "|b1",
        S16 => "<i2",
        S32 => "<i4",
        S64 => "<i8",
        U16 | Bf16 => "<u2",
        U32 => "<u4",
        U64 => "<u8",
        F16 => "<f2",
        F32 => "<f4",
        F64 => "<f8",
        C64 => "<c8",
        C128 => "<c16",
        t if t.is_signed_int() => "|i1",
        _ => "|u1",
    }
}

/// The bytes of a `.npy` file with this array.
pub fn npy_bytes(array: &HostArray) -> std::io::Result<Vec<u8>> {
    let ty: TypeStr = descr(array.ty).parse().map_err(std::io::Error::other)?;
    let builder =
        WriteOptions::new_header_only().dtype(DType::Plain(ty)).shape(&array.dims).writer(Vec::new());
    let mut bytes = builder.write_header_only()?;
    bytes.extend_from_slice(&array.data);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_read_back() {
        for ty in
            [HloType::Pred, HloType::S8, HloType::U16, HloType::F16, HloType::F32, HloType::F64, HloType::C64]
        {
            for dims in [vec![], vec![2], vec![2, 3], vec![0, 4]] {
                let n = dims.iter().product::<u64>() as usize * ty.bytes();
                let array = HostArray { ty, dims, data: (0..n).map(|i| (i % 2) as u8).collect() };
                let bytes = npy_bytes(&array).expect("writing to memory");
                assert_eq!(read_npy(&bytes, "a.npy").ok(), Some(array));
            }
        }
    }

    fn file(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn orders_and_foreign_types() {
        let big = read_npy(&file("'>i2'", "False", "(2,)", &[0, 1, 0, 2]), "a").expect("big-endian");
        assert_eq!(big.data, [1, 0, 2, 0]);
        let fortran =
            read_npy(&file("'|u1'", "True", "(2, 3)", &[1, 4, 2, 5, 3, 6]), "a").expect("Fortran order");
        assert_eq!(fortran.data, [1, 2, 3, 4, 5, 6]);
        let bf16 = read_npy(&file("'<V2'", "False", "(1,)", &[0x80, 0x3f]), "a").expect("ml_dtypes bf16");
        assert_eq!((bf16.ty, bf16.bits(0)), (HloType::U16, 0x3f80));
        assert!(read_npy(&file("'|V1'", "False", "(1,)", &[7]), "a").is_ok());
    }

    #[test]
    fn damage_is_a_diagnostic() {
        let code = |bytes: &[u8]| read_npy(bytes, "a").err().map(|d| d.code.id);
        let good = file("'<f4'", "False", "(2,)", &[0; 8]);
        for n in 0..good.len() {
            assert_eq!(code(&good[..n]), Some("MUR0125"), "cut to {n}");
        }
        assert_eq!(code(&file("'<f4'", "False", "(18446744073709551615, 9)", &[])), Some("MUR0125"));
        assert_eq!(code(&file("'|O'", "False", "(1,)", &[0])), Some("MUR0123"));
        assert_eq!(code(&file("'|b1'", "False", "(1,)", &[2])), Some("MUR0125"));
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= flip;
                let _ = read_npy(&bad, "a");
            }
        }
    }
}
