//! The record of a dynamic copy, as JSON: what a reader needs to build its descriptors (`spec/ir.md 2.2`, table c).
//!
//! In: a copy, how to write a use. Out: source, addresses (`"none"` without any), the address indices, then the keywords.
//! One run-time dimension writes a number for `generic_dim` and `offset_scale`, several write lists.
//!
//! ```text
//! {"kind":"TensorCopyDynamicSrc","src":"dram0","generic_addrs":"%r5","addr_free_indices":[0],
//!  "generic_dim":0,"offset_scale":64,"shape":[4,64],"dtype":"f32"}
//! ```

use super::{NodeOperand, TensorCopyDynamicBase};
use std::fmt::Write;

/// One item as itself, several as a list, none as `none`.
fn one_or_list(items: &[String], none: &str) -> String {
    match items {
        [] => none.to_owned(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    }
}

impl TensorCopyDynamicBase<'_> {
    /// The record; `var` writes an operand's name.
    pub fn serialize(self, var: impl Fn(&NodeOperand) -> String) -> String {
        let quoted = |o: &NodeOperand| format!("\"{}\"", var(o).escape_default());
        let kind = if self.is_gather() { "TensorCopyDynamicSrc" } else { "TensorCopyDynamicDst" };
        let addrs: Vec<String> = self.generic_addrs().iter().map(quoted).collect();
        let ids: Vec<String> = self.payload.ap.addr_free.iter().map(|i| i.id.to_string()).collect();
        let dims: Vec<String> = self.payload.indices.iter().map(|i| i.dim.to_string()).collect();
        let scales: Vec<String> = self.payload.indices.iter().map(|i| i.scale.to_string()).collect();
        let src = self.operands().first();
        let pairs = src.and_then(|s| s.access()).map(|a| a.pattern.0.clone()).unwrap_or_default();
        let shape: Vec<String> = pairs.iter().map(|p| p.num.to_string()).collect();
        let mut out = format!("{{\"kind\":\"{kind}\",\"src\":{}", src.map(quoted).unwrap_or_default());
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            ",\"generic_addrs\":{},\"addr_free_indices\":[{}],\"generic_dim\":{},\"offset_scale\":{},\"shape\":[{}],\"dtype\":\"{}\"}}",
            one_or_list(&addrs, "\"none\""),
            ids.join(","),
            one_or_list(&dims, "null"),
            one_or_list(&scales, "null"),
            shape.join(","),
            self.dtype().map_or("none", |d| d.name()),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::ids::{LocId, RegId};

    fn record(addrs: &[u32], kind: NodeKind) -> String {
        let pattern = ApPattern::of([(96, 1), (8, 4), (1, 8)]);
        let access = |loc, mode| {
            let pattern = pattern.clone();
            NodeOperand::Access(Access { loc: LocId(loc), offset: 0, dtype: DType::F32, pattern, mode })
        };
        let mut operands = vec![access(0, AccessMode::Store), access(1, AccessMode::Load)];
        operands.extend(addrs.iter().map(|r| NodeOperand::Scalar(RegId(*r), DType::I32)));
        let scales = [8, 2];
        let indices = (0..addrs.len()).map(|k| DynamicIndex { dim: k as u32, scale: scales[k] }).collect();
        let payload = TensorCopyDynamic {
            indices,
            ap: ApIndices::of(&pattern, Some(96), &pattern, &[8]),
            shape: Default::default(),
            max_index: 9,
        };
        let copy = TensorCopyDynamicBase::of(kind, &operands, &payload).unwrap();
        copy.serialize(|o| match o.value() {
            Some(NodeValue::Tensor(l)) => format!("t{}", l.0),
            Some(NodeValue::Scalar(r)) => format!("%r{}", r.0),
            None => "-".into(),
        })
    }

    #[test]
    fn the_record_of_one_address() {
        assert_eq!(
            record(&[5], NodeKind::TensorCopyDynamicSrc),
            "{\"kind\":\"TensorCopyDynamicSrc\",\"src\":\"t1\",\"generic_addrs\":\"%r5\",\"addr_free_indices\":[0],\
             \"generic_dim\":0,\"offset_scale\":8,\"shape\":[1,4,8],\"dtype\":\"f32\"}"
        );
    }

    #[test]
    fn no_address_is_a_placeholder_and_several_are_lists() {
        let none = record(&[], NodeKind::TensorCopyDynamicDst);
        assert!(none.contains("\"TensorCopyDynamicDst\"") && none.contains("\"generic_addrs\":\"none\""));
        assert!(none.contains("\"generic_dim\":null"));
        let two = record(&[5, 6], NodeKind::TensorCopyDynamicSrc);
        assert!(two.contains("\"generic_addrs\":[\"%r5\",\"%r6\"]"));
        assert!(two.contains("\"generic_dim\":[0,1],\"offset_scale\":[8,2]"));
    }
}
