//! `murre bulk`: many modules in; an artifact each, a manifest and a summary out. Progress with rate and remaining time
//! shows on a terminal; failures are grouped by their codes at the end.

use super::compile::Steering;
use super::console::Console;
use super::{Exit, Outcome};
use indicatif::{ProgressState, ProgressStyle};
use murre::bulk::{self, Origin, Report, Request, Row, Shard, Status};
use murre::components::diag::codes;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Arguments of `bulk`.
#[derive(clap::Args)]
#[command(after_help = "\
Outputs: DIR/NAME.mur for each module, NAME being its path below the folder that was named, and
DIR/manifest.jsonl (with --shard: manifest.I-of-N.jsonl), a line a module in the order of the
inputs. Two runs over the same inputs write the same manifest. An artifact has the bytes that
`murre compile` writes.

A run can be killed at any moment: whatever has its name is whole, and --resume does what is left.
Modules that differ in names and metadata only are compiled once.

Exit code: 0 all compiled; 1 some were refused, or the run could not go on; 3 --verify-cache found a
difference; 70 a bug.")]
pub struct Args {
    /// Modules, folders of them (*.hlo, *.hlo.txt, *.txt, *.pb), @FILE for a list of paths, @- for a list on standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Folder for the artifacts and the manifest
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Folder of programs that were compiled before; several processes may use one
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Compile what the cache has all the same, and compare
    #[arg(long)]
    verify_cache: bool,
    /// Modules at once; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Do only part I of N; the parts together are the whole, and may run anywhere
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    shard: Option<Shard>,
    /// Keep what an earlier run with the same inputs and options finished
    #[arg(long)]
    resume: bool,
    /// End with the first module that fails, instead of going on with the others
    #[arg(long, overrides_with = "keep_going")]
    fail_fast: bool,
    /// Go on after a module that fails; the default
    #[arg(long, overrides_with = "fail_fast")]
    keep_going: bool,
    #[command(flatten)]
    steering: Steering,
}

/// The command.
pub fn run(args: &Args, console: &Console) -> Outcome {
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let request = Request {
        units: shard.pick(bulk::plan(&args.inputs)?),
        shard,
        out: args.output.clone(),
        cache: args.cache.clone(),
        verify_cache: args.verify_cache,
        jobs: args.jobs.map_or_else(cores, usize::from),
        resume: args.resume,
        fail_fast: args.fail_fast,
        options: args.steering.options()?,
    };
    let bar = console.progress(request.units.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {rate} a second, eta {eta} {msg}") {
        let rate = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
            // A sink that takes no more is none of ours.
            let _ = write!(to, "{:.0}", state.per_sec());
        };
        bar.set_style(style.with_key("rate", rate));
    }
    let (begin, failures) = (Instant::now(), AtomicU64::new(0));
    let outcome = bulk::run(&request, &|row: &Row| {
        if row.status != Status::Ok {
            let n = failures.fetch_add(1, Ordering::Relaxed) + 1;
            bar.set_message(format!("{n} failed"));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = outcome.map_err(|d| vec![d])?;
    console.diagnostics(report.cache_fault.as_slice());
    let seconds = begin.elapsed().as_secs_f64();
    if console.json {
        console.line(&summary_json(&report, request.units.len(), seconds).to_string());
    } else {
        console.out(&summary_text(&report, request.units.len(), seconds));
    }
    match &report.stopped {
        Some(why) if !args.fail_fast => Err(vec![why.clone()]),
        why => {
            console.diagnostics(why.as_slice());
            Ok(verdict(&report.rows))
        }
    }
}

/// A bug of ours weighs most, then a difference, then a refusal.
fn verdict(rows: &[Row]) -> Exit {
    let has = |status| rows.iter().any(|r| r.status == status);
    if has(Status::Internal) {
        Exit::Internal
    } else if has(Status::Differs) {
        Exit::Differs
    } else if has(Status::Refused) {
        Exit::Input
    } else {
        Exit::Fine
    }
}

/// Failed modules by code: how many, and the first of them.
fn failures(rows: &[Row]) -> BTreeMap<&str, (u64, &str)> {
    let mut groups = BTreeMap::new();
    for row in rows.iter().filter(|r| r.status != Status::Ok) {
        groups.entry(row.code.as_deref().unwrap_or("-")).or_insert((0, row.input.as_str())).0 += 1;
    }
    groups
}

fn summary_text(report: &Report, planned: usize, seconds: f64) -> String {
    let ok = report.rows.iter().filter(|r| r.status == Status::Ok).count();
    let mut text = String::new();
    for (code, (count, first)) in failures(&report.rows) {
        let title = codes::find(code).map_or("", |c| c.title);
        text += &format!("{code} {count:>6}  {title}; the first is {first}\n");
    }
    if report.damaged > 0 {
        text += &format!("{} cache entries were damaged and compiled again\n", report.damaged);
    }
    let [compiled, shared, cached, resumed] = report.origins;
    text += &format!(
        "{ok} of {planned} modules: {compiled} compiled, {shared} of the same structure, {cached} from the cache, {resumed} resumed; \
         {} failed; {seconds:.1} s, {:.0} a second\n",
        report.rows.len() - ok,
        report.rows.len() as f64 / seconds.max(1e-9),
    );
    text
}

fn summary_json(report: &Report, planned: usize, seconds: f64) -> serde_json::Value {
    let failed: BTreeMap<&str, u64> = failures(&report.rows).into_iter().map(|(c, (n, _))| (c, n)).collect();
    json!({
        "modules": planned, "done": report.rows.len(),
        "ok": report.rows.iter().filter(|r| r.status == Status::Ok).count(),
        "compiled": report.count(Origin::Compiled), "shared": report.count(Origin::Shared),
        "cached": report.count(Origin::Cached), "resumed": report.count(Origin::Resumed),
        "damaged_cache_entries": report.damaged, "failures": failed, "stopped": report.stopped.is_some(),
        "seconds": seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre::components::diag::{Diagnostic, codes::internal, codes::lower, codes::read};
    use std::path::Path;

    fn row(fault: Option<Diagnostic>) -> Row {
        let mut row = Row::failed(Path::new("m.hlo"), String::new(), String::new(), fault.as_slice());
        if fault.is_none() {
            row.status = Status::Ok;
        }
        row
    }

    #[test]
    fn failures_are_grouped_and_the_worst_decides() {
        let syntax = || row(Some(Diagnostic::error(&read::READ_SYNTAX, "x")));
        let refused = row(Some(Diagnostic::error(&lower::LOWER_TYPE, "x")));
        let bug = row(Some(Diagnostic::error(&internal::INTERNAL, "x")));
        assert_eq!(verdict(&[row(None)]), Exit::Fine);
        assert_eq!(verdict(&[row(None), syntax()]), Exit::Input);
        assert_eq!(verdict(&[Row { status: Status::Differs, ..row(None) }, syntax()]), Exit::Differs);
        assert_eq!(verdict(&[syntax(), bug]), Exit::Internal);
        let report = Report { rows: vec![row(None), syntax(), refused, syntax()], ..Report::default() };
        let text = summary_text(&report, 4, 2.0);
        assert!(text.contains("MUR0103      2  "), "{text}");
        assert!(text.contains("1 of 4 modules") && text.contains("3 failed"), "{text}");
        assert_eq!(summary_json(&report, 4, 2.0)["failures"]["MUR0103"], 2);
    }
}
