//! The machine: frames on an explicit stack, so that calls, loops and branches may nest as deep as they like. Every
//! instruction executed counts against the step limit, and so does the work of kernels. A value is dropped after its
//! last use, an element of a tuple when nobody reads it any more: that is what lets dynamic-update-slice write in place.

use super::region::Region;
use super::tensor::{Meter, Value};
use super::{Limits, Outcome, dispatch};
use murre_components::diag::{Diagnostic, codes::eval};
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};
use std::rc::Rc;

/// Per-element computations may call per-element computations this deep.
const MAX_DEPTH: u32 = 32;

/// Elementary operations of a kernel (a multiplication of a dot, an element moved) that count as one step.
const WORK_OF_A_STEP: u64 = 64;

const TOO_LARGE: &str = "the value is larger than the evaluator's memory limit";

/// What to do with a finished frame's result.
enum Then {
    /// It is the value of the caller's instruction.
    Store,
    /// It is the result of an asynchronous call with these operands.
    Wrap(Vec<Value>),
    /// It decides whether the loop goes on with this carry.
    Decide(Value),
    /// It is the loop's next carry.
    Repeat,
}

struct Frame {
    computation: CompId,
    /// Position of the next instruction.
    next: usize,
    values: Vec<Value>,
    args: Vec<Value>,
    then: Then,
}

/// What is known of an instruction before it runs.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Its position in its computation.
    position: u32,
    /// Position of its last user; `u32::MAX` for roots.
    last_use: u32,
    /// Bytes of its result, if it makes one.
    bytes: u64,
    /// Elements of its largest array.
    elements: u64,
    /// A get-tuple-element after which nobody reads this element of the tuple.
    takes: bool,
    /// Nothing of the result hangs on it, and sizes may fail in it: it is passed over.
    dead: bool,
}

/// Runs the computations of one verified module.
pub(crate) struct Machine<'m> {
    pub module: &'m HloModule,
    pub limits: Limits,
    /// Bytes of all values that live.
    pub meter: Meter,
    steps: u64,
    /// Work that is not yet a whole step.
    work: u64,
    depth: u32,
    plans: Vec<Plan>,
    constants: Vec<Option<Value>>,
    regions: Vec<Option<Rc<Region>>>,
    /// Value slots of finished frames, to be used again.
    spare: Vec<Vec<Value>>,
    /// The instruction being executed, for diagnostics.
    at: HloId,
}

impl<'m> Machine<'m> {
    pub fn new(module: &'m HloModule, limits: Limits) -> Self {
        Machine {
            module,
            limits,
            meter: Meter::default(),
            steps: 0,
            work: 0,
            depth: 0,
            plans: plans(module),
            constants: vec![None; module.len()],
            regions: vec![None; module.computations.len()],
            spare: Vec::new(),
            at: HloId::new(0),
        }
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
        Err(Box::new(fault.help("if the loop does end, raise the limit (murre eval --max-steps)")))
    }

    /// Counts elementary operations of a kernel.
    pub fn work(&mut self, operations: u64) -> Outcome<()> {
        self.work = self.work.saturating_add(operations);
        let steps = self.work / WORK_OF_A_STEP;
        self.work %= WORK_OF_A_STEP;
        if steps == 0 { Ok(()) } else { self.count(steps) }
    }

    pub fn fault(&self, code: murre_components::diag::Code, what: impl Into<String>) -> Diagnostic {
        let inst = self.module.inst(self.at);
        Diagnostic::error(code, what).on(inst.name()).from_source(inst.source()).ordered(self.at.0)
    }

    /// The instruction being executed.
    pub fn current(&self) -> HloInst<'m> {
        self.module.inst(self.at)
    }

    /// The current instruction is one that no kernel computes in this form.
    pub fn unsupported_here(&self, what: &str) -> Box<Diagnostic> {
        let shape = self.module.inst(self.at).shape().to_string();
        Box::new(self.fault(&eval::EVAL_UNSUPPORTED, format!("{what} of {shape} is not computed")))
    }

    /// The computation that an instruction calls, compiled once.
    pub fn region(&mut self, computation: CompId) -> Rc<Region> {
        let module = self.module;
        let slot = &mut self.regions[computation.index()];
        slot.get_or_insert_with(|| Rc::new(Region::new(module, computation))).clone()
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

    fn frame(&mut self, computation: CompId, args: Vec<Value>, then: Then) -> Frame {
        let n = self.module.comp(computation).instructions.len();
        let mut values = self.spare.pop().unwrap_or_default();
        values.resize(n, Value::Token);
        Frame { computation, next: 0, values, args, then }
    }

    /// Runs a computation.
    pub fn run(&mut self, computation: CompId, args: Vec<Value>) -> Outcome<Value> {
        let mut stack = vec![self.frame(computation, args, Then::Store)];
        loop {
            let Some(frame) = stack.last_mut() else { return Ok(Value::Token) };
            let c = self.module.comp(frame.computation);
            let Some(id) = c.instructions.get(frame.next) else {
                let root = self.plans[c.root.index()].position as usize;
                let result = std::mem::take(&mut frame.values[root]);
                let Some(mut done) = stack.pop() else { return Ok(result) };
                done.values.clear();
                self.spare.push(done.values);
                let Some(caller) = stack.last_mut() else { return Ok(result) };
                if let Some(frame) = self.resume(caller, done.then, result) {
                    stack.push(frame);
                }
                continue;
            };
            self.at = id;
            self.count(1)?;
            if self.plans[id.index()].dead {
                frame.next += 1;
                continue;
            }
            let inst = self.module.inst(id);
            if let Some(called) = self.execute(id, inst, frame)? {
                stack.push(called);
            }
        }
    }

    /// Goes on with a result of a called frame: perhaps in another one.
    fn resume(&mut self, caller: &mut Frame, then: Then, result: Value) -> Option<Frame> {
        let id = self.module.comp(caller.computation).instructions.get(caller.next)?;
        let inst = self.module.inst(id);
        let value = match then {
            Then::Store => result,
            Then::Wrap(operands) => {
                let mut parts = vec![Value::Tuple(operands), result];
                if let Shape::Tuple(shapes) = inst.shape() {
                    parts.resize(shapes.len().max(2), Value::Token);
                }
                Value::Tuple(parts)
            }
            Then::Repeat => {
                return Some(self.frame(inst.called()[1], vec![result.clone()], Then::Decide(result)));
            }
            Then::Decide(carry) => {
                if result.tensor().is_some_and(|a| a.first().is_true()) {
                    return Some(self.frame(inst.called()[0], vec![carry], Then::Repeat));
                }
                carry
            }
        };
        caller.values[caller.next] = value;
        caller.next += 1;
        None
    }

    /// Executes one instruction: stores its value and steps on, or gives the frame that it calls.
    fn execute(&mut self, id: HloId, inst: HloInst<'m>, frame: &mut Frame) -> Outcome<Option<Frame>> {
        let value = match inst.op {
            HloOp::Parameter => {
                let Attrs::Parameter { number } = inst.attrs() else {
                    return Err(self.unsupported_here("this"));
                };
                frame.args.get_mut(*number as usize).map(std::mem::take).unwrap_or_default()
            }
            HloOp::GetTupleElement => self.part(id, inst, frame)?,
            HloOp::Constant => self.constant(id, inst)?,
            HloOp::Call | HloOp::Fusion => {
                let operands = self.operands(inst, frame);
                return Ok(Some(self.frame(inst.called()[0], operands, Then::Store)));
            }
            HloOp::AsyncStart if !inst.called().is_empty() => {
                let operands = self.operands(inst, frame);
                return Ok(Some(self.frame(inst.called()[0], operands.clone(), Then::Wrap(operands))));
            }
            HloOp::While => {
                let carry = self.operands(inst, frame).pop().unwrap_or_default();
                return Ok(Some(self.frame(inst.called()[1], vec![carry.clone()], Then::Decide(carry))));
            }
            HloOp::Conditional => {
                let mut operands = self.operands(inst, frame);
                let n = inst.called().len();
                let branch = match operands.first().and_then(Value::tensor) {
                    Some(a) if a.ty == HloType::Pred => usize::from(!a.first().is_true()),
                    // An index outside the branches takes the last one.
                    Some(a) => usize::try_from(a.first().int()).map_or(n - 1, |i| i.min(n - 1)),
                    None => n - 1,
                };
                let arg = operands.swap_remove(1 + branch);
                return Ok(Some(self.frame(inst.called()[branch], vec![arg], Then::Store)));
            }
            _ => {
                self.check_size(id, inst)?;
                self.work(inst.operands().len() as u64)?;
                let operands = self.operands(inst, frame);
                let value = self.compute(inst, operands)?;
                // What was to be made in place may have been copied after all.
                if self.meter.get() > self.limits.bytes {
                    return Err(Box::new(self.too_much(inst)));
                }
                value
            }
        };
        frame.values[frame.next] = value;
        frame.next += 1;
        Ok(None)
    }

    /// The operands; those that nobody uses later leave their frame.
    fn operands(&self, inst: HloInst<'_>, frame: &mut Frame) -> Vec<Value> {
        let here = frame.next as u32;
        let plan = |o: &HloId| &self.plans[o.index()];
        let slots = |o: &HloId| plan(o).position as usize;
        // Nearly always each operand stands there once, and is then taken without a copy.
        if let [one] = inst.operands() {
            let slot = &mut frame.values[slots(one)];
            return vec![if plan(one).last_use == here { std::mem::take(slot) } else { slot.clone() }];
        }
        let values: Vec<Value> = inst.operands().iter().map(|o| frame.values[slots(o)].clone()).collect();
        for o in inst.operands().iter().filter(|o| plan(o).last_use == here) {
            frame.values[slots(o)] = Value::Token;
        }
        values
    }

    /// An element of a tuple, taken out of it after its last use.
    fn part(&mut self, id: HloId, inst: HloInst<'_>, frame: &mut Frame) -> Outcome<Value> {
        let (Attrs::GetTupleElement { index }, [operand]) = (inst.attrs(), inst.operands()) else {
            return Err(self.unsupported_here("this"));
        };
        let tuple = self.plans[operand.index()];
        let slot = &mut frame.values[tuple.position as usize];
        let value = match slot {
            Value::Tuple(parts) => match parts.get_mut(*index as usize) {
                Some(part) if self.plans[id.index()].takes => std::mem::take(part),
                Some(part) => part.clone(),
                None => Value::Token,
            },
            _ => Value::Token,
        };
        if tuple.last_use == frame.next as u32 {
            *slot = Value::Token;
        }
        Ok(value)
    }

    /// A constant, decoded once.
    fn constant(&mut self, id: HloId, inst: HloInst<'_>) -> Outcome<Value> {
        if self.constants[id.index()].is_none() {
            self.check_size(id, inst)?;
            let Attrs::Constant(literal) = inst.attrs() else { return Err(self.unsupported_here("this")) };
            self.constants[id.index()] = Some(dispatch::value_of_literal(literal, &self.meter));
        }
        Ok(self.constants[id.index()].clone().unwrap_or_default())
    }

    /// Whether the result may be made at all.
    fn check_size(&self, id: HloId, inst: HloInst<'_>) -> Outcome<()> {
        let Plan { bytes, elements, .. } = self.plans[id.index()];
        let live = self.meter.get().saturating_add(bytes);
        if elements <= self.limits.elements && live <= self.limits.bytes {
            return Ok(());
        }
        if elements <= self.limits.elements {
            return Err(Box::new(self.too_much(inst)));
        }
        let fault = self.fault(&eval::EVAL_TOO_LARGE, TOO_LARGE).found(inst.shape().to_string());
        Err(Box::new(fault.expected(format!("at most {} elements", self.limits.elements))))
    }

    fn too_much(&self, inst: HloInst<'_>) -> Diagnostic {
        let fault = self.fault(&eval::EVAL_TOO_LARGE, TOO_LARGE).found(inst.shape().to_string());
        fault.expected(format!("at most {} bytes of values at a time", self.limits.bytes))
    }
}

/// The plans of all instructions.
fn plans(module: &HloModule) -> Vec<Plan> {
    use HloOp::*;
    let mut plans = vec![Plan::default(); module.len()];
    for c in &module.computations {
        for (i, id) in c.instructions.iter().enumerate() {
            let inst = module.inst(id);
            plans[id.index()].position = i as u32;
            for operand in inst.operands() {
                plans[operand.index()].last_use = i as u32;
            }
            // These make no array of their own.
            if matches!(inst.op, Parameter | Tuple | GetTupleElement | While | Call | Conditional | Copy) {
                continue;
            }
            // These mostly are their first operand.
            let in_place = matches!(
                inst.op,
                DynamicUpdateSlice | Scatter | Reshape | DynamicReshape | BitcastConvert | SetDimensionSize
            );
            let plan = &mut plans[id.index()];
            each_array(inst.shape(), &mut |a| {
                plan.elements = plan.elements.max(a.elements());
                let bytes = a.elements().saturating_mul(a.ty.bytes() as u64);
                plan.bytes = plan.bytes.saturating_add(if in_place { 0 } else { bytes });
            });
        }
        plans[c.root.index()].last_use = u32::MAX;
        takers(module, c, &mut plans);
        if module
            .shapes()
            .iter()
            .any(|s| s.leaves().iter().any(|l| l.array().is_some_and(|a| a.has_dynamic())))
        {
            bury(module, c, &mut plans);
        }
    }
    plans
}

/// Marks what the root does not hang on. With dynamic dimensions it goes before any size is looked at, so that a size
/// that nobody needs cannot fail.
fn bury(module: &HloModule, c: &murre_components::hlo::Computation, plans: &mut [Plan]) {
    for id in c.instructions.iter() {
        plans[id.index()].dead = id != c.root;
    }
    for id in c.instructions.iter().rev() {
        if !plans[id.index()].dead {
            for o in module.inst(id).operands() {
                plans[o.index()].dead = false;
            }
        }
    }
}

fn each_array(shape: &Shape, visit: &mut impl FnMut(&murre_components::hlo::ArrayShape)) {
    match shape {
        Shape::Array(a) => visit(a),
        Shape::Tuple(_) => shape.leaves().iter().filter_map(|s| s.array()).for_each(visit),
        _ => {}
    }
}

/// Finds the get-tuple-elements after which nobody reads their element: no such one follows, and no use of the whole
/// tuple.
fn takers(module: &HloModule, c: &murre_components::hlo::Computation, plans: &mut [Plan]) {
    // For each tuple, by the position of its instruction: which elements are read later; `None`: the whole of it.
    let mut read: Vec<Option<Vec<bool>>> = vec![Some(Vec::new()); c.instructions.len()];
    read[plans[c.root.index()].position as usize] = None;
    for id in c.instructions.iter().rev() {
        let inst = module.inst(id);
        let Attrs::GetTupleElement { index } = inst.attrs() else {
            for o in inst.operands() {
                read[plans[o.index()].position as usize] = None;
            }
            continue;
        };
        let Some(operand) = inst.operands().first() else { continue };
        let arity = match module.inst(*operand).shape() {
            Shape::Tuple(parts) => parts.len(),
            _ => 0,
        };
        if let Some(later) = &mut read[plans[operand.index()].position as usize] {
            later.resize(arity, false);
            if let Some(flag) = later.get_mut(*index as usize) {
                plans[id.index()].takes = !*flag;
                *flag = true;
            }
        }
    }
}
