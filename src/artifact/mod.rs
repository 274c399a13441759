//! The artifact: a compiled [`Program`] as an ELF64 file.
//!
//! In: a program. Out: bytes that depend on nothing else, and back. `readelf -S` lists one section a table
//! (`.murre.stream.pool`, `.murre.descriptors`, `.murre.vars`, ...), `readelf -p .murre.meta` shows target, versions,
//! counts and a BLAKE3 digest per section, `readelf -s` the inputs and outputs. `.murre.digest` holds the digest of
//! the whole file with its own 32 bytes read as zero, so no byte of the file can change unnoticed.
//!
//! Reading trusts nothing: digests first, then format version, table shapes, and every index into another table.
//! The stream and descriptor layouts are those of `spec/isa.md 8` and D6 of `spec/decisions.md`.
// A diagnostic is built once, on the way out; boxing it would only move the cost into every signature.
#![allow(clippy::result_large_err)]

mod bytes;
mod check;
mod container;
mod meta;
mod tables;

use murre_components::diag::{Diagnostic, codes::artifact as codes};
use murre_components::program::Program;
use std::path::Path;

pub use check::check;
pub use meta::{FORMAT_VERSION, Meta, SectionMeta};

/// The artifact's bytes. The same program always gives the same bytes.
pub fn write(program: &Program) -> Vec<u8> {
    let sections = tables::encode(program);
    let meta = Meta::of(program, &sections);
    container::build(&sections, &meta.to_text(), program)
}

/// The program in an artifact, or why the bytes are not one.
pub fn read(bytes: &[u8]) -> Result<Program, Diagnostic> {
    let file = container::open(bytes)?;
    let meta = Meta::parse(file.section(meta::META_SECTION)?)?;
    meta.verify(&file)?;
    let program = tables::decode(&file, &meta)?;
    check(&program)?;
    Ok(program)
}

/// What an artifact says about itself, without reading its tables.
pub fn read_meta(bytes: &[u8]) -> Result<Meta, Diagnostic> {
    Meta::parse(container::open(bytes)?.section(meta::META_SECTION)?)
}

/// Whether the bytes look like an artifact: an ELF file with a `.murre.meta` section. A damaged artifact may still
/// say yes; [`read`] then says what is wrong with it.
pub fn is_artifact(bytes: &[u8]) -> bool {
    container::looks_like(bytes)
}

/// Writes the artifact to `path` in one step: a temporary file beside it, then a rename, so that no reader ever sees
/// half a file.
pub fn write_file(path: &Path, program: &Program) -> Result<(), Diagnostic> {
    if path.file_name().is_none() {
        let fault = Diagnostic::error(&codes::ART_IO, "the output path names no file");
        return Err(fault.in_file(path.display().to_string()));
    }
    crate::array::files::write_whole(path, &write(program), |file| file.sync_all()).map_err(|e| {
        Diagnostic::error(&codes::ART_IO, format!("writing the artifact failed: {e}"))
            .in_file(path.display().to_string())
            .help("check that the directory exists, is writable and has room")
    })
}
