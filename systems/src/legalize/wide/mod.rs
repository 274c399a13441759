//! 64-bit elements taken apart: a module in, the same program without 64-bit arithmetic out. [`facts`] says how each value
//! is held (by [`range`]); [`Split`] writes the module anew, one old instruction at a time, and each file has the rules of
//! one kind: [`pairs`] and [`divide`] compute, [`convert`] goes to floats and back, [`elementwise`] and [`movement`] find
//! the rule of an operation, [`reduce`] folds, [`control`] carries values into computations and out of them ([`value`]
//! says in what parts), and [`fold`] computes f64 whose inputs are constants.

mod control;
mod convert;
mod divide;
mod elementwise;
mod emit;
mod facts;
mod fold;
mod movement;
mod pairs;
mod range;
mod reduce;
mod value;

use crate::legalize::rebuild::Rebuild;
use crate::simplify::eliminate_dead_code::prune;
use control::Style;
use facts::Facts;
use fold::Known;
use murre_components::diag::codes::lower::LOWER_TYPE;
use murre_components::diag::{Code, Diagnostic, Span};
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, SeededSet, seeded_map, seeded_set};
use murre_components::hlo::{HloInst, HloModule, HloOp};
use murre_components::ids::{CompId, HloId};
use std::sync::Arc;
use value::{Pair, Value, has_wide};

/// Why an instruction has nothing that stands for it.
pub enum Refusal {
    /// It depends on what was refused already.
    Silent,
    /// No rule.
    Fault(Code, String),
}

/// A refusal for a type that has no rule here.
pub fn no_rule(what: impl Into<String>) -> Refusal {
    Refusal::Fault(&LOWER_TYPE, what.into())
}

/// A module under reconstruction.
pub struct Split<'m> {
    old: &'m HloModule,
    facts: Facts,
    /// By old shape: whether it has a 64-bit leaf.
    wide_shapes: Vec<bool>,
    out: Rebuild,
    /// By old instruction.
    values: Vec<Option<Value>>,
    /// By old instruction, where something is f64: what it is on every run.
    known: Vec<Option<Arc<Known>>>,
    /// By old computation: how it takes its parameters; `None` where nothing calls it.
    styles: Vec<Option<Style>>,
    refusals: Vec<Diagnostic>,
    /// The old instruction that new ones stand for.
    at: HloId,
    tag: &'static str,
    /// Names of the computation under construction, and the next number of a stem.
    taken: SeededSet<String>,
    numbers: SeededMap<String, u32>,
    /// Names of computations.
    titles: SeededSet<String>,
    /// Splats of the computation under construction.
    constants: SeededMap<(HloType, u32, Vec<i64>), HloId>,
    opened: SeededMap<HloId, Pair>,
    /// Written before what calls them.
    reducers: Vec<((HloOp, HloType), CompId)>,
    divisions: Vec<(Vec<i64>, (CompId, CompId))>,
}

/// Whether any value of the module has 64-bit elements.
pub fn needed(module: &HloModule) -> bool {
    module.shapes().iter().any(has_wide)
}

/// The module without 64-bit arithmetic, or all that has no rule.
pub fn split(old: &HloModule) -> Result<HloModule, Vec<Diagnostic>> {
    let mut split = Split {
        old,
        facts: Facts::of(old),
        wide_shapes: old.shapes().iter().map(has_wide).collect(),
        out: Rebuild::new(old),
        values: vec![None; old.len()],
        known: Vec::new(),
        styles: control::styles(old),
        refusals: Vec::new(),
        at: HloId(0),
        tag: "",
        taken: seeded_set(),
        numbers: seeded_map(),
        titles: old.computations.iter().map(|c| c.name.clone()).fold(seeded_set(), |mut all, name| {
            all.insert(name);
            all
        }),
        constants: seeded_map(),
        opened: seeded_map(),
        reducers: Vec::new(),
        divisions: Vec::new(),
    };
    if old.shapes().iter().any(fold::has_f64) {
        split.known = vec![None; old.len()];
    }
    split.write_reducers();
    for (c, comp) in old.computations.iter().enumerate() {
        let c = CompId::new(c);
        if c != old.entry && split.styles[c.index()].is_none() {
            continue;
        }
        if comp.instructions.iter().any(|id| split.is_wide(id)) {
            split.computation(c);
        } else {
            for id in comp.instructions.iter() {
                let new = split.out.copy(old, id);
                split.values[id.index()] = Some(Value::Whole(new));
            }
            let root = split.out.moved[comp.root.index()];
            split.out.finish(old, c, root);
        }
    }
    if split.refusals.is_empty() { Ok(prune(&split.out.module)) } else { Err(split.refusals) }
}

impl<'m> Split<'m> {
    /// Whether an old value has a 64-bit leaf.
    fn is_wide(&self, id: HloId) -> bool {
        self.wide_shapes[self.old.inst(id).shape_id().index()]
    }

    /// What the next computation begins with.
    fn begin(&mut self) {
        self.taken.clear();
        self.numbers.clear();
        self.constants.clear();
        self.opened.clear();
    }

    /// Ends a computation that is not in the old module.
    fn finish_new(&mut self, name: &str, parameters: &[HloId], root: HloId) -> CompId {
        let mut title = format!("wide.{name}");
        let mut number = 1;
        while !self.titles.insert(title.clone()) {
            title = format!("wide.{name}.{number}");
            number += 1;
        }
        self.begin();
        self.out.finish_new(title, parameters.to_vec(), root)
    }

    fn computation(&mut self, c: CompId) {
        let old = self.old;
        let comp = old.comp(c);
        for id in comp.instructions.iter() {
            self.prepare_division(id);
        }
        self.begin();
        for id in comp.instructions.iter() {
            self.taken.insert(old.inst(id).name().to_owned());
        }
        let parameters = if c == old.entry { self.entry_parameters(c) } else { self.parameters(c) };
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            self.fold_known(inst);
            if inst.op == HloOp::Parameter {
                continue;
            }
            self.stand_for(id);
            let value = match self.rewrite(inst) {
                Ok(value) => value,
                Err(refusal) => {
                    self.refuse(inst, refusal);
                    Value::Refused
                }
            };
            if let Value::Whole(new) = value {
                self.out.moved[id.index()] = new;
            }
            self.values[id.index()] = Some(value);
        }
        self.stand_for(comp.root);
        let (value, shape) = (self.value(comp.root), old.inst(comp.root).shape());
        let root = if c == old.entry {
            self.closed(&value, shape)
        } else {
            let forms = self.facts.returned_forms(c);
            self.carried(&value, shape, &forms)
        };
        // Without a root there was a refusal, and the module is given up.
        self.out.finish_with(old, c, parameters, root.unwrap_or(HloId::NONE));
    }

    fn refuse(&mut self, inst: HloInst<'_>, refusal: Refusal) {
        let Refusal::Fault(code, message) = refusal else { return };
        let mut fault = Diagnostic::error(code, message).on(inst.name()).from_source(inst.source());
        if let Some((line, column)) = inst.text_place() {
            fault = fault.at(Span { line, column });
        }
        let operand = inst.operands().first().map(|o| self.old.inst(*o).shape().to_string());
        let found = if has_wide(inst.shape()) { Some(inst.shape().to_string()) } else { operand };
        if let Some(found) = found {
            fault = fault.found(found);
        }
        self.refusals.push(fault.ordered(inst.id.0).help("compute it in a type of at most 32 bits"));
    }

    /// The instruction with these operands; nothing else of it changes.
    fn copied(&mut self, inst: HloInst<'m>, operands: &[HloId]) -> HloId {
        self.out.copy_with(self.old, inst.id, operands)
    }

    /// What stands for an instruction.
    fn rewrite(&mut self, inst: HloInst<'m>) -> Result<Value, Refusal> {
        let old = self.old;
        if !self.is_wide(inst.id) && !inst.operands().iter().any(|o| self.is_wide(*o)) {
            let operands: Result<Vec<HloId>, Refusal> =
                inst.operands().iter().map(|o| self.whole(*o)).collect();
            return Ok(Value::Whole(self.copied(inst, &operands?)));
        }
        let refused =
            |o: &HloId| !matches!(self.values.get(o.index()), Some(Some(v)) if *v != Value::Refused);
        if inst.operands().iter().any(refused) {
            return Err(Refusal::Silent);
        }
        let dynamic = |id: HloId| {
            old.inst(id).shape().leaves().iter().any(|s| s.array().is_some_and(|a| a.has_dynamic()))
        };
        if dynamic(inst.id) {
            return Err(no_rule("64-bit elements in an array of a run-time extent"));
        }
        if let Some(known) = self.known.get(inst.id.index()).cloned().flatten() {
            return self.write_known(inst, &known);
        }
        use HloOp::*;
        match inst.op {
            Tuple | GetTupleElement | While | Conditional | Call | Fusion | OptimizationBarrier | Sort => {
                self.control(inst)
            }
            Broadcast | Reshape | Transpose | Slice | Reverse | Copy | AddDependency | Concatenate | Pad
            | DynamicSlice | DynamicUpdateSlice | Gather | Iota | Constant | GetDimensionSize => {
                self.movement(inst)
            }
            Scatter | Reduce | ReduceWindow => self.fold(inst),
            _ => self.elementwise(inst),
        }
    }
}
