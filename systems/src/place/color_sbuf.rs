//! `color_sbuf`: a byte offset for every SBUF tile (`spec/ir.md 10`).
//!
//! Tiles are intervals of program positions that want bytes. They are taken in the order of their begin; a tile whose
//! range is over gives its bytes back to an address-sorted free list. First fit comes first; when it fails, fits that
//! keep long-lived tiles apart or waste less are tried, and at last tiles are laid out by size. Sizes are those of
//! the bounds, so a run-time value never changes the layout.
//!
//! Error `MUR0501` names the tile, what was free and the largest tiles alive beside it.

use super::arena::{Arena, Fit, LastOwners};
use super::dynamic_dma_setup::{reserved_bytes, usable_bytes};
use super::spill_sbuf::Spilled;
use super::{Reuse, TILE_ALIGN, hlo_name, hlo_source};
use crate::by_position::by_position;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::resource::RES_SBUF;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::PARTITIONS;
use murre_components::hlo::HloModule;
use murre_components::ids::LocId;

/// A tile as the colouring sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// First position alive.
    pub first: u32,
    /// Last position alive.
    pub last: u32,
    /// The location.
    pub loc: LocId,
    /// Bytes of a partition, rounded up to the alignment.
    pub size: u32,
}

/// How a tile is placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// By begin, one fit for all.
    Online(Fit),
    /// By begin; tiles that live longer than this many positions go to the high end.
    LongHigh(u32),
}

/// A tile that found no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its index.
    pub tile: usize,
    /// Free bytes where it begins.
    pub free: u32,
    /// Bytes of the largest hole.
    pub hole: u32,
}

/// The tiles of a space that are accessed, by begin.
pub fn tiles_of(space: Space, heads: &[LocHead], lives: &[LocLive]) -> Vec<Tile> {
    let wanted = |row: &usize| {
        let (h, l) = (&heads[*row], &lives[*row]);
        h.space == space && l.first <= l.last && h.flags & LocHead::PINNED == 0
    };
    let rows =
        by_position(heads.len().min(lives.len()), |row| Some(row).filter(wanted).map(|r| lives[r].first));
    let tile = |row: u32| {
        let (h, l) = (&heads[row as usize], &lives[row as usize]);
        Tile {
            first: l.first,
            last: l.last,
            loc: LocId(row),
            size: h.part_bytes().next_multiple_of(TILE_ALIGN as u64).clamp(TILE_ALIGN as u64, 1 << 31) as u32,
        }
    };
    rows.into_iter().map(tile).collect()
}

/// Splits tiles, which are in the order of their begin, by module; positions count from the begin of each then.
pub fn by_module<'a>(mut tiles: &'a mut [Tile], parts: &Parts) -> Vec<&'a mut [Tile]> {
    let mut modules = Vec::with_capacity(parts.0.len());
    let mut begin = 0;
    for end in parts.0.iter().skip(1).map(|p| p.position).chain([u32::MAX]) {
        let (here, rest) = tiles.split_at_mut(tiles.partition_point(|t| t.first < end));
        if begin > 0 {
            here.iter_mut().for_each(|t| (t.first, t.last) = (t.first - begin, t.last - begin));
        }
        modules.push(here);
        (tiles, begin) = (rest, end);
    }
    modules
}

/// Indices of tiles by their end.
pub fn by_end(tiles: &[Tile]) -> Vec<u32> {
    by_position(tiles.len(), |t| Some(tiles[t].last))
}

/// One sweep over the tiles.
fn sweep(tiles: &[Tile], ends: &[u32], low: u32, high: u32, layout: Layout) -> Result<Vec<u32>, Misfit> {
    let mut arena = Arena::new(low, high);
    let mut address = vec![u32::MAX; tiles.len()];
    let mut expired = 0;
    for (k, t) in tiles.iter().enumerate() {
        while let Some(&e) = ends.get(expired)
            && tiles[e as usize].last < t.first
        {
            let begin = address[e as usize];
            arena.release(begin, begin + tiles[e as usize].size);
            expired += 1;
        }
        let fit = match layout {
            Layout::Online(fit) => fit,
            Layout::LongHigh(span) if t.last - t.first > span => Fit::High,
            Layout::LongHigh(_) => Fit::First,
        };
        match arena.take(t.size, fit) {
            Some(begin) => address[k] = begin,
            None => {
                let (free, hole) = arena.free();
                return Err(Misfit { tile: k, free, hole });
            }
        }
    }
    Ok(address)
}

/// Largest tiles first, each at the lowest offset where nothing alive beside it stands. Quadratic, so only for
/// programs that no sweep could place and that have few tiles.
fn by_size(tiles: &[Tile], low: u32, high: u32) -> Option<Vec<u32>> {
    if tiles.len() > 4096 {
        return None;
    }
    let mut order: Vec<usize> = (0..tiles.len()).collect();
    order.sort_by_key(|&k| (std::cmp::Reverse(tiles[k].size), k));
    let mut address = vec![u32::MAX; tiles.len()];
    let mut placed: Vec<usize> = Vec::new();
    for k in order {
        let t = tiles[k];
        let mut taken: Vec<(u32, u32)> = placed
            .iter()
            .filter(|&&p| tiles[p].first <= t.last && t.first <= tiles[p].last)
            .map(|&p| (address[p], address[p] + tiles[p].size))
            .collect();
        taken.sort_unstable();
        let mut at = low;
        for &(b, e) in &taken {
            if b >= at && b - at >= t.size {
                break;
            }
            at = at.max(e);
        }
        let begin = at;
        if begin as u64 + t.size as u64 > high as u64 {
            return None;
        }
        address[k] = begin;
        placed.push(k);
    }
    Some(address)
}

/// The bytes that tiles may take: from behind the reserved ones to the last whole unit of alignment.
pub fn usable_range(options: &CompileOptions) -> (u32, u32) {
    let low = reserved_bytes(options).next_multiple_of(TILE_ALIGN);
    (low, usable_bytes(options) / TILE_ALIGN * TILE_ALIGN)
}

/// Addresses by tile: the first layout that places all of them, or what first fit could not place.
pub fn place_tiles(tiles: &[Tile], low: u32, high: u32) -> Result<Vec<u32>, Misfit> {
    let ends = by_end(tiles);
    let span = tiles.iter().map(|t| t.last).max().unwrap_or(0) / 8;
    let layouts = [
        Layout::Online(Fit::First),
        Layout::LongHigh(256.min(span)),
        Layout::Online(Fit::Best),
        Layout::LongHigh(32.min(span)),
    ];
    let mut misfit = None;
    for layout in layouts {
        match sweep(tiles, &ends, low, high, layout) {
            Ok(address) => return Ok(address),
            Err(m) => misfit = misfit.or(Some(m)),
        }
    }
    match (by_size(tiles, low, high), misfit) {
        (Some(address), _) => Ok(address),
        (None, Some(m)) => Err(m),
        (None, None) => Ok(Vec::new()),
    }
}

/// Writes each tile's begin, in bytes of its partition, and whose bytes it takes over.
pub fn settle(tiles: &[Tile], address: &[u32], places: &mut [LocPlace], reuse: &mut Reuse) {
    let (mut owners, mut found) = (LastOwners::default(), Vec::new());
    for (t, &begin) in tiles.iter().zip(address) {
        places[t.loc.index()].address = begin;
        found.clear();
        owners.claim(begin, begin + t.size, t.loc, &mut found);
        if !found.is_empty() {
            reuse.set(t.loc, &found);
        }
    }
}

/// The largest tiles alive at the begin of `at`, for a diagnostic.
pub fn neighbours(tiles: &[Tile], at: usize, froms: &[LocFrom], module: &HloModule) -> String {
    let t = tiles[at];
    let mut live: Vec<&Tile> =
        tiles.iter().filter(|o| o.loc != t.loc && o.first <= t.first && o.last >= t.first).collect();
    live.sort_by_key(|o| (std::cmp::Reverse(o.size), o.loc.0));
    let list: Vec<String> = live
        .iter()
        .take(5)
        .map(|o| format!("{} ({} B)", hlo_name(module, froms[o.loc.index()].hlo), o.size))
        .collect();
    if list.is_empty() {
        "no other tile is alive".into()
    } else {
        format!("alive beside it: {}", list.join(", "))
    }
}

/// The pass.
pub fn color_sbuf(
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    diagnostics: Res<Diagnostics>,
    spilled: Option<Res<Spilled>>,
    parts: Res<Parts>,
    mut reuse: ResMut<Reuse>,
    lives: Res<LocLives>,
    mut locs: Query<(&LocHead, &LocFrom, &mut LocPlace)>,
) {
    let Ok(mut tables) = locs.contiguous_iter_mut() else {
        return;
    };
    let Some((heads, froms, mut places)) = tables.next() else {
        return;
    };
    let (low, high) = usable_range(&options);
    let mut tiles = tiles_of(Space::Sbuf, heads, &lives.0);
    if let Some(t) = tiles.iter().find(|t| heads[t.loc.index()].partitions > PARTITIONS) {
        let d = Diagnostic::error(&RES_SBUF, "a tile has more partitions than SBUF")
            .on(hlo_name(&module, froms[t.loc.index()].hlo))
            .found(format!("{} partitions", heads[t.loc.index()].partitions))
            .expected(format!("at most {PARTITIONS}"))
            .ordered(t.loc.0);
        diagnostics.push(d);
        return;
    }
    let places = places.bypass_change_detection();
    for tiles in by_module(&mut tiles, &parts) {
        let tiles: &[Tile] = tiles;
        let address = match place_tiles(tiles, low, high) {
            Ok(address) => address,
            Err(m) => {
                let t = tiles[m.tile];
                let hlo = froms[t.loc.index()].hlo;
                let beside = neighbours(tiles, m.tile, froms, &module);
                let spilled = match spilled.as_deref() {
                    Some(s) => format!("; {}", s.text()),
                    None => String::new(),
                };
                diagnostics.push(
                    Diagnostic::error(
                        &RES_SBUF,
                        format!("a tile of {} bytes a partition does not fit into SBUF", t.size),
                    )
                    .on(hlo_name(&module, hlo))
                    .from_source(hlo_source(&module, hlo))
                    .found(format!(
                        "{} bytes free, the largest hole has {}; {beside}{spilled}",
                        m.free, m.hole
                    ))
                    .expected(format!("{} of {} usable bytes", t.size, high.saturating_sub(low)))
                    .help(match options.sbuf_limit {
                        Some(_) => "give a larger --sbuf-bytes, or leave it out",
                        None => "use a smaller bound for the dimension, or a target with more SBUF",
                    })
                    .ordered(t.loc.0),
                );
                return;
            }
        };
        settle(tiles, &address, places, &mut reuse);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::Stage;
    use crate::synth::synthetic;

    #[test]
    fn synthetic_programs_are_placed_and_pass_the_checker() {
        for (n, seed) in [(300, 1), (3000, 2), (3000, 3), (20_000, 4)] {
            let mut c = synthetic(n, seed);
            c.world.resource_mut::<CompileOptions>().verify = true;
            c.run(&[Stage::Place]);
            let found = c.world.resource::<Diagnostics>().take();
            assert!(found.is_empty(), "{n} {seed}: {:?}", &found[..found.len().min(3)]);
            let reuse = c.world.resource::<Reuse>().clone();
            let mut q = c.world.query::<&LocHead>();
            let lives = &c.world.resource::<LocLives>().0;
            let rows: Vec<(LocHead, LocLive)> =
                q.iter(&c.world).copied().zip(lives.iter().copied()).collect();
            let mut taken_over = 0;
            for (row, (h, l)) in rows.iter().enumerate() {
                for p in reuse.of(LocId::new(row)) {
                    taken_over += 1;
                    assert_eq!(rows[p.index()].0.space, h.space);
                    assert!(rows[p.index()].1.last < l.first);
                }
            }
            assert!(n < 3000 || taken_over > 100);
        }
    }

    #[test]
    fn too_small_a_limit_is_refused_with_the_neighbours() {
        let mut c = synthetic(300, 1);
        c.world.resource_mut::<CompileOptions>().sbuf_limit = Some(0x4040 + 4096);
        c.run(&[Stage::Place]);
        let d = c.world.resource::<Diagnostics>().take();
        assert_eq!(d[0].code.id, "MUR0501");
        assert!(d[0].found.as_deref().is_some_and(|f| f.contains("alive beside it")));
        assert!(d[0].found.as_deref().is_some_and(|f| f.contains("stand in DRAM already")));
        assert!(d[0].help.as_deref().is_some_and(|h| h.contains("--sbuf-bytes")));
    }

    #[test]
    fn a_tile_with_too_many_partitions_is_refused() {
        let mut c = synthetic(300, 1);
        let mut q = c.world.query::<&mut LocHead>();
        for mut h in q.iter_mut(&mut c.world).filter(|h| h.space == Space::Sbuf) {
            h.partitions = PARTITIONS + 1;
        }
        c.run(&[Stage::Place]);
        assert_eq!(c.world.resource::<Diagnostics>().take()[0].code.id, "MUR0501");
    }

    #[test]
    fn layout_by_size_finds_what_first_fit_misses() {
        let tile = |first, last, loc, size| Tile { first, last, loc: LocId(loc), size };
        // First fit puts 1 between 0 and 2 and leaves two holes that 3 does not fit into.
        let tiles =
            [tile(0, 9, 0, 64), tile(0, 1, 1, 64), tile(0, 9, 2, 64), tile(0, 1, 3, 64), tile(2, 9, 4, 128)];
        assert!(sweep(&tiles, &by_end(&tiles), 0, 256, Layout::Online(Fit::First)).is_err());
        let address = by_size(&tiles, 0, 256).unwrap();
        for (a, x) in tiles.iter().enumerate() {
            for (b, y) in tiles.iter().enumerate().skip(a + 1) {
                let together = x.first <= y.last && y.first <= x.last;
                let apart = address[a] + x.size <= address[b] || address[b] + y.size <= address[a];
                assert!(!together || apart);
            }
        }
    }

    #[test]
    fn the_checker_sees_a_tile_moved_onto_another() {
        let mut c = synthetic(300, 1);
        c.world.resource_mut::<CompileOptions>().verify = true;
        c.run(&[Stage::Place]);
        let mut q = c.world.query::<(&LocHead, &mut LocPlace)>();
        for (h, mut p) in q.iter_mut(&mut c.world) {
            if h.space == Space::Sbuf && h.flags == 0 {
                p.address = 0x4040;
            }
        }
        let mut schedule = Schedule::default();
        schedule.add_systems(super::super::verify_place::verify_place);
        schedule.run(&mut c.world);
        let found = c.world.resource::<Diagnostics>().take();
        assert!(!found.is_empty() && found.iter().all(|d| d.code.id == "MUR1001"));
    }
}
