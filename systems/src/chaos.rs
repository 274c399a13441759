//! What must not matter, made random. In: a seed. Out: a world before any pass has run in which entity ids come in no
//! order, tables were made in a random order, and decoys stand between the compiler's entities. With the options'
//! random batch size this is `--chaos`: the bytes of the program stay the same, because rows are found by dense ids and
//! never by `Entity` or by the order of archetypes (`spec/ecs.md 5`).
//!
//! ```text
//! ids of the first rows     0v0 1v0 2v0 3v0      plain
//!                           41v1 7v2 88v0 3v1    with a seed
//! ```

use crate::staging::Recycled;
use crate::synth::Lcg;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::hlo_table::{HloEdges, HloHead, HloHome};
use murre_components::penguin::{NodeHead, NodeOperands, NodeScalars};

/// An entity of nobody.
#[derive(Component)]
struct Decoy(#[allow(dead_code)] u64);

/// Ids that are made and given back, so that later rows get them in a random order.
const BURNT: u32 = 512;

/// Makes the world's tables, in the given order of kinds: each gets its place when its components are first seen
/// together.
fn make_tables(world: &mut World, order: &[usize]) {
    let tables: [fn(&mut World); 10] = [
        |w| drop(w.spawn_batch(Vec::<(HloHead, HloEdges, HloHome)>::new())),
        |w| drop(w.spawn_batch(Vec::<(NodeHead, NodeOperands, NodeScalars)>::new())),
        |w| drop(w.spawn_batch(Vec::<InstRow>::new())),
        |w| drop(w.spawn_batch(Vec::<ApRow>::new())),
        |w| drop(w.spawn_batch(Vec::<RegRow>::new())),
        |w| drop(w.spawn_batch(Vec::<LocRow>::new())),
        |w| drop(w.spawn_batch(Vec::<AxisRow>::new())),
        |w| drop(w.spawn_batch(Vec::<QueueHead>::new())),
        |w| drop(w.spawn_batch(Vec::<BlockHead>::new())),
        |w| drop(w.spawn_batch(Vec::<DescRow>::new())),
    ];
    for &k in order {
        if let Some(make) = tables.get(k) {
            make(world);
        }
    }
}

/// Makes a fresh world as unlike a plain one as it can be.
pub fn disturb(world: &mut World, seed: u64) {
    let mut rng = Lcg::new(seed);
    let mut order: Vec<usize> = (0..10).collect();
    shuffle(&mut order, &mut rng);
    make_tables(world, &order);
    let burnt = BURNT + rng.below(BURNT);
    let mut ids: Vec<Entity> = (0..burnt).map(|k| world.spawn(Decoy(u64::from(k))).id()).collect();
    shuffle(&mut ids, &mut rng);
    // A third stays, so that no range of ids is whole.
    for id in ids.iter().skip(ids.len() / 3) {
        world.despawn(*id);
    }
    world.insert_resource(Recycled);
}

/// A batch size: now and then one row, now and then more than there are.
pub fn batch_rows(seed: u64) -> u32 {
    let mut rng = Lcg::new(seed ^ 0x6261_7463_6873);
    let most = 1 << rng.below(14);
    1 + rng.below(most)
}

fn shuffle<T>(items: &mut [T], rng: &mut Lcg) {
    for k in (1..items.len()).rev() {
        items.swap(k, rng.below(k as u32 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staging::Staging;
    use murre_components::engine::EngineId;
    use murre_components::ids::HloId;

    fn ids(seed: Option<u64>) -> (Vec<Entity>, usize) {
        let mut world = World::new();
        if let Some(seed) = seed {
            disturb(&mut world, seed);
        }
        let mut rows = Staging::after(Default::default());
        for _ in 0..64 {
            rows.reg(RegRow::new(EngineId::Dve, RegRole::ApAddr, HloId::NONE));
        }
        rows.flush(&mut world);
        let mut q = world.query_filtered::<Entity, With<RegHead>>();
        let ids = q.iter(&world).collect();
        let archetype = world.archetypes().iter().position(|a| a.entities().len() == 64).unwrap_or(0);
        (ids, archetype)
    }

    #[test]
    fn ids_and_tables_are_random() {
        let ordered = |ids: &[Entity]| ids.windows(2).filter(|w| w[0].index_u32() < w[1].index_u32()).count();
        assert_eq!(ordered(&ids(None).0), 63);
        let (first, _) = ids(Some(1));
        assert!((10..54).contains(&ordered(&first)), "{first:?}");
        assert_ne!(first, ids(Some(2)).0);
        let places: std::collections::BTreeSet<usize> = (0..8).map(|s| ids(Some(s)).1).collect();
        assert!(places.len() > 2, "{places:?}");
    }
}
