//! Several modules in one world: each gets the bytes that it gets by itself, whatever stands beside it.

mod support;

use murre::components::engine::Target;
use murre::components::hlo::HloModule;
use murre::components::program::Program;
use murre::systems::{
    CompileOptions, Compiler, DgeLevels, DgeRoute, EstimateOptions, ExecutorChoice, compile,
};
use std::path::Path;
use support::wide_loop;

/// The fixtures, by name.
fn modules() -> Vec<(String, HloModule)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut found: Vec<(String, HloModule)> = std::fs::read_dir(root)
        .expect("the fixtures are in the repository")
        .filter_map(|e| {
            let path = e.ok()?.path();
            let text = std::fs::read(path.join("module.hlo.txt")).ok()?;
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some((name, murre::hlo::read_module(&text, "fixture").expect("a module")))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 73);
    found
}

fn alone(modules: &[(String, HloModule)], options: &CompileOptions) -> Vec<Option<Program>> {
    modules.iter().map(|m| compile(m.1.clone(), options.clone()).program).collect()
}

fn compiler() -> Compiler {
    Compiler::new(HloModule::default(), CompileOptions::default())
}

/// Compiles some of `modules` as one batch; every program that comes out must be the one of `alone`. How many came.
fn batched(
    compiler: &mut Compiler,
    modules: &[(String, HloModule)],
    alone: &[Option<Program>],
    pick: &[usize],
    options: &CompileOptions,
) -> usize {
    let programs = compiler.batch(pick.iter().map(|k| modules[*k].1.clone()).collect(), options);
    assert_eq!(programs.len(), pick.len());
    let made = programs.iter().flatten().count();
    for (k, program) in pick.iter().zip(programs) {
        assert!(program.is_none() || program == alone[*k], "{} differs in a batch", modules[*k].0);
    }
    made
}

fn options(target: Target) -> CompileOptions {
    CompileOptions { target, verify: false, ..CompileOptions::default() }
}

#[test]
fn every_fixture_is_what_it_is_alone_between_two_others() {
    let modules = modules();
    for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
        let options = options(target);
        let alone = alone(&modules, &options);
        let mut compiler = compiler();
        let other = modules.iter().position(|m| m.0 == "moe_gather_expert").unwrap_or(0);
        let mut given_up = Vec::new();
        for k in 0..modules.len() {
            if batched(&mut compiler, &modules, &alone, &[other, k, other], &options) < 3 {
                given_up.push(modules[k].0.as_str());
            }
        }
        assert!(given_up.is_empty(), "{target:?}: {given_up:?}");
    }
}

/// Options that change what the passes do, all of which a batch may have.
fn variants() -> Vec<CompileOptions> {
    let of = |set: &dyn Fn(&mut CompileOptions)| {
        let mut o = options(Target::Trn2);
        set(&mut o);
        o
    };
    vec![
        of(&|_| ()),
        of(&|o| o.executor = ExecutorChoice::Multi),
        of(&|o| o.share_dram = false),
        of(&|o| o.shuffle = Some(3)),
        of(&|o| o.batch_rows = Some(7)),
        of(&|o| {
            o.dge_levels = DgeLevels::parse("scalar_dynamic_offset,vector_dynamic_offsets").expect("levels")
        }),
        of(&|o| o.dge_route = DgeRoute::Software),
        of(&|o| o.target = Target::Trn1),
        of(&|o| o.target = Target::Trn3),
    ]
}

#[test]
fn all_fixtures_share_one_world_in_any_order() {
    let modules = modules();
    let n = modules.len();
    let mut compiler = compiler();
    for options in variants() {
        let alone = alone(&modules, &options);
        let good: Vec<usize> = (0..n).filter(|k| alone[*k].is_some()).collect();
        assert!(good.len() + 4 >= n, "{} of {n} under {options:?}", good.len());
        let turned: Vec<usize> = good.iter().rev().copied().collect();
        let mixed: Vec<usize> = (0..good.len()).map(|k| good[(k * 37 + 5) % good.len()]).collect();
        for order in [&good, &turned, &mixed] {
            assert_eq!(batched(&mut compiler, &modules, &alone, order, &options), order.len(), "{options:?}");
        }
    }
}

#[test]
fn modules_of_every_size_share_a_world() {
    let modules: Vec<(String, HloModule)> = (0..60)
        .map(|k| {
            let text = murre::fixtures::synth::module(1 + k % 2, k, 3 + (k * k) as usize % 400);
            (format!("synth {k}"), murre::hlo::read_module(text.as_bytes(), "synth").expect("a module"))
        })
        .collect();
    let options = options(Target::Trn2);
    let alone = alone(&modules, &options);
    let all: Vec<usize> = (0..modules.len()).collect();
    let mut compiler = compiler();
    assert_eq!(batched(&mut compiler, &modules, &alone, &all, &options), modules.len());
    // The same world again, and a batch of one.
    assert_eq!(batched(&mut compiler, &modules, &alone, &all[10..30], &options), 20);
    assert_eq!(batched(&mut compiler, &modules, &alone, &[7], &options), 1);
    assert_eq!(batched(&mut compiler, &modules, &alone, &[], &options), 0);
}

fn read(text: &str) -> HloModule {
    murre::hlo::read_module(text.as_bytes(), "test").expect("a module")
}

#[test]
fn a_module_that_is_refused_early_leaves_the_others_their_world() {
    let mut modules = modules();
    modules.truncate(12);
    // Stage `legalize` refuses it.
    modules.insert(
        4,
        ("refused".into(), read("HloModule no ENTRY e { x = f64[4] parameter(0) ROOT s = f64[4] sine(x) }")),
    );
    let options = options(Target::Trn2);
    let alone = alone(&modules, &options);
    assert!(alone[4].is_none());
    let all: Vec<usize> = (0..modules.len()).collect();
    assert_eq!(batched(&mut compiler(), &modules, &alone, &all, &options), modules.len() - 1);
}

#[test]
fn what_looks_at_one_module_is_not_batched() {
    let modules = modules();
    let (pick, mut compiler) = ([0, 1], compiler());
    let forbidden: [&dyn Fn(&mut CompileOptions); 6] = [
        &|o| o.verify = true,
        &|o| o.stop_after = Some(murre::systems::Stage::Place),
        &|o| o.estimate = Some(EstimateOptions::default()),
        &|o| o.pointer_bases = true,
        &|o| o.dge_route = DgeRoute::Hardware,
        &|o| o.chaos = Some(1),
    ];
    for set in forbidden {
        let mut o = options(Target::Trn2);
        set(&mut o);
        assert_eq!(batched(&mut compiler, &modules, &vec![None; modules.len()], &pick, &o), 0, "{o:?}");
    }
}

/// Modules whose compilation needs a decision about the whole program, and under which options.
fn wholes() -> Vec<(&'static str, String, CompileOptions)> {
    let plain = options(Target::Trn2);
    let tight = CompileOptions { sbuf_limit: Some(0x4040 + 2048), ..plain.clone() };
    let mut tiles =
        "HloModule many ENTRY e { x = f32[128,64] parameter(0)\n t.0 = f32[128,64] tanh(x)\n".to_owned();
    // Every one of these lives until the sum at the end.
    for k in 1..24 {
        tiles += &format!(" t.{k} = f32[128,64] tanh(t.{})\n", k - 1);
    }
    for k in 1..24 {
        let sum = if k == 1 { "t.0".to_owned() } else { format!("sum.{}", k - 1) };
        tiles += &format!(" sum.{k} = f32[128,64] add({sum}, t.{k})\n");
    }
    tiles += " ROOT r = f32[128,64] negate(sum.23) }";
    let rows =
        "HloModule rows ENTRY e { x = f32[2000,8] parameter(0) i = s32[] parameter(1) z = s32[] constant(0)
        ROOT r = f32[2000,4] dynamic-slice(x, z, i), dynamic_slice_sizes={2000,4} }";
    let turned = "HloModule turned ENTRY e { x = f32[12,12,12,12,12] parameter(0)
        ROOT r = f32[12,12,12,12,12] transpose(x), dimensions={4,3,2,1,0} }";
    vec![
        ("tiles are spilled", tiles, tight),
        ("registers are computed again", wide_loop(70, 0), plain.clone()),
        ("table entries beyond the variables", rows.into(), plain.clone()),
        ("a block past the ring", turned.into(), plain),
    ]
}

#[test]
fn a_decision_about_a_whole_program_gives_the_batch_up() {
    let small = read("HloModule small ENTRY e { x = f32[4] parameter(0) ROOT s = f32[4] negate(x) }");
    for (name, text, options) in wholes() {
        let modules = vec![("small".to_owned(), small.clone()), (name.to_owned(), read(&text))];
        let alone = alone(&modules, &options);
        assert!(alone.iter().all(Option::is_some), "{name} compiles alone");
        let mut compiler = compiler();
        assert_eq!(batched(&mut compiler, &modules, &alone, &[0, 1], &options), 0, "{name}");
        // By itself it is a batch of one, which may decide.
        assert_eq!(batched(&mut compiler, &modules, &alone, &[1], &options), 1, "{name}");
        assert_eq!(batched(&mut compiler, &modules, &alone, &[0, 0], &options), 2, "{name}");
    }
}

/// The slice clamps its starts twice, once for the copy of the view; in a world with other dynamic copies, too.
#[test]
fn addresses_are_shared_within_a_module_alone() {
    let twice = read(
        "HloModule m ENTRY e { p = s32[10,1,8,10] parameter(0) n = s32[10,1,8,10] negate(p)
        s = s32[1,1,5,4] slice(n), slice={[8:9:2], [0:1], [3:8], [0:7:2]}
        b = s32[1,1,5,3,4] broadcast(s), dimensions={0,1,2,4}
        h = s32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) k = s32[] parameter(4) l = s32[] parameter(5)
        ROOT r = s32[1,1,4,1,2] dynamic-slice(b, h, i, j, k, l), dynamic_slice_sizes={1,1,4,1,2} }",
    );
    let mut modules = modules();
    modules.truncate(8);
    modules.insert(3, ("twice".into(), twice));
    let options = options(Target::Trn2);
    let alone = alone(&modules, &options);
    let all: Vec<usize> = (0..modules.len()).collect();
    assert_eq!(batched(&mut compiler(), &modules, &alone, &all, &options), modules.len());
}

/// No instruction is left of some modules but their exits.
#[test]
fn modules_without_instructions_stand_anywhere() {
    let empty = [
        "HloModule a ENTRY e { x = f32[0,4] parameter(0) ROOT y = f32[0,4] add(x, x) }",
        "HloModule b ENTRY e { ROOT t = () tuple() }",
        "HloModule c, input_output_alias={ {}: (0, {}, may-alias) } ENTRY e { ROOT x = f32[4] parameter(0) }",
    ];
    let full = "HloModule d ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] multiply(x, x) }";
    let modules: Vec<(String, HloModule)> =
        empty.into_iter().chain([full]).map(|text| (text.to_owned(), read(text))).collect();
    let options = options(Target::Trn2);
    let alone = alone(&modules, &options);
    assert!(alone.iter().all(Option::is_some));
    let mut compiler = compiler();
    // Every sequence of four.
    for k in 0..256 {
        let pick = [k % 4, k / 4 % 4, k / 16 % 4, k / 64];
        assert_eq!(batched(&mut compiler, &modules, &alone, &pick, &options), 4, "{pick:?}");
    }
}
