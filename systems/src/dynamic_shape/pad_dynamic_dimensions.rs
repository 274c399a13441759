//! `pad_dynamic_dimensions`: arrays with run-time extents become arrays at their bounds, sizes become `s32[]` values of
//! their own, and neutral elements stand where an operation would read behind a size.
//!
//! In: the module as read. Out: a module without dynamic dimensions, calls inlined where there were any; the
//! `Extents` resource and the
//! [`ShapeStory`]; what the next pass has to know of rows; or a diagnostic for each instruction that has no rule.
//! Facts: `spec/dynamic_shapes.md`, `spec/ir.md 1`.
//!
//! ```text
//! d = f32[<=8] set-dimension-size(x, n)    s = f32[] reduce(d, z)
//! ->  live = iota < n    p = select(live, x, broadcast(z))    s = f32[] reduce(p, z)
//! ```

use super::rewrite::{needed, rewrite};
use super::story::ShapeStory;
use crate::legalize::inline_calls::inline;
use crate::simplify::eliminate_dead_code::prune;
use bevy_ecs::prelude::*;
use murre_components::diag::Diagnostics;
use murre_components::hlo::{HloModule, HloOp};

/// The pass.
pub fn pad_dynamic_dimensions(world: &mut World) {
    let Some(module) = world.get_resource::<HloModule>() else { return };
    if module.entry.is_none() || !needed(module) {
        return;
    }
    let inlined = match module.insts().any(|i| i.op == HloOp::Call) {
        true => inline(module).map_err(|d| (vec![d], ShapeStory::default())),
        false => Ok(module.clone()),
    };
    // What nothing needs must not be refused.
    match inlined.and_then(|m| rewrite(&prune(&m))) {
        Ok(done) => {
            world.insert_resource(done.story);
            world.insert_resource(done.module);
            world.insert_resource(done.extents);
            world.insert_resource(done.rows);
        }
        Err((faults, story)) => {
            world.insert_resource(story);
            let sink = world.resource::<Diagnostics>();
            faults.into_iter().for_each(|f| sink.push(f));
        }
    }
}
