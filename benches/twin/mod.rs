//! The back end as it is usually written: an object graph. Instructions are boxed and counted, operands point to
//! locations and registers, registers to the instructions that write and read them, branches to labels; run-time offsets
//! are trees of expressions; passes are objects that a manager calls one after the other. It is meant to be good code of
//! its kind: pointers instead of look-ups, what belongs to a thing inside it, use lists kept up to date instead of
//! recomputed, nothing slower than the style asks for.
//!
//! In: a placed program in rows ([`Program::new`]). Out: its records, words and tables ([`Program::encoded`]).
//! [`back_end`] has a twin of every pass of the stages `address` to `encode` except the checks, one file each, named
//! like its original, with the same steps and the same result. What synthetic programs do not contain is refused: loops
//! that are not counted, sums of quotients, vectors of offsets, 64-bit offsets, copies of several records, compute
//! operations other than those of `systems::synth`, and more registers than there are. What both sides call are leaves:
//! `isa::encode`, the geometry of a copy (`copy_shape`), the route predicate, the intervals of loops (`LoopHulls`).

mod address;
mod build;
mod describe;
mod encode;
mod graph;
mod instruction;
mod pass;
mod registers;
mod route;
mod sync;
mod walk;

pub use graph::Program;
pub use pass::PassManager;

/// The passes from a placed program to its bytes.
pub fn back_end() -> PassManager {
    PassManager(vec![
        Box::new(address::LowerBranch),
        Box::new(address::ExpandAllEngine),
        Box::new(address::RewireDynamicApRegisters),
        Box::new(address::ExpandDynamicApInfo),
        Box::new(address::LowerAp),
        Box::new(registers::DropDeadRegisters),
        Box::new(registers::CoalesceMoves),
        Box::new(registers::RegLiveness),
        Box::new(registers::ColorRegisters),
        Box::new(registers::DropIdentityMoves),
        Box::new(route::DynamicDmaScan),
        Box::new(route::AssignTriggerEngine),
        Box::new(route::AssignHwdgeEngine),
        Box::new(route::AllocQueues),
        Box::new(route::DynamicDmaCleanup),
        Box::new(describe::LowerDynamicDma),
        Box::new(describe::LowerDma),
        Box::new(describe::SplitLargeDmas),
        Box::new(describe::ConvertDmaToTrigger),
        Box::new(sync::LowerControl),
        Box::new(sync::BuildEdges),
        Box::new(sync::AllocSemaphores),
        Box::new(encode::PackAddr4),
        Box::new(encode::LayoutRecords),
        Box::new(encode::EncodeRecords),
        Box::new(encode::EncodeDescriptors),
        Box::new(encode::AssembleProgram),
    ])
}
