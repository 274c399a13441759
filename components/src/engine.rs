//! Engines and targets: what the profile of each generation offers. Facts: `spec/isa.md 6.3, 6.5, 7`,
//! `spec/ir.md 3.1, 9.3, 10.1`, `spec/decisions.md`.

use serde::{Deserialize, Serialize};

/// An engine, by its IR ordinal. Never on the wire: an engine is the stream a record stands in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum EngineId {
    /// Not bound yet.
    Unassigned = 0,
    /// GpSimd.
    Pool = 1,
    /// Scalar engine.
    Activation = 2,
    /// Tensor engine.
    Pe = 3,
    /// The abstract DMA engine, replaced by an issuing engine before encoding.
    Dma = 4,
    /// Vector engine.
    Dve = 5,
    /// Sync engine: a sequencer without a data path.
    Sp = 6,
    /// Every data-path engine; an instruction on it is cloned per engine.
    All = 7,
}

impl EngineId {
    /// The five engines that have a stream, in the order in which the artifact stores them.
    pub const STREAMS: [EngineId; 5] =
        [EngineId::Pool, EngineId::Activation, EngineId::Pe, EngineId::Dve, EngineId::Sp];

    /// Position in [`Self::STREAMS`].
    #[inline]
    pub fn stream(self) -> Option<usize> {
        // A table by ordinal: asked several times for each instruction, and a jump costs more.
        const NONE: u8 = u8::MAX;
        const STREAM: [u8; 8] = [NONE, 0, 1, 2, NONE, 3, 4, NONE];
        let stream = STREAM[self as usize];
        (stream != NONE).then_some(usize::from(stream))
    }

    /// The engine with this ordinal.
    pub fn from_ordinal(n: u8) -> Option<EngineId> {
        Some(match n {
            0 => EngineId::Unassigned,
            1 => EngineId::Pool,
            2 => EngineId::Activation,
            3 => EngineId::Pe,
            4 => EngineId::Dma,
            5 => EngineId::Dve,
            6 => EngineId::Sp,
            7 => EngineId::All,
            _ => return None,
        })
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            EngineId::Unassigned => "unassigned",
            EngineId::Pool => "pool",
            EngineId::Activation => "act",
            EngineId::Pe => "pe",
            EngineId::Dma => "dma",
            EngineId::Dve => "dve",
            EngineId::Sp => "sp",
            EngineId::All => "all",
        }
    }
}

/// A target generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// Generation 2.
    Trn1,
    /// Generation 3.
    Trn2,
    /// Generation 4.
    Trn3,
    /// Generation 5.
    CoreV5,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 4] = [Target::Trn1, Target::Trn2, Target::Trn3, Target::CoreV5];

    /// The name on the command line and in the artifact.
    pub fn name(self) -> &'static str {
        match self {
            Target::Trn1 => "trn1",
            Target::Trn2 => "trn2",
            Target::Trn3 => "trn3",
            Target::CoreV5 => "core_v5",
        }
    }

    /// The target with this name.
    pub fn from_name(name: &str) -> Option<Target> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// The architecture level that passes test.
    pub fn arch(self) -> u32 {
        match self {
            Target::Trn1 => 20,
            Target::Trn2 => 30,
            Target::Trn3 => 40,
            Target::CoreV5 => 50,
        }
    }

    /// Sizes and limits.
    pub fn profile(self) -> TargetProfile {
        let (sbuf_partition_bytes, sbuf_reserved_bytes) = match self {
            Target::Trn1 => (0x30000, 0x4000),
            Target::Trn2 => (0x38000, 0x4008),
            Target::Trn3 | Target::CoreV5 => (0x40000, 0x4008),
        };
        TargetProfile { target: self, sbuf_partition_bytes, sbuf_reserved_bytes }
    }
}

/// Sizes that differ between generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetProfile {
    /// The generation.
    pub target: Target,
    /// Active SBUF bytes of a partition.
    pub sbuf_partition_bytes: u32,
    /// Bytes at the low end of every partition that belong to the dynamic-DMA scratch (and a word behind it from
    /// generation 3 on). Data tiles start above.
    pub sbuf_reserved_bytes: u32,
}

/// Partitions of SBUF and PSUM.
pub const PARTITIONS: u32 = 128;
/// Address stride from one SBUF partition to the next, bytes.
pub const SBUF_PARTITION_STRIDE: u32 = 0x40000;
/// Address stride from one PSUM partition to the next, bytes.
pub const PSUM_PARTITION_STRIDE: u32 = 0x8000;
/// First address of PSUM.
pub const PSUM_BASE: u32 = 0x0200_0000;
/// PSUM banks.
pub const PSUM_BANKS: u32 = 8;
/// Bytes of a PSUM bank in one partition.
pub const PSUM_BANK_BYTES: u32 = 2048;
/// Registers that the colouring may hand out (62 and 63 are kept for call and return).
pub const ALLOCATABLE_REGISTERS: u32 = 62;
/// Semaphores of the core, of which the first [`RESERVED_SEMAPHORES`] are the runtime's.
pub const SEMAPHORES: u32 = 256;
/// Semaphores kept by the runtime (D20).
pub const RESERVED_SEMAPHORES: u32 = 3;
/// Most bytes a descriptor moves (D1).
pub const MAX_DESCRIPTOR_BYTES: u32 = 65_536;
/// Fewest bytes a descriptor of a DGE-routed static copy should move (D2).
pub const MIN_DGE_DESCRIPTOR_BYTES: u32 = 512;
/// Ring depth of the software descriptor generator, and of pre-built rings (D3).
pub const SWDGE_RING_DEPTH: u32 = 1_020;
/// Ring depth of the hardware descriptor generator.
pub const HWDGE_RING_DEPTH: u32 = 65_520;
/// DMA queues of a core.
pub const MAX_QUEUES: u32 = 176;
/// Default size of the dynamic-DMA scratch, bytes a partition (D18).
pub const DEFAULT_DGE_SCRATCH_BYTES: u32 = 16_384;
