//! The back end as it is usually written: an object graph. Instructions are boxed, operands are lists of objects that
//! point to registers and locations, registers know their definitions and uses, and passes are objects that a manager
//! calls one after the other. It is meant to be good code of its kind: pointers instead of look-ups, lists kept up to
//! date instead of recomputed, nothing slower than the style asks for. It does what five passes of murre do, to the
//! same result: `drop_dead_registers`, `reg_liveness`, `color_registers`, `drop_identity_moves`, `pack_addr4`.

mod graph;
mod passes;

pub use graph::Program;
pub use passes::manager;
