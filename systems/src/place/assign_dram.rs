//! `assign_dram`: every DRAM location becomes a variable, its id being its rank among the DRAM locations (D8). A
//! location that a run-time offset indexes also gets an entry in the DGE address table, in the same order.

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;

/// The pass.
pub fn assign_dram(
    payloads: Res<Payloads>,
    insts: Query<&InstHead>,
    aps: Query<(&ApHead, &ApDynamic)>,
    mut locs: Query<(&LocHead, &mut LocPlace)>,
) {
    let heads: &[InstHead] = columns!(insts);
    let (ap_heads, dynamics): (&[ApHead], &[ApDynamic]) = columns!(aps);
    let Ok(mut tables) = locs.contiguous_iter_mut() else {
        return;
    };
    let Some((loc_heads, mut places)) = tables.next() else {
        return;
    };
    let mut indexed = vec![false; loc_heads.len()];
    for (a, d) in ap_heads.iter().zip(dynamics) {
        if heads.get(a.inst.index()).is_some_and(|h| h.live())
            && payloads.dynamic(d.payload).is_some()
            && let Some(mark) = indexed.get_mut(a.loc.index())
        {
            *mark = true;
        }
    }
    let (mut var, mut entry) = (0, 0);
    let rows = places.bypass_change_detection().iter_mut().zip(loc_heads).zip(indexed);
    for ((place, head), indexed) in rows {
        if head.space != Space::Dram {
            continue;
        }
        place.address = var;
        var += 1;
        if indexed {
            place.table_entry = entry;
            entry += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::Stage;
    use crate::synth::synthetic;

    #[test]
    fn variables_are_ranks_and_only_indexed_ones_have_entries() {
        let mut c = synthetic(2000, 1);
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
