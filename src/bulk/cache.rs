//! Programs on disk, by key. In: a key. Out: the program that was stored under it, or nothing.
//!
//! ```text
//! DIR/7f/7f03...e1     32 bytes of key, then an artifact (which carries the digest of all of its bytes)
//! DIR/tmp/<pid>.<n>    an entry on its way
//! ```
//!
//! An entry appears by a rename and is never changed, so any number of processes share a cache: two that write one entry
//! write the same bytes. Entries are not synced: what a power cut damages is noticed when it is read, and compiled again.

use super::identity::Key;
use crate::artifact;
use murre_components::diag::{Diagnostic, codes::cli};
use murre_components::program::Program;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// An entry on its way that is older than this was left behind by a killed process.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// A cache in a folder.
pub struct Cache {
    dir: PathBuf,
    written: AtomicU64,
}

/// What a look-up gives.
pub enum Lookup {
    /// The program.
    Hit(Box<Program>),
    /// There is no entry.
    Miss,
    /// There is one, and it is not what was written.
    Damaged,
}

impl Cache {
    /// Opens a cache, which is made if it is not there.
    pub fn open(dir: &Path) -> Result<Cache, Diagnostic> {
        let cache = Cache { dir: dir.to_owned(), written: AtomicU64::new(0) };
        let probe = cache.temporary();
        let usable = std::fs::create_dir_all(dir.join("tmp"))
            .and_then(|()| std::fs::write(&probe, b"murre"))
            .and_then(|()| std::fs::remove_file(&probe));
        usable.map_err(|e| {
            Diagnostic::error(&cli::BULK_CACHE, format!("the cache cannot be written: {e}"))
                .in_file(dir.display().to_string())
                .help("name a folder that is writable and has room, or leave --cache away")
        })?;
        cache.tidy();
        Ok(cache)
    }

    fn temporary(&self) -> PathBuf {
        let n = self.written.fetch_add(1, Ordering::Relaxed);
        self.dir.join("tmp").join(format!("{}.{n}", std::process::id()))
    }

    /// Removes what killed processes left behind.
    fn tidy(&self) {
        for entry in std::fs::read_dir(self.dir.join("tmp")).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|m| m.modified()).ok();
            if age.and_then(|m| SystemTime::now().duration_since(m).ok()).is_some_and(|age| age > LEFT_BEHIND)
            {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    fn place(&self, key: &Key) -> PathBuf {
        let name = key.to_hex();
        self.dir.join(&name[..2]).join(name.as_str())
    }

    /// The program of `key`.
    pub fn get(&self, key: &Key) -> Lookup {
        let bytes = match std::fs::read(self.place(key)) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Lookup::Miss,
            Err(_) => return Lookup::Damaged,
        };
        let artifact = bytes.strip_prefix(key.as_bytes()).and_then(|rest| artifact::read(rest).ok());
        artifact.map_or(Lookup::Damaged, |p| Lookup::Hit(Box::new(p)))
    }

    /// Whether there is an entry of `key`, good or not.
    pub fn has(&self, key: &Key) -> bool {
        self.place(key).exists()
    }

    /// Stores the program of `key`.
    pub fn put(&self, key: &Key, program: &Program) -> std::io::Result<()> {
        let temporary = self.temporary();
        let place = self.place(key);
        let bytes = [key.as_bytes().as_slice(), &artifact::write(program)].concat();
        let moved = || match std::fs::rename(&temporary, &place) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(place.parent().unwrap_or(&self.dir))?;
                std::fs::rename(&temporary, &place)
            }
            other => other,
        };
        let stored = std::fs::write(&temporary, bytes).and_then(|()| moved());
        if stored.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::Target;

    fn is_hit(l: Lookup, name: &str) -> bool {
        matches!(l, Lookup::Hit(p) if p.name == name)
    }

    #[test]
    fn an_entry_is_whole_or_not_there() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let cache = Cache::open(dir.path()).expect("a cache");
        let (a, b) = (blake3::hash(b"a"), blake3::hash(b"b"));
        assert!(matches!(cache.get(&a), Lookup::Miss));
        cache.put(&a, &Program::empty("one", Target::Trn2)).expect("stored");
        assert!(is_hit(cache.get(&a), "one"));
        // Under another key it is not an entry, nor after a cut or a change anywhere.
        let whole = std::fs::read(cache.place(&a)).expect("an entry");
        std::fs::create_dir_all(cache.place(&b).parent().expect("a folder")).expect("made");
        std::fs::write(cache.place(&b), &whole).expect("copied");
        assert!(matches!(cache.get(&b), Lookup::Damaged));
        for at in (0..whole.len()).step_by(97) {
            let mut bad = whole.clone();
            bad[at] ^= 4;
            std::fs::write(cache.place(&a), &bad).expect("changed");
            assert!(matches!(cache.get(&a), Lookup::Damaged), "byte {at}");
            std::fs::write(cache.place(&a), &whole[..at]).expect("cut");
            assert!(matches!(cache.get(&a), Lookup::Damaged), "cut at {at}");
        }
        cache.put(&a, &Program::empty("two", Target::Trn2)).expect("stored again");
        assert!(is_hit(cache.get(&a), "two"));
        assert_eq!(std::fs::read_dir(dir.path().join("tmp")).expect("a folder").count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_one_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("a file");
        assert_eq!(Cache::open(&file).err().map(|d| d.code.id), Some(cli::BULK_CACHE.id));
    }
}
