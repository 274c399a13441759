//! The fixture cases, or the cases of the directory that the environment variable `MURRE_FIXTURES` names.

use std::path::{Path, PathBuf};

/// Directories of all cases, in order of their names.
pub fn all() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let root = std::env::var("MURRE_FIXTURES").map_or(own, PathBuf::from);
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the fixtures are there")
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.join("module.hlo.txt").exists())
        .collect();
    dirs.sort();
    assert!(dirs.len() >= 73, "{} cases", dirs.len());
    dirs
}
