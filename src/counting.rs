//! The allocator of the program: the system's, with counters that run only while somebody measures. In: nothing. Out:
//! how often memory was asked for, how many bytes, and the most that was held at once, between two points. When nobody
//! measures, an allocation pays one relaxed load.
#![allow(unsafe_code)]

use murre::systems::watch::{Meter, Usage};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Held more than at the beginning; below zero when more was given back than taken.
static HELD: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn took(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    BYTES.fetch_add(bytes as u64, Relaxed);
    let held = HELD.fetch_add(bytes as i64, Relaxed) + bytes as i64;
    PEAK.fetch_max(held, Relaxed);
}

fn gave(bytes: usize) {
    HELD.fetch_sub(bytes as i64, Relaxed);
}

// SAFETY: every call goes to the system's allocator with the arguments that came in, and what it returns is returned;
// the counters are atomics and touch no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            took(layout.size());
        }
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            took(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            gave(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if ON.load(Relaxed) {
            gave(layout.size());
            took(size);
        }
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Counts what happens between its two calls, in all threads.
pub const METER: Meter = Meter { begin, end };

fn begin() {
    for counter in [&ALLOCATIONS, &BYTES] {
        counter.store(0, Relaxed);
    }
    HELD.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    ON.store(true, Relaxed);
}

fn end() -> Usage {
    ON.store(false, Relaxed);
    Usage {
        allocations: ALLOCATIONS.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        peak: PEAK.load(Relaxed).max(0) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_between_two_points_are_counted() {
        begin();
        let kept: Vec<u8> = Vec::with_capacity(1 << 20);
        drop(vec![1u8; 1 << 20]);
        let usage = end();
        assert!(usage.allocations >= 2 && usage.bytes >= 2 << 20, "{usage:?}");
        assert!(usage.peak >= 2 << 20, "{usage:?}");
        drop(kept);
        let uncounted = ALLOCATIONS.load(Relaxed);
        drop(std::hint::black_box(vec![1u8; 100]));
        assert_eq!(ALLOCATIONS.load(Relaxed), uncounted);
    }
}
