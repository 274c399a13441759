//! Writing a module anew: the one place that keeps ids dense and operands before their users.

use murre_components::hlo::{Computation, HloInstruction, HloModule};
use murre_components::ids::{CompId, HloId};

/// A module under construction.
pub struct Rebuild {
    /// The new module.
    pub module: HloModule,
    /// New id by old id.
    pub moved: Vec<HloId>,
    /// New computation by old computation.
    pub computations: Vec<CompId>,
}

impl Rebuild {
    /// Starts from the outer facts of `old`.
    pub fn new(old: &HloModule) -> Self {
        Rebuild {
            module: HloModule { name: old.name.clone(), extra: old.extra.clone(), ..HloModule::default() },
            moved: vec![HloId::NONE; old.instructions.len()],
            computations: vec![CompId::NONE; old.computations.len()],
        }
    }

    /// The computation that comes next.
    pub fn next_computation(&self) -> CompId {
        CompId::new(self.module.computations.len())
    }

    /// Adds an instruction with operands and computations already in new ids.
    pub fn push(&mut self, inst: HloInstruction) -> HloId {
        let id = HloId::new(self.module.instructions.len());
        self.module.instructions.push(inst);
        id
    }

    /// Copies instruction `id` of `old`, translating its operands and called computations.
    pub fn copy(&mut self, old: &HloModule, id: HloId) -> HloId {
        let mut inst = old.inst(id).clone();
        for o in &mut inst.operands {
            *o = self.moved[o.index()];
        }
        for c in &mut inst.called {
            *c = self.computations[c.index()];
        }
        inst.computation = self.next_computation();
        let new = self.push(inst);
        self.moved[id.index()] = new;
        new
    }

    /// Ends the computation that stands for `old_id`.
    pub fn finish(&mut self, old: &HloModule, old_id: CompId, instructions: Vec<HloId>, root: HloId) {
        let comp = old.comp(old_id);
        let parameters = comp.parameters.iter().map(|p| self.moved[p.index()]).collect();
        self.computations[old_id.index()] = self.next_computation();
        self.module.computations.push(Computation {
            name: comp.name.clone(),
            instructions,
            parameters,
            root,
        });
        if old_id == old.entry {
            self.module.entry = self.computations[old_id.index()];
        }
    }
}
