//! The dynamic copies: copies whose address on one side is a run-time value (`spec/ir.md 2.2`).
//!
//! A node is a row of the node table, its operands (result, source, addresses) and a payload here. The gather form reads
//! `src[addr * offset_scale]` along `generic_dim`; the scatter form writes `result[addr * offset_scale]`. Which one it is
//! the node's kind says, no flag. Both the source and the addresses are read; the destination of a scatter is the node's
//! result and never an operand. An address is a control scalar, one for each run-time dimension, or one tensor of
//! offsets. Without any the copy is static.
//!
//! ```text
//! n7 = dynamic_copy_src dram0(x)[f32 +0 4@64 64@1] generic_dim:[0] generic_addrs: %r12
//! n9 = dynamic_copy_dst sbuf3[f32 +0 64@1]
//! ```

use super::{AccessMode, ApIndices, NodeKind, NodeOperand};
use crate::bir::{Space, accumulated_shape};
use crate::dtype::DType;
use crate::engine::{EngineId, PARTITIONS};
use crate::ids::{LocId, RegId};
use arrayvec::ArrayVec;
use bevy_ecs::prelude::Resource;

/// What one address counts: `addr * scale` elements along dimension `dim`. The address itself is an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DynamicIndex {
    /// `generic_dim`.
    pub dim: u32,
    /// `offset_scale`, elements of the location's element space.
    pub scale: u32,
}

/// The run-time payload of a dynamic copy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TensorCopyDynamic {
    /// What each address counts, outermost dimension first.
    pub indices: ArrayVec<DynamicIndex, 8>,
    /// The indices of the access patterns.
    pub ap: ApIndices,
    /// Extents of the tensor with the run-time address, where it is dense and row-major; empty where it is a view of
    /// other strides.
    pub shape: ArrayVec<u64, 8>,
    /// Largest admissible total offset plus one, elements; of a vector offset the largest index plus one.
    pub max_index: u32,
}

/// Payloads of the dynamic copies.
#[derive(Resource, Default)]
pub struct DynamicCopies(pub Vec<TensorCopyDynamic>);

/// What an operand uses: a tensor or a control scalar.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum NodeValue {
    Tensor(LocId),
    Scalar(RegId),
}

impl NodeOperand {
    /// The value behind an operand, if it has one.
    pub fn value(&self) -> Option<NodeValue> {
        match self {
            NodeOperand::Access(a) => Some(NodeValue::Tensor(a.loc)),
            NodeOperand::Scalar(r, _) => Some(NodeValue::Scalar(*r)),
            NodeOperand::Splat(..) => None,
        }
    }
}

/// Rewires every use of `old` among the operands of a node, result excluded, to `new`. Returns how many there were. A
/// tensor only takes the place of a tensor, a scalar of a scalar.
pub fn replace_use_of_with(operands: &mut [NodeOperand], old: NodeValue, new: NodeValue) -> usize {
    let mut uses = 0;
    for operand in operands.iter_mut().skip(1) {
        match (operand, old, new) {
            (NodeOperand::Access(a), NodeValue::Tensor(from), NodeValue::Tensor(to)) if a.loc == from => {
                a.loc = to
            }
            (NodeOperand::Scalar(r, _), NodeValue::Scalar(from), NodeValue::Scalar(to)) if *r == from => {
                *r = to
            }
            _ => continue,
        }
        uses += 1;
    }
    uses
}

/// A dynamic copy as its node, operands and payload make it: what the gather and the scatter form share.
#[derive(Clone, Copy, Debug)]
pub struct TensorCopyDynamicBase<'a> {
    /// Gather or scatter.
    gather: bool,
    /// Result, source, addresses.
    all: &'a [NodeOperand],
    /// The payload.
    pub payload: &'a TensorCopyDynamic,
}

impl<'a> TensorCopyDynamicBase<'a> {
    /// The copy behind a node; `None` if it is not one, or lacks result or source.
    pub fn of(kind: NodeKind, operands: &'a [NodeOperand], payload: &'a TensorCopyDynamic) -> Option<Self> {
        let gather = match kind {
            NodeKind::TensorCopyDynamicSrc | NodeKind::GatherRows => true,
            NodeKind::TensorCopyDynamicDst | NodeKind::ScatterRows => false,
            _ => return None,
        };
        (operands.len() >= 2).then_some(TensorCopyDynamicBase { gather, all: operands, payload })
    }

    /// The inputs: the source, then the addresses if there are any.
    pub fn operands(self) -> &'a [NodeOperand] {
        self.all.get(1..).unwrap_or_default()
    }

    /// The addresses (`generic_addrs`); empty for a static copy.
    pub fn generic_addrs(self) -> &'a [NodeOperand] {
        self.all.get(2..).unwrap_or_default()
    }

    /// The side whose address is a run-time value: the source of a gather, the result of a scatter.
    pub fn dynamic_side(self) -> &'a NodeOperand {
        &self.all[self.gather as usize]
    }

    /// How this copy accesses operand `k` of [`TensorCopyDynamicBase::operands`]: everything is loaded.
    pub fn access_mode(self, k: usize) -> Option<AccessMode> {
        self.operands().get(k).map(|o| o.access().map_or(AccessMode::Load, |a| a.mode))
    }

    /// Whether this copy reads the tensor (`loadTensor`).
    pub fn load_tensor(self, tensor: LocId) -> bool {
        self.operands().iter().any(|o| o.value() == Some(NodeValue::Tensor(tensor)))
    }

    /// The right-hand side in dumps; `use_str` writes an operand.
    pub fn rhs_str(self, use_str: impl Fn(&NodeOperand) -> String) -> String {
        let [src, addrs @ ..] = self.operands() else { return String::new() };
        if !self.gather {
            return format!("dynamic_copy_dst {}", use_str(src));
        }
        let dims: Vec<String> = self.payload.indices.iter().map(|i| i.dim.to_string()).collect();
        let addrs: Vec<String> = addrs.iter().map(&use_str).collect();
        let addrs = if addrs.is_empty() { "none".to_owned() } else { addrs.join(", ") };
        format!("dynamic_copy_src {} generic_dim:[{}] generic_addrs: {addrs}", use_str(src), dims.join(", "))
    }

    /// The engine that should execute it (`NeuronEngine`, D16): the abstract DMA for a run-time address in DRAM; on
    /// chip DVE, or Activation where the copy also converts or is wider than the partitions.
    pub fn engine_hint(self, space: Space) -> EngineId {
        let access = |k: usize| self.all.get(k).and_then(|o| o.access());
        let dtype = |k: usize| access(k).map(|a| a.dtype);
        let partitions = access(0).and_then(|a| a.pattern.0.first()).map_or(0, |p| p.num);
        match space {
            Space::Dram => EngineId::Dma,
            _ if partitions <= PARTITIONS && dtype(0) == dtype(1) => EngineId::Dve,
            _ => EngineId::Activation,
        }
    }

    /// What is wrong with it, if anything.
    pub fn verify(self) -> Result<(), String> {
        let (Some(NodeOperand::Access(result)), Some(NodeOperand::Access(src))) =
            (self.all.first(), self.all.get(1))
        else {
            return Err("result or source is not a tensor".into());
        };
        if result.mode != AccessMode::Store {
            return Err("the result is not stored".into());
        }
        let count = self.operands().len();
        if (0..count).any(|k| self.access_mode(k) != Some(AccessMode::Load)) {
            return Err("an operand is not loaded".into());
        }
        if self.load_tensor(result.loc) {
            return Err("the copy reads the tensor that it writes".into());
        }
        let (addrs, payload) = (self.generic_addrs(), self.payload);
        if addrs.len() != payload.indices.len() {
            return Err(format!("{} addresses for {} dimensions", addrs.len(), payload.indices.len()));
        }
        let vectors = addrs.iter().filter(|a| a.access().is_some()).count();
        if vectors > 0 && addrs.len() != 1 {
            return Err("a vector of offsets is the only address of its copy".into());
        }
        if addrs.iter().any(|a| matches!(a, NodeOperand::Splat(..))) {
            return Err("an address is a constant".into());
        }
        for i in &payload.indices {
            if i.scale == 0 {
                return Err(format!("the scale along dimension {} is 0", i.dim));
            }
            let dense = accumulated_shape(&payload.shape, i.dim as usize + 1);
            if !payload.shape.is_empty() && dense != Some(u64::from(i.scale)) {
                return Err(format!("dimension {} has scale {}, its rows {dense:?}", i.dim, i.scale));
            }
        }
        if !payload.indices.is_empty() && payload.max_index == 0 {
            return Err("no index is admissible".into());
        }
        if vectors == 0 && result.pattern.elements() != src.pattern.elements() {
            let (to, from) = (result.pattern.elements(), src.pattern.elements());
            return Err(format!("{to} elements out of {from}"));
        }
        self.verify_indices(&src.pattern)
    }

    /// Every pair of several elements has exactly one index, and the numbers are dense.
    fn verify_indices(self, src: &crate::bir::ApPattern) -> Result<(), String> {
        let mut seen = [false; 8];
        for (k, index) in self.payload.ap.enumerate_ap_indices().enumerate() {
            let many = src.0.get(index.pair as usize).is_some_and(|p| p.num != 1);
            match seen.get_mut(index.pair as usize) {
                Some(s) if many && !*s && index.id as usize == k => *s = true,
                _ => return Err(format!("AP index {} on pair {} is out of place", index.id, index.pair)),
            }
        }
        let missing = src.0.iter().zip(seen).any(|(p, seen)| p.num != 1 && !seen);
        if missing { Err("a pair has no AP index".into()) } else { Ok(()) }
    }

    /// Element type of the data.
    pub fn dtype(self) -> Option<DType> {
        self.all.get(1).and_then(|o| o.access()).map(|a| a.dtype)
    }

    /// Whether it is the gather form.
    pub fn is_gather(self) -> bool {
        self.gather
    }
}

#[cfg(test)]
mod tests {
    use super::super::Access;
    use super::*;
    use crate::bir::ApPattern;

    fn tensor(loc: u32, mode: AccessMode) -> NodeOperand {
        let pattern = ApPattern::of([(96, 1), (8, 4), (1, 8)]);
        NodeOperand::Access(Access { loc: LocId(loc), offset: 0, dtype: DType::F32, pattern, mode })
    }

    fn copy() -> (Vec<NodeOperand>, TensorCopyDynamic) {
        let operands = vec![
            tensor(0, AccessMode::Store),
            tensor(1, AccessMode::Load),
            NodeOperand::Scalar(RegId(5), DType::I32),
        ];
        let pattern = operands[1].access().unwrap().pattern.clone();
        let payload = TensorCopyDynamic {
            indices: [DynamicIndex { dim: 0, scale: 8 }].into_iter().collect(),
            ap: ApIndices::of(&pattern, Some(96), &pattern, &[8]),
            shape: [12, 8].into_iter().collect(),
            max_index: 65,
        };
        (operands, payload)
    }

    fn name(o: &NodeOperand) -> String {
        format!("{:?}", o.value().unwrap())
    }

    #[test]
    fn operands_are_source_and_addresses_and_all_are_loaded() {
        let (operands, payload) = copy();
        for kind in [NodeKind::TensorCopyDynamicSrc, NodeKind::TensorCopyDynamicDst] {
            let c = TensorCopyDynamicBase::of(kind, &operands, &payload).unwrap();
            let values: Vec<NodeValue> = c.operands().iter().filter_map(|o| o.value()).collect();
            assert_eq!(values, [NodeValue::Tensor(LocId(1)), NodeValue::Scalar(RegId(5))]);
            assert!((0..2).all(|k| c.access_mode(k) == Some(AccessMode::Load)));
            assert!(c.access_mode(2).is_none());
            assert!(c.load_tensor(LocId(1)) && !c.load_tensor(LocId(0)), "the destination is the result");
            assert_eq!(c.verify(), Ok(()));
        }
        assert!(TensorCopyDynamicBase::of(NodeKind::Copy, &operands, &payload).is_none());
        // Without addresses: a static copy of one operand.
        let fixed = TensorCopyDynamic { indices: Default::default(), ..payload };
        let c = TensorCopyDynamicBase::of(NodeKind::TensorCopyDynamicSrc, &operands[..2], &fixed).unwrap();
        assert_eq!((c.operands().len(), c.generic_addrs().len(), c.verify()), (1, 0, Ok(())));
    }

    #[test]
    fn the_vector_form_reads_its_offsets_too() {
        let (mut operands, payload) = copy();
        operands[2] = tensor(7, AccessMode::Load);
        let c = TensorCopyDynamicBase::of(NodeKind::GatherRows, &operands, &payload).unwrap();
        assert!(c.load_tensor(LocId(7)) && c.is_gather());
        assert_eq!(c.verify(), Ok(()));
    }

    #[test]
    fn the_two_forms_print_what_they_read() {
        let (operands, payload) = copy();
        let text = |kind, operands: &[NodeOperand], payload: &TensorCopyDynamic| {
            TensorCopyDynamicBase::of(kind, operands, payload).unwrap().rhs_str(name)
        };
        assert_eq!(
            text(NodeKind::TensorCopyDynamicSrc, &operands, &payload),
            "dynamic_copy_src Tensor(LocId(1)) generic_dim:[0] generic_addrs: Scalar(RegId(5))"
        );
        assert_eq!(
            text(NodeKind::TensorCopyDynamicDst, &operands, &payload),
            "dynamic_copy_dst Tensor(LocId(1))"
        );
        let fixed = TensorCopyDynamic::default();
        assert_eq!(
            text(NodeKind::TensorCopyDynamicSrc, &operands[..2], &fixed),
            "dynamic_copy_src Tensor(LocId(1)) generic_dim:[] generic_addrs: none"
        );
    }

    #[test]
    fn uses_are_replaced_and_the_result_is_not_one() {
        let (mut operands, _) = copy();
        let scalar = |r| NodeValue::Scalar(RegId(r));
        assert_eq!(replace_use_of_with(&mut operands, scalar(5), scalar(9)), 1);
        assert_eq!(operands[2].value(), Some(scalar(9)));
        let tensor = |l| NodeValue::Tensor(LocId(l));
        assert_eq!(replace_use_of_with(&mut operands, tensor(0), tensor(4)), 0);
        assert_eq!(replace_use_of_with(&mut operands, tensor(1), tensor(4)), 1);
        assert_eq!(operands[1].value(), Some(tensor(4)));
        assert_eq!(replace_use_of_with(&mut operands, tensor(4), scalar(1)), 0, "not of one kind");
    }

    #[test]
    fn the_engine_hint_follows_space_and_casts() {
        let (mut operands, payload) = copy();
        let hint = |operands: &[NodeOperand], space| {
            TensorCopyDynamicBase::of(NodeKind::TensorCopyDynamicSrc, operands, &payload)
                .unwrap()
                .engine_hint(space)
        };
        assert_eq!(hint(&operands, Space::Dram), EngineId::Dma);
        assert_eq!(hint(&operands, Space::Sbuf), EngineId::Dve);
        if let NodeOperand::Access(a) = &mut operands[0] {
            a.dtype = DType::Bf16;
        }
        assert_eq!(hint(&operands, Space::Sbuf), EngineId::Activation);
    }

    #[test]
    fn what_does_not_hold_together_is_named() {
        let fault = |change: &dyn Fn(&mut Vec<NodeOperand>, &mut TensorCopyDynamic)| {
            let (mut operands, mut payload) = copy();
            change(&mut operands, &mut payload);
            let c = TensorCopyDynamicBase::of(NodeKind::TensorCopyDynamicDst, &operands, &payload);
            c.map(|c| c.verify().unwrap_err()).unwrap_or_default()
        };
        assert!(fault(&|o, _| o[1] = tensor(1, AccessMode::Store)).contains("not loaded"));
        assert!(fault(&|o, _| o[0] = tensor(0, AccessMode::Load)).contains("not stored"));
        assert!(
            fault(&|o, _| o[1] = tensor(0, AccessMode::Load)).contains("reads the tensor that it writes")
        );
        assert!(fault(&|o, _| drop(o.pop())).contains("0 addresses for 1"));
        assert!(fault(&|_, p| p.max_index = 0).contains("no index is admissible"));
        assert!(fault(&|_, p| p.indices[0].scale = 0).contains("is 0"));
        assert!(fault(&|_, p| p.indices[0].scale = 12).contains("has scale 12, its rows Some(8)"));
        assert!(fault(&|_, p| drop(p.ap.remove_ap_index(0))).contains("AP index 1 on pair 2"));
        assert!(
            fault(&|_, p| drop(p.ap.remove_ap_index(1).map(|_| p.ap.update_ap_indices())))
                .contains("no AP index")
        );
        assert!(fault(&|o, _| o[2] = NodeOperand::Splat(0, DType::I32)).contains("constant"));
    }
}
