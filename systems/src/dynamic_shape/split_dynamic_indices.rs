//! `split_dynamic_indices`: the old form of dynamic-slice and dynamic-update-slice takes all starts in one vector;
//! here it becomes a slice and a reshape per dimension, so that every later pass sees scalar indices.
//!
//! ```text
//! dynamic-slice(x, v)  ->  dynamic-slice(x, reshape(slice(v, [0:1])), reshape(slice(v, [1:2])))
//! ```
//!
//! Facts: `spec/ir.md 1.4`.

use bevy_ecs::prelude::*;
use murre_components::hlo::{ArrayShape, Attrs, HloInstruction, HloModule, HloOp, Shape};
use murre_components::ids::HloId;

/// Number of operands before the indices.
fn leading(op: HloOp) -> Option<usize> {
    match op {
        HloOp::DynamicSlice => Some(1),
        HloOp::DynamicUpdateSlice => Some(2),
        _ => None,
    }
}

fn vector_index(module: &HloModule, inst: &HloInstruction) -> Option<(usize, ArrayShape)> {
    let at = leading(inst.op)?;
    let shape = module.inst(*inst.operands.get(at)?).shape.array()?;
    (inst.operands.len() == at + 1 && shape.rank() == 1).then(|| (at, shape.clone()))
}

/// The pass.
pub fn split_dynamic_indices(mut module: ResMut<HloModule>) {
    if !module.instructions.iter().any(|i| vector_index(&module, i).is_some()) {
        return;
    }
    let old = std::mem::take(&mut *module);
    let mut out = crate::simplify::rebuild::Rebuild::new(&old);
    for (index, comp) in old.computations.iter().enumerate() {
        let mut instructions: Vec<HloId> = Vec::with_capacity(comp.instructions.len());
        for &id in &comp.instructions {
            let inst = old.inst(id);
            let Some((at, shape)) = vector_index(&old, inst) else {
                instructions.push(out.copy(&old, id));
                continue;
            };
            let vector = out.moved[inst.operands[at].index()];
            let mut scalars = Vec::new();
            for d in 0..shape.dims[0] {
                let piece = |shape: ArrayShape, op, operand, attrs, suffix: &str| HloInstruction {
                    name: format!("{}.{suffix}{d}", inst.name),
                    op,
                    shape: Shape::Array(shape),
                    operands: vec![operand],
                    called: Vec::new(),
                    attrs,
                    computation: out.next_computation(),
                    loc: inst.loc.clone(),
                    extra: Vec::new(),
                };
                let (start, limit) = (vec![d], vec![d + 1]);
                let cut = piece(
                    ArrayShape::new(shape.ty, vec![1]),
                    HloOp::Slice,
                    vector,
                    Attrs::Slice { start, limit, stride: vec![1] },
                    "index",
                );
                let scalar = piece(
                    ArrayShape::new(shape.ty, vec![]),
                    HloOp::Reshape,
                    HloId::NONE,
                    Attrs::None,
                    "start",
                );
                let cut = out.push(cut);
                let scalar = out.push(HloInstruction { operands: vec![cut], ..scalar });
                instructions.extend([cut, scalar]);
                scalars.push(scalar);
            }
            let new = out.copy(&old, id);
            let operands = &mut out.module.instructions[new.index()].operands;
            operands.truncate(at);
            operands.extend(scalars);
            instructions.push(new);
        }
        let root = out.moved[comp.root.index()];
        out.finish(&old, murre_components::ids::CompId::new(index), instructions, root);
    }
    *module = out.module;
}
