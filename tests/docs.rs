//! What the documents say is there: every code has a page that says more than its title, no page is without a code, no
//! code is without a place that reports it, and the commands and files that the README names exist.

use murre::components::diag::codes;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).expect("a text file of the repository")
}

/// Every Rust source below `dir`.
fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    let mut stack = vec![root().join(dir)];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                stack.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source");
                all.push((path, text));
            }
        }
    }
    all
}

#[test]
fn every_code_has_a_page_that_says_more_than_its_title() {
    for code in codes::all() {
        let title = format!("# {}: ", code.id);
        assert!(code.page.starts_with(&title), "{}: the page begins with another line", code.id);
        let lines = code.page.lines().filter(|l| !l.trim().is_empty()).count();
        assert!(lines >= 4, "{}: the page has no text", code.id);
        assert!(code.page.contains("What to do"), "{}: the page does not say what to do", code.id);
    }
}

#[test]
fn codes_are_unique_and_no_page_is_without_a_code() {
    let mut ids: Vec<String> = codes::all().map(|c| c.id.to_string()).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "a code is registered twice");
    for entry in std::fs::read_dir(root().join("docs/codes")).expect("the pages").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = name.trim_end_matches(".md");
        assert!(ids.iter().any(|i| i == id), "{name} is the page of no code");
    }
}

#[test]
fn every_code_is_reported_somewhere() {
    let tables = sources("components/src/diag/codes");
    let all: Vec<_> = ["components/src", "systems/src", "src"].into_iter().flat_map(sources).collect();
    for (path, table) in tables {
        // `NAME = "MURxxxx", "title";`
        for name in
            table.lines().filter(|l| l.contains("= \"MUR")).filter_map(|l| l.split_whitespace().next())
        {
            let used = all.iter().any(|(p, text)| {
                !p.starts_with(root().join("components/src/diag/codes"))
                    && text.match_indices(name).any(|(at, _)| {
                        let next = text[at + name.len()..].chars().next();
                        !next.is_some_and(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
                    })
            });
            assert!(used, "{name} of {} is reported nowhere", path.display());
        }
    }
}

#[test]
fn commands_of_the_readme_exist() {
    let readme = read("README.md");
    let mut seen = 0;
    // Commands stand in code: behind a backquote or a prompt.
    for start in ["`murre ", "$ murre "] {
        for (at, _) in readme.match_indices(start) {
            let word: String = readme[at + start.len()..]
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '-')
                .collect();
            let out =
                Command::new(env!("CARGO_BIN_EXE_murre")).args([&word, "--help"]).output().expect("starts");
            assert!(out.status.success(), "the README names the command '{word}'");
            seen += 1;
        }
    }
    assert!(seen >= 10, "the README shows the commands");
}

#[test]
fn every_command_is_in_the_readme() {
    let out = Command::new(env!("CARGO_BIN_EXE_murre")).arg("--help").output().expect("starts");
    let help = String::from_utf8_lossy(&out.stdout).into_owned();
    let commands = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    let readme = read("README.md");
    for command in commands.filter_map(|l| l.split_whitespace().next()).filter(|c| *c != "help") {
        assert!(readme.contains(&format!("murre {command}")), "{command}");
    }
}

#[test]
fn files_that_the_documents_name_exist() {
    for document in ["README.md", "ARCHITECTURE.md", "examples/README.md"] {
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        let text = read(document);
        for (at, _) in text.match_indices("](") {
            let target: String = text[at + 2..].chars().take_while(|c| *c != ')' && *c != '#').collect();
            if !target.is_empty() && !target.contains("://") {
                assert!(root().join(folder).join(&target).exists(), "{document} links to {target}");
            }
        }
    }
    for script in ["scripts/setup", "scripts/demo", "scripts/test", ".ci/run"] {
        assert!(root().join(script).is_file(), "{script}");
        if script != ".ci/run" {
            assert!(read("README.md").contains(script), "the README does not name {script}");
        }
    }
}
