//! The verifier: a module in, every fault in it out. First the tables (ids in range, operands before users, callees
//! before callers), then each instruction's shape against what its operation gives. After a clean run look-ups by id
//! and shape arithmetic cannot fail, and passes rely on that.
//!
//! Whether an instruction is right depends on its operation, its attributes, its computations and the shapes of its
//! operands and result; modules repeat these thousands of times, and each combination is checked once.

mod pairs;

use crate::hlo::infer::{Expect, Inspect, same_bounds};
use hashbrown::HashTable;
use murre_components::diag::{Diagnostic, Span, codes::verify as codes};
use murre_components::hash::hash_words;
use murre_components::hlo::{Attrs, HloInst, HloModule, Shape, UNBOUNDED};
use murre_components::ids::HloId;

/// All faults of a module, in program order; empty when it is valid.
pub fn verify(module: &HloModule) -> Vec<Diagnostic> {
    let mut faults = structure(module);
    if !faults.is_empty() {
        return faults;
    }
    let mut checked = Checked::default();
    for inst in module.insts() {
        let before = faults.len();
        if checked.begin(module, inst) {
            instruction(module, inst, inst.id.0, &mut faults);
            if faults.len() == before {
                checked.keep();
            }
        }
    }
    pairs::background(module, &mut faults);
    pairs::fusions(module, &mut faults);
    pairs::threads(module, &mut faults);
    faults.sort_by_key(|d| d.ordinal);
    faults
}

/// Combinations that were checked and found right.
#[derive(Default)]
struct Checked {
    /// The keys back to back, behind them the one in hand.
    keys: Vec<u32>,
    /// End of each kept key.
    ends: Vec<u32>,
    index: HashTable<u32>,
    hash: u64,
}

fn key<'k>(keys: &'k [u32], ends: &[u32], i: usize) -> &'k [u32] {
    let start = if i == 0 { 0 } else { ends[i - 1] };
    &keys[start as usize..ends[i] as usize]
}

impl Checked {
    /// Takes the combination of an instruction in hand; `false` if it was kept before.
    fn begin(&mut self, module: &HloModule, inst: HloInst<'_>) -> bool {
        let start = self.ends.last().copied().unwrap_or(0) as usize;
        self.keys.truncate(start);
        let called = inst.called();
        self.keys.extend([inst.op as u32, inst.attr_id().0, inst.shape_id().0, called.len() as u32]);
        called.iter().for_each(|c| self.keys.push(c.0));
        inst.operands().iter().for_each(|o| self.keys.push(module.inst(*o).shape_id().0));
        // Of few operations the result hangs on what is kept as text.
        inst.kept_ids().iter().for_each(|(key, value)| self.keys.extend([key.0, value.0]));
        let new = &self.keys[start..];
        self.hash = hash_words(new.iter().copied());
        let same = |i: &u32| key(&self.keys, &self.ends, *i as usize) == new;
        self.index.find(self.hash, same).is_none()
    }

    /// Keeps the combination in hand.
    fn keep(&mut self) {
        let id = self.ends.len() as u32;
        self.ends.push(self.keys.len() as u32);
        let (keys, ends) = (&self.keys, &self.ends);
        self.index.insert_unique(self.hash, id, |i| hash_words(key(keys, ends, *i as usize).iter().copied()));
    }
}

fn on(fault: Diagnostic, inst: HloInst<'_>, ordinal: u32) -> Diagnostic {
    let fault = fault.on(inst.name()).from_source(inst.source()).ordered(ordinal);
    match inst.text_place() {
        None => fault,
        Some((line, column)) => fault.at(Span { line, column }),
    }
}

fn structure(module: &HloModule) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(Diagnostic::error(&codes::VERIFY_STRUCTURE, what));
    let mut next = 0;
    for (c, computation) in module.computations.iter().enumerate() {
        let (name, own) = (&computation.name, computation.instructions);
        if own.first != next || own.first as usize + own.len() > module.len() {
            fault(format!("the instructions of '{name}' do not follow those of the computation before it"));
            return faults;
        }
        next = own.first + own.count;
        if !own.contains(computation.root) {
            fault(format!("the root of '{name}' is not in it"));
        }
        for (number, id) in computation.parameters.iter().enumerate() {
            let numbered = own.contains(*id)
                && matches!(module.inst(*id).attrs(), Attrs::Parameter { number: n } if *n as usize == number);
            if !numbered {
                fault(format!("parameter {number} of '{name}' is not numbered so"));
            }
        }
        for id in own.iter() {
            let inst = module.inst(id);
            let before = |o: &HloId| o.0 >= own.first && *o < id;
            if !inst.operands().iter().all(before) {
                fault(format!("an operand of '{}' does not come before it in its computation", inst.name()));
            }
            if inst.called().iter().any(|callee| callee.index() >= c) {
                fault(format!("'{}' calls a computation that does not come before its own", inst.name()));
            }
        }
    }
    if next as usize != module.len() {
        fault("an instruction is in no computation".to_owned());
    }
    if module.computations.get(module.entry.index()).is_none() {
        fault("the entry computation does not exist".to_owned());
    }
    faults
}

fn instruction(module: &HloModule, inst: HloInst<'_>, ordinal: u32, faults: &mut Vec<Diagnostic>) {
    // What has no bound has no extent to reckon with; who computes or compiles it refuses it.
    let operands = inst.operands().iter().map(|o| module.inst(*o).shape());
    if operands.chain([inst.shape()]).any(is_unbounded) {
        return;
    }
    if inst.shape().leaves().iter().any(|s| s.array().is_some_and(|a| !whole(a))) {
        let what = "the value's size overflows";
        let fault = Diagnostic::error(&codes::VERIFY_SHAPE, what).found(inst.shape().to_string());
        faults.push(on(fault.expected("fewer than 2^62 bytes"), inst, ordinal));
        return;
    }
    let mut inspect = Inspect::new(module, inst);
    let expected = match inspect.expect() {
        Ok(Expect::Exact(shape)) if !shape.same(inst.shape()) => Some(shape),
        Ok(Expect::Bounds(shape)) if !same_bounds(&shape, inst.shape()) => Some(shape),
        _ => None,
    };
    for problem in inspect.problems {
        let fault =
            Diagnostic::error(problem.code, problem.message).found(problem.found).expected(problem.expected);
        faults.push(on(fault, inst, ordinal));
    }
    if let Some(shape) = expected {
        let found = inst.shape().to_string();
        let what = format!("{} gives {shape}, not {found}", inst.op.name());
        let fault = Diagnostic::error(&codes::VERIFY_SHAPE, what).found(found).expected(shape.to_string());
        faults.push(on(fault, inst, ordinal));
    }
}

/// Whether any array in it has a dimension without a bound.
pub(crate) fn is_unbounded(shape: &Shape) -> bool {
    shape.leaves().iter().any(|s| s.array().is_some_and(|a| a.dims.contains(&UNBOUNDED)))
}

/// Whether the array's bytes can be counted.
fn whole(a: &murre_components::hlo::ArrayShape) -> bool {
    a.elements().saturating_mul(16) < 1 << 62 && a.dims.iter().all(|d| *d < 1 << 48)
}
