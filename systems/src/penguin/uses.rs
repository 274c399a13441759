//! How often each leaf of each value is really read. Operations that only rename or re-view their operand pass their
//! own readers on, so that a location's remaining readers are known whatever views stand between.

use murre_components::hlo::{Attrs, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};

/// Number of leaves of a shape.
pub fn leaf_count(shape: &Shape) -> usize {
    match shape {
        Shape::Tuple(_) => shape.leaves().len(),
        _ => 1,
    }
}

/// Operations whose result shares its operand's storage, leaf by leaf or view by view.
pub fn is_transparent(op: HloOp) -> bool {
    matches!(
        op,
        HloOp::Bitcast
            | HloOp::Broadcast
            | HloOp::Copy
            | HloOp::GetTupleElement
            | HloOp::OptimizationBarrier
            | HloOp::Reshape
            | HloOp::Reverse
            | HloOp::Slice
            | HloOp::Transpose
            | HloOp::Tuple
    )
}

/// Readers by instruction and leaf, and for each the entry result leaf it becomes, for one computation.
pub struct Uses {
    start: Vec<u32>,
    counts: Vec<u32>,
    results: Vec<u32>,
    first: u32,
}

impl Uses {
    /// Counts the readers in `computation`. The root counts as one reader of each of its leaves.
    pub fn count(module: &HloModule, computation: CompId) -> Uses {
        let comp = module.comp(computation);
        let first = comp.instructions.first;
        let mut start = vec![0u32; comp.instructions.len() + 1];
        let mut total = 0;
        for id in comp.instructions.iter() {
            start[(id.0 - first) as usize] = total;
            total += leaf_count(module.inst(id).shape()) as u32;
        }
        let mut uses =
            Uses { start, counts: vec![0; total as usize], results: vec![u32::MAX; total as usize], first };
        for k in 0..leaf_count(module.inst(comp.root).shape()) {
            let slot = uses.slot(comp.root, k);
            uses.counts[slot] += 1;
            uses.results[slot] = k as u32;
        }
        for id in comp.instructions.iter().rev() {
            uses.spread(module, id);
        }
        uses
    }

    fn slot(&self, id: HloId, leaf: usize) -> usize {
        self.start[(id.0 - self.first) as usize] as usize + leaf
    }

    /// Readers of a leaf.
    pub fn of(&self, id: HloId, leaf: usize) -> u32 {
        self.counts[self.slot(id, leaf)]
    }

    /// The result leaf that a value is, unchanged, if it is one.
    pub fn result(&self, id: HloId, leaf: usize) -> Option<u32> {
        Some(self.results[self.slot(id, leaf)]).filter(|k| *k != u32::MAX)
    }

    fn spread(&mut self, module: &HloModule, id: HloId) {
        let inst = module.inst(id);
        if !is_transparent(inst.op) {
            for &operand in inst.operands() {
                for leaf in 0..leaf_count(module.inst(operand).shape()) {
                    let slot = self.slot(operand, leaf);
                    self.counts[slot] += 1;
                }
            }
            return;
        }
        // Result leaf `k` shares storage with leaf `from` of `operand`.
        let share = |uses: &mut Uses, operand: HloId, from: usize, k: usize, same: bool| {
            let (mine, theirs) = (uses.slot(id, k), uses.slot(operand, from));
            uses.counts[theirs] += uses.counts[mine];
            if same && uses.results[mine] != u32::MAX {
                uses.results[theirs] = uses.results[mine];
            }
        };
        match inst.op {
            HloOp::Tuple => {
                let mut k = 0;
                for &operand in inst.operands() {
                    for from in 0..leaf_count(module.inst(operand).shape()) {
                        share(self, operand, from, k, true);
                        k += 1;
                    }
                }
            }
            HloOp::GetTupleElement => {
                let offset = element_offset(module, id);
                for k in 0..leaf_count(inst.shape()) {
                    share(self, inst.operands()[0], offset + k, k, true);
                }
            }
            op => {
                let same =
                    matches!(op, HloOp::Copy | HloOp::OptimizationBarrier | HloOp::Reshape | HloOp::Bitcast);
                for k in 0..leaf_count(inst.shape()) {
                    share(self, inst.operands()[0], k, k, same);
                }
            }
        }
    }
}

/// The first leaf of the element that a get-tuple-element takes.
pub fn element_offset(module: &HloModule, id: HloId) -> usize {
    let inst = module.inst(id);
    match (inst.attrs(), module.inst(inst.operands()[0]).shape()) {
        (Attrs::GetTupleElement { index }, Shape::Tuple(parts)) => {
            parts.iter().take(*index as usize).map(leaf_count).sum()
        }
        _ => 0,
    }
}
