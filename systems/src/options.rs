//! What a compilation is asked to do.

use crate::pass::Stage;
use bevy_ecs::prelude::Resource;
use murre_components::costs::CostModel;
use murre_components::engine::{DEFAULT_DGE_SCRATCH_BYTES, Target};

/// The DGE levels (`spec/ir.md 7.1`), a set: which copies the descriptor generators may build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DgeLevels(pub u8);

impl DgeLevels {
    /// Names in table order; bit `k` is level `k`, and `k` is the ordinal that users may write instead.
    pub const NAMES: [&'static str; 7] = [
        "spill_reload",
        "scalar_dynamic_offset",
        "vector_dynamic_offsets",
        "dynamic_size",
        "dst_reduce",
        "transpose",
        "io",
    ];
    /// What a level does here, in table order.
    pub const ABOUT: [&'static str; 7] = [
        "spills and reloads may be generated",
        "copies with an offset in a register; this or the next level has to be on for either kind",
        "copies with a vector of offsets; this or the level before has to be on for either kind",
        "copies of a run-time size: there are none, arrays are kept at their bounds; changes nothing",
        "a scatter may combine at its destination; without it such a scatter is a loop",
        "transposing copies: none are emitted, transposes are copies or run on PE; changes nothing",
        "input and output copies may be generated",
    ];
    /// Spill and reload DMAs.
    pub const SPILL_RELOAD: u8 = 1;
    /// Scalar run-time offsets.
    pub const SCALAR: u8 = 2;
    /// Vectors of run-time offsets.
    pub const VECTOR: u8 = 4;
    /// Run-time sizes. No copy of this compiler has one: arrays are kept at their bounds.
    pub const DYNAMIC_SIZE: u8 = 8;
    /// Accumulation at the destination.
    pub const DST_REDUCE: u8 = 16;
    /// Transposes.
    pub const TRANSPOSE: u8 = 32;
    /// Copies of network inputs and outputs, the level of the newer build.
    pub const IO: u8 = 64;
    /// Every level.
    pub const ALL: DgeLevels = DgeLevels(0x7F);
    /// No level.
    pub const NONE: DgeLevels = DgeLevels(0);

    /// Whether any of `mask` is enabled.
    pub fn has(self, mask: u8) -> bool {
        self.0 & mask != 0
    }

    /// Parses a comma-separated list of names and ordinals, or `all`, or `none`. The error names everything that is no
    /// level, and what may have been meant.
    pub fn parse(list: &str) -> Result<Self, String> {
        match list.trim() {
            "all" => return Ok(Self::ALL),
            "none" => return Ok(Self::NONE),
            _ => {}
        }
        let (mut bits, mut unknown) = (0, Vec::new());
        for name in list.split(',').map(str::trim) {
            let level = match name.parse::<usize>() {
                Ok(ordinal) => Some(ordinal).filter(|k| *k < Self::NAMES.len()),
                Err(_) => Self::NAMES.iter().position(|n| *n == name),
            };
            match level {
                Some(k) => bits |= 1 << k,
                None if matches!(name, "all" | "none") => {
                    unknown.push(format!("'{name}' stands alone, not in a list"))
                }
                None => unknown.push(Self::stranger(name)),
            }
        }
        if unknown.is_empty() {
            return Ok(DgeLevels(bits));
        }
        let known: Vec<String> = Self::NAMES.iter().enumerate().map(|(k, n)| format!("{n} ({k})")).collect();
        Err(format!("{}; levels are {}, or 'all', or 'none'", unknown.join(", "), known.join(", ")))
    }

    /// A name that is no level, with the nearest one that is.
    fn stranger(name: &str) -> String {
        let near = |level: &&str| match name {
            "" => usize::MAX,
            _ if level.contains(name) => 0,
            _ => edits(name, level),
        };
        let best = Self::NAMES.iter().min_by_key(|n| near(n)).filter(|n| near(n) <= (name.len() / 3).max(1));
        match best {
            Some(level) => format!("no level is called '{name}' (did you mean '{level}'?)"),
            None => format!("no level is called '{name}'"),
        }
    }
}

/// Insertions, removals and replacements that make `a` of `b`.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

impl Default for DgeLevels {
    fn default() -> Self {
        DgeLevels(Self::SCALAR | Self::VECTOR | Self::DST_REDUCE | Self::IO)
    }
}

/// Which generator to take where both could build a copy (`spec/ir.md 7.2`, 14-c).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DgeRoute {
    /// The primary route of the table: software, hardware where only that fits.
    #[default]
    Auto,
    /// Never hardware.
    Software,
    /// Hardware wherever it can.
    Hardware,
}

impl DgeRoute {
    /// Every choice.
    pub const ALL: [DgeRoute; 3] = [DgeRoute::Auto, DgeRoute::Software, DgeRoute::Hardware];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DgeRoute::Auto => "auto",
            DgeRoute::Software => "sw",
            DgeRoute::Hardware => "hw",
        }
    }

    /// The choice with this name.
    pub fn from_name(name: &str) -> Option<DgeRoute> {
        Self::ALL.into_iter().find(|r| r.name() == name)
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

/// Options of a compilation. The bytes depend on `target`, `dge_levels`, `dge_route`, the sizes, the limit, `share_dram` and
/// `pointer_bases` only.
#[derive(Resource, Clone, Debug)]
pub struct CompileOptions {
    /// The generation.
    pub target: Target,
    /// DGE levels.
    pub dge_levels: DgeLevels,
    /// Which generator to take where there is a choice.
    pub dge_route: DgeRoute,
    /// Bytes a partition of the dynamic-DMA scratch (D18), a multiple of 64; 0 when no copy is generated by software.
    /// See [`CompileOptions::scratch_fault`].
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
    /// Seed of a random legal order of the passes; the table's when `None`.
    pub shuffle: Option<u64>,
    /// Seed of random entity ids, table order and batch sizes; plain ones when `None`.
    pub chaos: Option<u64>,
    /// Rows of a batch where a sweep may be split; see [`crate::sweep::batch_rows`].
    pub batch_rows: Option<u32>,
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
    /// Bytes at the low end of a partition that no tile may use: the scratch, and from generation 3 on a word behind it.
    /// The profile's reserved bytes are those of the default scratch, so nothing is subtracted twice (D18).
    pub fn sbuf_reserved(&self) -> u32 {
        let behind = self.target.profile().sbuf_reserved_bytes.saturating_sub(DEFAULT_DGE_SCRATCH_BYTES);
        self.dge_scratch_bytes.saturating_add(behind)
    }

    /// What is wrong with `dge_scratch_bytes`, if anything: it is a multiple of 64 and leaves a tile of 64 bytes.
    pub fn scratch_fault(&self) -> Option<String> {
        let (bytes, whole) = (self.dge_scratch_bytes, self.target.profile().sbuf_partition_bytes);
        let most = whole - 128;
        (!bytes.is_multiple_of(64) || bytes > most).then(|| {
            format!("{bytes} is not a multiple of 64 from 0 to {most}; {} has {whole}", self.target.name())
        })
    }

    /// What is wrong with `sbuf_limit`, if anything: it is a multiple of 64, more than the reserved bytes and not over
    /// what the target has.
    pub fn sbuf_fault(&self) -> Option<String> {
        let limit = self.sbuf_limit?;
        let least = (self.sbuf_reserved() + 1).next_multiple_of(64);
        let most = self.target.profile().sbuf_partition_bytes;
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
            dge_route: DgeRoute::default(),
            dge_scratch_bytes: DEFAULT_DGE_SCRATCH_BYTES,
            sbuf_limit: None,
            unroll_limit: 512,
            share_dram: true,
            pointer_bases: false,
            index_numbering: IndexNumbering::Rank,
            verify: false,
            stop_after: None,
            executor: ExecutorChoice::Single,
            shuffle: None,
            chaos: None,
            batch_rows: None,
            estimate: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_names_ordinals_all_or_none() {
        let of = |list: &str| DgeLevels::parse(list).map(|l| l.0);
        assert_eq!(of("all"), Ok(0x7F));
        assert_eq!(of("none"), Ok(0));
        assert_eq!(of("6, 1"), Ok(DgeLevels::IO | DgeLevels::SCALAR));
        for (k, name) in DgeLevels::NAMES.iter().enumerate() {
            assert_eq!((of(name), of(&k.to_string())), (Ok(1 << k), Ok(1 << k)), "{name}");
        }
    }

    #[test]
    fn what_is_no_level_is_named_with_what_may_be_meant() {
        let fault = |list| DgeLevels::parse(list).expect_err("no level");
        assert!(fault("scalar").contains("'scalar' (did you mean 'scalar_dynamic_offset'?)"));
        assert!(fault("io,transpse").contains("'transpse' (did you mean 'transpose'?)"));
        let two = fault("spil_reload,7,io");
        assert!(
            two.contains("'spil_reload' (did you mean 'spill_reload'?)") && two.contains("called '7';"),
            "{two}"
        );
        assert!(fault("io,none").contains("'none' stands alone"));
        assert!(fault("").contains("dst_reduce (4)") && !fault("").contains("did you mean"));
        assert!(!fault("qqqqqqqq").contains("did you mean"));
    }

    #[test]
    fn the_scratch_is_reserved_once() {
        let of =
            |target, dge_scratch_bytes| CompileOptions { target, dge_scratch_bytes, ..Default::default() };
        for (target, scratch, reserved) in [
            (Target::Trn1, 16_384, 0x4000),
            (Target::Trn2, 16_384, 0x4008),
            (Target::Trn3, 1024, 1032),
            (Target::Trn1, 0, 0),
            (Target::CoreV5, 65_536, 65_544),
        ] {
            let o = of(target, scratch);
            assert_eq!((o.sbuf_reserved(), o.scratch_fault()), (reserved, None));
            assert!(o.sbuf_reserved() <= target.profile().sbuf_reserved_bytes || scratch > 16_384);
        }
        for bytes in [1, 100, 0x38000, u32::MAX - 63] {
            assert!(of(Target::Trn2, bytes).scratch_fault().is_some(), "{bytes}");
        }
    }
}
