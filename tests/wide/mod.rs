//! Programs before and after the pass that splits 64-bit elements: run, checked and compared.
#![allow(dead_code)]

use crate::support::Lcg;
use murre::array::HostArray;
use murre::components::diag::Diagnostic;
use murre::components::dtype::HloType;
use murre::components::hlo::{HloModule, HloOp, Shape};
use murre::eval::evaluate;
use murre::hlo::{print_module, read_module, verify};
use murre::systems::{CompileOptions, Compiler, Stage};

/// The module behind the pass.
pub fn split(module: HloModule) -> Result<HloModule, Vec<Diagnostic>> {
    let mut compiler = Compiler::new(module, CompileOptions::default());
    let mut after = None;
    compiler.run_stages_stepwise(&[Stage::Legalize], |pass, _, world| {
        if pass.name == "split_wide_integers" {
            after = Some(world.resource::<HloModule>().clone());
        }
    });
    let faults = compiler.finish().diagnostics;
    if faults.is_empty() { after.ok_or_else(Vec::new) } else { Err(faults) }
}

fn is_wide(shape: &Shape) -> bool {
    use HloType::{F64, S64, U64};
    shape.leaves().iter().any(|s| s.array().is_some_and(|a| matches!(a.ty, S64 | U64 | F64)))
}

/// The rewritten module, after everything that must hold of it was checked.
pub fn rewritten(text: &str) -> HloModule {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{text}\n{e:#?}"));
    let faults = verify(&module);
    assert!(faults.is_empty(), "{text}\n{faults:#?}");
    let split = split(module).unwrap_or_else(|e| panic!("{text}\n{e:#?}"));
    let printed = print_module(&split);
    let faults = verify(&split);
    assert!(faults.is_empty(), "{printed}\n{faults:#?}");
    // What inlining named `call/inner` has no name that text could have.
    if !printed.contains('/') {
        let again =
            read_module(printed.as_bytes(), "printed").unwrap_or_else(|e| panic!("{printed}\n{e:#?}"));
        assert_eq!(print_module(&again), printed);
    }
    for inst in split.insts().filter(|i| is_wide(i.shape())) {
        let carries = matches!(
            inst.op,
            HloOp::Parameter | HloOp::Tuple | HloOp::GetTupleElement | HloOp::BitcastConvert
        );
        let entry = split.entry_comp().instructions.contains(inst.id);
        assert!(carries && entry, "{} is 64-bit:\n{printed}", inst.name());
    }
    split
}

/// Values around which 64-bit arithmetic is interesting, then random ones of every size.
pub fn value(rng: &mut Lcg, ty: HloType) -> u64 {
    const EDGES: [u64; 20] = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        63,
        64,
        65,
        u64::MAX,
        u64::MAX - 1,
        i64::MAX as u64,
        i64::MIN as u64,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff_8000_0000,
        0xffff_ffff_7fff_ffff,
    ];
    let word = |rng: &mut Lcg| rng.below(1 << 16) | rng.below(1 << 16) << 16;
    let any = word(rng) | word(rng) << 32;
    match (ty, rng.below(4)) {
        (HloType::Pred, _) => any & 1,
        (HloType::F32, 0) => u64::from((rng.below(1000) as f32 - 500.0).to_bits()),
        (HloType::F32, 1) => u64::from((any as i64 as f32 * 1.25).to_bits()),
        (HloType::F32, 2) => {
            let specials = [
                0,
                0x8000_0000,
                0x7f80_0000,
                0xff80_0000,
                0x7fc0_0000,
                1,
                0x5f00_0000,
                0xdf00_0000,
                0x5f7f_ffff,
                0x5f80_0000,
                0x3f7f_ffff,
                0xbf80_0000,
            ];
            specials[rng.below(12) as usize]
        }
        (HloType::F32, _) => any & 0xffff_ffff,
        (HloType::F64, 0) => (rng.below(1000) as f64 / 7.0 - 50.0).to_bits(),
        (HloType::F64, 1) => {
            // Near what an f32 holds, subnormal and overflowing ones included.
            let exponent = 1023 - 155 + rng.below(290);
            (any & !(0x7ff << 52)) | exponent << 52
        }
        (HloType::F64, 2) => {
            let x = f64::from(f32::from_bits(any as u32)).to_bits();
            // Halfway between two f32, and beside it.
            (x & !0x1fff_ffff) | [0x1000_0000, 0x1000_0001, 0x0fff_ffff][rng.below(3) as usize]
        }
        (HloType::F64, _) => {
            [0, 1 << 63, 0x7ff0 << 48, 0xfff0 << 48, 1, 0x47ef_ffff_f000_0000, any][rng.below(7) as usize]
        }
        (_, 0) => EDGES[rng.below(20) as usize],
        (_, 1) => EDGES[rng.below(20) as usize].wrapping_add(rng.below(5)).wrapping_sub(2),
        (_, 2) => any >> rng.below(64),
        _ => any,
    }
}

fn inputs(module: &HloModule, rng: &mut Lcg) -> Vec<HostArray> {
    let parameters = module.entry_comp().parameters.iter().flat_map(|p| module.inst(*p).shape().leaves());
    let arrays = parameters.filter_map(|s| s.array());
    arrays
        .map(|a| {
            let data = (0..a.elements())
                .flat_map(|_| value(rng, a.ty).to_le_bytes().into_iter().take(a.ty.bytes()))
                .collect();
            HostArray { ty: a.ty, dims: a.dims.iter().map(|d| *d as u64).collect(), data }
        })
        .collect()
}

fn is_nan(ty: HloType, bits: u64) -> bool {
    murre::array::float::decode(ty, bits).is_nan()
}

/// The same bits, but any NaN for any other.
fn same(a: &HostArray, b: &HostArray) -> bool {
    a.ty == b.ty
        && a.dims == b.dims
        && (0..a.elements() as usize).all(|i| {
            a.bits(i) == b.bits(i) || a.ty.is_float() && is_nan(a.ty, a.bits(i)) && is_nan(b.ty, b.bits(i))
        })
}

/// Runs a program before and after on random inputs.
pub fn agree_in(text: &str, rounds: u64) -> HloModule {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{text}\n{e:#?}"));
    let split = rewritten(text);
    let mut rng = Lcg(17);
    for _ in 0..rounds {
        let given = inputs(&module, &mut rng);
        let want = evaluate(&module, &given).unwrap_or_else(|e| panic!("{text}\n{e:#?}"));
        let got = evaluate(&split, &given).unwrap_or_else(|e| panic!("{}\n{e:#?}", print_module(&split)));
        assert_eq!(want.len(), got.len());
        for (k, (w, g)) in want.iter().zip(&got).enumerate() {
            assert!(
                same(w, g),
                "result {k} of {text}\n{given:x?}\nwant {w:x?}\ngot {g:x?}\n{}",
                print_module(&split)
            );
        }
    }
    split
}

pub fn agree(text: &str) -> HloModule {
    agree_in(text, 12)
}

/// Whether some instruction is a pair's half.
pub fn has_pairs(module: &HloModule) -> bool {
    module.insts().any(|i| i.name().contains(".hi") && i.op != HloOp::Reshape)
}

/// What the pass refuses: instructions and codes.
pub fn refused(text: &str) -> Vec<(String, &'static str)> {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{text}\n{e:#?}"));
    assert_eq!(verify(&module).len(), 0);
    let faults = split(module).err().unwrap_or_default();
    faults.into_iter().map(|f| (f.instruction.unwrap_or_default(), f.code.id)).collect()
}
