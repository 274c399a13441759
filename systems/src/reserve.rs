//! Early entities for resources that passes write late.
//!
//! In: an empty world. Out: the same, where every resource of a compilation has its entity, without a value. A resource
//! is a component of an entity of its own, and its store has a slot for each entity id up to that one: a resource first
//! written when a million rows stand costs a million empty slots, and there are two dozen of them.

use bevy_ecs::prelude::*;
use bevy_ecs::resource::IsResource;

/// Gives `R` its entity.
fn reserve<R: Resource>(world: &mut World) {
    let id = world.register_component::<R>();
    if world.resource_entities().get(id).is_none() {
        world.spawn(IsResource::new(id));
    }
}

macro_rules! reserve_all {
    ($world:ident: $($resource:ty),* $(,)?) => { $(reserve::<$resource>($world);)* };
}

/// Gives every resource that passes write its entity.
pub(crate) fn reserve_resources(world: &mut World) {
    use murre_components::bir::Signature;
    use murre_components::penguin::{Chains, DynamicCopies, OperandPool};
    use murre_components::program::{Extents, Program};
    reserve_all!(world:
        bevy_ecs::schedule::Schedules,
        crate::dynamic_shape::story::ShapeStory,
        crate::dynamic_shape::row_groups::Rows,
        Extents,
        crate::penguin::spawn_hlo::HloOperands,
        OperandPool,
        DynamicCopies,
        Chains,
        Signature,
        crate::codegen::select_instructions::PendingDynamic,
        crate::Lean,
        crate::batch::Batch,
        crate::batch::Programs,
        crate::place::Reuse,
        crate::place::spill_sbuf::Spilled,
        crate::address::expand_all_engine::LocalRegs,
        crate::route::reason::RouteReasons,
        crate::route::reason::EngineReasons,
        crate::route::reason::QueueReasons,
        crate::route::reason::InLoop,
        crate::route::assign_hwdge_engine::HwdgeTurn,
        crate::describe::split_large_dmas::BlockRoots,
        crate::describe::lower_dynamic_dma::TableEntries,
        crate::sync::Edges,
        crate::staging::Recycled,
        Program,
    );
}

#[cfg(test)]
mod tests {
    use crate::synth::synthetic;
    use crate::{Stage, compile::set_threads};

    #[test]
    fn no_resource_stands_behind_the_rows() {
        set_threads(1);
        let mut c = synthetic(2_000, 7);
        let back_end: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
        c.run(&back_end);
        let late: Vec<String> = c
            .world
            .resource_entities()
            .iter()
            .filter(|(_, entity)| entity.index_u32() > 500)
            .filter_map(|(id, _)| Some(c.world.components().get_name(id)?.to_string()))
            .collect();
        assert!(late.is_empty(), "{late:?} belong into the list");
        assert!(c.finish().program.is_some());
    }
}
