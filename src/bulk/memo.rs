//! Programs in memory, by key. In: a key and how to make its program. Out: the program, made once: whoever asks for a key
//! that is being made waits for it. Holds the latest programs up to a number of bytes.

use super::identity::Key;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::program::Program;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// A program that several modules share; `None` when the structure does not compile.
type Slot = Arc<OnceLock<Option<Arc<Program>>>>;

/// The programs.
pub struct Memo {
    capacity: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    slots: SeededMap<Key, Slot>,
    /// What has been made, oldest first, with its size.
    made: VecDeque<(Key, usize)>,
    bytes: usize,
}

impl Memo {
    /// Room for programs of `capacity` bytes in all.
    pub fn new(capacity: usize) -> Memo {
        Memo { capacity, inner: Mutex::new(Inner { slots: seeded_map(), made: VecDeque::new(), bytes: 0 }) }
    }

    /// Whether the program of `key` is here, or being made.
    pub fn has(&self, key: &Key) -> bool {
        self.inner.lock().slots.contains_key(key)
    }

    /// The program of `key`, made by `make` unless it is here, and whether it was.
    pub fn get(&self, key: Key, make: impl FnOnce() -> Option<Program>) -> (Option<Arc<Program>>, bool) {
        let slot = self.inner.lock().slots.entry(key).or_default().clone();
        let mut size = None;
        let program = slot.get_or_init(|| {
            let made = make();
            size = Some(made.as_ref().map_or(0, bytes));
            made.map(Arc::new)
        });
        if let Some(size) = size {
            let mut inner = self.inner.lock();
            inner.made.push_back((key, size));
            inner.bytes += size;
            while inner.bytes > self.capacity
                && let Some((oldest, freed)) = inner.made.pop_front()
            {
                inner.slots.remove(&oldest);
                inner.bytes -= freed;
            }
        }
        (program.clone(), size.is_none())
    }
}

/// What a program takes, about.
fn bytes(p: &Program) -> usize {
    let records = p.streams.iter().map(Vec::len).sum::<usize>() + p.descriptors.len();
    68 * records + 12 * p.addr4.len() + p.constants.len() + 64 * p.provenance.names.len() + 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_program_is_made_once_by_several_threads() {
        let (memo, made) = (Memo::new(1 << 20), AtomicUsize::new(0));
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    memo.get(blake3::hash(b"a"), || {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Some(Program::empty("a", Target::Trn2))
                    })
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_oldest_go_when_room_is_short() {
        let memo = Memo::new(3000);
        let key = |k: u8| blake3::hash(&[k]);
        let make = || Some(Program::empty("p", Target::Trn2));
        for k in 0..4 {
            assert!(!memo.get(key(k), make).1);
        }
        assert!(memo.get(key(3), make).1, "the latest is here");
        assert!(!memo.get(key(0), make).1, "the first is not");
    }

    #[test]
    fn a_panic_leaves_the_key_to_the_next() {
        let memo = Memo::new(1 << 20);
        let key = blake3::hash(b"a");
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| memo.get(key, || panic!("no"))));
        assert!(panicked.is_err());
        assert!(memo.get(key, || None).0.is_none());
    }
}
