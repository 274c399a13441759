//! Dependences become semaphores and fences.

mod alloc_semaphores;
mod build_edges;
mod lower_control;

pub use alloc_semaphores::AllocSemaphores;
pub use build_edges::BuildEdges;
pub use lower_control::LowerControl;
