//! Time by pass. In: each pass with the time that it took, in the order in which they ran. Out: a table, JSON, or a
//! trace in the event format that chrome://tracing and Perfetto read.

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

#[cfg(test)]
mod tests {
    use super::*;
    use murre_systems::passes;

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
