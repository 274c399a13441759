//! DMA queues, blocks and descriptors (`spec/ir.md 9`, `spec/isa.md 4`, D6).

use crate::engine::EngineId;
use crate::ids::{DescId, DmaBlockId, HloId, InstId, QueueId};
use bevy_ecs::prelude::{Bundle, Component};

/// Queue type (`spec/ir.md 3.1`, 8.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum QueueKind {
    Input = 0,
    Output = 1,
    Data = 2,
    Dynamic = 8,
}

/// A DMA queue.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct QueueHead {
    pub engine: EngineId,
    pub kind: QueueKind,
    /// Instance number, when more than one queue has this engine and kind.
    pub instance: u8,
    /// Completion semaphore, written by stage 8.
    pub semaphore: u8,
}

/// What the descriptors of a block do (`spec/ir.md 9.4`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DmaFamily {
    /// Copy or cast.
    #[default]
    Copy = 0,
    /// Tiles are turned.
    Transpose = 1,
    /// Combines with what stands at the destination.
    Cce = 2,
    /// Writes the same source several times.
    Replicate = 3,
    /// Reads the address of a variable.
    ReadVarAddr = 4,
}

/// A block of descriptors behind one trigger.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct BlockHead {
    pub queue: QueueId,
    pub first: DescId,
    pub count: u32,
    pub trigger: InstId,
    pub family: DmaFamily,
}

/// One side of a 2-D descriptor: `base + i1 * step1 + i0 * step0`, `run` contiguous bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct DescSide {
    /// DRAM: byte offset in the variable. SBUF: linear address (`partition << 18 | offset`).
    pub base: u32,
    /// Variable id, `u32::MAX` for SBUF.
    pub var: u32,
    /// Byte step of the faster dimension.
    pub step0: i32,
    /// Byte step of the slower dimension.
    pub step1: i32,
    /// Count of the faster dimension, at least 1.
    pub num0: u16,
    /// Count of the slower dimension, at least 1.
    pub num1: u16,
    /// Bytes of the contiguous run, 1..=65536.
    pub run: u32,
}

/// Head of a descriptor.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct DescHead {
    pub block: DmaBlockId,
    pub hlo: HloId,
    /// Wire dtype tags of source and destination.
    pub src_tag: u8,
    pub dst_tag: u8,
    /// Completion semaphore and increment; increment 0 is none.
    pub sem: u8,
    pub sem_inc: u8,
}

/// Source side.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescSrc(pub DescSide);

/// Destination side.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescDst(pub DescSide);

/// The archetype of a descriptor.
#[derive(Bundle, Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct DescRow {
    pub head: DescHead,
    pub src: DescSrc,
    pub dst: DescDst,
}

const _: () = assert!(size_of::<QueueHead>() == 4);
const _: () = assert!(size_of::<BlockHead>() == 20);
const _: () = assert!(size_of::<DescSide>() == 24);
const _: () = assert!(size_of::<DescHead>() == 12);
