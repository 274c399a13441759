//! Program order, kept apart from storage.

use super::{InstHead, Opcode};
use crate::ids::InstId;
use bevy_ecs::prelude::Resource;

/// Instructions in program order: one sequence for all engines, dead ones left out. A loop body stands between its
/// head and its Terminator.
#[derive(Resource, Default, Clone, Debug)]
pub struct Order(pub Vec<InstId>);

impl Order {
    /// Position by instruction id; `u32::MAX` for instructions that are not in the program.
    pub fn positions(&self, rows: usize) -> Vec<u32> {
        let mut pos = vec![u32::MAX; rows];
        for (p, id) in self.0.iter().enumerate() {
            pos[id.index()] = p as u32;
        }
        pos
    }
}

/// Basic blocks of the lowered program: block `b` is positions `starts[b]..starts[b + 1]` of [`Order`].
#[derive(Resource, Default, Clone, Debug)]
pub struct Blocks {
    /// First position of each block, and the number of positions as the last entry.
    pub starts: Vec<u32>,
    /// Loop extents in positions `(first, last)`, inclusive, inner loops after the outer ones that hold them.
    pub loops: Vec<(u32, u32)>,
}

/// Where the rows of one module begin: where those of the module before it end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Its first HLO instruction.
    pub hlo: u32,
    /// Its first node.
    pub node: u32,
    /// Its first location. All of its DRAM locations follow without a gap.
    pub loc: u32,
    /// Its first position, until stage `address` puts instructions between.
    pub position: u32,
    /// Its first queue. A DMA names a queue by its number from here.
    pub queue: u32,
    /// Its first DMA block.
    pub block: u32,
    /// Its first descriptor.
    pub desc: u32,
    /// Its first record in each stream.
    pub records: [u32; 5],
    /// Its first address word.
    pub word: u32,
}

/// The modules of the world, one or several. Every one of them has its positions for itself and ends with its exits, so
/// that a walk over the program sees the border ([`Borders`]); rows that later passes append have no order of modules.
#[derive(Resource, Clone, Debug, PartialEq, Eq)]
pub struct Parts(pub Vec<Part>);

impl Default for Parts {
    /// One module that begins at 0.
    fn default() -> Self {
        Parts(vec![Part::default()])
    }
}

impl Parts {
    /// Whether there is more than one module.
    pub fn are_many(&self) -> bool {
        self.0.len() > 1
    }

    /// Begin and end of each module's rows, where `total` is the end of the last one's.
    pub fn ranges(
        &self,
        total: usize,
        first: impl Fn(&Part) -> u32,
    ) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = self.0.iter().skip(1).map(&first).chain([total as u32]).collect::<Vec<_>>();
        let begins = self.0.iter().map(first).collect::<Vec<_>>();
        begins.into_iter().zip(ends).map(|(a, b)| a as usize..b as usize)
    }

    /// Notes where module `part` begins.
    pub fn begin(&mut self, part: usize, set: impl FnOnce(&mut Part)) {
        if let Some(part) = self.0.get_mut(part) {
            set(part);
        }
    }
}

/// Finds the borders between modules on a walk over the program, in order. A module ends with one exit, on engine ALL, or
/// with one on each engine; it may have nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Borders {
    /// The module that the walk is in.
    pub part: usize,
    /// The engines whose exits the walk has just passed, a bit each.
    exits: u16,
}

impl Borders {
    /// Goes one instruction on. Whether it is the first one of another module.
    #[inline]
    pub fn crosses(&mut self, head: InstHead) -> bool {
        if self.exits == 0 && head.op != Opcode::Exit {
            return false;
        }
        let exit = if head.op == Opcode::Exit { 1 << head.engine as u16 } else { 0 };
        // Behind exits stands the next module, and so does an exit of an engine that has had its own.
        let crosses = self.exits != 0 && (exit == 0 || self.exits & exit != 0);
        self.exits = if crosses { exit } else { self.exits | exit };
        self.part += usize::from(crosses);
        crosses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bir::InstRow;
    use crate::engine::EngineId;
    use crate::ids::HloId;

    /// The modules of a program, by instruction.
    fn walk(program: &[(Opcode, EngineId)]) -> Vec<usize> {
        let mut walk = Borders::default();
        let mut before = 0;
        let mut modules = Vec::new();
        for &(op, engine) in program {
            let crosses = walk.crosses(InstRow::new(op, engine, HloId::NONE).head);
            assert_eq!(crosses, walk.part > before);
            before = walk.part;
            modules.push(walk.part);
        }
        modules
    }

    #[test]
    fn a_module_ends_behind_its_exits_also_one_that_has_nothing_else() {
        use Opcode::{Exit, Memset};
        let [all, dve] = [EngineId::All, EngineId::Dve];
        let early =
            [(Memset, dve), (Exit, all), (Memset, dve), (Memset, dve), (Exit, all), (Exit, all), (Exit, all)];
        assert_eq!(walk(&early), [0, 0, 1, 1, 1, 2, 3]);
        let exits = EngineId::STREAMS.map(|e| (Exit, e));
        let late = [&[(Memset, dve)][..], &exits, &exits, &exits, &[(Memset, dve)], &exits].concat();
        let want = [vec![0; 6], vec![1; 5], vec![2; 5], vec![3; 6]].concat();
        assert_eq!(walk(&late), want);
        assert_eq!(walk(&[exits, exits].concat()), [vec![0; 5], vec![1; 5]].concat());
    }

    #[test]
    fn a_module_ends_where_the_next_one_begins() {
        let part = |loc| Part { loc, ..Part::default() };
        let parts = Parts(vec![part(0), part(4), part(4)]);
        assert_eq!(parts.ranges(9, |p| p.loc).collect::<Vec<_>>(), [0..4, 4..4, 4..9]);
        assert_eq!(
            Parts::default().ranges(7, |p| p.block).collect::<Vec<_>>(),
            std::slice::from_ref(&(0..7))
        );
    }
}
