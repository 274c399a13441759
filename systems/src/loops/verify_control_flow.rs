//! `verify_control_flow`: blocks and branches behind `expand_all_engine` (`spec/ir.md 3.4`, CFG015 to CFG019).
//!
//! In: order with labels and per-engine branches. Out: nothing, or `MUR0426`. Layout is program order, so an edge to an
//! earlier block is a back edge and its loop is the blocks from its target to its source. The checks:
//!
//! * 015: no edge enters a loop but at its header; 016: one edge from outside leads there, past the guard.
//! * 017: one edge leads out, behind the back edge; 018: one back edge a header.
//! * 019: without back edges and the guards' skips over their loops, every block has one edge forward.
//! * All five engines have the same branch at the same place, since every engine walks every block (D19).
//!
//! ```text
//! b0: .. guard -> b2   b1 (header): .. LT -> b1   b2: ..       edges 0-1, 0-2 (skip), 1-1 (back), 1-2
//! ```
//!
//! It knows nothing of axes: a wrong label or a missing clone is seen from the branches alone. Also EIL011: the induction
//! register of an axis on an engine is one of that engine (`MUR0428`).

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::{LOOP_AXIS_ENGINE, LOOP_CONTROL_FLOW};
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// An edge from block to block.
type Edge = (usize, usize);

/// The pass.
pub fn verify_control_flow(
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstArgs)>,
    axes: Query<&AxisRegs>,
    regs: Query<&RegHead>,
) {
    let (heads, args) = crate::columns!(insts);
    let regs = crate::columns!(regs);
    for (k, axis) in crate::columns!(axes).iter().enumerate() {
        for (engine, r) in EngineId::STREAMS.into_iter().zip(axis.per_engine).filter(|p| p.1.is_some()) {
            if regs.get(r.index()).is_none_or(|r| r.engine != engine) {
                let message =
                    format!("axis {k}: its register on {} is another engine's [EIL011]", engine.name());
                diagnostics.push(Diagnostic::error(&LOOP_AXIS_ENGINE, message).ordered(k as u32));
            }
        }
    }
    match edges(&order, heads, args).and_then(|(blocks, edges)| reducible(blocks, &edges)) {
        Ok(()) => {}
        Err(what) => diagnostics.push(Diagnostic::error(&LOOP_CONTROL_FLOW, what)),
    }
}

/// Number of blocks and the edges between them.
fn edges(order: &Order, heads: &[InstHead], args: &[InstArgs]) -> Result<(usize, Vec<Edge>), String> {
    let is_branch = |op| matches!(op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch);
    // Block of each label, and the groups of branches with the block they end.
    let mut block = 0usize;
    let mut begun = false;
    let mut label_block = vec![usize::MAX; heads.len()];
    let mut groups: Vec<(usize, Vec<InstId>)> = Vec::new();
    let mut in_group = false;
    let mut exits = None;
    for &id in &order.0 {
        let op = heads[id.index()].op;
        if is_branch(op) {
            if !in_group {
                groups.push((block, Vec::new()));
            }
            if let Some(g) = groups.last_mut() {
                g.1.push(id);
            }
            in_group = true;
            continue;
        }
        if op.is_structure() || in_group {
            block += (begun || in_group) as usize;
        }
        if op.is_structure() {
            label_block[id.index()] = block;
        }
        in_group = false;
        begun = true;
        if op == Opcode::Exit {
            exits = Some(block);
        }
    }
    let blocks = block + 1;
    let mut edges: Vec<Edge> = Vec::new();
    let mut falls = vec![true; blocks];
    for (from, group) in &groups {
        let per_engine = group.len() / EngineId::STREAMS.len();
        if group.is_empty() || group.len() % EngineId::STREAMS.len() != 0 {
            return Err(format!("block {from} ends in {} branches, not one an engine", group.len()));
        }
        for same in group.chunks(EngineId::STREAMS.len()) {
            let first = same[0].index();
            for (engine, id) in EngineId::STREAMS.into_iter().zip(same) {
                let (h, a) = (heads[id.index()], args[id.index()]);
                if h.engine != engine || h.op != heads[first].op || a != args[first] {
                    return Err(format!("block {from}: the engines do not branch alike"));
                }
            }
            let to = label_block.get(args[first].aux as usize).copied().unwrap_or(usize::MAX);
            if to == usize::MAX {
                return Err(format!("block {from}: a branch to what is no label"));
            }
            edges.push((*from, to));
            falls[*from] &= heads[first].op == Opcode::CompareAndBranch;
        }
        if per_engine > 2 {
            return Err(format!("block {from} ends in {per_engine} branches an engine"));
        }
    }
    if let Some(exit) = exits {
        falls[exit] = false;
    }
    edges.extend((0..blocks.saturating_sub(1)).filter(|b| falls[*b]).map(|b| (b, b + 1)));
    Ok((blocks, edges))
}

/// The rules over blocks in layout order.
pub fn reducible(blocks: usize, edges: &[Edge]) -> Result<(), String> {
    // Latch of each header.
    let mut latch = vec![usize::MAX; blocks];
    for &(from, to) in edges.iter().filter(|e| e.1 <= e.0) {
        if latch[to] != usize::MAX {
            return Err(format!("block {to} has two back edges [CFG018]"));
        }
        latch[to] = from;
    }
    // Loops nest when a walk over the blocks closes the innermost one first.
    let mut open: Vec<usize> = Vec::new();
    let mut inner = vec![usize::MAX; blocks];
    for b in 0..blocks {
        if latch[b] != usize::MAX {
            open.push(b);
        }
        inner[b] = open.last().copied().unwrap_or(usize::MAX);
        while let Some(&h) = open.last()
            && latch[h] <= b
        {
            if latch[h] != b {
                return Err(format!("the loop of block {h} does not nest [CFG015]"));
            }
            open.pop();
        }
    }
    let parent = |h: usize| if h == 0 { usize::MAX } else { outside(&inner, &latch, h) };
    let mut entries = vec![0; blocks];
    let mut exits = vec![0; blocks];
    let mut forward = vec![0; blocks];
    for &(from, to) in edges.iter().filter(|e| e.1 > e.0) {
        // Loops that hold `from` but not `to` are left.
        let mut h = inner[from];
        while h != usize::MAX && latch[h] < to {
            if from != latch[h] {
                return Err(format!("block {from} leaves the loop of block {h} in its middle [CFG017]"));
            }
            exits[h] += 1;
            h = parent(h);
        }
        // Loops that hold `to` but not `from` are entered.
        let mut h = inner[to];
        while h != usize::MAX && from < h {
            if to != h {
                return Err(format!("block {from} enters the loop of block {h} in its middle [CFG015]"));
            }
            entries[h] += 1;
            h = parent(h);
        }
        // The guard's edge over the loop that stands behind it is the loop's own.
        let skip = from + 1 < blocks && latch[from + 1] != usize::MAX && to == latch[from + 1] + 1;
        forward[from] += !skip as u32;
    }
    for b in 0..blocks {
        if latch[b] != usize::MAX && entries[b] != 1 && b != 0 {
            return Err(format!("block {b} is entered by {} edges from outside [CFG016]", entries[b]));
        }
        if latch[b] != usize::MAX && exits[b] > 1 {
            return Err(format!("the loop of block {b} has {} ways out [CFG017]", exits[b]));
        }
    }
    match forward.iter().position(|n| *n > 1) {
        Some(b) => Err(format!("block {b} has {} edges forward [CFG019]", forward[b])),
        None => Ok(()),
    }
}

/// The header of the loop around the one of block `h`.
fn outside(inner: &[usize], latch: &[usize], h: usize) -> usize {
    // The block in front of a header is in the loop around it, or ends a loop beside it.
    let mut at = inner[h - 1];
    while at != usize::MAX && latch[at] < h {
        at = if at == 0 { usize::MAX } else { inner[at - 1] };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(blocks: usize, edges: &[Edge]) -> &'static str {
        let found = reducible(blocks, edges).err().unwrap_or_default();
        ["CFG015", "CFG016", "CFG017", "CFG018", "CFG019"]
            .into_iter()
            .find(|r| found.contains(r))
            .unwrap_or(if found.is_empty() { "ok" } else { "other" })
    }

    /// Two nested guarded loops: headers 1 and 2, latches 4 and 2.
    const NEST: [Edge; 8] = [(0, 1), (0, 5), (1, 2), (1, 3), (2, 2), (2, 3), (3, 4), (4, 1)];

    #[test]
    fn each_rule_has_a_graph_that_breaks_it() {
        let with = |more: &[Edge]| [&NEST[..], &[(4, 5)], more].concat();
        assert_eq!(rule(6, &with(&[])), "ok");
        assert_eq!(rule(6, &with(&[(0, 3)])), "CFG015", "into the middle");
        assert_eq!(rule(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 1), (3, 4), (4, 5)]), "CFG015", "crossed");
        assert_eq!(rule(4, &[(0, 1), (0, 1), (1, 1), (1, 2)]), "CFG016", "two ways to the header");
        assert_eq!(rule(6, &with(&[(3, 5)])), "CFG017", "a break");
        assert_eq!(rule(6, &with(&[(3, 1)])), "CFG018", "a continue");
        assert_eq!(rule(4, &[(0, 1), (0, 2), (1, 2), (2, 3)]), "CFG019", "a diamond");
    }

    #[test]
    fn what_is_lowered_is_reducible_and_a_changed_label_or_clone_is_seen() {
        let mut c = crate::synth::synthetic(2000, 5);
        let stages = [crate::Stage::Place, crate::Stage::Address];
        c.run_stages_stepwise(&stages, |_, _, _| ());
        let run = |c: &mut crate::Compiler| {
            let mut schedule = Schedule::default();
            schedule.add_systems(verify_control_flow);
            schedule.run(&mut c.world);
            c.world.resource::<Diagnostics>().take().iter().map(|d| d.code.id).collect::<Vec<_>>()
        };
        assert_eq!(run(&mut c), [""; 0]);
        let mut q = c.world.query::<(&InstHead, &mut InstArgs)>();
        let mut branches = 0;
        for (h, mut a) in q.iter_mut(&mut c.world) {
            if h.op == Opcode::CompareAndBranch && h.live() {
                branches += 1;
                if branches == 3 {
                    a.op0 ^= 1;
                }
            }
        }
        assert!(branches >= 10, "the program has loops");
        assert_eq!(run(&mut c), ["MUR0426"], "one engine branches otherwise");
        let mut q = c.world.query::<&mut AxisRegs>();
        for mut a in q.iter_mut(&mut c.world) {
            a.per_engine.swap(0, 1);
        }
        assert!(run(&mut c).contains(&"MUR0428"));
    }
}
