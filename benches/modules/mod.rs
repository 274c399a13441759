//! Generated HLO modules: a straight line of small operations with run-time offsets, as text, and any module as a proto.

use murre::components::hlo::{Attrs, HloModule, HloOp, Shape};
use murre::hlo::proto::messages as pb;
use prost::Message;
use std::fmt::Write;

/// HLO text of `n` instructions. Blocks of sixteen values combine values that are near, read the state at a run-time
/// offset, and end in a dot and an update of the state.
pub fn straight_line(n: usize) -> String {
    let mut out = String::from(
        "HloModule straight_line\n\nENTRY main.1 {\n  x.1 = f32[64]{0} parameter(0)\n  off.2 = s32[] parameter(1)\n  \
         m.3 = f32[16,16]{1,0} parameter(2)\n  slice.4 = f32[16]{0} slice(x.1), slice={[0:16]}\n",
    );
    let (mut next, mut last, mut state) = (5, "slice.4".to_owned(), "x.1".to_owned());
    let mut seed = 7u64;
    while next < n {
        let block: Vec<String> = (0..16)
            .map(|k| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (op, pick) = ((seed >> 33) % 6, (seed >> 40) % 3);
                let id = next + k;
                let other =
                    if k == 0 || pick == 0 { last.clone() } else { name_of(id - 1 - pick as usize % k) };
                let before = if k == 0 { last.clone() } else { name_of(id - 1) };
                let name = name_of(id);
                let shape = "f32[16]{0}";
                match op {
                    0 => format!("  {name} = {shape} add({before}, {other})\n"),
                    1 => format!("  {name} = {shape} multiply({before}, {other})\n"),
                    2 => format!("  {name} = {shape} maximum({before}, {other})\n"),
                    3 => format!("  {name} = {shape} negate({other})\n"),
                    4 => format!(
                        "  {name} = {shape} dynamic-slice({state}, off.2), dynamic_slice_sizes={{16}}\n"
                    ),
                    _ => format!("  {name} = {shape} subtract({before}, {other})\n"),
                }
            })
            .collect();
        block.iter().for_each(|line| out.push_str(line));
        let inner = name_of(next + 15);
        next += 16;
        let (dot, update) = (format!("dot.{next}"), format!("update.{}", next + 1));
        let _ = write!(
            out,
            "  {dot} = f32[16]{{0}} dot({inner}, m.3), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}\n  \
             {update} = f32[64]{{0}} dynamic-update-slice({state}, {dot}, off.2)\n"
        );
        next += 2;
        (last, state) = (dot, update);
    }
    let _ = write!(out, "  ROOT tuple.{next} = (f32[64]{{0}}, f32[16]{{0}}) tuple({state}, {last})\n}}\n");
    out
}

fn name_of(id: usize) -> String {
    format!("v.{id}")
}

fn shape_proto(shape: &Shape) -> pb::ShapeProto {
    match shape {
        Shape::Array(a) => pb::ShapeProto {
            element_type: a.ty as i32,
            dimensions: a.dims.clone(),
            is_dynamic_dimension: vec![false; a.rank()],
            layout: Some(pb::LayoutProto { minor_to_major: a.layout.clone(), ..Default::default() }),
            ..Default::default()
        },
        Shape::Tuple(parts) => pb::ShapeProto {
            element_type: 13,
            tuple_shapes: parts.iter().map(shape_proto).collect(),
            ..Default::default()
        },
        Shape::Token | Shape::Opaque => pb::ShapeProto { element_type: 17, ..Default::default() },
    }
}

/// A module of one computation as an `HloModuleProto`; it has only operations that [`straight_line`] makes.
pub fn proto_of(module: &HloModule) -> Vec<u8> {
    let instructions = module.insts().map(|i| {
        let mut p = pb::HloInstructionProto {
            name: i.name().to_owned(),
            opcode: i.op.name().to_owned(),
            shape: Some(shape_proto(i.shape())),
            metadata: Some(pb::OpMetadata::default()),
            id: 1 << 32 | i64::from(i.id.0),
            operand_ids: i.operands().iter().map(|o| 1 << 32 | i64::from(o.0)).collect(),
            ..Default::default()
        };
        match (i.op, i.attrs()) {
            (_, Attrs::Parameter { number }) => p.parameter_number = (*number).into(),
            (_, Attrs::DynamicSlice { sizes }) => p.dynamic_slice_sizes = sizes.clone(),
            (_, Attrs::Slice { start, limit, stride }) => {
                let dims = start.iter().zip(limit).zip(stride);
                p.slice_dimensions = dims
                    .map(|((s, l), t)| pb::SliceDimensions { start: *s, limit: *l, stride: *t })
                    .collect();
            }
            (HloOp::Dot, Attrs::Dot(d)) => {
                p.dot_dimension_numbers = Some(pb::DotDimensionNumbers {
                    lhs_contracting: d.lhs_contracting.clone(),
                    rhs_contracting: d.rhs_contracting.clone(),
                    ..Default::default()
                });
            }
            _ => {}
        }
        p
    });
    let root = 1 << 32 | i64::from(module.entry_comp().root.0);
    let computation = pb::HloComputationProto {
        name: module.entry_comp().name.clone(),
        instructions: instructions.collect(),
        id: 1,
        root_id: root,
        ..Default::default()
    };
    let module = pb::HloModuleProto {
        name: module.name.clone(),
        entry_computation_name: computation.name.clone(),
        entry_computation_id: 1,
        computations: vec![computation],
        ..Default::default()
    };
    module.encode_to_vec()
}
