//! The fixture cases: those that compile and those that are only evaluated yet, or the cases of the directory that the
//! environment variable `MURRE_FIXTURES` names.

use std::path::{Path, PathBuf};

/// Directories of all cases, in order of their names.
pub fn all() -> Vec<PathBuf> {
    let own = ["tests/fixtures", "tests/evaluated"].map(|d| Path::new(env!("CARGO_MANIFEST_DIR")).join(d));
    let roots = match std::env::var("MURRE_FIXTURES") {
        Ok(other) => vec![PathBuf::from(other)],
        Err(_) => own.to_vec(),
    };
    let mut dirs: Vec<PathBuf> = roots
        .iter()
        .flat_map(|root| std::fs::read_dir(root).expect("the fixtures are there"))
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.join("module.hlo.txt").exists())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 73, "{} cases", dirs.len());
    dirs
}
