//! Inputs and outputs of a program as files: a directory of `input_0.npy` ... / `output_0.npy` ..., or an `.npz` whose
//! members are `arg0` ... / `out0` .... Files are written beside their name and renamed, so that a reader never sees
//! half of one; an `.npz` carries no time stamps, so that the same arrays are the same bytes.

use super::HostArray;
use super::npy::{npy_bytes, read_npy};
use murre_components::diag::{Diagnostic, codes::read};
use murre_components::hlo::ArrayShape;
use std::fs::{File, OpenOptions};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Reads one `.npy` file from disk.
#[allow(clippy::result_large_err)] // one diagnostic a file
pub fn read_npy_file(path: &Path) -> Result<HostArray, Diagnostic> {
    let name = display(path);
    let bytes = std::fs::read(path).map_err(|e| {
        let what = format!("{name} cannot be read: {e}");
        Diagnostic::error(&read::ARRAY_MISSING, what).in_file(&name)
    })?;
    read_npy(&bytes, &name).map_err(|d| d.in_file(&name))
}

/// Reads the inputs of a program, one for each shape, from a directory or an `.npz`. All faults are reported together.
pub fn read_inputs(path: &Path, shapes: &[&ArrayShape]) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    read_arrays(path, shapes, "input_", "arg")
}

/// The first input behind the `count` that a program takes, if the directory or the `.npz` has one.
pub fn input_behind(path: &Path, count: usize) -> Option<String> {
    let (file, member) = (format!("input_{count}.npy"), format!("arg{count}"));
    match is_npz(path) {
        true => {
            let mut archive = open_npz(path).ok()?;
            archive.zip_archive().by_name(&format!("{member}.npy")).is_ok().then_some(member)
        }
        false => path.join(&file).exists().then_some(file),
    }
}

#[allow(clippy::result_large_err)] // one diagnostic a file
/// Reads arrays named `<file><i>.npy` in a directory, or `<member><i>` in an `.npz`.
pub fn read_arrays(
    path: &Path,
    shapes: &[&ArrayShape],
    file: &str,
    member: &str,
) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    let mut archive = if is_npz(path) { Some(open_npz(path).map_err(|d| vec![d])?) } else { None };
    let mut arrays = Vec::new();
    let mut faults = Vec::new();
    for (i, shape) in shapes.iter().enumerate() {
        let (array, name) = match &mut archive {
            Some(archive) => {
                let name = format!("{member}{i}");
                (read_member(archive, path, &name), name)
            }
            None => {
                let name = format!("{file}{i}.npy");
                (read_npy_file(&path.join(&name)), name)
            }
        };
        match array.and_then(|a| a.conform(shape, &name)) {
            Ok(array) => arrays.push(array),
            Err(fault) => faults.push(fault.in_file(display(path)).ordered(i as u32)),
        }
    }
    if faults.is_empty() { Ok(arrays) } else { Err(faults) }
}

type Npz = npyz::npz::NpzArchive<Cursor<Vec<u8>>>;

#[allow(clippy::result_large_err)] // one diagnostic a file
fn open_npz(path: &Path) -> Result<Npz, Diagnostic> {
    let name = display(path);
    let bytes = std::fs::read(path).map_err(|e| {
        Diagnostic::error(&read::ARRAY_MISSING, format!("{name} cannot be read: {e}")).in_file(&name)
    })?;
    npyz::npz::NpzArchive::new(Cursor::new(bytes)).map_err(|e| {
        Diagnostic::error(&read::ARRAY_CORRUPT, format!("{name} is not a usable .npz file: {e}"))
            .in_file(&name)
    })
}

#[allow(clippy::result_large_err)] // one diagnostic a member
fn read_member(archive: &mut Npz, path: &Path, name: &str) -> Result<HostArray, Diagnostic> {
    let mut file = archive.zip_archive().by_name(&format!("{name}.npy")).map_err(|_| {
        Diagnostic::error(&read::ARRAY_MISSING, format!("{} has no array '{name}'", display(path)))
    })?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| {
        Diagnostic::error(
            &read::ARRAY_CORRUPT,
            format!("'{name}' of {} cannot be unpacked: {e}", display(path)),
        )
    })?;
    read_npy(&bytes, name)
}

/// Writes the results of a program: `output_<i>.npy` into a directory (made when it is not there), or `out<i>` into an
/// `.npz`.
#[allow(clippy::result_large_err)] // one diagnostic a call
pub fn write_outputs(path: &Path, arrays: &[HostArray]) -> Result<(), Diagnostic> {
    let fault = |what: &Path, e: std::io::Error| {
        let name = display(what);
        Diagnostic::error(&read::ARRAY_WRITE, format!("{name} cannot be written: {e}")).in_file(name)
    };
    if is_npz(path) {
        let bytes = npz_bytes(arrays).map_err(|e| fault(path, e))?;
        return write_atomically(path, &bytes).map_err(|e| fault(path, e));
    }
    std::fs::create_dir_all(path).map_err(|e| fault(path, e))?;
    for (i, array) in arrays.iter().enumerate() {
        let file = path.join(format!("output_{i}.npy"));
        let bytes = npy_bytes(array).map_err(|e| fault(&file, e))?;
        write_atomically(&file, &bytes).map_err(|e| fault(&file, e))?;
    }
    Ok(())
}

fn npz_bytes(arrays: &[HostArray]) -> std::io::Result<Vec<u8>> {
    use npyz::zip::{CompressionMethod, DateTime, ZipWriter, write::FileOptions};
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (i, array) in arrays.iter().enumerate() {
        let options = FileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .large_file(array.data.len() > u32::MAX as usize / 2);
        writer.start_file(format!("out{i}.npy"), options)?;
        writer.write_all(&npy_bytes(array)?)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// Writes a file beside `path` and renames it over `path`; on a fault the half-written file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    write_whole(path, bytes, |_| Ok(()))
}

/// The same, with `finish` done to the file before it has its name. A link stays a link, and what it names is written; a
/// device or a pipe is written to and not replaced.
pub fn write_whole(
    path: &Path,
    bytes: &[u8],
    finish: impl FnOnce(&File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // A name of its own, since one that is as long as names may be has no room for an ending.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let beside = path.with_file_name(format!(".murre.{}.{number}.part", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        finish(&file)
    });
    let placed = written.and_then(|()| std::fs::rename(&beside, path));
    if placed.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::HloType;

    fn array() -> HostArray {
        HostArray { ty: HloType::S32, dims: vec![2], data: vec![1, 0, 0, 0, 2, 0, 0, 0] }
    }

    #[test]
    fn links_and_devices_are_not_replaced() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "old").expect("writing");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write_atomically(&link, b"new").expect("writing");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::read(&file).expect("reading"), b"new");
        // A socket stands for a device: it cannot be opened as a file, and it stays.
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(write_atomically(&socket, b"new").is_err());
        assert!(!std::fs::metadata(&socket).expect("there").is_file());
    }

    #[test]
    fn outputs_come_back_from_both_forms() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let shape = ArrayShape::new(HloType::S32, [2]);
        for place in [dir.path().join("out"), dir.path().join("out.npz")] {
            write_outputs(&place, &[array(), array()]).expect("writing");
            let back = read_arrays(&place, &[&shape, &shape], "output_", "out").expect("reading");
            assert_eq!(back, [array(), array()]);
        }
        assert_eq!(npz_bytes(&[array()]).ok(), npz_bytes(&[array()]).ok());
        let left: Vec<_> = std::fs::read_dir(dir.path().join("out")).expect("listing").collect();
        assert_eq!(left.len(), 2, "no half-written file stays");
    }

    #[test]
    fn what_is_missing_or_damaged_has_a_code() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let shape = ArrayShape::new(HloType::S32, [2]);
        let codes = |path: &Path| -> Vec<&str> {
            read_inputs(path, &[&shape, &shape]).err().unwrap_or_default().iter().map(|d| d.code.id).collect()
        };
        assert_eq!(codes(dir.path()), ["MUR0124", "MUR0124"]);
        std::fs::write(dir.path().join("x.npz"), b"PK not really").expect("writing");
        assert_eq!(codes(&dir.path().join("x.npz")), ["MUR0125"]);
        write_outputs(&dir.path().join("y.npz"), &[array()]).expect("writing");
        assert_eq!(codes(&dir.path().join("y.npz")), ["MUR0124", "MUR0124"]);
        std::fs::write(dir.path().join("flat"), b"").expect("writing");
        let fault = write_outputs(&dir.path().join("flat"), &[array()]).err();
        assert_eq!(fault.map(|d| d.code.id), Some("MUR0126"));
    }
}
