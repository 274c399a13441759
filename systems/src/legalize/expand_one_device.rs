//! `expand_one_device`: the program runs on one device, so what devices do together and what is said to a partitioner
//! gives the operand back; a computation mapped over arrays becomes its operations on arrays, and the size of a static
//! dimension a constant. A bitcast, which keeps the bytes where they are, becomes what that means for the elements.
//!
//! ```text
//! all-reduce(x) -> x ; custom-call(x), custom_call_target="Sharding" -> x ; replica-id() -> 0 ; map(x, y), to_apply=f -> f(x, y)
//! f32[6]{0} bitcast(f32[2,3]{0,1} x) -> reshape(transpose(x)) ; s32[] bitcast(f32[] x) -> bitcast-convert(x)
//! ```
//!
//! Facts: `spec/hlo.md 7`; a collective whose result has other extents than its operand needs more devices and stays, to
//! be refused.

use super::build::{Build, Expander, expand_all};
use super::region::{apply, is_elementwise};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{ANNOTATIONS, ArrayShape, Attrs, HloInst, HloModule, HloOp, OpSet};
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

    /// Operand and result of a bitcast that moves whole elements between layouts that are orders of the dimensions.
    fn bitcast(&self, inst: HloInst<'_>) -> Option<[&ArrayShape; 2]> {
        let from = self.module.inst(*inst.operands().first()?).shape().array()?;
        let to = self.module.inst(inst.id).shape().array()?;
        let plain = |a: &ArrayShape| !a.has_dynamic() && a.major_to_minor().is_some();
        (plain(from) && plain(to) && from.ty.bits() == to.ty.bits()).then_some([from, to])
    }
}

/// The bytes of `x`, whose layout is that of `from`, read as `to`.
fn reread(b: &mut Build<'_>, x: HloId, from: &ArrayShape, to: &ArrayShape) -> Option<HloId> {
    let (source, target) = (from.major_to_minor()?, to.major_to_minor()?);
    let flat = b.transpose(x, &source);
    let stored: Vec<i64> = target.iter().filter_map(|d| to.dims.get(*d as usize).copied()).collect();
    let shaped = b.reshape(flat, &stored);
    let read = b.bits_as(shaped, to.ty);
    let back: Option<Vec<i64>> =
        (0..to.rank() as i64).map(|d| target.iter().position(|t| *t == d).map(|k| k as i64)).collect();
    Some(b.transpose(read, &back?))
}

impl Expander for OneDevice<'_> {
    fn family(&self) -> OpSet {
        use HloOp::*;
        OpSet::of(&[
            AddDependency,
            AllGather,
            AllReduce,
            AllToAll,
            Bitcast,
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
            Bitcast => self.bitcast(inst).is_some(),
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
            HloOp::Bitcast => {
                let [from, to] = self.bitcast(inst)?;
                reread(b, *operands.first()?, from, to)
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
