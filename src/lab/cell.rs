//! One setting, measured. In: a module and a setting; the process must have made no pool before. Out: the digest of the
//! artifact, the time of each run, and the median time of each pass. The first run is not timed: it faults memory in.

use crate::artifact;
use murre_components::diag::{Diagnostic, Severity};
use murre_components::hlo::HloModule;
use murre_systems::compile::set_threads;
use murre_systems::watch::Watch;
use murre_systems::{CompileOptions, Compiler, ExecutorChoice, Stage};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What a compilation is run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The executor.
    pub executor: ExecutorChoice,
    /// Threads of the pool.
    pub threads: u16,
    /// Rows of a batch of a sweep.
    pub batch_rows: u32,
}

impl Setting {
    /// The executor's name on the command line.
    pub fn executor_name(self) -> &'static str {
        match self.executor {
            ExecutorChoice::Single => "single",
            ExecutorChoice::Multi => "multi",
        }
    }
}

/// As one argument: `multi:2:4096`.
impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.executor_name(), self.threads, self.batch_rows)
    }
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no EXECUTOR:THREADS:ROWS");
        let mut parts = text.split(':');
        let executor = match parts.next() {
            Some("single") => ExecutorChoice::Single,
            Some("multi") => ExecutorChoice::Multi,
            _ => return Err(bad()),
        };
        let threads = parts.next().and_then(|t| t.parse().ok()).filter(|t| *t > 0).ok_or_else(bad)?;
        let batch_rows = parts.next().and_then(|t| t.parse().ok()).filter(|r| *r > 0).ok_or_else(bad)?;
        if parts.next().is_some() { Err(bad()) } else { Ok(Setting { executor, threads, batch_rows }) }
    }
}

/// What a setting came to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Digest of the artifact.
    pub digest: String,
    /// Microseconds of each run, schedule included, in ascending order.
    pub us: Vec<f64>,
    /// Median microseconds of each pass that ran, by name, in the order in which they first ran.
    pub passes: Vec<(String, f64)>,
}

impl Measured {
    /// The middle run.
    pub fn median_us(&self) -> f64 {
        median(&self.us)
    }
}

fn median(ascending: &[f64]) -> f64 {
    ascending.get(ascending.len() / 2).copied().unwrap_or(0.0)
}

/// Compiles a module once and then `runs` times more, with a setting.
pub fn measure(
    module: &HloModule,
    options: &CompileOptions,
    setting: Setting,
    runs: u32,
) -> Result<Measured, Vec<Diagnostic>> {
    set_threads(setting.threads as usize);
    let options = CompileOptions {
        executor: setting.executor,
        batch_rows: Some(setting.batch_rows),
        ..options.clone()
    };
    let (mut us, mut digest) = (Vec::new(), String::new());
    let mut passes: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for run in 0..=runs {
        let (module, watch) = (module.clone(), Watch::default());
        let begin = Instant::now();
        let mut compiler = Compiler::new(module, options.clone());
        compiler.world.insert_resource(watch.clone());
        compiler.run(&Stage::ALL);
        let took = begin.elapsed();
        let outcome = compiler.finish();
        if run == 0 {
            digest = digest_of(outcome)?;
            continue;
        }
        us.push(took.as_secs_f64() * 1e6);
        for span in watch.recorded().spans {
            let spent = span.took.as_secs_f64() * 1e6;
            match passes.iter_mut().find(|(name, _)| *name == span.pass.name) {
                Some((_, times)) => times.push(spent),
                None => passes.push((span.pass.name, vec![spent])),
            }
        }
    }
    us.sort_by(f64::total_cmp);
    let passes = passes.into_iter().map(|(name, mut times)| {
        times.sort_by(f64::total_cmp);
        (name.to_string(), median(&times))
    });
    Ok(Measured { digest, us, passes: passes.collect() })
}

fn digest_of(outcome: murre_systems::CompileOutcome) -> Result<String, Vec<Diagnostic>> {
    match &outcome.program {
        Some(program) => Ok(blake3::hash(&artifact::write(program)).to_hex().to_string()),
        None if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) => Err(outcome.diagnostics),
        None => Err(vec![crate::check::no_program()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_one_argument() {
        let setting = Setting { executor: ExecutorChoice::Multi, threads: 3, batch_rows: 64 };
        assert_eq!(setting.to_string().parse(), Ok(setting));
        for bad in ["", "multi", "both:1:1", "multi:0:1", "multi:1:x", "multi:1:1:1"] {
            assert!(bad.parse::<Setting>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cell_has_a_time_a_run_and_a_time_a_pass() {
        let text = "HloModule m\nENTRY main {\n a = f32[4] parameter(0)\n ROOT r = f32[4] negate(a)\n}\n";
        let module = crate::hlo::read_module(text.as_bytes(), "m").unwrap();
        let setting = Setting { executor: ExecutorChoice::Single, threads: 1, batch_rows: 4 };
        let measured = measure(&module, &CompileOptions::default(), setting, 3).unwrap();
        assert_eq!(measured.us.len(), 3);
        assert!(measured.us.is_sorted() && measured.median_us() == measured.us[1]);
        assert!(measured.passes.iter().any(|p| p.0 == "encode_records"));
        assert_eq!(measured.digest.len(), 64);
    }
}
