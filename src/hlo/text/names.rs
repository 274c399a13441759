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

/// The first eight bytes of a part as a number.
#[inline]
fn load(part: &[u8]) -> u64 {
    match part.first_chunk::<8>() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => ending(part),
    }
}

/// The last eight bytes of a name as a number, the very last one on top.
#[inline]
fn ending(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*eight);
    }
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(head), Some(tail)) => {
            let head = u64::from(u32::from_le_bytes(*head)) << (64 - 8 * bytes.len());
            head | u64::from(u32::from_le_bytes(*tail)) << 32
        }
        _ => bytes.iter().fold(0, |n, b| n >> 8 | u64::from(*b) << 56),
    }
}

/// The number that these ASCII digits say, most significant first; the top `count` bytes of `word` hold one digit each.
#[inline]
fn decimal(word: u64, count: u32) -> usize {
    let digits = word & (u64::MAX << (64 - 8 * count)) & 0x0f0f_0f0f_0f0f_0f0f;
    // Neighbours become numbers of two digits, then of four, then of eight.
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) as u32 as usize
}

/// How many of the top bytes are digits.
#[inline]
fn digits_on_top(word: u64) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_based = word ^ 0x3030_3030_3030_3030;
    let others = (((zero_based & LOW) + 0x7676_7676_7676_7676) | zero_based) & !LOW;
    others.leading_zeros() / 8
}

/// The first place of a name: its word's hash plus its number, which are the last digits of the name, at most eight.
#[inline]
fn place(name: &str) -> usize {
    // What stands behind the number belongs to the word.
    let bytes = name.as_bytes();
    let (mut front, mut word) = (bytes, ending(bytes));
    let mut digits = digits_on_top(word);
    if digits == 0 {
        let end = bytes.iter().rposition(u8::is_ascii_digit).map_or(0, |at| at + 1);
        front = &bytes[..end];
        word = ending(front);
        digits = digits_on_top(word);
    }
    let (head, tail) = (&front[..front.len() - digits as usize], &bytes[front.len()..]);
    let number = if digits == 0 { 0 } else { decimal(word, digits) };
    let near = if front.len() > 8 { ending(head) } else { word.checked_shl(8 * digits).unwrap_or(0) };
    let mut mixed = near.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (head.len() as u64) << 40;
    if head.len() > 8 {
        mixed ^= load(head);
    }
    if !tail.is_empty() {
        mixed ^= load(tail).rotate_left(24);
    }
    ((mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as usize).wrapping_add(2 * number)
}

impl Names {
    /// Forgets every name. About `count` instructions will come, from `first` on.
    pub fn begin(&mut self, first: HloId, count: usize) {
        let wanted = (2 * count + 2).next_power_of_two().max(SMALL);
        if self.slots.len() == SMALL && wanted == SMALL {
            self.slots.fill(0);
        } else {
            self.slots = vec![0; wanted];
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
    fn neighbours_stand_two_places_apart() {
        for (word, tail) in
            [("add.", ""), ("v", ""), ("a_long_word.", ""), ("x", "y"), ("long_words.", ".clone")]
        {
            let at = |n: u32| place(&format!("{word}{n}{tail}"));
            for n in [1, 7, 12, 98, 1234, 99_998] {
                assert_eq!(at(n + 1).wrapping_sub(at(n)), 2, "{word}{n}{tail}");
            }
        }
        assert_eq!(
            ["0", "00000042", "x7y", "", "ab"].map(|n| digits_on_top(ending(n.as_bytes()))),
            [1, 8, 0, 0, 0]
        );
        assert_eq!(decimal(ending(b"x1234567"), 7), 1_234_567);
        assert_eq!(decimal(ending(b"98765432"), 8), 98_765_432);
    }

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
