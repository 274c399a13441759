//! What ten programs come to, committed: instructions, records, descriptors, words, bytes moved, registers, memory, size
//! of the artifact. A change of the compiler that changes one of them is a line in a diff of `tests/snapshots/metrics.json`,
//! which `scripts/budgets --update` (or `cargo test --test metrics -- --ignored`) rewrites.

use murre::components::bir::RegHead;
use murre::components::estimate::Estimate;
use murre::systems::staging::Counts;
use murre::systems::synth::synthetic;
use murre::systems::{CompileOptions, Compiler, EstimateOptions, Stage};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Programs of the fixtures, by folder.
const FIXTURES: [&str; 8] = [
    "attn_decode_step",
    "conv_small",
    "dot_general_forms",
    "dyn_softmax",
    "gather_general",
    "llama_decode_step",
    "scatter_batched_kv",
    "while_decode_kv",
];
/// Instructions of the synthetic ones.
const SYNTHETIC: [u32; 2] = [1_000, 5_000];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn snapshot() -> PathBuf {
    root().join("tests/snapshots/metrics.json")
}

/// The numbers of a compiler that is ready to run.
fn metrics(mut compiler: Compiler, first: Stage) -> Value {
    compiler.world.resource_mut::<CompileOptions>().estimate = Some(EstimateOptions::default());
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= first).collect();
    compiler.run(&stages);
    let counts = *compiler.world.resource::<Counts>();
    let mut registers = [0u8; 64];
    let mut heads = compiler.world.query::<&RegHead>();
    for head in heads.iter(&compiler.world).filter(|h| h.colour < 64) {
        let most = registers.get_mut(head.engine as usize).expect("an engine");
        *most = (*most).max(head.colour + head.width);
    }
    let mut outcome = compiler.finish();
    let program = outcome.program.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics));
    let estimate = outcome.world.remove_resource::<Estimate>().expect("an estimate");
    json!({
        "instructions": counts.insts,
        "records": estimate.sizes.records,
        "descriptors": program.descriptors.len(),
        "dma_blocks": program.blocks.len(),
        "addr4_words": program.addr4.len(),
        "dma_bytes": estimate.dma.moved,
        "register_ops": estimate.sizes.register_ops,
        "registers": registers.iter().max(),
        "virtual_registers": counts.regs,
        "sbuf_peak_bytes": estimate.sizes.sbuf_peak_bytes,
        "psum_peak_bytes": estimate.sizes.psum_peak_bytes,
        "artifact_bytes": murre::artifact::write(&program).len(),
    })
}

/// All programs, by name.
fn measured() -> Map<String, Value> {
    let mut all = Map::new();
    for name in FIXTURES {
        let path = root().join("tests/fixtures").join(name).join("module.hlo.txt");
        let module = murre::hlo::read_module(&std::fs::read(path).expect("a module"), name)
            .unwrap_or_else(|d| panic!("{d:?}"));
        let compiler = Compiler::new(module, CompileOptions::default());
        all.insert(name.to_string(), metrics(compiler, Stage::DynamicShape));
    }
    for n in SYNTHETIC {
        all.insert(format!("synthetic_{n}"), metrics(synthetic(n, 7), Stage::Place));
    }
    all
}

/// `program metric: old -> new` for every number that differs.
fn differences(old: &Value, new: &Map<String, Value>) -> Vec<String> {
    let mut out = Vec::new();
    let nothing = Map::new();
    let old = old.as_object().unwrap_or(&nothing);
    for (name, numbers) in new {
        for (metric, now) in numbers.as_object().unwrap_or(&nothing) {
            let before = old.get(name).and_then(|o| o.get(metric)).unwrap_or(&Value::Null);
            if before != now {
                out.push(format!("{name} {metric}: {before} -> {now}"));
            }
        }
    }
    out.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("{name}: gone")));
    out
}

#[test]
fn programs_come_to_what_is_committed() {
    let text = std::fs::read_to_string(snapshot()).unwrap_or_default();
    let committed = serde_json::from_str(&text).unwrap_or(Value::Null);
    let differences = differences(&committed, &measured());
    assert!(
        differences.is_empty(),
        "metrics changed; if that is meant, commit them with `cargo test --test metrics -- --ignored`:\n  {}",
        differences.join("\n  ")
    );
}

#[test]
fn a_change_is_named() {
    let old = json!({ "a": { "records": 3, "words": 1 }, "b": {} });
    let new = json!({ "a": { "records": 4, "words": 1 } });
    let said = differences(&old, new.as_object().expect("an object"));
    assert_eq!(said, ["a records: 3 -> 4", "b: gone"]);
}

/// Not a test: the command that commits new numbers.
#[test]
#[ignore = "rewrites the committed numbers"]
fn rewrite_the_snapshot() {
    let text = serde_json::to_string_pretty(&Value::Object(measured())).expect("JSON") + "\n";
    std::fs::write(snapshot(), text).expect("writing the snapshot");
}

/// A pass without a bench would have no budget.
#[test]
fn every_pass_has_a_bench() {
    let benches = std::fs::read_to_string(root().join("benches/stages.rs")).expect("the benches");
    for pass in murre::systems::passes() {
        assert!(benches.contains(&format!("#[bench::{0}(args = (\"{0}\",", pass.name)), "{}", pass.name);
    }
}
