//! The names of one computation: name in, instruction out. The table holds ids; the names themselves are in the module.
//!
//! Names are mostly a word and a number that counts up (`add.17`), and operands are mostly near. So a name is looked for
//! first at the place of its word plus twice its number: neighbours in the text are neighbours in the table, and a large
//! computation costs no more cache misses an instruction than a small one. Only where that place is taken by another
//! name does a hash decide.

use murre_components::hash::seeded_hash;
use murre_components::hlo::HloModule;
use murre_components::ids::HloId;

/// Slots of the smallest table, and the most that are emptied in place.
const SMALL: usize = 1024;

/// Instructions by name. A slot holds an id plus one; at most half of the slots are taken.
#[derive(Default)]
pub(crate) struct Names {
    slots: Vec<u32>,
    taken: usize,
    /// The first instruction of the computation.
    first: u32,
}

/// At most eight bytes of a part as a number: its first ones, or its last ones.
#[inline]
fn load(part: &[u8], last: bool) -> u64 {
    let eight = if last { part.last_chunk::<8>() } else { part.first_chunk::<8>() };
    if let Some(eight) = eight {
        return u64::from_le_bytes(*eight);
    }
    match (part.first_chunk::<4>(), part.last_chunk::<4>()) {
        (Some(head), Some(tail)) => {
            u64::from(u32::from_le_bytes(*head)) | u64::from(u32::from_le_bytes(*tail)) << 32
        }
        _ => part.iter().fold(0, |n, b| n << 8 | u64::from(*b)),
    }
}

/// The first place of a name: its word's hash plus its number.
#[inline]
fn place(name: &str) -> usize {
    let bytes = name.as_bytes();
    // The last run of digits is the number; what stands around it is the word.
    let mut head = bytes;
    while let [before @ .., last] = head
        && !last.is_ascii_digit()
    {
        head = before;
    }
    let tail = &bytes[head.len()..];
    let (mut number, mut unit) = (0usize, 1usize);
    while let [before @ .., digit @ b'0'..=b'9'] = head
        && unit < 1_000_000_000
    {
        (head, number) = (before, number + usize::from(digit - b'0') * unit);
        unit *= 10;
    }
    let mut mixed = load(head, true).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (head.len() as u64) << 40;
    if head.len() > 8 {
        mixed ^= load(head, false);
    }
    if !tail.is_empty() {
        mixed ^= load(tail, false).rotate_left(24);
    }
    ((mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as usize).wrapping_add(2 * number)
}

impl Names {
    /// Forgets every name. About `count` instructions will come, from `first` on.
    pub fn begin(&mut self, first: HloId, count: usize) {
        let wanted = (2 * count + 2).next_power_of_two().max(SMALL);
        if self.slots.len() > SMALL || wanted > SMALL {
            self.slots = vec![0; wanted];
        } else {
            self.slots.clear();
            self.slots.resize(SMALL, 0);
        }
        (self.taken, self.first) = (0, first.0);
    }

    /// The slot that holds the name, or the free slot where it belongs.
    #[inline]
    fn slot(&self, module: &HloModule, name: &str) -> usize {
        let mask = self.slots.len() - 1;
        let here = |at: usize| {
            let id = self.slots[at];
            id == 0 || module.is_named(HloId(id - 1), name)
        };
        let first = place(name) & mask;
        // Numbers are two slots apart, so that the words of a computation do not stand in each other's way.
        for near in [first, first ^ 1] {
            if here(near) {
                return near;
            }
        }
        // Steps of its own for each name: next to a taken place many may be taken.
        let hash = seeded_hash(name) as usize;
        let (mut at, step) = (hash & mask, hash >> 32 | 1);
        while !here(at) {
            at = at.wrapping_add(step) & mask;
        }
        at
    }

    /// The instruction of this name.
    #[inline]
    pub fn get(&self, module: &HloModule, name: &str) -> Option<HloId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot(module, name)].checked_sub(1).map(HloId)
    }

    /// Adds an instruction that is in the module already. `false` if another has its name.
    #[inline]
    pub fn insert(&mut self, module: &HloModule, id: HloId, name: &str) -> bool {
        if 2 * (self.taken + 1) > self.slots.len() {
            self.grow(module, id);
        }
        let slot = self.slot(module, name);
        if self.slots[slot] != 0 {
            return false;
        }
        self.slots[slot] = id.0 + 1;
        self.taken += 1;
        true
    }

    /// Twice as many slots; the instructions before `end` are put in.
    fn grow(&mut self, module: &HloModule, end: HloId) {
        self.slots = vec![0; (2 * self.slots.len()).max(SMALL)];
        for id in self.first..end.0 {
            let slot = self.slot(module, module.inst(HloId(id)).name());
            if self.slots[slot] == 0 {
                self.slots[slot] = id + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::hlo::{Draft, HloOp, Shape};

    #[test]
    fn every_name_is_found_and_none_twice() {
        let mut module = HloModule::default();
        let shape = module.intern_shape(Shape::Token);
        let mut names = Names::default();
        assert_eq!(names.get(&module, "a"), None);
        let mut all: Vec<String> = (0..5000).map(|i| format!("add.{i}")).collect();
        // Same places: leading zeros, words without a number, the number alone.
        all.extend((0..500).map(|i| format!("add.0{i}")));
        all.extend((0..500).map(|i| format!("x{i}y")));
        all.extend((0..500).map(|i| format!("{i}")));
        for name in &all {
            let id = module.push(Draft::new(name, HloOp::AfterAll, shape));
            assert!(names.insert(&module, id, name), "{name}");
        }
        for (i, name) in all.iter().enumerate() {
            assert_eq!(names.get(&module, name), Some(HloId::new(i)), "{name}");
        }
        assert!(!names.insert(&module, HloId::new(0), "add.7"));
        names.begin(HloId::new(all.len()), 3);
        assert_eq!(names.get(&module, "add.7"), None);
    }
}
