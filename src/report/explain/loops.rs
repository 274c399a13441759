//! Loops that a value decides. In: the registers that hold the value and everything that follows from them. Out: for each
//! axis whose limit or counter is among them: bounds, the largest trip count and what proves it, the counter on each
//! engine, and the branches with the records they go to.
//!
//! ```text
//! for i in 0 .. steps.1 step 1    at most 10 trips: min.1 is proved to be at most 10
//! ```

use super::super::names::comparison;
use super::super::tables;
use super::{LoopBranch, LoopEngine, LoopStory, Operand, TripBound, Way};
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::hash::SeededSet;
use murre_components::ids::*;

impl Way<'_> {
    pub(super) fn loops(&self, seeds: &SeededSet<RegId>, reached: &SeededSet<RegId>) -> Vec<LoopStory> {
        let mut out = Vec::new();
        for (k, axis) in self.tables.axes.iter().enumerate() {
            let decided = EngineId::STREAMS.map(|engine| self.limit_on(axis, engine));
            let counter = axis.regs.per_engine.iter().any(|r| seeds.contains(r));
            if counter || decided.iter().flatten().any(|r| reached.contains(r)) {
                out.push(self.loop_story(AxisId::new(k), axis, counter));
            }
        }
        out
    }

    fn loop_story(&self, id: AxisId, axis: &AxisRow, counter: bool) -> LoopStory {
        let (lower, step) = (self.affine(axis.bounds.lb, "trips"), self.affine(axis.bounds.step, "trips"));
        let head = self.tables.insts.get(axis.head.begin.index());
        let mut engines = Vec::new();
        for (stream, engine) in EngineId::STREAMS.into_iter().enumerate() {
            let iv = axis.regs.per_engine[stream];
            let limit = self.limit_on(axis, engine);
            if iv.is_none() && limit.is_none() {
                continue;
            }
            engines.push(LoopEngine {
                engine: engine.name(),
                counter: iv.is_some().then_some(iv.0),
                counter_colour: self.colour(iv),
                limit: limit.map(|r| r.0),
                limit_colour: limit.and_then(|r| self.colour(r)),
                values: None,
                steps_at: self.steps_at(axis, stream),
                stream,
            });
        }
        LoopStory {
            axis: id.0,
            kind: format!("{:?}", axis.head.kind),
            r#while: head.and_then(|h| self.names.hlo(h.from.hlo)).map(str::to_owned),
            parent: axis.head.parent.is_some().then_some(axis.head.parent.0),
            depth: axis.head.depth,
            counter,
            lower: lower.map(|s| s.constant),
            upper: self.affine(axis.bounds.ub, "trips"),
            step: step.map(|s| s.constant),
            unsigned: axis.head.unsigned != 0,
            max_tripcount: axis.bounds.max_trip,
            bound: self.trip_bound(axis),
            engines,
            branches: self.branches(axis),
            trips: None,
        }
    }

    /// The register that an engine's branches look at: the limit of a counted loop, the condition of another.
    fn limit_on(&self, axis: &AxisRow, engine: EngineId) -> Option<RegId> {
        let back = |i: &tables::Inst| {
            i.head.op == Opcode::CompareAndBranch
                && i.head.engine == engine
                && i.args.aux == axis.head.begin.0
        };
        let (_, _, branch) = self.program_order().find(|(_, _, i)| back(i))?;
        let limit = match axis.head.kind {
            LoopKind::DoWhile => branch.regs.src0,
            LoopKind::DynamicFor | LoopKind::Static => branch.regs.src1,
        };
        limit.is_some().then_some(limit)
    }

    /// The record that ends a trip: the step of the counter, or the branch back of a loop without one.
    fn steps_at(&self, axis: &AxisRow, stream: usize) -> Option<u32> {
        let iv = axis.regs.per_engine[stream];
        let engine = EngineId::STREAMS[stream];
        let step = self.program_order().find(|(_, _, i)| {
            i.head.op == Opcode::RegisterAlu && i.regs.dst == iv && i.regs.src0 == iv && iv.is_some()
        });
        let back = || {
            self.program_order().find(|(_, _, i)| {
                i.head.op == Opcode::CompareAndBranch
                    && i.head.engine == engine
                    && i.args.aux == axis.head.begin.0
            })
        };
        step.or_else(back).and_then(|(_, id, _)| self.record(id))
    }

    fn branches(&self, axis: &AxisRow) -> Vec<LoopBranch> {
        let ours = |i: &tables::Inst| {
            matches!(i.head.op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch)
                && (i.args.aux == axis.head.begin.0 || i.args.aux == axis.head.end.0)
        };
        let rows = self.program_order().filter(|(_, _, i)| ours(i));
        rows.map(|(position, id, inst)| {
            let register = |r: RegId| Operand::Register { register: r.0, colour: self.colour(r) };
            let right = match inst.args.op0 < 6 {
                true => Operand::Immediate { value: i64::from(inst.args.imm0 as i32) },
                false => register(inst.regs.src1),
            };
            let target = self.layout.and_then(|l| {
                let row = l.target.get(inst.args.aux as usize).copied()?;
                l.targets.get(row as usize)?.get(inst.head.engine.stream()?).copied()
            });
            LoopBranch {
                engine: inst.head.engine.name(),
                position,
                record: self.record(id),
                left: register(inst.regs.src0),
                comparison: comparison(inst.args.op0),
                right,
                target,
                back: inst.args.aux == axis.head.begin.0,
            }
        })
        .collect()
    }

    /// What `max_tripcount` rests on (D5): the proved range of the register in the limit.
    fn trip_bound(&self, axis: &AxisRow) -> TripBound {
        if axis.head.kind == LoopKind::DoWhile {
            return TripBound::Condition;
        }
        let exprs = self.names.exprs.filter(|x| axis.bounds.ub.index() < x.len());
        let term = exprs.and_then(|x| x.as_affine(axis.bounds.ub)?.0.first().map(|t| x.get(t.0)));
        let Some(Expr::RuntimeInt(register)) = term else { return TripBound::Constant };
        let Some(row) = self.reg(*register) else { return TripBound::Constant };
        TripBound::Range {
            register: register.0,
            value: self.names.hlo(row.from.hlo).map(str::to_owned),
            low: row.bounds.lo,
            high: row.bounds.hi,
            by_type: row.bounds.hi >= i64::from(i32::MAX) - 1,
        }
    }
}
