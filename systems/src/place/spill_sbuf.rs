//! `spill_sbuf`: tiles that do not fit into SBUF beside each other move to DRAM (`spec/ir.md 10`).
//!
//! One scan over the live ranges finds the most bytes alive at a position; a program that stays under half of SBUF is
//! left alone, and one that can be placed as it is too. Otherwise a sweep over the positions takes, wherever more is
//! alive than fits, the tiles that cost least: accesses, ten times as dear for every loop around them, divided by the
//! bytes and positions that are freed. Equal ones go by `LocId`. [`super::spill_code`] rewrites the accesses, the live
//! ranges are computed again, and the next round looks at what has become of it. When everything fits by its bytes but
//! not in one piece, the next round aims lower. What does not fit after all rounds is for `color_sbuf` to refuse.
//!
//! Never taken are tiles whose address is decided at run time, tiles that every engine reads, and the tiles that
//! spilling made.

use super::color_sbuf::{Tile, by_end, by_module, place_tiles, tiles_of, usable_range};
use super::loc_liveness::loc_liveness;
use super::spill_code::{Tables, covers, keeps_old, rewrite};
use crate::batch::give_up;
use crate::columns;
use crate::options::CompileOptions;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use bevy_ecs::system::RunSystemOnce;
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics, codes::internal::INTERNAL};
use murre_components::engine::{EngineId, PARTITIONS};
use murre_components::ids::LocId;
use slotmap::Key;
use std::collections::BTreeSet;

/// What was moved to DRAM. There is none when nothing was.
#[derive(Resource, Default, Clone, Debug)]
pub struct Spilled {
    /// The tiles.
    pub tiles: Vec<LocId>,
    /// Where each stands now.
    pub homes: Vec<LocId>,
    /// Bytes of a partition of all of them.
    pub part_bytes: u64,
    /// Loads and saves that were added.
    pub copies: usize,
}

impl Spilled {
    /// One line for a diagnostic.
    pub fn text(&self) -> String {
        let n = self.tiles.len();
        let s = if n == 1 { "" } else { "s" };
        format!("{n} tile{s} of {} bytes a partition stand in DRAM already", self.part_bytes)
    }
}

/// Most rounds of choosing and rewriting.
const MAX_ROUNDS: u32 = 24;

/// The pass.
pub fn spill_sbuf(
    world: &mut World,
    locs: &mut QueryState<&LocHead>,
    insts: &mut QueryState<(&InstHead, &InstOperands)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    froms: &mut QueryState<&LocFrom>,
    ap_heads: &mut QueryState<&mut ApHead>,
) {
    let (low, high) = usable_range(world.resource::<CompileOptions>());
    let capacity = high.saturating_sub(low);
    let (mut budget, mut originals) = (capacity, usize::MAX);
    for _ in 0..MAX_ROUNDS {
        let (heads, lives): (&[LocHead], _) = (columns!(locs, world), &world.resource::<LocLives>().0);
        let most = peak(heads, lives, world.resource::<Order>().0.len());
        if most <= u64::from(capacity) / 2 {
            return;
        }
        originals = originals.min(heads.len());
        let mut tiles = tiles_of(Space::Sbuf, heads, lives);
        let parts = world.resource::<Parts>();
        if parts.are_many() {
            let placed = |tiles: &mut [Tile]| place_tiles(tiles, low, high).is_ok();
            if most > u64::from(capacity) || !by_module(&mut tiles, parts).into_iter().all(placed) {
                give_up(parts, world.resource::<Diagnostics>(), "tiles have to be spilled");
            }
            return;
        }
        if tiles.iter().any(|t| heads[t.loc.index()].partitions > PARTITIONS)
            || (most <= u64::from(capacity) && place_tiles(&tiles, low, high).is_ok())
        {
            return;
        }
        let (inst_heads, operands) = columns!(insts, world);
        let (aps, patterns) = columns!(aps, world);
        let t = Tables {
            order: &world.resource::<Order>().0,
            heads: inst_heads,
            operands,
            aps,
            patterns,
            locs: heads,
            froms: columns!(froms, world),
        };
        let facts = facts(&t, originals, world.resource::<Payloads>());
        let mut victims = choose(&t, &tiles, &facts, budget);
        // All bytes that can be freed are, and it is still too much; or it fits, but not in one piece.
        while victims.is_empty() && most <= u64::from(capacity) && budget > capacity / 2 {
            budget -= capacity.div_ceil(16).min(budget);
            victims = choose(&t, &tiles, &facts, budget);
        }
        if victims.is_empty() {
            return;
        }
        let mut staging = Staging::new(world);
        let mut homes = vec![LocId::NONE; heads.len()];
        let mut spilled = world.get_resource::<Spilled>().cloned().unwrap_or_default();
        for &loc in &victims {
            let head = heads[loc.index()];
            let elems = u64::from(head.partitions) * head.part_elems;
            let home = staging.loc(LocRow::new(Space::Dram, head.dtype, 1, elems, t.froms[loc.index()].hlo));
            homes[loc.index()] = home;
            spilled.tiles.push(loc);
            spilled.homes.push(home);
            spilled.part_bytes += head.part_bytes();
        }
        let done = rewrite(&t, &homes, &mut staging);
        spilled.copies += done.copies;
        if let Ok(tables) = ap_heads.contiguous_iter_mut(world) {
            for mut column in tables {
                let column = column.bypass_change_detection();
                for &(row, loc) in &done.moved {
                    column[row].loc = loc;
                }
            }
        }
        staging.flush(world);
        world.insert_resource(Order(done.order));
        world.insert_resource(spilled);
        if world.run_system_once(loc_liveness).is_err() {
            let d = Diagnostic::error(&INTERNAL, "live ranges cannot be computed again");
            world.resource::<Diagnostics>().push(d);
            return;
        }
    }
}

/// Most bytes of a partition that are alive at one position.
fn peak(heads: &[LocHead], lives: &[LocLive], positions: usize) -> u64 {
    let mut change = vec![0i64; positions + 1];
    for (h, l) in heads.iter().zip(lives) {
        if h.space == Space::Sbuf
            && h.flags & LocHead::PINNED == 0
            && l.first <= l.last
            && let Some(a) = change.get_mut(l.first as usize)
        {
            let bytes = h.part_bytes().next_multiple_of(super::TILE_ALIGN as u64).min(1 << 31) as i64;
            *a += bytes;
            if let Some(b) = change.get_mut(l.last as usize + 1) {
                *b -= bytes;
            }
        }
    }
    let (mut alive, mut most) = (0i64, 0);
    for c in change {
        alive += c;
        most = most.max(alive);
    }
    most as u64
}

/// What spilling a location costs, `None` when it may not be spilled.
fn facts(t: &Tables<'_>, originals: usize, payloads: &Payloads) -> Vec<Option<u64>> {
    let mut cost: Vec<Option<u64>> = t
        .locs
        .iter()
        .enumerate()
        .map(|(row, h)| {
            let elems = u64::from(h.partitions) * h.part_bytes();
            let fits = row < originals && h.flags == 0 && elems > 0 && elems < 1 << 31;
            (h.space == Space::Sbuf && fits).then_some(0)
        })
        .collect();
    for p in payloads.0.values() {
        if let Payload::Dynamic(DynamicApInfo { kind: OffsetKind::Vector(index), .. }) = p
            && let Some(c) = t.aps.get(index.index()).and_then(|a| cost.get_mut(a.loc.index()))
        {
            *c = None;
        }
    }
    // The loops around the present position, and by loop the one around it.
    let (mut open, mut parents, mut depth) = (u32::MAX, Vec::<u32>::new(), 0u32);
    // By location: the loop and the pattern of its first write that keeps nothing.
    let mut defined: Vec<Option<(u32, usize)>> = vec![None; t.locs.len()];
    for id in t.order {
        let (head, o) = (t.heads[id.index()], t.operands[id.index()]);
        match head.op {
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => {
                parents.push(open);
                open = parents.len() as u32 - 1;
                depth += 1;
            }
            Opcode::Terminator => {
                open = parents.get(open as usize).copied().unwrap_or(u32::MAX);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        for row in o.range() {
            let a = &t.aps[row];
            let loc = a.loc.index();
            let Some(Some(c)) = cost.get_mut(loc) else { continue };
            let plain = a.kind == ApKind::Physical
                && t.aps[row].dynamic.payload.is_null()
                && head.engine != EngineId::All
                && t.locs[loc].part_bytes().is_multiple_of(u64::from(a.dtype.bytes().max(1)));
            let output = row - o.range().start < o.outputs as usize;
            // A load in front of a predicated copy must find what it loads.
            let old_is_there = !output
                || !keeps_old(head.op)
                || defined[loc]
                    .is_some_and(|(at, first)| encloses(&parents, at, open) && covers(t, first, row));
            if !plain || !old_is_there {
                cost[loc] = None;
                continue;
            }
            // A DMA copy only changes its address.
            *c += if head.op == Opcode::DmaCopy { 1 } else { 4 } * 10u64.pow(depth.min(8));
            if output && !keeps_old(head.op) && defined[loc].is_none() {
                defined[loc] = Some((open, row));
            }
        }
    }
    cost
}

/// Whether loop `outer` is `inner` or one around it.
fn encloses(parents: &[u32], outer: u32, mut inner: u32) -> bool {
    while inner != outer && inner != u32::MAX {
        inner = parents.get(inner as usize).copied().unwrap_or(u32::MAX);
    }
    inner == outer
}

/// The tiles to spill so that at most `budget` bytes of a partition are alive anywhere, as far as that can be had.
fn choose(t: &Tables<'_>, tiles: &[Tile], cost: &[Option<u64>], budget: u32) -> Vec<LocId> {
    let ends = by_end(tiles);
    let score = |k: usize| {
        let x = &tiles[k];
        let freed = u128::from(x.size) * u128::from(x.last - x.first + 1);
        cost[x.loc.index()].map(|c| ((u128::from(c) << 48) / freed, x.loc, k as u32))
    };
    // Whether a tile has been chosen, by location.
    let mut spilled = vec![false; t.locs.len()];
    let mut alive: BTreeSet<(u128, LocId, u32)> = BTreeSet::new();
    let (mut begun, mut ended, mut bytes) = (0, 0, 0u64);
    let mut victims = Vec::new();
    let mut used: Vec<LocId> = Vec::new();
    for (position, id) in t.order.iter().enumerate() {
        let position = position as u32;
        while let Some(&e) = ends.get(ended)
            && tiles[e as usize].last < position
        {
            let x = &tiles[e as usize];
            if !spilled[x.loc.index()] {
                bytes -= u64::from(x.size);
                if let Some(s) = score(e as usize) {
                    alive.remove(&s);
                }
            }
            ended += 1;
        }
        while let Some(x) = tiles.get(begun)
            && x.first <= position
        {
            bytes += u64::from(x.size);
            alive.extend(score(begun));
            begun += 1;
        }
        // A spilled tile that the instruction touches needs its bytes here all the same.
        used.clear();
        let mut here = bytes;
        if t.heads[id.index()].op != Opcode::DmaCopy {
            for row in t.operands[id.index()].range() {
                let loc = t.aps[row].loc;
                if t.locs[loc.index()].space == Space::Sbuf && !used.contains(&loc) {
                    used.push(loc);
                    if spilled[loc.index()] {
                        let head = t.locs[loc.index()];
                        here += head.part_bytes().next_multiple_of(super::TILE_ALIGN as u64);
                    }
                }
            }
        }
        while here > u64::from(budget) {
            let Some(&victim) = alive.iter().find(|v| !used.contains(&v.1)) else { break };
            alive.remove(&victim);
            let size = u64::from(tiles[victim.2 as usize].size);
            (bytes, here) = (bytes - size, here - size);
            spilled[victim.1.index()] = true;
            victims.push(victim.1);
        }
    }
    victims.sort_unstable();
    victims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::Stage;
    use crate::synth::synthetic;

    /// Synthetic programs at several sizes of SBUF: all checks of all stages hold, and the smaller the more is moved.
    #[test]
    fn synthetic_programs_survive_small_sbufs() {
        let mut all = 0;
        for (n, seed) in [(300, 1), (700, 2), (700, 3), (3000, 4), (3000, 5)] {
            let mut most = 0;
            for bytes in [40_960, 20_480, 16_384, 14_336] {
                let mut c = synthetic(n, seed);
                {
                    let mut o = c.world.resource_mut::<CompileOptions>();
                    (o.verify, o.sbuf_limit) = (true, Some(0x4040 + bytes));
                }
                let stages: Vec<Stage> =
                    Stage::ALL.into_iter().filter(|s| (Stage::Place..Stage::Encode).contains(s)).collect();
                c.run(&stages);
                let found = c.world.resource::<Diagnostics>().take();
                assert!(
                    found.is_empty(),
                    "{n} {seed} {bytes}: {} {:#?}",
                    found.len(),
                    &found[..found.len().min(3)]
                );
                let spilled = c.world.get_resource::<Spilled>().cloned().unwrap_or_default();
                assert!(spilled.tiles.len() >= most);
                most = spilled.tiles.len();
            }
            assert!(most > 0);
            all += most;
        }
        assert!(all > 100, "{all}");
    }
}
