//! One case. In: its directory. Out: passed, or each thing that went wrong in a line. A panic inside is caught and is
//! a failed case, so that the others still run.

use super::fixed::{FixedCounts, fix_scalars};
use super::{SimulateOptions, evaluate, no_program, simulate, verified_module};
use crate::array::HostArray;
use crate::array::case::{Case, Vector, load_case};
use crate::{artifact, report};
use murre_components::diag::{Diagnostic, Severity, codes::cli::CLI_CASE, codes::cli::CLI_FILE};
use murre_components::engine::Target;
use murre_components::hlo::HloModule;
use murre_components::program::Program;
use murre_systems::{CompileOptions, DgeRoute, compile};
use serde_json::{Value, json};
use std::path::Path;

/// What is checked. Without targets nothing is compiled.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// The evaluator instead of compiler and simulator.
    pub eval: bool,
    /// Generations to compile for.
    pub targets: Vec<Target>,
    /// Seed of the simulator's interleaving.
    pub interleave: Option<u64>,
    /// Bytes of an SBUF partition to use, the target's own number when `None`.
    pub sbuf_limit: Option<u32>,
    /// Seed of a random legal order of the passes.
    pub shuffle: Option<u64>,
    /// Seed of random entity ids, table order and batch sizes.
    pub chaos: Option<u64>,
    /// Generator to take where both can.
    pub dge_route: DgeRoute,
}

/// How a case came out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Everything agrees.
    Passed,
    /// Something of the case was refused: a file, the module, an array.
    Fault,
    /// A result differs from its golden.
    Differs,
    /// A bug of ours.
    Internal,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Passed => "ok",
            Status::Fault => "refused",
            Status::Differs => "differs",
            Status::Internal => "internal",
        }
    }
}

/// The verdict on a case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case's directory name.
    pub name: String,
    /// The worst that happened.
    pub status: Status,
    /// Comparisons that were made.
    pub vectors: usize,
    /// What went wrong, the first things first.
    pub notes: Vec<String>,
    /// What fixing its scalars gave, when that was asked for.
    pub fixed: Option<FixedCounts>,
}

/// Notes that are kept of a case; the rest is counted.
const MAX_NOTES: usize = 8;

impl CaseReport {
    fn note(&mut self, status: Status, what: String) {
        self.status = self.status.max(status);
        self.notes.push(what);
    }

    fn faults(&mut self, context: &str, faults: &[Diagnostic]) {
        for d in faults.iter().filter(|d| d.severity == Severity::Error) {
            let status = if report::is_internal(d) { Status::Internal } else { Status::Fault };
            self.note(status, format!("{context}: {}", report::diagnostic_text(d).trim_end()));
        }
    }

    /// A line for the case, and a line for each thing that went wrong.
    pub fn text(&self) -> String {
        let mut out = format!("{:<8} {} ({} runs)", self.status.name(), self.name, self.vectors);
        if let Some(f) = &self.fixed {
            out += &match f.scalars.is_empty() {
                true => " no scalar of its steers anything".into(),
                false => format!(
                    " fixed {}: {} values too long, {} of {} steered records coincide",
                    f.scalars.join(", "),
                    f.skipped,
                    f.coincide,
                    f.steered
                ),
            };
        }
        for note in self.notes.iter().take(MAX_NOTES) {
            out += &format!("\n    {}", note.replace('\n', "\n    "));
        }
        if self.notes.len() > MAX_NOTES {
            out += &format!("\n    and {} more", self.notes.len() - MAX_NOTES);
        }
        out
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "case": self.name, "status": self.status.name(), "runs": self.vectors, "notes": self.notes,
        });
        if let Some(fixed) = &self.fixed {
            value["fixed"] = json!(fixed);
        }
        value
    }
}

/// Checks the case in `dir`.
pub fn check_case(dir: &Path, options: &CheckOptions) -> CaseReport {
    guarded(dir, |report| check(dir, options, report))
}

/// Compares the case's program with the programs that have its run-time scalars as constants.
pub fn fix_case(dir: &Path, options: &CheckOptions) -> CaseReport {
    guarded(dir, |report| fix(dir, options, report))
}

/// Runs one case; a panic in it is a failed case.
fn guarded(dir: &Path, one: impl Fn(&mut CaseReport) -> Result<(), Vec<Diagnostic>>) -> CaseReport {
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    let report = CaseReport { name, status: Status::Passed, vectors: 0, notes: Vec::new(), fixed: None };
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut report = report.clone();
        if let Err(faults) = one(&mut report) {
            report.faults("case", &faults);
        }
        report
    }));
    checked.unwrap_or_else(|_| {
        let mut report = report;
        report.note(Status::Internal, "the program panicked in this case".into());
        report
    })
}

fn check(dir: &Path, options: &CheckOptions, report: &mut CaseReport) -> Result<(), Vec<Diagnostic>> {
    let case = load_case(dir).map_err(|d| vec![d])?;
    let forms: Vec<&str> =
        ["module.hlo.txt", "module.hlo.pb"].into_iter().filter(|f| dir.join(f).is_file()).collect();
    if forms.is_empty() {
        let fault = Diagnostic::error(&CLI_CASE, "neither module.hlo.txt nor module.hlo.pb is there");
        return Err(vec![fault.in_file(dir.display().to_string())]);
    }
    let mut ran: Vec<(Target, Vec<u8>)> = Vec::new();
    for form in forms {
        let path = dir.join(form);
        let module = std::fs::read(&path)
            .map_err(|e| {
                let fault = Diagnostic::error(&CLI_FILE, format!("the file cannot be read: {e}"));
                vec![fault.in_file(path.display().to_string())]
            })
            .and_then(|bytes| verified_module(&bytes.into(), &path.display().to_string()));
        let module = match module {
            Ok(module) => module,
            Err(faults) => {
                report.faults(form, &faults);
                continue;
            }
        };
        if options.eval {
            // The evaluator rounds every intermediate, so it must meet the strict goldens too.
            compare_vectors(&case, form, true, report, |inputs| evaluate(&module, inputs));
            continue;
        }
        for &target in &options.targets {
            let context = format!("{form} {}", target.name());
            match bytes_of(module.clone(), target, options) {
                Err(faults) => report.faults(&context, &faults),
                Ok(bytes) => {
                    if ran.iter().any(|(t, b)| *t == target && *b == bytes) {
                        continue;
                    }
                    match artifact::read(&bytes) {
                        Err(fault) => report.faults(&context, &[fault]),
                        Ok(program) => run_vectors(&case, &context, report, &program, options),
                    }
                    ran.push((target, bytes));
                }
            }
        }
    }
    Ok(())
}

/// Fixes the scalars of the first form that is there, for each target.
fn fix(dir: &Path, options: &CheckOptions, report: &mut CaseReport) -> Result<(), Vec<Diagnostic>> {
    let case = load_case(dir).map_err(|d| vec![d])?;
    let path = dir.join("module.hlo.txt");
    let bytes = std::fs::read(&path).map_err(|e| {
        let fault = Diagnostic::error(&CLI_FILE, format!("the file cannot be read: {e}"));
        vec![fault.in_file(path.display().to_string())]
    })?;
    let module = verified_module(&bytes.into(), &path.display().to_string())?;
    let vectors = case.vectors.iter().map(|v| case.read_inputs(v)).collect::<Result<Vec<_>, _>>()?;
    let mut all = FixedCounts::default();
    for &target in &options.targets {
        let compile = CompileOptions { target, sbuf_limit: options.sbuf_limit, ..CompileOptions::default() };
        let counts = fix_scalars(&module, &vectors, &compile, |difference| {
            report.note(Status::Differs, format!("{}: {difference}", target.name()));
        })?;
        all.runs += counts.runs;
        all.skipped += counts.skipped;
        all.steered += counts.steered;
        all.coincide += counts.coincide;
        all.scalars = counts.scalars;
    }
    report.vectors = all.runs;
    report.fixed = Some(all);
    Ok(())
}

/// The artifact's bytes; compiled with every check on.
fn bytes_of(module: HloModule, target: Target, check: &CheckOptions) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let options = CompileOptions {
        target,
        sbuf_limit: check.sbuf_limit,
        dge_route: check.dge_route,
        shuffle: check.shuffle,
        chaos: check.chaos,
        verify: true,
        ..CompileOptions::default()
    };
    let outcome = compile(module, options);
    match outcome.program {
        Some(program) => Ok(artifact::write(&program)),
        None if outcome.diagnostics.iter().any(|d| d.severity == Severity::Error) => Err(outcome.diagnostics),
        None => Err(vec![no_program()]),
    }
}

fn run_vectors(
    case: &Case,
    context: &str,
    report: &mut CaseReport,
    program: &Program,
    options: &CheckOptions,
) {
    let steer = SimulateOptions { interleave: options.interleave };
    compare_vectors(case, context, false, report, |inputs| simulate(program, inputs, steer));
}

/// Runs every vector and compares it with its goldens, the strict ones too where that is asked.
fn compare_vectors(
    case: &Case,
    context: &str,
    strict: bool,
    report: &mut CaseReport,
    run: impl Fn(&[HostArray]) -> Result<Vec<HostArray>, Vec<Diagnostic>>,
) {
    let one = |vector: &Vector| -> Result<Vec<String>, Vec<Diagnostic>> {
        let inputs = case.read_inputs(vector)?;
        let goldens = case.read_goldens(vector)?;
        let results = run(&inputs)?;
        let mut differences: Vec<String> =
            case.compare(&results, &goldens).into_iter().map(|(i, m)| format!("output {i}: {m}")).collect();
        if strict && let Some(goldens) = case.read_strict_goldens(vector)? {
            let all = case.compare(&results, &goldens).into_iter();
            differences.extend(all.map(|(i, m)| format!("output {i}, every intermediate rounded: {m}")));
        }
        Ok(differences)
    };
    for vector in &case.vectors {
        report.vectors += 1;
        let context = format!("{context} {}", vector.name);
        match one(vector) {
            Ok(differences) => {
                for difference in differences {
                    report.note(Status::Differs, format!("{context}: {difference}"));
                }
            }
            Err(faults) => report.faults(&context, &faults),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CheckOptions {
        CheckOptions {
            eval: true,
            targets: vec![Target::Trn2],
            interleave: None,
            sbuf_limit: None,
            shuffle: None,
            chaos: None,
            dge_route: DgeRoute::Auto,
        }
    }

    #[test]
    fn a_directory_without_a_case_is_at_fault() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let report = check_case(dir.path(), &options());
        assert_eq!(report.status, Status::Fault);
        assert!(report.text().contains("MUR0124"), "{}", report.text());
    }

    #[test]
    fn the_evaluator_passes_a_shipped_case_and_a_wrong_golden_differs() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dus_kv_write");
        assert_eq!(check_case(&from, &options()).status, Status::Passed);
        let dir = tempfile::tempdir().expect("a scratch directory");
        for entry in std::fs::read_dir(&from).expect("the fixture") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copying");
        }
        let golden = dir.path().join("output_0.npy");
        let mut bytes = std::fs::read(&golden).expect("the golden");
        let last = bytes.len() - 2;
        bytes[last] ^= 0x40;
        std::fs::write(&golden, bytes).expect("writing");
        let report = check_case(dir.path(), &options());
        assert_eq!(report.status, Status::Differs, "{}", report.text());
        std::fs::remove_file(dir.path().join("module.hlo.txt")).expect("removing");
        std::fs::remove_file(dir.path().join("module.hlo.pb")).expect("removing");
        assert!(check_case(dir.path(), &options()).text().contains("MUR0905"));
    }
}
