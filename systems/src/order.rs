//! The order of the passes inside a stage. In: the pass table and what its passes touch. Out: edges between passes:
//! the table's own order; only those that data asks for, so that passes without a conflict run side by side; or one
//! order drawn at random from all that data allows. The bytes are the same for all of them, which is what the last one
//! is for (`tests/chaos.rs`).
//!
//! ```text
//! table     a -> b -> c        (b reads what a writes; c touches neither)
//! free      a -> b    c
//! shuffled  a -> c -> b   or   c -> a -> b   or   a -> b -> c
//! ```

use crate::access::{AccessTable, Conflict};
use crate::options::{CompileOptions, ExecutorChoice};
use crate::pass::{Stage, passes};
use crate::synth::Lcg;

/// Which edges a schedule gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassOrder {
    /// One pass after the other, as in the table.
    Table,
    /// Only those that conflicts ask for.
    Free,
    /// One after the other, in a random legal order.
    Shuffled(u64),
}

impl PassOrder {
    /// The order that the options ask for.
    pub fn of(options: &CompileOptions) -> PassOrder {
        match (options.shuffle, options.executor) {
            (Some(seed), _) => PassOrder::Shuffled(seed),
            (None, ExecutorChoice::Multi) => PassOrder::Free,
            (None, ExecutorChoice::Single) => PassOrder::Table,
        }
    }
}

/// Edges `(before, after)` between rows of the pass table, none across stages.
pub fn edges(stages: &[Stage], order: PassOrder) -> Vec<(u16, u16)> {
    let mut out = Vec::new();
    let mut rng = Lcg::new(if let PassOrder::Shuffled(seed) = order { seed } else { 0 });
    for &stage in stages {
        let rows: Vec<u16> =
            passes().enumerate().filter(|(_, p)| p.stage == stage).map(|(row, _)| row as u16).collect();
        match order {
            PassOrder::Table => out.extend(rows.windows(2).map(|w| (w[0], w[1]))),
            PassOrder::Free => out.extend(needed(&rows)),
            PassOrder::Shuffled(_) => {
                let rows = shuffled(&rows, &mut rng);
                out.extend(rows.windows(2).map(|w| (w[0], w[1])));
            }
        }
    }
    out
}

/// Whether the pass of row `later` has to wait for that of row `earlier`. A check waits for all work before it, since
/// it does not run when that was refused.
pub fn waits(earlier: u16, later: u16) -> bool {
    let table = AccessTable::get();
    let (earlier, later) = (earlier as usize, later as usize);
    let check = |row: usize| table.rows.get(row).is_some_and(|r| r.pass.verify);
    check(earlier) != check(later) || *table.conflict(earlier, later) != Conflict::None
}

/// The edges that data asks for, without those that follow from others.
fn needed(rows: &[u16]) -> Vec<(u16, u16)> {
    let mut out = Vec::new();
    // Row k of `before`: what has run when the k-th pass begins.
    let mut before: Vec<Vec<bool>> = Vec::new();
    for (k, &row) in rows.iter().enumerate() {
        let mut done = vec![false; k];
        for j in (0..k).rev() {
            if !done[j] && waits(rows[j], row) {
                out.push((rows[j], row));
                done[j] = true;
                for (d, b) in done.iter_mut().zip(&before[j]) {
                    *d |= b;
                }
            }
        }
        before.push(done);
    }
    out
}

/// The same rows, each drawn from those that wait for none of the rest.
fn shuffled(rows: &[u16], rng: &mut Lcg) -> Vec<u16> {
    let (mut left, mut out) = (rows.to_vec(), Vec::with_capacity(rows.len()));
    while !left.is_empty() {
        let ready: Vec<usize> =
            (0..left.len()).filter(|&k| left[..k].iter().all(|&e| !waits(e, left[k]))).collect();
        // The first one left waits for nothing.
        let pick = ready.get(rng.below(ready.len() as u32) as usize).copied().unwrap_or(0);
        out.push(left.remove(pick));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn closure(edges: &[(u16, u16)]) -> BTreeSet<(u16, u16)> {
        let mut all: BTreeSet<(u16, u16)> = edges.iter().copied().collect();
        loop {
            let more: Vec<(u16, u16)> = all
                .iter()
                .flat_map(|&(a, b)| all.range((b, 0)..=(b, u16::MAX)).map(move |&(_, c)| (a, c)))
                .filter(|e| !all.contains(e))
                .collect();
            if more.is_empty() {
                return all;
            }
            all.extend(more);
        }
    }

    #[test]
    fn every_order_keeps_what_data_asks_for() {
        let table = closure(&edges(&Stage::ALL, PassOrder::Table));
        let free = closure(&edges(&Stage::ALL, PassOrder::Free));
        let asked: BTreeSet<_> = table.iter().copied().filter(|&(a, b)| waits(a, b)).collect();
        assert!(asked.is_subset(&free) && free.is_subset(&table));
        assert!(free.len() < table.len(), "some passes of a stage do not depend on each other");
        let mut orders = BTreeSet::new();
        for seed in 0..20 {
            let order = edges(&Stage::ALL, PassOrder::Shuffled(seed));
            assert!(free.is_subset(&closure(&order)), "seed {seed}");
            orders.insert(order);
        }
        assert!(orders.len() > 5, "{} orders of 20 seeds", orders.len());
    }
}
