//! `color_psum`: a bank and an offset for every PSUM tile (`spec/ir.md 10.4`).
//!
//! Eight banks of 2 KiB a partition; a tile stands inside one bank. Tiles are taken by begin. The first sweep goes round
//! the banks, so that matmuls that follow each other do not share one; the second fills banks from the first on.
//! Error `MUR0504` when a tile is larger than a bank or no bank has room.

use super::arena::{Arena, Fit};
use super::color_sbuf::{Tile, by_end, by_module, neighbours, settle, tiles_of};
use super::{Reuse, hlo_name, hlo_source};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::resource::RES_PSUM;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{PSUM_BANK_BYTES, PSUM_BANKS};
use murre_components::hlo::HloModule;

/// Addresses by tile, or the index of a tile without a place and the free bytes.
fn sweep(tiles: &[Tile], ends: &[u32], round_robin: bool, fit: Fit) -> Result<Vec<u32>, (usize, u32)> {
    let mut banks: Vec<Arena> =
        (0..PSUM_BANKS).map(|b| Arena::new(b * PSUM_BANK_BYTES, (b + 1) * PSUM_BANK_BYTES)).collect();
    let mut address = vec![u32::MAX; tiles.len()];
    let (mut expired, mut next) = (0, 0);
    for (k, t) in tiles.iter().enumerate() {
        while let Some(&e) = ends.get(expired)
            && tiles[e as usize].last < t.first
        {
            let begin = address[e as usize];
            if let Some(bank) = banks.get_mut((begin / PSUM_BANK_BYTES) as usize) {
                bank.release(begin, begin + tiles[e as usize].size);
            }
            expired += 1;
        }
        let start = if round_robin { next } else { 0 };
        let found = (0..PSUM_BANKS).map(|b| (start + b) % PSUM_BANKS).find_map(|b| {
            let begin = banks.get_mut(b as usize)?.take(t.size, fit)?;
            Some((b, begin))
        });
        match found {
            Some((b, begin)) => {
                address[k] = begin;
                next = (b + 1) % PSUM_BANKS;
            }
            None => return Err((k, banks.iter().map(|b| b.free().0).sum())),
        }
    }
    Ok(address)
}

/// The pass.
pub fn color_psum(
    module: Res<HloModule>,
    diagnostics: Res<Diagnostics>,
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
    let mut tiles = tiles_of(Space::Psum, heads, &lives.0);
    let places = places.bypass_change_detection();
    for tiles in by_module(&mut tiles, &parts) {
        let tiles: &[Tile] = tiles;
        let ends = by_end(tiles);
        let placed = sweep(tiles, &ends, true, Fit::First).or_else(|_| sweep(tiles, &ends, false, Fit::Best));
        let address = match placed {
            Ok(address) => address,
            Err((k, free)) => {
                let t = tiles[k];
                let hlo = froms[t.loc.index()].hlo;
                let beside = neighbours(tiles, k, froms, &module);
                diagnostics.push(
                    Diagnostic::error(
                        &RES_PSUM,
                        format!("a tile of {} bytes a partition does not fit into PSUM", t.size),
                    )
                    .on(hlo_name(&module, hlo))
                    .from_source(hlo_source(&module, hlo))
                    .found(format!("{free} bytes free over all banks; {beside}"))
                    .expected(format!("{} bytes inside one bank of {PSUM_BANK_BYTES}", t.size))
                    .help("an accumulator has at most 512 32-bit elements a partition")
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
    use crate::compile::Compiler;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::ids::*;

    /// `tiles` accumulators of `elems` words, all written first and all read afterwards.
    fn accumulators(tiles: u32, elems: u64) -> Vec<Diagnostic> {
        let mut c = Compiler::new(HloModule::default(), Default::default());
        let mut rows = Staging::new(&c.world);
        let mut order = Vec::new();
        for round in 0..2 {
            for k in 0..tiles {
                if round == 0 {
                    rows.loc(LocRow::new(Space::Psum, DType::F32, 128, elems, HloId::NONE));
                }
                let o = [Operand {
                    loc: LocId(k),
                    offset: 0,
                    dtype: DType::F32,
                    pattern: ApPattern::default(),
                    kind: ApKind::Physical,
                    payload: PayloadKey::default(),
                    flags: 0,
                }];
                let row = InstRow::new(Opcode::Matmult, EngineId::Pe, HloId::NONE);
                order.push(if round == 0 { rows.inst(row, &o, &[]) } else { rows.inst(row, &[], &o) });
            }
        }
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        c.world.resource_mut::<crate::CompileOptions>().verify = true;
        c.run(&[crate::Stage::Place]);
        c.world.resource::<Diagnostics>().take()
    }

    #[test]
    fn eight_full_banks_fit_and_a_ninth_does_not() {
        assert!(accumulators(8, 512).is_empty());
        assert!(accumulators(16, 256).is_empty());
        assert_eq!(accumulators(9, 512)[0].code.id, "MUR0504");
        assert_eq!(accumulators(1, 513)[0].code.id, "MUR0504");
    }
}
