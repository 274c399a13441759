//! Every registered code is reached. What a user can do to get a code is a row of the table below and is done here, with the program
//! itself; a code that only the parts among themselves can raise is named by a `#[test]` function, which is looked for in the
//! sources. A code with neither fails, and so does a row of a code that is not registered.

use murre::components::diag::codes;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How to get a code.
enum Way {
    /// `murre print` of the lines inside an entry computation.
    Read(&'static str),
    /// `murre print` of the whole text.
    Whole(&'static str),
    /// `murre compile` of the whole text.
    Compile(&'static str),
    /// `murre eval` of the whole text, without inputs.
    Eval(&'static str),
    /// The arguments; `IN` stands for a good module, `DIR` for a scratch directory.
    Run(&'static [&'static str]),
}

use Way::*;

#[rustfmt::skip] // a row a line
const TABLE: &[(&str, Way)] = &[
    ("MUR0101", Whole(" \n")),
    ("MUR0102", Whole("import numpy as np\n")),
    ("MUR0103", Read("  b=f32[4] add(a, a)")),
    ("MUR0104", Read("  /* no end")),
    ("MUR0105", Read("  b = f32[4] ad(a, a)")),
    ("MUR0106", Read("  b = f32[4] add(a, a), colour=1")),
    ("MUR0107", Read("  b = f32[4] add(a, c)")),
    ("MUR0108", Read("  a = f32[4] add(a, a)")),
    ("MUR0109", Read("  b = f32[] call(i), to_apply=nowhere")),
    ("MUR0110", Read("  b = f32[99] constant({...})")),
    ("MUR0111", Read("  b = s8[] constant(200)")),
    ("MUR0112", Read("  b = f32[3] constant({1, 2})")),
    ("MUR0113", Read("  b = f32[2] parameter(3)")),
    ("MUR0114", Read("  b = f33[2] add(a, a)")),
    ("MUR0117", Read("  b = pred[4] compare(a, a), direction=ABOVE")),
    ("MUR0119", Whole("HloModule m\n\nf {\n  ROOT x = f32[] parameter(0)\n}\n\nENTRY g {\n  ROOT x = f32[] parameter(0)\n}\n\nENTRY h {\n  ROOT x = f32[] parameter(0)\n}\n")),
    ("MUR0120", Read("  b = f32[4] add(f32[5] a, a)")),
    ("MUR0121", Run(&["run", "IN", "--inputs", "DIR/rank", "--outputs", "DIR/o"])),
    ("MUR0124", Run(&["run", "IN", "--inputs", "DIR/none", "--outputs", "DIR/o"])),
    ("MUR0201", Read("  b = f32[5] add(a, a)")),
    ("MUR0202", Read("  b = f32[4] add(a)")),
    ("MUR0203", Read("  b = f32[4] add(a, i)")),
    ("MUR0204", Read("  b = f32[4] reverse(a), dimensions={1}")),
    ("MUR0205", Read("  b = f32[4] while(a), condition=add, body=add")),
    ("MUR0301", Eval("HloModule m\n\nENTRY e {\n  z = c64[] constant((1, 2))\n  ROOT t = c64[] remainder(z, z)\n}\n")),
    ("MUR0401", Compile("HloModule m\n\nENTRY e {\n  x = f32[4,4] parameter(0)\n  ROOT c = f32[4,4] cholesky(x), lower=true\n}\n")),
    ("MUR0402", Compile("HloModule m\n\nENTRY e {\n  x = f64[4] parameter(0)\n  ROOT r = f64[4] add(x, x)\n}\n")),
    ("MUR0403", Compile("HloModule m\n\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[4294967297] broadcast(x), dimensions={}\n}\n")),
    ("MUR0501", Run(&["compile", "IN", "-o", "DIR/o", "--sbuf-bytes", "16448"])),
    ("MUR0505", Run(&["compile", "IN", "-o", "DIR/o", "--sbuf-bytes", "77"])),
    ("MUR0601", Run(&["disasm", "IN"])),
    ("MUR0606", Run(&["compile", "IN", "-o", "DIR/none/o"])),
    ("MUR0901", Run(&["print", "DIR/none"])),
    ("MUR0902", Run(&["run", "IN", "--outputs", "DIR/o"])),
    ("MUR0903", Run(&["explain", "IN", "nobody"])),
    ("MUR0904", Run(&["decode", "xyz"])),
    ("MUR0906", Run(&["explain", "IN", "a"])),
    ("MUR0907", Run(&["history", "IN", "r999"])),
];

const GOOD: &str =
    "HloModule m\n\nENTRY e {\n  a = f32[64,64] parameter(0)\n  ROOT b = f32[64,64] exponential(a)\n}\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A scratch directory: a good module, and inputs of the wrong rank.
fn scratch() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    std::fs::write(dir.path().join("good"), GOOD).expect("writing");
    std::fs::create_dir(dir.path().join("rank")).expect("a directory");
    let head = "{'descr': '<f4', 'fortran_order': False, 'shape': (), }";
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    npy.extend(format!("{head:<117}\n").bytes());
    npy.extend([0; 4]);
    std::fs::write(dir.path().join("rank/input_0.npy"), npy).expect("writing");
    dir
}

/// What the program says on standard error.
fn said(way: &Way, dir: &Path) -> String {
    let file = dir.join("module");
    let path = |p: &Path| p.to_str().expect("a UTF-8 path").to_owned();
    let (module, out) = (path(&file), path(&dir.join("o")));
    let text = |text: &str| std::fs::write(&file, text).expect("writing");
    let args: Vec<String> = match way {
        Read(lines) => {
            text(&format!(
                "HloModule m\n\nadd {{\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT s = f32[] add(x, y)\n}}\n\n\
                 ENTRY e {{\n  a = f32[4] parameter(0)\n  i = s32[] parameter(1)\n{lines}\n  ROOT r = f32[4] negate(a)\n}}\n"
            ));
            vec!["print".into(), module]
        }
        Whole(t) => {
            text(t);
            vec!["print".into(), module]
        }
        Compile(t) => {
            text(t);
            vec!["compile".into(), module, "-o".into(), out]
        }
        Eval(t) => {
            text(t);
            vec!["eval".into(), module, "--outputs".into(), out]
        }
        Run(args) => {
            let good = path(&dir.join("good"));
            args.iter().map(|a| a.replace("DIR", &path(dir)).replace("IN", &good)).collect()
        }
    };
    let out = Command::new(env!("CARGO_BIN_EXE_murre")).args(&args).output().expect("the program starts");
    assert_eq!(out.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn what_a_user_can_do_gives_the_code_of_its_row() {
    let dir = scratch();
    for (code, way) in TABLE {
        assert!(codes::find(code).is_some(), "{code} is not registered");
        let said = said(way, dir.path());
        assert!(said.contains(&format!("error[{code}]")), "{code}: {said}");
    }
}

/// Bodies of all `#[test]` functions below a directory: file, name, text.
fn test_functions(dir: &str) -> Vec<(PathBuf, String, String)> {
    let mut all = Vec::new();
    let mut stack = vec![root().join(dir)];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                stack.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                all.extend(functions(&text).map(|(name, body)| (path.clone(), name, body)));
            }
        }
    }
    all
}

/// A test function ends at the first closing brace that stands as far left as its attribute.
fn functions(text: &str) -> impl Iterator<Item = (String, String)> {
    text.match_indices("#[test]\n").filter_map(|(at, _)| {
        let indent = at - text[..at].rfind('\n').map_or(0, |n| n + 1);
        let body = &text[at..];
        let end = body.find(&format!("\n{}}}\n", " ".repeat(indent))).unwrap_or(body.len());
        let name = body.split("fn ").nth(1)?.split('(').next()?;
        Some((name.to_owned(), body[..end].to_owned()))
    })
}

/// Whether a word stands in a text by itself.
fn names(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part)
    })
}

#[test]
fn every_code_has_a_row_or_a_test() {
    let tests: Vec<_> =
        ["tests", "src", "systems/src", "components/src"].into_iter().flat_map(test_functions).collect();
    assert!(tests.len() > 300, "{} tests were found", tests.len());
    let mut registry = String::new();
    for entry in std::fs::read_dir(root().join("components/src/diag/codes")).expect("the codes").flatten() {
        registry += &std::fs::read_to_string(entry.path()).expect("a source");
    }
    let mut unreached = Vec::new();
    for code in codes::all() {
        let line = registry.lines().find(|l| l.contains(code.id)).unwrap_or_default();
        let constant = line.split('=').next().unwrap_or_default().trim();
        let row = TABLE.iter().any(|(c, _)| *c == code.id);
        let test = tests.iter().any(|(_, _, body)| names(body, code.id) || names(body, constant));
        if !row && !test {
            unreached.push(format!("{} {constant}: {}", code.id, code.title));
        }
    }
    assert!(unreached.is_empty(), "no row here and no test reaches\n{}", unreached.join("\n"));
}

#[test]
fn test_functions_are_found_in_a_source() {
    let text = "mod tests {\n    #[test]\n    fn one() {\n        if A_CODE {\n        }\n    }\n\n    fn two() { MUR1 }\n}\n";
    let all: Vec<_> = functions(text).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].0, "one");
    assert!(names(&all[0].1, "A_CODE") && !names(&all[0].1, "CODE") && !names(&all[0].1, "MUR1"));
}
