//! The reference evaluator: a module and its inputs in, the result's leaves out. It computes HLO directly, shares
//! nothing with any lowering, and is the oracle for it.
//!
//! [`machine`] runs computations on an explicit stack; [`dispatch`] knows which kernel computes which operation. An array
//! ([`tensor`]) holds its elements' bits; kernels compute with [`lanes`], by the rules of [`scalar`] and [`complex`]; [`sizes`] is what run-time extents add.
//! The kernels: [`elementwise`], [`movement`], [`indexed`] (runtime offsets), [`contract`] (dot and convolution, by
//! [`matmul`]), [`fold`] (reductions, with [`window`]), [`order`] (sort), [`normalize`], [`random`], [`fft`], and
//! [`custom`] calls with the linear algebra of [`factor`] and [`spectral`]; [`alone`] is what collectives do without others. Computations that
//! kernels call per element are compiled by [`region`] to a [`program`].
//! Facts: `spec/hlo.md 7`, `8`.

mod alone;
mod complex;
mod contract;
mod custom;
mod dispatch;
mod elementwise;
mod factor;
mod fft;
mod field;
mod fold;
mod indexed;
mod lanes;
mod machine;
mod matmul;
mod movement;
mod normalize;
mod order;
mod places;
mod program;
mod random;
mod region;
mod remake;
mod scalar;
mod sizes;
mod spectral;
mod tensor;
mod window;

use crate::array::HostArray;
use machine::Machine;
use murre_components::diag::codes::verify::VERIFY_UNBOUNDED;
use murre_components::diag::{Diagnostic, codes::eval};
use murre_components::hlo::HloModule;
use tensor::{Tensor, Value};

pub(crate) use crate::hlo::infer::is_elementwise;

/// What a kernel gives, or the fault that ends the evaluation.
pub(crate) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// Limits of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions executed in all, those of per-element computations included; 64 elementary operations of a kernel
    /// count as one.
    pub steps: u64,
    /// Elements of one value.
    pub elements: u64,
    /// Bytes of all values that live at a time.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 1 << 32, elements: 1 << 30, bytes: 1 << 34 }
    }
}

/// Computes the entry computation. Results are the leaves of the root, depth first, cut to their run-time sizes.
pub fn evaluate(module: &HloModule, inputs: &[HostArray]) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    evaluate_within(module, inputs, &Limits::default())
}

/// [`evaluate`] with limits of one's own.
pub fn evaluate_within(
    module: &HloModule,
    inputs: &[HostArray],
    limits: &Limits,
) -> Result<Vec<HostArray>, Vec<Diagnostic>> {
    let mut faults = crate::hlo::verify(module);
    if !faults.is_empty() {
        return Err(faults);
    }
    for inst in module.insts().filter(|i| crate::hlo::is_unbounded(i.shape())) {
        let fault = Diagnostic::error(&VERIFY_UNBOUNDED, "a dimension without a bound").on(inst.name());
        let fault = fault.from_source(inst.source()).found(inst.shape().to_string()).ordered(inst.id.0);
        faults.push(fault.expected("a bound such as f32[<=8]"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let entry = module.entry_comp();
    let shapes: Vec<_> = entry.parameters.iter().map(|p| module.inst(*p).shape()).collect();
    let leaves: Vec<_> = shapes.iter().flat_map(|s| s.leaves()).filter_map(|s| s.array()).collect();
    if leaves.len() != inputs.len() {
        let what = format!("the program takes {} inputs", leaves.len());
        let fault = Diagnostic::error(&eval::EVAL_INPUTS, what).found(inputs.len().to_string());
        return Err(vec![fault.expected(leaves.len().to_string())]);
    }
    let mut faults = Vec::new();
    let mut tensors = Vec::new();
    for (i, (input, leaf)) in inputs.iter().zip(&leaves).enumerate() {
        match input.clone().conform(leaf, &format!("input {i}")) {
            Ok(array) => tensors.push(Tensor::of_host(&array, leaf)),
            Err(fault) => faults.push(fault.ordered(i as u32)),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut machine = Machine::new(module, *limits);
    let mut tensors = tensors.into_iter().map(|t| Value::array(t, &machine.meter));
    let args = shapes.iter().map(|s| bind(s, &mut tensors)).collect();
    drop(tensors);
    let result = machine.run(module.entry, args).map_err(|fault| vec![*fault])?;
    let mut out = Vec::new();
    flatten(&result, &mut out);
    Ok(out)
}

/// Parameters may be tuples; they nest only as deep as shapes may.
fn bind(shape: &murre_components::hlo::Shape, leaves: &mut impl Iterator<Item = Value>) -> Value {
    use murre_components::hlo::Shape;
    match shape {
        Shape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| bind(p, leaves)).collect()),
        Shape::Array(_) => leaves.next().unwrap_or_default(),
        _ => Value::Token,
    }
}

fn flatten(value: &Value, out: &mut Vec<HostArray>) {
    match value {
        Value::Array(_) => out.extend(value.tensor().map(Tensor::to_host)),
        Value::Tuple(parts) => parts.iter().for_each(|p| flatten(p, out)),
        Value::Token => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::HloType::F32;

    /// The leaves of a module's result as floats, run without the verifier, which does not let all of these through.
    fn run(text: &str, input: &[f64]) -> Vec<Vec<f64>> {
        let module = crate::hlo::read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
        let mut machine = Machine::new(&module, Limits::default());
        let a = Value::array(lanes::tensor(F32, vec![input.len()], input), &machine.meter);
        let result = machine.run(module.entry, vec![a]).unwrap_or_else(|e| panic!("{e:#?}"));
        let mut out = Vec::new();
        flatten(&result, &mut out);
        let float = |a: &HostArray, i: usize| crate::array::float::decode(a.ty, a.bits(i));
        out.iter().map(|a| (0..a.elements() as usize).map(|i| float(a, i)).collect()).collect()
    }

    #[test]
    fn an_asynchronous_call_is_done_when_it_starts() {
        let text = "f { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }
            ENTRY e { x = f32[2] parameter(0)
            s = ((f32[2]), f32[2], u32[]) async-start(x), calls=f
            u = ((f32[2]), f32[2], u32[]) async-update(s)
            d = f32[2] async-done(u)
            c = (f32[2], f32[2], u32[]) copy-start(d)
            ROOT e = f32[2] copy-done(c) }";
        assert_eq!(run(text, &[1.0, 2.0]), [[2.0, 4.0]]);
    }

    #[test]
    fn collectives_and_dependencies_give_their_operand() {
        let text = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
            ENTRY e { x = f32[2] parameter(0)
            a = f32[2] all-reduce(x), replica_groups={}, to_apply=add
            g = f32[2] all-gather(a), replica_groups={{0}}, dimensions={0}
            t = token[] after-all()
            d = f32[2] add-dependency(g, t)
            n = f32[2] collective-permute(d), source_target_pairs={{0,1}}
            ROOT r = (f32[2], f32[2]) tuple(d, n) }";
        assert_eq!(run(text, &[1.0, 2.0]), [[1.0, 2.0], [0.0, 0.0]]);
    }

    #[test]
    fn custom_calls_by_their_target() {
        let text = "ENTRY e { x = f32[4] parameter(0) m = f32[2,2] reshape(x)
            e = f32[4] custom-call(x), custom_call_target=\"mhlo.erf\"
            k = (f32[1], s32[1]) custom-call(x), custom_call_target=\"TopK\"
            v = f32[1] get-tuple-element(k), index=0
            c = (f32[2,2], s32[]) custom-call(m), custom_call_target=\"lapack_spotrf_ffi\", backend_config={uplo = 76 : ui8}
            l = f32[2,2] get-tuple-element(c), index=0
            ROOT r = (f32[4], f32[1], f32[2,2]) tuple(e, v, l) }";
        let out = run(text, &[4.0, 2.0, 2.0, 10.0]);
        assert_eq!(out[1..], [vec![10.0], vec![2.0, 2.0, 1.0, 3.0]]);
        assert!((out[0][1] - 0.995_322).abs() < 1e-6);
    }

    #[test]
    fn what_has_no_rule_here_says_so() {
        for text in [
            "ENTRY e { x = f32[2] parameter(0) ROOT c = f32[2] custom-call(x), custom_call_target=\"nobody\" }",
            "ENTRY e { x = f32[2] parameter(0) t = token[] after-all() ROOT i = (f32[2], token[]) infeed(t) }",
        ] {
            let module =
                crate::hlo::read_module(text.as_bytes(), "text").unwrap_or_else(|e| panic!("{e:#?}"));
            let mut machine = Machine::new(&module, Limits::default());
            let a = Value::array(lanes::tensor(F32, vec![2], &[0.0; 2]), &machine.meter);
            let fault = machine.run(module.entry, vec![a]).err();
            assert_eq!(fault.map(|f| f.code.id), Some("MUR0301"));
        }
    }
}
