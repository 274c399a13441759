//! The back end as it is usually written: an object graph. Instructions are boxed, operands are lists of objects that
//! point to registers and locations, registers know their definitions and uses, and passes are objects that a manager
//! calls one after the other. It is meant to be good code of its kind: pointers instead of look-ups, lists kept up to
//! date instead of recomputed, nothing slower than the style asks for. It does what eight passes of murre do, to the
//! same result: [`registers`] is `drop_dead_registers`, `reg_liveness`, `color_registers`, `drop_identity_moves`,
//! `pack_addr4`; [`records`] is `build_edges`, `pack_addr4`, `encode_descriptors`.

mod graph;
mod passes;
mod waits;

pub use graph::{Instruction, Program};
pub use passes::PassManager;

/// The passes behind the address stage.
pub fn registers() -> PassManager {
    passes::manager()
}

/// The passes behind the block cut.
pub fn records() -> PassManager {
    PassManager(vec![
        Box::new(waits::BuildEdges),
        Box::new(passes::PackAddr4),
        Box::new(waits::EncodeDescriptors),
    ])
}
