//! The reference evaluator: a module and its inputs in, the result's leaves out. It computes HLO directly, shares
//! nothing with any lowering, and is the oracle for it.
//!
//! [`machine`] runs computations on an explicit stack; [`dispatch`] knows which kernel computes which operation. An array
//! ([`tensor`]) holds its elements' bits; kernels compute with [`lanes`], by the rules of [`scalar`] and [`complex`].
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
mod scalar;
mod spectral;
mod tensor;
mod window;

use crate::array::HostArray;
use machine::Machine;
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
    let faults = crate::hlo::verify(module);
    if !faults.is_empty() {
        return Err(faults);
    }
    let entry = module.entry_comp();
    let shapes: Vec<_> = entry.parameters.iter().map(|p| &module.inst(*p).shape).collect();
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
