//! `split_dynamic_indices`: the old form of dynamic-slice and dynamic-update-slice takes all starts in one vector;
//! here it becomes a slice and a reshape per dimension, so that every later pass sees scalar indices.
//!
//! ```text
//! dynamic-slice(x, v)  ->  dynamic-slice(x, reshape(slice(v, [0:1])), reshape(slice(v, [1:2])))
//! ```
//!
//! Facts: `spec/ir.md 1.4`.

use bevy_ecs::prelude::*;
use murre_components::hlo::{ArrayShape, Attrs, Draft, HloInst, HloModule, HloOp, OpSet, Shape};
use murre_components::ids::HloId;

/// Number of operands before the indices.
fn leading(op: HloOp) -> Option<usize> {
    match op {
        HloOp::DynamicSlice => Some(1),
        HloOp::DynamicUpdateSlice => Some(2),
        _ => None,
    }
}

fn vector_index(module: &HloModule, inst: HloInst<'_>) -> Option<(usize, ArrayShape)> {
    let at = leading(inst.op)?;
    let shape = module.inst(*inst.operands().get(at)?).shape().array()?;
    (inst.operands().len() == at + 1 && shape.rank() == 1).then(|| (at, shape.clone()))
}

/// The pass.
pub fn split_dynamic_indices(mut module: ResMut<HloModule>) {
    let sliced = OpSet::of(&[HloOp::DynamicSlice, HloOp::DynamicUpdateSlice]);
    if !module.ops().meets(sliced) || !module.insts().any(|i| vector_index(&module, i).is_some()) {
        return;
    }
    let old = std::mem::take(&mut *module);
    let mut out = crate::legalize::rebuild::Rebuild::new(&old);
    for (index, comp) in old.computations.iter().enumerate() {
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            let Some((at, shape)) = vector_index(&old, inst) else {
                out.copy(&old, id);
                continue;
            };
            let vector = out.moved[inst.operands()[at].index()];
            let mut operands: Vec<HloId> =
                inst.operands()[..at].iter().map(|o| out.moved[o.index()]).collect();
            for d in 0..shape.dims[0] {
                let mut piece = |dims: Vec<i64>, op, operand, attrs, suffix: &str| {
                    let name = format!("{}.{suffix}{d}", inst.name());
                    let shape = out.module.intern_shape(Shape::Array(ArrayShape::new(shape.ty, dims)));
                    let attrs = out.module.intern_attrs(attrs);
                    let draft = Draft::new(&name, op, shape);
                    let (line, column) = inst.text_place().unwrap_or((0, 0));
                    let metadata = inst.draft().metadata;
                    let column = column as u16;
                    out.push(Draft { operands: &[operand], attrs, metadata, line, column, ..draft })
                };
                let cut = Attrs::Slice { start: vec![d], limit: vec![d + 1], stride: vec![1] };
                let cut = piece(vec![1], HloOp::Slice, vector, cut, "index");
                operands.push(piece(vec![], HloOp::Reshape, cut, Attrs::None, "start"));
            }
            out.copy_with(&old, id, &operands);
        }
        let root = out.moved[comp.root.index()];
        out.finish(&old, murre_components::ids::CompId::new(index), root);
    }
    *module = out.module;
}
