//! `murre check`: fixture cases in, a line a case out, then `N passed, M failed`. A case is a directory with
//! `case.json`; its text and its proto, every input vector and every target are computed and compared with the
//! goldens by the tolerances that the case states. With `--fix-scalars` programs are held against themselves with constants.

use super::console::Console;
use super::{Exit, Outcome, input};
use murre::check::{CaseReport, CheckOptions, Status, check_case, fix_case};
use murre::components::diag::{Diagnostic, codes::resource::RES_SBUF_LIMIT};
use murre::components::engine::Target;
use murre::systems::{CompileOptions, DgeRoute};
use parking_lot::Mutex;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Arguments of `check`.
#[derive(clap::Args)]
pub struct Args {
    /// Fixture directories
    #[arg(required = true, value_name = "CASE")]
    cases: Vec<PathBuf>,
    /// Compute with the evaluator instead of compiling and simulating
    #[arg(long, conflicts_with_all = ["targets", "interleave", "sbuf_bytes", "shuffle", "chaos", "dge_route"])]
    eval: bool,
    /// Instead of the goldens, compare with the same program compiled with its run-time scalars as constants
    #[arg(long, conflicts_with_all = ["eval", "interleave"])]
    fix_scalars: bool,
    /// Generations to compile for: repeatable, or a comma list
    #[arg(long = "target", value_name = "TARGET", default_value = "trn2", value_delimiter = ',', value_parser = input::target_parser())]
    targets: Vec<Target>,
    /// Interleave the engines in an order drawn from this seed
    #[arg(long, value_name = "SEED")]
    interleave: Option<u64>,
    /// Bytes of each SBUF partition to use, the reserved ones included; what does not fit moves to DRAM
    #[arg(long, value_name = "N")]
    sbuf_bytes: Option<u32>,
    /// Run the passes of each stage in a random legal order
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Random entity ids and table order
    #[arg(long, value_name = "SEED")]
    chaos: Option<u64>,
    /// Generator to take where both can
    #[arg(long, value_name = "ROUTE", default_value = "auto", value_parser = super::compile::dge_route())]
    dge_route: DgeRoute,
    /// Cases at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    murre::systems::compile::set_threads(1);
    for &target in &args.targets {
        let options = CompileOptions { target, sbuf_limit: args.sbuf_bytes, ..CompileOptions::default() };
        if let Some(fault) = options.sbuf_fault() {
            let what = "the limit of SBUF cannot be kept";
            return Err(vec![Diagnostic::error(&RES_SBUF_LIMIT, what).found(fault)]);
        }
    }
    let options = CheckOptions {
        eval: args.eval,
        targets: args.targets.clone(),
        interleave: args.interleave,
        sbuf_limit: args.sbuf_bytes,
        shuffle: args.shuffle,
        chaos: args.chaos,
        dge_route: args.dge_route,
    };
    let bar = console.progress(args.cases.len() as u64);
    let line = |report: &CaseReport| {
        bar.suspend(|| {
            if console.json { console.line(&report.json().to_string()) } else { console.line(&report.text()) }
        });
        bar.inc(1);
    };
    let one = if args.fix_scalars { fix_case } else { check_case };
    let statuses = in_order(&args.cases, args.jobs as usize, |dir| one(dir, &options), line);
    bar.finish_and_clear();

    let passed = statuses.iter().filter(|s| **s == Status::Passed).count();
    let failed = statuses.len() - passed;
    if console.json {
        console.line(&json!({ "passed": passed, "failed": failed }).to_string());
    } else {
        console.line(&format!("{passed} passed, {failed} failed"));
    }
    Ok(verdict(&statuses))
}

/// A bug of ours weighs most, then a wrong answer, then a refusal.
fn verdict(statuses: &[Status]) -> Exit {
    if statuses.contains(&Status::Internal) {
        Exit::Internal
    } else if statuses.contains(&Status::Differs) {
        Exit::Differs
    } else if statuses.contains(&Status::Fault) {
        Exit::Input
    } else {
        Exit::Fine
    }
}

/// Checks the cases on `jobs` threads and shows each report as soon as those before it were shown.
fn in_order(
    cases: &[PathBuf],
    jobs: usize,
    check: impl Fn(&std::path::Path) -> CaseReport + Sync,
    mut show: impl FnMut(&CaseReport) + Send,
) -> Vec<Status> {
    let next = AtomicUsize::new(0);
    let done: Mutex<(usize, Vec<Option<CaseReport>>)> =
        Mutex::new((0, std::iter::repeat_with(|| None).take(cases.len()).collect()));
    let mut statuses = Vec::with_capacity(cases.len());
    let shown = Mutex::new((&mut show, &mut statuses));
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(cases.len()) {
            scope.spawn(|| {
                while let Some((k, dir)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|k| Some((k, cases.get(k)?)))
                {
                    let report = check(dir);
                    let mut done = done.lock();
                    done.1[k] = Some(report);
                    let mut shown = shown.lock();
                    while let Some(report) = done.1.get(done.0).and_then(|r| r.as_ref()) {
                        (shown.0)(report);
                        shown.1.push(report.status);
                        done.0 += 1;
                    }
                }
            });
        }
    });
    statuses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_case_decides() {
        use Status::*;
        assert_eq!(verdict(&[Passed, Passed]), Exit::Fine);
        assert_eq!(verdict(&[Passed, Fault]), Exit::Input);
        assert_eq!(verdict(&[Fault, Differs]), Exit::Differs);
        assert_eq!(verdict(&[Differs, Internal]), Exit::Internal);
    }

    #[test]
    fn reports_come_in_the_order_of_the_cases() {
        let cases: Vec<PathBuf> = (0..20).map(|k| PathBuf::from(k.to_string())).collect();
        for jobs in [1, 3] {
            let mut seen = Vec::new();
            let report = |dir: &std::path::Path| CaseReport {
                name: dir.display().to_string(),
                status: Status::Passed,
                vectors: 0,
                notes: Vec::new(),
                fixed: None,
            };
            let statuses = in_order(&cases, jobs, report, |r| seen.push(r.name.clone()));
            assert_eq!(statuses.len(), 20);
            assert_eq!(seen, (0..20).map(|k| k.to_string()).collect::<Vec<_>>());
        }
    }
}
