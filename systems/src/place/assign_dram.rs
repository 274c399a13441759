//! `assign_dram`: every DRAM location gets a variable: one of its own, or the one of the [`super::dram_classes`] that it is
//! in. Variables are numbered in the order of their first locations (D8). A location that a run-time offset indexes
//! also gets an entry in the DGE address table, in the order of locations. Both count anew for each module of a batch.

use super::Reuse;
use super::dram_classes::classes;
use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The pass.
pub fn assign_dram(
    payloads: Res<Payloads>,
    options: Res<CompileOptions>,
    parts: Res<Parts>,
    mut reuse: ResMut<Reuse>,
    insts: Query<&InstHead>,
    aps: Query<&ApHead>,
    lives: Res<LocLives>,
    mut locs: Query<(&LocHead, &mut LocPlace)>,
) {
    let heads: &[InstHead] = columns!(insts);
    let ap_heads: &[ApHead] = columns!(aps);
    let Ok(mut tables) = locs.contiguous_iter_mut() else {
        return;
    };
    let Some((loc_heads, mut places)) = tables.next() else {
        return;
    };
    let mut indexed = vec![false; loc_heads.len()];
    for a in ap_heads {
        if heads.get(a.inst.index()).is_some_and(|h| h.live())
            && payloads.dynamic(a.dynamic.payload).is_some()
            && let Some(mark) = indexed.get_mut(a.loc.index())
        {
            *mark = true;
        }
    }
    let names =
        if options.share_dram { classes(loc_heads, &lives.0, &parts, &mut reuse) } else { Vec::new() };
    let (mut var, mut entry) = (0, 0);
    let mut borders = parts.0.iter().skip(1).map(|p| p.loc as usize).peekable();
    let places = places.bypass_change_detection();
    for (row, (head, indexed)) in loc_heads.iter().zip(indexed).enumerate() {
        while borders.next_if_eq(&row).is_some() {
            (var, entry) = (0, 0);
        }
        if head.space != Space::Dram {
            continue;
        }
        // The location that names a variable comes before the others that stand in it.
        places[row].address = match names.get(row) {
            Some(name) if name.index() < row => places[name.index()].address,
            _ => {
                var += 1;
                var - 1
            }
        };
        if indexed {
            places[row].table_entry = entry;
            entry += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::Stage;
    use crate::synth::synthetic;
    use murre_components::diag::Diagnostics;

    #[test]
    fn variables_are_dense_and_only_indexed_locations_have_entries() {
        for share_dram in [false, true] {
            let mut c = synthetic(2000, 1);
            c.world.resource_mut::<CompileOptions>().share_dram = share_dram;
            c.run(&[Stage::Place]);
            let mut q = c.world.query::<(&LocHead, &LocPlace)>();
            let drams: Vec<LocPlace> =
                q.iter(&c.world).filter(|(h, _)| h.space == Space::Dram).map(|(_, p)| *p).collect();
            assert!(drams.iter().enumerate().all(|(k, p)| p.address == k as u32));
            let entries: Vec<u32> = drams.iter().map(|p| p.table_entry).filter(|e| *e != u32::MAX).collect();
            assert!(entries.iter().enumerate().all(|(k, e)| *e == k as u32));
            // The two words of the control scalar are never indexed.
            assert!(!entries.is_empty() && entries.len() <= drams.len() - 2);
        }
    }

    /// Homes of spilled tiles are many and short: they share, and the checker agrees; it objects to another address.
    #[test]
    fn homes_share_variables_and_the_checker_knows_when_they_may_not() {
        let mut c = synthetic(3000, 3);
        {
            let mut o = c.world.resource_mut::<CompileOptions>();
            (o.verify, o.sbuf_limit) = (true, Some(0x4040 + 16_384));
        }
        c.run(&[Stage::Place]);
        assert!(c.world.resource::<Diagnostics>().take().is_empty());
        let mut q = c.world.query::<(&LocHead, &mut LocPlace)>();
        let homes: Vec<u32> =
            q.iter(&c.world).filter(|(h, _)| h.space == Space::Dram).map(|(_, p)| p.address).collect();
        let vars = homes.iter().max().map_or(0, |m| m + 1) as usize;
        assert!(homes.len() > 100 && vars < homes.len() / 2, "{vars} of {}", homes.len());
        let last = homes.len() - 1;
        let rows = q.iter_mut(&mut c.world).filter(|(h, _)| h.space == Space::Dram);
        for (k, (_, mut p)) in rows.enumerate() {
            p.address = if k == last { 0 } else { homes[k] };
        }
        let mut schedule = Schedule::default();
        schedule.add_systems(super::super::verify_place::verify_place);
        schedule.run(&mut c.world);
        let found = c.world.resource::<Diagnostics>().take();
        assert!(found.len() >= 2 && found.iter().all(|d| d.code.id == "MUR1001"), "{found:?}");
    }
}
