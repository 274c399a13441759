//! Literal protos: the field of the element type holds the elements in the literal's layout order; out come row-major
//! little-endian bytes. Facts: `LiteralProto` in `spec/hlo.md 5`.

use super::from_proto::{Fault, fault, shape};
use super::proto::LiteralProto;
use murre_components::diag::codes::read;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Literal, Shape};

/// The literal of an instruction with shape `wanted`.
pub(super) fn literal(proto: &LiteralProto, wanted: &Shape) -> Result<Literal, Fault> {
    match wanted {
        Shape::Tuple(parts) => {
            if proto.tuple_literals.len() != parts.len() {
                let what = format!(
                    "the literal has {} parts, its shape {}",
                    proto.tuple_literals.len(),
                    parts.len()
                );
                return Err(fault(&read::READ_LITERAL_SHAPE, what));
            }
            let made: Result<Vec<Literal>, Fault> =
                proto.tuple_literals.iter().zip(parts).map(|(p, s)| literal(p, s)).collect();
            Ok(Literal::Tuple(made?))
        }
        Shape::Array(array) => array_literal(proto, array),
        Shape::Token | Shape::Opaque => {
            Err(fault(&read::READ_LITERAL_SHAPE, "a token or opaque value has no literal"))
        }
    }
}

fn array_literal(proto: &LiteralProto, wanted: &ArrayShape) -> Result<Literal, Fault> {
    let mut layout = wanted.layout.clone();
    if let Some(own) = &proto.shape {
        match shape(own, 0)? {
            Shape::Array(own) if own.ty == wanted.ty && own.dims == wanted.dims => layout = own.layout,
            other => {
                let what = format!("the literal is {other}, its instruction {wanted}");
                return Err(fault(&read::READ_LITERAL_SHAPE, what));
            }
        }
    }
    let bytes = elements(proto, wanted)?;
    let width = wanted.ty.bytes();
    let count = wanted.elements();
    if (bytes.len() as u64) != count.saturating_mul(width as u64) || width == 0 {
        let code = if bytes.is_empty() { &read::READ_ELIDED } else { &read::READ_LITERAL_SHAPE };
        let found = bytes.len().checked_div(width).unwrap_or(0);
        return Err(fault(code, format!("the literal has {found} elements, {wanted} has {count}")));
    }
    Ok(Literal::Array { shape: wanted.clone(), data: row_major(bytes, width, &wanted.dims, &layout) })
}

/// The elements in the order in which the proto has them.
fn elements(p: &LiteralProto, wanted: &ArrayShape) -> Result<Vec<u8>, Fault> {
    use HloType::*;
    fn flat<const N: usize>(each: impl Iterator<Item = [u8; N]>) -> Vec<u8> {
        each.flatten().collect()
    }
    Ok(match wanted.ty {
        Pred => p.preds.iter().map(|b| *b as u8).collect(),
        U8 => p.u8s.clone(),
        S8 => p.s8s.clone(),
        U16 => p.u16s.clone(),
        S16 => p.s16s.clone(),
        S32 => flat(p.s32s.iter().map(|v| v.to_le_bytes())),
        S64 => flat(p.s64s.iter().map(|v| v.to_le_bytes())),
        U32 => flat(p.u32s.iter().map(|v| v.to_le_bytes())),
        U64 => flat(p.u64s.iter().map(|v| v.to_le_bytes())),
        F32 => flat(p.f32s.iter().map(|v| v.to_le_bytes())),
        F64 => flat(p.f64s.iter().map(|v| v.to_le_bytes())),
        C64 => flat(p.c64s.iter().map(|v| v.to_le_bytes())),
        C128 => flat(p.c128s.iter().map(|v| v.to_le_bytes())),
        F16 => p.f16s.clone(),
        Bf16 => p.bf16s.clone(),
        F8E5M2 => p.f8e5m2s.clone(),
        F8E4M3Fn => p.f8e4m3fns.clone(),
        F8E4M3B11Fnuz => p.f8e4m3b11fnuzs.clone(),
        F8E5M2Fnuz => p.f8e5m2fnuzs.clone(),
        F8E4M3Fnuz => p.f8e4m3fnuzs.clone(),
        F8E4M3 => p.f8e4m3s.clone(),
        F8E3M4 => p.f8e3m4s.clone(),
        S4 => unpack(&p.s4s, 4, true, wanted.elements()),
        U4 => unpack(&p.u4s, 4, false, wanted.elements()),
        S2 => unpack(&p.s2s, 2, true, wanted.elements()),
        U2 => unpack(&p.u2s, 2, false, wanted.elements()),
        other => {
            return Err(fault(
                &read::READ_LITERAL_SHAPE,
                format!("literals of type {} are not read", other.name()),
            ));
        }
    })
}

/// Elements of `bits` bits, low ones first, each to a byte of its own.
fn unpack(packed: &[u8], bits: u32, signed: bool, count: u64) -> Vec<u8> {
    let per_byte = 8 / bits;
    let unused = 8 - bits;
    let all = packed.iter().flat_map(|byte| {
        (0..per_byte).map(move |i| {
            let top = byte >> (i * bits) << unused;
            if signed { ((top as i8) >> unused) as u8 } else { top >> unused }
        })
    });
    all.take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
}

/// Elements from the order of `layout` (minor to major) to row-major order.
fn row_major(bytes: Vec<u8>, width: usize, dims: &[i64], layout: &[i64]) -> Vec<u8> {
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_order_becomes_row_major() {
        // [[1, 2, 3], [4, 5, 6]] stored column by column.
        assert_eq!(row_major(vec![1, 4, 2, 5, 3, 6], 1, &[2, 3], &[0, 1]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(row_major(vec![1, 2], 1, &[2], &[0]), [1, 2]);
        assert_eq!(unpack(&[0xf1], 4, true, 2), [1, 0xff]);
    }
}
