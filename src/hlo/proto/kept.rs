//! Attributes that no result hangs on, as the text form writes them: what the text reader would have kept, so that both
//! forms of a module print alike. Facts: the attribute table of `spec/hlo.md 4`.

use super::messages::{
    CollectiveDeviceListProto, FrontendAttributes, HloInstructionProto, IotaReplicaGroupListProto,
    OpMetadata, OpSharding, ReplicaGroup,
};
use super::{Fault, damaged, fault, sanitized, shape};
use crate::hlo::lex::escape;
use crate::hlo::text::{is_kept_value, takes};
use crate::hlo::words::{ALGORITHMS, API_VERSIONS, FFT_TYPES, PADDINGS, PRECISIONS, SCHEDULES};
use murre_components::diag::codes::read;
use murre_components::hlo::HloOp;
use prost::Message;
use std::fmt::{Display, Write};

fn list<T: Display>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    let words: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    words.join(between)
}

fn braced<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    format!("{{{}}}", list(items, ","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escape(text))
}

/// A text that holds one balanced JSON object is written without quotes.
fn json_or_quoted(text: &str) -> String {
    if is_json_object(text) { text.to_owned() } else { quoted(text) }
}

fn is_json_object(text: &str) -> bool {
    let (mut depth, mut in_text, mut skip) = (0i64, false, false);
    if !text.starts_with('{') {
        return false;
    }
    for (i, c) in text.char_indices() {
        match c {
            _ if skip => skip = false,
            '\\' if in_text => skip = true,
            '"' => in_text = !in_text,
            '{' if !in_text => depth += 1,
            '}' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    return i + 1 == text.len();
                }
            }
            _ => {}
        }
    }
    false
}

/// The text between the braces of `metadata={...}`.
pub(super) fn metadata(bytes: &[u8]) -> Result<String, Fault> {
    let m = OpMetadata::decode(bytes).map_err(|_| damaged())?;
    let mut fields: Vec<String> = Vec::new();
    let mut text = |key: &str, value: &str| {
        if !value.is_empty() {
            fields.push(format!("{key}={}", quoted(value)));
        }
    };
    text("op_type", &m.op_type);
    text("op_name", &m.op_name);
    text("source_file", &m.source_file);
    let mut number = |key: &str, value: i64| {
        if value != 0 {
            fields.push(format!("{key}={value}"));
        }
    };
    number("source_line", m.source_line.into());
    number("source_end_line", m.source_end_line.into());
    number("source_column", m.source_column.into());
    number("source_end_column", m.source_end_column.into());
    number("stack_frame_id", m.stack_frame_id.into());
    for (key, value) in [("deduplicated_name", &m.deduplicated_name), ("scheduling_name", &m.scheduling_name)]
    {
        if !value.is_empty() {
            fields.push(format!("{key}={}", quoted(value)));
        }
    }
    Ok(fields.join(" "))
}

/// `{a="1",b={"json":1}}`; `None` when there is none.
pub(super) fn frontend_attributes(attributes: &FrontendAttributes) -> Option<String> {
    if attributes.map.is_empty() {
        return None;
    }
    let pair =
        |(k, v): (&String, &String)| format!("{}={}", sanitized(k, || "_".to_owned()), json_or_quoted(v));
    Some(braced(attributes.map.iter().map(pair)))
}

/// `{replicated}`, `{devices=[2,1]<=[2]}`, `{{replicated}, {maximal device=0}}`.
pub(super) fn sharding(s: &OpSharding) -> String {
    let mut out = String::from("{");
    out += &match s.r#type {
        0 => "replicated".to_owned(),
        1 => format!("maximal device={}", list(&s.tile_assignment_devices, ",")),
        2 => list(s.tuple_shardings.iter().map(sharding), ", "),
        4 => "manual".to_owned(),
        5 => "unknown".to_owned(),
        6 => "unreduced".to_owned(),
        _ => {
            let mut tiled = format!("devices=[{}]", list(&s.tile_assignment_dimensions, ","));
            if s.iota_reshape_dims.is_empty() {
                tiled += &list(&s.tile_assignment_devices, ",");
            } else {
                let _ = write!(tiled, "<=[{}]", list(&s.iota_reshape_dims, ","));
                let moved = s.iota_transpose_perm.iter().enumerate().any(|(i, p)| *p != i as i32);
                if moved {
                    let _ = write!(tiled, "T({})", list(&s.iota_transpose_perm, ","));
                }
            }
            if s.replicate_on_last_tile_dim {
                tiled += " last_tile_dim_replicate";
            }
            if !s.last_tile_dims.is_empty() {
                let name = |t: &i32| match t {
                    4 => "manual",
                    6 => "unreduced",
                    _ => "replicated",
                };
                let _ =
                    write!(tiled, " last_tile_dims={{{}}}", list(s.last_tile_dims.iter().map(name), ", "));
            }
            tiled
        }
    };
    if s.is_shard_group {
        let word = if s.shard_group_type == 1 { "shard_like" } else { "shard_as" };
        let _ = write!(out, " {word} {}", s.shard_group_id);
    }
    out + "}"
}

fn groups(groups: &[ReplicaGroup]) -> String {
    braced(groups.iter().map(|g| braced(&g.replica_ids)))
}

fn iota_groups(iota: &IotaReplicaGroupListProto) -> String {
    let mut out = format!(
        "[{},{}]<=[{}]",
        iota.num_replica_groups,
        iota.num_devices_per_group,
        list(&iota.iota_reshape_dims, ",")
    );
    if iota.iota_transpose_perm.iter().enumerate().any(|(i, p)| *p != i as i32) {
        let _ = write!(out, "T({})", list(&iota.iota_transpose_perm, ","));
    }
    out
}

fn device_groups(proto: &HloInstructionProto) -> String {
    match (&proto.iota_collective_device_list, &proto.collective_device_list) {
        (Some(iota), _) => iota_groups(iota),
        (None, Some(CollectiveDeviceListProto { replica_groups })) => groups(replica_groups),
        (None, None) => groups(&proto.replica_groups),
    }
}

fn named<'n>(names: &[&'n str], number: i32) -> &'n str {
    usize::try_from(number).ok().and_then(|n| names.get(n).copied()).unwrap_or("")
}

/// Whether groups of devices are always written, even when there are none.
fn has_groups(op: HloOp) -> bool {
    use HloOp::*;
    matches!(
        op,
        AllGather
            | AllGatherStart
            | AllReduce
            | AllReduceStart
            | AllToAll
            | CollectiveBroadcast
            | RaggedAllToAll
            | ReduceScatter
    )
}

/// The kept attributes of an instruction as name and text. `proto` need not have the fields that every instruction has.
pub(super) fn kept(op: HloOp, proto: &HloInstructionProto) -> Result<Vec<(&'static str, String)>, Fault> {
    use HloOp::*;
    let mut out: Vec<(&'static str, String)> = Vec::new();
    let p = proto;
    let mut flag = |key: &'static str, set: bool| {
        if set {
            out.push((key, "true".to_owned()));
        }
    };
    flag("constrain_layout", p.constrain_layout);
    flag("use_global_device_ids", p.use_global_device_ids);
    flag("is_host_transfer", p.is_host_transfer);
    flag("custom_call_has_side_effect", p.custom_call_has_side_effect);
    flag("is_composite", p.is_composite);
    flag("is_cross_program_prefetch", p.is_cross_program_prefetch);
    if let Some(precision) = &p.precision_config {
        if precision.operand_precision.iter().any(|o| *o != 0) {
            let names = precision.operand_precision.iter().map(|o| named(&PRECISIONS, *o));
            out.push(("operand_precision", braced(names)));
        }
        let algorithm = named(&ALGORITHMS, precision.algorithm);
        if !algorithm.is_empty() {
            out.push(("algorithm", algorithm.to_owned()));
        }
    }
    if p.channel_id > 0 {
        out.push(("channel_id", p.channel_id.to_string()));
    }
    let groups = device_groups(p);
    if has_groups(op) || groups != "{}" {
        out.push(("replica_groups", groups));
    }
    if !p.source_target_pairs.is_empty() || matches!(op, CollectivePermute | CollectivePermuteStart) {
        let pairs = p.source_target_pairs.iter().map(|s| format!("{{{},{}}}", s.source, s.target));
        out.push(("source_target_pairs", braced(pairs)));
    }
    match op {
        Fft => {
            out.push(("fft_type", named(&FFT_TYPES, p.fft_type).to_owned()));
            out.push(("fft_length", braced(&p.fft_length)));
        }
        Rng => {
            let name = named(&["rng_invalid", "rng_uniform", "rng_normal"], p.distribution);
            out.push(("distribution", name.to_owned()));
        }
        Fusion if !p.fusion_kind.is_empty() => out.push(("kind", p.fusion_kind.clone())),
        RngGetAndUpdateState => out.push(("delta", p.delta.to_string())),
        CustomCall => custom_call(p, &mut out)?,
        Domain => {
            let side = |s: &Option<OpSharding>| s.as_ref().map_or("{}".to_owned(), sharding);
            let text = format!(
                "{{kind=\"sharding\", entry={}, exit={}}}",
                // What the text calls the entry is the side of the users, the proto's exit.
                side(&p.domain_exit_sharding),
                side(&p.domain_entry_sharding)
            );
            out.push(("domain", text));
        }
        RaggedDot => {
            if let Some(r) = &p.ragged_dot_dimension_numbers {
                let d = r.dot_dimension_numbers.clone().unwrap_or_default();
                for (key, dims) in [
                    ("lhs_batch_dims", &d.lhs_batch),
                    ("lhs_contracting_dims", &d.lhs_contracting),
                    ("rhs_batch_dims", &d.rhs_batch),
                    ("rhs_contracting_dims", &d.rhs_contracting),
                    ("lhs_ragged_dims", &r.lhs_ragged_dimensions),
                    ("rhs_group_dims", &r.rhs_group_dimensions),
                ] {
                    if !dims.is_empty() {
                        out.push((key, braced(dims)));
                    }
                }
            }
        }
        CopyStart if p.is_cross_program_prefetch || p.cross_program_prefetch_index != 0 => {
            out.push(("cross_program_prefetch_index", p.cross_program_prefetch_index.to_string()));
        }
        Scan => {
            out.push(("is_reverse", p.is_reverse.to_string()));
            out.push(("num_carries", p.num_carries.to_string()));
        }
        Infeed if !p.infeed_config.is_empty() => {
            out.push(("infeed_config", quoted(&String::from_utf8_lossy(&p.infeed_config))));
        }
        Outfeed => {
            if !p.outfeed_config.is_empty() {
                out.push(("outfeed_config", quoted(&String::from_utf8_lossy(&p.outfeed_config))));
            }
            if let Some(given) = &p.outfeed_shape {
                out.push(("outfeed_shape", shape::shape(given, 0)?.to_string()));
            }
        }
        AsyncStart if !p.async_execution_thread.is_empty() && p.async_execution_thread != "main" => {
            out.push(("async_execution_thread", quoted(&p.async_execution_thread)));
        }
        _ => {}
    }
    if let Some(r) = &p.parameter_replication {
        out.push(("parameter_replication", braced(&r.replicated_at_leaf_buffers)));
    }
    if let Some(accuracy) = &p.result_accuracy {
        match &accuracy.tolerance {
            Some(t) => out.push((
                "result_accuracy",
                format!("{{tolerance={{atol={}, rtol={}, ulps={}}}}}", t.atol, t.rtol, t.ulps),
            )),
            None if accuracy.mode == 1 => out.push(("result_accuracy", "{mode=highest}".to_owned())),
            None => {}
        }
    }
    if let Some(s) = &p.sharding {
        out.push(("sharding", sharding(s)));
    }
    if let Some(text) = p.frontend_attributes.as_ref().and_then(frontend_attributes) {
        out.push(("frontend_attributes", text));
    }
    if !p.backend_config.is_empty() {
        out.push(("backend_config", json_or_quoted(&String::from_utf8_lossy(&p.backend_config))));
    }
    // Fields that the operation does not have say nothing of it.
    out.retain(|(name, _)| takes(op, name));
    match out.iter().find(|(name, value)| !is_kept_value(name, value)) {
        None => Ok(out),
        Some((name, value)) => {
            let mut fault = fault(&read::READ_ATTRIBUTE, format!("attribute '{name}' is malformed"));
            fault.found = Some(value.clone());
            Err(fault)
        }
    }
}

fn custom_call(p: &HloInstructionProto, out: &mut Vec<(&'static str, String)>) -> Result<(), Fault> {
    if p.constrain_layout {
        // What is constrained are the operands' layouts.
        out.retain(|(key, _)| *key != "constrain_layout");
        let shapes: Result<Vec<String>, Fault> =
            p.operand_shapes_with_layout.iter().map(|s| shape::shape(s, 0).map(|s| s.to_string())).collect();
        out.push(("operand_layout_constraints", format!("{{{}}}", shapes?.join(", "))));
    }
    // The numbers that mean nothing in particular are not written: none, and the original version.
    if p.custom_call_api_version > 1 {
        out.push(("api_version", named(&API_VERSIONS, p.custom_call_api_version).to_owned()));
    }
    if p.custom_call_schedule != 0 {
        out.push(("schedule", named(&SCHEDULES, p.custom_call_schedule).to_owned()));
    }
    if !p.output_operand_aliasing.is_empty() {
        let pairs = p.output_operand_aliasing.iter().map(|a| {
            let index = |i: &[i64]| format!("{{{}}}", list(i, ", "));
            format!(
                "{}: ({}, {})",
                index(&a.output_shape_index),
                a.operand_index,
                index(&a.operand_shape_index)
            )
        });
        out.push(("output_to_operand_aliasing", format!("{{{}}}", list(pairs, ", "))));
    }
    if p.padding_type != 0 {
        out.push(("padding_type", named(&PADDINGS, p.padding_type).to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shardings_are_written_as_in_text() {
        let tiled = OpSharding {
            r#type: 3,
            tile_assignment_dimensions: vec![2, 1, 2],
            iota_reshape_dims: vec![4],
            iota_transpose_perm: vec![0],
            replicate_on_last_tile_dim: true,
            ..OpSharding::default()
        };
        assert_eq!(sharding(&tiled), "{devices=[2,1,2]<=[4] last_tile_dim_replicate}");
        let maximal = OpSharding { r#type: 1, tile_assignment_devices: vec![3], ..OpSharding::default() };
        let both = OpSharding {
            r#type: 2,
            tuple_shardings: vec![OpSharding::default(), maximal],
            ..OpSharding::default()
        };
        assert_eq!(sharding(&both), "{{replicated}, {maximal device=3}}");
    }

    #[test]
    fn json_is_written_without_quotes() {
        assert_eq!(json_or_quoted(r#"{"a":"}"}"#), r#"{"a":"}"}"#);
        assert_eq!(json_or_quoted("{}{}"), "\"{}{}\"");
        assert_eq!(json_or_quoted("a\"b"), "\"a\\\"b\"");
    }
}
