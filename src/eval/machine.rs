//! The machine: frames on an explicit stack, so that calls, loops and branches may nest as deep as they like. Every
//! instruction executed counts against the step limit. A value is dropped after its last use, which is also what lets
//! dynamic-update-slice write in place.

use super::tensor::Value;
use super::{Limits, Outcome};
use murre_components::diag::{Diagnostic, codes::eval};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloModule, HloOp};
use murre_components::ids::{CompId, HloId};

/// Per-element computations may call per-element computations this deep.
const MAX_DEPTH: u32 = 32;

/// What to do with a finished frame's result.
enum Then {
    /// It is the value of the caller's instruction.
    Store,
    /// It decides whether the loop goes on with this carry.
    Decide(Value),
    /// It is the loop's next carry.
    Repeat,
}

struct Frame {
    computation: CompId,
    /// Position of the next instruction.
    next: usize,
    values: Vec<Option<Value>>,
    args: Vec<Value>,
    then: Then,
}

/// Runs the computations of one verified module.
pub(crate) struct Machine<'m> {
    pub module: &'m HloModule,
    pub limits: Limits,
    steps: u64,
    depth: u32,
    /// Position of each instruction in its computation.
    position: Vec<u32>,
    /// Position of each instruction's last user; `u32::MAX` for roots.
    last_use: Vec<u32>,
    /// The instruction being executed, for diagnostics.
    at: HloId,
}

impl<'m> Machine<'m> {
    pub fn new(module: &'m HloModule, limits: Limits) -> Self {
        let mut position = vec![0; module.len()];
        let mut last_use = vec![0; module.len()];
        for c in &module.computations {
            for (i, id) in c.instructions.iter().enumerate() {
                position[id.index()] = i as u32;
                for operand in module.inst(id).operands() {
                    last_use[operand.index()] = i as u32;
                }
            }
            last_use[c.root.index()] = u32::MAX;
        }
        Machine { module, limits, steps: 0, depth: 0, position, last_use, at: HloId::new(0) }
    }

    /// Counts executed instructions.
    pub fn count(&mut self, steps: u64) -> Outcome<()> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps <= self.limits.steps {
            return Ok(());
        }
        let what = "the program ran longer than the step limit";
        let fault = self
            .fault(&eval::EVAL_STEP_LIMIT, what)
            .found(format!("more than {} instructions", self.limits.steps));
        Err(Box::new(fault.help("if the loop does end, raise the limit")))
    }

    pub fn fault(&self, code: murre_components::diag::Code, what: impl Into<String>) -> Diagnostic {
        let inst = self.module.inst(self.at);
        Diagnostic::error(code, what).on(inst.name()).from_source(inst.source()).ordered(self.at.0)
    }

    /// The current instruction is one that no kernel computes in this form.
    pub fn unsupported_here(&self, what: &str) -> Box<Diagnostic> {
        let shape = self.module.inst(self.at).shape().to_string();
        Box::new(self.fault(&eval::EVAL_UNSUPPORTED, format!("{what} of {shape} is not computed")))
    }

    /// Runs a computation for one element of an outer one.
    pub fn run_inner(&mut self, computation: CompId, args: Vec<Value>) -> Outcome<Value> {
        if self.depth >= MAX_DEPTH {
            let what = format!("computations called per element nest more than {MAX_DEPTH} deep");
            return Err(Box::new(self.fault(&eval::EVAL_NESTING, what)));
        }
        let at = self.at;
        self.depth += 1;
        let result = self.run(computation, args);
        self.depth -= 1;
        self.at = at;
        result
    }

    fn frame(&self, computation: CompId, args: Vec<Value>, then: Then) -> Frame {
        let n = self.module.comp(computation).instructions.len();
        Frame { computation, next: 0, values: vec![None; n], args, then }
    }

    /// Runs a computation.
    pub fn run(&mut self, computation: CompId, args: Vec<Value>) -> Outcome<Value> {
        let mut stack = vec![self.frame(computation, args, Then::Store)];
        loop {
            let Some(frame) = stack.last_mut() else { return Ok(Value::Token) };
            let c = self.module.comp(frame.computation);
            let Some(id) = c.instructions.get(frame.next) else {
                let root = self.position[c.root.index()] as usize;
                let result = frame.values[root].take().unwrap_or(Value::Token);
                let Some(done) = stack.pop() else { return Ok(result) };
                let Some(caller) = stack.last_mut() else { return Ok(result) };
                let calling = &self.module.comp(caller.computation).instructions;
                let Some(at) = calling.get(caller.next) else { return Ok(result) };
                let inst = self.module.inst(at);
                match done.then {
                    Then::Store => {
                        caller.values[caller.next] = Some(result);
                        caller.next += 1;
                    }
                    Then::Repeat => {
                        let frame = self.frame(inst.called()[1], vec![result.clone()], Then::Decide(result));
                        stack.push(frame);
                    }
                    Then::Decide(carry) => {
                        if matches!(&result, Value::Array(a) if a.first().is_true()) {
                            let frame = self.frame(inst.called()[0], vec![carry], Then::Repeat);
                            stack.push(frame);
                        } else {
                            caller.values[caller.next] = Some(carry);
                            caller.next += 1;
                        }
                    }
                }
                continue;
            };
            self.at = id;
            self.count(1)?;
            let inst = self.module.inst(id);
            self.check_size(inst)?;
            let mut operands = Self::operands(&self.last_use, &self.position, inst, frame);
            match inst.op {
                HloOp::Parameter => {
                    let number = match inst.attrs() {
                        Attrs::Parameter { number } => *number as usize,
                        _ => 0,
                    };
                    let value = frame.args.get_mut(number).map(|a| std::mem::replace(a, Value::Token));
                    frame.values[frame.next] = value;
                    frame.next += 1;
                }
                HloOp::Call | HloOp::Fusion => {
                    let frame = self.frame(inst.called()[0], operands, Then::Store);
                    stack.push(frame);
                }
                HloOp::While => {
                    let carry = operands.pop().unwrap_or(Value::Token);
                    let frame = self.frame(inst.called()[1], vec![carry.clone()], Then::Decide(carry));
                    stack.push(frame);
                }
                HloOp::Conditional => {
                    let n = inst.called().len();
                    let branch = match operands.first() {
                        Some(Value::Array(a)) if a.ty == HloType::Pred => usize::from(!a.first().is_true()),
                        // An index outside the branches takes the last one.
                        Some(Value::Array(a)) => {
                            usize::try_from(a.first().int()).map_or(n - 1, |i| i.min(n - 1))
                        }
                        _ => n - 1,
                    };
                    let arg = operands.swap_remove(1 + branch);
                    let frame = self.frame(inst.called()[branch], vec![arg], Then::Store);
                    stack.push(frame);
                }
                _ => {
                    let value = self.compute(inst, operands)?;
                    frame.values[frame.next] = Some(value);
                    frame.next += 1;
                }
            }
        }
    }

    /// The operands; one that nobody uses later leaves its frame.
    fn operands(last_use: &[u32], position: &[u32], inst: HloInst<'_>, frame: &mut Frame) -> Vec<Value> {
        let here = frame.next as u32;
        let mut values = Vec::with_capacity(inst.operands().len());
        for (i, o) in inst.operands().iter().enumerate() {
            let slot = &mut frame.values[position[o.index()] as usize];
            let last = last_use[o.index()] == here && !inst.operands()[i + 1..].contains(o);
            values.push(if last { slot.take() } else { slot.clone() }.unwrap_or(Value::Token));
        }
        values
    }

    fn check_size(&self, inst: HloInst<'_>) -> Outcome<()> {
        use HloOp::*;
        if matches!(inst.op, Parameter | Tuple | GetTupleElement | While | Call | Conditional | Copy) {
            return Ok(());
        }
        // A window is walked element by element, padding included.
        let window = match inst.attrs() {
            Attrs::Window(w) | Attrs::Convolution { window: w, .. } => w.as_slice(),
            _ => &[],
        };
        let volume = window.iter().fold(1u64, |n, w| n.saturating_mul(w.size.max(0) as u64));
        let leaves = inst.shape().leaves().into_iter().filter_map(|s| s.array());
        let elements = leaves.map(|a| a.elements()).fold(volume, u64::max);
        if elements <= self.limits.elements {
            return Ok(());
        }
        let fault =
            self.fault(&eval::EVAL_TOO_LARGE, "the value is larger than the evaluator's memory limit");
        Err(Box::new(
            fault
                .found(inst.shape().to_string())
                .expected(format!("at most {} elements", self.limits.elements)),
        ))
    }
}
