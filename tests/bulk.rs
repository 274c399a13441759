//! `murre bulk` as a program: what it writes is what `murre compile` writes, whatever was killed, shared, damaged or resumed on
//! the way.

use murre::bulk::cache::Cache;
use murre::bulk::identity::{Identity, settings};
use murre::bulk::manifest::{Row, Status, read};
use murre::components::diag::codes::cli;
use murre::components::engine::Target;
use murre::components::program::Program;
use murre::systems::CompileOptions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn murre(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_murre"));
    command.args(args);
    command
}

/// Runs `murre bulk` and gives its exit code and what it said.
fn bulk(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } = murre(&[&["bulk"], args].concat()).output().expect("starts");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    (status.code().expect("not killed"), said)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A folder of synthetic modules.
fn modules(dir: &Path, count: u32) -> PathBuf {
    let out = dir.join("zoo");
    let count = count.to_string();
    let status = murre(&["fixtures", "synth", "--count", &count, "--seed", "5", "-o", text(&out)])
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("starts").success());
    out
}

/// Every file below a folder, by its path inside; none while there is no folder.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut all, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    open.retain(|root| root.exists());
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let inside = path.strip_prefix(root).expect("below").to_owned();
                all.insert(inside, std::fs::read(&path).expect("a file"));
            }
        }
    }
    all
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[test]
fn outputs_are_those_of_compile() {
    let dir = folder();
    let (out, cache) = (dir.path().join("out"), dir.path().join("cache"));
    let list = dir.path().join("list");
    let cases: Vec<PathBuf> = std::fs::read_dir(fixtures())
        .expect("the fixtures are in the repository")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.is_dir())
        .collect();
    let forms = |form| cases.iter().map(move |c| text(&c.join(form)).to_owned() + "\n");
    std::fs::write(&list, forms("module.hlo.txt").chain(forms("module.hlo.pb")).collect::<String>())
        .expect("a list");
    let list = format!("@{}", text(&list));
    // The second run takes everything from the cache and puts the names of each module in.
    for run in ["cold", "warm"] {
        let (code, said) = bulk(&[&list, "-o", text(&out.join(run)), "--cache", text(&cache)]);
        assert_eq!(code, 0, "{said}");
        let rows = read(&out.join(run).join("manifest.jsonl"));
        assert_eq!(rows.len(), 2 * cases.len());
        for row in &rows {
            let artifact = row.artifact.as_ref().expect("an artifact");
            let bytes = std::fs::read(out.join(run).join(&artifact.output)).expect("an output");
            let module = murre::hlo::read_module(&std::fs::read(&row.input).expect("an input"), "m")
                .expect("a module");
            let program =
                murre::systems::compile(module, CompileOptions::default()).program.expect("compiles");
            assert!(bytes == murre::artifact::write(&program), "{run}: {}", row.input);
            assert_eq!(artifact.output_blake3, blake3::hash(&bytes).to_hex().as_str());
        }
    }
    assert_eq!(files(&out.join("cold")), files(&out.join("warm")));
    // The command, too.
    let row = &read(&out.join("cold/manifest.jsonl"))[0];
    let one = dir.path().join("one.mur");
    let status = murre(&["compile", &row.input, "-o", text(&one)]).stdout(Stdio::null()).status();
    assert!(status.expect("starts").success());
    let output = &row.artifact.as_ref().expect("an artifact").output;
    assert!(std::fs::read(one).expect("one") == std::fs::read(out.join("cold").join(output)).expect("bulk"));
}

#[test]
fn a_structure_is_compiled_once_and_each_module_keeps_its_names() {
    let dir = folder();
    let zoo = modules(dir.path(), 3);
    // The same programs under other names: %multiply.9 becomes %prod.9, the module has another name, lines have sources.
    for k in 0..3 {
        let module = std::fs::read_to_string(zoo.join(format!("000/m{k}.hlo"))).expect("a module");
        let other = module.replace("synth_", "other_").replace("multiply.", "prod.").replace(
            "s32[] parameter(1)\n",
            "s32[] parameter(1), metadata={source_file=\"a.py\" source_line=7}\n",
        );
        assert_ne!(module, other);
        std::fs::write(zoo.join(format!("000/other{k}.hlo")), other).expect("written");
    }
    let out = dir.path().join("out");
    let (code, said) = bulk(&[text(&zoo), "-o", text(&out), "--jobs", "3", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&said).expect("a line of JSON");
    assert_eq!((code, &summary["compiled"], &summary["shared"]), (0, &3.into(), &3.into()), "{said}");
    for row in read(&out.join("manifest.jsonl")) {
        let module =
            murre::hlo::read_module(&std::fs::read(&row.input).expect("an input"), "m").expect("a module");
        let program = murre::systems::compile(module, CompileOptions::default()).program.expect("compiles");
        let output = out.join(&row.artifact.expect("an artifact").output);
        assert!(
            std::fs::read(output).expect("an output") == murre::artifact::write(&program),
            "{}",
            row.input
        );
    }
}

#[test]
fn one_bad_module_does_not_stop_the_others() {
    let dir = folder();
    let zoo = modules(dir.path(), 6);
    std::fs::write(
        zoo.join("bad.hlo"),
        "HloModule no ENTRY e { x = f64[4] parameter(0) ROOT s = f64[4] sine(x) }",
    )
    .expect("written");
    std::fs::write(zoo.join("cut.hlo"), "HloModule cut ENTRY e { x = f32[4").expect("written");
    let out = dir.path().join("out");
    std::fs::create_dir_all(&out).expect("made");
    std::fs::write(out.join("bad.mur"), "of a time when it compiled").expect("written");
    let (code, said) = bulk(&[text(&zoo), "-o", text(&out)]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("6 of 8 modules") && said.contains("2 failed") && said.contains("MUR0104      1  "),
        "{said}"
    );
    let rows = read(&out.join("manifest.jsonl"));
    assert_eq!(rows.len(), 8);
    let mut inputs: Vec<&String> = rows.iter().map(|r| &r.input).collect();
    inputs.sort();
    assert!(rows.iter().map(|r| &r.input).eq(inputs), "in the order of the inputs");
    let refused: Vec<&Row> = rows.iter().filter(|r| r.status == Status::Refused).collect();
    assert_eq!(refused.len(), 2);
    assert!(
        refused.iter().all(|r| r.code.is_some() && r.diagnostics[0]["file"] == r.input.as_str()),
        "{refused:?}"
    );
    assert!(refused[0].diagnostics[0]["instruction"] == "s", "its own name, not a mark: {:?}", refused[0]);
    assert!(!out.join("bad.mur").exists());

    let early = dir.path().join("early");
    let (code, said) = bulk(&[text(&zoo), "-o", text(&early), "--fail-fast", "--jobs", "1"]);
    assert_eq!(code, 1);
    assert!(said.contains(cli::BULK_FAIL_FAST.id) && !early.join("manifest.jsonl").exists(), "{said}");
    let (code, said) = bulk(&[text(&zoo), "-o", text(&early), "--resume"]);
    assert_eq!(code, 1, "{said}");
    assert_eq!(files(&early), files(&out));
}

#[test]
fn killed_at_any_moment_it_resumes() {
    let dir = folder();
    let zoo = modules(dir.path(), 400);
    let whole = dir.path().join("whole");
    assert_eq!(bulk(&[text(&zoo), "-o", text(&whole)]).0, 0);
    let whole = files(&whole);
    let (out, cache) = (dir.path().join("out"), dir.path().join("cache"));
    let args = ["bulk", text(&zoo), "-o", text(&out), "--cache", text(&cache), "--resume"];
    let mut kills = 0;
    for k in 0..40u64 {
        let mut child = murre(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(8 + k * 11 % 50));
        if child.try_wait().expect("asked").is_some() {
            break;
        }
        // Ctrl-C, or the signal that nothing can catch.
        if k % 3 == 0 {
            let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
            assert!(interrupt.expect("starts").success());
        } else {
            child.kill().expect("killed");
        }
        child.wait().expect("ended");
        kills += 1;
        for (path, bytes) in
            files(&out).into_iter().filter(|(p, _)| p.extension().is_some_and(|e| e == "mur"))
        {
            assert!(whole[&path] == bytes, "{} is not whole after kill {kills}", path.display());
        }
    }
    assert!(kills >= 2, "the run was killed {kills} times");
    let (code, said) = bulk(&args[1..]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(files(&out), whole, "after {kills} kills");
    let (code, said) = bulk(&args[1..]);
    assert!(code == 0 && said.contains("400 resumed"), "{said}");
    // What was damaged, removed or changed is done again.
    std::fs::write(out.join("000/m3.mur"), "damaged").expect("written");
    std::fs::remove_file(out.join("000/m4.mur")).expect("removed");
    std::fs::copy(zoo.join("000/m6.hlo"), zoo.join("000/m5.hlo")).expect("changed");
    let (code, said) = bulk(&args[1..]);
    assert!(code == 0 && said.contains("397 resumed"), "{said}");
    let now = files(&out);
    assert_eq!(now[Path::new("000/m3.mur")], whole[Path::new("000/m3.mur")]);
    assert_eq!(now[Path::new("000/m5.mur")], whole[Path::new("000/m6.mur")]);
    // Other options are another run.
    let (code, said) = bulk(&[&args[1..], &["--target", "trn1"]].concat());
    assert!(code == 0 && said.contains(" 0 resumed"), "{said}");
}

#[test]
fn processes_share_a_cache_and_shards_make_the_whole() {
    let dir = folder();
    let zoo = modules(dir.path(), 120);
    let whole = dir.path().join("whole");
    assert_eq!(bulk(&[text(&zoo), "-o", text(&whole)]).0, 0);
    let (whole, cache) = (files(&whole), dir.path().join("cache"));
    let both = ["a", "b"].map(|name| {
        let out = dir.path().join(name);
        let child = murre(&["bulk", text(&zoo), "-o", text(&out), "--cache", text(&cache)])
            .stdout(Stdio::null())
            .spawn();
        (out, child.expect("starts"))
    });
    for (out, mut child) in both {
        assert!(child.wait().expect("ended").success());
        assert_eq!(files(&out), whole);
    }
    let out = dir.path().join("shards");
    let shards = ["1/3", "2/3", "3/3"].map(|shard| {
        let mut command =
            murre(&["bulk", text(&zoo), "-o", text(&out), "--cache", text(&cache), "--shard", shard]);
        command.stdout(Stdio::null()).spawn().expect("starts")
    });
    for mut child in shards {
        assert!(child.wait().expect("ended").success());
    }
    let mut got = files(&out);
    let mut lines: Vec<String> = Vec::new();
    for k in 1..=3 {
        let manifest = got.remove(Path::new(&format!("manifest.{k}-of-3.jsonl"))).expect("a manifest");
        lines.extend(String::from_utf8(manifest).expect("text").lines().map(str::to_owned));
    }
    lines.sort();
    let mut want = whole;
    let manifest = want.remove(Path::new("manifest.jsonl")).expect("a manifest");
    let mut all: Vec<String> =
        String::from_utf8(manifest).expect("text").lines().map(str::to_owned).collect();
    all.sort();
    assert_eq!((got, lines), (want, all));
}

#[test]
fn entries_that_are_not_what_was_written_are_compiled_again() {
    let dir = folder();
    let zoo = modules(dir.path(), 8);
    let cache = dir.path().join("cache");
    let run = |out: &str, more: &[&str]| {
        let out = dir.path().join(out);
        let result = bulk(&[&[text(&zoo), "-o", text(&out), "--cache", text(&cache)], more].concat());
        (result, files(&out))
    };
    let (cold, want) = run("cold", &[]);
    assert_eq!(cold.0, 0, "{}", cold.1);
    let entries: Vec<PathBuf> = files(&cache).into_keys().map(|k| cache.join(k)).collect();
    assert_eq!(entries.len(), 8);
    for (k, entry) in entries.iter().enumerate() {
        let mut bytes = std::fs::read(entry).expect("an entry");
        let at = bytes.len() * k / 8;
        bytes[at] ^= 1;
        std::fs::write(entry, bytes).expect("damaged");
    }
    let (damaged, got) = run("damaged", &[]);
    assert!(damaged.0 == 0 && damaged.1.contains("8 cache entries were damaged"), "{}", damaged.1);
    assert_eq!(got, want);
    let (verified, got) = run("verified", &["--verify-cache"]);
    assert!(verified.0 == 0 && verified.1.contains("8 from the cache"), "{}", verified.1);
    assert_eq!(got, want);
}

#[test]
fn verification_finds_a_stored_program_that_is_another() {
    // The key holds the running program, so the library is asked here, with this test's own.
    let dir = folder();
    let text = murre::fixtures::synth::module(1, 1, 12);
    let input = dir.path().join("m.hlo");
    std::fs::write(&input, &text).expect("written");
    let module = murre::hlo::read_module(text.as_bytes(), "m").expect("a module");
    let options = CompileOptions::default();
    let identity = Identity::of(&module, &settings(&options));
    let cache = Cache::open(&dir.path().join("cache")).expect("a cache");
    cache.put(&identity.key, &Program::empty("other", Target::Trn2)).expect("stored");
    let run = |name: &str, verify_cache| {
        let request = murre::bulk::Request {
            units: murre::bulk::plan(std::slice::from_ref(&input)).expect("a unit"),
            shard: murre::bulk::Shard::WHOLE,
            out: dir.path().join(name),
            cache: Some(dir.path().join("cache")),
            verify_cache,
            jobs: 1,
            resume: false,
            fail_fast: false,
            options: options.clone(),
        };
        murre::bulk::run(&request, &|_| {}).expect("a report").rows.remove(0)
    };
    assert_eq!(run("trusting", false).status, Status::Ok, "whoever does not verify trusts the cache");
    let row = run("first", true);
    assert_eq!((row.status, row.code.as_deref()), (Status::Differs, Some(cli::BULK_DIFFERS.id)));
    assert!(!dir.path().join("first/m.mur").exists());
    let row = run("second", true);
    assert_eq!(row.status, Status::Ok, "the entry was replaced");
    let program = murre::systems::compile(module, options).program.expect("compiles");
    assert!(
        std::fs::read(dir.path().join("second/m.mur")).expect("an output")
            == murre::artifact::write(&program)
    );
}

#[test]
fn what_cannot_be_read_or_written_has_a_code() {
    let dir = folder();
    let zoo = modules(dir.path(), 2);
    let out = dir.path().join("out");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let says = |args: &[&str], code: &str| {
        let (exit, said) = bulk(args);
        assert!(exit == 1 && said.contains(code), "{args:?}: {exit} {said}");
    };
    says(&[text(dir.path()), "-o", text(&out.join("x")), "--cache", text(&file)], cli::BULK_CACHE.id);
    says(&[text(&zoo), "-o", text(&file)], cli::BULK_OUTPUT.id);
    says(&[text(&out), "-o", text(&out)], cli::BULK_NO_MODULE.id);
    says(&[text(&dir.path().join("missing")), "-o", text(&out)], cli::CLI_FILE.id);
    // No room for an artifact: the system lets files grow to one block.
    let full = dir.path().join("full");
    let shell = format!(
        "trap '' XFSZ; ulimit -f 1; exec {} bulk {} -o {}",
        env!("CARGO_BIN_EXE_murre"),
        text(&zoo),
        text(&full)
    );
    let Output { status, stderr, .. } = Command::new("sh").args(["-c", &shell]).output().expect("starts");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.code() == Some(1) && said.contains(cli::BULK_OUTPUT.id), "{status:?} {said}");
    assert!(
        !files(&full).keys().any(|f| f.extension().is_some_and(|e| e == "mur")),
        "no half of a file has a name"
    );
    assert_eq!(bulk(&[text(&zoo), "-o", text(&full), "--resume"]).0, 0);
    // An output whose folder is a file cannot be written; the run says so and can be resumed.
    let blocked = dir.path().join("blocked");
    std::fs::create_dir_all(&blocked).expect("made");
    std::fs::write(blocked.join("000"), "").expect("a file where a folder must be");
    says(&[text(&zoo), "-o", text(&blocked)], cli::BULK_OUTPUT.id);
    std::fs::remove_file(blocked.join("000")).expect("removed");
    assert_eq!(bulk(&[text(&zoo), "-o", text(&blocked), "--resume"]).0, 0);
    assert_eq!(bulk(&["--shard", "0/2", text(&zoo), "-o", text(&out)]).0, 2);
}
