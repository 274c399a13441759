//! `verify_spill`: what a spilled tile's home gives back was saved there before, on every path.
//!
//! In: the program after spilling, the homes. One walk keeps for every home the bytes that are surely written: what a copy
//! saves counts from there on, and what a loop saves is forgotten at its end, because the loop may make no trip. The
//! branches of a conditional are loops of at most one trip, of which one runs; what a branch saves counts behind it. Each
//! read must find all of its bytes among them. Homes are touched by copies with fixed addresses only. A violation is our
//! bug: `MUR1001`.

use super::spill_sbuf::Spilled;
use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use slotmap::Key;
use std::collections::BTreeMap;

/// Byte ranges, disjoint and not touching: begin to end.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn holds(&self, begin: u64, end: u64) -> bool {
        self.0.range(..=begin).next_back().is_some_and(|(_, e)| *e >= end)
    }

    fn insert(&mut self, mut begin: u64, mut end: u64) {
        while let Some((&b, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= begin) {
            self.0.remove(&b);
            (begin, end) = (begin.min(b), end.max(e));
        }
        self.0.insert(begin, end);
    }
}

/// Calls `each` with the byte ranges that a pattern visits, until it says no.
fn runs(head: &ApHead, pattern: &ApPattern, mut each: impl FnMut(u64, u64) -> bool) -> bool {
    let bytes = i64::from(head.dtype.bytes());
    let mut base = i64::from(head.offset) * bytes;
    let mut dims: Vec<(i64, i64)> = Vec::new();
    for p in pattern.0.iter().filter(|p| p.num > 1 && p.step != 0) {
        let (step, num) = (i64::from(p.step) * bytes, i64::from(p.num));
        base += step.min(0) * (num - 1);
        dims.push((step.abs(), num));
    }
    dims.sort_unstable();
    let mut run = bytes;
    dims.retain(|&(step, num)| {
        let goes_on = step <= run;
        if goes_on {
            run = run.max(step * (num - 1) + run);
        }
        !goes_on
    });
    let mut at = vec![0; dims.len()];
    loop {
        let begin = base + dims.iter().zip(&at).map(|(d, i)| d.0 * i).sum::<i64>();
        if begin < 0 || !each(begin as u64, (begin + run) as u64) {
            return false;
        }
        let mut done = true;
        for (d, i) in dims.iter().zip(&mut at) {
            *i += 1;
            if *i < d.1 {
                done = false;
                break;
            }
            *i = 0;
        }
        if done {
            return true;
        }
    }
}

/// The pass.
pub fn verify_spill(
    spilled: Option<Res<Spilled>>,
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands, &InstArgs)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    axes: Query<&AxisBounds>,
) {
    let Some(spilled) = spilled.filter(|_| !diagnostics.has_errors()) else { return };
    let (heads, operands, args): (&[InstHead], &[InstOperands], &[InstArgs]) = columns!(insts);
    let bounds: &[AxisBounds] = columns!(axes);
    let (ap_heads, patterns): (&[ApHead], &[ApPattern]) = columns!(aps);
    let loc_heads: &[LocHead] = columns!(locs);
    let fault = |loc: usize, what: String| {
        let m = format!("spilling to location {loc} is wrong: {what}");
        diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(loc as u32));
    };
    let (mut is_home, mut is_gone) = (vec![false; loc_heads.len()], vec![false; loc_heads.len()]);
    spilled.homes.iter().for_each(|l| is_home[l.index()] = true);
    spilled.tiles.iter().for_each(|l| is_gone[l.index()] = true);
    let mut written: BTreeMap<usize, Ranges> = BTreeMap::new();
    // What the homes held when the open loops began, kept at the first save inside each.
    let mut open: Vec<BTreeMap<usize, Ranges>> = Vec::new();
    for id in &order.0 {
        match heads[id.index()].op {
            Opcode::DynamicForLoop | Opcode::DoWhile | Opcode::Loop => open.push(BTreeMap::new()),
            Opcode::Terminator => {
                let kept = open.pop().unwrap_or_default();
                let branch = bounds.get(args[id.index()].axis().index()).is_some_and(|b| b.max_trip == 1);
                match open.last_mut() {
                    _ if !branch => written.extend(kept),
                    Some(around) => {
                        for (loc, ranges) in kept {
                            around.entry(loc).or_insert(ranges);
                        }
                    }
                    None => {}
                }
            }
            _ => {}
        }
        let o = operands[id.index()];
        let outputs = o.range().start + o.outputs as usize;
        for row in o.range().rev() {
            let a = &ap_heads[row];
            let loc = a.loc.index();
            if is_gone[loc] {
                fault(loc, format!("instruction {} still names the tile", id.0));
            }
            if !is_home[loc] {
                continue;
            }
            let plain = heads[id.index()].op == Opcode::DmaCopy
                && a.kind == ApKind::Physical
                && ap_heads[row].dynamic.payload.is_null();
            if !plain {
                fault(loc, format!("instruction {} is no copy with a fixed address", id.0));
            }
            let known = written.entry(loc).or_default();
            let size = loc_heads[loc].part_bytes();
            let mut missing = None;
            let complete = runs(a, &patterns[row], |begin, end| {
                missing = Some((begin, end));
                end <= size && known.holds(begin, end)
            });
            if complete {
                continue;
            }
            let (begin, end) = missing.unwrap_or_default();
            if row >= outputs || end > size {
                fault(loc, format!("instruction {} reads {begin}..{end} of {size}, not saved before", id.0));
                continue;
            }
            if let Some(kept) = open.last_mut() {
                kept.entry(loc).or_insert_with(|| known.clone());
            }
            let inside = runs(a, &patterns[row], |begin, end| {
                known.insert(begin, end);
                end <= size
            });
            if !inside {
                fault(loc, format!("instruction {} leaves its {size} bytes", id.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::staging::{Operand, Staging};
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::HloModule;
    use murre_components::ids::*;

    /// Faults of copies in and out of a home of 4 rows of 8 words. `(true, ..)` saves, a pattern of no pair is a loop's
    /// begin when it saves and its end when it does not.
    fn faults(steps: &[(bool, u32, &[(i32, u32)])]) -> usize {
        let mut c = Compiler::new(HloModule::default(), Default::default());
        let mut rows = Staging::new(&c.world);
        let home = rows.loc(LocRow::new(Space::Dram, DType::F32, 1, 32, HloId::NONE));
        let tile = rows.loc(LocRow::new(Space::Sbuf, DType::F32, 4, 8, HloId::NONE));
        let mut order = Vec::new();
        for (save, offset, pairs) in steps {
            let side = |loc| Operand {
                loc,
                offset: *offset,
                dtype: DType::F32,
                pattern: ApPattern::new(pairs.iter().copied()).unwrap_or_default(),
                kind: ApKind::Physical,
                payload: PayloadKey::default(),
                flags: 0,
            };
            let (op, outputs, inputs) = match (pairs.is_empty(), save) {
                (true, true) => (Opcode::DoWhile, vec![], vec![]),
                (true, false) => (Opcode::Terminator, vec![], vec![]),
                (false, true) => (Opcode::DmaCopy, vec![side(home)], vec![side(tile)]),
                (false, false) => (Opcode::DmaCopy, vec![side(tile)], vec![side(home)]),
            };
            order.push(rows.inst(InstRow::new(op, EngineId::Dma, HloId::NONE), &outputs, &inputs));
        }
        rows.flush(&mut c.world);
        c.world.insert_resource(Order(order));
        c.world.insert_resource(Spilled { homes: vec![home], ..Default::default() });
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_spill);
        schedule.run(&mut c.world);
        c.world.resource::<Diagnostics>().take().len()
    }

    #[test]
    fn a_read_needs_every_byte_saved_before() {
        let (all, left, right): (&[_], &[_], &[_]) =
            (&[(8, 4), (1, 8)], &[(8, 4), (1, 4)], &[(8, 4), (1, 4)]);
        assert_eq!(faults(&[(true, 0, all), (false, 0, all), (false, 3, right)]), 0);
        assert_eq!(faults(&[(false, 0, all), (true, 0, all)]), 1);
        assert_eq!(faults(&[(true, 0, left), (false, 0, left), (false, 0, all)]), 1);
        assert_eq!(faults(&[(true, 0, left), (true, 4, right), (false, 0, all)]), 0);
        assert_eq!(faults(&[(true, 7, &[(8, 4), (-1, 8)]), (false, 0, all)]), 0, "backwards");
        assert_eq!(faults(&[(true, 8, all)]), 1, "past the end");
    }

    #[test]
    fn what_a_loop_saves_does_not_count_behind_it() {
        let all: &[_] = &[(8, 4), (1, 8)];
        let (begin, end) = ((true, 0, &[] as &[_]), (false, 0, &[] as &[_]));
        assert_eq!(faults(&[begin, (true, 0, all), (false, 0, all), end]), 0);
        assert_eq!(faults(&[begin, (true, 0, all), end, (false, 0, all)]), 1);
        assert_eq!(
            faults(&[(true, 0, all), begin, (false, 0, all), (true, 0, all), end, (false, 0, all)]),
            0
        );
        assert_eq!(faults(&[begin, begin, (true, 0, all), end, (false, 0, all), end]), 1);
    }
}
