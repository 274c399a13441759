//! Literal protos: the field of the element type holds the elements in the literal's layout order; out come row-major
//! little-endian bytes. Where the proto holds exactly those, they are shared with the input, not copied.
//! Facts: `LiteralProto` in `spec/hlo.md 5`.

use super::wire::{Fields, Value};
use super::{Fault, damaged, fault, shape};
use bytes::Bytes;
use murre_components::diag::codes::read;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Literal, Shape};

/// The literal of an instruction with shape `wanted`; `message` lies in `input`.
pub(super) fn literal(input: &Bytes, message: &[u8], wanted: &Shape) -> Result<Literal, Fault> {
    match wanted {
        Shape::Tuple(parts) => {
            let mut given = Vec::new();
            let mut fields = Fields::new(message);
            while let Some(field) = fields.next_field()? {
                if field.number == 10 {
                    given.push(field.value.bytes()?);
                }
            }
            if given.len() != parts.len() {
                let what = format!("the literal has {} parts, its shape {}", given.len(), parts.len());
                return Err(fault(&read::READ_LITERAL_SHAPE, what));
            }
            // Shapes nest only so deep, and so does this.
            let made: Result<Vec<Literal>, Fault> =
                given.iter().zip(parts).map(|(p, s)| literal(input, p, s)).collect();
            Ok(Literal::Tuple(made?))
        }
        Shape::Array(array) => array_literal(input, message, array),
        Shape::Token | Shape::Opaque => {
            Err(fault(&read::READ_LITERAL_SHAPE, "a token or opaque value has no literal"))
        }
    }
}

/// The field with the elements of a type.
fn field_of(ty: HloType) -> Option<u32> {
    use HloType::*;
    Some(match ty {
        Pred => 2,
        U8 => 3,
        S32 => 4,
        S64 => 5,
        U32 => 6,
        U64 => 7,
        F32 => 8,
        F64 => 9,
        F16 => 11,
        C64 => 12,
        Bf16 => 13,
        S8 => 15,
        U16 => 16,
        S16 => 17,
        C128 => 18,
        F8E5M2 => 19,
        F8E4M3Fn => 20,
        S4 => 21,
        U4 => 22,
        F8E4M3B11Fnuz => 23,
        F8E5M2Fnuz => 24,
        F8E4M3Fnuz => 25,
        S2 => 26,
        U2 => 27,
        F8E4M3 => 28,
        F8E3M4 => 29,
        S1 => 30,
        U1 => 31,
        F4E2M1Fn => 32,
        F8E8M0Fnu => 33,
        F6E3M2Fn => 35,
        F6E2M3Fn => 36,
        Tuple | Opaque | Token => return None,
    })
}

fn array_literal(input: &Bytes, message: &[u8], wanted: &ArrayShape) -> Result<Literal, Fault> {
    let mut layout = wanted.layout.clone();
    let number = field_of(wanted.ty);
    let mut whole: Option<&[u8]> = None;
    let mut pieces: Vec<u8> = Vec::new();
    let mut fields = Fields::new(message);
    while let Some(field) = fields.next_field()? {
        if field.number == 1 {
            match shape::decode_unchecked(field.value.bytes()?)? {
                Shape::Array(own) if own.ty == wanted.ty && own.dims == wanted.dims => layout = own.layout,
                other => {
                    let what = format!("the literal is {other}, its instruction {wanted}");
                    return Err(fault(&read::READ_LITERAL_SHAPE, what));
                }
            }
        }
        if Some(field.number) != number {
            continue;
        }
        match (field.value, whole) {
            (Value::Bytes(bytes), None) if pieces.is_empty() => whole = Some(bytes),
            // A repeated field may come in parts, packed and unpacked.
            (_, first) => {
                if let Some(first) = first {
                    encoded(wanted.ty, first, &mut pieces)?;
                    whole = None;
                }
                match field.value {
                    Value::Bytes(bytes) => encoded(wanted.ty, bytes, &mut pieces)?,
                    Value::Varint(_) => {
                        let mut one = Vec::new();
                        field.value.ints(&mut one)?;
                        one.iter().for_each(|v| integer(wanted.ty, *v, &mut pieces));
                    }
                    Value::Fixed => {
                        let width =
                            field.raw.len() - field.raw.iter().take_while(|b| **b >= 0x80).count() - 1;
                        pieces.extend_from_slice(&field.raw[field.raw.len() - width..]);
                    }
                }
            }
        }
    }
    let bytes = match whole {
        Some(bytes) if as_stored(wanted.ty, bytes) => input.slice_ref(bytes),
        Some(bytes) => {
            encoded(wanted.ty, bytes, &mut pieces)?;
            Bytes::from(pieces)
        }
        None => Bytes::from(pieces),
    };
    let bytes = unpacked(bytes, wanted);
    let width = wanted.ty.bytes();
    let count = wanted.elements();
    if (bytes.len() as u64) != count.saturating_mul(width as u64) || width == 0 {
        let code = if bytes.is_empty() { &read::READ_ELIDED } else { &read::READ_LITERAL_SHAPE };
        let found = bytes.len().checked_div(width).unwrap_or(0);
        return Err(fault(code, format!("the literal has {found} elements, {wanted} has {count}")));
    }
    Ok(Literal::Array { shape: wanted.clone(), data: row_major(bytes, width, &wanted.dims, &layout) })
}

/// Whether the field's bytes are the elements' own bytes, little-endian one after the other.
fn as_stored(ty: HloType, bytes: &[u8]) -> bool {
    match ty {
        HloType::Pred => bytes.iter().all(|b| *b <= 1),
        HloType::S32 | HloType::S64 | HloType::U32 | HloType::U64 => false,
        _ => true,
    }
}

fn integer(ty: HloType, value: i64, out: &mut Vec<u8>) {
    match ty {
        HloType::Pred => out.push((value != 0).into()),
        _ => out.extend_from_slice(&value.to_le_bytes()[..ty.bytes().min(8)]),
    }
}

/// The elements' own bytes of a packed field.
fn encoded(ty: HloType, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    if as_stored(ty, bytes) {
        out.extend_from_slice(bytes);
        return Ok(());
    }
    let mut values = Vec::new();
    Value::Bytes(bytes).ints(&mut values).map_err(|_| damaged())?;
    out.reserve(values.len() * ty.bytes());
    values.iter().for_each(|v| integer(ty, *v, out));
    Ok(())
}

/// Elements of less than a byte, each in a byte of its own. Producers of 2025 write them so, older ones packed them, low
/// ones first; the number of bytes tells which (`spec/hlo.md 5` knows only the packed form).
fn unpacked(bytes: Bytes, wanted: &ArrayShape) -> Bytes {
    let bits = wanted.ty.bits();
    if bits > 4 || wanted.ty == HloType::Pred {
        return bytes;
    }
    let signed = wanted.ty.is_signed_int();
    if bytes.len() as u64 == wanted.elements() {
        return bytes.iter().map(|b| extend(*b, bits, signed)).collect::<Vec<u8>>().into();
    }
    unpack(&bytes, bits, signed, wanted.elements()).into()
}

/// The low `bits` of a byte, sign- or zero-extended.
fn extend(byte: u8, bits: u32, signed: bool) -> u8 {
    let unused = 8 - bits;
    let top = byte << unused;
    if signed { ((top as i8) >> unused) as u8 } else { top >> unused }
}

fn unpack(packed: &[u8], bits: u32, signed: bool, count: u64) -> Vec<u8> {
    let per_byte = 8 / bits;
    let all =
        packed.iter().flat_map(|byte| (0..per_byte).map(move |i| extend(byte >> (i * bits), bits, signed)));
    all.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// Elements from the order of `layout` (minor to major) to row-major order.
fn row_major(bytes: Bytes, width: usize, dims: &[i64], layout: &[i64]) -> Bytes {
    let rank = dims.len();
    if layout.len() != rank || layout.iter().rev().enumerate().all(|(i, d)| *d == i as i64) {
        return bytes;
    }
    // Stride of each logical dimension in the proto's order, in elements.
    let mut strides = vec![0usize; rank];
    let mut step = 1usize;
    for d in layout {
        // The layout is a permutation of the dimensions and the element count was checked.
        let d = *d as usize;
        strides[d] = step;
        step *= dims[d] as usize;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0i64; rank];
    for _ in 0..bytes.len() / width {
        let at: usize = index.iter().zip(&strides).map(|(i, s)| *i as usize * s).sum();
        out.extend_from_slice(&bytes[at * width..(at + 1) * width]);
        for d in (0..rank).rev() {
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_order_becomes_row_major() {
        // [[1, 2, 3], [4, 5, 6]] stored column by column.
        let stored = Bytes::from_static(&[1, 4, 2, 5, 3, 6]);
        assert_eq!(row_major(stored, 1, &[2, 3], &[0, 1])[..], [1, 2, 3, 4, 5, 6]);
        assert_eq!(row_major(Bytes::from_static(&[1, 2]), 1, &[2], &[0])[..], [1, 2]);
        assert_eq!(unpack(&[0xf1], 4, true, 2), [1, 0xff]);
        let s4 = ArrayShape::new(HloType::S4, [4]);
        assert_eq!(unpacked(Bytes::from_static(&[8, 7, 0, 1]), &s4)[..], [0xf8, 7, 0, 1]);
        assert_eq!(unpacked(Bytes::from_static(&[0x78, 0x10]), &s4)[..], [0xf8, 7, 0, 1]);
    }

    #[test]
    fn elements_are_shared_with_the_input() {
        // f32s = [1.0, 2.0], packed.
        let mut message = vec![0x42, 8];
        message.extend([1f32, 2.0].iter().flat_map(|v| v.to_le_bytes()));
        let input = Bytes::from(message);
        let shape = Shape::Array(ArrayShape::new(HloType::F32, [2]));
        let made = literal(&input, &input, &shape).expect("a literal");
        assert_eq!(made.bytes().as_ptr(), input[2..].as_ptr());
        // s32s as unpacked varints.
        let input =
            Bytes::from_static(&[0x20, 5, 0x20, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        let shape = Shape::Array(ArrayShape::new(HloType::S32, [2]));
        let made = literal(&input, &input, &shape).expect("a literal");
        assert_eq!(made.bytes(), [5, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        // f32s unpacked: fixed 32-bit fields.
        let input = Bytes::from_static(&[0x45, 0, 0, 0x80, 0x3f, 0x45, 0, 0, 0, 0x40]);
        let shape = Shape::Array(ArrayShape::new(HloType::F32, [2]));
        let made = literal(&input, &input, &shape).expect("a literal");
        assert_eq!(made.bytes(), [0, 0, 0x80, 0x3f, 0, 0, 0, 0x40]);
    }
}
