//! Executed instructions of every back-end stage, counted by callgrind. In: a synthetic program of `n` BIR instructions
//! with every earlier stage already run. Out: a count that is the same from run to run, held to a hard limit, so that a
//! stage that got dearer fails the run. Setup is not counted. One thread: counts of several do not repeat.

use iai_callgrind::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use murre_systems::compile::set_threads;
use murre_systems::options::EstimateOptions;
use murre_systems::synth::synthetic;
use murre_systems::{CompileOptions, Compiler, Stage};
use std::hint::black_box;

/// Seed of the synthetic programs: limits hold for this one.
const SEED: u64 = 7;

/// A program of `n` instructions as `stage` receives it.
fn before(stage: Stage, n: u32) -> (Compiler, Stage) {
    set_threads(1);
    let mut compiler = synthetic(n, SEED);
    let earlier: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place && *s < stage).collect();
    compiler.run_stages_stepwise(&earlier, |_, _, _| ());
    if stage == Stage::Estimate {
        compiler.world.resource_mut::<CompileOptions>().estimate = Some(EstimateOptions::default());
    }
    (compiler, stage)
}

/// A module of about `n` instructions that reads, computes and writes rows of an array at run-time positions, as `stage`
/// receives it.
fn module_before(stage: Stage, n: u32) -> (Compiler, Stage) {
    use std::fmt::Write;
    set_threads(1);
    let mut text = String::from(
        "HloModule rows\nENTRY main {\n x0 = f32[16,64] parameter(0)\n i0 = s32[] parameter(1)\n one = s32[] constant(1)\n zero = s32[] constant(0)\n",
    );
    let blocks = n / 5;
    for k in 1..=blocks {
        let j = k - 1;
        let _ = write!(
            text,
            " i{k} = s32[] add(i{j}, one)\n r{k} = f32[1,64] dynamic-slice(x{j}, i{k}, zero), dynamic_slice_sizes={{1,64}}\n m{k} = f32[1,64] multiply(r{k}, r{k})\n e{k} = f32[1,64] exponential(m{k})\n x{k} = f32[16,64] dynamic-update-slice(x{j}, e{k}, i{k}, zero)\n",
        );
    }
    let _ = write!(text, " ROOT r = f32[16,64] copy(x{blocks})\n}}\n");
    let module = murre::hlo::read_module(text.as_bytes(), "rows").unwrap_or_default();
    let mut compiler = Compiler::new(module, Default::default());
    let earlier: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s < stage).collect();
    compiler.run_stages_stepwise(&earlier, |_, _, _| ());
    (compiler, stage)
}

fn run((mut compiler, stage): (Compiler, Stage)) -> Compiler {
    compiler.run_stages_stepwise(&[stage], |_, _, _| ());
    compiler
}

/// The program of an example, as text.
fn module_of(example: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/");
    std::fs::read(format!("{folder}{example}/module.hlo.txt")).unwrap_or_default()
}

/// At most `instructions`; a bench without a limit would not fail.
fn limit(instructions: u64) -> LibraryBenchmarkConfig {
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(Callgrind::default().hard_limits([(EventKind::Ir, instructions)]));
    config
}

// Limits are the measured counts and one to four per cent: counts depend on the compiler's version, which
// rust-toolchain.toml pins, and on the standard library's.
#[library_benchmark]
#[bench::place_10k(args = (Stage::Place, 10_000), setup = before, config = limit(11_199_000))]
#[bench::place_40k(args = (Stage::Place, 40_000), setup = before, config = limit(44_688_000))]
#[bench::address_10k(args = (Stage::Address, 10_000), setup = before, config = limit(17_713_000))]
#[bench::address_40k(args = (Stage::Address, 40_000), setup = before, config = limit(62_810_000))]
#[bench::registers_10k(args = (Stage::Registers, 10_000), setup = before, config = limit(7_805_000))]
#[bench::registers_40k(args = (Stage::Registers, 40_000), setup = before, config = limit(32_465_000))]
#[bench::route_10k(args = (Stage::Route, 10_000), setup = before, config = limit(5_298_000))]
#[bench::route_40k(args = (Stage::Route, 40_000), setup = before, config = limit(19_729_000))]
#[bench::describe_10k(args = (Stage::Describe, 10_000), setup = before, config = limit(3_277_000))]
#[bench::describe_40k(args = (Stage::Describe, 40_000), setup = before, config = limit(11_924_000))]
#[bench::sync_10k(args = (Stage::Sync, 10_000), setup = before, config = limit(13_322_000))]
#[bench::sync_40k(args = (Stage::Sync, 40_000), setup = before, config = limit(44_578_000))]
#[bench::encode_10k(args = (Stage::Encode, 10_000), setup = before, config = limit(20_940_000))]
#[bench::encode_40k(args = (Stage::Encode, 40_000), setup = before, config = limit(82_684_000))]
#[bench::estimate_10k(args = (Stage::Estimate, 10_000), setup = before, config = limit(14_616_000))]
#[bench::estimate_40k(args = (Stage::Estimate, 40_000), setup = before, config = limit(57_191_000))]
fn back_end(input: (Compiler, Stage)) -> Compiler {
    black_box(run(input))
}

#[library_benchmark]
#[bench::dynamic_shape_5k(args = (Stage::DynamicShape, 5_000), setup = module_before, config = limit(540_000))]
#[bench::legalize_5k(args = (Stage::Legalize, 5_000), setup = module_before, config = limit(5_640_000))]
#[bench::simplify_5k(args = (Stage::Simplify, 5_000), setup = module_before, config = limit(8_284_000))]
#[bench::penguin_5k(args = (Stage::Penguin, 5_000), setup = module_before, config = limit(39_181_000))]
#[bench::loops_5k(args = (Stage::Loops, 5_000), setup = module_before, config = limit(73_000))]
#[bench::codegen_5k(args = (Stage::Codegen, 5_000), setup = module_before, config = limit(14_175_000))]
fn front_end(input: (Compiler, Stage)) -> Compiler {
    black_box(run(input))
}

#[library_benchmark]
#[bench::example(args = ("attention_decode_step"), setup = module_of, config = limit(694_000))]
fn read_and_verify(bytes: Vec<u8>) -> bool {
    black_box(murre::check::verified_module(&bytes::Bytes::from(bytes), "example").is_ok())
}

library_benchmark_group!(name = stages; benchmarks = front_end, back_end, read_and_verify);

main!(library_benchmark_groups = stages);
