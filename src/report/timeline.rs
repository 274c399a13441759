//! Time by pass, and order by step. In: each run of a pass as the watch recorded it, with the rows that it went over; or
//! the steps of a simulation. Out: a table, JSON, or a trace in the event format that chrome://tracing and Perfetto read.

use crate::sim::TraceStep;
use murre_components::engine::EngineId;
use murre_components::isa::disassemble;
use murre_components::program::Program;
use murre_systems::watch::{Recorded, Span, Usage};
use serde_json::{Value, json};
use std::time::Duration;

/// A pass that has run.
struct Row {
    span: Span,
    rows: u64,
    added: u64,
}

/// The passes that ran, how long each took, and over how much.
#[derive(Default)]
pub struct Timeline {
    rows: Vec<Row>,
}

impl Timeline {
    /// Adds a pass that has run over tables of `rows` rows and added `added` to them.
    pub fn add(&mut self, span: Span, rows: u64, added: u64) {
        self.rows.push(Row { span, rows, added });
    }

    fn total(&self) -> Duration {
        self.rows.iter().map(|r| r.span.took).sum()
    }

    /// A table, slow passes not hidden: time, share, rows of the tables that the pass touches, rows added, time by row,
    /// memory asked for.
    pub fn text(&self) -> String {
        let total = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        let mut out = format!(
            "{:>10}  {:>5}  {:>9}  {:>8}  {:>8}  {:>8}  {:>11}  {:>11}  {:<14} pass\n",
            "us", "%", "rows", "added", "ns/row", "allocs", "bytes", "peak bytes", "stage"
        );
        for Row { span, rows, added } in &self.rows {
            let (us, share) = (span.took.as_secs_f64() * 1e6, span.took.as_secs_f64() / total * 100.0);
            let per_row = by_row(span.took, *rows).map_or("-".to_string(), |ns| format!("{ns:.1}"));
            let memory = span.usage.unwrap_or_default();
            out += &format!(
                "{us:>10.1}  {share:>5.1}  {rows:>9}  {added:>8}  {per_row:>8}  {:>8}  {:>11}  {:>11}  {:<14} {}\n",
                memory.allocations,
                memory.bytes,
                memory.peak,
                span.pass.stage.name(),
                span.pass.name
            );
        }
        let memory = |f: fn(Usage) -> u64| self.rows.iter().filter_map(|r| r.span.usage).map(f);
        out + &format!(
            "{:>10.1}  {:>5.1}  {:>9}  {:>8}  {:>8}  {:>8}  {:>11}  {:>11}  {:<14} total\n",
            total * 1e6,
            100.0,
            "",
            self.rows.iter().map(|r| r.added).sum::<u64>(),
            "",
            memory(|u| u.allocations).sum::<u64>(),
            memory(|u| u.bytes).sum::<u64>(),
            memory(|u| u.peak).max().unwrap_or(0),
            ""
        )
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|Row { span, rows, added }| {
                let memory = span.usage.unwrap_or_default();
                json!({
                    "pass": span.pass.name, "stage": span.pass.stage.name(), "us": span.took.as_secs_f64() * 1e6,
                    "rows": rows, "added": added, "ns_per_row": by_row(span.took, *rows),
                    "allocations": memory.allocations, "allocated_bytes": memory.bytes, "peak_bytes": memory.peak,
                })
            })
            .collect();
        json!({ "passes": rows, "total_us": self.total().as_secs_f64() * 1e6 })
    }
}

/// Nanoseconds a row, if there are rows.
fn by_row(took: Duration, rows: u64) -> Option<f64> {
    (rows > 0).then(|| took.as_nanos() as f64 / rows as f64)
}

/// Runs of passes as a trace: a track a thread, a span a run.
pub fn passes_trace(recorded: &Recorded) -> String {
    let process = json!({ "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "murre" } });
    let threads = recorded.threads.iter().enumerate().map(|(tid, thread)| {
        json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": { "name": thread.name } })
    });
    let spans = recorded.spans.iter().map(|s| {
        json!({
            "name": s.pass.name, "cat": s.pass.stage.name(), "ph": "X", "pid": 1, "tid": s.thread,
            "ts": s.begin.as_secs_f64() * 1e6, "dur": s.took.as_secs_f64() * 1e6,
            "args": { "about": s.pass.about, "stage": s.pass.stage.name() },
        })
    });
    let events: Vec<Value> = std::iter::once(process).chain(threads).chain(spans).collect();
    json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
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
    fn times_are_by_row_and_spans_stand_on_the_track_of_their_thread() {
        let spans: Vec<Span> = passes()
            .take(3)
            .enumerate()
            .map(|(k, pass)| Span {
                pass,
                begin: Duration::from_micros(10 * k as u64),
                took: Duration::from_micros(10),
                thread: k % 2,
                usage: Some(Usage { allocations: 2, bytes: 100, peak: 50 }),
            })
            .collect();
        let mut timeline = Timeline::default();
        for (k, span) in spans.iter().enumerate() {
            timeline.add(span.clone(), 100 * k as u64, 1);
        }
        assert_eq!(timeline.text().lines().count(), 5);
        let value = timeline.json();
        assert!((value["total_us"].as_f64().unwrap() - 30.0).abs() < 1e-6);
        assert_eq!(value["passes"][0]["ns_per_row"], Value::Null);
        assert_eq!(value["passes"][1]["ns_per_row"], 100.0);
        assert_eq!(value["passes"][1]["allocations"], 2);
        let trace: Value =
            serde_json::from_str(&passes_trace(&Recorded { spans, ..Recorded::default() })).unwrap();
        let events: Vec<&Value> =
            trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
        let of = |key: &str| events.iter().map(|e| e[key].as_f64().unwrap()).collect::<Vec<f64>>();
        assert_eq!((of("ts"), of("tid")), (vec![0.0, 10.0, 20.0], vec![0.0, 1.0, 0.0]));
    }
}
