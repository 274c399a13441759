//! The code around a spilled tile. In: tiles with a home in DRAM. Out: a program that no longer names those tiles.
//!
//! A DMA copy goes to the home directly: the elements of a tile are numbered row by row, and so are those of its home,
//! so that offset and steps stay as they are. Any other instruction gets a tile of its own in the old one's place:
//! what it reads is loaded in front of it, what it writes is saved behind it. Exactly the elements that the instruction
//! touches are moved, since nobody may have written the others yet. A predicated copy leaves elements as they were,
//! so those are loaded too. The instruction behind it goes on with the same tile and loads only what is not there; that
//! takes no more bytes than each needs for itself. As the value stands in memory between any two instructions, loops need no thought.
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

/// Whether pattern `a` surely visits everything that `b` does: it is the same one, or the whole location.
pub fn covers(t: &Tables<'_>, a: usize, b: usize) -> bool {
    let (ra, rb) = (region(&t.patterns[a]), region(&t.patterns[b]));
    let head = t.locs[t.aps[a].loc.index()];
    let whole = u64::from(head.partitions) * head.part_bytes();
    let (bytes, (low, high)) = (u64::from(t.aps[a].dtype.bytes()), ra.span());
    let dense = ra.elements() * bytes == whole && (high + 1) as u64 * bytes == whole;
    let all = t.aps[a].offset == 0 && low == 0 && dense;
    let same = t.aps[a].offset == t.aps[b].offset && t.aps[a].dtype == t.aps[b].dtype && ra == rb;
    same || all
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

/// A tile in the place of a spilled one, for an instruction and the one behind it.
#[derive(Default)]
struct StandIn {
    of: LocId,
    tile: LocId,
    /// Patterns whose elements are in it, as rows.
    there: Vec<usize>,
}

/// Rewrites every access of a location that has a home (`NONE` for none, by location).
pub fn rewrite(t: &Tables<'_>, homes: &[LocId], staging: &mut Staging) -> Rewrite {
    let mut out = Rewrite { order: Vec::with_capacity(t.order.len()), ..Default::default() };
    let home_of = |row: usize| homes.get(t.aps[row].loc.index()).copied().filter(|h| h.is_some());
    let (mut tiles, mut before): (Vec<StandIn>, Vec<StandIn>) = (Vec::new(), Vec::new());
    let mut saves: Vec<InstId> = Vec::new();
    for &id in t.order {
        let (op, o) = (t.heads[id.index()].op, t.operands[id.index()]);
        let rows = o.range();
        std::mem::swap(&mut tiles, &mut before);
        tiles.clear();
        if op == Opcode::DmaCopy {
            out.moved.extend(rows.filter_map(|row| home_of(row).map(|home| (row, home))));
            out.order.push(id);
            continue;
        }
        let inputs = rows.start + o.outputs as usize;
        for row in rows.clone() {
            let Some(home) = home_of(row) else { continue };
            let loc = t.aps[row].loc;
            let hlo = t.froms[loc.index()].hlo;
            let at = match tiles.iter().position(|x| x.of == loc) {
                Some(at) => at,
                None => {
                    tiles.push(match before.iter().position(|x| x.of == loc) {
                        Some(k) => before.swap_remove(k),
                        None => {
                            let h = t.locs[loc.index()];
                            let new = LocRow::new(Space::Sbuf, h.dtype, h.partitions, h.part_elems, hlo);
                            StandIn { of: loc, tile: staging.loc(new), there: Vec::new() }
                        }
                    });
                    tiles.len() - 1
                }
            };
            let x = &mut tiles[at];
            let mover = || Mover {
                from: InstFrom { hlo, owner: id },
                head: &t.aps[row],
                pattern: region(&t.patterns[row]),
            };
            let looks = row >= inputs || keeps_old(op);
            if looks && !x.there.iter().any(|&other| covers(t, other, row)) {
                out.order.push(mover().emit(staging, x.tile, home));
                out.copies += 1;
                x.there.push(row);
            }
            if row < inputs {
                saves.push(mover().emit(staging, home, x.tile));
                out.copies += 1;
            }
            out.moved.push((row, x.tile));
        }
        out.order.push(id);
        out.order.append(&mut saves);
        // What was written is there for the next instruction.
        for row in rows.start..inputs.min(rows.end) {
            let written = tiles.iter_mut().find(|x| x.of == t.aps[row].loc);
            if let Some(x) = written.filter(|x| x.there.len() < MOST_PATTERNS) {
                x.there.push(row);
            }
        }
    }
    out
}

/// Patterns of a stand-in that are remembered.
const MOST_PATTERNS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::ids::{ApId, HloId};

    const ALL: &[(i32, u32)] = &[(8, 4), (1, 8)];
    const LEFT: &[(i32, u32)] = &[(8, 4), (1, 4)];
    const SPREAD: &[(i32, u32)] = &[(8, 4), (0, 8), (1, 1)];

    fn at(loc: u32, pairs: &[(i32, u32)]) -> Operand {
        Operand {
            loc: LocId(loc),
            offset: 0,
            dtype: DType::F32,
            pattern: ApPattern::new(pairs.iter().copied()).unwrap_or_default(),
            kind: ApKind::Physical,
            payload: PayloadKey::default(),
            flags: 0,
        }
    }

    /// Location 0 is spilled to 9; `insts` are operation, outputs, inputs. What the program is afterwards, one text an
    /// instruction: operation, then each operand's location, `w` where all of it is meant.
    fn rewritten(insts: &[(Opcode, &[Operand], &[Operand])]) -> Vec<String> {
        let mut s = Staging::default();
        for _ in 0..9 {
            s.loc(LocRow::new(Space::Sbuf, DType::F32, 4, 8, HloId(5)));
        }
        s.loc(LocRow::new(Space::Dram, DType::F32, 1, 32, HloId(5)));
        let row = |op| InstRow::new(op, EngineId::Dve, HloId(6));
        let order: Vec<InstId> = insts.iter().map(|(op, o, i)| s.inst(row(*op), o, i)).collect();
        let heads: Vec<InstHead> = s.insts.iter().map(|i| i.head).collect();
        let operands: Vec<InstOperands> = s.insts.iter().map(|i| i.operands).collect();
        let aps: Vec<ApHead> = s.aps.iter().map(|a| a.head).collect();
        let patterns: Vec<ApPattern> = s.aps.iter().map(|a| a.pattern.clone()).collect();
        let locs: Vec<LocHead> = s.locs.iter().map(|l| l.head).collect();
        let froms: Vec<LocFrom> = s.locs.iter().map(|l| l.from).collect();
        let t = Tables {
            order: &order,
            heads: &heads,
            operands: &operands,
            aps: &aps,
            patterns: &patterns,
            locs: &locs,
            froms: &froms,
        };
        let mut homes = vec![LocId::NONE; 10];
        homes[0] = LocId(9);
        let done = rewrite(&t, &homes, &mut s);
        for (row, loc) in done.moved {
            s.aps[row].head.loc = loc;
        }
        let added = s.insts.iter().skip(order.len());
        assert!(added.clone().all(|i| i.from.hlo == HloId(5) && i.from.owner.is_some()));
        assert_eq!(added.count(), done.copies);
        let text = |id: &InstId| {
            let i = &s.insts[id.index()];
            let one = |row: usize| {
                let a = &s.aps[ApId(row as u32).index()];
                let whole = if region(&a.pattern).elements() == 32 { "w" } else { "" };
                format!(" {}{whole}", a.head.loc.0)
            };
            i.operands.range().fold(i.head.op.name().to_string(), |text, row| text + &one(row))
        };
        done.order.iter().map(text).collect()
    }

    #[test]
    fn exactly_what_is_touched_is_loaded_and_saved() {
        let got = rewritten(&[
            (Opcode::Memset, &[at(0, LEFT)], &[]),
            (Opcode::TensorTensor, &[at(1, ALL)], &[at(0, SPREAD), at(0, SPREAD)]),
            (Opcode::TensorTensor, &[at(1, ALL)], &[at(0, ALL), at(0, LEFT)]),
            (Opcode::TensorCopy, &[at(2, ALL)], &[at(1, ALL)]),
            (Opcode::TensorCopy, &[at(2, LEFT)], &[at(0, LEFT)]),
        ]);
        let expected = [
            "Memset 10",
            "DMACopy 9 10",
            "DMACopy 10 9",
            "TensorTensor 1w 10 10",
            "DMACopy 10w 9w",
            "TensorTensor 1w 10w 10",
            "TensorCopy 2w 1w",
            "DMACopy 11 9",
            "TensorCopy 2 11",
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn what_stays_of_the_old_content_is_loaded_and_one_tile_serves_an_instruction() {
        let (one, two) = ([at(0, LEFT)], [at(1, LEFT), at(2, LEFT)]);
        let predicated = (Opcode::CopyPredicated, &one as &[_], &two as &[_]);
        assert_eq!(rewritten(&[predicated]), ["DMACopy 10 9", "CopyPredicated 10 1 2", "DMACopy 9 10"]);
        let write = (Opcode::Memset, &one as &[_], &[] as &[_]);
        let got = rewritten(&[write, predicated, write]);
        let expected = ["Memset 10", "DMACopy 9 10", "CopyPredicated 10 1 2", "DMACopy 9 10"];
        assert_eq!(got[..4], expected);
        let in_place = (Opcode::TensorTensor, &[at(0, ALL)] as &[_], &[at(0, ALL), at(1, ALL)] as &[_]);
        assert_eq!(rewritten(&[in_place]), ["DMACopy 10w 9w", "TensorTensor 10w 10w 1w", "DMACopy 9w 10w"]);
    }

    #[test]
    fn a_copy_goes_to_the_home_itself() {
        let load = (Opcode::DmaCopy, &[at(0, ALL)] as &[_], &[at(3, ALL)] as &[_]);
        let store = (Opcode::DmaCopy, &[at(4, LEFT)] as &[_], &[at(0, LEFT)] as &[_]);
        assert_eq!(rewritten(&[load, store]), ["DMACopy 9w 3w", "DMACopy 4 9"]);
    }
}
