//! The module written anew at its bounds. In: a module without `call`. Out: the same with every array static and every
//! size a value of its own; or all refusals together. [`super::rules`] knows the operations; here are the computations:
//! how sizes travel through parameters, tuples, loops and conditionals. Facts: `spec/dynamic_shapes.md 4`.
//!
//! A computation whose parameter has dynamic dimensions takes `(parameter, size ...)` instead, and one whose result has
//! some gives `(result, size ...)`. Where a check can fail inside, number and size of the first failure travel too.

use super::rebuilt::{comparator, sorts_dynamic};
use super::rules::{Op, Refusal, constant_of, rule};
use super::sizes::{Check, Known, Place, Sizes, at_bounds, dynamic_places, is_dynamic};
use crate::legalize::build::{Build, computation};
use crate::legalize::rebuild::Rebuild;
use murre_components::diag::codes::lower::LOWER_DYNAMIC_SHAPE;
use murre_components::diag::{Diagnostic, Span};
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};
use murre_components::program::{Extent, Extents, SizeCheck};

/// How a computation is called: which sizes it is given and gives, and whether failures travel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Form {
    given: Vec<Place>,
    returned: Vec<Place>,
    faults: bool,
}

impl Form {
    fn is_plain(&self) -> bool {
        self.given.is_empty() && self.returned.is_empty() && !self.faults
    }
}

/// Whether the module has anything to rewrite.
pub fn needed(module: &HloModule) -> bool {
    module.shapes().iter().any(is_dynamic)
        || module.insts().any(|i| {
            matches!(i.op, HloOp::SetDimensionSize | HloOp::GetDimensionSize | HloOp::DynamicReshape)
        })
}

/// The module at its bounds and what its boundary is, or all that has no rule.
pub fn rewrite(old: &HloModule) -> Result<(HloModule, Extents), Vec<Diagnostic>> {
    let mut r = Rewrite {
        old,
        out: Rebuild::new(old),
        known: Known::new(old.len()),
        faulty: faulty(old),
        written: vec![Vec::new(); old.computations.len()],
        refusals: Vec::new(),
        extents: Extents::default(),
    };
    r.out.module.extra.retain(|(key, _)| key != "entry_computation_layout");
    let forms = r.forms();
    let reshapes =
        |i: HloInst<'_>| matches!(i.op, HloOp::Reshape | HloOp::DynamicReshape) && is_dynamic(i.shape());
    if let Some(like) = old.insts().find(|i| reshapes(*i)) {
        let scalar = Shape::Array(ArrayShape::new(HloType::S32, []));
        let name = r.title("dynamic.sum");
        let sum = computation(&mut r.out, &name, &[scalar.clone(), scalar], like, |b, p| {
            b.binary(HloOp::Add, p[0], p[1])
        });
        r.known.sum = Some(sum);
    }
    for (c, forms) in forms.into_iter().enumerate() {
        for form in forms {
            r.computation(CompId::new(c), form);
        }
    }
    if !r.refusals.is_empty() {
        return Err(r.refusals);
    }
    let check = |c: &Check| SizeCheck {
        instruction: old.inst(c.inst).name().to_owned(),
        dimension: c.dimension as u32,
        bound: c.bound.max(0) as u64,
    };
    r.extents.checks = r.known.checks.iter().map(check).collect();
    Ok((r.out.module, r.extents))
}

/// Which computations hold a check that a run can fail, themselves or in what they call.
fn faulty(old: &HloModule) -> Vec<bool> {
    let mut faulty = vec![false; old.computations.len()];
    for (c, comp) in old.computations.iter().enumerate() {
        faulty[c] = comp.instructions.iter().any(|id| {
            let inst = old.inst(id);
            match inst.op {
                HloOp::SetDimensionSize => {
                    inst.operands().get(1).is_none_or(|n| constant_of(old, *n).is_none())
                }
                HloOp::DynamicReshape => true,
                HloOp::While => inst.called().first().is_some_and(|b| faulty[b.index()]),
                HloOp::Conditional => inst.called().iter().any(|b| faulty[b.index()]),
                _ => false,
            }
        });
    }
    faulty
}

/// How many arrays stand before a leaf.
fn array_number(leaves: &[&Shape], leaf: usize) -> u32 {
    leaves.iter().take(leaf).filter(|s| s.array().is_some()).count() as u32
}

struct Rewrite<'m> {
    old: &'m HloModule,
    out: Rebuild,
    known: Known,
    faulty: Vec<bool>,
    /// By old computation: what was written for it.
    written: Vec<Vec<(Form, CompId)>>,
    refusals: Vec<Diagnostic>,
    extents: Extents,
}

impl<'m> Rewrite<'m> {
    /// The forms in which a loop or a conditional calls its computations.
    fn calls(&self, inst: HloInst<'m>) -> Vec<Form> {
        let parameter = |c: &CompId| {
            let first = self.old.comp(*c).parameters.first();
            first.map_or_else(Vec::new, |p| dynamic_places(self.old.inst(*p).shape()))
        };
        match (inst.op, inst.called()) {
            (HloOp::While, [body, _]) => {
                let given = parameter(body);
                let faults = self.faulty[body.index()];
                let body = Form { given: given.clone(), returned: given.clone(), faults };
                vec![body, Form { given, returned: Vec::new(), faults }]
            }
            (HloOp::Conditional, branches) => {
                let faults = branches.iter().any(|c| self.faulty[c.index()]);
                let returned = dynamic_places(inst.shape());
                // Its parameter may say more than its caller knows, never less.
                branches
                    .iter()
                    .map(|c| Form { given: parameter(c), returned: returned.clone(), faults })
                    .collect()
            }
            (_, called) => vec![Form::default(); called.len()],
        }
    }

    /// By computation: the forms in which it is called, the entry's among them.
    fn forms(&self) -> Vec<Vec<Form>> {
        let mut forms: Vec<Vec<Form>> = vec![Vec::new(); self.old.computations.len()];
        forms[self.old.entry.index()].push(Form::default());
        // Callees stand before their callers, so one walk backwards finds all.
        for c in (0..forms.len()).rev().filter(|c| *c <= self.old.entry.index()) {
            if forms[c].is_empty() {
                continue;
            }
            for id in self.old.computations[c].instructions.iter() {
                let inst = self.old.inst(id);
                for (callee, form) in inst.called().iter().zip(self.calls(inst)) {
                    let known = &mut forms[callee.index()];
                    if !known.contains(&form) {
                        known.push(form);
                    }
                }
            }
        }
        forms
    }

    /// What was written for a computation in a form.
    fn callee(&self, c: CompId, form: &Form) -> Option<CompId> {
        self.written[c.index()].iter().find(|(f, _)| f == form).map(|(_, new)| *new)
    }

    /// A name that no computation has.
    fn title(&self, stem: &str) -> String {
        let taken = |name: &str| {
            self.old.computations.iter().chain(&self.out.module.computations).any(|c| c.name == name)
        };
        let mut title = stem.to_owned();
        let mut number = 1;
        while taken(&title) {
            title = format!("{stem}.{number}");
            number += 1;
        }
        title
    }

    fn refuse(&mut self, inst: HloInst<'_>, refusal: Refusal) {
        let what = match refusal.dimension {
            Some(d) => format!("{}, dimension {d}: {}", inst.name(), refusal.reason),
            None => format!("{}: {}", inst.name(), refusal.reason),
        };
        let mut fault =
            Diagnostic::error(&LOWER_DYNAMIC_SHAPE, what).on(inst.name()).from_source(inst.source());
        if let Some((line, column)) = inst.text_place() {
            fault = fault.at(Span { line, column });
        }
        let shapes: Vec<String> =
            inst.operands().iter().map(|o| self.old.inst(*o).shape().to_string()).collect();
        let found = format!("{} from ({})", inst.shape(), shapes.join(", "));
        let fault =
            fault.found(found).help("give it static extents, or evaluate the module with `murre eval`");
        // A computation may be written in several forms.
        if !self.refusals.iter().any(|f| f.message == fault.message && f.instruction == fault.instruction) {
            self.refusals.push(fault.ordered(inst.id.0));
        }
    }

    fn computation(&mut self, c: CompId, form: Form) {
        let old = self.old;
        let comp = old.comp(c);
        for id in comp.instructions.iter().map(|id| old.inst(id)).filter(|i| sorts_dynamic(old, *i)) {
            let compare = id.called().first().and_then(|c| self.callee(*c, &Form::default()));
            if let Some(compare) = compare {
                let name = self.title(&format!("{}.live", id.name()));
                let wrapped = comparator(&mut self.out, &name, compare, id);
                self.known.comparators.insert(id.id, wrapped);
            }
        }
        self.out.begin();
        self.known.begin();
        let parameters = if c == old.entry { self.entry_parameters(c) } else { self.parameters(c, &form) };
        for id in comp.instructions.iter() {
            let inst = old.inst(id);
            if inst.op == HloOp::Parameter {
                continue;
            }
            let refused = inst.operands().iter().any(|o| self.out.moved[o.index()].is_none());
            let done = if refused { None } else { Some(self.instruction(inst)) };
            match done {
                Some(Ok(value)) => {
                    self.out.moved[id.index()] = value;
                    self.fill_sizes(inst);
                }
                // What depends on a refused value is passed over.
                None => self.out.moved[id.index()] = HloId::NONE,
                Some(Err(refusal)) => {
                    self.out.moved[id.index()] = HloId::NONE;
                    self.refuse(inst, refusal);
                }
            }
        }
        let root = self.out.moved[comp.root.index()];
        let root = match root.is_none() {
            true => root,
            false if c == old.entry => self.entry_root(comp.root),
            false => self.root(comp.root, root, &form),
        };
        let name = match self.written[c.index()].is_empty() {
            true => comp.name.clone(),
            false => self.title(&format!("{}.form", comp.name)),
        };
        let new = self.out.finish_new(name, parameters, root);
        self.out.module.computations[new.index()].extra = comp.extra.clone();
        if form.is_plain() {
            self.out.computations[c.index()] = new;
        }
        if c == old.entry {
            self.out.module.entry = new;
        }
        self.written[c.index()].push((form, new));
    }

    /// Sizes by the declared shape: what the rule gave, the bound where it gave none, nothing where it is static.
    fn fill_sizes(&mut self, inst: HloInst<'m>) {
        let mut b = Build::new(&mut self.out, inst).tagged("bound");
        let mut sizes = std::mem::take(&mut self.known.sizes[inst.id.index()]);
        for (leaf, shape) in inst.shape().leaves().into_iter().enumerate() {
            let Some(array) = shape.array() else { continue };
            if sizes.len() <= leaf && array.has_dynamic() {
                sizes.resize(leaf + 1, Sizes::new());
            }
            let Some(own) = sizes.get_mut(leaf) else { continue };
            own.resize(array.rank(), None);
            for (d, size) in own.iter_mut().enumerate() {
                if !array.is_dynamic(d) {
                    *size = None;
                } else if size.is_none() {
                    *size = Some(self.known.constant(&mut b, array.dims[d]));
                }
            }
        }
        self.known.sizes[inst.id.index()] = sizes;
    }

    fn instruction(&mut self, inst: HloInst<'m>) -> Result<HloId, Refusal> {
        let old = self.old;
        let operands: Vec<HloId> = inst.operands().iter().map(|o| self.out.moved[o.index()]).collect();
        let is_sized = |k: &HloId| is_dynamic(old.inst(*k).shape());
        let forms = self.calls(inst);
        let plain = forms.iter().all(Form::is_plain);
        let about_sizes =
            matches!(inst.op, HloOp::SetDimensionSize | HloOp::GetDimensionSize | HloOp::DynamicReshape);
        self.known.sizes[inst.id.index()].clear();
        if plain && !about_sizes && !is_dynamic(inst.shape()) && !inst.operands().iter().any(is_sized) {
            return Ok(self.out.copy_with(old, inst.id, &operands));
        }
        match (inst.op, inst.attrs()) {
            (HloOp::Tuple, _) => {
                let mut sizes = Vec::new();
                for o in inst.operands() {
                    let leaves = old.inst(*o).shape().leaves().len();
                    let mut own = self.known.sizes[o.index()].clone();
                    own.resize(leaves, Sizes::new());
                    sizes.extend(own);
                }
                Ok(self.copied(inst, &operands, sizes))
            }
            (HloOp::GetTupleElement, Attrs::GetTupleElement { index }) => {
                let Shape::Tuple(parts) = old.inst(inst.operands()[0]).shape() else {
                    return Err(Refusal { dimension: None, reason: "it is not of a tuple".into() });
                };
                let first: usize = parts.iter().take(*index as usize).map(|p| p.leaves().len()).sum();
                let count = inst.shape().leaves().len();
                let all = &self.known.sizes[inst.operands()[0].index()];
                let sizes = (first..first + count).map(|l| all.get(l).cloned().unwrap_or_default()).collect();
                Ok(self.copied(inst, &operands, sizes))
            }
            (HloOp::OptimizationBarrier | HloOp::Copy, _) => {
                let sizes = self.known.sizes[inst.operands()[0].index()].clone();
                Ok(self.copied(inst, &operands, sizes))
            }
            (HloOp::While | HloOp::Conditional, _) => self.control(inst, &operands, &forms),
            _ => {
                let array = |o: &HloId| old.inst(*o).shape().array().is_some();
                if !inst.operands().iter().all(array) {
                    let reason = format!("{} has no rule for run-time extents", inst.op.name());
                    return Err(Refusal { dimension: None, reason });
                }
                let sizes = inst
                    .operands()
                    .iter()
                    .map(|o| {
                        let mut own = self.known.sizes[o.index()].first().cloned().unwrap_or_default();
                        own.resize(old.inst(*o).shape().array().map_or(0, ArrayShape::rank), None);
                        own
                    })
                    .collect();
                let op = Op { old, inst, x: &operands, sizes };
                let mut b = Build::new(&mut self.out, inst);
                let stand = rule(&op, &mut b, &mut self.known)?;
                self.known.sizes[inst.id.index()] = stand.sizes;
                Ok(stand.value)
            }
        }
    }

    fn copied(&mut self, inst: HloInst<'m>, operands: &[HloId], sizes: Vec<Sizes>) -> HloId {
        let new = self.out.copy_with(self.old, inst.id, operands);
        let shape = self.out.module.intern_shape(at_bounds(inst.shape()));
        self.out.module.set_shape(new, shape);
        self.known.sizes[inst.id.index()] = sizes;
        new
    }

    /// `value` with its sizes at `places` and the failure so far.
    fn wrapped(
        &mut self,
        like: HloInst<'m>,
        tag: &'static str,
        from: HloId,
        value: HloId,
        form: (&[Place], bool),
    ) -> HloId {
        let (places, faults) = form;
        if places.is_empty() && !faults {
            return value;
        }
        let shape = self.old.inst(from).shape();
        let leaves = shape.leaves();
        let mut b = Build::new(&mut self.out, like).tagged(tag);
        let mut parts = vec![value];
        for place in places {
            let bound = leaves.get(place.0).and_then(|s| s.array()).map_or(0, |a| a.dims[place.1]);
            parts.push(match self.known.at(from, *place) {
                Some(size) => size,
                None => self.known.constant(&mut b, bound),
            });
        }
        if faults {
            let (site, size) = match self.known.fault {
                Some(fault) => fault,
                None => {
                    let zero = b.integer(HloType::S32, 0);
                    (zero, zero)
                }
            };
            parts.extend([site, size]);
        }
        b.tuple(&parts)
    }

    /// The shape of what is wrapped.
    fn wrapped_shape(shape: &Shape, places: usize, faults: bool) -> Shape {
        let size = Shape::Array(ArrayShape::new(HloType::S32, []));
        let extra = places + if faults { 2 } else { 0 };
        let mut parts = vec![at_bounds(shape)];
        parts.resize(1 + extra, size);
        if extra == 0 { at_bounds(shape) } else { Shape::Tuple(parts) }
    }

    /// Takes apart what was wrapped: the value; sizes and failure become those of `of`.
    fn unwrapped(
        &mut self,
        of: HloInst<'m>,
        tag: &'static str,
        whole: HloId,
        places: &[Place],
        faults: bool,
    ) -> HloId {
        self.known.sizes[of.id.index()].clear();
        if places.is_empty() && !faults {
            return whole;
        }
        let leaves = of.shape().leaves();
        let mut b = Build::new(&mut self.out, of).tagged(tag);
        let value = b.element(whole, 0);
        let mut sizes: Vec<Sizes> =
            leaves.iter().map(|s| vec![None; s.array().map_or(0, ArrayShape::rank)]).collect();
        for (k, (leaf, d)) in places.iter().enumerate() {
            sizes[*leaf][*d] = Some(b.element(whole, 1 + k));
        }
        if faults {
            let site = b.element(whole, 1 + places.len());
            self.known.fault = Some((site, b.element(whole, 2 + places.len())));
        }
        self.known.sizes[of.id.index()] = sizes;
        value
    }

    fn parameters(&mut self, c: CompId, form: &Form) -> Vec<HloId> {
        let old = self.old;
        let mut parameters = Vec::new();
        for (number, id) in old.comp(c).parameters.iter().enumerate() {
            let inst = old.inst(*id);
            let new = self.out.copy_with(old, *id, &[]);
            let wraps = number == 0 && !form.is_plain() && !(form.given.is_empty() && !form.faults);
            let places = if wraps { form.given.as_slice() } else { &[] };
            let shape = Self::wrapped_shape(inst.shape(), places.len(), wraps && form.faults);
            let shape = self.out.module.intern_shape(shape);
            self.out.module.set_shape(new, shape);
            self.out.moved[id.index()] = self.unwrapped(inst, "given", new, places, wraps && form.faults);
            self.fill_sizes(inst);
            parameters.push(new);
        }
        parameters
    }

    fn root(&mut self, id: HloId, value: HloId, form: &Form) -> HloId {
        self.wrapped(
            self.old.inst(id),
            "result",
            id,
            value,
            (&form.returned, form.faults && !self.is_condition(id)),
        )
    }

    /// A loop's condition gives a `pred[]` and nothing else.
    fn is_condition(&self, root: HloId) -> bool {
        let c = self.old.inst(root).computation();
        self.old.insts().any(|i| i.op == HloOp::While && i.called().get(1) == Some(&c))
    }

    fn control(&mut self, inst: HloInst<'m>, operands: &[HloId], forms: &[Form]) -> Result<HloId, Refusal> {
        let old = self.old;
        let loops = inst.op == HloOp::While;
        let mut new = operands.to_vec();
        let first = if loops { 0 } else { 1 };
        const TAGS: [&str; 4] = ["given", "given1", "given2", "given3"];
        for (k, form) in forms.iter().enumerate().take(if loops { 1 } else { usize::MAX }) {
            let Some(from) = inst.operands().get(first + k) else { continue };
            let tag = TAGS.get(k).copied().unwrap_or("givens");
            new[first + k] = self.wrapped(inst, tag, *from, operands[first + k], (&form.given, form.faults));
        }
        if loops && let [_, condition] = inst.called() {
            let own = old.comp(*condition).parameters.first().map(|p| dynamic_places(old.inst(*p).shape()));
            if own.as_ref() != Some(&forms[0].given) {
                let reason =
                    "the condition's parameter has other dynamic dimensions than the body's".to_owned();
                return Err(Refusal { dimension: None, reason });
            }
        }
        let mut called = Vec::new();
        for (c, form) in inst.called().iter().zip(forms) {
            match self.callee(*c, form) {
                Some(c) => called.push(c),
                None => {
                    return Err(Refusal { dimension: None, reason: "what it calls was not written".into() });
                }
            }
        }
        let (places, faults) = forms.first().map_or((Vec::new(), false), |f| (f.returned.clone(), f.faults));
        let whole = self.out.copy_with(old, inst.id, &new);
        let shape = Self::wrapped_shape(inst.shape(), places.len(), faults);
        let shape = self.out.module.intern_shape(shape);
        self.out.module.set_shape(whole, shape);
        self.out.module.called_mut(whole).copy_from_slice(&called);
        Ok(self.unwrapped(inst, "taken", whole, &places, faults))
    }

    /// The entry's parameters at their bounds, and behind them one hidden `s32[]` for each dynamic dimension.
    fn entry_parameters(&mut self, c: CompId) -> Vec<HloId> {
        let old = self.old;
        let mut parameters = Vec::new();
        for id in &old.comp(c).parameters {
            let new = self.out.copy_with(old, *id, &[]);
            let shape = self.out.module.intern_shape(at_bounds(old.inst(*id).shape()));
            self.out.module.set_shape(new, shape);
            parameters.push(new);
        }
        let mut first = 0;
        for id in &old.comp(c).parameters {
            let inst = old.inst(*id);
            let leaves = inst.shape().leaves();
            let mut sizes: Vec<Sizes> =
                leaves.iter().map(|s| vec![None; s.array().map_or(0, ArrayShape::rank)]).collect();
            let mut b = Build::new(&mut self.out, inst).tagged("size");
            for (leaf, d) in dynamic_places(inst.shape()) {
                let attrs = Attrs::Parameter { number: parameters.len() as u32 };
                let size = b.op(HloOp::Parameter, HloType::S32, &[], &[], attrs);
                let bound = leaves.get(leaf).and_then(|s| s.array()).map_or(0, |a| a.dims[d]);
                self.known.within.insert(size, bound);
                sizes[leaf][d] = Some(size);
                parameters.push(size);
                let array = array_number(&leaves, leaf);
                self.extents.inputs.push(Extent { array: first + array, dimension: d as u32 });
            }
            first += array_number(&leaves, leaves.len());
            self.known.sizes[id.index()] = sizes;
        }
        if self.faulty[c.index()] {
            let like = old.inst(old.comp(c).root);
            let mut b = Build::new(&mut self.out, like).tagged("unfailed");
            let none = b.integer(HloType::S32, 0);
            self.known.fault = Some((none, none));
        }
        parameters
    }

    /// The entry's results at their bounds, then their sizes, then the first failed check and its size.
    fn entry_root(&mut self, root: HloId) -> HloId {
        let old = self.old;
        let inst = old.inst(root);
        let (places, leaves) = (dynamic_places(inst.shape()), inst.shape().leaves());
        let fails = self.known.fault.filter(|_| !self.known.checks.is_empty());
        let value = self.out.moved[root.index()];
        if places.is_empty() && fails.is_none() {
            return value;
        }
        let parts = match inst.shape() {
            Shape::Tuple(parts) => Some(parts.len()),
            _ => None,
        };
        let mut b = Build::new(&mut self.out, inst).tagged("results");
        let mut all: Vec<HloId> = match parts {
            Some(n) => (0..n).map(|k| b.element(value, k)).collect(),
            None => vec![value],
        };
        for place in places {
            if let Some(size) = self.known.at(root, place) {
                all.push(size);
                let array = array_number(&leaves, place.0);
                self.extents.outputs.push(Extent { array, dimension: place.1 as u32 });
            }
        }
        if let Some((site, size)) = fails {
            all.extend([site, size]);
            self.extents.reports = true;
        }
        b.tuple(&all)
    }
}
