//! What things cost: every number of the estimate, by target, in one place. In: a target. Out: [`TargetCosts`].
//!
//! Published (`spec/hw.md 0 C1, C2, C18; 1.1; 2; 3; 6`): clocks, DMA rates, HBM bandwidth, the 1300 ns start of a DMA, the
//! 600 ns of hardware descriptor generation, the 64-cycle floor, 150 cycles of start-up on Pool, 100 cycles until a
//! dependent instruction may follow. From the other compiler's model (`spec/ir.md 11.1`): the cost of software descriptor
//! generation and everything in [`OracleCosts`]. The rest is assumed, says so at its field, and is a guess about
//! magnitude only.

use crate::engine::Target;
use serde::{Deserialize, Serialize};

/// Which formulas an estimate uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostModel {
    /// The published per-instruction formulas (`spec/hw.md 6`).
    #[default]
    Hw,
    /// The scheduling model of the compiler that the profile describes (`spec/ir.md 11.1`).
    Oracle,
}

impl CostModel {
    /// Every model.
    pub const ALL: [CostModel; 2] = [CostModel::Hw, CostModel::Oracle];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CostModel::Hw => "hw",
            CostModel::Oracle => "oracle",
        }
    }

    /// The model with this name.
    pub fn from_name(name: &str) -> Option<CostModel> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// DMA engines of a core.
pub const DMA_ENGINES: usize = 16;

/// The constants of [`CostModel::Oracle`]. Its formulas are `floor((elements * mult + base) * 100 / frequency)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OracleCosts {
    /// Frequency of Pool, Act and PE, in units of 10 MHz.
    pub frequency: u64,
    /// Frequency of DVE, in units of 10 MHz.
    pub dve_frequency: u64,
    /// Nanoseconds of software descriptor generation.
    pub swdge_ns: f64,
    /// Nanoseconds of hardware descriptor generation.
    pub hwdge_ns: f64,
    /// Cycles before a 16-bit, a 32-bit and any other activation.
    pub activation_cycles: [u64; 3],
}

/// Costs of one target. Times in nanoseconds, rates in bytes a nanosecond (GB/s), clocks in cycles a nanosecond (GHz).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TargetCosts {
    /// Clocks in the order of `EngineId::STREAMS`. SP's is not published; it is taken as Pool's.
    pub clock: [f64; 5],
    /// Fewest cycles from one data instruction of an engine to its next.
    pub floor_cycles: f64,
    /// Cycles that Pool needs before its first element.
    pub pool_start_cycles: f64,
    /// Cycles from the end of an instruction's own time until another engine sees its result. Instructions of one engine
    /// do not wait for it.
    pub result_cycles: f64,
    /// Load of an activation table.
    pub table_load_ns: f64,
    /// Rate of one of the [`DMA_ENGINES`].
    pub dma_rate: f64,
    /// What a row costs besides its bytes, in bytes of time. Assumed: 280 makes rows of 2 KiB 88 % efficient and rows of
    /// 256 bytes 48 %, where the documentation recommends 2 KiB at least and calls 256 bytes mostly overhead.
    pub dma_row_bytes: f64,
    /// From the start of a DMA to its first byte; starts of different DMAs overlap.
    pub dma_start_ns: f64,
    /// Hardware descriptor generation, before the start.
    pub hwdge_ns: f64,
    /// Software descriptor generation, time of Pool.
    pub swdge_ns: f64,
    /// This core's share of the chip's HBM bandwidth.
    pub hbm_rate: f64,
    /// Whether DVE has the two- and fourfold modes (`spec/hw.md 6.6`).
    pub vector_modes: bool,
    /// Whether Act copies two 16-bit elements at once.
    pub scalar_modes: bool,
    /// Cycles of a register operation. Assumed.
    pub alu_cycles: f64,
    /// Cycles of a branch. Assumed: a refill of the sequencer.
    pub branch_cycles: f64,
    /// Cycles of a semaphore instruction or another that only synchronises. Assumed.
    pub event_cycles: f64,
    /// Cycles to issue a DMA. Assumed.
    pub issue_cycles: f64,
    /// From the arrival of the last engine at a barrier until all go on. Assumed.
    pub barrier_ns: f64,
    /// Read of a scalar from DRAM into a register. Assumed: a round trip to HBM.
    pub scalar_load_ns: f64,
    /// The alternative model.
    pub oracle: OracleCosts,
}

impl Target {
    /// What things cost on this target. `core_v5` has no published figures; it is taken as trn3.
    pub fn costs(self) -> TargetCosts {
        // Clocks of Pool, Act, PE, DVE; DMA rate; HBM of the chip in GB/s and the cores that share it.
        let (pool, act, pe, dve, dma_rate, hbm, cores) = match self {
            Target::Trn1 => (1.4, 1.4, 2.8, 1.12, 17.0, 820.0, 2.0),
            Target::Trn2 => (1.2, 1.2, 2.4, 0.96, 23.0, 2900.0, 8.0),
            Target::Trn3 | Target::CoreV5 => (1.2, 1.2, 2.4, 1.2, 33.0, 4900.0, 8.0),
        };
        // ir.md 11.1: 500 ns on generation 2; bases of 700 and 500 cycles at 1.2 GHz after it.
        let (frequency, dve_frequency, swdge_ns, oracle_hwdge_ns) = match self {
            Target::Trn1 => (140, 112, 500.0, 0.0),
            Target::Trn2 => (120, 96, 583.0, 416.0),
            Target::Trn3 | Target::CoreV5 => (120, 120, 583.0, 416.0),
        };
        let later = self.arch() >= 40;
        TargetCosts {
            clock: [pool, act, pe, dve, pool],
            floor_cycles: 64.0,
            pool_start_cycles: 150.0,
            result_cycles: 100.0,
            table_load_ns: 1300.0,
            dma_rate,
            dma_row_bytes: 280.0,
            dma_start_ns: 1300.0,
            hwdge_ns: 600.0,
            swdge_ns,
            hbm_rate: hbm / cores,
            vector_modes: self.arch() >= 30,
            scalar_modes: later,
            alu_cycles: 16.0,
            branch_cycles: 32.0,
            event_cycles: 16.0,
            issue_cycles: 64.0,
            barrier_ns: 100.0,
            scalar_load_ns: 500.0,
            oracle: OracleCosts {
                frequency,
                dve_frequency,
                swdge_ns,
                hwdge_ns: oracle_hwdge_ns,
                activation_cycles: if later { [222, 172, 100] } else { [0; 3] },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_those_of_the_core() {
        let of = |t: Target| (t.costs().dma_rate * DMA_ENGINES as f64, t.costs().hbm_rate);
        assert_eq!(of(Target::Trn1), (272.0, 410.0));
        assert_eq!(of(Target::Trn2), (368.0, 362.5));
        assert_eq!(of(Target::Trn3), (528.0, 612.5));
    }

    #[test]
    fn rows_of_two_kibibytes_are_efficient_and_short_ones_are_not() {
        let efficiency = |bytes: f64| bytes / (bytes + Target::Trn2.costs().dma_row_bytes);
        assert!((0.85..0.90).contains(&efficiency(2048.0)));
        assert!(efficiency(256.0) < 0.5 && efficiency(4096.0) > 0.93);
    }

    #[test]
    fn models_have_names() {
        for m in CostModel::ALL {
            assert_eq!(CostModel::from_name(m.name()), Some(m));
        }
        assert_eq!(CostModel::from_name("x"), None);
    }
}
