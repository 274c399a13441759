//! Offsets that are a tensor: the indices of a gather or a scatter, one run-time row each. In: a value of several elements.
//! Out: the instructions between it and the 0xDA records that use it, and those accesses; nothing when no offset depends
//! on it. The instructions are those that lie both behind the value and in front of the offsets.

use super::super::tables;
use super::{AccessStory, Holder, Index, Step, Story, Symbolic, Term, Way, Why};
use murre_components::bir::*;
use murre_components::hash::{SeededSet, seeded_set};
use murre_components::ids::*;

impl Way<'_> {
    pub(super) fn vector_story(&self, id: HloId) -> Option<Story> {
        let elements = self.module.inst(id).shape().array()?.elements();
        let mut ahead: SeededSet<LocId> = seeded_set();
        let locs = self.tables.locs.iter().enumerate();
        ahead.extend(locs.filter(|(_, l)| l.from.hlo == id).map(|(k, _)| LocId::new(k)));
        self.spread(&mut ahead, |outputs, inputs| (inputs, outputs));
        let mut behind: SeededSet<LocId> = seeded_set();
        let indexed: Vec<(usize, InstId, &tables::Inst, ApId)> = self
            .program_order()
            .filter_map(|(p, id, inst)| Some((p, id, inst, self.offsets_of(inst)?)))
            .filter(|(.., ap)| self.tables.aps.get(ap.index()).is_some_and(|a| ahead.contains(&a.head.loc)))
            .collect();
        behind.extend(indexed.iter().filter_map(|(.., ap)| Some(self.tables.aps.get(ap.index())?.head.loc)));
        if behind.is_empty() {
            return None;
        }
        self.spread(&mut behind, |outputs, inputs| (outputs, inputs));
        let mut story = self.blank(id, Holder::Vector { elements });
        for (position, inst_id, inst) in self.program_order() {
            let aps = self.aps(inst);
            let written = aps.iter().any(|a| a.head.output == 1 && behind.contains(&a.head.loc));
            let from = aps.iter().any(|a| a.head.output == 0 && ahead.contains(&a.head.loc));
            if written && from {
                let step = self.step(position, inst_id, inst);
                story.arithmetic.push(Step { why: Why::Element, watched: Vec::new(), ..step });
            }
        }
        story.nodes = (0..self.tables.nodes.len())
            .filter(|k| {
                let (_, operands, _) = &self.tables.nodes[*k];
                let list = self.node_operands(operands);
                let mut accesses = list.iter().filter_map(|o| o.access());
                let result = accesses.next().is_some_and(|a| behind.contains(&a.loc));
                let mut rest = accesses;
                rest.any(|a| ahead.contains(&a.loc) && (result || behind.contains(&a.loc)))
            })
            .map(|k| self.node(k))
            .collect();
        let accesses = indexed.into_iter().map(|(p, id, inst, ap)| self.indexed_access(p, id, inst, ap));
        story.accesses = accesses.collect();
        Some(story)
    }

    /// The pattern of a copy's offsets.
    fn offsets_of(&self, inst: &tables::Inst) -> Option<ApId> {
        let infos = self.aps(inst).iter().filter_map(|a| self.payloads?.dynamic(a.head.dynamic.payload));
        infos
            .filter_map(|d| match d.kind {
                OffsetKind::Vector(ap) => Some(ap),
                OffsetKind::Scalar => None,
            })
            .next()
    }

    /// Adds locations until nothing more follows; `order` says which of outputs and inputs leads to the other.
    fn spread(
        &self,
        reached: &mut SeededSet<LocId>,
        order: impl Fn(Vec<LocId>, Vec<LocId>) -> (Vec<LocId>, Vec<LocId>),
    ) {
        // A trigger's operands are those of its copy. What a vector addresses does not depend on it any more.
        let edges: Vec<(Vec<LocId>, Vec<LocId>)> = self
            .program_order()
            .filter(|(_, _, i)| self.offsets_of(i).is_none())
            .map(|(_, _, i)| {
                let of = |output: u8| {
                    self.aps(i).iter().filter(|a| a.head.output == output).map(|a| a.head.loc).collect()
                };
                order(of(1), of(0))
            })
            .collect();
        loop {
            let before = reached.len();
            for (from, to) in &edges {
                if from.iter().any(|l| reached.contains(l)) {
                    reached.extend(to.iter().copied());
                }
            }
            if reached.len() == before {
                return;
            }
        }
    }

    fn indexed_access(&self, position: usize, id: InstId, inst: &tables::Inst, offsets: ApId) -> AccessStory {
        let aps = self.aps(inst);
        let info = |a: &tables::Ap| self.payloads.and_then(|p| p.dynamic(a.head.dynamic.payload)).cloned();
        let side = aps.iter().find(|a| info(a).is_some());
        let mut story = self.plain_access(position, id, inst, side);
        story.step.watched.clear();
        if let Some((side, d)) = side.and_then(|a| Some((a, info(a)?))) {
            let bytes = side.head.dtype.bytes() as i64;
            let location = self.tables.aps.get(offsets.index()).map_or(u32::MAX, |a| a.head.loc.0);
            let terms = d.terms.iter().map(|t| Term {
                coef: t.coef * bytes,
                index: Index::Row { location },
                value: None,
            });
            story.symbolic = Some(Symbolic {
                unit: "bytes",
                constant: (d.c + i64::from(side.head.offset)) * bytes,
                terms: terms.collect(),
                below: Some(u64::from(d.indirect_dim_max_index)),
            });
            let place = self.tables.aps.get(offsets.index()).and_then(|a| {
                let loc = self.tables.locs.get(a.head.loc.index())?;
                (loc.place.address != u32::MAX).then_some(loc.place.address + a.head.offset * 4)
            });
            story.vector = place.map(|at| (at, 4 * d.num_tensor_indirect_indices));
        }
        story
    }
}
