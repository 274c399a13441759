//! The leaves of the values lowered so far, all of them back to back; an instruction has a range of them. What only
//! renames its operand has the same range, or a part of it.

use super::leaf::Leaf;
use murre_components::ids::HloId;

/// Leaves by instruction.
#[derive(Default)]
pub struct Values {
    leaves: Vec<Leaf>,
    /// First leaf and number of leaves.
    ranges: Vec<(u32, u32)>,
}

impl Values {
    /// No leaves for any of so many instructions.
    pub fn new(instructions: usize) -> Values {
        Values { leaves: Vec::with_capacity(instructions), ranges: vec![(0, 0); instructions] }
    }

    /// The leaves of an instruction; none before it is lowered.
    pub fn of(&self, id: HloId) -> &[Leaf] {
        let (first, count) = self.ranges[id.index()];
        &self.leaves[first as usize..(first + count) as usize]
    }

    /// The leaves of some instructions, one after the other.
    pub fn of_all<'a>(&'a self, ids: &'a [HloId]) -> impl Iterator<Item = &'a Leaf> {
        ids.iter().flat_map(|id| self.of(*id))
    }

    /// Gives an instruction leaves of its own.
    pub fn set(&mut self, id: HloId, leaves: impl IntoIterator<Item = Leaf>) {
        let first = self.leaves.len();
        self.leaves.extend(leaves);
        self.ranges[id.index()] = (first as u32, (self.leaves.len() - first) as u32);
    }

    /// Gives an instruction `count` leaves of another, from its leaf `from` on.
    pub fn share(&mut self, id: HloId, other: HloId, from: usize, count: usize) {
        let (first, of) = self.ranges[other.index()];
        debug_assert!(from + count <= of as usize);
        self.ranges[id.index()] = (first + from as u32, count as u32);
    }

    /// Gives an instruction the leaves of others, one after the other.
    pub fn join(&mut self, id: HloId, others: &[HloId]) {
        let first = self.leaves.len();
        for other in others {
            let (from, count) = self.ranges[other.index()];
            self.leaves.extend_from_within(from as usize..(from + count) as usize);
        }
        self.ranges[id.index()] = (first as u32, (self.leaves.len() - first) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::HloType;

    fn splat(bits: u64) -> Leaf {
        Leaf::Splat { ty: HloType::S32, bits, dims: Default::default() }
    }

    #[test]
    fn leaves_are_set_shared_and_joined() {
        let mut values = Values::new(4);
        let [a, b, c, d] = [0, 1, 2, 3].map(HloId);
        assert!(values.of(a).is_empty());
        values.set(a, [splat(1), splat(2)]);
        values.set(b, [splat(3)]);
        values.join(c, &[b, a]);
        assert_eq!(values.of(c), [splat(3), splat(1), splat(2)]);
        values.share(d, c, 1, 2);
        assert_eq!(values.of(d), values.of(a));
        // Others keep what they had.
        values.set(a, [splat(4)]);
        assert_eq!(values.of(d), [splat(1), splat(2)]);
        assert_eq!(values.of_all(&[a, b]).cloned().collect::<Vec<_>>(), [splat(4), splat(3)]);
    }
}
