//! Programs with bounded dynamic dimensions, computed in all ways: by the evaluator, by the evaluator after stages
//! `dynamic_shape` and `legalize`, and by the simulator on three targets, with garbage behind the live part of the inputs.
#![allow(dead_code)]

use crate::support::{Lcg, compiled, module, simulated, try_simulated};
use murre::array::HostArray;
use murre::array::compare::{Tolerance, compare};
use murre::check::boundary::{resized, to_device, to_host, visible};
use murre::components::diag::Diagnostics;
use murre::components::dtype::HloType;
use murre::components::engine::Target;
use murre::components::hlo::HloModule;
use murre::components::program::Extents;
use murre::eval::evaluate;
use murre::sim::{SimOptions, run};
use murre::systems::{CompileOptions, Compiler, Stage};

pub const REGIONS: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] maximum(a, b) }
lt { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
set { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] copy(b) }
";

pub fn program(text: &str) -> HloModule {
    module(&format!("HloModule m\n{REGIONS}{text}"))
}

pub fn f32s(dims: &[u64], rng: &mut Lcg) -> HostArray {
    let n = dims.iter().product::<u64>();
    let data = (0..n).flat_map(|_| ((rng.below(200) as f32 - 100.0) / 4.0).to_le_bytes()).collect();
    HostArray { ty: HloType::F32, dims: dims.to_vec(), data }
}

pub fn s32s(dims: &[u64], values: &[i32]) -> HostArray {
    let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    HostArray { ty: HloType::S32, dims: dims.to_vec(), data }
}

pub fn s32(value: i32) -> HostArray {
    s32s(&[], &[value])
}

pub fn same(what: &str, got: &[HostArray], want: &[HostArray]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        let close = Tolerance::Close { rtol: 1e-5, atol: 1e-4 };
        let tolerance = if w.ty == HloType::F32 { close } else { Tolerance::Exact };
        if let Err(m) = compare(g, w, &tolerance) {
            panic!("{what}, result {k}: {} ({:?} of {:?})", m.message, g, w);
        }
    }
}

/// The arrays at the bounds of the rewritten parameters, all bits set behind the live part, then the extents.
pub fn at_bounds(module: &HloModule, extents: &Extents, inputs: &[HostArray]) -> Vec<HostArray> {
    let mut all = Vec::new();
    for (p, array) in module.entry_comp().parameters.iter().zip(inputs) {
        let shape = module.inst(*p).shape().array().expect("an array");
        let bounds: Vec<u64> = shape.dims.iter().map(|d| *d as u64).collect();
        let mut wide = resized(array, &bounds);
        let live = resized(&HostArray { data: vec![0xff; array.data.len()], ..array.clone() }, &bounds);
        wide.data.iter_mut().zip(&live.data).for_each(|(byte, live)| *byte |= !live);
        all.push(wide);
    }
    let extent = |e: &murre::components::program::Extent| {
        s32(inputs[e.array as usize].dims[e.dimension as usize] as i32)
    };
    all.extend(extents.inputs.iter().map(extent));
    all
}

/// The module after the stages that rewrite HLO.
pub fn rewritten(module: &HloModule) -> (HloModule, Extents) {
    let mut compiler = Compiler::new(module.clone(), CompileOptions::default());
    compiler.run(&[Stage::DynamicShape, Stage::Legalize, Stage::Simplify]);
    let faults = compiler.world.resource::<Diagnostics>().take();
    assert!(faults.is_empty(), "{faults:#?}");
    let module: HloModule = compiler.world.remove_resource().expect("the module");
    let faults = murre::hlo::verify(&module);
    assert!(faults.is_empty(), "{faults:#?}\n{}", murre::hlo::print_module(&module));
    (module, compiler.world.remove_resource().unwrap_or_default())
}

/// All ways to compute agree on these inputs.
pub fn agree(text: &str, vectors: &[Vec<HostArray>]) -> Vec<Vec<HostArray>> {
    let module = program(text);
    let (small, extents) = rewritten(&module);
    let programs = [Target::Trn1, Target::Trn2, Target::Trn3].map(|t| (t, compiled(&module, t)));
    let mut results = Vec::new();
    for (k, inputs) in vectors.iter().enumerate() {
        let want = evaluate(&module, inputs).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        let wide = at_bounds(&small, &extents, inputs);
        let got = evaluate(&small, &wide).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        let title = format!("{text}\nvector {k} {:?}", inputs.iter().map(|a| &a.dims).collect::<Vec<_>>());
        same(&format!("rewritten: {title}"), &visible(got, &extents), &want);
        for (target, program) in &programs {
            let seed = (*target != Target::Trn1).then_some(k as u64);
            same(&format!("{}: {title}", target.name()), &simulated(program, inputs, seed), &want);
        }
        // Garbage behind the live part of the inputs must not be seen.
        let bytes: Vec<Vec<u8>> = wide.into_iter().map(|a| a.data).collect();
        assert_eq!(bytes.len(), to_device(&programs[1].1, inputs).expect("inputs").len());
        let outcome =
            run(&programs[1].1, &bytes, &SimOptions::default()).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
        same(
            &format!("garbage: {title}"),
            &to_host(&programs[1].1, outcome.outputs).expect("results"),
            &want,
        );
        results.push(want);
    }
    results
}

/// A vector for each size of dimension 0 of one parameter `f32[<=bound, rest]`.
pub fn sizes(bound: u64, rest: &[u64]) -> Vec<Vec<HostArray>> {
    let mut rng = Lcg(bound);
    let dims = |n: u64| std::iter::once(n).chain(rest.iter().copied()).collect::<Vec<_>>();
    [0, 1, bound / 2, bound - 1, bound].map(|n| vec![f32s(&dims(n), &mut rng)]).to_vec()
}

/// Evaluator and simulator both stop with this code at this instruction.
pub fn fails(text: &str, inputs: &[HostArray], code: &str, instruction: &str) {
    let module = program(text);
    let want = Some(instruction);
    let fault = evaluate(&module, inputs).expect_err("a fault of the evaluator").remove(0);
    assert_eq!((fault.code.id, fault.instruction.as_deref()), (code, want), "{fault:#?}");
    for target in [Target::Trn1, Target::Trn2, Target::Trn3] {
        let fault =
            try_simulated(&compiled(&module, target), inputs, Some(5)).expect_err("a fault of the run");
        assert_eq!((fault.code.id, fault.instruction.as_deref()), (code, want), "{fault:#?}");
    }
}
