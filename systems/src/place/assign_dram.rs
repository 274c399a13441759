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
