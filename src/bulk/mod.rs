//! Bulk compilation: thousands of modules, each compiled once.
//!
//! In: files and folders of modules, options, an output folder, perhaps a cache. Out: an artifact for each module with
//! the bytes that `murre compile` writes, and a manifest. One idea a file:
//!
//! ```text
//! plan       inputs -> units (module, output name), and the shard of them that is ours
//! identity   module -> key: its structure, the options and the compiler, but not its names
//! names      program of a structure + names of a module -> program of the module
//! cache      key -> program, on disk, shared by processes          memo  the same inside a process
//! worker     units -> artifact bytes and manifest rows             together  small modules compiled in one world
//! commit     bytes -> a durable file: written beside, synced, renamed
//! journal    rows so far, for --resume                              manifest  all rows, in order
//! run        threads, stop and summary
//! ```
//!
//! Structurally identical modules are compiled once. They differ in names and metadata only, and those reach nothing but
//! texts of the artifact: a structure is compiled with marks instead of names, and the marks are replaced for each module.
//! What a killed run leaves is whole: an output has its name only when all of its bytes are on disk, a journal row is
//! written after its output, a cache entry carries its digest.

pub mod cache;
pub mod commit;
pub mod identity;
pub mod journal;
pub mod manifest;
pub mod memo;
pub mod names;
pub mod plan;
pub mod run;
pub mod together;
pub mod worker;

pub use manifest::{Row, Status};
pub use plan::{Shard, Unit, plan};
pub use run::{Report, Request, run};
pub use worker::Origin;
