//! Writing a module anew: the one place that keeps ids dense and operands before their users.
//!
//! Interned tables are carried over, so shapes, attributes and texts keep their ids.

use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{ArrayShape, Attrs, Computation, Draft, HloModule, HloRange, Literal, Shape};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId};
use std::sync::Arc;

/// A module under construction.
pub struct Rebuild {
    /// The new module.
    pub module: HloModule,
    /// New id by old id.
    pub moved: Vec<HloId>,
    /// New computation by old computation.
    pub computations: Vec<CompId>,
    operands: Vec<HloId>,
    called: Vec<CompId>,
    /// By shape: the static one of its type and extents without a layout.
    plain: Vec<ShapeId>,
    /// Shape and literal of the scalar constants written, by type and bytes.
    scalars: SeededMap<(HloType, u64), (ShapeId, AttrId)>,
    /// First instruction of the computation that is being written.
    first: u32,
}

impl Rebuild {
    /// Starts from the outer facts of `old`.
    pub fn new(old: &HloModule) -> Self {
        Rebuild {
            module: old.emptied(),
            moved: vec![HloId::NONE; old.len()],
            computations: vec![CompId::NONE; old.computations.len()],
            operands: Vec::new(),
            called: Vec::new(),
            plain: Vec::new(),
            scalars: seeded_map(),
            first: 0,
        }
    }

    /// The static shape without a layout of a value's type and extents.
    pub fn plain(&mut self, value: HloId) -> ShapeId {
        let shape = self.module.inst(value).shape_id();
        match self.plain.get(shape.index()) {
            Some(known) if known.is_some() => *known,
            _ => {
                let plain = match self.module.shape(shape) {
                    Shape::Array(a) => ArrayShape::new(a.ty, a.dims.as_slice()),
                    _ => ArrayShape::new(HloType::Token, []),
                };
                let id = self.module.intern_shape(Shape::Array(plain));
                if self.plain.len() <= shape.index() {
                    self.plain.resize(shape.index() + 1, ShapeId::NONE);
                }
                self.plain[shape.index()] = id;
                id
            }
        }
    }

    /// Shape and literal of a scalar constant of at most eight bytes.
    pub fn scalar(&mut self, ty: HloType, bytes: &[u8]) -> (ShapeId, AttrId) {
        let word = bytes.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        let module = &mut self.module;
        *self.scalars.entry((ty, word)).or_insert_with(|| {
            let shape = ArrayShape::new(ty, []);
            let literal = Literal::Array { shape: shape.clone(), data: bytes.to_vec().into() };
            (
                module.intern_shape(Shape::Array(shape)),
                module.intern_attrs(Attrs::Constant(Arc::new(literal))),
            )
        })
    }

    /// What follows belongs to a new computation.
    pub fn begin(&mut self) {
        self.first = self.module.len() as u32;
    }

    /// The computation that comes next.
    pub fn next_computation(&self) -> CompId {
        CompId::new(self.module.computations.len())
    }

    /// Adds an instruction with operands and computations already in new ids.
    pub fn push(&mut self, draft: Draft<'_>) -> HloId {
        self.module.push(draft)
    }

    /// Copies instruction `id` of `old`, translating its operands and called computations.
    pub fn copy(&mut self, old: &HloModule, id: HloId) -> HloId {
        let moved = &self.moved;
        self.operands.clear();
        self.operands.extend(old.inst(id).operands().iter().map(|o| moved[o.index()]));
        let operands = std::mem::take(&mut self.operands);
        let new = self.copy_with(old, id, &operands);
        self.operands = operands;
        new
    }

    /// Copies instruction `id` of `old` with these operands, translating its called computations.
    pub fn copy_with(&mut self, old: &HloModule, id: HloId, operands: &[HloId]) -> HloId {
        let inst = old.inst(id);
        let computations = &self.computations;
        self.called.clear();
        self.called.extend(inst.called().iter().map(|c| computations[c.index()]));
        let new = self.module.push_copy(inst, operands, &self.called);
        self.moved[id.index()] = new;
        new
    }

    /// Adds a copy of `model`, an instruction of the new module, under another name and with other operands.
    pub fn push_like(&mut self, model: HloId, name: &str, operands: &[HloId]) -> HloId {
        let model = self.module.inst(model);
        let called = model.called().to_vec();
        let kept = model.kept_ids().to_vec();
        let draft = unnamed(model.draft());
        self.push(Draft { name, operands, called: &called, kept: &kept, ..draft })
    }

    /// Ends a computation that stands for none of the old ones.
    pub fn finish_new(&mut self, name: String, parameters: Vec<HloId>, root: HloId) -> CompId {
        let new = self.next_computation();
        let end = self.module.len() as u32;
        let instructions = HloRange { first: self.first, count: end - self.first };
        self.module.computations.push(Computation {
            name,
            instructions,
            parameters,
            root,
            extra: Vec::new(),
        });
        self.first = end;
        new
    }

    /// Ends the computation that stands for `old_id`.
    pub fn finish(&mut self, old: &HloModule, old_id: CompId, root: HloId) {
        let parameters = old.comp(old_id).parameters.iter().map(|p| self.moved[p.index()]).collect();
        self.finish_with(old, old_id, parameters, root);
    }

    /// Ends the computation that stands for `old_id` with other parameters.
    pub fn finish_with(&mut self, old: &HloModule, old_id: CompId, parameters: Vec<HloId>, root: HloId) {
        let comp = old.comp(old_id);
        let new = self.finish_new(comp.name.clone(), parameters, root);
        self.module.computations[new.index()].extra = comp.extra.clone();
        self.computations[old_id.index()] = new;
        if old_id == old.entry {
            self.module.entry = self.computations[old_id.index()];
        }
    }
}

/// A draft without anything borrowed.
fn unnamed(d: Draft<'_>) -> Draft<'static> {
    Draft {
        attrs: d.attrs,
        metadata: d.metadata,
        line: d.line,
        column: d.column,
        ..Draft::new("", d.op, d.shape)
    }
}
