//! The critical path. In: the time of each pass, measured with one thread. Out: the longest chain of passes that have to
//! wait for each other, which no number of threads can shorten, and the parallelism available: all passes together by
//! that chain. Stages wait for each other; inside a stage passes wait where their data says so
//! (`murre_systems::order`). Sweeps that are split among threads shorten a pass, and so the chain, but not this ratio.
//!
//! ```text
//! stage 1: a 10 us, b 20 us, b waits for a      chain 30 us
//! stage 2: c 10 us, d 15 us, no conflict        chain 15 us      all 55 us, path 45 us: 1.22
//! ```

use murre_systems::order::{PassOrder, edges};
use murre_systems::{Stage, passes};

/// The longest chain.
#[derive(Clone, PartialEq, Debug)]
pub struct Critical {
    /// All passes together.
    pub total_us: f64,
    /// The chain.
    pub path_us: f64,
    /// Its passes and their times, in order.
    pub path: Vec<(&'static str, f64)>,
}

impl Critical {
    /// How many passes could run at once, on average.
    pub fn parallelism(&self) -> f64 {
        if self.path_us > 0.0 { self.total_us / self.path_us } else { 1.0 }
    }
}

/// Finds it. Passes that are not listed took no time.
pub fn critical_path(times: &[(String, f64)]) -> Critical {
    let time_of = |name: &str| times.iter().find(|(n, _)| n == name).map_or(0.0, |t| t.1);
    let waits = edges(&Stage::ALL, PassOrder::Free);
    let mut out = Critical { total_us: times.iter().map(|t| t.1).sum(), path_us: 0.0, path: Vec::new() };
    // By row: when its pass can end at the earliest, counted from the begin of its stage, and after which row.
    let mut ends: Vec<(f64, Option<usize>)> = Vec::new();
    let rows: Vec<_> = passes().collect();
    for (row, pass) in rows.iter().enumerate() {
        let before = waits.iter().filter(|e| e.1 as usize == row).map(|e| e.0 as usize);
        let latest = before.max_by(|a, b| ends[*a].0.total_cmp(&ends[*b].0));
        ends.push((latest.map_or(0.0, |b| ends[b].0) + time_of(pass.name), latest));
    }
    for stage in Stage::ALL {
        let of_stage = (0..rows.len()).filter(|r| rows[*r].stage == stage);
        let mut at = of_stage.max_by(|a, b| ends[*a].0.total_cmp(&ends[*b].0));
        out.path_us += at.map_or(0.0, |row| ends[row].0);
        let mut chain = Vec::new();
        while let Some(row) = at {
            chain.push((rows[row].name, time_of(rows[row].name)));
            at = ends[row].1;
        }
        out.path.extend(chain.into_iter().rev().filter(|(_, us)| *us > 0.0));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[(&str, f64)]) -> Critical {
        critical_path(&times.iter().map(|(n, t)| (n.to_string(), *t)).collect::<Vec<_>>())
    }

    #[test]
    fn passes_that_wait_add_up_and_others_do_not() {
        let chain = of(&[("color_psum", 10.0), ("color_sbuf", 20.0), ("encode_records", 5.0)]);
        assert_eq!((chain.total_us, chain.path_us, chain.parallelism()), (35.0, 35.0, 1.0));
        assert_eq!(chain.path, [("color_psum", 10.0), ("color_sbuf", 20.0), ("encode_records", 5.0)]);
        let beside = of(&[("pack_addr4", 10.0), ("encode_descriptors", 30.0)]);
        assert_eq!((beside.total_us, beside.path_us), (40.0, 30.0));
        assert_eq!(beside.path, [("encode_descriptors", 30.0)]);
        assert_eq!(of(&[]).parallelism(), 1.0);
    }
}
