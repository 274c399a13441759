//! The indices of a dynamic copy's access patterns, as one list in three parts.
//!
//! An AP index is a number and the pair of the pattern that it walks. The partition indices of the source come first,
//! then the free indices along which the run-time address changes from descriptor to descriptor, then the rest. Whoever
//! renumbers, removes or reads indices treats the parts alike. A pair of one element has no index.
//!
//! ```text
//! dram[+0 8@4096 1@64 128@1], index * 4096   ->   addr_free: i0 on pair 0 ; free: i1 on pair 2
//! ```
//!
//! Facts: `spec/ir.md 2.2` (tables a and b), `spec/ir.md 3.5` (kind 9).

use crate::bir::ApPattern;
use crate::diag::Diagnostic;
use crate::diag::codes::lower::DYNAMIC_AP_INDEX;
use arrayvec::ArrayVec;

/// An index: its number in the list and the pair that it walks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct ApIndex {
    pub id: u8,
    pub pair: u8,
}

/// The three parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApIndices {
    /// Whether the source has partitions at all: it stands on chip.
    pub has_ap_indices: bool,
    /// Partition indices of the source (`src_par_indices`).
    pub src_par: ArrayVec<ApIndex, 5>,
    /// Free indices that the run-time address walks (`addr_free_indices`).
    pub addr_free: ArrayVec<ApIndex, 5>,
    /// The other free indices (`free_indices`).
    pub free: ArrayVec<ApIndex, 5>,
}

impl ApIndices {
    /// The indices of a copy: `src` is its source pattern, `partition` the elements of a partition if the source is on
    /// chip, `dynamic` the pattern of the side with the run-time address, `scales` the steps of the run-time indices.
    pub fn of(src: &ApPattern, partition: Option<i64>, dynamic: &ApPattern, scales: &[i64]) -> ApIndices {
        let mut out = ApIndices { has_ap_indices: partition.is_some(), ..Default::default() };
        for (k, pair) in src.0.iter().enumerate() {
            let crosses = |part: i64| part > 0 && i64::from(pair.step) % part == 0 && pair.step != 0;
            // A pair walks a run-time dimension when that dimension's step is one of the steps inside it.
            let walks = |d: &crate::bir::ApPair| {
                let (low, high) = (i64::from(d.step.abs()), i64::from(d.step.abs()) * i64::from(d.num));
                scales.iter().any(|s| (low..high).contains(s))
            };
            let part = if partition.is_some_and(crosses) {
                &mut out.src_par
            } else if dynamic.0.get(k).is_some_and(walks) {
                &mut out.addr_free
            } else {
                &mut out.free
            };
            // At most five pairs, so there is room.
            let _ = part.try_push(ApIndex { id: k as u8, pair: k as u8 });
        }
        for (k, pair) in src.0.iter().enumerate() {
            if pair.num == 1 {
                // It was put there above.
                let _ = out.remove_ap_index(k as u8);
            }
        }
        out.update_ap_indices();
        out
    }

    /// All indices in order: partition indices if the source has any, address indices, the others.
    pub fn enumerate_ap_indices(&self) -> impl Iterator<Item = ApIndex> + '_ {
        let partitions = self.src_par.iter().filter(|_| self.has_ap_indices);
        partitions.chain(&self.addr_free).chain(&self.free).copied()
    }

    /// Removes an index from the part that holds it. The others keep their numbers.
    pub fn remove_ap_index(&mut self, id: u8) -> Result<ApIndex, Box<Diagnostic>> {
        for part in [&mut self.src_par, &mut self.addr_free, &mut self.free] {
            if let Some(at) = part.iter().position(|i| i.id == id) {
                return Ok(part.remove(at));
            }
        }
        let what = format!("index {id} not found for remove_ap_index");
        Err(Box::new(Diagnostic::error(&DYNAMIC_AP_INDEX, what)))
    }

    /// Numbers the indices 0, 1, 2 ... in the order of [`ApIndices::enumerate_ap_indices`] (`updateAPIndicies`).
    pub fn update_ap_indices(&mut self) {
        let partitions: &mut [ApIndex] = if self.has_ap_indices { &mut self.src_par } else { &mut [] };
        let all = partitions.iter_mut().chain(&mut self.addr_free).chain(&mut self.free);
        for (id, index) in all.enumerate() {
            index.id = id as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(indices: &[ApIndex]) -> Vec<(u8, u8)> {
        indices.iter().map(|i| (i.id, i.pair)).collect()
    }

    #[test]
    fn indices_come_in_their_order_and_are_numbered_in_it() {
        // Rows of 4096 bytes scattered from four partitions; the row number is a run-time value.
        let src = ApPattern::of([(64, 4), (1, 8), (8, 2)]);
        let dst = ApPattern::of([(1, 4), (4096, 8), (7, 2)]);
        let i = ApIndices::of(&src, Some(64), &dst, &[4096]);
        assert_eq!((pairs(&i.src_par), pairs(&i.addr_free)), (vec![(0, 0)], vec![(1, 1)]));
        assert_eq!(pairs(&i.enumerate_ap_indices().collect::<Vec<_>>()), [(0, 0), (1, 1), (2, 2)]);
        // From DRAM there are no partitions, and the address indices come first.
        let i = ApIndices::of(&dst, None, &dst, &[4096]);
        assert_eq!(pairs(&i.enumerate_ap_indices().collect::<Vec<_>>()), [(0, 1), (1, 0), (2, 2)]);
    }

    #[test]
    fn a_pair_of_one_element_has_no_index_and_a_merged_pair_holds_the_dimensions_inside_it() {
        let p = ApPattern::of([(96, 1), (8, 12)]);
        let i = ApIndices::of(&p, None, &p, &[32]);
        assert_eq!((pairs(&i.addr_free), i.free.len(), i.src_par.len()), (vec![(0, 1)], 0, 0));
        assert!(ApIndices::of(&p, None, &p, &[96]).addr_free.is_empty());
    }

    #[test]
    fn removing_what_is_not_there_is_an_error() {
        let p = ApPattern::of([(64, 4), (1, 8)]);
        let mut i = ApIndices::of(&p, Some(64), &p, &[1]);
        assert_eq!(i.remove_ap_index(0).unwrap().pair, 0);
        let fault = i.remove_ap_index(0).unwrap_err();
        assert_eq!(fault.code.id, "MUR0410");
        assert!(fault.message.contains("index 0 not found for remove_ap_index"));
        assert_eq!(pairs(&i.enumerate_ap_indices().collect::<Vec<_>>()), [(1, 1)]);
        i.update_ap_indices();
        assert_eq!(pairs(&i.enumerate_ap_indices().collect::<Vec<_>>()), [(0, 1)]);
    }
}
