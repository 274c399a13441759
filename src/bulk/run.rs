//! A whole run. In: units and how to treat them. Out: outputs, the manifest, and what happened in numbers. `jobs` workers
//! take the next units each; outputs go to the threads that commit them; a row counts once its output is on disk.

use super::cache::Cache;
use super::commit::{self, Output};
use super::identity::settings;
use super::journal::Journal;
use super::manifest::{self, Row, Status};
use super::memo::Memo;
use super::plan::{Shard, Unit};
use super::together::portion;
use super::worker::{Done, Origin, Shared, Worker, output_name};
use murre_components::diag::{Diagnostic, codes::cli};
use murre_systems::CompileOptions;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of programs that are kept in memory for modules of the same structure.
const MEMO_BYTES: usize = 256 << 20;

/// What a run is asked to do.
pub struct Request {
    /// The units of this shard.
    pub units: Vec<Unit>,
    /// Which part of the plan they are.
    pub shard: Shard,
    /// The output folder.
    pub out: PathBuf,
    /// The cache's folder.
    pub cache: Option<PathBuf>,
    /// Whether stored programs are compared with a compilation.
    pub verify_cache: bool,
    /// Modules at once.
    pub jobs: usize,
    /// Whether an earlier run is continued.
    pub resume: bool,
    /// Whether the first failure ends the run.
    pub fail_fast: bool,
    /// Options of every compilation.
    pub options: CompileOptions,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// A row for each module that is done, in the order of the units.
    pub rows: Vec<Row>,
    /// Modules by where their programs came from: compiled, shared, cached, resumed.
    pub origins: [u64; 4],
    /// Cache entries that were not what was written, and were replaced.
    pub damaged: u64,
    /// Why the cache did not take an entry.
    pub cache_fault: Option<Diagnostic>,
    /// Why the run ended before its last module.
    pub stopped: Option<Diagnostic>,
}

impl Report {
    /// Number of modules from `origin`.
    pub fn count(&self, origin: Origin) -> u64 {
        self.origins[origin as usize]
    }
}

/// Runs, and tells `seen` of each module that is done. The manifest is written when all are.
pub fn run(request: &Request, seen: &(dyn Fn(&Row) + Sync)) -> Result<Report, Diagnostic> {
    let (journal, prior) = Journal::open(&request.out, request.shard, request.resume)?;
    let cache = request.cache.as_deref().map(Cache::open).transpose()?;
    let mut by_input = murre_components::hash::seeded_map();
    by_input.extend(prior.into_iter().map(|row| (row.input.clone(), row)));
    let shared = Shared {
        options: request.options.clone(),
        settings: settings(&request.options),
        out: request.out.clone(),
        memo: Memo::new(MEMO_BYTES),
        cache,
        verify: request.verify_cache,
        prior: by_input,
        damaged: AtomicU64::new(0),
        cache_fault: Mutex::new(None),
    };
    let board = Board {
        journal: &journal,
        rows: Mutex::new(request.units.iter().map(|_| None).collect()),
        stop: AtomicBool::new(false),
        stopped: Mutex::new(None),
        fail_fast: request.fail_fast,
        seen,
    };
    let next = Mutex::new(0);
    std::thread::scope(|scope| {
        let staging = journal.folder().to_owned();
        let board = &board;
        let sender =
            commit::start(scope, staging, move |done: (usize, Row, Origin), written| match written {
                Ok(()) => board.done(done.0, done.1, done.2),
                Err(fault) => board.halt(fault),
            });
        for _ in 0..request.jobs.clamp(1, request.units.len().max(1)) {
            let (sender, shared, next) = (sender.clone(), &shared, &next);
            scope.spawn(move || {
                let mut worker = Worker::new(shared);
                while !board.stop.load(Ordering::Relaxed) {
                    let units = {
                        let mut next = next.lock();
                        let left = request.units.len() - *next;
                        let begin = *next;
                        *next += portion(left, request.jobs).min(left);
                        begin..*next
                    };
                    if units.is_empty() {
                        break;
                    }
                    let first = units.start;
                    worker.several(&request.units[units], |k, Done { row, origin, bytes }| {
                        let path = request.out.join(output_name(&request.units[first + k]));
                        match bytes {
                            Some(bytes) => {
                                _ = sender.send(Output { path, bytes, then: (first + k, row, origin) });
                            }
                            None => {
                                if row.status != Status::Ok {
                                    // What an earlier run wrote is not this module's.
                                    let _ = std::fs::remove_file(path);
                                }
                                board.done(first + k, row, origin);
                            }
                        }
                        !board.stop.load(Ordering::Relaxed)
                    });
                }
            });
        }
    });
    let (rows, stopped) = (board.rows.into_inner(), board.stopped.into_inner());
    let mut report = Report { stopped, damaged: shared.damaged.into_inner(), ..Report::default() };
    report.cache_fault = shared.cache_fault.into_inner().map(|e| {
        let fault = Diagnostic::warning(&cli::BULK_CACHE, format!("the cache did not take every entry: {e}"));
        fault.in_file(request.cache.iter().map(|p| p.display().to_string()).collect::<String>())
    });
    for (row, origin) in rows.into_iter().flatten() {
        report.origins[origin as usize] += u64::from(row.status == Status::Ok);
        report.rows.push(row);
    }
    if report.stopped.is_none() {
        let written = report.rows.iter().filter_map(|r| Some(request.out.join(&r.artifact.as_ref()?.output)));
        let written: Vec<PathBuf> = written.collect();
        commit::sync_folders(written.iter().map(PathBuf::as_path));
        let path = request.out.join(manifest::file_name(request.shard));
        let beside = journal.folder().join("manifest.part");
        manifest::write(&path, beside, &report.rows)
            .map_err(|e| unwritten(&e).in_file(path.display().to_string()))?;
        journal.close();
    }
    Ok(report)
}

fn unwritten(e: &std::io::Error) -> Diagnostic {
    Diagnostic::error(&cli::BULK_OUTPUT, format!("the output cannot be written: {e}"))
        .help("make room or choose another folder, then run the same command with --resume")
}

/// What is done so far, and whether to go on.
struct Board<'r> {
    journal: &'r Journal,
    rows: Mutex<Vec<Option<(Row, Origin)>>>,
    stop: AtomicBool,
    stopped: Mutex<Option<Diagnostic>>,
    fail_fast: bool,
    seen: &'r (dyn Fn(&Row) + Sync),
}

impl Board<'_> {
    /// A module is done.
    fn done(&self, k: usize, row: Row, origin: Origin) {
        if let Err(e) = self.journal.append(&row) {
            self.halt(unwritten(&e).in_file(self.journal.folder().display().to_string()));
        }
        if self.fail_fast && row.status != Status::Ok {
            let fault = Diagnostic::error(
                &cli::BULK_FAIL_FAST,
                "a module failed, and the run was to end with the first",
            );
            self.halt(fault.in_file(row.input.clone()).found(row.code.clone().unwrap_or_default()));
        }
        (self.seen)(&row);
        if let Some(slot) = self.rows.lock().get_mut(k) {
            *slot = Some((row, origin));
        }
    }

    /// The run ends with what is under way. The first reason counts.
    fn halt(&self, why: Diagnostic) {
        self.stopped.lock().get_or_insert(why);
        self.stop.store(true, Ordering::Relaxed);
    }
}
