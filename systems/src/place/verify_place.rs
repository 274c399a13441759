//! `verify_place`: checks placement without looking at how it was made.
//!
//! 1. Every access of a location lies inside its live range, and a loop around an access either holds the whole range
//!    or is held by it.
//! 2. Tiles are aligned, inside their space, above the reserved bytes, a PSUM tile inside one bank.
//! 3. Two tiles alive at the same position share no byte: a sweep over begins and ends with an ordered map of what
//!    stands where.
//! 4. DRAM variables are numbered without a gap. Only arrays of the program's own share one, never two that are alive at
//!    the same position, and each is known to take over the bytes of the one before it.
//! 5. An engine's operand stays inside the partitions of its tile and begins at one where its number of partitions may
//!    begin (`spec/isa.md 7`).
//!
//! A violation is our bug: `MUR1001`.

use super::dynamic_dma_setup::{reserved_bytes, usable_bytes};
use super::{Reuse, TILE_ALIGN};
use crate::columns;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{PARTITIONS, PSUM_BANK_BYTES, PSUM_BANKS};
use murre_components::ids::LocId;
use murre_components::program::VarKind;
use std::collections::BTreeMap;

/// The pass.
pub fn verify_place(
    options: Res<CompileOptions>,
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<(&LocHead, &LocPlace)>,
    lives: Res<LocLives>,
    reuse: Res<Reuse>,
) {
    if diagnostics.has_errors() {
        return;
    }
    let (heads, operands): (&[InstHead], &[InstOperands]) = columns!(insts);
    let (ap_heads, patterns): (&[ApHead], &[ApPattern]) = columns!(aps);
    let (loc_heads, places): (&[LocHead], &[LocPlace]) = columns!(locs);
    let lives = lives.0.as_slice();
    let fault = |loc: usize, what: String| {
        let m = format!("placement of location {loc} is wrong: {what}");
        diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(loc as u32));
    };

    for (loc, what) in liveness_faults(&order.0, heads, operands, ap_heads, lives) {
        fault(loc, what);
    }
    let (low, high) = (reserved_bytes(&options) as u64, usable_bytes(&options) as u64);
    for (row, ((h, p), l)) in loc_heads.iter().zip(places).zip(lives).enumerate() {
        if h.space == Space::Dram {
            continue;
        }
        if l.first > l.last {
            continue;
        }
        let (begin, end) = (p.address as u64, p.address as u64 + h.part_bytes());
        if p.address == u32::MAX {
            fault(row, "accessed but without an address".into());
        } else if p.address % TILE_ALIGN != 0 {
            fault(row, format!("address {begin} is not a multiple of {TILE_ALIGN}"));
        } else if h.flags & LocHead::SCRATCH != 0 {
            if begin != 0 || end > high {
                fault(row, "the scratch does not stand at 0".into());
            }
        } else if h.space == Space::Sbuf && (begin < low || end > high) {
            fault(row, format!("bytes {begin}..{end} leave {low}..{high}"));
        } else if h.space == Space::Psum
            && (end > (PSUM_BANKS * PSUM_BANK_BYTES) as u64
                || begin / PSUM_BANK_BYTES as u64
                    != end.saturating_sub(1).max(begin) / PSUM_BANK_BYTES as u64)
        {
            fault(row, format!("bytes {begin}..{end} leave their bank"));
        }
    }
    for space in [Space::Sbuf, Space::Psum] {
        for (a, b) in overlaps(space, loc_heads, places, lives) {
            fault(b.index(), format!("shares bytes with location {} while both are alive", a.0));
        }
    }
    for (loc, what) in variable_faults(loc_heads, places, lives, &reuse) {
        fault(loc, what);
    }
    for id in &order.0 {
        if heads[id.index()].op.is_dma() {
            continue;
        }
        for row in operands[id.index()].range() {
            let loc = ap_heads[row].loc.index();
            if let Some(what) = loc_heads.get(loc).and_then(|l| lane_fault(&ap_heads[row], &patterns[row], l))
            {
                fault(loc, format!("instruction {}: {what}", id.0));
            }
        }
    }
}

/// Variables with gaps in their numbers, or shared by locations that may not.
fn variable_faults(
    heads: &[LocHead],
    places: &[LocPlace],
    lives: &[LocLive],
    reuse: &Reuse,
) -> Vec<(usize, String)> {
    let mut rows: Vec<usize> = (0..heads.len()).filter(|&r| heads[r].space == Space::Dram).collect();
    rows.sort_by_key(|&r| (places[r].address, lives[r].first, r));
    let mut faults = Vec::new();
    let (mut next, mut before): (u32, Option<usize>) = (0, None);
    for row in rows {
        let var = places[row].address;
        let Some(other) = before.replace(row).filter(|&b| places[b].address == var) else {
            if var != next {
                faults.push((row, format!("variable {var} instead of {next}")));
            }
            next = var.saturating_add(1);
            continue;
        };
        if heads[row].kind != VarKind::Internal || heads[other].kind != VarKind::Internal {
            faults.push((row, format!("shares variable {var}, but one of the two is the host's")));
        }
        let (a, b) = (lives[other], lives[row]);
        if a.first > a.last || b.first > b.last || b.first <= a.last {
            faults.push((row, format!("shares variable {var} with location {other} while both are alive")));
        }
        if !reuse.of(LocId::new(row)).contains(&LocId::new(other)) {
            faults.push((row, format!("does not know that variable {var} was location {other}'s")));
        }
    }
    faults
}

/// An engine operand whose partitions leave its tile or begin where they may not.
fn lane_fault(head: &ApHead, pattern: &ApPattern, loc: &LocHead) -> Option<String> {
    let part = loc.part_bytes() / u64::from(head.dtype.bytes().max(1));
    if loc.space == Space::Dram || head.kind != ApKind::Physical || part == 0 {
        return None;
    }
    let lanes = u64::from(pattern.0.first().map_or(1, |p| p.num));
    let first = u64::from(head.offset) / part;
    let grid = match lanes {
        0..=32 => 32,
        33..=64 => 64,
        _ => u64::from(PARTITIONS),
    };
    let wrong = first + lanes > u64::from(loc.partitions) || !first.is_multiple_of(grid);
    wrong.then(|| format!("{lanes} partitions from {first} of a tile of {}", loc.partitions))
}

/// Accesses outside of live ranges, and loops that cut one.
fn liveness_faults(
    order: &[murre_components::ids::InstId],
    heads: &[InstHead],
    operands: &[InstOperands],
    aps: &[ApHead],
    lives: &[LocLive],
) -> Vec<(usize, String)> {
    let mut ends = vec![u32::MAX; order.len()];
    let mut open: Vec<u32> = Vec::new();
    for (p, id) in order.iter().enumerate() {
        match heads[id.index()].op {
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => open.push(p as u32),
            Opcode::Terminator => {
                if let Some(begin) = open.pop() {
                    ends[begin as usize] = p as u32;
                }
            }
            _ => {}
        }
    }
    let mut faults = Vec::new();
    open.clear();
    for (p, id) in order.iter().enumerate() {
        let p = p as u32;
        match heads[id.index()].op {
            Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => open.push(p),
            Opcode::Terminator => drop(open.pop()),
            _ => {}
        }
        for row in operands[id.index()].range() {
            let loc = aps[row].loc.index();
            let Some(l) = lives.get(loc) else {
                faults.push((loc, format!("instruction {} names it, but it does not exist", id.0)));
                continue;
            };
            if p < l.first || p > l.last {
                faults.push((loc, format!("accessed at {p}, alive {}..={}", l.first, l.last)));
            }
            for &begin in &open {
                let end = ends[begin as usize];
                let inside = begin <= l.first && l.last <= end;
                let around = l.first <= begin && end <= l.last;
                if !inside && !around {
                    faults.push((loc, format!("the loop {begin}..={end} cuts {}..={}", l.first, l.last)));
                }
            }
        }
    }
    faults
}

/// Pairs that are alive together and share bytes.
fn overlaps(space: Space, heads: &[LocHead], places: &[LocPlace], lives: &[LocLive]) -> Vec<(LocId, LocId)> {
    let mut events: Vec<(u64, u32)> = Vec::new();
    for (row, (h, l)) in heads.iter().zip(lives).enumerate() {
        if h.space == space && l.first <= l.last && h.part_bytes() > 0 && places[row].address != u32::MAX {
            events.push((l.first as u64 * 2, row as u32));
            events.push((l.last as u64 * 2 + 1, row as u32));
        }
    }
    events.sort_unstable();
    let mut standing: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, row) in events {
        let begin = places[row as usize].address;
        let end = begin as u64 + heads[row as usize].part_bytes();
        if at % 2 == 1 {
            if standing.get(&begin).is_some_and(|s| s.1 == row) {
                standing.remove(&begin);
            }
            continue;
        }
        let before = standing.range(..=begin).next_back().filter(|(_, s)| s.0 > begin as u64);
        let after = standing.range(begin..).next().filter(|(b, _)| (**b as u64) < end);
        if let Some((_, s)) = before.or(after) {
            found.push((LocId(s.1), LocId(row)));
        } else {
            standing.insert(begin, (end, row));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::ids::{HloId, InstId};

    #[test]
    fn partitions_of_an_operand_start_on_their_grid() {
        let loc = LocRow::new(Space::Sbuf, DType::F32, 96, 16, HloId::NONE).head;
        let fault = |first: u32, lanes: u32| {
            let head = ApHead {
                loc: LocId(0),
                offset: first * 16 + 3,
                inst: InstId(0),
                dtype: DType::F32,
                kind: ApKind::Physical,
                output: 0,
                flags: 0,
                dynamic: ApDynamic::default(),
            };
            lane_fault(&head, &ApPattern::of([(16, lanes), (1, 4)]), &loc).is_some()
        };
        assert!(!fault(0, 96) && !fault(64, 32) && !fault(32, 32) && !fault(0, 64) && !fault(64, 1));
        assert!(fault(0, 97) && fault(16, 32) && fault(32, 64) && fault(64, 33) && fault(96, 1));
    }
}
