//! Values of a run beside the story. In: a story, its program and the bytes of its inputs. Out: what each register of the way
//! held, where each access went, how often each loop ran. The watched records are those of the story, on every engine.

use super::{AccessStory, Place, Step, Story, Values, Way};
use crate::sim::{self, Sample, Seen, SimOptions, Watch};
use murre_components::diag::Diagnostic;
use murre_components::program::Program;

impl Story {
    /// Runs the program once and fills in what was seen.
    #[allow(clippy::result_large_err)] // one diagnostic a run
    pub fn observe(&mut self, program: &Program, inputs: &[Vec<u8>]) -> Result<(), Diagnostic> {
        let mut watches: Vec<Watch> = Vec::new();
        for step in self.loads.iter().chain(&self.arithmetic).chain(&self.control) {
            watches.push(watch(step, None));
        }
        watches.extend(self.accesses.iter().map(|a| watch(&a.step, a.vector)));
        for engine in self.loops.iter().flat_map(|l| &l.engines) {
            let record = engine.steps_at.unwrap_or(u32::MAX);
            let registers = engine.counter_colour.into_iter().collect();
            watches.push(Watch { engine: engine.stream, record, registers, sbuf: None });
        }
        let options = SimOptions { watches, ..SimOptions::default() };
        let mut seen = sim::run(program, inputs, &options)?.seen.into_iter();
        for step in self.loads.iter_mut().chain(&mut self.arithmetic).chain(&mut self.control) {
            let known = step.record.is_some() && !step.watched.is_empty();
            step.values = seen.next().filter(|_| known).map(|s| values(&s, step.unsigned));
        }
        for access in &mut self.accesses {
            if let Some(seen) = seen.next() {
                access.fill(&seen);
            }
        }
        for story in &mut self.loops {
            for engine in &mut story.engines {
                let Some(seen) = seen.next().filter(|_| engine.steps_at.is_some()) else { continue };
                story.trips = Some(story.trips.unwrap_or_default().max(seen.runs));
                engine.values = engine.counter_colour.map(|_| values(&seen, story.unsigned));
            }
        }
        self.simulated = true;
        Ok(())
    }
}

fn watch(step: &Step, sbuf: Option<(u32, u32)>) -> Watch {
    Watch {
        engine: Way::stream(step.engine).unwrap_or(usize::MAX),
        record: step.record.unwrap_or(u32::MAX),
        registers: step.watched.clone(),
        sbuf,
    }
}

/// The number in one register or in a pair.
fn number(sample: &Sample, unsigned: bool) -> Option<i64> {
    match sample.registers.as_slice() {
        [Some(low)] if unsigned => Some(i64::from(*low)),
        [Some(low)] => Some(i64::from(*low as i32)),
        [Some(low), Some(high)] => Some((u64::from(*low) | u64::from(*high) << 32) as i64),
        _ => None,
    }
}

fn values(seen: &Seen, unsigned: bool) -> Values {
    Values {
        runs: seen.runs,
        first: seen.first.iter().map(|s| number(s, unsigned)).collect(),
        last: seen.last.as_ref().and_then(|s| number(s, unsigned)),
    }
}

/// Bits of an on-chip address behind its partition.
const PARTITION_SHIFT: u32 = 18;

impl AccessStory {
    fn fill(&mut self, seen: &Seen) {
        self.runs = Some(seen.runs);
        let last = seen.last.iter().filter(|_| seen.runs > seen.first.len() as u64);
        for sample in seen.first.iter().chain(last) {
            let Some(offset) = number(sample, true) else { continue };
            self.places.push(match self.table {
                Some((_, var, displacement)) => Place {
                    offset,
                    variable: Some(var),
                    partition: None,
                    byte: displacement.wrapping_add(offset as u64),
                },
                None => Place {
                    offset,
                    variable: None,
                    partition: Some((offset as u64 >> PARTITION_SHIFT) as u32),
                    byte: offset as u64 & ((1 << PARTITION_SHIFT) - 1),
                },
            });
        }
        let bytes = seen.last.as_ref().map(|s| s.bytes.as_slice()).unwrap_or_default();
        self.offsets =
            bytes.chunks_exact(4).filter_map(|b| Some(u32::from_le_bytes(b.try_into().ok()?))).collect();
    }
}
