//! Outputs that are whole or not there. In: bytes and a path. Out: a file that has its name only when its bytes are on
//! disk: written beside, synced, renamed. A file that holds the bytes already is left alone.
//!
//! A sync waits for the disk and not for a core, and syncs that wait together share one write of the disk's journal. So
//! outputs are committed by threads of their own, more of them than there are cores.

use murre_components::diag::{Diagnostic, codes::cli};
use parking_lot::Mutex;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

/// Syncs that wait at once.
const THREADS: usize = 8;
/// Outputs that wait for a thread. More would only hold memory.
const WAITING: usize = 64;

/// A file to write.
pub struct Output<T> {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What is handed on when it is written.
    pub then: T,
}

/// Starts the threads. What is sent is committed in any order and handed to `done`; the threads end when the sender is
/// dropped. `staging` is a folder of this process alone, on the same file system as the outputs.
pub fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    staging: PathBuf,
    done: impl Fn(T, Result<(), Diagnostic>) + Clone + Send + 's,
) -> SyncSender<Output<T>> {
    let (sender, receiver) = sync_channel::<Output<T>>(WAITING);
    let receiver: std::sync::Arc<Mutex<Receiver<Output<T>>>> = Mutex::new(receiver).into();
    let written = std::sync::Arc::new(AtomicU64::new(0));
    for _ in 0..THREADS {
        let (receiver, done, staging, written) =
            (receiver.clone(), done.clone(), staging.clone(), written.clone());
        scope.spawn(move || {
            loop {
                // The lock is held while waiting: the next output goes to the thread that has it.
                let next = receiver.lock().recv();
                let Ok(Output { path, bytes, then }) = next else { return };
                let beside = staging.join(format!("{}.part", written.fetch_add(1, Ordering::Relaxed)));
                done(then, commit(&path, &beside, &bytes));
            }
        });
    }
    sender
}

/// Writes one output.
fn commit(path: &Path, beside: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
    if holds(path, bytes) {
        return Ok(());
    }
    durable(path, beside, bytes).map_err(|e| {
        Diagnostic::error(&cli::BULK_OUTPUT, format!("the output cannot be written: {e}"))
            .in_file(path.display().to_string())
            .help("make room or choose another folder, then run the same command with --resume")
    })
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.len() == bytes.len() as u64)
        && std::fs::read(path).is_ok_and(|old| old == bytes)
}

/// Writes a file beside its place, syncs it and moves it there. Folders are made when they are missing.
pub fn durable(path: &Path, beside: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let write = || {
        let mut file = std::fs::File::create(beside)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    let moved = || match std::fs::rename(beside, path) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            std::fs::rename(beside, path)
        }
        other => other,
    };
    let done = write().and_then(|()| moved());
    if done.is_err() {
        let _ = std::fs::remove_file(beside);
    }
    done
}

/// Syncs the folders of files, so that their names are on disk too. Where a folder cannot be synced, as on some systems,
/// its names are as safe as that system makes them.
pub fn sync_folders<'p>(files: impl Iterator<Item = &'p Path>) {
    let folders: std::collections::BTreeSet<&Path> = files.filter_map(Path::parent).collect();
    for folder in folders {
        let _ = std::fs::File::open(folder).and_then(|f| f.sync_all());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_written_and_faults_are_told() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("file"), "").expect("a file");
        let told = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let done = |name: &'static str, r: Result<(), Diagnostic>| {
                told.lock().push((name, r.err().map(|d| d.code.id)))
            };
            let out = start(scope, dir.path().to_owned(), done);
            for name in ["a", "deep/b", "file/c"] {
                let output = Output { path: dir.path().join(name), bytes: name.into(), then: name };
                out.send(output).expect("a thread listens");
            }
        });
        let mut told = told.into_inner();
        told.sort();
        assert_eq!(told, [("a", None), ("deep/b", None), ("file/c", Some(cli::BULK_OUTPUT.id))]);
        assert_eq!(std::fs::read(dir.path().join("deep/b")).expect("written"), b"deep/b");
        assert!(
            std::fs::read_dir(dir.path()).expect("a folder").flatten().all(|e| !e.path().ends_with(".part"))
        );
    }
}
