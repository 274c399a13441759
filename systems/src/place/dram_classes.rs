//! Which DRAM locations share a variable. In: live ranges. Out: for every DRAM location the one whose variable it stands
//! in, itself when it shares none, and with [`Reuse`] whom its bytes belonged to before.
//!
//! A class is a variable with a row of locations whose ranges do not meet; all of them begin at its first byte, and it
//! has the size of the largest. Locations are taken by begin. One goes to the smallest free class that is large enough,
//! of equal ones to the one that has been free longest, since a new owner waits for the old one; when none is large
//! enough the largest grows. Only the program's own arrays of at least [`MIN_SHARED_BYTES`] take part: inputs, outputs
//! and constants are the host's, and words that hold control scalars are not worth a wait.

use super::Reuse;
use crate::by_position::by_position;
use murre_components::bir::{LocHead, LocLive, Parts, Space};
use murre_components::ids::LocId;
use murre_components::program::VarKind;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Smallest array that shares, bytes.
pub const MIN_SHARED_BYTES: u64 = 256;

/// Whether a location may share its variable.
pub fn may_share(head: &LocHead, live: &LocLive) -> bool {
    head.space == Space::Dram
        && head.kind == VarKind::Internal
        && live.first <= live.last
        && head.part_bytes() >= MIN_SHARED_BYTES
}

/// A variable in the making.
struct Class {
    bytes: u64,
    last: LocId,
    /// The lowest id among its locations.
    name: LocId,
}

/// The location that names the variable, by location; a location that shares nothing names its own. Empty when none
/// may share.
pub fn classes(heads: &[LocHead], lives: &[LocLive], parts: &Parts, reuse: &mut Reuse) -> Vec<LocId> {
    let rows = by_position(heads.len().min(lives.len()), |r| {
        may_share(&heads[r], &lives[r]).then_some(lives[r].first)
    });
    if rows.is_empty() {
        return Vec::new();
    }
    let mut classes: Vec<Class> = Vec::new();
    let mut member = vec![u32::MAX; heads.len()];
    // Free classes by size and end of use; busy ones by end.
    let mut free: BTreeSet<(u64, u32, u32)> = BTreeSet::new();
    let mut busy: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    let mut borders = parts.0.iter().skip(1).map(|p| p.position).peekable();
    for row in rows {
        while borders.next_if(|border| *border <= lives[row as usize].first).is_some() {
            free.clear();
            busy.clear();
        }
        let (loc, bytes) = (LocId(row), heads[row as usize].part_bytes());
        let live = lives[row as usize];
        while let Some(&Reverse((end, class))) = busy.peek()
            && end < live.first
        {
            busy.pop();
            free.insert((classes[class as usize].bytes, end, class));
        }
        let found = free.range((bytes, 0, 0)..).next().or_else(|| free.last()).copied();
        let class = match found {
            Some(key) => {
                free.remove(&key);
                let c = &mut classes[key.2 as usize];
                reuse.set(loc, &[c.last]);
                *c = Class { bytes: c.bytes.max(bytes), last: loc, name: c.name.min(loc) };
                key.2
            }
            None => {
                classes.push(Class { bytes, last: loc, name: loc });
                classes.len() as u32 - 1
            }
        };
        member[row as usize] = class;
        busy.push(Reverse((live.last, class)));
    }
    let name = |(row, class): (usize, &u32)| classes.get(*class as usize).map_or(LocId::new(row), |c| c.name);
    member.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::bir::LocRow;
    use murre_components::dtype::DType;
    use murre_components::ids::HloId;

    /// Names and predecessors of arrays given as (bytes, first, last).
    fn of(arrays: &[(u64, u32, u32)]) -> (Vec<u32>, Vec<Vec<LocId>>) {
        let row = |bytes| LocRow::new(Space::Dram, DType::U8, 1, bytes, HloId::NONE).head;
        let heads: Vec<LocHead> = arrays.iter().map(|a| row(a.0)).collect();
        let lives: Vec<LocLive> = arrays.iter().map(|a| LocLive { first: a.1, last: a.2 }).collect();
        let mut reuse = Reuse::default();
        let names = classes(&heads, &lives, &Parts::default(), &mut reuse).iter().map(|l| l.0).collect();
        (names, (0..arrays.len()).map(|k| reuse.of(LocId::new(k)).to_vec()).collect())
    }

    #[test]
    fn arrays_that_never_meet_share_the_best_fit() {
        let (names, before) =
            of(&[(4096, 0, 3), (1024, 0, 2), (512, 4, 9), (2048, 5, 6), (300, 7, 9), (9000, 10, 11)]);
        assert_eq!(names, [0, 1, 1, 0, 0, 0]);
        assert_eq!(before[2], [LocId(1)], "1,024 bytes fit better than 4,096");
        assert_eq!(before[4], [LocId(3)]);
        assert_eq!(before[5], [LocId(4)], "none is large enough: the largest grows");
    }

    #[test]
    fn small_dead_and_overlapping_ones_stay_alone() {
        let (names, before) = of(&[(4, 0, 1), (4, 2, 3), (512, 0, 5), (512, 5, 6), (512, u32::MAX, 0)]);
        assert_eq!(names, [0, 1, 2, 3, 4]);
        assert!(before.iter().all(|b| b.is_empty()));
    }
}
