//! The reference evaluator: a module and its inputs in, the result's leaves out. It computes HLO directly, shares
//! nothing with any lowering, and is the oracle for it.
//!
//! [`machine`] runs computations on an explicit stack; [`dispatch`] knows which kernel computes which operation; the
//! kernels are [`scalar`] (elementwise), [`movement`], [`indexed`], [`contract`], [`fold`] and [`random`].
//! Facts: `spec/hlo.md 7`, `8`.

mod contract;
mod dispatch;
mod fold;
mod indexed;
mod machine;
mod movement;
mod random;
mod region;
mod scalar;
mod tensor;

use crate::array::HostArray;
use machine::Machine;
use murre_components::diag::codes::verify::VERIFY_UNBOUNDED;
use murre_components::diag::{Diagnostic, codes::eval};
use murre_components::hlo::HloModule;
use std::sync::Arc;
use tensor::{Tensor, Value};

pub(crate) use crate::hlo::infer::is_elementwise;

/// What a kernel gives, or the fault that ends the evaluation.
pub(crate) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// Limits of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions executed in all, those of per-element computations included.
    pub steps: u64,
    /// Elements of one value.
    pub elements: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: 1 << 32, elements: 1 << 30 }
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
    let mut tensors = tensors.into_iter();
    let args = shapes.iter().map(|s| bind(s, &mut tensors)).collect();
    let result = Machine::new(module, *limits).run(module.entry, args).map_err(|fault| vec![*fault])?;
    let mut out = Vec::new();
    flatten(&result, &mut out);
    Ok(out)
}

/// Parameters may be tuples; they nest only as deep as shapes may.
fn bind(shape: &murre_components::hlo::Shape, leaves: &mut impl Iterator<Item = Tensor>) -> Value {
    use murre_components::hlo::Shape;
    match shape {
        Shape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| bind(p, leaves)).collect()),
        Shape::Array(_) => leaves.next().map_or(Value::Token, |t| Value::Array(Arc::new(t))),
        _ => Value::Token,
    }
}

fn flatten(value: &Value, out: &mut Vec<HostArray>) {
    match value {
        Value::Array(a) => out.push(a.to_host()),
        Value::Tuple(parts) => parts.iter().for_each(|p| flatten(p, out)),
        Value::Token => {}
    }
}
