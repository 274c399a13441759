//! In: DMAs that stay in a stream (routes SWDGE and HWDGE). Out: each of them one 0xD4 record: a contiguous run and at
//! most two strided dimensions a side. A larger one is peeled and unrolled: the original keeps the first piece, clones
//! behind it take the others. A clone's static side moves by its element offset. Its dynamic side keeps the offset
//! register and moves by the displacement of a DGE table entry of its own ([`TableEntries`]), because the table form of
//! ADDR8 has no displacement beside a register: `ApHead::TABLE_ENTRY` is set and `ApHead::offset` is the entry.
//! Facts: `spec/ir.md 9.1`, `spec/isa.md 4.2`, D1, D8.
//!
//! ```text
//! DMACopy sbuf:3[64,2][8,4][2,3][1,1] <- in0@reg7[..]   =>   DMACopy sbuf:3+0  <- table 0 + reg7
//!                                                            DMACopy sbuf:3+64 <- table 5 + reg7
//! ```

use super::shape::{Cut, copy_shape};
use crate::columns;
use crate::route::blame;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Code, Diagnostics, codes::lower};
use murre_components::hash::seeded_map;
use murre_components::hlo::HloModule;
use murre_components::ids::{HloId, InstId};
use murre_components::program::TableEntry;

/// The DGE address table beyond the entries of whole variables (`LocPlace::table_entry`): entry `base + k` is
/// `extra[k]`.
#[derive(Resource, Default, Clone, Debug)]
#[allow(missing_docs)]
pub struct TableEntries {
    pub base: u32,
    pub extra: Vec<TableEntry>,
}

/// Pieces of the copies that need more than one record.
struct Large {
    inst: InstId,
    cuts: Vec<Cut>,
}

/// The system.
pub fn lower_dynamic_dma(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom, &InstDma, &InstSync)>,
    aps: &mut QueryState<(&ApHead, &ApPattern, &ApDynamic)>,
    locs: &mut QueryState<(&LocHead, &LocPlace)>,
    patterns_mut: &mut QueryState<&mut ApPattern>,
) {
    let mut staging = Staging::new(world);
    let mut faults: Vec<(Code, InstId, HloId)> = Vec::new();
    let (mut larges, mut rewritten, mut clones): (
        Vec<Large>,
        Vec<(usize, ApPattern)>,
        Vec<(InstId, InstId)>,
    ) = Default::default();
    let mut table = TableEntries::default();
    {
        let (heads, operands, args, regs, from, dma, sync) = columns!(insts, world);
        let (ap, patterns, dynamics) = columns!(aps, world);
        let (loc, place) = columns!(locs, world);
        table.base =
            place.iter().filter(|p| p.table_entry != u32::MAX).map(|p| p.table_entry + 1).max().unwrap_or(0);
        for &id in &world.resource::<Order>().0 {
            let row = id.index();
            let Some(h) = heads.get(row) else { continue };
            if h.op != Opcode::DmaCopy || !h.live() || !matches!(h.dge, DgeType::Swdge | DgeType::Hwdge) {
                continue;
            }
            let (d, s) = (operands[row].output(0).index(), operands[row].input(0).index());
            if operands[row].inputs > 1 {
                // A vector of offsets: one record as it is.
                continue;
            }
            let side = |k: usize| Some((ap.get(k)?, patterns.get(k)?, loc.get(ap.get(k)?.loc.index())?));
            match side(d).zip(side(s)).and_then(|(d, s)| copy_shape(d, s)) {
                None => faults.push((&lower::DMA_SHAPE, id, from[row].hlo)),
                Some(shape) if shape.single() => {}
                Some(shape) => {
                    let mut cuts = Vec::new();
                    shape.cuts(|c| cuts.push(c));
                    larges.push(Large { inst: id, cuts });
                }
            }
        }
        let mut entries = seeded_map::<(u32, u64), u32>();
        for large in &larges {
            let row = large.inst.index();
            let rows = [operands[row].output(0).index(), operands[row].input(0).index()];
            for (piece, cut) in large.cuts.iter().enumerate() {
                let piece_patterns =
                    [piece_pattern(cut, |d| d.dst.elems), piece_pattern(cut, |d| d.src.elems)];
                if piece == 0 {
                    rewritten.extend(rows.into_iter().zip(piece_patterns));
                    continue;
                }
                let id = staging.next_inst();
                let first = staging.next_ap();
                for ((k, pattern), step) in rows.into_iter().zip(piece_patterns).zip([cut.dst, cut.src]) {
                    let mut head = ApHead { inst: id, ..ap[k] };
                    let moved = if dynamics[k].payload == PayloadKey::default() {
                        u32::try_from(i64::from(head.offset) + step.elems).ok()
                    } else {
                        head.flags |= ApHead::TABLE_ENTRY;
                        let var = place.get(head.loc.index()).map_or(u32::MAX, |p| p.address);
                        u64::try_from(step.bytes).ok().and_then(|displacement| {
                            let next = table.base + table.extra.len() as u32;
                            let entry = *entries.entry((var, displacement)).or_insert_with(|| {
                                table.extra.push(TableEntry { var, displacement });
                                next
                            });
                            u16::try_from(entry).ok().map(u32::from)
                        })
                    };
                    match moved {
                        Some(offset) => head.offset = offset,
                        None => faults.push((&lower::DMA_TABLE, large.inst, from[row].hlo)),
                    }
                    staging.aps.push(ApRow { head, pattern, dynamic: dynamics[k], word: ApWord(0) });
                }
                staging.insts.push(InstRow {
                    head: heads[row],
                    operands: InstOperands { first, outputs: 1, inputs: 1, pad: 0 },
                    args: args[row],
                    regs: regs[row],
                    from: InstFrom { owner: large.inst, ..from[row] },
                    dma: dma[row],
                    sync: sync[row],
                });
                clones.push((large.inst, id));
            }
        }
    }
    if let Ok(tables) = patterns_mut.contiguous_iter_mut(world) {
        for mut column in tables {
            let column = column.bypass_change_detection();
            for (k, pattern) in rewritten.drain(..) {
                column[k] = pattern;
            }
        }
    }
    insert_after(&mut world.resource_mut::<Order>(), &clones);
    let (sink, module) = (world.resource::<Diagnostics>(), world.resource::<HloModule>());
    for (code, id, hlo) in faults {
        sink.push(blame(code, format!("DMACopy {}: {}", id.0, code.title), module, hlo, id));
    }
    world.insert_resource(table);
    staging.flush(world);
}

/// Pattern of a piece, by the step of one side.
fn piece_pattern(cut: &Cut, step: impl Fn(&super::shape::CopyDim) -> i64) -> ApPattern {
    let mut pairs = arrayvec::ArrayVec::new();
    for d in [&cut.dim1, &cut.dim0] {
        if d.num > 1 {
            pairs.push(ApPair { step: step(d) as i32, num: d.num });
        }
    }
    pairs.push(ApPair { step: 1, num: cut.run });
    ApPattern(pairs)
}

/// Puts every second member of `new` behind its first; members of one owner are adjacent and in program order.
pub(super) fn insert_after(order: &mut Order, new: &[(InstId, InstId)]) {
    if new.is_empty() {
        return;
    }
    let mut out = Vec::with_capacity(order.0.len() + new.len());
    let mut rest = new.iter().peekable();
    for &id in &order.0 {
        out.push(id);
        while let Some((_, clone)) = rest.next_if(|(owner, _)| *owner == id) {
            out.push(*clone);
        }
    }
    order.0 = out;
}
