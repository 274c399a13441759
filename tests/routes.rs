//! Routes of DMAs as users meet them: what each DGE level admits and how a refusal reads, hardware generation on the
//! simulator, the scratch of the software generator, and the reasons that are printed.

mod support;

use murre::array::HostArray;
use murre::array::case::load_case;
use murre::components::bir::{DgeType, InstHead};
use murre::components::engine::{EngineId, Target};
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::systems::route::{RouteReason, RouteReasons};
use murre::systems::{CompileOptions, DgeLevels, DgeRoute, compile};
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{Lcg, module, random_inputs, simulated};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read(name: &str) -> HloModule {
    let bytes = std::fs::read(fixture(name).join("module.hlo.txt")).expect("a fixture");
    murre::hlo::read_module(&bytes, name).expect("a module")
}

fn murre(command: &str, name: &str, args: &[&str]) -> Output {
    let file = fixture(name).join("module.hlo.txt");
    let mut c = Command::new(env!("CARGO_BIN_EXE_murre"));
    c.arg(command).arg(file).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard error of a compilation that exits with `code`.
#[track_caller]
fn compile_exits(code: i32, name: &str, args: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let out_file = dir.path().join("out.mur");
    let mut all = vec!["-o", out_file.to_str().expect("a UTF-8 path")];
    all.extend(args);
    let out = murre("compile", name, &all);
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{name} {args:?}: {errors}");
    assert_eq!(out_file.exists(), code == 0, "{name} {args:?}");
    errors
}

/// A program under options, and the live copies and triggers of its tables.
fn program(module: &HloModule, change: impl Fn(&mut CompileOptions)) -> (Program, Vec<InstHead>) {
    let mut options = CompileOptions { verify: true, ..Default::default() };
    change(&mut options);
    let mut outcome = compile(module.clone(), options);
    let program = outcome.program.unwrap_or_else(|| panic!("{:#?}", outcome.diagnostics));
    let mut q = outcome.world.query::<&InstHead>();
    let dma = |h: &&InstHead| h.op.is_dma() && h.live();
    (program, q.iter(&outcome.world).filter(dma).copied().collect())
}

fn count(heads: &[InstHead], route: DgeType) -> usize {
    heads.iter().filter(|h| h.dge == route).count()
}

#[test]
fn a_copy_without_its_levels_is_refused_with_what_would_help() {
    for (name, instruction, what, level) in [
        ("dus_kv_write", "%dynamic_update_slice.2", "at a run-time offset", "scalar_dynamic_offset"),
        ("gather_embedding", "%gather.1", "copies rows at run-time offsets", "vector_dynamic_offsets"),
    ] {
        for levels in ["none", "spill_reload", "0,3,4,5,6", "dst_reduce,io"] {
            for target in ["trn1", "core_v5"] {
                let errors = compile_exits(1, name, &["--dge-levels", levels, "--target", target]);
                for part in [
                    "error[MUR0430]",
                    &format!("instruction: {instruction}"),
                    what,
                    &format!("add {level} to --dge-levels"),
                ] {
                    assert!(errors.contains(part), "{part} in {errors}");
                }
            }
        }
        // Either of the two levels admits both kinds (ir.md 7.2 row 5).
        for levels in ["scalar_dynamic_offset", "vector_dynamic_offsets", "1", "2", "all"] {
            compile_exits(0, name, &["--dge-levels", levels]);
        }
    }
    compile_exits(0, "conv_small", &["--dge-levels", "none"]);
}

#[test]
fn names_that_are_no_levels_are_usage_errors_with_a_suggestion() {
    let errors = compile_exits(2, "ds_scalar", &["--dge-levels", "scalar,spil_reload"]);
    assert!(errors.contains("'scalar' (did you mean 'scalar_dynamic_offset'?)"), "{errors}");
    assert!(errors.contains("'spil_reload' (did you mean 'spill_reload'?)"), "{errors}");
    assert!(errors.contains("io (6), or 'all', or 'none'"), "{errors}");
    for bad in ["7", "none,io", "", "io,,io"] {
        compile_exits(2, "ds_scalar", &["--dge-levels", bad]);
    }
    let errors = compile_exits(2, "ds_scalar", &["--dge-route", "fast"]);
    assert!(errors.contains("auto, sw, hw"), "{errors}");
}

#[test]
fn level_io_decides_about_inputs_and_outputs() {
    let module = module(
        "HloModule m ENTRY e { x = f32[64,512] parameter(0) y = f32[64,512] negate(x) ROOT z = f32[64,512] exponential(y) }",
    );
    let inputs = random_inputs(&module, &mut Lcg(7));
    let of = |levels| {
        let (p, heads) = program(&module, |o| o.dge_levels = DgeLevels(levels));
        (simulated(&p, &inputs, Some(2)), count(&heads, DgeType::Swdge), p.blocks.len())
    };
    let (on, off) = (of(DgeLevels::IO), of(DgeLevels::SCALAR | DgeLevels::SPILL_RELOAD));
    assert_eq!(on.0, off.0);
    assert!(on.1 >= 2 && on.2 == 0, "{on:?}");
    assert!(off.1 == 0 && off.2 >= 2, "{off:?}");
}

#[test]
fn without_dst_reduce_a_scatter_that_combines_is_a_loop() {
    {
        let name = "scatter_combiners";
        let (module, case) = (read(name), load_case(&fixture(name)).expect("a case"));
        let without = DgeLevels(DgeLevels::ALL.0 & !DgeLevels::DST_REDUCE);
        let programs = [DgeLevels::ALL, without].map(|l| program(&module, |o| o.dge_levels = l).0);
        assert!(programs[0].streams != programs[1].streams, "{name} has no such scatter");
        for vector in &case.vectors {
            let (inputs, goldens) =
                (case.read_inputs(vector).expect("inputs"), case.read_goldens(vector).expect("goldens"));
            for p in &programs {
                assert!(case.compare(&simulated(p, &inputs, Some(1)), &goldens).is_empty(), "{name}");
            }
        }
    }
}

/// Inline copies of each stream: 0xD4 records.
fn inline_copies(p: &Program) -> [usize; 5] {
    let mut out = [0; 5];
    for (stream, count) in p.streams.iter().zip(&mut out) {
        *count = stream.iter().filter(|r| r[0] == 0xD4).count();
    }
    out
}

#[test]
fn hardware_generated_copies_give_xlas_numbers() {
    let stream = |e: EngineId| e.stream().expect("a stream");
    let names = [
        "attn_decode_step",
        "dus_kv_write",
        "dus_multi_clamp",
        "ds_dus_copy_chain",
        "ds_multi_clamp",
        "while_decode_kv",
        "while_nested",
        "gather_embedding",
        "llama_decode_step",
    ];
    let mut engines = [[0usize; 5]; 3];
    for name in names {
        let (module, case) = (read(name), load_case(&fixture(name)).expect("a case"));
        for (target, engines) in [Target::Trn2, Target::Trn3, Target::CoreV5].into_iter().zip(&mut engines) {
            let (p, heads) = program(&module, |o| (o.target, o.dge_route) = (target, DgeRoute::Hardware));
            let inline = inline_copies(&p);
            assert!(count(&heads, DgeType::Hwdge) > 0 || name == "gather_embedding", "{name}");
            engines.iter_mut().zip(inline).for_each(|(sum, n)| *sum += n);
            for vector in &case.vectors {
                let (inputs, goldens) =
                    (case.read_inputs(vector).expect("inputs"), case.read_goldens(vector).expect("goldens"));
                for seed in [None, Some(1), Some(2)] {
                    let wrong = case.compare(&simulated(&p, &inputs, seed), &goldens);
                    assert!(wrong.is_empty(), "{name} {} {}", target.name(), vector.name);
                }
            }
        }
    }
    for (generation, engines) in engines.iter().enumerate() {
        let (sp, dve) = (engines[stream(EngineId::Sp)], engines[stream(EngineId::Dve)]);
        assert!(sp > 0, "generation {}: {engines:?}", generation + 3);
        // Round robin over three engines on generation 5 only.
        assert_eq!(dve > 0, generation == 2, "{engines:?}");
        assert_eq!(engines[stream(EngineId::Pe)], 0);
    }
}

#[test]
fn the_round_robin_starts_anew_for_each_module() {
    let module = module(
        "HloModule m ENTRY e { x = f32[64,256] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)
  a = f32[1,256] dynamic-slice(x, i, z), dynamic_slice_sizes={1,256}
  b = f32[1,256] dynamic-slice(x, z, i), dynamic_slice_sizes={1,256}
  ROOT t = (f32[1,256], f32[1,256]) tuple(a, b) }",
    );
    let of = || program(&module, |o| (o.target, o.dge_route) = (Target::CoreV5, DgeRoute::Hardware));
    let (first, second) = (of(), of());
    assert_eq!(first.0.streams, second.0.streams, "the counter is the module's");
    let sp = EngineId::Sp.stream().expect("a stream");
    assert!(inline_copies(&first.0)[sp] > 0, "SP is first");
}

#[test]
fn long_copies_are_hardwares_without_being_asked() {
    // 1500 rows of 1 KiB: past the ring of the software generator, within that of the hardware.
    let module = module(
        "HloModule m ENTRY e { x = f32[1500,512] parameter(0) ROOT y = f32[1500,256] slice(x), slice={[0:1500],[7:263]} }",
    );
    let inputs = random_inputs(&module, &mut Lcg(3));
    let of = |target, route| program(&module, |o| (o.target, o.dge_route) = (target, route));
    let (hard, heads) = of(Target::Trn2, DgeRoute::Auto);
    assert!(count(&heads, DgeType::Hwdge) > 0, "{heads:?}");
    let mut outcome = compile(module.clone(), CompileOptions::default());
    let reasons = outcome.world.remove_resource::<RouteReasons>().expect("reasons").0;
    assert!(reasons.contains(&RouteReason::FitsHardware));
    let mut results: Vec<Vec<HostArray>> = vec![simulated(&hard, &inputs, Some(4))];
    for (target, route) in [(Target::Trn1, DgeRoute::Auto), (Target::Trn2, DgeRoute::Software)] {
        let (p, heads) = of(target, route);
        assert_eq!(count(&heads, DgeType::Hwdge), 0, "{}", target.name());
        results.push(simulated(&p, &inputs, Some(4)));
    }
    assert!(results.windows(2).all(|w| w[0] == w[1]));
}

#[test]
fn generation_2_refuses_hardware() {
    let errors = compile_exits(1, "dus_kv_write", &["--target", "trn1", "--dge-route", "hw"]);
    assert!(errors.contains("error[MUR0462]") && errors.contains("trn1 has no hardware"), "{errors}");
    compile_exits(0, "dus_kv_write", &["--target", "trn1", "--dge-route", "sw"]);
}

#[test]
fn the_scratch_has_a_size_that_can_be_nothing() {
    let option = "--dynamic-dma-scratch-size-per-partition";
    for bad in ["1", "100", "229376"] {
        let errors = compile_exits(1, "dus_kv_write", &[option, bad]);
        assert!(errors.contains("error[MUR0461]") && errors.contains("multiple of 64"), "{errors}");
    }
    compile_exits(2, "dus_kv_write", &[option, "-1"]);
    let errors = compile_exits(1, "dus_kv_write", &[option, "0"]);
    for part in ["error[MUR0463]", "%dynamic_update_slice.2", "--dge-route hw"] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
    let errors = compile_exits(1, "gather_embedding", &[option, "0", "--dge-route", "hw"]);
    assert!(errors.contains("error[MUR0463]") && errors.contains("software's alone"), "{errors}");
    compile_exits(0, "dus_kv_write", &[option, "0", "--dge-route", "hw"]);
    compile_exits(0, "conv_small", &["--dynamic-dma-sbuf-bytes", "0"]);
}

#[test]
fn what_the_scratch_does_not_take_is_there_for_tiles() {
    let module = read("attn_decode_step");
    let of = |bytes, limit| {
        let mut options = CompileOptions { verify: true, ..Default::default() };
        (options.dge_scratch_bytes, options.sbuf_limit) = (bytes, limit);
        options.dge_route = DgeRoute::Hardware;
        let outcome = compile(module.clone(), options);
        outcome.program.ok_or_else(|| outcome.diagnostics.iter().map(|d| d.code.id).collect::<Vec<_>>())
    };
    // 8 bytes behind the scratch stay the generation's, nothing is subtracted twice.
    let small = Some(16_384);
    assert!(of(0, small).is_ok() && of(1024, small).is_ok());
    assert!(of(16_384, small).is_err_and(|codes| codes.contains(&"MUR0505")));
    assert!(of(16_384, None).is_ok() && of(65_536, None).is_ok());
    let (p, case) =
        (of(0, small).expect("a program"), load_case(&fixture("attn_decode_step")).expect("a case"));
    for vector in &case.vectors {
        let (inputs, goldens) =
            (case.read_inputs(vector).expect("inputs"), case.read_goldens(vector).expect("goldens"));
        assert!(case.compare(&simulated(&p, &inputs, None), &goldens).is_empty());
    }
}

#[test]
fn explain_and_dumps_say_why_this_route_engine_and_queue() {
    let out = text(&murre("explain", "dus_kv_write", &["pos.1"]).stdout);
    for part in [
        "route    SWDGE: an offset in a register: software generator",
        "engine   pool: Pool is the software generator",
        "(dynamic) of pool: generated on the device",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let out = text(&murre("explain", "dus_kv_write", &["pos.1", "--dge-route", "hw"]).stdout);
    for part in [
        "route    HWDGE: asked for by --dge-route hw: hardware generator",
        "engine   sp: has a hardware generator and holds the offset register",
        "(dynamic) of sp: generated on the device",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let out = text(&murre("compile", "while_decode_kv", &["--print-after", "alloc_queues"]).stdout);
    for part in ["; in a loop, once a trip; engine: ", "; queue: reads an input", "// route: "] {
        assert!(out.contains(part), "{part} in {out}");
    }
}
