//! Registers get physical ids.

mod coalesce_moves;
mod color_registers;
mod drop_dead_registers;
mod drop_identity_moves;
mod reg_liveness;

pub use coalesce_moves::CoalesceMoves;
pub use color_registers::ColorRegisters;
pub use drop_dead_registers::DropDeadRegisters;
pub use drop_identity_moves::DropIdentityMoves;
pub use reg_liveness::RegLiveness;
