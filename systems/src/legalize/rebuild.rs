//! Writing a module anew: the one place that keeps ids dense and operands before their users.
//!
//! Interned tables are carried over, so shapes, attributes and texts keep their ids.

use murre_components::hlo::{Computation, Draft, HloModule, HloRange};
use murre_components::ids::{CompId, HloId};

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
            first: 0,
        }
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
        let new = self.module.push(Draft { operands, called: &self.called, ..inst.draft() });
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

    /// Ends the computation that stands for `old_id`.
    pub fn finish(&mut self, old: &HloModule, old_id: CompId, root: HloId) {
        let comp = old.comp(old_id);
        let end = self.module.len() as u32;
        self.computations[old_id.index()] = self.next_computation();
        self.module.computations.push(Computation {
            name: comp.name.clone(),
            instructions: HloRange { first: self.first, count: end - self.first },
            parameters: comp.parameters.iter().map(|p| self.moved[p.index()]).collect(),
            root,
            extra: comp.extra.clone(),
        });
        self.first = end;
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
