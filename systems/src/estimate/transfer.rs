//! The time of one DMA. In: its rows, a row being one contiguous run of bytes. Out: [`Transfer`].
//!
//! Rows go round the 16 DMA engines; a row takes the time of its bytes and of [`TargetCosts::dma_row_bytes`] more. The
//! transfer lasts as long as the engine with most to do (`spec/hw.md 2`), and no shorter than HBM needs for the bytes
//! that it reads from and writes to DRAM. What it takes away from other transfers is the mean over the engines, or
//! HBM's time when that is longer. Under the other compiler's model a row costs its bytes alone (`spec/ir.md 11.1`).

use murre_components::bir::*;
use murre_components::costs::{CostModel, DMA_ENGINES, TargetCosts};

/// One DMA: what it moves and how long it takes behind its start.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Transfer {
    /// Contiguous runs.
    pub rows: u64,
    /// Bytes copied, the larger of both sides.
    pub bytes: u64,
    /// Bytes read from DRAM.
    pub read: u64,
    /// Bytes written to DRAM.
    pub written: u64,
    /// From the first byte to the last.
    pub duration: f64,
    /// Time for which it takes all DMA engines, or HBM, from others.
    pub occupancy: f64,
}

/// Rates of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    row_bytes: f64,
    rate: f64,
    hbm: f64,
    /// From the issue until the first byte.
    pub start: f64,
    /// Time of Pool to generate descriptors.
    pub swdge: f64,
    /// Time until hardware has generated descriptors.
    pub hwdge: f64,
}

impl Rates {
    /// The rates of a target.
    pub fn new(model: CostModel, costs: &TargetCosts) -> Self {
        let hw = model == CostModel::Hw;
        Rates {
            row_bytes: if hw { costs.dma_row_bytes } else { 0.0 },
            rate: costs.dma_rate,
            hbm: costs.hbm_rate,
            start: costs.dma_start_ns,
            swdge: if hw { costs.swdge_ns } else { costs.oracle.swdge_ns },
            hwdge: if hw { costs.hwdge_ns } else { costs.oracle.hwdge_ns },
        }
    }
}

/// A transfer while its rows are dealt.
#[derive(Debug)]
pub struct Dealing {
    rates: Rates,
    out: Transfer,
    /// Time that every engine has, and what some have besides.
    common: f64,
    extra: [f64; DMA_ENGINES],
    next: usize,
}

impl Dealing {
    /// No rows yet.
    pub fn new(rates: Rates) -> Self {
        Dealing { rates, out: Transfer::default(), common: 0.0, extra: [0.0; DMA_ENGINES], next: 0 }
    }

    /// Deals `rows` rows of so many bytes on each side; `None` for a side that is not DRAM.
    #[inline]
    pub fn rows(&mut self, rows: u64, run: u64, read: Option<u64>, written: Option<u64>) {
        let time = (run as f64 + self.rates.row_bytes) / self.rates.rate;
        self.common += (rows / DMA_ENGINES as u64) as f64 * time;
        for _ in 0..rows % DMA_ENGINES as u64 {
            self.extra[self.next] += time;
            self.next = (self.next + 1) % DMA_ENGINES;
        }
        self.out.rows = self.out.rows.saturating_add(rows);
        self.out.bytes = self.out.bytes.saturating_add(rows.saturating_mul(run));
        self.out.read = self.out.read.saturating_add(rows.saturating_mul(read.unwrap_or(0)));
        self.out.written = self.out.written.saturating_add(rows.saturating_mul(written.unwrap_or(0)));
    }

    /// Deals the rows of a descriptor.
    #[inline]
    pub fn descriptor(&mut self, src: &DescSide, dst: &DescSide) {
        let count = |s: &DescSide| u64::from(s.num0.max(1)) * u64::from(s.num1.max(1));
        let dram = |s: &DescSide| (s.var != u32::MAX).then_some(u64::from(s.run));
        let run = u64::from(src.run.max(dst.run));
        self.rows(count(src).max(count(dst)), run, dram(src), dram(dst));
    }

    /// The transfer.
    pub fn finish(self) -> Transfer {
        let most = self.common + self.extra.iter().copied().fold(0.0, f64::max);
        let mean = self.common + self.extra.iter().sum::<f64>() / DMA_ENGINES as f64;
        let hbm = (self.out.read as f64 + self.out.written as f64) / self.rates.hbm;
        Transfer { duration: most.max(hbm), occupancy: mean.max(hbm), ..self.out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;

    fn transfer(model: CostModel, target: Target, rows: u64, run: u64) -> Transfer {
        let mut d = Dealing::new(Rates::new(model, &target.costs()));
        d.rows(rows, run, Some(run), None);
        d.finish()
    }

    #[test]
    fn one_engine_takes_the_published_time() {
        // Published: 32 KiB on one engine of trn2 take 1416 ns.
        let t = transfer(CostModel::Hw, Target::Trn2, 1, 32 << 10);
        assert!((t.duration / 1416.0 - 1.0).abs() < 0.02, "{}", t.duration);
        let t = transfer(CostModel::Hw, Target::Trn1, 1, 32 << 10);
        assert!((t.occupancy * 16.0 - t.duration).abs() < 1e-9, "one engine of sixteen");
        let o = transfer(CostModel::Oracle, Target::Trn2, 1, 32 << 10);
        assert_eq!(o.duration, 32768.0 / 23.0);
    }

    #[test]
    fn rows_go_round_the_engines_and_hbm_is_a_bound() {
        let one = transfer(CostModel::Hw, Target::Trn1, 1, 2048).duration;
        assert_eq!(transfer(CostModel::Hw, Target::Trn1, 16, 2048).duration, one);
        assert_eq!(transfer(CostModel::Hw, Target::Trn1, 17, 2048).duration, 2.0 * one);
        // Sixteen engines of trn2 are faster than its share of HBM, rows of 64 KiB show it.
        let t = transfer(CostModel::Hw, Target::Trn2, 1600, 65_536);
        assert_eq!((t.duration, t.occupancy), (1600.0 * 65_536.0 / 362.5, t.duration));
        let t = transfer(CostModel::Hw, Target::Trn1, 1600, 65_536);
        assert!(t.duration > 1600.0 * 65_536.0 / 272.0, "the engines hold it");
    }

    #[test]
    fn descriptors_count_each_side_in_its_own_bytes() {
        let side = |var, run| DescSide { var, run, num0: 8, num1: 2, ..Default::default() };
        let mut d = Dealing::new(Rates::new(CostModel::Hw, &Target::Trn2.costs()));
        d.descriptor(&side(3, 64), &side(u32::MAX, 128));
        let t = d.finish();
        assert_eq!((t.rows, t.bytes, t.read, t.written), (16, 2048, 1024, 0));
    }
}
