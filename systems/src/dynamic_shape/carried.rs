//! How sizes get into computations and out of them, and over the program's boundary. Facts: `spec/dynamic_shapes.md 4, 6`.
//!
//! A computation whose parameter has dynamic dimensions takes `(parameter, size ...)` instead, and one whose result has
//! some gives `(result, size ...)`. Where a check can fail inside, number and size of the first failure travel too. The
//! entry keeps its parameters and results in their places; the sizes stand behind them.

use super::rewrite::{Form, Rewrite, array_number};
use super::rules::Refusal;
use super::sizes::{Place, Sizes, at_bounds, dynamic_places};
use crate::legalize::build::Build;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Attrs, Direction, HloInst, HloOp, Shape};
use murre_components::ids::{CompId, HloId};
use murre_components::program::Extent;

/// Says which of a value's sizes is meant, where it has several.
fn which(places: &[Place], (leaf, d): Place) -> String {
    match (places.len(), places.iter().any(|p| p.0 != leaf)) {
        (0 | 1, _) => String::new(),
        (_, false) => format!(" in dimension {d}"),
        (_, true) => format!(" in leaf {leaf} dimension {d}"),
    }
}

impl<'m> Rewrite<'m> {
    /// `value` with its sizes at `places` and the failure so far.
    pub(super) fn wrapped(
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
    pub(super) fn wrapped_shape(shape: &Shape, places: usize, faults: bool) -> Shape {
        let size = Shape::Array(ArrayShape::new(HloType::S32, []));
        let extra = places + if faults { 2 } else { 0 };
        let mut parts = vec![at_bounds(shape)];
        parts.resize(1 + extra, size);
        if extra == 0 { at_bounds(shape) } else { Shape::Tuple(parts) }
    }

    /// Takes apart what was wrapped: the value; sizes and failure become those of `of`.
    pub(super) fn unwrapped(
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
            let size = b.element(whole, 1 + k);
            let which = which(places, (*leaf, *d));
            let label = match of.op {
                HloOp::Parameter => format!("given with {}{}{which}", self.known.names.place, of.name()),
                op => format!("given by the {} {}{}{which}", op.name(), self.known.names.place, of.name()),
            };
            self.known.names.labels.insert(size, label);
            sizes[*leaf][*d] = Some(size);
        }
        if faults {
            let site = b.element(whole, 1 + places.len());
            self.known.fault = Some((site, b.element(whole, 2 + places.len())));
        }
        self.known.sizes[of.id.index()] = sizes;
        value
    }

    pub(super) fn parameters(&mut self, c: CompId, form: &Form) -> Vec<HloId> {
        let old = self.old;
        let mut parameters = Vec::new();
        for (number, id) in old.comp(c).parameters.iter().enumerate() {
            let inst = old.inst(*id);
            let new = self.out.copy_with(old, *id, &[]);
            let wraps = number == 0 && (form.faults || !form.given.is_empty());
            let places = if wraps { form.given.as_slice() } else { &[] };
            let shape = Self::wrapped_shape(inst.shape(), places.len(), wraps && form.faults);
            let shape = self.out.module.intern_shape(shape);
            self.out.module.set_shape(new, shape);
            self.out.moved[id.index()] = self.unwrapped(inst, "given", new, places, wraps && form.faults);
            self.fill_sizes(inst);
            self.note_rows(inst, false);
            parameters.push(new);
        }
        if !form.reports {
            self.known.fault = None;
        }
        parameters
    }

    pub(super) fn root(&mut self, id: HloId, value: HloId, form: &Form) -> HloId {
        self.wrapped(self.old.inst(id), "result", id, value, (&form.returned, form.reports))
    }

    /// A loop's condition that looks at sizes holds only as long as nothing failed: a size that was cut to its bound may
    /// never become what the condition waits for.
    pub(super) fn ended_by_failure(
        &mut self,
        c: CompId,
        given: Option<HloId>,
        root: HloId,
        form: &Form,
    ) -> HloId {
        let old = self.old;
        let comp = old.comp(c);
        let looks = comp.instructions.iter().any(|id| old.inst(id).op == HloOp::GetDimensionSize);
        let Some(given) = given.filter(|_| looks && form.faults && !form.reports) else { return root };
        let mut b = Build::new(&mut self.out, old.inst(comp.root)).tagged("unfailed");
        let site = b.element(given, 1 + form.given.len());
        let unfailed = b.compare_int(Direction::Eq, site, 0);
        b.binary(HloOp::And, root, unfailed)
    }

    pub(super) fn control(
        &mut self,
        inst: HloInst<'m>,
        operands: &[HloId],
        forms: &[Form],
    ) -> Result<HloId, Refusal> {
        let old = self.old;
        let loops = inst.op == HloOp::While;
        let mut new = operands.to_vec();
        if self.known.fault.is_none() && forms.iter().any(|f| f.faults) {
            let reason = "a loop's condition sets a size that only a run can check".to_owned();
            return Err(Refusal { dimension: None, reason });
        }
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
    pub(super) fn entry_parameters(&mut self, c: CompId) -> Vec<HloId> {
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
            let places = dynamic_places(inst.shape());
            for (leaf, d) in places.iter().copied() {
                let attrs = Attrs::Parameter { number: parameters.len() as u32 };
                let size = b.op(HloOp::Parameter, HloType::S32, &[], &[], attrs);
                let bound = leaves.get(leaf).and_then(|s| s.array()).map_or(0, |a| a.dims[d]);
                self.known.within.insert(size, bound);
                self.known.names.labels.insert(
                    size,
                    format!("the extent of input {}{}", inst.name(), which(&places, (leaf, d))),
                );
                sizes[leaf][d] = Some(size);
                parameters.push(size);
                let array = array_number(&leaves, leaf);
                self.extents.inputs.push(Extent { array: first + array, dimension: d as u32 });
            }
            first += array_number(&leaves, leaves.len());
            self.known.sizes[id.index()] = sizes;
            self.tell(inst);
            self.note_rows(inst, false);
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
    pub(super) fn entry_root(&mut self, root: HloId) -> HloId {
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
