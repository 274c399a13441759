//! Computations called per element (reductions, sorts, scatters, maps): compiled once to a scalar [`Program`], calls
//! inside them inlined. What does not fit that form (a loop, an array, complex numbers) is run by the machine itself,
//! one level deeper.

use super::Outcome;
use super::dispatch::rule_of;
use super::machine::Machine;
use super::program::{Program, Reg, bits};
use super::scalar::Rule;
use super::tensor::{Scalar, Tensor, Value, of_scalars};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, Direction, HloModule, HloOp, Literal, Shape};
use murre_components::ids::{CompId, HloId};
use std::rc::Rc;

/// What kernels know of a computation without running it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Known {
    /// One operation on its two parameters, the order of which does not matter.
    Binary(HloOp),
    /// It compares its first two parameters, in this order.
    Compare { direction: Direction, total: bool },
    /// It gives its second parameter.
    Second,
    /// Nothing.
    Nothing,
}

/// Calls inside a computation that are inlined, one inside the other.
const MAX_INLINE: u32 = 16;

/// Instructions of a computation that is compiled.
const MAX_INSTRUCTIONS: usize = 2048;

/// A called computation.
pub(crate) struct Region {
    computation: CompId,
    parameters: Vec<HloType>,
    pub program: Option<Program>,
    pub known: Known,
}

impl Region {
    pub fn new(module: &HloModule, computation: CompId) -> Self {
        let c = module.comp(computation);
        let types =
            c.parameters.iter().filter_map(|p| module.inst(*p).shape().array().map(|a| a.ty)).collect();
        let known = known(module, computation);
        Region { computation, parameters: types, program: compile(module, computation), known }
    }
}

/// Recognises computations of one instruction.
fn known(module: &HloModule, computation: CompId) -> Known {
    let c = module.comp(computation);
    let root = module.inst(c.root);
    if c.parameters.len() == 2 && c.parameters[1] == c.root {
        return Known::Second;
    }
    let [a, b] = root.operands() else { return Known::Nothing };
    match (rule_of(root.op, root.attrs()), c.parameters.as_slice()) {
        (Some(Rule::Compare { direction, total }), [p, q, ..]) if a == p && b == q => {
            Known::Compare { direction, total }
        }
        (Some(Rule::Plain(op)), [p, q]) if a != b && [a, b].iter().all(|x| [p, q].contains(x)) => {
            use HloOp::*;
            let commutes = matches!(op, Add | Multiply | Maximum | Minimum | And | Or | Xor);
            if commutes { Known::Binary(op) } else { Known::Nothing }
        }
        _ => Known::Nothing,
    }
}

fn compile(module: &HloModule, computation: CompId) -> Option<Program> {
    let mut program = Program::default();
    let c = module.comp(computation);
    let mut parameters = Vec::new();
    for p in &c.parameters {
        let shape = module.inst(*p).shape().array().filter(|a| a.rank() == 0)?;
        parameters.push(program.register(shape.ty, Scalar::Int(0))?);
    }
    program.results = inline(module, computation, &parameters, &mut program, 0)?;
    Some(program)
}

/// Appends a computation to a program. Gives the registers of its result.
fn inline(
    module: &HloModule,
    computation: CompId,
    parameters: &[Reg],
    program: &mut Program,
    depth: u32,
) -> Option<Vec<Reg>> {
    let c = module.comp(computation);
    if c.instructions.len() > MAX_INSTRUCTIONS {
        return None;
    }
    // Registers stand for scalars and flat tuples of them.
    let is_array = |o: &HloId| module.inst(*o).shape().array().is_some();
    let is_flat = |o: &HloId| match module.inst(*o).shape() {
        Shape::Tuple(parts) => parts.iter().all(|p| p.array().is_some()),
        _ => false,
    };
    let mut values: Vec<(HloId, Vec<Reg>)> = Vec::with_capacity(c.instructions.len());
    for id in c.instructions.iter() {
        let inst = module.inst(id);
        let find = |o: &HloId| values.iter().rev().find(|(v, _)| v == o).map(|(_, regs)| regs.as_slice());
        let mut args = Vec::with_capacity(inst.operands().len());
        for o in inst.operands() {
            args.extend_from_slice(find(o)?);
        }
        let result = match (inst.op, inst.attrs()) {
            (_, Attrs::Parameter { number }) => vec![*parameters.get(*number as usize)?],
            (HloOp::Tuple | HloOp::Copy, _) => args,
            (HloOp::GetTupleElement, Attrs::GetTupleElement { index })
                if inst.operands().iter().all(is_flat) =>
            {
                vec![*args.get(*index as usize)?]
            }
            (HloOp::Call, _) if depth < MAX_INLINE && inst.operands().iter().all(is_array) => {
                inline(module, *inst.called().first()?, &args, program, depth + 1)?
            }
            (_, attrs) => {
                let shape = inst.shape().array().filter(|a| a.rank() == 0)?;
                match attrs {
                    Attrs::Constant(value) => match &**value {
                        Literal::Array { shape, .. } => {
                            let value = super::dispatch::of_literal(value)?;
                            vec![program.register(shape.ty, value.first())?]
                        }
                        Literal::Tuple(_) => return None,
                    },
                    attrs => vec![program.step(rule_of(inst.op, attrs)?, &args, shape.ty)?],
                }
            }
        };
        values.push((id, result));
    }
    values.into_iter().find(|(id, _)| *id == c.root).map(|(_, regs)| regs)
}

/// A computation that a kernel calls, with the machine that counts its steps.
pub(crate) struct Callee<'a, 'm> {
    pub machine: &'a mut Machine<'m>,
    pub region: Rc<Region>,
    registers: Vec<u64>,
    results: Vec<Scalar>,
}

impl<'a, 'm> Callee<'a, 'm> {
    pub fn new(machine: &'a mut Machine<'m>, region: Rc<Region>) -> Self {
        let registers = region.program.as_ref().map(|p| p.registers()).unwrap_or_default();
        Callee { machine, region, registers, results: Vec::new() }
    }

    /// Runs the computation on scalars.
    pub fn call(&mut self, args: &[Scalar]) -> Outcome<&[Scalar]> {
        self.results.clear();
        if let Some(program) = &self.region.program {
            self.machine.count(program.len() as u64)?;
            self.registers.iter_mut().zip(args).for_each(|(r, a)| *r = bits(*a));
            program.run(&mut self.registers);
            self.results.extend(program.results.iter().map(|r| program.value(&self.registers, *r)));
        } else {
            self.call_slowly(args)?;
        }
        Ok(&self.results)
    }

    /// The one result of a computation that has one.
    pub fn call_one(&mut self, args: &[Scalar]) -> Outcome<Scalar> {
        Ok(self.call(args)?.first().copied().unwrap_or(Scalar::Int(0)))
    }

    fn call_slowly(&mut self, args: &[Scalar]) -> Outcome<()> {
        let region = self.region.clone();
        let array = |(a, ty): (&Scalar, &HloType)| {
            Value::array(of_scalars(*ty, Vec::new(), std::slice::from_ref(a)), &self.machine.meter)
        };
        let values = args.iter().zip(&region.parameters).map(array).collect();
        let result = self.machine.run_inner(region.computation, values)?;
        let first = |v: &Value| v.tensor().map_or(Scalar::Int(0), Tensor::first);
        match &result {
            Value::Tuple(parts) => self.results.extend(parts.iter().map(first)),
            one => self.results.push(first(one)),
        }
        Ok(())
    }
}
