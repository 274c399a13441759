//! The journal of a run: a row for each module that is done, appended after its output is on disk. In: rows. Out: after a
//! kill, the rows so far. It stands in a folder that one process has at a time, with the outputs on their way.
//!
//! ```text
//! DIR/.bulk/1-of-1/lock            held while a run is on, released by the system whatever ends it
//! DIR/.bulk/1-of-1/journal.jsonl   rows in the order in which they were done; the last may be cut
//! DIR/.bulk/1-of-1/*.part          outputs on their way
//! ```

use super::manifest::{self, Row};
use super::plan::Shard;
use murre_components::diag::{Diagnostic, codes::cli};
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// An open journal.
pub struct Journal {
    folder: PathBuf,
    file: Mutex<File>,
    /// The lock, for as long as this is alive.
    _lock: File,
}

impl Journal {
    /// Takes the folder, or says that another run has it. With `resume` the rows of an earlier run are given back,
    /// else they are forgotten.
    pub fn open(out: &Path, shard: Shard, resume: bool) -> Result<(Journal, Vec<Row>), Diagnostic> {
        let folder = out.join(".bulk").join(format!("{}-of-{}", shard.index, shard.count));
        let fault = |e: std::io::Error| {
            Diagnostic::error(&cli::BULK_OUTPUT, format!("the output folder cannot be written: {e}"))
                .in_file(out.display().to_string())
                .help("name a folder that is writable and has room")
        };
        std::fs::create_dir_all(&folder).map_err(fault)?;
        let lock = File::create(folder.join("lock")).map_err(fault)?;
        if let Err(std::fs::TryLockError::WouldBlock) = lock.try_lock() {
            let busy =
                Diagnostic::error(&cli::BULK_BUSY, "another run is writing this shard of the output folder");
            return Err(busy
                .in_file(out.display().to_string())
                .help("wait for it, or give each process a --shard or an output folder of its own"));
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "part") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let path = folder.join("journal.jsonl");
        let mut rows = Vec::new();
        if resume {
            rows = manifest::read(&out.join(manifest::file_name(shard)));
            rows.extend(manifest::read(&path));
        }
        // A cut last row must not swallow the next one: what is known is written again, in one step.
        let text: String = rows.iter().map(Row::line).collect();
        let beside = folder.join("journal.part");
        std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, &path)).map_err(fault)?;
        let file = OpenOptions::new().append(true).open(&path).map_err(fault)?;
        Ok((Journal { folder, file: Mutex::new(file), _lock: lock }, rows))
    }

    /// The folder, which is this process's own.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a row.
    pub fn append(&self, row: &Row) -> std::io::Result<()> {
        self.file.lock().write_all(row.line().as_bytes())
    }

    /// Removes the journal: the manifest says everything now.
    pub fn close(self) {
        let _ = std::fs::remove_dir_all(&self.folder);
        // Only when no other shard has its journal there.
        let _ = self.folder.parent().map(std::fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row::failed(Path::new(name), String::new(), String::new(), &[])
    }

    #[test]
    fn rows_survive_and_a_cut_row_does_not_hurt_the_next() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let open = |resume| Journal::open(dir.path(), Shard::WHOLE, resume).expect("a journal");
        let (journal, rows) = open(true);
        assert!(rows.is_empty());
        journal.append(&row("a")).expect("written");
        let cut = row("b").line();
        journal.file.lock().write_all(&cut.as_bytes()[..cut.len() / 2]).expect("written");
        std::fs::write(journal.folder().join("7.part"), "half").expect("written");
        drop(journal);
        let (journal, rows) = open(true);
        assert_eq!(rows, [row("a")]);
        assert!(!journal.folder().join("7.part").exists());
        journal.append(&row("c")).expect("written");
        drop(journal);
        assert_eq!(open(true).1, [row("a"), row("c")]);
        assert_eq!(open(false).1, []);
        let (journal, rows) = open(true);
        assert!(rows.is_empty(), "without --resume the rows were forgotten");
        journal.close();
        assert!(!dir.path().join(".bulk").exists());
    }

    #[test]
    fn one_process_has_a_shard() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let one = Journal::open(dir.path(), Shard::WHOLE, false).expect("a journal");
        let two = Journal::open(dir.path(), Shard::WHOLE, false);
        assert_eq!(two.err().map(|d| d.code.id), Some(cli::BULK_BUSY.id));
        assert!(Journal::open(dir.path(), Shard { index: 1, count: 2 }, false).is_ok());
        drop(one);
        assert!(Journal::open(dir.path(), Shard::WHOLE, false).is_ok());
    }
}
