//! What a compilation is asked to do.

use crate::pass::Stage;
use bevy_ecs::prelude::Resource;
use murre_components::costs::CostModel;
use murre_components::engine::{DEFAULT_DGE_SCRATCH_BYTES, Target};

/// The DGE levels (`spec/ir.md 7.1`), a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DgeLevels(pub u8);

impl DgeLevels {
    /// Names in table order; bit `k` is level `k`.
    pub const NAMES: [&'static str; 6] = [
        "spill_reload",
        "scalar_dynamic_offset",
        "vector_dynamic_offsets",
        "dynamic_size",
        "dst_reduce",
        "transpose",
    ];
    /// Spill and reload DMAs.
    pub const SPILL_RELOAD: u8 = 1;
    /// Scalar run-time offsets.
    pub const SCALAR: u8 = 2;
    /// Vectors of run-time offsets.
    pub const VECTOR: u8 = 4;
    /// Run-time sizes.
    pub const DYNAMIC_SIZE: u8 = 8;
    /// Accumulation at the destination.
    pub const DST_REDUCE: u8 = 16;
    /// Transposes.
    pub const TRANSPOSE: u8 = 32;

    /// Whether any of `mask` is enabled.
    pub fn has(self, mask: u8) -> bool {
        self.0 & mask != 0
    }

    /// Parses a comma-separated list; `none` is the empty set. The error names the unknown level.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut bits = 0;
        for name in list.split(',').map(str::trim).filter(|n| !n.is_empty() && *n != "none") {
            match Self::NAMES.iter().position(|n| *n == name) {
                Some(k) => bits |= 1 << k,
                None => return Err(name.to_string()),
            }
        }
        Ok(DgeLevels(bits))
    }
}

impl Default for DgeLevels {
    fn default() -> Self {
        DgeLevels(Self::SCALAR | Self::VECTOR)
    }
}

/// Which executor runs the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ExecutorChoice {
    /// One thread, systems in a fixed legal order.
    #[default]
    Single,
    /// Systems without conflicts run at once on the compute pool.
    Multi,
}

/// Options of a compilation. The bytes depend on `target`, `dge_levels`, the sizes, the limit, `share_dram` and
/// `pointer_bases` only.
#[derive(Resource, Clone, Debug)]
pub struct CompileOptions {
    /// The generation.
    pub target: Target,
    /// DGE levels.
    pub dge_levels: DgeLevels,
    /// Bytes a partition of the dynamic-DMA scratch (D18).
    pub dge_scratch_bytes: u32,
    /// Bytes a partition of SBUF to use at most, the reserved ones included; the generation's own size when `None`.
    /// See [`CompileOptions::sbuf_fault`].
    pub sbuf_limit: Option<u32>,
    /// Most matrix multiplications that a dot is unrolled to; a larger one becomes static loops over its tiles.
    pub unroll_limit: u32,
    /// Whether DRAM arrays of the program's own that are never alive together share a variable.
    pub share_dram: bool,
    /// Whether the base of an on-chip run-time address is loaded from memory instead of being an immediate (D13).
    pub pointer_bases: bool,
    /// How the ids of index arguments are renumbered; the bytes do not depend on it.
    pub index_numbering: IndexNumbering,
    /// Whether the `verify_*` passes run.
    pub verify: bool,
    /// Last stage to run.
    pub stop_after: Option<Stage>,
    /// Executor.
    pub executor: ExecutorChoice,
    /// How to estimate the cost of the program; no estimate when `None`.
    pub estimate: Option<EstimateOptions>,
}

/// How the ids of an instruction's index arguments become dense (D11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexNumbering {
    /// The rank among the collected ids: 3 and 7 become 0 and 1.
    #[default]
    Rank,
    /// The id less the number of smaller collected ids: 3 and 7 become 3 and 6.
    Subtract,
}

/// How to estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EstimateOptions {
    /// The formulas.
    pub model: CostModel,
    /// Trips of every loop whose trips are known at run time only.
    pub trips: Option<u64>,
}

impl CompileOptions {
    /// Whether a stage has anything to do at all: nobody pays for an estimate that was not asked for.
    pub fn wants(&self, stage: Stage) -> bool {
        stage != Stage::Estimate || self.estimate.is_some()
    }
}

impl CompileOptions {
    /// Bytes at the low end of a partition that no tile may use: the scratch and what the generation keeps.
    pub fn sbuf_reserved(&self) -> u32 {
        self.target.profile().sbuf_reserved_bytes.max(self.dge_scratch_bytes)
    }

    /// What is wrong with `sbuf_limit`, if anything: it is a multiple of 64, not under the reserved bytes and not over
    /// what the target has.
    pub fn sbuf_fault(&self) -> Option<String> {
        let limit = self.sbuf_limit?;
        let (least, most) = (self.sbuf_reserved(), self.target.profile().sbuf_partition_bytes);
        let good = limit.is_multiple_of(64) && (least..=most).contains(&limit);
        (!good).then(|| {
            format!("{limit} is not a multiple of 64 from {least} to {most}, what {} has", self.target.name())
        })
    }
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            target: Target::Trn2,
            dge_levels: DgeLevels::default(),
            dge_scratch_bytes: DEFAULT_DGE_SCRATCH_BYTES,
            sbuf_limit: None,
            unroll_limit: 512,
            share_dram: true,
            pointer_bases: false,
            index_numbering: IndexNumbering::Rank,
            verify: false,
            stop_after: None,
            executor: ExecutorChoice::Single,
            estimate: None,
        }
    }
}
