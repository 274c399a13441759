//! Hash maps with a fixed seed. They serve interning and common-subexpression elimination; nothing iterates
//! one into output.

use ahash::RandomState;

/// A hash map whose hasher has a fixed seed.
pub type SeededMap<K, V> = std::collections::HashMap<K, V, RandomState>;
/// A hash set whose hasher has a fixed seed.
pub type SeededSet<K> = std::collections::HashSet<K, RandomState>;

fn state() -> RandomState {
    RandomState::with_seeds(0x6d75_7272_6531, 0x6d75_7272_6532, 0x6d75_7272_6533, 0x6d75_7272_6534)
}

/// An empty map with the fixed seed.
pub fn seeded_map<K, V>() -> SeededMap<K, V> {
    SeededMap::with_hasher(state())
}

/// An empty set with the fixed seed.
pub fn seeded_set<K>() -> SeededSet<K> {
    SeededSet::with_hasher(state())
}

/// The hash of a value, the same on every run.
pub fn seeded_hash(value: impl core::hash::Hash) -> u64 {
    state().hash_one(value)
}

/// The hash of a few words, the same on every run: for keys of ids. Keys of several lengths hold theirs.
#[inline]
pub fn hash_words(words: impl IntoIterator<Item = u32>) -> u64 {
    words.into_iter().fold(0xd6e8_feb8_6659_fd93, |h, w| {
        let product = u128::from(h ^ u64::from(w)) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as u64 ^ product as u64
    })
}
