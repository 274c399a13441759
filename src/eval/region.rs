//! Computations called per element (reductions, sorts, scatters, maps): compiled once per call site to a list of scalar
//! steps. What does not fit that form (an inner loop, an array) is run by the machine itself, one level deeper.

use super::Outcome;
use super::machine::Machine;
use super::scalar::{apply, binary};
use super::tensor::{Scalar, Tensor, Value, from_bits};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloModule, HloOp, Literal};
use murre_components::ids::CompId;
use std::sync::Arc;

enum Step<'m> {
    Parameter(usize),
    Constant(Scalar),
    Apply { op: HloOp, attrs: &'m Attrs, from: HloType, to: HloType, args: Vec<usize> },
    Tuple,
}

/// A called computation, ready to be run on scalars.
pub(crate) struct Region<'m> {
    computation: CompId,
    parameter_types: Vec<HloType>,
    steps: Option<Vec<Step<'m>>>,
    results: Vec<usize>,
    /// The one operation of a computation that just combines its two parameters.
    pub combiner: Option<HloOp>,
}

impl<'m> Region<'m> {
    pub fn new(module: &'m HloModule, computation: CompId) -> Self {
        let c = module.comp(computation);
        let types =
            c.parameters.iter().filter_map(|p| module.inst(*p).shape().array().map(|a| a.ty)).collect();
        let mut region =
            Region { computation, parameter_types: types, steps: None, results: Vec::new(), combiner: None };
        region.steps = region.compile(module);
        let root = module.inst(c.root);
        let simple = root.operands().len() == 2
            && root.operands()[0] != root.operands()[1]
            && root.operands().iter().all(|o| c.parameters.contains(o))
            && c.parameters.len() == 2;
        use HloOp::*;
        if simple && matches!(root.op, Add | Multiply | Maximum | Minimum | And | Or | Xor) {
            region.combiner = Some(root.op);
        }
        region
    }

    fn compile(&mut self, module: &'m HloModule) -> Option<Vec<Step<'m>>> {
        let c = module.comp(self.computation);
        let mut steps = Vec::new();
        for id in c.instructions.iter() {
            let inst = module.inst(id);
            let args: Option<Vec<usize>> =
                inst.operands().iter().map(|o| c.instructions.position(*o)).collect();
            let args = args?;
            if inst.op == HloOp::Tuple && id == c.root {
                self.results = args;
                steps.push(Step::Tuple);
                continue;
            }
            let shape = inst.shape().array().filter(|a| a.rank() == 0)?;
            steps.push(match (inst.attrs(), inst.op) {
                (Attrs::Parameter { number }, _) => Step::Parameter(*number as usize),
                (Attrs::Constant(value), _) => match &**value {
                    Literal::Array { shape, data } => Step::Constant(from_bits(shape.ty, data)),
                    Literal::Tuple(_) => return None,
                },
                (_, op) if super::is_elementwise(op) => {
                    let from = module.inst(*inst.operands().first()?).shape().array()?.ty;
                    // A select's first operand is its selector; its own type is the second's.
                    let from = if op == HloOp::Select { shape.ty } else { from };
                    Step::Apply { op, attrs: inst.attrs(), from, to: shape.ty, args }
                }
                _ => return None,
            });
        }
        if self.results.is_empty() {
            self.results.push(c.instructions.position(c.root)?);
        }
        Some(steps)
    }

    /// Runs the computation on scalars.
    pub fn call(&self, machine: &mut Machine<'m>, args: &[Scalar]) -> Outcome<Vec<Scalar>> {
        if let (Some(op), [a, b], Some(ty)) = (self.combiner, args, self.parameter_types.first())
            && let Some(value) = binary(op, *ty, *a, *b)
        {
            return Ok(vec![super::scalar::fit(*ty, value)]);
        }
        let Some(steps) = &self.steps else { return self.call_slowly(machine, args) };
        machine.count(steps.len() as u64)?;
        let mut values: Vec<Scalar> = Vec::with_capacity(steps.len());
        for step in steps {
            let value = match step {
                Step::Parameter(n) => args.get(*n).copied().unwrap_or(Scalar::Int(0)),
                Step::Constant(c) => *c,
                Step::Tuple => Scalar::Int(0),
                Step::Apply { op, attrs, from, to, args } => {
                    let mut operands = [Scalar::Int(0); 3];
                    for (slot, i) in operands.iter_mut().zip(args) {
                        *slot = values[*i];
                    }
                    match apply(*op, attrs, *from, *to, &operands[..args.len().min(3)]) {
                        Some(value) => value,
                        None => return Err(machine.unsupported_here(op.name())),
                    }
                }
            };
            values.push(value);
        }
        Ok(self.results.iter().map(|i| values[*i]).collect())
    }

    fn call_slowly(&self, machine: &mut Machine<'m>, args: &[Scalar]) -> Outcome<Vec<Scalar>> {
        let values = args.iter().zip(&self.parameter_types);
        let values = values.map(|(a, ty)| Value::Array(Arc::new(Tensor::scalar(*ty, *a)))).collect();
        let result = machine.run_inner(self.computation, values)?;
        Ok(match result {
            Value::Array(a) => vec![a.first()],
            Value::Tuple(parts) => parts
                .iter()
                .map(|p| match p {
                    Value::Array(a) => a.first(),
                    _ => Scalar::Int(0),
                })
                .collect(),
            Value::Token => Vec::new(),
        })
    }
}
