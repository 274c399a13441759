//! Shape protos. A shape is looked up by its bytes first: dumps repeat few shapes many times.

use super::messages::{LayoutProto, ShapeProto};
use super::{Fault, damaged, fault};
use crate::hlo::text::is_shape;
use murre_components::diag::codes::read;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Shape, UNBOUNDED};
use prost::Message;

/// A shape from its bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Shape, Fault> {
    let shape = decode_unchecked(bytes)?;
    let text = shape.to_string();
    if is_shape(&text) {
        return Ok(shape);
    }
    let mut fault = fault(&read::READ_SHAPE, "the shape or its layout is malformed");
    fault.found = Some(text);
    Err(fault)
}

/// A shape from its bytes, one that is not kept: whether it can be printed does not matter.
pub(super) fn decode_unchecked(bytes: &[u8]) -> Result<Shape, Fault> {
    shape(&ShapeProto::decode(bytes).map_err(|e| too_deep(&e).unwrap_or_else(damaged))?, 0)
}

/// The fault of messages that nest deeper than `prost` follows them.
fn too_deep(error: &prost::DecodeError) -> Option<Fault> {
    let deep = error.to_string().contains("recursion limit");
    deep.then(|| fault(&read::READ_TOO_DEEP, "messages nest too deep in the shape"))
}

/// A shape. `prost` bounds the depth of messages, and tuples may nest only as deep as in text.
pub(super) fn shape(proto: &ShapeProto, depth: usize) -> Result<Shape, Fault> {
    if depth > crate::hlo::text::MAX_TUPLE_DEPTH {
        return Err(fault(&read::READ_TOO_DEEP, "tuples nest too deep"));
    }
    let ty = HloType::from_number(proto.element_type).ok_or_else(|| {
        fault(&read::READ_SHAPE, format!("element type number {} is unknown", proto.element_type))
    })?;
    match ty {
        HloType::Tuple => {
            let parts: Result<Vec<Shape>, Fault> =
                proto.tuple_shapes.iter().map(|s| shape(s, depth + 1)).collect();
            return Ok(Shape::Tuple(parts?));
        }
        HloType::Token => return Ok(Shape::Token),
        HloType::Opaque => return Ok(Shape::Opaque),
        _ => {}
    }
    let rank = proto.dimensions.len();
    let mut dynamic = proto.is_dynamic_dimension.clone();
    if dynamic.len() > rank {
        return Err(fault(&read::READ_SHAPE, "more dynamic-dimension flags than dimensions"));
    }
    dynamic.resize(rank, false);
    for (d, extent) in proto.dimensions.iter().enumerate() {
        if *extent < 0 && !(*extent == UNBOUNDED && dynamic[d]) {
            let mut fault = fault(&read::READ_SHAPE, "a dimension's extent is negative");
            fault.found = Some(extent.to_string());
            return Err(fault);
        }
    }
    let layout = proto.layout.as_ref().map(|l| l.minor_to_major.clone()).unwrap_or_default();
    if !layout.is_empty() {
        let mut sorted = layout.clone();
        sorted.sort();
        if sorted.len() != rank || sorted.iter().enumerate().any(|(i, d)| *d != i as i64) {
            return Err(fault(&read::READ_SHAPE, "a layout must name every dimension once"));
        }
    }
    if !dynamic.contains(&true) {
        dynamic.clear();
    }
    let layout_note = proto.layout.as_ref().map(note).unwrap_or_default();
    Ok(Shape::Array(ArrayShape { ty, dims: proto.dimensions.clone(), dynamic, layout, layout_note }))
}

/// What a layout says beside the order, as the text form has it.
fn note(layout: &LayoutProto) -> Box<str> {
    let mut out = String::new();
    for (i, tile) in layout.tiles.iter().enumerate() {
        // The smallest number stands for "combine with the next more minor dimension".
        let word = |d: &i64| if *d == i64::MIN { "*".to_owned() } else { d.to_string() };
        let dims: Vec<String> = tile.dimensions.iter().map(word).collect();
        out += &format!("{}({})", if i == 0 { "T" } else { "" }, dims.join(","));
    }
    if layout.tail_padding_alignment_in_elements > 1 {
        out += &format!("L({})", layout.tail_padding_alignment_in_elements);
    }
    if layout.element_size_in_bits != 0 {
        out += &format!("E({})", layout.element_size_in_bits);
    }
    if layout.memory_space != 0 {
        out += &format!("S({})", layout.memory_space);
    }
    out.into()
}
