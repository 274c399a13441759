//! The printer: a module in, HLO text out that reads back to the same module. Everything the data model holds is
//! written: large constants in full, source locations as metadata, kept attributes as they were. What comes out is the
//! short form (no `%`, no operand shapes). Facts: `spec/hlo.md 4`.

use crate::hlo::lex::escape;
use crate::hlo::number::format_element;
use crate::hlo::text::is_keyword;
use murre_components::dtype::HloType;
use murre_components::hlo::{
    ArrayShape, Attrs, ConvDims, HloInst, HloModule, HloOp, Literal, StackFrames, WindowDim,
};
use std::fmt::Write;

/// The module as HLO text.
pub fn print_module(module: &HloModule) -> String {
    let mut out = String::new();
    let name = if module.name.is_empty() { "module" } else { &module.name };
    let _ = write!(out, "HloModule {}", Name(name));
    for (key, value) in &module.extra {
        let _ = write!(out, ", {key}={value}");
    }
    out.push('\n');
    frames(&module.frames, &mut out);
    for (c, computation) in module.computations.iter().enumerate() {
        let entry = if c == module.entry.index() { "ENTRY " } else { "" };
        let _ = write!(out, "\n{entry}{} {{\n", Name(&computation.name));
        for id in computation.instructions.iter() {
            out.push_str(if id == computation.root { "  ROOT " } else { "  " });
            instruction(module, module.inst(id), &mut out);
            out.push('\n');
        }
        out.push('}');
        for (key, value) in &computation.extra {
            let _ = write!(out, ", {key}={value}");
        }
        out.push('\n');
    }
    out
}

/// A name as it must be written: with a `%` where the syntax needs the word for itself.
struct Name<'n>(&'n str);

impl std::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if is_keyword(self.0) { "%" } else { "" })?;
        f.write_str(self.0)
    }
}

/// The tables that metadata points into.
fn frames(frames: &StackFrames, out: &mut String) {
    if frames.is_empty() {
        return;
    }
    for (title, texts) in [("FileNames", &frames.files), ("FunctionNames", &frames.functions)] {
        let _ = write!(out, "\n{title}\n");
        for (i, text) in texts.iter().enumerate() {
            let _ = writeln!(out, "{} \"{}\"", i + 1, escape(text));
        }
    }
    out.push_str("\nFileLocations\n");
    for (i, l) in frames.locations.iter().enumerate() {
        let _ = writeln!(
            out,
            "{} {{file_name_id={} function_name_id={} line={} end_line={} column={} end_column={}}}",
            i + 1,
            l.file,
            l.function,
            l.line,
            l.end_line,
            l.column,
            l.end_column
        );
    }
    out.push_str("\nStackFrames\n");
    for (i, f) in frames.frames.iter().enumerate() {
        let _ = writeln!(out, "{} {{file_location_id={} parent_frame_id={}}}", i + 1, f.location, f.parent);
    }
    out.push('\n');
}

fn instruction(module: &HloModule, inst: HloInst<'_>, out: &mut String) {
    let _ = write!(out, "{} = {} {}(", Name(inst.name()), inst.shape(), inst.op.name());
    match inst.attrs() {
        Attrs::Parameter { number } => {
            let _ = write!(out, "{number}");
        }
        Attrs::Constant(value) => literal(value, out),
        _ => {
            for (i, id) in inst.operands().iter().enumerate() {
                let name = module.get(*id).map_or("?", |o| o.name());
                let _ = write!(out, "{}{}", if i > 0 { ", " } else { "" }, Name(name));
            }
        }
    }
    out.push(')');
    attributes(module, inst, out);
    for (key, value) in inst.kept() {
        let _ = write!(out, ", {key}={value}");
    }
    if !inst.metadata().is_empty() {
        let _ = write!(out, ", metadata={{{}}}", inst.metadata());
    }
}

/// `{1,2}`
fn list(values: &[i64]) -> String {
    let words: Vec<String> = values.iter().map(|v| v.to_string()).collect();
    format!("{{{}}}", words.join(","))
}

/// `1x2`, each by `each`.
fn by_x<T>(values: &[T], each: impl Fn(&T) -> String) -> String {
    values.iter().map(each).collect::<Vec<_>>().join("x")
}

fn window(dims: &[WindowDim]) -> String {
    let mut fields = vec![format!("size={}", by_x(dims, |d| d.size.to_string()))];
    if dims.iter().any(|d| d.stride != 1) {
        fields.push(format!("stride={}", by_x(dims, |d| d.stride.to_string())));
    }
    if dims.iter().any(|d| d.pad_low != 0 || d.pad_high != 0) {
        fields.push(format!("pad={}", by_x(dims, |d| format!("{}_{}", d.pad_low, d.pad_high))));
    }
    if dims.iter().any(|d| d.base_dilation != 1) {
        fields.push(format!("lhs_dilate={}", by_x(dims, |d| d.base_dilation.to_string())));
    }
    if dims.iter().any(|d| d.window_dilation != 1) {
        fields.push(format!("rhs_dilate={}", by_x(dims, |d| d.window_dilation.to_string())));
    }
    if dims.iter().any(|d| d.reversal) {
        fields.push(format!("rhs_reversal={}", by_x(dims, |d| u8::from(d.reversal).to_string())));
    }
    format!("{{{}}}", fields.join(" "))
}

fn labels(c: &ConvDims) -> String {
    let side = |first: (i64, char), second: (i64, char), spatial: &[i64]| {
        let mut places = vec![first, second];
        places.extend(spatial.iter().enumerate().map(|(i, at)| (*at, (b'0' + i as u8) as char)));
        places.sort();
        places.into_iter().map(|(_, c)| c).collect::<String>()
    };
    format!(
        "{}_{}->{}",
        side((c.input_batch, 'b'), (c.input_feature, 'f'), &c.input_spatial),
        side((c.kernel_input_feature, 'i'), (c.kernel_output_feature, 'o'), &c.kernel_spatial),
        side((c.output_batch, 'b'), (c.output_feature, 'f'), &c.output_spatial)
    )
}

fn attributes(module: &HloModule, inst: HloInst<'_>, out: &mut String) {
    let mut put = |key: &str, value: String| {
        let _ = write!(out, ", {key}={value}");
    };
    let mut put_nonempty: Vec<(&str, &[i64])> = Vec::new();
    match inst.attrs() {
        Attrs::None | Attrs::Parameter { .. } | Attrs::Constant(_) => {}
        Attrs::GetTupleElement { index } => put("index", index.to_string()),
        Attrs::Compare { direction, total_order } => {
            put("direction", direction.name().to_owned());
            if *total_order {
                put("type", "TOTALORDER".to_owned());
            }
        }
        Attrs::Dimensions(dims) => put("dimensions", list(dims)),
        Attrs::Iota { dimension } => put("iota_dimension", dimension.to_string()),
        Attrs::Slice { start, limit, stride } => {
            let parts: Vec<String> = start
                .iter()
                .zip(limit)
                .zip(stride)
                .map(|((s, l), step)| match step {
                    1 => format!("[{s}:{l}]"),
                    step => format!("[{s}:{l}:{step}]"),
                })
                .collect();
            put("slice", format!("{{{}}}", parts.join(", ")));
        }
        Attrs::DynamicSlice { sizes } => put("dynamic_slice_sizes", list(sizes)),
        Attrs::Pad { low, high, interior } => {
            let all: Vec<[i64; 3]> =
                low.iter().zip(high).zip(interior).map(|((l, h), i)| [*l, *h, *i]).collect();
            put(
                "padding",
                by_x(&all, |[l, h, i]| match i {
                    0 => format!("{l}_{h}"),
                    i => format!("{l}_{h}_{i}"),
                }),
            );
        }
        Attrs::Dot(d) => {
            put_nonempty = vec![
                ("lhs_batch_dims", &d.lhs_batch),
                ("lhs_contracting_dims", &d.lhs_contracting),
                ("rhs_batch_dims", &d.rhs_batch),
                ("rhs_contracting_dims", &d.rhs_contracting),
            ];
        }
        Attrs::Gather(g) => {
            put("offset_dims", list(&g.offset_dims));
            put("collapsed_slice_dims", list(&g.collapsed_slice_dims));
            put("start_index_map", list(&g.start_index_map));
            put("index_vector_dim", g.index_vector_dim.to_string());
            put("slice_sizes", list(&g.slice_sizes));
            if g.indices_are_sorted {
                put("indices_are_sorted", "true".to_owned());
            }
            put_nonempty = vec![
                ("operand_batching_dims", &g.operand_batching_dims),
                ("start_indices_batching_dims", &g.start_indices_batching_dims),
            ];
        }
        Attrs::Scatter { dims, sorted, unique } => {
            put("update_window_dims", list(&dims.update_window_dims));
            put("inserted_window_dims", list(&dims.inserted_window_dims));
            put("scatter_dims_to_operand_dims", list(&dims.scatter_dims_to_operand_dims));
            put("index_vector_dim", dims.index_vector_dim.to_string());
            if *sorted {
                put("indices_are_sorted", "true".to_owned());
            }
            if *unique {
                put("unique_indices", "true".to_owned());
            }
            put_nonempty = vec![
                ("input_batching_dims", &dims.input_batching_dims),
                ("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims),
            ];
        }
        Attrs::Window(dims) => {
            if !dims.is_empty() {
                put("window", window(dims));
            }
        }
        Attrs::Convolution { window: dims, dims: places, feature_groups, batch_groups } => {
            if !dims.is_empty() {
                put("window", window(dims));
            }
            put("dim_labels", labels(places));
            if *feature_groups != 1 {
                put("feature_group_count", feature_groups.to_string());
            }
            if *batch_groups != 1 {
                put("batch_group_count", batch_groups.to_string());
            }
        }
        Attrs::Sort { dimension, stable } => {
            put("dimensions", list(&[*dimension]));
            if *stable {
                put("is_stable", "true".to_owned());
            }
        }
        Attrs::TopK { k, largest } => {
            put("k", k.to_string());
            put("largest", largest.to_string());
        }
        Attrs::BatchNorm { epsilon, feature_index } => {
            put("epsilon", f32::from_bits(*epsilon).to_string());
            put("feature_index", feature_index.to_string());
        }
        Attrs::Rng { algorithm } => {
            let name = ["rng_default", "rng_three_fry", "rng_philox"]
                .get(*algorithm as usize)
                .unwrap_or(&"rng_default");
            put("algorithm", (*name).to_owned());
        }
        Attrs::ReducePrecision { exponent_bits, mantissa_bits } => {
            put("exponent_bits", exponent_bits.to_string());
            put("mantissa_bits", mantissa_bits.to_string());
        }
        // The configuration is the kept attribute `backend_config`.
        Attrs::CustomCall { target, .. } => put("custom_call_target", format!("\"{}\"", escape(target))),
        Attrs::TriangularSolve { left_side, lower, unit_diagonal, transpose_a } => {
            put("left_side", left_side.to_string());
            put("lower", lower.to_string());
            put("unit_diagonal", unit_diagonal.to_string());
            if let Some(name) = [None, Some("NO_TRANSPOSE"), Some("TRANSPOSE"), Some("ADJOINT")]
                .get(*transpose_a as usize)
                .copied()
                .flatten()
            {
                put("transpose_a", name.to_owned());
            }
        }
        Attrs::Cholesky { lower } => put("lower", lower.to_string()),
    }
    for (key, dims) in put_nonempty {
        if !dims.is_empty() {
            put(key, list(dims));
        }
    }
    called(module, inst, &mut put);
}

fn called(module: &HloModule, inst: HloInst<'_>, put: &mut impl FnMut(&str, String)) {
    let names: Vec<String> = inst
        .called()
        .iter()
        .map(|c| Name(module.computations.get(c.index()).map_or("?", |c| c.name.as_str())).to_string())
        .collect();
    match (inst.op, names.as_slice()) {
        (_, []) => {}
        (HloOp::While, [body, condition]) => {
            put("condition", (*condition).to_owned());
            put("body", (*body).to_owned());
        }
        (HloOp::Conditional, [yes, no]) if selects_by_pred(module, inst) => {
            put("true_computation", (*yes).to_owned());
            put("false_computation", (*no).to_owned());
        }
        (HloOp::Conditional, branches) => put("branch_computations", format!("{{{}}}", branches.join(", "))),
        (HloOp::SelectAndScatter, [select, scatter]) => {
            put("select", (*select).to_owned());
            put("scatter", (*scatter).to_owned());
        }
        (HloOp::Fusion | HloOp::AsyncStart | HloOp::AsyncUpdate | HloOp::AsyncDone, [one]) => {
            put("calls", (*one).to_owned())
        }
        (HloOp::CustomCall, all) => put("called_computations", format!("{{{}}}", all.join(", "))),
        (_, all) => put("to_apply", all.join(", ")),
    }
}

fn selects_by_pred(module: &HloModule, inst: HloInst<'_>) -> bool {
    let selector = inst.operands().first().and_then(|id| module.get(*id));
    selector.and_then(|s| s.shape().array()).is_some_and(|a| a.ty == HloType::Pred)
}

/// A literal; tuples nest only as deep as shapes may.
fn literal(value: &Literal, out: &mut String) {
    match value {
        Literal::Array { shape, data } => array(shape, data, out),
        Literal::Tuple(parts) => {
            out.push('(');
            for (i, part) in parts.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                literal(part, out);
            }
            out.push(')');
        }
    }
}

fn array(shape: &ArrayShape, data: &[u8], out: &mut String) {
    let rank = shape.rank();
    if rank == 0 {
        return out.push_str(&element(shape.ty, data));
    }
    // Down to the first empty dimension the braces are written out.
    let depth = shape.dims.iter().position(|d| *d == 0).map_or(rank, |d| d + 1);
    let width = shape.ty.bytes().max(1);
    let mut elements = data.chunks_exact(width);
    let mut index = vec![0i64; depth];
    out.push_str(&"{".repeat(depth));
    if depth < rank || shape.dims.contains(&0) {
        // `{ { }, { } }`: nothing but braces.
        let count: i64 = shape.dims[..depth - 1].iter().product();
        for i in 0..count {
            if i > 0 {
                let open = carry(&mut index[..depth - 1], &shape.dims);
                out.push_str(&format!("{}, {}", "}".repeat(open + 1), "{".repeat(open + 1)));
            }
        }
        return out.push_str(&"}".repeat(depth));
    }
    let mut first = true;
    for bytes in elements.by_ref() {
        if !first {
            let open = carry(&mut index, &shape.dims);
            out.push_str(&format!("{}, {}", "}".repeat(open), "{".repeat(open)));
        }
        first = false;
        out.push_str(&element(shape.ty, bytes));
    }
    out.push_str(&"}".repeat(depth));
}

/// Counts the index up and says how many dimensions, from the last, began anew.
fn carry(index: &mut [i64], dims: &[i64]) -> usize {
    let mut closed = 0;
    for d in (0..index.len()).rev() {
        index[d] += 1;
        if index[d] < dims.get(d).copied().unwrap_or(1) {
            break;
        }
        index[d] = 0;
        closed += 1;
    }
    closed
}

fn element(ty: HloType, bytes: &[u8]) -> String {
    let part = match ty {
        HloType::C64 => HloType::F32,
        HloType::C128 => HloType::F64,
        _ => return format_element(ty, bits(bytes)),
    };
    let (re, im) = bytes.split_at(bytes.len() / 2);
    format!("({}, {})", format_element(part, bits(re)), format_element(part, bits(im)))
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}
