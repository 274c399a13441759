//! The module written anew at its bounds. In: a module without `call`. Out: the same with every array static and every
//! size a value of its own; or all refusals together. [`super::rules`] knows the operations, [`super::carried`] computations
//! and the boundary; here is which computation is written in which forms, and tuples. Facts: `spec/dynamic_shapes.md 2, 3`.

use super::rebuilt::{comparator, sorts_dynamic};
use super::row_groups::{LiveRows, Rows};
use super::rules::{Op, Refusal, constant_of, rule};
use super::sizes::{Check, Known, Legal, Place, Sizes, at_bounds, dynamic_places, is_dynamic};
use super::story::{DynamicDimension, RefusedShape, ShapeStory, describe};
use crate::legalize::build::{Build, computation};
use crate::legalize::rebuild::Rebuild;
use murre_components::diag::codes::lower::LOWER_DYNAMIC_SHAPE;
use murre_components::diag::{Diagnostic, Span};
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{ArrayShape, Attrs, HloInst, HloModule, HloOp, Shape};
use murre_components::ids::{CompId, HloId};
use murre_components::program::{Extents, SizeCheck};

/// How a computation is called: which sizes it is given and gives, and whether failures travel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Form {
    pub(super) given: Vec<Place>,
    pub(super) returned: Vec<Place>,
    /// Failures are given.
    pub(super) faults: bool,
    /// Failures are returned; a loop's condition returns none.
    pub(super) reports: bool,
}

impl Form {
    pub(super) fn is_plain(&self) -> bool {
        self.given.is_empty() && self.returned.is_empty() && !self.faults
    }
}

/// Whether the module has anything to rewrite.
pub fn needed(module: &HloModule) -> bool {
    module.shapes().iter().any(is_dynamic)
        || module.insts().any(|i| {
            matches!(i.op, HloOp::SetDimensionSize | HloOp::GetDimensionSize | HloOp::DynamicReshape)
                || super::calls::takes_apart(i)
        })
}

/// A module at its bounds.
pub struct Rewritten {
    /// The module.
    pub module: HloModule,
    /// Its boundary.
    pub extents: Extents,
    /// What became of each dynamic dimension.
    pub story: ShapeStory,
    /// Which values are live below a size in dimension 0; nothing where what lies behind a size is shown.
    pub rows: Rows,
}

/// The module at its bounds and what its boundary is, or all that has no rule.
pub fn rewrite(old: &HloModule) -> Result<Rewritten, (Vec<Diagnostic>, ShapeStory)> {
    let mut r = Rewrite {
        old,
        out: Rebuild::new(old),
        known: Known::new(old.len()),
        faulty: faulty(old),
        written: vec![Vec::new(); old.computations.len()],
        refusals: Vec::new(),
        extents: Extents::default(),
        story: ShapeStory::default(),
        rows: seeded_map(),
        live: Vec::new(),
    };
    r.out.module.extra.retain(|(key, _)| key != "entry_computation_layout");
    let forms = r.forms();
    let reshapes =
        |i: HloInst<'_>| matches!(i.op, HloOp::Reshape | HloOp::DynamicReshape) && is_dynamic(i.shape());
    for inst in old.insts() {
        let leaves = inst.shape().leaves();
        let far = |p: &Place| {
            let bound = leaves.get(p.0).and_then(|s| s.array()).map_or(0, |a| a.dims[p.1]);
            !(0..=i64::from(i32::MAX)).contains(&bound)
        };
        if let Some((_, d)) = dynamic_places(inst.shape()).into_iter().find(far) {
            let reason = "the dimension has no bound, or one that no s32 size reaches".to_owned();
            r.refuse(inst, Refusal { dimension: Some(d), reason });
        }
    }
    if !r.refusals.is_empty() {
        return Err((r.refusals, r.story));
    }
    if let Some(like) = old.insts().find(|i| reshapes(*i)) {
        let scalar = Shape::Array(ArrayShape::new(HloType::S32, []));
        let name = r.title("dynamic.sum");
        let sum = computation(&mut r.out, &name, &[scalar.clone(), scalar], like, |b, p| {
            b.binary(HloOp::Add, p[0], p[1])
        });
        r.known.sum = Some(sum);
    }
    let normalizes = |i: &HloInst<'_>| {
        matches!(i.op, HloOp::BatchNormTraining | HloOp::BatchNormGrad) && is_dynamic(i.shape())
    };
    if let Some(like) = old.insts().find(normalizes) {
        let scalar = Shape::Array(ArrayShape::new(HloType::F32, []));
        let name = r.title("dynamic.float_sum");
        let sum = computation(&mut r.out, &name, &[scalar.clone(), scalar], like, |b, p| {
            b.binary(HloOp::Add, p[0], p[1])
        });
        r.known.float_sum = Some(sum);
    }
    for (c, forms) in forms.into_iter().enumerate() {
        for form in forms {
            r.computation(CompId::new(c), form);
        }
    }
    if !r.refusals.is_empty() {
        return Err((r.refusals, r.story));
    }
    let check = |c: &Check| SizeCheck {
        instruction: old.inst(c.inst).name().to_owned(),
        dimension: c.dimension as u32,
        bound: match c.legal {
            Legal::Within(bound) | Legal::Natural(bound) => bound.max(0) as u64,
            Legal::Beside => SizeCheck::BESIDE,
        },
    };
    r.extents.checks = r.known.checks.iter().map(check).collect();
    let live = if r.known.shows { Vec::new() } else { r.live };
    let rows = Rows { live, neutral: r.known.neutral };
    Ok(Rewritten { module: r.out.module, extents: r.extents, story: r.story, rows })
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
                HloOp::While => inst.called().first().is_some_and(|b| faulty[b.index()]),
                HloOp::Conditional => inst.called().iter().any(|b| faulty[b.index()]),
                _ => may_fail(old, inst),
            }
        });
    }
    faulty
}

/// Whether the run has to look at a size that an instruction derives, or at sizes of operands that it reads together.
fn may_fail(old: &HloModule, inst: HloInst<'_>) -> bool {
    use HloOp::*;
    let dynamic = |d: usize| inst.shape().array().is_some_and(|a| a.is_dynamic(d));
    let sized = || inst.operands().iter().filter(|o| is_dynamic(old.inst(**o).shape())).count();
    match (inst.op, inst.attrs()) {
        (DynamicReshape, _) => true,
        (CustomCall, Attrs::CustomCall { target, .. }) => target == super::calls::SLICE_TO_DYNAMIC,
        (Slice, Attrs::Slice { start, .. }) => (0..start.len()).any(|d| start[d] > 0 && dynamic(d)),
        (Pad, Attrs::Pad { low, high, .. }) => (0..low.len()).any(|d| low[d] + high[d] < 0 && dynamic(d)),
        (Select | Clamp | Map | Concatenate | Sort | Reduce | ReduceWindow | Dot, _) => sized() > 1,
        _ => false,
    }
}

/// How many arrays stand before a leaf.
pub(super) fn array_number(leaves: &[&Shape], leaf: usize) -> u32 {
    leaves.iter().take(leaf).filter(|s| s.array().is_some()).count() as u32
}

/// A module under construction.
pub(super) struct Rewrite<'m> {
    pub(super) old: &'m HloModule,
    pub(super) out: Rebuild,
    pub(super) known: Known,
    pub(super) faulty: Vec<bool>,
    /// By old computation: what was written for it.
    pub(super) written: Vec<Vec<(Form, CompId)>>,
    pub(super) refusals: Vec<Diagnostic>,
    pub(super) extents: Extents,
    pub(super) story: ShapeStory,
    /// Rows of the story by old instruction, leaf and dimension.
    pub(super) rows: SeededMap<(HloId, usize, usize), usize>,
    /// Values whose dimension 0 has a size.
    pub(super) live: Vec<LiveRows>,
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
                let body = Form { given: given.clone(), returned: given.clone(), faults, reports: faults };
                vec![body, Form { given, returned: Vec::new(), faults, reports: false }]
            }
            (HloOp::Conditional, branches) => {
                let faults = branches.iter().any(|c| self.faulty[c.index()]);
                let returned = dynamic_places(inst.shape());
                // Its parameter may say more than its caller knows, never less.
                branches
                    .iter()
                    .map(|c| Form {
                        given: parameter(c),
                        returned: returned.clone(),
                        faults,
                        reports: faults,
                    })
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
    pub(super) fn callee(&self, c: CompId, form: &Form) -> Option<CompId> {
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
        let refused = RefusedShape {
            instruction: format!("{}{}", self.known.names.place, inst.name()),
            dimension: refusal.dimension,
            reason: refusal.reason,
        };
        if !self.story.refused.contains(&refused) {
            self.story.refused.push(refused);
        }
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
        let place = if c == old.entry { String::new() } else { format!("{}/", comp.name) };
        self.known.begin(place);
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
                    let own = inst.operands().iter().all(|o| self.out.moved[o.index()] != value);
                    self.note_rows(inst, own);
                    self.tell_rebuilt(inst);
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
            false => {
                let root = self.root(comp.root, root, &form);
                self.ended_by_failure(c, parameters.first().copied(), root, &form)
            }
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
    pub(super) fn fill_sizes(&mut self, inst: HloInst<'m>) {
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
        self.tell(inst);
    }

    /// Notes that dimension 0 of an array has a size.
    pub(super) fn note_rows(&mut self, inst: HloInst<'m>, own: bool) {
        if let Some(size) = self.known.at(inst.id, (0, 0)).filter(|_| inst.shape().array().is_some()) {
            let row = self.rows.get(&(inst.id, 0, 0)).copied();
            self.live.push(LiveRows { value: self.out.moved[inst.id.index()], size, own, row });
        }
    }

    /// Adds the dynamic dimensions of an instruction to the story.
    pub(super) fn tell(&mut self, inst: HloInst<'m>) {
        if matches!(inst.op, HloOp::Tuple | HloOp::GetTupleElement) {
            return;
        }
        let leaves = inst.shape().leaves();
        for (leaf, dimension) in dynamic_places(inst.shape()) {
            let Some(size) = self.known.at(inst.id, (leaf, dimension)) else { continue };
            let key = (inst.id, leaf, dimension);
            if self.rows.contains_key(&key) {
                continue;
            }
            self.rows.insert(key, self.story.rows.len());
            self.story.rows.push(DynamicDimension {
                instruction: format!("{}{}", self.known.names.place, inst.name()),
                op: inst.op.name(),
                shape: inst.shape().to_string(),
                leaf,
                dimension,
                bound: leaves.get(leaf).and_then(|s| s.array()).map_or(0, |a| a.dims[dimension]),
                size: describe(&self.out.module, &self.known.names, size),
                padded: Vec::new(),
                rebuilt: Vec::new(),
                trips: Vec::new(),
            });
        }
    }

    /// Adds the neutral elements that an instruction needed to the story of its operands.
    fn tell_padding(&mut self, inst: HloInst<'m>, operands: &[HloId]) {
        let place = self.known.names.place.clone();
        for padded in std::mem::take(&mut self.known.padded) {
            let Some(k) = operands.iter().position(|o| *o == padded.x) else { continue };
            let row = self.rows.get(&(inst.operands()[k], 0, padded.dimension)).copied();
            let identity = describe(&self.out.module, &self.known.names, padded.identity);
            if let Some(row) = row.and_then(|r| self.story.rows.get_mut(r)) {
                let note = format!("{place}{} ({}) with {identity}", inst.name(), inst.op.name());
                if !row.padded.contains(&note) {
                    row.padded.push(note);
                }
            }
        }
    }

    /// Adds how an instruction was built anew to the story of its result, or of its operands where the result is static.
    fn tell_rebuilt(&mut self, inst: HloInst<'m>) {
        let notes = std::mem::take(&mut self.known.rebuilt);
        if notes.is_empty() {
            return;
        }
        let rows_of = |id: HloId| {
            let places = dynamic_places(self.old.inst(id).shape()).into_iter();
            places.filter_map(|(leaf, d)| self.rows.get(&(id, leaf, d)).copied()).collect::<Vec<_>>()
        };
        let mut rows = rows_of(inst.id);
        if rows.is_empty() {
            rows = inst.operands().iter().flat_map(|o| rows_of(*o)).collect();
        }
        for row in rows {
            let Some(row) = self.story.rows.get_mut(row) else { continue };
            for note in &notes {
                let note = format!("{}{} ({}): {note}", self.known.names.place, inst.name(), inst.op.name());
                if !row.rebuilt.contains(&note) {
                    row.rebuilt.push(note);
                }
            }
        }
    }

    fn instruction(&mut self, inst: HloInst<'m>) -> Result<HloId, Refusal> {
        let old = self.old;
        let operands: Vec<HloId> = inst.operands().iter().map(|o| self.out.moved[o.index()]).collect();
        let is_sized = |k: &HloId| is_dynamic(old.inst(*k).shape());
        let forms = self.calls(inst);
        let plain = forms.iter().all(Form::is_plain);
        let about_sizes =
            matches!(inst.op, HloOp::SetDimensionSize | HloOp::GetDimensionSize | HloOp::DynamicReshape)
                || super::calls::takes_apart(inst);
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
                let stand = rule(&op, &mut b, &mut self.known);
                self.tell_padding(inst, &operands);
                let stand = stand?;
                // Taken for static, what lies behind the size would be read as data.
                for (shape, sizes) in inst.shape().leaves().iter().zip(&stand.sizes) {
                    let Some(array) = shape.array() else { continue };
                    let hides =
                        |d: &usize| !array.is_dynamic(*d) && array.dims[*d] > 1 && sizes[*d].is_some();
                    if let Some(d) = (0..array.rank().min(sizes.len())).find(hides) {
                        let reason =
                            "the dimension is declared static, but its extent is a run-time value".to_owned();
                        return Err(Refusal { dimension: Some(d), reason });
                    }
                }
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
}
