//! The program as its users meet it: exit codes, diagnostics, and that nothing half-written is left behind. Every kind
//! of bad input is refused with a code, exit 1 and no output file.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn fixture(name: &str) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

fn murre(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_murre")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(p: &Path) -> &str {
    p.to_str().expect("a UTF-8 path")
}

/// The program refuses: exit 1, this code on standard error, nothing on standard output, nothing new in `dir`.
#[track_caller]
fn refuses(args: &[&str], code: &str, dir: &Path) {
    let before = listing(dir);
    let out = murre(args);
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {errors}");
    assert!(errors.contains(&format!("error[{code}]")), "{args:?}: {errors}");
    assert_eq!(text(&out.stdout), "", "{args:?}");
    assert_eq!(listing(dir), before, "{args:?} left files behind");
}

fn listing(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut stack = vec![dir.to_path_buf()];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            if entry.path().is_dir() {
                stack.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    all.sort();
    all
}

/// A scratch directory with one module in it, and the path of an artifact to be.
fn scratch(bytes: &[u8]) -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let module = dir.path().join("module");
    std::fs::write(&module, bytes).expect("writing");
    let (module, artifact) = (path(&module).to_string(), path(&dir.path().join("out.mur")).to_string());
    (dir, module, artifact)
}

#[track_caller]
fn compile_refuses(bytes: &[u8], code: &str) {
    let (dir, module, artifact) = scratch(bytes);
    refuses(&["compile", &module, "-o", &artifact], code, dir.path());
}

const ADD: &str = "HloModule m\n\nENTRY main {\n  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n  \
    ROOT c = f32[4] add(a, b)\n}\n";

#[test]
fn an_empty_file_is_refused() {
    compile_refuses(b"", "MUR0101");
    compile_refuses(b" \n\t\n", "MUR0101");
}

#[test]
fn bytes_of_another_kind_are_refused() {
    compile_refuses(&[0xFF, 0xFE, 0x00, 0x01, 0x80], "MUR0102");
    compile_refuses(b"import numpy as np\nprint(1)\n", "MUR0102");
}

#[test]
fn a_proto_cut_short_is_refused() {
    let proto = std::fs::read(fixture("dus_kv_write").join("module.hlo.pb")).expect("the fixture");
    for part in [2, 3, 7] {
        let (dir, module, artifact) = scratch(&proto[..proto.len() * (part - 1) / part]);
        let out = murre(&["compile", &module, "-o", &artifact]);
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains("error[MUR01"), "{}", text(&out.stderr));
        assert_eq!(listing(dir.path()).len(), 1);
    }
}

#[test]
fn text_cut_in_half_is_refused_with_its_place() {
    let whole = std::fs::read_to_string(fixture("dus_kv_write").join("module.hlo.txt")).expect("the fixture");
    let (dir, module, artifact) = scratch(&whole.as_bytes()[..whole.len() / 2]);
    let out = murre(&["compile", &module, "-o", &artifact]);
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    let head = errors.lines().next().expect("a diagnostic");
    assert!(head.starts_with("error[MUR01") && head.contains("module:"), "{head}");
    assert_eq!(listing(dir.path()).len(), 1);
}

#[test]
fn a_missing_operand_is_refused() {
    compile_refuses(ADD.replace("add(a, b)", "add(a, x)").as_bytes(), "MUR0107");
    compile_refuses(ADD.replace("add(a, b)", "add(a)").as_bytes(), "MUR0202");
}

#[test]
fn a_contradicting_shape_is_refused() {
    compile_refuses(ADD.replace("c = f32[4]", "c = f32[5]").as_bytes(), "MUR0201");
}

#[test]
fn an_operation_that_is_not_supported_is_refused_by_name() {
    let module = ADD.replace("add(a, b)", "custom-call(a, b), custom_call_target=\"unheard_of\"");
    let (dir, module, artifact) = scratch(module.as_bytes());
    refuses(&["compile", &module, "-o", &artifact], "MUR0401", dir.path());
    let errors = text(&murre(&["compile", &module, "-o", &artifact]).stderr);
    assert!(errors.contains("instruction: %c"), "{errors}");
}

#[test]
fn sbuf_can_be_made_smaller_but_not_too_small() {
    let (dir, module, artifact) = scratch(ADD.as_bytes());
    for bytes in ["0", "16384", "16500", "230000"] {
        let args = ["compile", &module, "-o", &artifact, "--sbuf-bytes", bytes];
        refuses(&args, "MUR0505", dir.path());
    }
    refuses(&["compile", &module, "-o", &artifact, "--sbuf-bytes", "16448"], "MUR0501", dir.path());
    let out = murre(&["compile", &module, "-o", &artifact, "--sbuf-bytes", "16640"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let case = fixture("while_nested");
    let out = murre(&["check", path(&case), "--sbuf-bytes", "16960"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stdout));
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let missing = path(&dir.path().join("none")).to_string();
    for command in ["print", "disasm", "explain"] {
        refuses(&[command, &missing], "MUR0901", dir.path());
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let (dir, module, _) = scratch(ADD.as_bytes());
    let there = path(&dir.path().join("no/such/directory/out.mur")).to_string();
    let out = murre(&["compile", &module, "-o", &there]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("error[MUR0606]"), "{}", text(&out.stderr));
    assert_eq!(listing(dir.path()).len(), 1);
}

#[test]
fn a_damaged_artifact_is_refused() {
    let (dir, module, artifact) = scratch(ADD.as_bytes());
    let out = murre(&["compile", &module, "-o", &artifact]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let whole = std::fs::read(&artifact).expect("the artifact");
    for at in [whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&artifact, bytes).expect("writing");
        let out = murre(&["disasm", &artifact]);
        assert_eq!(out.status.code(), Some(1));
        assert!(text(&out.stderr).contains("error[MUR06"), "{}", text(&out.stderr));
    }
    std::fs::write(&artifact, &whole[..whole.len() / 2]).expect("writing");
    let outputs = path(&dir.path().join("outputs")).to_string();
    let out = murre(&["run", &artifact, "--outputs", &outputs]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(!Path::new(&outputs).exists());
    refuses(&["disasm", &module], "MUR0601", dir.path());
}

/// The inputs of [`ADD`], one of them changed.
fn changed_inputs(change: impl Fn(&Path)) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    std::fs::write(dir.path().join("module"), ADD).expect("writing");
    for k in 0..2 {
        std::fs::write(dir.path().join(format!("input_{k}.npy")), npy("<f4", "(4,)", 16)).expect("writing");
    }
    change(dir.path());
    let inputs = path(dir.path()).to_string();
    (dir, inputs)
}

/// A `.npy` file of zeros.
fn npy(descr: &str, shape: &str, bytes: usize) -> Vec<u8> {
    let mut head = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + head.len() + 1) % 64 != 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((head.len() as u16).to_le_bytes());
    out.extend(head.as_bytes());
    out.resize(out.len() + bytes, 0);
    out
}

#[test]
fn wrong_inputs_are_refused_by_run_and_eval() {
    let cases: [(&str, &dyn Fn(&Path)); 5] = [
        ("MUR0124", &|d| std::fs::remove_file(d.join("input_0.npy")).expect("removing")),
        ("MUR0121", &|d| std::fs::write(d.join("input_0.npy"), npy("<f4", "(2, 2)", 16)).expect("writing")),
        ("MUR0122", &|d| std::fs::write(d.join("input_0.npy"), npy("<f4", "(3,)", 12)).expect("writing")),
        ("MUR0123", &|d| std::fs::write(d.join("input_0.npy"), npy("<f8", "(4,)", 32)).expect("writing")),
        ("MUR0125", &|d| std::fs::write(d.join("input_0.npy"), b"\x93NUMPY\x01").expect("writing")),
    ];
    for (code, change) in cases {
        let (dir, inputs) = changed_inputs(change);
        let outputs = path(&dir.path().join("outputs")).to_string();
        for command in ["eval", "run"] {
            let module = path(&dir.path().join("module")).to_string();
            refuses(&[command, &module, "--inputs", &inputs, "--outputs", &outputs], code, dir.path());
        }
    }
    // What is not changed is fine.
    let (dir, inputs) = changed_inputs(|_| ());
    let outputs = path(&dir.path().join("outputs")).to_string();
    for command in ["eval", "run"] {
        let module = path(&dir.path().join("module")).to_string();
        let out = murre(&[command, &module, "--inputs", &inputs, "--outputs", &outputs]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        assert_eq!(listing(Path::new(&outputs)).len(), 1);
    }
}

#[test]
fn inputs_that_are_not_given_are_refused() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let outputs = path(&dir.path().join("outputs")).to_string();
    let module = fixture("dus_kv_write").join("module.hlo.txt");
    for command in ["eval", "run"] {
        refuses(&[command, path(&module), "--outputs", &outputs], "MUR0902", dir.path());
    }
}

#[test]
fn eval_writes_what_the_goldens_say() {
    let case = fixture("dus_kv_write");
    let dir = tempfile::tempdir().expect("a scratch directory");
    for outputs in ["outputs", "outputs.npz"] {
        let outputs = dir.path().join(outputs);
        let module = case.join("module.hlo.pb");
        let out = murre(&["eval", path(&module), "--inputs", path(&case), "--outputs", path(&outputs)]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    }
    let got = std::fs::read(dir.path().join("outputs/output_0.npy")).expect("the output");
    let want = std::fs::read(case.join("output_0.npy")).expect("the golden");
    let data = |b: &[u8]| b[10 + u16::from_le_bytes([b[8], b[9]]) as usize..].to_vec();
    assert_eq!(data(&got), data(&want));
    assert!(dir.path().join("outputs.npz").is_file());
}

#[test]
fn usage_errors_exit_with_2() {
    let module = fixture("dus_kv_write").join("module.hlo.txt");
    let module = path(&module);
    for args in [
        &[][..],
        &["nothing"],
        &["compile"],
        &["compile", module],
        &["compile", module, "-o", "x", "--target", "trn9"],
        &["compile", module, "--stop-after", "nowhere"],
        &["compile", module, "--print-after", "no_such_pass"],
        &["compile", module, "-o", "x", "--dge-levels", "everything"],
        &["compile", module, "-o", "x", "--threads", "0"],
        &["check"],
        &["errors", "MUR9999"],
        &["passes", "--json", "--dot"],
    ] {
        let out = murre(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stderr));
    }
    assert!(!Path::new("x").exists());
}

/// A copy of a fixture.
fn copied(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    for entry in std::fs::read_dir(fixture(name)).expect("the fixture").flatten() {
        std::fs::copy(entry.path(), dir.path().join(entry.file_name())).expect("copying");
    }
    dir
}

#[test]
fn check_tells_passed_from_different_from_refused() {
    let good = fixture("dus_kv_write");
    let out = murre(&["check", "--eval", path(&good)]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stdout));
    assert_eq!(text(&out.stdout).lines().last(), Some("1 passed, 0 failed"));

    let different = copied("dus_kv_write");
    let golden = different.path().join("output_0.npy");
    let mut bytes = std::fs::read(&golden).expect("the golden");
    let last = bytes.len() - 2;
    bytes[last] ^= 0x40;
    std::fs::write(&golden, bytes).expect("writing");
    let out = murre(&["check", "--eval", path(&good), path(different.path())]);
    assert_eq!(out.status.code(), Some(3), "{}", text(&out.stdout));
    assert_eq!(text(&out.stdout).lines().last(), Some("1 passed, 1 failed"));

    let refused = copied("dus_kv_write");
    std::fs::write(refused.path().join("module.hlo.txt"), "HloModule m\n").expect("writing");
    let out = murre(&["check", "--eval", "--jobs", "2", path(refused.path()), path(&good)]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stdout));
    assert_eq!(text(&out.stdout).lines().last(), Some("1 passed, 1 failed"));
    assert!(text(&out.stdout).contains("MUR01"), "{}", text(&out.stdout));
    assert!(text(&out.stdout).lines().next().is_some_and(|l| l.starts_with("refused")));
}

#[test]
fn json_is_json() {
    let case = fixture("dus_kv_write");
    let out = murre(&["--json", "check", "--eval", path(&case)]);
    for line in text(&out.stdout).lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("a JSON line");
    }
    for args in [&["passes", "--json"][..], &["errors", "--json"], &["decode", "--json", "00144000"]] {
        let out = murre(args);
        serde_json::from_slice::<serde_json::Value>(&out.stdout).expect("a JSON value");
    }
    let out = murre(&["print", "--json", "/no/such/file"]);
    let line: serde_json::Value = serde_json::from_slice(&out.stderr).expect("a JSON line");
    assert_eq!((out.status.code(), line["code"].as_str()), (Some(1), Some("MUR0901")));
}

#[test]
fn print_gives_text_that_prints_the_same() {
    let (_dir, module, _) = scratch(ADD.as_bytes());
    let once = murre(&["print", &module]);
    assert_eq!(once.status.code(), Some(0), "{}", text(&once.stderr));
    let (_dir, again, _) = scratch(&once.stdout);
    assert_eq!(text(&murre(&["print", &again]).stdout), text(&once.stdout));
}

#[test]
fn tables_timings_and_traces_can_be_had_after_every_pass() {
    let (dir, module, _) = scratch(ADD.as_bytes());
    let trace = dir.path().join("trace.json");
    let out = murre(&[
        "compile",
        &module,
        "--stop-after",
        "address",
        "--print-after",
        "all",
        "--timings",
        "--trace",
        path(&trace),
    ]);
    let shown = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    for part in ["// after lower_hlo (penguin)", "// after lower_ap (address)", "loc dram0(a)", "total"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&trace).expect("the trace")).expect("a JSON value");
    assert!(trace["traceEvents"].as_array().is_some_and(|e| e.len() > 5));
}

#[test]
fn explain_without_such_a_value_is_refused() {
    let (dir, module, _) = scratch(ADD.as_bytes());
    refuses(&["explain", &module, "nobody"], "MUR0903", dir.path());
}

#[test]
fn explain_tells_where_run_time_extents_come_from() {
    let module = path(&fixture("dyn_concat").join("module.hlo.txt")).to_string();
    let out = murre(&["explain", &module, "--shapes"]);
    let shown = text(&out.stdout);
    for part in
        ["c = f32[<=10]{0} concatenate", "dimension 0 of at most 10: size", "padded for show.c (dot) with 0"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let out = murre(&["explain", &module, "--shapes", "--json"]);
    let rows: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a JSON value");
    assert!(rows.as_array().is_some_and(|r| r.len() == 4 && r[0]["bound"] == 4), "{rows}");
    assert!(shown.contains("rebuilt c (concatenate): parts stand behind each other"), "{shown}");
    // Values of bodies are told with their computation.
    let module = path(&fixture("dyn_while_carry").join("module.hlo.txt")).to_string();
    let shown = text(&murre(&["explain", &module, "--shapes"]).stdout);
    assert!(shown.contains("body/x2 = f32[<=8]{0} add") && shown.contains("given with body/t"), "{shown}");
}

#[test]
fn explain_tells_the_extents_of_one_input_apart() {
    let module = "HloModule m\nENTRY e {\n  x = f32[<=4,<=6] parameter(0)\n  n = s32[] parameter(1)\n  \
                  y = f32[<=6,<=4] transpose(x), dimensions={1,0}\n  \
                  z = f32[<=6,<=4] set-dimension-size(y, n), dimensions={0}\n  \
                  ROOT c = f32[<=12,<=4] concatenate(z, y), dimensions={0}\n}\n";
    let (_dir, module, _) = scratch(module.as_bytes());
    let shown = text(&murre(&["explain", &module, "--shapes"]).stdout);
    for part in [
        "dimension 0 of at most 6: size the extent of input x in dimension 1",
        "dimension 1 of at most 4: size the extent of input x in dimension 0",
        "size (n (checked by the run) + the extent of input x in dimension 1)",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn explain_tells_what_has_no_rule_and_the_rest_all_the_same() {
    let module = "HloModule m\nENTRY e {\n  x = f32[<=4,4] parameter(0)\n  y = f32[<=4,4] negate(x)\n  \
                  ROOT a = f32[<=4,4] cholesky(y), lower=true\n}\n";
    let (_dir, module, _) = scratch(module.as_bytes());
    let out = murre(&["explain", &module, "--shapes"]);
    let shown = text(&out.stdout);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        shown.contains("y = f32[<=4,4] negate") && shown.contains("refused a, dimension 0: cholesky"),
        "{shown}"
    );
    assert!(text(&out.stderr).contains("MUR0406"), "{}", text(&out.stderr));
}

#[test]
fn decode_names_an_address_and_refuses_other_digits() {
    let out = murre(&["decode", "0x00144000"]);
    assert!(text(&out.stdout).contains("SBUF partition 5, byte 0x4000"));
    let dir = tempfile::tempdir().expect("a scratch directory");
    refuses(&["decode", "123"], "MUR0904", dir.path());
}

#[test]
fn an_endless_evaluation_ends_by_its_limit() {
    let module = "HloModule m\nbody {\n  ROOT x = s32[] parameter(0)\n}\ncond {\n  x = s32[] parameter(0)\n  \
                  ROOT t = pred[] constant(true)\n}\nENTRY e {\n  z = s32[] constant(0)\n  \
                  ROOT w = s32[] while(z), condition=cond, body=body\n}\n";
    let (dir, module, out) = scratch(module.as_bytes());
    refuses(&["eval", &module, "--outputs", &out, "--max-steps", "1000"], "MUR0303", dir.path());
}

#[test]
fn usage_errors_are_json_for_programs_that_read() {
    for args in [vec!["--json", "compile"], vec!["nothing", "--json"], vec!["run", "m", "--json", "--what"]] {
        let out = murre(&args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        let line = text(&out.stderr);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert_eq!(value["code"], "MUR0908", "{line}");
        assert!(
            value["message"].as_str().is_some_and(|m| !m.is_empty() && !m.starts_with("error")),
            "{line}"
        );
        assert_eq!(text(&out.stdout), "");
    }
    let out = murre(&["compile"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("Usage: murre compile"), "{}", text(&out.stderr));
    assert_eq!(murre(&["--json", "--help"]).status.code(), Some(0));
}

#[test]
fn what_has_no_effect_is_said() {
    let (dir, inputs) = changed_inputs(|d| {
        std::fs::copy(d.join("input_1.npy"), d.join("input_2.npy")).expect("copying");
    });
    let module = path(&dir.path().join("module")).to_string();
    let artifact = path(&dir.path().join("out.mur")).to_string();
    let outputs = path(&dir.path().join("outputs")).to_string();
    assert_eq!(murre(&["compile", &module, "-o", &artifact]).status.code(), Some(0));
    for command in ["eval", "run"] {
        let out = murre(&[command, &module, "--inputs", &inputs, "--outputs", &outputs]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.starts_with("warning[MUR0909]") && said.contains("input_2.npy"), "{said}");
    }
    std::fs::remove_file(dir.path().join("input_2.npy")).expect("removing");
    let run = ["run", &artifact, "--inputs", &inputs, "--outputs", &outputs];
    let out = murre(&run);
    assert_eq!((out.status.code(), text(&out.stderr).as_str()), (Some(0), ""));
    let out = murre(&[&run[..], &["--target", "trn3", "--verify"]].concat());
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("MUR0909") && said.contains("--target, --verify"), "{said}");
}

#[test]
fn a_size_of_sbuf_that_cannot_be_is_refused_before_anything_else() {
    let module = fixture("llama_generate_loop").join("module.hlo.txt");
    for bytes in ["1", "16400", "16420", "196609", "230000"] {
        let out = murre(&["compile", path(&module), "--stop-after", "place", "--sbuf-bytes", bytes]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.starts_with("error[MUR0505]") && said.contains("from 16448 to 229376"), "{said}");
    }
    let case = fixture("dus_kv_write");
    let out = murre(&["check", path(&case), "--sbuf-bytes", "100"]);
    assert!(text(&out.stderr).contains("MUR0505"), "{}", text(&out.stderr));
}

#[test]
fn explain_shows_the_values_of_a_run() {
    let case = fixture("dus_kv_write");
    let module = path(&case.join("module.hlo.txt")).to_string();
    let out = murre(&["explain", &module, "pos.1", "--inputs", path(&case), "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let story: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(story["simulated"], true);
    let steps = story["arithmetic"].as_array().expect("steps");
    let clamp = steps.iter().find(|s| s["why"] == "upper_clamp").expect("an upper clamp");
    assert_eq!(clamp["values"]["first"][0], 0, "{clamp}");
    assert!(story["accesses"][0]["places"][0]["byte"].is_u64(), "{}", story["accesses"]);
    assert!(story["accesses"][0]["symbolic"]["terms"][0]["coef"].is_i64(), "{}", story["accesses"]);
    let out = murre(&["explain", &module, "pos.1"]);
    assert!(text(&out.stdout).contains("With --inputs"), "{}", text(&out.stdout));
    let dir = tempfile::tempdir().expect("a scratch directory");
    refuses(&["explain", &module, "ck.1"], "MUR0906", dir.path());
    // The variable of a cache is data, its name close to another one gives a hint.
    let said = text(&murre(&["explain", &module, "pos"]).stderr);
    assert!(said.contains("did you mean pos.1?"), "{said}");
}

#[test]
fn history_follows_names_and_rows() {
    let module = path(&fixture("dus_kv_write").join("module.hlo.txt")).to_string();
    let out = murre(&["history", &module, "pos.1", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let history: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let changes = history["entities"][0]["changes"].as_array().expect("changes");
    assert_eq!(changes[0]["deed"], "read");
    assert!(changes.iter().any(|c| c["pass"] == "assemble_program"), "{changes:?}");
    let out = murre(&["history", &module, "%r1"]);
    assert!(
        text(&out.stdout).starts_with("register r1\n\nmade by lower_hlo (penguin)"),
        "{}",
        text(&out.stdout)
    );
    let dir = tempfile::tempdir().expect("a scratch directory");
    refuses(&["history", &module, "loc999"], "MUR0907", dir.path());
}

#[test]
fn a_case_is_held_against_itself_with_constants() {
    let case = fixture("dus_kv_write");
    let out = murre(&["check", path(&case), "--fix-scalars", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}{}", text(&out.stdout), text(&out.stderr));
    let line = text(&out.stdout).lines().next().map(str::to_owned).expect("a case");
    let report: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(report["fixed"]["scalars"], serde_json::json!(["pos.1"]));
    assert!(report["fixed"]["runs"].as_u64().is_some_and(|n| n >= 8), "{line}");
    assert_eq!(report["fixed"]["coincide"], report["fixed"]["steered"], "{line}");
    let out = murre(&["check", path(&fixture("gather_embedding")), "--fix-scalars"]);
    assert!(text(&out.stdout).contains("no scalar of its steers anything"), "{}", text(&out.stdout));
}

#[test]
fn an_output_that_is_the_input_is_refused() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let module = dir.path().join("m.hlo");
    let source = "HloModule m\n\nENTRY e {\n  ROOT p = f32[2] parameter(0)\n}\n";
    std::fs::write(&module, source).expect("written");
    refuses(&["compile", path(&module), "-o", path(&module)], "MUR0901", dir.path());
    let link = dir.path().join("link.mur");
    std::os::unix::fs::symlink(&module, &link).expect("a link");
    refuses(&["compile", path(&module), "-o", path(&link)], "MUR0901", dir.path());
    assert_eq!(std::fs::read_to_string(&module).expect("there"), source);
    // A link to another file is followed, and stays.
    let artifact = dir.path().join("real.mur");
    std::fs::write(&artifact, "").expect("written");
    std::fs::remove_file(&link).expect("removed");
    std::os::unix::fs::symlink(&artifact, &link).expect("a link");
    assert!(murre(&["compile", path(&module), "-o", path(&link)]).status.success());
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(std::fs::read(&artifact).expect("there").starts_with(b"\x7fELF"));
}
