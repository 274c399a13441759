//! Time by pass, and order by step. In: each pass with the time that it took, in the order in which they ran; or the
//! steps of a simulation. Out: a table, JSON, or a trace in the event format that chrome://tracing and Perfetto read.

use crate::sim::TraceStep;
use murre_components::engine::EngineId;
use murre_components::isa::disassemble;
use murre_components::program::Program;
use murre_systems::Pass;
use serde_json::{Value, json};
use std::time::Duration;

/// The passes that ran and how long each took.
#[derive(Default)]
pub struct Timeline {
    rows: Vec<(&'static Pass, Duration)>,
}

impl Timeline {
    /// Adds a pass that has run.
    pub fn add(&mut self, pass: &'static Pass, took: Duration) {
        self.rows.push((pass, took));
    }

    fn total(&self) -> Duration {
        self.rows.iter().map(|r| r.1).sum()
    }

    /// A table, slow passes not hidden: every pass, its stage, microseconds, share.
    pub fn text(&self) -> String {
        let total = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut out = format!("{:>10}  {:>5}  {:<14} pass\n", "us", "%", "stage");
        for (pass, took) in &self.rows {
            let (us, share) = (took.as_secs_f64() * 1e6, took.as_secs_f64() / total * 100.0);
            out += &format!("{us:>10.1}  {share:>5.1}  {:<14} {}\n", pass.stage.name(), pass.name);
        }
        out + &format!("{:>10.1}  {:>5.1}  {:<14} total\n", total * 1e6, 100.0, "")
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|(p, took)| json!({ "pass": p.name, "stage": p.stage.name(), "us": took.as_secs_f64() * 1e6 }))
            .collect();
        json!({ "passes": rows, "total_us": self.total().as_secs_f64() * 1e6 })
    }

    /// Complete events, one a pass, behind each other on one track.
    pub fn chrome_trace(&self) -> String {
        let mut at = Duration::ZERO;
        let events: Vec<Value> = self
            .rows
            .iter()
            .map(|(p, took)| {
                let begin = at;
                at += *took;
                json!({
                    "name": p.name, "cat": p.stage.name(), "ph": "X", "pid": 1, "tid": 1,
                    "ts": begin.as_secs_f64() * 1e6, "dur": took.as_secs_f64() * 1e6,
                    "args": { "about": p.about },
                })
            })
            .collect();
        json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
    }
}

/// The steps of a simulation as a trace: a track an engine or queue, a microsecond a step. A step is named by its
/// record and carries the HLO instruction that it serves. Steps say who was before whom, not how long anything took.
pub fn steps_trace(program: &Program, steps: &[TraceStep]) -> String {
    let engines = EngineId::STREAMS.len();
    let event = |step: &TraceStep| {
        let actor = step.actor as usize;
        let record = program.streams.get(actor).and_then(|s| s.get(step.record as usize));
        let name = match record {
            Some(r) => disassemble(r).split(' ').next().unwrap_or_default().to_string(),
            None => "transfer".to_string(),
        };
        let from = program.provenance.streams.get(actor).and_then(|s| s.get(step.record as usize));
        let hlo = from.and_then(|k| program.provenance.names.get(*k as usize));
        json!({
            "name": name, "ph": "X", "pid": 1, "tid": actor, "ts": step.step, "dur": 1,
            "args": { "record": step.record, "hlo": hlo },
        })
    };
    let last = steps.iter().map(|s| s.actor as usize).max().unwrap_or(0);
    let names = (0..=last).map(|actor| {
        let name = match (EngineId::STREAMS.get(actor), program.queues.get(actor.wrapping_sub(engines))) {
            (Some(engine), _) => engine.name().to_string(),
            (None, Some(queue)) => queue.name.clone(),
            (None, None) => {
                let k = actor - engines - program.queues.len();
                format!("own queue of {}", EngineId::STREAMS.get(k).map_or("?", |e| e.name()))
            }
        };
        json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": actor, "args": { "name": name } })
    });
    let events: Vec<Value> = names.chain(steps.iter().map(event)).collect();
    json!({ "traceEvents": events }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_systems::passes;

    #[test]
    fn steps_stand_on_the_track_of_their_actor() {
        let mut program = Program::empty("m", murre_components::engine::Target::Trn2);
        program.streams[1].push([0xFF; 64]);
        let steps = [(0, 1), (1, 7)].map(|(step, actor)| TraceStep { step, actor, record: 0 });
        let trace: Value = serde_json::from_str(&steps_trace(&program, &steps)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 8 + 2);
        assert_eq!(events[1]["args"]["name"], "act");
        assert_eq!(events[7]["args"]["name"], "own queue of pe");
        assert_eq!(events[9]["name"], "transfer");
    }

    #[test]
    fn events_follow_each_other() {
        let mut timeline = Timeline::default();
        for pass in passes().take(3) {
            timeline.add(pass, Duration::from_micros(10));
        }
        let trace: Value = serde_json::from_str(&timeline.chrome_trace()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let starts: Vec<f64> = events.iter().map(|e| e["ts"].as_f64().unwrap()).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().zip([0.0, 10.0, 20.0]).all(|(a, b)| (a - b).abs() < 1e-6));
        assert_eq!(timeline.text().lines().count(), 5);
        assert!((timeline.json()["total_us"].as_f64().unwrap() - 30.0).abs() < 1e-6);
    }
}
