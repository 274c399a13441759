//! `refuse_dynamic_extents`: a tensor whose extent is a run-time value cannot go on to the nodes
//! (`spec/ir.md 1.1.4`). Every such instruction is named, none is padded silently.

use bevy_ecs::prelude::*;
use murre_components::diag::codes::lower::LOWER_DYNAMIC_SHAPE;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::{HloModule, HloOp, Shape};

/// The pass.
pub fn refuse_dynamic_extents(module: Res<HloModule>, diagnostics: Res<Diagnostics>) {
    let has_dynamic = |s: &Shape| s.leaves().iter().any(|l| l.array().is_some_and(|a| a.has_dynamic()));
    let dynamic: Vec<bool> = module.shapes().iter().map(has_dynamic).collect();
    for (k, inst) in module.insts().enumerate() {
        if dynamic[inst.shape_id().index()]
            || matches!(inst.op, HloOp::SetDimensionSize | HloOp::DynamicReshape)
        {
            diagnostics.push(
                Diagnostic::error(
                    &LOWER_DYNAMIC_SHAPE,
                    format!("{} has a dimension whose extent is known only at run time", inst.name()),
                )
                .on(inst.name())
                .from_source(inst.source())
                .found(inst.shape().to_string())
                .expected("static extents")
                .help("pad to the bound and mask, or evaluate the module with `murre eval`")
                .ordered(k as u32),
            );
        }
    }
}
