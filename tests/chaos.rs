//! What must not matter does not matter. Every fixture is compiled with the passes of each stage in random legal orders,
//! with random entity ids, random order of tables and random batch sizes, with both executors and with pools of several
//! sizes: one artifact, byte for byte. Thread counts are tried in processes of their own, since a pool is made once.

use murre::components::hlo::HloModule;
use murre::systems::compile::set_threads;
use murre::systems::{CompileOptions, ExecutorChoice, chaos, compile};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Modules of all fixtures.
fn fixtures() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the fixtures")
        .flatten()
        .map(|entry| entry.path().join("module.hlo.txt"))
        .filter(|module| module.exists())
        .collect();
    all.sort();
    all
}

/// The artifact, or what was said instead.
fn bytes(module: &HloModule, options: CompileOptions) -> Result<Vec<u8>, String> {
    let outcome = compile(module.clone(), options);
    match &outcome.program {
        Some(program) => Ok(murre::artifact::write(program)),
        None => Err(format!("{:?}", outcome.diagnostics)),
    }
}

fn disturbed(seed: u64, executor: ExecutorChoice) -> CompileOptions {
    CompileOptions {
        executor,
        shuffle: (executor == ExecutorChoice::Single).then_some(seed),
        chaos: Some(seed),
        batch_rows: Some(chaos::batch_rows(seed)),
        verify: seed.is_multiple_of(2),
        ..CompileOptions::default()
    }
}

#[test]
fn no_order_id_or_batch_changes_a_byte_of_any_fixture() {
    set_threads(3);
    let all = fixtures();
    assert!(all.len() > 70, "{} fixtures", all.len());
    for (k, path) in all.iter().enumerate() {
        let text = std::fs::read(path).expect("a module");
        let module = murre::hlo::read_module(&text, "fixture").unwrap_or_else(|d| panic!("{d:?}"));
        let plain = bytes(&module, CompileOptions::default());
        for (turn, executor) in [ExecutorChoice::Single, ExecutorChoice::Multi].into_iter().enumerate() {
            let seed = (2 * k + turn) as u64;
            let got = bytes(&module, disturbed(seed, executor));
            assert!(got == plain, "{}: seed {seed}, executor {executor:?}", path.display());
        }
    }
}

#[test]
fn many_orders_of_one_program_are_one_artifact() {
    set_threads(3);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/attn_decode_step/module.hlo.txt");
    let module = murre::hlo::read_module(&std::fs::read(path).expect("a module"), "fixture")
        .unwrap_or_else(|d| panic!("{d:?}"));
    let plain = bytes(&module, CompileOptions::default());
    assert!(plain.is_ok(), "{plain:?}");
    for seed in 0..20 {
        assert!(bytes(&module, disturbed(seed, ExecutorChoice::Single)) == plain, "seed {seed}");
    }
}

#[test]
fn diagnostics_do_not_depend_on_the_order_either() {
    let text = "HloModule m\nENTRY main {\n a = f64[4] parameter(0)\n b = f64[4] sine(a)\n c = f64[4] cosine(a)\n ROOT r = f64[4] add(b, c)\n}\n";
    let module = murre::hlo::read_module(text.as_bytes(), "m").unwrap_or_else(|d| panic!("{d:?}"));
    let plain = bytes(&module, CompileOptions::default());
    assert!(plain.as_ref().is_err_and(|d| d.contains("MUR")), "{plain:?}");
    for seed in 0..6 {
        assert_eq!(bytes(&module, disturbed(seed, ExecutorChoice::Single)), plain, "seed {seed}");
        assert_eq!(bytes(&module, disturbed(seed, ExecutorChoice::Multi)), plain, "seed {seed}");
    }
}

#[test]
fn pools_of_any_size_give_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let compiled = |module: &Path, args: &[&str]| {
        let artifact = dir.path().join("out.mur");
        let out = Command::new(env!("CARGO_BIN_EXE_murre"))
            .arg("compile")
            .arg(module)
            .arg("-o")
            .arg(&artifact)
            .args(args)
            .output()
            .expect("the program runs");
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        std::fs::read(&artifact).expect("an artifact")
    };
    for module in fixtures().iter().step_by(16) {
        let plain = compiled(module, &[]);
        for threads in ["1", "2", "3", "8"] {
            let args = ["--threads", threads, "--executor", "multi", "--batch-rows", "3", "--chaos", threads];
            assert!(compiled(module, &args) == plain, "{}: {threads} threads", module.display());
        }
        assert!(compiled(module, &["--shuffle", "5"]) == plain, "{}", module.display());
    }
}

#[test]
fn a_check_can_be_disturbed() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dus_kv_write");
    let out = Command::new(env!("CARGO_BIN_EXE_murre"))
        .args(["check", "--shuffle", "3", "--chaos", "4"])
        .arg(case)
        .output()
        .expect("the program runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
fn the_lab_measures_every_setting_and_finds_one_artifact() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dus_kv_write/module.hlo.txt");
    let out = Command::new(env!("CARGO_BIN_EXE_murre"))
        .args(["schedule-lab", "--json", "--threads", "1,3", "--batch-rows", "2,64", "--runs", "2"])
        .arg(module)
        .output()
        .expect("the program runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a JSON value");
    let cells = value["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 8);
    assert!(
        cells
            .iter()
            .all(|c| c["digest"] == cells[0]["digest"] && c["us"].as_array().is_some_and(|u| u.len() == 2))
    );
    let number = |key: &str| value[key].as_f64().expect("a number");
    assert!(number("critical_path_us") > 0.0 && number("critical_path_us") <= number("total_us") * 1.0001);
    assert!(number("parallelism") >= 1.0);
}
