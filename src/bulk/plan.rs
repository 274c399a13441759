//! The plan of a bulk run. In: paths as the user gave them. Out: units, sorted by input, each with an output name that no
//! other has and that does not depend on where the run happens or what other folders hold.
//!
//! ```text
//! zoo/            zoo/a.hlo -> a      zoo/deep/b.hlo.txt -> deep/b      zoo/case/module.hlo.txt -> case
//! x/m.hlo y/m.pb  -> m~1f0c92aa, m~8d11e0b7: two of one name both get a digest of their path
//! a.mur/b.hlo     -> a.mur~/b: artifacts have that ending          a name too long for a file is cut and has a digest
//! @list, @-       one path a line, from a file or from standard input
//! ```

use murre_components::diag::{Diagnostic, codes::cli};
use murre_components::hash::{seeded_map, seeded_set};
use std::path::{Path, PathBuf};

/// Endings of modules, the ones that are preferred for a case first.
const ENDINGS: [&str; 6] = [".hlo.txt", ".hlo.pb", ".hlo", ".txt", ".pb", ".hlo_module.pb"];

/// The ending of artifacts.
const ARTIFACT: &str = ".mur";

/// Bytes that a file name may have on the usual file systems.
const MOST_NAME_BYTES: usize = 255;

/// A module to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The file.
    pub input: PathBuf,
    /// Name of the output below the output folder, without `.mur`.
    pub name: String,
}

/// One part of several that together are the whole plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, from 1.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Shard {
    /// Everything.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };

    /// Reads `I/N`.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Shard { index, count }),
            _ => Err(format!("'{text}' is not I/N with I from 1 to N")),
        }
    }

    /// The units of this shard: every `count`-th of the sorted plan.
    pub fn pick(self, units: Vec<Unit>) -> Vec<Unit> {
        units.into_iter().skip(self.index as usize - 1).step_by(self.count as usize).collect()
    }
}

/// The units that `inputs` stand for. Faults name every path that cannot be read; no module at all is a fault too.
pub fn plan(inputs: &[PathBuf]) -> Result<Vec<Unit>, Vec<Diagnostic>> {
    let (mut units, mut faults) = (Vec::new(), Vec::new());
    for input in inputs {
        match input.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(list) => match read_list(list) {
                Ok(paths) => paths.iter().for_each(|p| add(p, &mut units, &mut faults)),
                Err(e) => faults.push(unreadable(Path::new(list), &e)),
            },
            None => add(input, &mut units, &mut faults),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    units.sort_by(|a, b| a.input.cmp(&b.input));
    units.dedup_by(|a, b| a.input == b.input);
    if units.is_empty() {
        let fault = Diagnostic::error(&cli::BULK_NO_MODULE, "the inputs name no module");
        let looked = inputs.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" ");
        return Err(vec![fault.found(looked).expected(format!("files that end in {}", ENDINGS.join(", ")))]);
    }
    separate(&mut units);
    Ok(units)
}

fn read_list(list: &str) -> std::io::Result<Vec<PathBuf>> {
    let text =
        if list == "-" { std::io::read_to_string(std::io::stdin())? } else { std::fs::read_to_string(list)? };
    Ok(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(PathBuf::from).collect())
}

fn unreadable(path: &Path, e: &std::io::Error) -> Diagnostic {
    Diagnostic::error(&cli::CLI_FILE, format!("the file cannot be read: {e}"))
        .in_file(path.display().to_string())
}

/// Adds what one path stands for.
fn add(path: &Path, units: &mut Vec<Unit>, faults: &mut Vec<Diagnostic>) {
    match std::fs::metadata(path) {
        Err(e) => faults.push(unreadable(path, &e)),
        Ok(m) if m.is_dir() => walk(path, units, faults),
        Ok(_) => {
            let inside = path.file_name().map(PathBuf::from).unwrap_or_default();
            units.push(Unit { name: name_of(path, &inside), input: path.to_owned() });
        }
    }
}

/// Adds the modules below a folder. Links to folders are not followed, so that every walk ends.
fn walk(root: &Path, units: &mut Vec<Unit>, faults: &mut Vec<Diagnostic>) {
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) => {
                faults.push(unreadable(&dir, &e));
                continue;
            }
        };
        let mut modules: Vec<(usize, PathBuf)> = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            // A link that leads nowhere is a module that cannot be read, and has a row that says so.
            let kind = entry.file_type().ok();
            let is_module = || path.is_file() || kind.is_some_and(|t| t.is_symlink()) && !path.exists();
            if kind.is_some_and(|t| t.is_dir()) {
                open.push(path);
            } else if is_module()
                && let Some(rank) = ENDINGS.iter().position(|e| name.ends_with(e))
            {
                modules.push((rank, path));
            }
        }
        // A case holds one program in several forms.
        let is_module = |p: &Path| p.file_name().is_some_and(|n| stem(&n.to_string_lossy()) == "module");
        let case = modules.iter().filter(|(_, p)| is_module(p)).min().cloned();
        modules.retain(|m| !is_module(&m.1) || Some(m) == case.as_ref());
        for (_, path) in modules {
            let inside = path.strip_prefix(root).unwrap_or(&path).to_owned();
            units.push(Unit { name: name_of(&path, &inside), input: path });
        }
    }
}

fn stem(name: &str) -> &str {
    ENDINGS
        .iter()
        .filter_map(|e| name.strip_suffix(e))
        .min_by_key(|s| s.len())
        .filter(|s| !s.is_empty())
        .unwrap_or(name)
}

/// The name for `path`, which is `inside` its root. A module that is called `module` has the name of its folder.
fn name_of(path: &Path, inside: &Path) -> String {
    let mut parts: Vec<String> =
        inside.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    let own = parts.pop().unwrap_or_default();
    for folder in &mut parts {
        // Else `a.mur/b.hlo` would need a folder where `a.hlo` has its artifact.
        if folder.to_lowercase().ends_with(ARTIFACT) {
            folder.push('~');
        }
    }
    let own = stem(&own);
    let folder = path.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    match folder {
        Some(_) if own == "module" && !parts.is_empty() => {}
        Some(folder) if own == "module" => parts.push(folder),
        _ => parts.push(own.to_owned()),
    }
    parts.join("/")
}

/// Gives units of one name a digest of their path, on file systems without case too.
fn separate(units: &mut [Unit]) {
    let (mut count, mut taken) = (seeded_map::<String, u32>(), seeded_set());
    for unit in units.iter() {
        *count.entry(unit.name.to_lowercase()).or_default() += 1;
    }
    for unit in units.iter_mut() {
        let twice = count.get(&unit.name.to_lowercase()).is_some_and(|n| *n > 1);
        let own = unit.name.rsplit('/').next().map_or(0, str::len);
        if twice || own + ARTIFACT.len() > MOST_NAME_BYTES {
            let digest = blake3::hash(unit.input.as_os_str().as_encoded_bytes()).to_hex();
            // A name without room for what comes behind it is cut.
            let room = MOST_NAME_BYTES - ARTIFACT.len() - 16;
            let cut = unit.name.floor_char_boundary(unit.name.len() - own.saturating_sub(room));
            unit.name.truncate(cut);
            unit.name = format!("{}~{}", unit.name, &digest[..8]);
        }
        // Only a name that was written to look like one of these is still taken.
        while !taken.insert(unit.name.to_lowercase()) {
            unit.name.push('~');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, "").expect("a file");
        }
        dir
    }

    fn names(units: &[Unit]) -> Vec<&str> {
        units.iter().map(|u| u.name.as_str()).collect()
    }

    #[test]
    fn folders_are_walked_and_cases_are_one_module() {
        let dir = tree(&[
            "a.hlo",
            "deep/b.hlo.txt",
            "c/module.hlo.pb",
            "c/module.hlo.txt",
            "c/case.json",
            ".x/h.hlo",
            "n.npy",
        ]);
        let units = plan(&[dir.path().to_owned()]).expect("modules");
        assert_eq!(names(&units), ["a", "c", "deep/b"]);
        assert!(units[1].input.ends_with("module.hlo.txt"));
    }

    #[test]
    fn equal_names_are_told_apart_by_their_path() {
        let dir = tree(&["x/m.hlo", "y/M.pb", "y/n.pb"]);
        let both: Vec<PathBuf> = ["x", "y"].map(|d| dir.path().join(d)).into();
        let units = plan(&both).expect("modules");
        assert!(units[0].name.starts_with("m~") && units[1].name.starts_with("M~"), "{units:?}");
        assert_ne!(units[0].name[2..], units[1].name[2..]);
        assert_eq!(units[2].name, "n");
        let twice = [both.clone(), both].concat();
        assert_eq!(plan(&twice).expect("modules"), units, "a path that is named twice is one unit");
    }

    #[test]
    fn names_that_no_file_could_have_are_changed() {
        let long = format!("{}\u{e9}", "x".repeat(247));
        let dir = tree(&[&format!("{long}.hlo"), "a.hlo", "a.mur/b.hlo", "a.mur/c/module.pb"]);
        std::os::unix::fs::symlink("nowhere", dir.path().join("gone.hlo")).expect("a link");
        let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"odd\xff.hlo");
        std::fs::write(dir.path().join(odd), "").expect("a file");
        let direct = dir.path().join("y".repeat(255));
        std::fs::write(&direct, "").expect("a file");
        let units = plan(&[dir.path().to_owned(), direct]).expect("modules");
        let names = names(&units);
        for name in ["a", "a.mur~/b", "a.mur~/c", "gone", "odd\u{fffd}", &long] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
        assert_eq!(names.len(), 7);
        let cut = names.iter().find(|n| n.starts_with('y')).expect("a name");
        assert!(cut.contains('~') && cut.len() + ARTIFACT.len() <= MOST_NAME_BYTES, "{cut}");
    }

    #[test]
    fn lists_name_modules() {
        let dir = tree(&["x/m.hlo", "c/module.pb"]);
        let lines: String =
            ["x/m.hlo", "", "c/module.pb"].map(|f| format!("{}\n", dir.path().join(f).display())).concat();
        std::fs::write(dir.path().join("list"), lines).expect("a list");
        let list = PathBuf::from(format!("@{}", dir.path().join("list").display()));
        assert_eq!(names(&plan(&[list]).expect("modules")), ["c", "m"]);
    }

    #[test]
    fn no_module_is_a_fault_and_so_is_no_file() {
        let dir = tree(&["n.npy"]);
        let fault = |p: PathBuf| plan(&[p]).expect_err("a fault")[0].code.id;
        assert_eq!(fault(dir.path().to_owned()), cli::BULK_NO_MODULE.id);
        assert_eq!(fault(dir.path().join("missing")), cli::CLI_FILE.id);
    }

    #[test]
    fn shards_are_disjoint_and_complete() {
        let units: Vec<Unit> =
            (0..10).map(|k| Unit { input: format!("{k}").into(), name: format!("{k}") }).collect();
        let mut all: Vec<String> = Vec::new();
        for index in 1..=3 {
            all.extend(Shard { index, count: 3 }.pick(units.clone()).into_iter().map(|u| u.name));
        }
        all.sort();
        assert_eq!(all, (0..10).map(|k| k.to_string()).collect::<Vec<_>>());
        assert_eq!(Shard::parse("2/3"), Ok(Shard { index: 2, count: 3 }));
        for bad in ["0/3", "4/3", "x/3", "3", "1/0"] {
            assert!(Shard::parse(bad).is_err(), "{bad}");
        }
    }
}
