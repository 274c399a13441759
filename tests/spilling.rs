//! Placement under pressure on real programs: with SBUF made small, values move to DRAM and back, and the results stay
//! XLA's. Also that DRAM arrays share variables and that nothing depends on it.

mod support;

use murre::array::case::load_case;
use murre::components::engine::Target;
use murre::components::program::{Program, VarKind};
use murre::systems::place::spill_sbuf::Spilled;
use murre::systems::{CompileOptions, compile};
use std::path::{Path, PathBuf};
use support::simulated;

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

/// The program of a case and how many tiles moved to DRAM, or the codes of the refusal.
fn compiled(dir: &Path, sbuf_limit: Option<u32>, share_dram: bool) -> Result<(Program, usize), Vec<&'static str>> {
    let bytes = std::fs::read(dir.join("module.hlo.txt")).expect("a readable module");
    let module = murre::hlo::read_module(&bytes, "text").expect("a module");
    let options =
        CompileOptions { target: Target::Trn2, verify: true, sbuf_limit, share_dram, ..Default::default() };
    let outcome = compile(module, options);
    let spilled = outcome.world.get_resource::<Spilled>().map_or(0, |s| s.tiles.len());
    match outcome.program {
        Some(program) => Ok((program, spilled)),
        None => Err(outcome.diagnostics.iter().map(|d| d.code.id).collect()),
    }
}

fn internal_bytes(p: &Program) -> u64 {
    p.vars.iter().filter(|v| v.kind == VarKind::Internal).map(|v| v.bytes).sum()
}

#[test]
fn probe() {
    for dir in cases() {
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let (plain, _) = compiled(&dir, None, false).unwrap();
        let (shared, _) = compiled(&dir, None, true).unwrap();
        eprintln!("{name}: internal {} -> {} vars {} -> {}", internal_bytes(&plain), internal_bytes(&shared), plain.vars.len(), shared.vars.len());
        for extra in [0u32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 20480] {
            match compiled(&dir, Some(0x4040 + extra), true) {
                Ok((p, n)) => {
                    eprintln!("   {extra}: {n} tiles, {} records", p.streams.iter().map(|s| s.len()).sum::<usize>());
                    if n == 0 { break; }
                }
                Err(e) => eprintln!("   {extra}: {e:?}"),
            }
        }
    }
}
