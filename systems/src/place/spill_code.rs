//! The code around a spilled tile. In: tiles with a home in DRAM. Out: a program that no longer names those tiles.
//!
//! A DMA copy goes to the home directly: the elements of a tile are numbered row by row, and so are those of its home,
//! so that offset and steps stay as they are. Any other instruction gets a tile of its own in the old one's place:
//! what it reads is loaded in front of it, what it writes is saved behind it. Exactly the elements that the instruction
//! touches are moved, since nobody may have written the others yet. A predicated copy leaves elements as they were,
//! so those are loaded too. As the value stands in memory between any two instructions, loops need no thought.
//!
//! ```text
//! TensorTensor s:7 = s:3 + s:5      =>   DMACopy s:20 <- home3 ; TensorTensor s:21 = s:20 + s:5 ; DMACopy home7 <- s:21
//! ```

use crate::staging::{Operand, Staging};
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::ids::{InstId, LocId};

/// The columns that the rewriting reads.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Tables<'a> {
    pub order: &'a [InstId],
    pub heads: &'a [InstHead],
    pub operands: &'a [InstOperands],
    pub aps: &'a [ApHead],
    pub patterns: &'a [ApPattern],
    pub dynamics: &'a [ApDynamic],
    pub locs: &'a [LocHead],
    pub froms: &'a [LocFrom],
}

/// What the rewriting changes besides the new rows.
#[derive(Default, Debug)]
pub struct Rewrite {
    /// The new program order.
    pub order: Vec<InstId>,
    /// Patterns that name another location now.
    pub moved: Vec<(usize, LocId)>,
    /// Loads and saves that were added.
    pub copies: usize,
}

/// Whether an instruction keeps some of what its output held.
pub fn keeps_old(op: Opcode) -> bool {
    op == Opcode::CopyPredicated
}

/// The elements that a pattern visits, each dimension once: no repetition, no dimension of one element.
pub fn region(pattern: &ApPattern) -> ApPattern {
    let mut out: ApPattern =
        ApPattern(pattern.0.iter().copied().filter(|p| p.step != 0 && p.num != 1).collect());
    if out.0.is_empty() {
        out.0.push(ApPair { step: 1, num: 1 });
    }
    out
}

/// A copy between a home and the tile that stands for it.
struct Mover<'a> {
    from: InstFrom,
    head: &'a ApHead,
    pattern: ApPattern,
}

impl Mover<'_> {
    fn emit(self, staging: &mut Staging, to: LocId, source: LocId) -> InstId {
        let side = |loc: LocId| Operand {
            loc,
            offset: self.head.offset,
            dtype: self.head.dtype,
            pattern: self.pattern.clone(),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        };
        let mut row = InstRow::new(Opcode::DmaCopy, EngineId::Dma, self.from.hlo);
        row.from = self.from;
        staging.inst(row, &[side(to)], &[side(source)])
    }
}

/// Rewrites every access of a location that has a home (`NONE` for none, by location).
pub fn rewrite(t: &Tables<'_>, homes: &[LocId], staging: &mut Staging) -> Rewrite {
    let mut out = Rewrite { order: Vec::with_capacity(t.order.len()), ..Default::default() };
    let home_of = |row: usize| homes.get(t.aps[row].loc.index()).copied().filter(|h| h.is_some());
    let mut tiles: Vec<(LocId, LocId)> = Vec::new();
    let mut saves: Vec<InstId> = Vec::new();
    for &id in t.order {
        let (op, o) = (t.heads[id.index()].op, t.operands[id.index()]);
        let rows = o.range();
        if op == Opcode::DmaCopy {
            out.moved.extend(rows.filter_map(|row| home_of(row).map(|home| (row, home))));
            out.order.push(id);
            continue;
        }
        tiles.clear();
        saves.clear();
        let mark = out.moved.len();
        for row in rows.clone() {
            let Some(home) = home_of(row) else { continue };
            let loc = t.aps[row].loc;
            let hlo = t.froms[loc.index()].hlo;
            let tile = match tiles.iter().find(|x| x.0 == loc) {
                Some(x) => x.1,
                None => {
                    let head = t.locs[loc.index()];
                    let tile = staging.loc(LocRow::new(
                        Space::Sbuf,
                        head.dtype,
                        head.partitions,
                        head.part_elems,
                        hlo,
                    ));
                    tiles.push((loc, tile));
                    tile
                }
            };
            let output = row - rows.start < o.outputs as usize;
            let mover = || Mover {
                from: InstFrom { hlo, owner: id },
                head: &t.aps[row],
                pattern: region(&t.patterns[row]),
            };
            let again = out.moved[mark..].iter().any(|&(other, to)| {
                to == tile
                    && other - rows.start >= o.outputs as usize
                    && t.aps[other].offset == t.aps[row].offset
                    && t.aps[other].dtype == t.aps[row].dtype
                    && region(&t.patterns[other]) == region(&t.patterns[row])
            });
            if (!output || keeps_old(op)) && !again {
                out.order.push(mover().emit(staging, tile, home));
                out.copies += 1;
            }
            if output {
                saves.push(mover().emit(staging, home, tile));
                out.copies += 1;
            }
            out.moved.push((row, tile));
        }
        out.order.push(id);
        out.order.append(&mut saves);
    }
    out
}
