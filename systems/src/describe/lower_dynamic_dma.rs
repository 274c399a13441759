//! In: DMAs that stay in a stream (routes SWDGE and HWDGE). Out: each of them one record of its generator: a contiguous
//! run and at most two strided dimensions a side, no more rows than the ring holds. A larger one goes through four
//! steps, each a file: [`peel`](super::peel), [`unroll`](super::unroll), [`split`](super::split), [`check`](super::check).
//! The original keeps the first piece, clones behind it take the others. A clone's static side moves by its element
//! offset. Its side with an offset register keeps the register and moves by the displacement of a DGE table entry of
//! its own ([`TableEntries`]), because the table form of ADDR8 has no displacement beside a register:
//! `ApHead::TABLE_ENTRY` is set and `ApHead::offset` is the entry. A vector of offsets is cut with its rows, and a clone
//! has its own part of it. Facts: `spec/ir.md 9.1, 9.3`, `spec/isa.md 4.2`, D1, D3, D8.
//!
//! ```text
//! DMACopy sbuf:3[64,2][8,4][2,3][1,1] <- in0@reg7[..]   =>   DMACopy sbuf:3+0  <- table 0 + reg7
//!                                                            DMACopy sbuf:3+64 <- table 5 + reg7
//! ```

use super::check::check;
use super::shape::{Cut, Step, copy_shape, indexed_shape};
use super::split::{chunk, pieces, split};
use crate::batch::give_up;
use crate::columns;
use crate::route::blame;
use crate::route::dge_instruction_type::ring_depth;
use crate::staging::Staging;
use arrayvec::ArrayVec;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Code, Diagnostics, codes::lower};
use murre_components::hash::seeded_map;
use murre_components::hlo::HloModule;
use murre_components::ids::{ApId, HloId, InstId};
use murre_components::program::TableEntry;

/// The DGE address table beyond the entries of whole variables (`LocPlace::table_entry`): entry `base + k` is
/// `extra[k]`.
#[derive(Resource, Default, Clone, Debug)]
#[allow(missing_docs)]
pub struct TableEntries {
    pub base: u32,
    pub extra: Vec<TableEntry>,
}

/// One record of a copy that needs several.
struct Piece {
    /// Distance of the destination and of the source from the copy's first element.
    moved: [Step; 2],
    /// Patterns of destination, source and, of a vector of offsets, index.
    patterns: ArrayVec<ApPattern, 3>,
    /// Offsets before the piece's own.
    index: u32,
}

/// Pieces of a copy.
struct Large {
    inst: InstId,
    pieces: Vec<Piece>,
}

/// Pieces of a copy with static sides or an offset register; none when one record says it all.
fn scalar_pieces(shape: &super::shape::CopyShape, depth: u32) -> Vec<Piece> {
    let mut all = Vec::new();
    if shape.single() && shape.rows() <= u64::from(depth) {
        return all;
    }
    shape.cuts(|cut| {
        split(&cut, depth, &mut |c| {
            let patterns = [piece_pattern(&c, |d| d.dst.elems), piece_pattern(&c, |d| d.src.elems)];
            all.push(Piece { moved: [c.dst, c.src], patterns: patterns.into_iter().collect(), index: 0 });
        });
    });
    all
}

/// Pieces of a copy with a vector of offsets: its rows and their offsets. `far` is the side that the offsets move: it
/// stays where it is. `None` when one record takes them all.
fn vector_pieces(
    sides: [&ApPattern; 2],
    index: &ApPattern,
    far: usize,
    row: [Step; 2],
    depth: u32,
) -> Option<Vec<Piece>> {
    let count = sides[0].0.first().map_or(0, |p| p.num);
    if count <= depth {
        return None;
    }
    let mut all = Vec::new();
    pieces(count, chunk(count, depth), |at, n| {
        let moved = [0, 1].map(|k| if k == far { Step::default() } else { row[k].times(i64::from(at)) });
        let mut patterns: ArrayVec<ApPattern, 3> = sides.into_iter().chain([index]).cloned().collect();
        if let [dst, src, index] = patterns.as_mut_slice() {
            for pair in [dst.0.first_mut(), src.0.first_mut(), index.0.last_mut()].into_iter().flatten() {
                pair.num = n;
            }
        }
        all.push(Piece { moved, patterns, index: at });
    });
    Some(all)
}

/// The system.
pub fn lower_dynamic_dma(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    locs: &mut QueryState<(&LocHead, &LocPlace)>,
    patterns_mut: &mut QueryState<&mut ApPattern>,
) {
    crate::compile::give_back::<RegLives>(world);
    let mut staging = Staging::new(world);
    let mut faults: Vec<(Code, InstId, HloId)> = Vec::new();
    let (mut larges, mut rewritten, mut clones): (
        Vec<Large>,
        Vec<(usize, ApPattern)>,
        Vec<(InstId, InstId)>,
    ) = Default::default();
    // Patterns of clones whose payload names an index: staged row, payload, index.
    let mut reindexed: Vec<(usize, PayloadKey, ApId)> = Vec::new();
    let mut inline: Vec<InstId> = Vec::new();
    let mut table = TableEntries::default();
    {
        let (heads, operands, args, regs, from) = columns!(insts, world);
        let (ap, patterns) = columns!(aps, world);
        let (loc, place) = columns!(locs, world);
        table.base =
            place.iter().filter(|p| p.table_entry != u32::MAX).map(|p| p.table_entry + 1).max().unwrap_or(0);
        let is_dynamic = |k: usize| ap.get(k).is_some_and(|a| a.dynamic.payload != PayloadKey::default());
        for &id in &world.resource::<Order>().0 {
            let row = id.index();
            let Some(h) = heads.get(row) else { continue };
            if h.op != Opcode::DmaCopy || !h.live() || !matches!(h.dge, DgeType::Swdge | DgeType::Hwdge) {
                continue;
            }
            inline.push(id);
            let o = operands[row];
            let (d, s) = (o.output(0).index(), o.input(0).index());
            let side = |k: usize| Some((ap.get(k)?, patterns.get(k)?, loc.get(ap.get(k)?.loc.index())?));
            let (sides, depth) = (side(d).zip(side(s)), ring_depth(h.dge));
            let pieces = if o.inputs > 1 {
                let index = patterns.get(o.input(1).index());
                sides.zip(index).and_then(|((d_side, s_side), index)| {
                    let shape = indexed_shape(d_side, s_side)?;
                    let row = shape.dims.first().map_or([Step::default(); 2], |r| [r.dst, r.src]);
                    let far = usize::from(!is_dynamic(d));
                    Some(vector_pieces([d_side.1, s_side.1], index, far, row, depth).unwrap_or_default())
                })
            } else {
                sides.and_then(|(d, s)| copy_shape(d, s).as_ref().map(|shape| scalar_pieces(shape, depth)))
            };
            match pieces {
                None => faults.push((&lower::DMA_SHAPE, id, from[row].hlo)),
                Some(pieces) if pieces.len() > 1 => larges.push(Large { inst: id, pieces }),
                Some(_) => {}
            }
        }
        let mut entries = seeded_map::<(u32, u64), u32>();
        for large in &larges {
            let row = large.inst.index();
            let whole = operands[row];
            for (number, piece) in large.pieces.iter().enumerate() {
                let rows = whole.range().zip(&piece.patterns);
                if number == 0 {
                    rewritten.extend(rows.map(|(k, p)| (k, p.clone())));
                    continue;
                }
                let id = staging.next_inst();
                let first = staging.next_ap();
                for (slot, (k, pattern)) in rows.enumerate() {
                    let mut head = ApHead { inst: id, ..ap[k] };
                    let step = piece.moved.get(slot).copied().unwrap_or_default();
                    let moved = if whole.inputs > 1 && is_dynamic(k) {
                        reindexed.push((
                            staging.aps.len(),
                            ap[k].dynamic.payload,
                            ApId(first.0 + whole.input(1).0 - whole.first.0),
                        ));
                        Some(head.offset)
                    } else if slot == 2 {
                        head.offset.checked_add(piece.index)
                    } else if !is_dynamic(k) {
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
                    let pattern = pattern.clone();
                    staging.aps.push(ApRow { head, pattern });
                }
                staging.insts.push(InstRow {
                    head: heads[row],
                    operands: InstOperands { first, ..whole },
                    args: args[row],
                    regs: regs[row],
                    from: InstFrom { owner: large.inst, ..from[row] },
                });
                clones.push((large.inst, id));
            }
        }
    }
    let mut payloads = world.resource_mut::<Payloads>();
    for (staged, key, index) in reindexed {
        let Some(mut info) = payloads.dynamic(key).cloned() else { continue };
        info.kind = OffsetKind::Vector(index);
        if let Some(ap) = staging.aps.get_mut(staged) {
            ap.head.dynamic.payload = payloads.0.insert(Payload::Dynamic(info));
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
    let mut dmas = world.resource_mut::<InstDmas>();
    for &(whole, piece) in &clones {
        let dma = dmas.of(whole.index());
        dmas.put(piece, dma);
    }
    let (sink, module) = (world.resource::<Diagnostics>(), world.resource::<HloModule>());
    for (code, id, hlo) in faults {
        sink.push(blame(code, format!("DMACopy {}: {}", id.0, code.title), module, hlo, id));
    }
    if !table.extra.is_empty() {
        // The entries of a module follow those of its variables.
        give_up(world.resource::<Parts>(), sink, "the address table has entries beyond the variables");
    }
    world.insert_resource(table);
    staging.flush(world);
    inline.extend(clones.iter().map(|(_, clone)| *clone));
    check(world, &inline, insts, aps, locs);
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
