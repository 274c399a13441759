//! The evaluator under small limits: whatever a verified module does, and whatever its inputs are, there is a result or
//! a fault with a code, soon. `MURRE_MODULES` names another directory, of modules or of fixtures.

use murre::array::HostArray;
use murre::components::hlo::{ArrayShape, HloModule};
use murre::eval::{Limits, evaluate_within};
use murre::hlo::{read_module, verify};
use std::path::{Path, PathBuf};

fn modules(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            modules(&path, out);
        } else if path.to_string_lossy().ends_with(".hlo.txt") || path.extension().is_some_and(|e| e == "hlo")
        {
            out.push(path);
        }
    }
}

/// Bytes that are all zero, all ones (NaN, -1, huge) or a mixture.
fn input(shape: &ArrayShape, kind: u8) -> HostArray {
    let n = shape.elements() as usize * shape.ty.bytes();
    let data = (0..n).map(|i| match kind {
        0 => 0,
        1 => 0xff,
        _ => (i.wrapping_mul(2_654_435_761) >> 7) as u8,
    });
    HostArray { ty: shape.ty, dims: shape.dims.iter().map(|d| *d as u64).collect(), data: data.collect() }
}

fn inputs(module: &HloModule, kind: u8) -> Vec<HostArray> {
    let shapes = module.entry_comp().parameters.iter().flat_map(|p| module.inst(*p).shape().leaves());
    shapes.filter_map(|s| s.array()).map(|s| input(s, kind)).collect()
}

#[test]
fn a_result_or_a_fault() {
    let root = std::env::var("MURRE_MODULES");
    let root = root.unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests").into());
    let mut files = Vec::new();
    modules(Path::new(&root), &mut files);
    files.sort();
    let limits = Limits { steps: 200_000, elements: 1 << 22, bytes: 1 << 26 };
    let mut ran = 0;
    for file in &files {
        let bytes = std::fs::read(file).expect("a readable module");
        let Ok(module) = read_module(&bytes, "module") else { continue };
        let parameters = module.entry_comp().parameters.iter().flat_map(|p| module.inst(*p).shape().leaves());
        let small = parameters.filter_map(|s| s.array()).all(|s| s.elements() < 1 << 22);
        if !small || !verify(&module).is_empty() {
            continue;
        }
        println!("{}", file.display());
        for kind in 0..3 {
            ran += 1;
            if let Err(faults) = evaluate_within(&module, &inputs(&module, kind), &limits) {
                let known = ["MUR03", "MUR0711", "MUR0712"];
                let expected = |id: &str| known.iter().any(|k| id.starts_with(k));
                assert!(faults.iter().all(|f| expected(f.code.id)), "{file:?} {faults:#?}");
            }
        }
    }
    assert!(ran >= 30, "{ran} runs");
}

/// The code of the first fault of a module without inputs.
fn code(text: &str, limits: &Limits) -> Option<&'static str> {
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
    evaluate_within(&module, &[], limits).err().map(|f| f[0].code.id)
}

const ADD: &str = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }\n";

#[test]
fn the_work_of_kernels_counts_as_steps() {
    let limits = Limits { steps: 10_000, ..Limits::default() };
    let within = |body: &str| code(&format!("{ADD}ENTRY e {{ z = f32[] constant(1) {body} }}"), &limits);
    let dot = |n: u32| {
        within(&format!(
            "a = f32[{n},{n}] broadcast(z), dimensions={{}} \
             ROOT d = f32[{n},{n}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ))
    };
    assert_eq!((dot(50), dot(500)), (None, Some("MUR0303")));
    let window = |n: u32| {
        let half = n / 2;
        within(&format!(
            "a = f32[{n},{n}] broadcast(z), dimensions={{}} \
             ROOT r = f32[{n},{n}] reduce-window(a, z), \
             window={{size={0}x{0} pad={half}_{half}x{half}_{half}}}, to_apply=add",
            2 * half + 1
        ))
    };
    assert_eq!((window(10), window(200)), (None, Some("MUR0303")));
    // A window that reaches far beyond a small array is no work.
    let far = "a = f32[3] broadcast(z), dimensions={} ROOT r = f32[4] reduce-window(a, z), \
               window={size=549755813888 pad=549755813888_0}, to_apply=add";
    assert_eq!(within(far), None);
}

#[test]
fn the_memory_of_all_values_is_limited() {
    let limits = Limits { bytes: 10_000_000, ..Limits::default() };
    let module = |live: bool| {
        let mut text = String::from("ENTRY e { a0 = f32[1000000] iota(), iota_dimension=0\n");
        for i in 0..8 {
            text += &format!(" a{} = f32[1000000] negate(a{i})\n", i + 1);
        }
        text += if live {
            " ROOT t = (f32[1000000], f32[1000000]) tuple(a0, a8) }"
        } else {
            " ROOT r = f32[1000000] negate(a8) }"
        };
        text
    };
    assert_eq!(code(&module(false), &limits), None, "each is dropped after its last use");
    assert_eq!(code(&module(true), &limits), Some("MUR0305"), "three at a time are too many");
}

#[test]
fn a_loop_writes_in_place_and_keeps_its_memory() {
    // The array is an element of a tuple that is read again after the update.
    let text = "c { p = (s32[], f32[1000000], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
          n = s32[] constant(5000) ROOT l = pred[] compare(i, n), direction=LT }
        b { p = (s32[], f32[1000000], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
          a = f32[1000000] get-tuple-element(p), index=1 u = f32[1] constant({2})
          d = f32[1000000] dynamic-update-slice(a, u, i) x = f32[] get-tuple-element(p), index=2
          one = s32[] constant(1) j = s32[] add(i, one) ROOT t = (s32[], f32[1000000], f32[]) tuple(j, d, x) }
        ENTRY e { z = s32[] constant(0) x = f32[] constant(1) a = f32[1000000] broadcast(x), dimensions={}
          t = (s32[], f32[1000000], f32[]) tuple(z, a, x)
          w = (s32[], f32[1000000], f32[]) while(t), condition=c, body=b
          r = f32[1000000] get-tuple-element(w), index=1 ROOT s = f32[2] slice(r), slice={[4999:5001]} }";
    let module = read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
    // Half as much again as the array: no second copy of it ever lives.
    let limits = Limits { bytes: 6_000_000, ..Limits::default() };
    let out = evaluate_within(&module, &[], &limits).unwrap_or_else(|e| panic!("{e:#?}"));
    assert_eq!(out[0].data, [2f32.to_le_bytes(), 1f32.to_le_bytes()].concat());
}
