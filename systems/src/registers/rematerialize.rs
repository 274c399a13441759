//! Computing a value again where it is used, instead of keeping it in a register from where it was made.
//!
//! In: the program with its live ranges. A value qualifies when one instruction writes its register and that instruction
//! would give the same again: a constant; a load of a DRAM word that is written once, in front of it; an ALU operation or a move
//! whose sources still hold what they held, or qualify themselves. Out: for chosen values the operations in front of their
//! uses, on fresh registers.
//!
//! ```text
//! r1 = load p ; r2 = max r1, 0 ; r3 = min r2, 9 ; .. ; use r3
//! ->  .. ; a = load p ; b = max a, 0 ; c = min b, 9 ; use c
//! ```
//!
//! A source that is written more than once, such as a counter, still holds its value at a use when it is alive there and
//! nothing writes it between: neither on the way down nor on the way round a loop that the use is in and the definition is
//! not. Uses in branches are served in front of the whole group of branches, which stays together (one branch an
//! engine). Every operation keeps the HLO instruction that it serves.

use crate::place::dram_classes::MIN_SHARED_BYTES;
use crate::staging::{Operand, Staging};
use murre_components::bir::*;
use murre_components::ids::*;
use murre_components::program::VarKind;

/// Most operations that one use may need.
const LONGEST: usize = 8;
/// A value computed again serves further uses in its block up to this many instructions later.
const REACH: u32 = 16;
const NEVER: u32 = u32::MAX;
const OFTEN: u32 = u32::MAX - 1;

/// What a pass reads of the program, and where its registers are written and read.
pub struct Values<'a> {
    pub order: &'a [InstId],
    heads: &'a [InstHead],
    operands: &'a [InstOperands],
    args: &'a [InstArgs],
    regs: &'a [InstRegs],
    froms: &'a [InstFrom],
    ap_heads: &'a [ApHead],
    patterns: &'a [ApPattern],
    pub reg_heads: &'a [RegHead],
    pub reg_lives: &'a [RegLive],
    reg_froms: &'a [RegFrom],
    reg_bounds: &'a [RegBounds],
    locs: &'a [LocHead],
    /// Positions that write and that read each register, ascending.
    defs: Vec<Vec<u32>>,
    uses: Vec<Vec<u32>>,
    /// The position that writes each location: [`NEVER`] for none, [`OFTEN`] for several.
    writer: Vec<u32>,
    /// Innermost loop of each position, and the loops: begin, end, parent, depth.
    innermost: Vec<u32>,
    loops: Vec<(u32, u32, u32, u32)>,
}

/// A use that reads another register now.
pub struct Use {
    pub inst: InstId,
    pub operands: std::ops::Range<usize>,
    pub old: RegId,
    pub new: RegId,
}

/// A rewritten program.
#[derive(Default)]
pub struct Recomputed {
    pub order: Vec<InstId>,
    pub uses: Vec<Use>,
}

/// A source of an operation that is to be repeated.
#[derive(Clone, Copy)]
enum Source {
    None,
    /// Still in its register.
    Kept(RegId),
    /// The result of an earlier step.
    Step(usize),
}

/// An operation to repeat.
struct Step {
    inst: InstId,
    sources: [Source; 2],
}

impl<'a> Values<'a> {
    /// Reads the program.
    #[allow(clippy::type_complexity)]
    pub fn new(
        order: &'a [InstId],
        insts: (&'a [InstHead], &'a [InstOperands], &'a [InstArgs], &'a [InstRegs], &'a [InstFrom]),
        aps: (&'a [ApHead], &'a [ApPattern]),
        registers: (&'a [RegHead], &'a [RegFrom], &'a [RegBounds]),
        reg_lives: &'a [RegLive],
        locs: &'a [LocHead],
    ) -> Self {
        let (heads, operands, args, regs, froms) = insts;
        let (ap_heads, patterns) = aps;
        let (reg_heads, reg_froms, reg_bounds) = registers;
        let mut defs = vec![Vec::new(); reg_heads.len()];
        let mut uses = vec![Vec::new(); reg_heads.len()];
        let mut writer = vec![NEVER; locs.len()];
        let mut innermost = Vec::with_capacity(order.len());
        let mut loops: Vec<(u32, u32, u32, u32)> = Vec::new();
        let mut open = NEVER;
        let add = |list: &mut Vec<Vec<u32>>, r: RegId, at: u32| {
            if let Some(l) = list.get_mut(r.index())
                && l.last() != Some(&at)
            {
                l.push(at);
            }
        };
        for (at, id) in order.iter().enumerate() {
            let (at, k) = (at as u32, id.index());
            if heads[k].op == Opcode::Terminator {
                innermost.push(open);
                if let Some(l) = loops.get_mut(open as usize) {
                    l.1 = at;
                    open = l.2;
                }
                continue;
            }
            if heads[k].op.is_structure() {
                let depth = loops.get(open as usize).map_or(1, |l| l.3 + 1);
                loops.push((at, NEVER, open, depth));
                open = loops.len() as u32 - 1;
            }
            innermost.push(open);
            let r = regs[k];
            for ap in operands[k].range() {
                add(&mut uses, ap_heads[ap].dynamic.address, at);
                if ap_heads[ap].output != 0
                    && let Some(w) = writer.get_mut(ap_heads[ap].loc.index())
                {
                    *w = if *w == NEVER { at } else { OFTEN };
                }
            }
            add(&mut uses, r.src0, at);
            add(&mut uses, r.src1, at);
            add(&mut defs, r.dst, at);
        }
        Values {
            order,
            heads,
            operands,
            args,
            regs,
            froms,
            ap_heads,
            patterns,
            reg_heads,
            reg_lives,
            reg_froms,
            reg_bounds,
            locs,
            defs,
            uses,
            writer,
            innermost,
            loops,
        }
    }

    /// Positions that read a register.
    pub fn uses(&self, r: RegId) -> &[u32] {
        self.uses.get(r.index()).map_or(&[], |u| u)
    }

    /// Loops around a position.
    pub fn depth(&self, at: u32) -> u32 {
        self.loops.get(self.innermost[at as usize] as usize).map_or(0, |l| l.3)
    }

    /// Whether the instruction at a position reads or writes a register.
    pub fn is_accessed_at(&self, r: RegId, at: u32) -> bool {
        let has = |list: &[Vec<u32>]| list.get(r.index()).is_some_and(|l| l.binary_search(&at).is_ok());
        has(&self.uses) || has(&self.defs)
    }

    /// How many operations compute `r` again at `at`; `None` when it cannot be.
    pub fn steps(&self, r: RegId, at: u32) -> Option<usize> {
        let mut steps = Vec::new();
        self.plan(r, at, &[], &mut steps)?;
        Some(steps.len())
    }

    /// Last position at which a trip that passes `def` can stand before it is done with `at`: `at`, or the end of the
    /// outermost loop that holds it and not `def`. `None` when `at` is not in every loop that `def` is in.
    fn horizon(&self, def: u32, at: u32) -> Option<u32> {
        let around = self.innermost[def as usize];
        let mut horizon = at;
        let mut l = self.innermost[at as usize];
        while l != around {
            let (_, end, parent, _) = *self.loops.get(l as usize)?;
            horizon = end;
            l = parent;
        }
        Some(horizon)
    }

    /// Whether `source`, as the instruction at `def` reads it, is still in its register at `at`.
    fn holds(&self, source: RegId, def: u32, at: u32) -> bool {
        let Some(live) = self.reg_lives.get(source.index()) else { return false };
        let unchanged = match self.defs[source.index()][..] {
            [_] => true,
            ref many => {
                self.horizon(def, at).is_some_and(|horizon| !many.iter().any(|d| (def..=horizon).contains(d)))
            }
        };
        unchanged && live.first <= def && live.last >= at
    }

    /// Whether the word that the load at `def` reads is still in memory at `at`: a constant, or a word of the program's own
    /// that shares its bytes with nothing and is written once, in front of the load and not again on the way. Loads
    /// touch no other variables (BIR145).
    fn stays(&self, loc: LocId, def: u32, at: u32) -> bool {
        let (Some(head), Some(&writer)) = (self.locs.get(loc.index()), self.writer.get(loc.index())) else {
            return false;
        };
        head.space == Space::Dram
            && match head.kind {
                VarKind::Const | VarKind::Pointer => writer == NEVER,
                VarKind::Internal => {
                    head.part_bytes() < MIN_SHARED_BYTES && writer < def && self.horizon(writer, at).is_some()
                }
                VarKind::Input | VarKind::Output => false,
            }
    }

    /// The steps that compute `r` again at `at`, without what `leaves` are (sorted by register).
    fn plan(&self, r: RegId, at: u32, leaves: &[(RegId, u32)], steps: &mut Vec<Step>) -> Option<Source> {
        let [def] = self.defs.get(r.index())?[..] else { return None };
        if def >= at || steps.len() >= LONGEST {
            return None;
        }
        let inst = self.order[def as usize];
        let k = inst.index();
        let mut sources = [Source::None; 2];
        match self.heads[k].op {
            Opcode::TensorLoad => {
                let [ap] = self.operands[k].range().collect::<Vec<_>>()[..] else { return None };
                let head = self.ap_heads[ap];
                let fixed = head.kind == ApKind::Physical && head.dynamic.address.is_none();
                if !fixed || !self.stays(head.loc, def, at) {
                    return None;
                }
            }
            Opcode::RegisterMove | Opcode::RegisterAlu => {
                let read = [self.regs[k].src0, self.regs[k].src1];
                for (slot, s) in sources.iter_mut().zip(read).filter(|(_, s)| s.is_some()) {
                    let leaves_here =
                        leaves.binary_search_by_key(&s, |l| l.0).is_ok_and(|i| leaves[i].1 <= at);
                    *slot = if !leaves_here && self.holds(s, def, at) {
                        Source::Kept(s)
                    } else {
                        self.plan(s, at, leaves, steps)?
                    };
                }
            }
            _ => return None,
        }
        if steps.len() >= LONGEST {
            return None;
        }
        steps.push(Step { inst, sources });
        Some(Source::Step(steps.len() - 1))
    }

    /// Writes the program in which each victim is computed again at the uses that keep it alive at its position.
    pub fn recompute(&self, victims: &[(RegId, u32)], staging: &mut Staging) -> Recomputed {
        let mut leaves = victims.to_vec();
        leaves.sort_unstable();
        leaves.dedup_by_key(|l| l.0);
        // Uses by position.
        let mut wanted: Vec<(u32, RegId)> = Vec::new();
        for &(r, crowded) in &leaves {
            let [def] = self.defs[r.index()][..] else { continue };
            let late = |at: &&u32| self.horizon(def, **at).unwrap_or(**at) >= crowded;
            wanted.extend(self.uses(r).iter().filter(late).map(|at| (*at, r)));
        }
        wanted.sort_unstable();
        let mut out = Recomputed { order: Vec::with_capacity(self.order.len()), uses: Vec::new() };
        // The copy of each victim in this block, and where it was used last.
        let mut copies: Vec<(RegId, RegId, u32)> = Vec::new();
        let mut next = wanted.into_iter().peekable();
        let is_branch = |id: InstId| {
            matches!(self.heads[id.index()].op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch)
        };
        let mut at = 0;
        while at < self.order.len() {
            let id = self.order[at];
            // A branch stands for its whole group.
            let mut end = at + 1;
            if is_branch(id) {
                while self.order.get(end).is_some_and(|id| is_branch(*id)) {
                    end += 1;
                }
            }
            if is_branch(id) || self.heads[id.index()].op.is_structure() {
                copies.clear();
            }
            while let Some((position, r)) = next.next_if(|w| (w.0 as usize) < end) {
                let user = self.order[position as usize];
                let k = user.index();
                copies.retain(|c| c.2 + REACH >= position);
                let new = match copies.iter_mut().find(|c| c.0 == r) {
                    Some(copy) => {
                        copy.2 = position;
                        copy.1
                    }
                    None => {
                        let mut steps = Vec::new();
                        if self.plan(r, position, &leaves, &mut steps).is_none() {
                            continue;
                        }
                        let new = self.emit(&steps, user, staging, &mut out.order);
                        copies.push((r, new, position));
                        new
                    }
                };
                let operands = self.operands[k].range();
                out.uses.push(Use { inst: user, operands, old: r, new });
            }
            out.order.extend_from_slice(&self.order[at..end]);
            if is_branch(id) {
                copies.clear();
            }
            at = end;
        }
        out
    }

    /// Repeats the steps for `user`. The register of the last one.
    fn emit(&self, steps: &[Step], user: InstId, staging: &mut Staging, order: &mut Vec<InstId>) -> RegId {
        let mut made: Vec<RegId> = Vec::with_capacity(steps.len());
        for step in steps {
            let k = step.inst.index();
            let dst = self.regs[k].dst.index();
            let mut row = InstRow::new(self.heads[k].op, self.heads[k].engine, self.froms[k].hlo);
            row.head.flags = self.heads[k].flags;
            row.args = self.args[k];
            row.from.owner = user;
            let source = |s: Source| match s {
                Source::None => RegId::NONE,
                Source::Kept(r) => r,
                Source::Step(n) => made[n],
            };
            let mut reg = RegRow::new(self.reg_heads[dst].engine, self.reg_heads[dst].role, HloId::NONE);
            reg.head.width = self.reg_heads[dst].width;
            (reg.from, reg.bounds) = (self.reg_froms[dst], self.reg_bounds[dst]);
            let new = staging.reg(reg);
            row.regs = InstRegs { src0: source(step.sources[0]), src1: source(step.sources[1]), dst: new };
            let inputs: Vec<Operand> = self.operands[k]
                .range()
                .map(|a| Operand {
                    loc: self.ap_heads[a].loc,
                    offset: self.ap_heads[a].offset,
                    dtype: self.ap_heads[a].dtype,
                    pattern: self.patterns[a].clone(),
                    kind: self.ap_heads[a].kind,
                    payload: self.ap_heads[a].dynamic.payload,
                    flags: self.ap_heads[a].flags,
                })
                .collect();
            order.push(staging.inst(row, &[], &inputs));
            made.push(new);
        }
        made.last().copied().unwrap_or_default()
    }
}
