//! The machine-level program as tables: instructions, access patterns, registers, locations, loop axes, DMA blocks
//! and descriptors. Each kind is one archetype whose entities carry all their components from their spawn, so that
//! a kind's table is a struct of arrays whose row is the dense id: `contiguous_iter` gives the columns as slices.
//!
//! Order is apart from storage: a pass that inserts appends rows and rewrites [`Order`]; nothing is despawned,
//! moved or sorted.

pub mod ap;
pub mod axis;
pub mod branch;
pub mod dma;
pub mod dynamic;
pub mod expr;
pub mod expr_eval;
pub mod expr_json;
pub mod inst;
pub mod loc;
pub mod order;
pub mod reg;
pub mod signature;

pub use ap::*;
pub use axis::*;
pub use dma::*;
pub use dynamic::*;
pub use expr::*;
pub use expr_eval::*;
pub use inst::*;
pub use loc::*;
pub use order::*;
pub use reg::*;
pub use signature::*;
