//! Watched records: what registers hold when a record has run. In: which record of which engine, and which registers (and
//! bytes of SBUF) to look at. Out: how often it ran, and what was seen at its first runs and at its last one. A run without
//! watches pays one test a step.
//!
//! ```text
//! watch pool record 14, registers [2]  ->  ran 3 times; r2 = 0, 32 ... 64
//! ```

use super::core::Core;
use super::memory::Region;

/// Runs of a record that are kept besides the last one.
pub const KEPT_RUNS: usize = 3;

/// A record to look at.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Index of the engine's stream.
    pub engine: usize,
    /// The record.
    pub record: u32,
    /// Registers to read behind it.
    pub registers: Vec<u8>,
    /// First byte and number of bytes of SBUF partition 0 to read behind it.
    pub sbuf: Option<(u32, u32)>,
}

/// One run of a watched record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The words of the registers; `None` for one that nobody wrote.
    pub registers: Vec<Option<u32>>,
    /// The bytes of SBUF, empty where nobody wrote them all.
    pub bytes: Vec<u8>,
    /// The engine's next record.
    pub next: u32,
}

/// What became of a watched record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How often it ran.
    pub runs: u64,
    /// Its first [`KEPT_RUNS`] runs.
    pub first: Vec<Sample>,
    /// Its last run.
    pub last: Option<Sample>,
}

/// The watches of a run, by engine and record.
pub struct Watches {
    /// By engine: `(record, watch)`, sorted.
    at: [Vec<(u32, usize)>; 5],
    watches: Vec<Watch>,
    /// Parallel to the watches.
    pub seen: Vec<Seen>,
}

impl Watches {
    /// Watches in the order of their results; those of an engine that does not exist never run.
    pub fn new(watches: &[Watch]) -> Watches {
        let mut at: [Vec<(u32, usize)>; 5] = Default::default();
        for (k, w) in watches.iter().enumerate() {
            if let Some(list) = at.get_mut(w.engine) {
                list.push((w.record, k));
            }
        }
        at.iter_mut().for_each(|list| list.sort_unstable());
        Watches { at, watches: watches.to_vec(), seen: vec![Seen::default(); watches.len()] }
    }

    /// Record `record` of `engine` has run; `next` is the engine's next one.
    pub fn ran(&mut self, core: &Core, engine: usize, record: usize, next: usize) {
        let Some(list) = self.at.get(engine) else { return };
        let first = list.partition_point(|(r, _)| (*r as usize) < record);
        for (_, k) in list.iter().skip(first).take_while(|(r, _)| *r as usize == record) {
            let (Some(watch), Some(seen)) = (self.watches.get(*k), self.seen.get_mut(*k)) else { continue };
            let registers = watch.registers.iter().map(|id| core.registers[engine].get(*id).ok()).collect();
            let bytes = watch.sbuf.and_then(|(first, count)| {
                let at = core.memory.flat(Region::Sbuf, 0, first as usize);
                core.memory.read(Region::Sbuf, at, count as usize).ok().map(<[u8]>::to_vec)
            });
            let sample = Sample { registers, bytes: bytes.unwrap_or_default(), next: next as u32 };
            seen.runs += 1;
            if seen.first.len() < KEPT_RUNS {
                seen.first.push(sample.clone());
            }
            seen.last = Some(sample);
        }
    }
}
