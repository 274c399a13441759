//! How the program holds memory. In: whether several modules are compiled at once. Out: settings of the C library's
//! allocator, where it is the GNU one; elsewhere nothing.
//!
//! A compilation asks for tables of many megabytes, gives them back and asks again. By default each such table is a
//! mapping of its own, and giving it back unmaps it, so that the next one costs a page fault for every 4 KiB; and a
//! second thread gets an arena of its own, which knows nothing of what the first one gave back. Measured on 200,000
//! instructions: an eighth of a repeated compilation, a quarter with the multi-threaded executor.
#![allow(unsafe_code)]

/// Keeps memory that was given back for the next to ask. `apart` leaves every thread an arena, for several
/// compilations side by side.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep(apart: bool) {
    let mut settings = vec![(libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, -1), (libc::M_TOP_PAD, 16 << 20)];
    if !apart {
        settings.push((libc::M_ARENA_MAX, 1));
    }
    for (name, value) in settings {
        // SAFETY: the call sets a number of the allocator under its lock; whatever the number, what it handed out stays.
        // One that it does not take leaves the default, which is slower and no fault.
        let _ = unsafe { libc::mallopt(name, value) };
    }
}

/// Other allocators keep their own counsel.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep(_apart: bool) {}
