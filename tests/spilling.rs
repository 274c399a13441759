//! Placement under pressure on real programs: with SBUF made small, values move to DRAM and back, and the results stay
//! the same. Also that DRAM arrays share variables and that no result depends on it.

#[allow(dead_code)]
mod shape_programs;
mod support;

use murre::array::case::load_case;
use murre::components::hlo::HloModule;
use murre::components::program::{Program, VarKind};
use murre::systems::place::spill_sbuf::Spilled;
use murre::systems::{CompileOptions, DgeLevels, compile};
use shape_programs::{Kind, generate};
use std::path::{Path, PathBuf};
use support::{Lcg, module, random_inputs, simulate_and_evaluate, simulated, try_simulated};

/// Bytes of a partition that `trn2` keeps, rounded up to where tiles may begin.
const RESERVED: u32 = 0x4040;
/// Bytes for tiles that are tried, from none to plenty.
const ROOM: [u32; 17] =
    [0, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16_384, 49_152, 65_536];

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(root)
        .expect("the fixtures are in the repository")
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("case.json").exists())
        .collect();
    dirs.sort();
    dirs
}

/// The program, and how many tiles moved to DRAM, or the code of the refusal.
fn compiled(
    module: &HloModule,
    room: Option<u32>,
    share_dram: bool,
) -> Result<(Program, usize), Vec<&'static str>> {
    let sbuf_limit = room.map(|r| RESERVED + r);
    let options = CompileOptions { verify: true, sbuf_limit, share_dram, ..Default::default() };
    let outcome = compile(module.clone(), options);
    let spilled = outcome.world.get_resource::<Spilled>().map_or(0, |s| s.tiles.len());
    match outcome.program {
        Some(program) => Ok((program, spilled)),
        None => Err(outcome.diagnostics.iter().map(|d| d.code.id).collect()),
    }
}

/// Every program that the sizes of SBUF give, the smallest size first, until one needs no spilling. Too small a size is
/// refused for what it is.
fn under_pressure(module: &HloModule) -> Vec<(u32, Program, usize)> {
    let mut all = Vec::new();
    for room in ROOM {
        match compiled(module, Some(room), true) {
            Ok((program, spilled)) => {
                all.push((room, program, spilled));
                if spilled == 0 {
                    break;
                }
            }
            Err(codes) => assert_eq!(codes, ["MUR0501"], "{room} bytes"),
        }
    }
    all
}

fn internal_bytes(p: &Program) -> u64 {
    p.vars.iter().filter(|v| v.kind == VarKind::Internal).map(|v| v.bytes).sum()
}

#[test]
fn every_case_gives_xlas_numbers_in_a_small_sbuf() {
    let mut spilled = 0;
    for dir in cases() {
        let case = load_case(&dir).expect("a readable case");
        let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a readable module");
        let module = murre::hlo::read_module(&bytes, "text").expect("a module");
        let programs = under_pressure(&module);
        assert!(!programs.is_empty(), "{}", case.name);
        spilled += programs.iter().filter(|p| p.2 > 0).count();
        for vector in &case.vectors {
            let inputs = case.read_inputs(vector).expect("inputs");
            let goldens = case.read_goldens(vector).expect("goldens");
            for (room, program, _) in &programs {
                for seed in [None, Some(1), Some(2)] {
                    let got = simulated(program, &inputs, seed);
                    if let Some((leaf, mismatch)) = case.compare(&got, &goldens).into_iter().next() {
                        panic!("{} {room} {} leaf {leaf}: {}", case.name, vector.name, mismatch.message);
                    }
                }
            }
        }
    }
    assert!(spilled > 0);
}

/// The results of a program under pressure are bit for bit those of the program that has all of SBUF. How many programs
/// were compared that spill, and most tiles that one of them spilled.
fn same_under_pressure(text: &str, seed: u64) -> (usize, usize) {
    let module = module(text);
    let Ok((plain, 0)) = compiled(&module, None, false) else { return (0, 0) };
    let inputs = random_inputs(&module, &mut Lcg(seed));
    let Ok(expected) = try_simulated(&plain, &inputs, None) else { return (0, 0) };
    let (mut compared, mut most) = (0, 0);
    for (room, program, spilled) in under_pressure(&module) {
        for interleave in [None, Some(seed)] {
            let got = try_simulated(&program, &inputs, interleave)
                .unwrap_or_else(|d| panic!("seed {seed}, {room} bytes, {spilled} spilled: {d:#?}\n{text}"));
            assert!(got == expected, "seed {seed}, {room} bytes, {spilled} spilled\n{text}");
        }
        compared += usize::from(spilled > 0);
        most = most.max(spilled);
    }
    (compared, most)
}

#[test]
fn random_programs_give_the_same_bits_in_a_small_sbuf() {
    let (mut compared, mut most) = (0, 0);
    for (seeds, kind) in [(0..12, Kind::Straight), (1000..1016, Kind::Control), (2000..2008, Kind::Large)] {
        for seed in seeds {
            let (c, m) = same_under_pressure(&generate(seed, kind).text, seed);
            (compared, most) = (compared + c, most.max(m));
        }
    }
    println!("{compared} programs spill, up to {most} tiles");
    assert!(compared >= 20 && most >= 4, "{compared} {most}");
}

/// Many values that are alive until the end, some of them made by selects and casts, inside a loop and behind it.
fn many_alive(values: u32, rows: u32, columns: u32) -> String {
    use std::fmt::Write;
    let (f, p, b) = (
        format!("f32[{rows},{columns}]"),
        format!("pred[{rows},{columns}]"),
        format!("bf16[{rows},{columns}]"),
    );
    let chain = |text: &mut String, prefix: &str| {
        for k in 1..=values {
            let (a, o) = (format!("{prefix}{}", k - 1), format!("{prefix}{k}"));
            let _ = match k % 4 {
                0 => writeln!(
                    text,
                    " {o}p = {p} compare({a}, y), direction=GT\n {o} = {f} select({o}p, {a}, y)"
                ),
                1 => writeln!(text, " {o} = {f} add({a}, y)"),
                2 => writeln!(text, " {o}b = {b} convert({a})\n {o} = {f} convert({o}b)"),
                _ => writeln!(text, " {o} = {f} multiply({a}, {prefix}{})", k / 2),
            };
        }
        let _ = writeln!(text, " {prefix}s0 = {f} minimum({prefix}{values}, y)");
        for k in 1..=values {
            let _ = writeln!(text, " {prefix}s{k} = {f} maximum({prefix}s{}, {prefix}{})", k - 1, values - k);
        }
    };
    let carry = format!("(s32[], {f}, {f}, s32[])");
    let mut text = format!(
        "HloModule m\ncond {{\n t = {carry} parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] get-tuple-element(t), index=3\n ROOT c = pred[] compare(i, n), direction=LT\n}}\nbody {{\n t = {carry} parameter(0)\n i = s32[] get-tuple-element(t), index=0\n v0 = {f} get-tuple-element(t), index=1\n y = {f} get-tuple-element(t), index=2\n n = s32[] get-tuple-element(t), index=3\n one = s32[] constant(1)\n j = s32[] add(i, one)\n"
    );
    chain(&mut text, "v");
    let _ = write!(
        text,
        " ROOT r = {carry} tuple(j, vs{values}, y, n)\n}}\nENTRY main {{\n w0 = {f} parameter(0)\n y = {f} parameter(1)\n n0 = s32[] parameter(2)\n three = s32[] constant(3)\n n = s32[] and(n0, three)\n zero = s32[] constant(0)\n"
    );
    chain(&mut text, "w");
    let _ = write!(
        text,
        " t = {carry} tuple(zero, ws{values}, y, n)\n l = {carry} while(t), condition=cond, body=body\n z = {f} get-tuple-element(l), index=1\n z1 = {f} add(z, w{values})\n ROOT r = ({f}, {f}) tuple(z1, w2)\n}}\n"
    );
    text
}

#[test]
fn many_values_alive_at_once_move_to_dram_and_back() {
    for (values, rows, columns) in [(12, 128, 64), (8, 40, 20), (9, 5, 300)] {
        let (compared, most) = same_under_pressure(&many_alive(values, rows, columns), values as u64);
        println!("{values} values of {rows}x{columns}: {compared} programs spill, up to {most} tiles");
        assert!(compared > 0 && most >= values as usize / 2, "{values} {rows} {columns}: {compared} {most}");
    }
}

/// More than the whole SBUF of each target: values of 8 KiB a partition.
#[test]
fn a_program_that_needs_more_than_sbuf_equals_the_evaluator() {
    let text = many_alive(26, 128, 2048);
    assert!(compiled(&module(&text), None, true).is_ok_and(|p| p.1 > 0));
    simulate_and_evaluate(&text, 3);
}

/// Loads and saves may be built by the descriptor generators too.
#[test]
fn generated_loads_and_saves_give_the_same_bits() {
    let module = module(&many_alive(8, 40, 20));
    let inputs = random_inputs(&module, &mut Lcg(4));
    let of = |dge_levels: &str, sbuf_limit| {
        let dge_levels = DgeLevels::parse(dge_levels).expect("levels");
        let options = CompileOptions { dge_levels, sbuf_limit, verify: true, ..Default::default() };
        let outcome = compile(module.clone(), options);
        let program = outcome.program.unwrap_or_else(|| panic!("{:#?}", outcome.diagnostics));
        (simulated(&program, &inputs, Some(9)), program.blocks.len())
    };
    let plain = of("scalar_dynamic_offset", None);
    let (ahead, generated) = (
        of("scalar_dynamic_offset", Some(RESERVED + 16_384)),
        of("scalar_dynamic_offset,spill_reload", Some(RESERVED + 16_384)),
    );
    assert!(plain.0 == ahead.0 && plain.0 == generated.0);
    assert!(generated.1 < ahead.1, "{} blocks, {} without generation", generated.1, ahead.1);
}

#[test]
fn what_fits_needs_no_spilling_and_what_one_instruction_needs_must_fit() {
    let module = module(&many_alive(6, 128, 512));
    assert!(compiled(&module, None, true).is_ok_and(|p| p.1 == 0));
    assert!(compiled(&module, Some(4 * 2048), true).is_ok_and(|p| p.1 > 0));
    assert!(compiled(&module, Some(2048), true).is_err_and(|codes| codes == ["MUR0501"]));
}

#[test]
fn dram_arrays_that_are_never_alive_together_share_variables() {
    let module = module(&many_alive(20, 128, 64));
    let sizes = |share| compiled(&module, Some(2048), share).map(|p| internal_bytes(&p.0));
    let (alone, shared) = (sizes(false), sizes(true));
    println!("internal bytes {alone:?} -> {shared:?}");
    assert!(alone.is_ok_and(|a| shared.is_ok_and(|s| s < a)));
}
