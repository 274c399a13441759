//! `expand_one_device`: the program runs on one device, so what devices do together and what is said to a partitioner
//! gives the operand back; a computation mapped over arrays becomes its operations on arrays, and the size of a static
//! dimension a constant.
//!
//! ```text
//! all-reduce(x) -> x ; custom-call(x), custom_call_target="Sharding" -> x ; replica-id() -> 0 ; map(x, y), to_apply=f -> f(x, y)
//! ```
//!
//! Facts: `spec/hlo.md 7`; a collective whose result has other extents than its operand needs more devices and stays, to
//! be refused.

use super::build::{Build, Expander, expand_all};
use super::region::{apply, is_elementwise};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ANNOTATIONS, Attrs, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_one_device(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut OneDevice { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

struct OneDevice<'m> {
    module: &'m HloModule,
}

impl OneDevice<'_> {
    /// Whether the only operand has the result's shape.
    fn same(&self, inst: HloInst<'_>) -> bool {
        matches!(inst.operands(), [one] if self.module.inst(*one).shape().same(inst.shape()))
    }
}

impl Expander for OneDevice<'_> {
    fn family(&self) -> OpSet {
        use HloOp::*;
        OpSet::of(&[
            AddDependency,
            AllGather,
            AllReduce,
            AllToAll,
            CollectiveBroadcast,
            CollectivePermute,
            CustomCall,
            Domain,
            GetDimensionSize,
            Map,
            PartitionId,
            ReduceScatter,
            ReplicaId,
        ])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        use HloOp::*;
        match inst.op {
            PartitionId | ReplicaId => true,
            GetDimensionSize => {
                self.module.inst(inst.operands()[0]).shape().array().is_some_and(|a| !a.has_dynamic())
            }
            AddDependency | Domain => true,
            AllReduce | AllGather | ReduceScatter | AllToAll | CollectiveBroadcast => self.same(inst),
            CollectivePermute => {
                let pairs = inst.kept_value("source_target_pairs").unwrap_or("{{0,0}}");
                let pairs: String = pairs.chars().filter(|c| !c.is_whitespace()).collect();
                self.same(inst) && pairs.contains("{0,0}")
            }
            CustomCall => match inst.attrs() {
                Attrs::CustomCall { target, .. } => ANNOTATIONS.contains(&target.as_str()) && self.same(inst),
                _ => false,
            },
            Map => inst.called().first().is_some_and(|c| is_elementwise(self.module, *c)),
            _ => false,
        }
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        match inst.op {
            HloOp::PartitionId | HloOp::ReplicaId => Some(b.integer(HloType::U32, 0)),
            HloOp::GetDimensionSize => {
                let Attrs::Dimensions(d) = inst.attrs() else { return None };
                let extent = b.dims(operands[0]).get(*d.first()? as usize).copied()?;
                Some(b.integer(HloType::S32, extent))
            }
            HloOp::Map => {
                let by = b.out.computations[inst.called().first()?.index()];
                let dims = inst.shape().array()?.dims.clone();
                apply(b, by, operands, &dims).first().copied()
            }
            _ => operands.first().copied(),
        }
    }
}
