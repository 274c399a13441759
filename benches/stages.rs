//! Executed instructions of every pass, and of the pipeline at three sizes, counted by callgrind. In: a program of `n`
//! instructions as the pass receives it. Out: a count, the same from run to run; `scripts/budgets` compares it with the
//! committed one. Setup is not counted. One thread: counts of several do not repeat.
//!
//! Passes before code generation get a module of about `n` HLO instructions, the others a synthetic program of `n` BIR
//! instructions. A pass that finds nothing to do there is held to what it costs to find that out.

use bevy_ecs::prelude::*;
use bevy_ecs::schedule::SingleThreadedExecutor;
use iai_callgrind::{library_benchmark, library_benchmark_group, main};
use murre_components::hlo::HloModule;
use murre_systems::compile::set_threads;
use murre_systems::options::EstimateOptions;
use murre_systems::pass::PassSet;
use murre_systems::synth::{synthetic, synthetic_batch};
use murre_systems::{CompileOptions, Compiler, Stage, passes};
use std::hint::black_box;

/// Seed of the synthetic programs: budgets hold for this one.
const SEED: u64 = 7;

/// A world, and a schedule that is to be counted.
type Ready = (World, Schedule);

/// The world as `pass` receives it, and a schedule of that pass alone. The passes before it, from stage `first` on,
/// have run.
fn ready(mut compiler: Compiler, first: Stage, pass: &str) -> Ready {
    compiler.world.resource_mut::<CompileOptions>().estimate = Some(EstimateOptions::default());
    let mut schedule = Schedule::default();
    for (row, p) in passes().enumerate().filter(|(_, p)| p.stage >= first) {
        schedule = Schedule::default();
        schedule.set_executor(SingleThreadedExecutor::new());
        (p.add)(&mut schedule, PassSet(row as u16), None);
        drop(schedule.initialize(&mut compiler.world));
        if p.name == pass {
            break;
        }
        if !p.verify {
            schedule.run(&mut compiler.world);
        }
    }
    (compiler.world, schedule)
}

/// A synthetic program of `n` BIR instructions, as `pass` receives it.
fn back(pass: &str, n: u32) -> Ready {
    set_threads(1);
    ready(synthetic(n, SEED), Stage::Place, pass)
}

/// A module of about `n` instructions, as `pass` receives it.
fn front(pass: &str, n: u32) -> Ready {
    ready(rows_module(n), Stage::DynamicShape, pass)
}

/// A compiler with a module of about `n` instructions that reads, computes and writes rows of an array at run-time
/// positions.
fn rows_module(n: u32) -> Compiler {
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
    Compiler::new(
        murre::hlo::read_module(text.as_bytes(), "rows").unwrap_or_default(),
        CompileOptions::default(),
    )
}

/// A program that the stages behind code generation receive.
fn program(n: u32) -> Compiler {
    set_threads(1);
    synthetic(n, SEED)
}

/// The program of an example, as text.
fn module_of(example: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/");
    std::fs::read(format!("{folder}{example}/module.hlo.txt")).unwrap_or_default()
}

/// Small programs in one world.
fn programs(count: u64, n: u32) -> Compiler {
    set_threads(1);
    synthetic_batch(&(0..count).map(|k| (n, SEED + k)).collect::<Vec<_>>())
}

/// Small modules, and the compiler for them.
fn modules(count: u64, n: usize) -> (Compiler, Vec<HloModule>) {
    set_threads(1);
    let module = |k| {
        let text = murre::fixtures::synth::module(SEED, k, n);
        murre::hlo::read_module(text.as_bytes(), "synth").unwrap_or_default()
    };
    (Compiler::empty(), (0..count).map(module).collect())
}

#[library_benchmark]
#[bench::split_dynamic_indices(args = ("split_dynamic_indices", 2000), setup = front)]
#[bench::pad_dynamic_dimensions(args = ("pad_dynamic_dimensions", 2000), setup = front)]
#[bench::loop_over_live_rows(args = ("loop_over_live_rows", 2000), setup = front)]
#[bench::inline_calls(args = ("inline_calls", 2000), setup = front)]
#[bench::expand_one_device(args = ("expand_one_device", 2000), setup = front)]
#[bench::expand_random_bits(args = ("expand_random_bits", 2000), setup = front)]
#[bench::expand_select_and_scatter(args = ("expand_select_and_scatter", 2000), setup = front)]
#[bench::split_wide_integers(args = ("split_wide_integers", 2000), setup = front)]
#[bench::expand_batch_norm(args = ("expand_batch_norm", 2000), setup = front)]
#[bench::expand_convolution(args = ("expand_convolution", 2000), setup = front)]
#[bench::expand_reduce_window(args = ("expand_reduce_window", 2000), setup = front)]
#[bench::expand_sort(args = ("expand_sort", 2000), setup = front)]
#[bench::expand_scatter(args = ("expand_scatter", 2000), setup = front)]
#[bench::expand_reduce(args = ("expand_reduce", 2000), setup = front)]
#[bench::expand_integer_dots(args = ("expand_integer_dots", 2000), setup = front)]
#[bench::expand_mixed_dots(args = ("expand_mixed_dots", 2000), setup = front)]
#[bench::expand_narrow_types(args = ("expand_narrow_types", 2000), setup = front)]
#[bench::expand_float_remainder(args = ("expand_float_remainder", 2000), setup = front)]
#[bench::expand_float_functions(args = ("expand_float_functions", 2000), setup = front)]
#[bench::expand_integer_functions(args = ("expand_integer_functions", 2000), setup = front)]
#[bench::eliminate_common_subexpressions(args = ("eliminate_common_subexpressions", 2000), setup = front)]
#[bench::eliminate_dead_code(args = ("eliminate_dead_code", 2000), setup = front)]
#[bench::spawn_hlo(args = ("spawn_hlo", 2000), setup = front)]
#[bench::lower_hlo(args = ("lower_hlo", 2000), setup = front)]
#[bench::share_addresses(args = ("share_addresses", 2000), setup = front)]
#[bench::fuse_elementwise(args = ("fuse_elementwise", 2000), setup = front)]
#[bench::verify_penguin(args = ("verify_penguin", 2000), setup = front)]
#[bench::verify_loops(args = ("verify_loops", 2000), setup = front)]
#[bench::select_instructions(args = ("select_instructions", 2000), setup = front)]
#[bench::assemble_dynamic_info(args = ("assemble_dynamic_info", 2000), setup = front)]
#[bench::verify_codegen(args = ("verify_codegen", 2000), setup = front)]
fn front_pass((mut world, mut schedule): Ready) -> Ready {
    schedule.run(&mut world);
    black_box((world, schedule))
}

#[library_benchmark]
#[bench::dynamic_dma_setup(args = ("dynamic_dma_setup", 4000), setup = back)]
#[bench::loc_liveness(args = ("loc_liveness", 4000), setup = back)]
#[bench::spill_sbuf(args = ("spill_sbuf", 4000), setup = back)]
#[bench::color_psum(args = ("color_psum", 4000), setup = back)]
#[bench::color_sbuf(args = ("color_sbuf", 4000), setup = back)]
#[bench::assign_dram(args = ("assign_dram", 4000), setup = back)]
#[bench::bind_dynamic_dma(args = ("bind_dynamic_dma", 4000), setup = back)]
#[bench::verify_place(args = ("verify_place", 4000), setup = back)]
#[bench::verify_spill(args = ("verify_spill", 4000), setup = back)]
#[bench::lower_branch(args = ("lower_branch", 4000), setup = back)]
#[bench::expand_all_engine(args = ("expand_all_engine", 4000), setup = back)]
#[bench::rewire_dynamic_ap_registers(args = ("rewire_dynamic_ap_registers", 4000), setup = back)]
#[bench::expand_dynamic_ap_info(args = ("expand_dynamic_ap_info", 4000), setup = back)]
#[bench::lower_ap(args = ("lower_ap", 4000), setup = back)]
#[bench::verify_address(args = ("verify_address", 4000), setup = back)]
#[bench::verify_nests(args = ("verify_nests", 4000), setup = back)]
#[bench::verify_control_flow(args = ("verify_control_flow", 4000), setup = back)]
#[bench::drop_dead_registers(args = ("drop_dead_registers", 4000), setup = back)]
#[bench::coalesce_moves(args = ("coalesce_moves", 4000), setup = back)]
#[bench::reg_liveness(args = ("reg_liveness", 4000), setup = back)]
#[bench::color_registers(args = ("color_registers", 4000), setup = back)]
#[bench::verify_registers(args = ("verify_registers", 4000), setup = back)]
#[bench::drop_identity_moves(args = ("drop_identity_moves", 4000), setup = back)]
#[bench::dynamic_dma_scan(args = ("dynamic_dma_scan", 4000), setup = back)]
#[bench::assign_trigger_engine(args = ("assign_trigger_engine", 4000), setup = back)]
#[bench::assign_hwdge_engine(args = ("assign_hwdge_engine", 4000), setup = back)]
#[bench::alloc_queues(args = ("alloc_queues", 4000), setup = back)]
#[bench::dynamic_dma_cleanup(args = ("dynamic_dma_cleanup", 4000), setup = back)]
#[bench::verify_route(args = ("verify_route", 4000), setup = back)]
#[bench::lower_dynamic_dma(args = ("lower_dynamic_dma", 4000), setup = back)]
#[bench::lower_dma(args = ("lower_dma", 4000), setup = back)]
#[bench::split_large_dmas(args = ("split_large_dmas", 4000), setup = back)]
#[bench::convert_dma_to_trigger(args = ("convert_dma_to_trigger", 4000), setup = back)]
#[bench::verify_describe(args = ("verify_describe", 4000), setup = back)]
#[bench::lower_control(args = ("lower_control", 4000), setup = back)]
#[bench::build_edges(args = ("build_edges", 4000), setup = back)]
#[bench::alloc_semaphores(args = ("alloc_semaphores", 4000), setup = back)]
#[bench::verify_sync(args = ("verify_sync", 4000), setup = back)]
#[bench::pack_addr4(args = ("pack_addr4", 4000), setup = back)]
#[bench::layout_records(args = ("layout_records", 4000), setup = back)]
#[bench::encode_records(args = ("encode_records", 4000), setup = back)]
#[bench::encode_descriptors(args = ("encode_descriptors", 4000), setup = back)]
#[bench::assemble_program(args = ("assemble_program", 4000), setup = back)]
#[bench::verify_encode(args = ("verify_encode", 4000), setup = back)]
#[bench::verify_transfers(args = ("verify_transfers", 4000), setup = back)]
#[bench::assume_trips(args = ("assume_trips", 4000), setup = back)]
#[bench::measure_traffic(args = ("measure_traffic", 4000), setup = back)]
#[bench::count_work(args = ("count_work", 4000), setup = back)]
#[bench::time_program(args = ("time_program", 4000), setup = back)]
#[bench::price_dynamic(args = ("price_dynamic", 4000), setup = back)]
#[bench::assemble_estimate(args = ("assemble_estimate", 4000), setup = back)]
fn back_pass((mut world, mut schedule): Ready) -> Ready {
    schedule.run(&mut world);
    black_box((world, schedule))
}

// World, schedule and all passes from a module to a program.
#[library_benchmark]
#[bench::module_500(args = (500), setup = rows_module)]
#[bench::module_2k(args = (2_000), setup = rows_module)]
#[bench::module_8k(args = (8_000), setup = rows_module)]
fn whole(mut compiler: Compiler) -> Compiler {
    compiler.run(&Stage::ALL);
    black_box(compiler)
}

// The stages behind code generation as one schedule.
#[library_benchmark]
#[bench::program_1k(args = (1_000), setup = program)]
#[bench::program_10k(args = (10_000), setup = program)]
#[bench::program_100k(args = (100_000), setup = program)]
fn back_end(mut compiler: Compiler) -> Compiler {
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    compiler.run(&stages);
    black_box(compiler)
}

// Small programs in one world, and small modules with their HLO stages.
#[library_benchmark]
#[bench::programs_100_of_50(args = (100, 50), setup = programs)]
fn back_end_of_a_batch(mut compiler: Compiler) -> Compiler {
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
    compiler.run(&stages);
    black_box(compiler)
}

#[library_benchmark]
#[bench::modules_50_of_40(args = (50, 40), setup = modules)]
fn whole_batch((mut compiler, modules): (Compiler, Vec<HloModule>)) -> (Compiler, usize) {
    let made = compiler.batch(modules, &CompileOptions::default());
    black_box((compiler, made.into_iter().flatten().count()))
}

#[library_benchmark]
#[bench::example(args = ("attention_decode_step"), setup = module_of)]
fn read_and_verify(bytes: Vec<u8>) -> bool {
    black_box(murre::check::verified_module(&bytes::Bytes::from(bytes), "example").is_ok())
}

library_benchmark_group!(name = stages; benchmarks = front_pass, back_pass, whole, back_end, back_end_of_a_batch, whole_batch, read_and_verify);

main!(library_benchmark_groups = stages);
