//! Which registers hold a value. In: an HLO value. Out: registers, those that were made for it, or those of what it is
//! another name of: an element of a tuple, a leaf of a loop's carry, an argument of a branch.
//!
//! ```text
//! i = s32[] get-tuple-element(arg), index=0     leaf 0 of while.7: its counter, on every engine
//! ```

use super::super::tables;
use super::{Holder, Way, is_arithmetic};
use murre_components::bir::*;
use murre_components::dtype::HloType;
use murre_components::engine::EngineId;
use murre_components::hash::{SeededSet, seeded_set};
use murre_components::hlo::{Attrs, HloOp, Shape};
use murre_components::ids::*;
use murre_components::penguin::NodeKind;
use murre_components::program::VarKind;

/// What a value is another name of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    Value(HloId),
    /// A leaf that the body of a while replaces.
    Carried {
        r#while: HloId,
        leaf: usize,
    },
}

impl Way<'_> {
    /// Values with registers of their own, one element each.
    pub(super) fn scalars(&self) -> Vec<HloId> {
        let own = self.tables.regs.iter().filter(|r| r.head.role == RegRole::Scalar).map(|r| r.from.hlo);
        let loads = self.program_order().filter(|(_, _, i)| i.head.op == Opcode::TensorLoad);
        let mut values: Vec<HloId> = own.chain(loads.map(|(_, _, i)| self.loaded_value(i))).collect();
        values.retain(|v| v.is_some() && self.module.get(*v).is_some_and(|i| is_scalar(i.shape())));
        values.sort();
        values.dedup();
        values
    }

    /// The value that a load into a register reads.
    fn loaded_value(&self, inst: &tables::Inst) -> HloId {
        let source = self.aps(inst).iter().find(|a| a.head.output == 0);
        let loc = source.and_then(|a| self.tables.locs.get(a.head.loc.index()));
        loc.map_or(HloId::NONE, |l| l.from.hlo)
    }

    /// Registers that were made for `hlo`.
    pub(super) fn own_registers(&self, hlo: HloId) -> SeededSet<RegId> {
        let mut seeds = seeded_set();
        for (k, reg) in self.tables.regs.iter().enumerate() {
            if reg.from.hlo == hlo && reg.head.role == RegRole::Scalar {
                seeds.insert(RegId::new(k));
            }
        }
        for (_, _, inst) in self.program_order() {
            if inst.head.op == Opcode::TensorLoad && self.loaded_value(inst) == hlo && inst.regs.dst.is_some()
            {
                seeds.insert(inst.regs.dst);
            }
        }
        seeds
    }

    /// Registers that hold the value of one element `hlo`.
    pub(super) fn holders(&self, hlo: HloId) -> SeededSet<RegId> {
        if !self.module.get(hlo).is_some_and(|i| is_scalar(i.shape())) {
            return seeded_set();
        }
        match self.origin(hlo) {
            Origin::Value(id) => self.own_registers(id),
            Origin::Carried { r#while, leaf } => self.carry_registers(r#while, leaf),
        }
    }

    /// Where the value of one element lives.
    pub(super) fn holder(&self, hlo: HloId) -> Holder {
        let id = match self.origin(hlo) {
            Origin::Carried { r#while, leaf } => {
                return Holder::LoopCarried { r#while: self.module.inst(r#while).name().into(), leaf };
            }
            Origin::Value(id) => id,
        };
        let loads = self
            .program_order()
            .find(|(_, _, i)| i.head.op == Opcode::TensorLoad && self.loaded_value(i) == id);
        let Some((_, _, load)) = loads else { return Holder::Registers };
        let source = self.aps(load).iter().find(|a| a.head.output == 0).map(|a| a.head.loc);
        // An input that the program may overwrite is copied first.
        let own = self.tables.locs.iter().find(|l| l.head.kind == VarKind::Input && l.from.hlo == id);
        let input = own.map(|l| l.from.ordinal);
        self.home(source.unwrap_or_default()).map_or(Holder::Registers, |home| Holder::Memory { home, input })
    }

    /// Follows other names of a value to where it is made.
    fn origin(&self, mut id: HloId) -> Origin {
        // A path without repetition is not longer than the module.
        for _ in 0..self.module.len() {
            if !self.own_registers(id).is_empty() {
                break;
            }
            let inst = self.module.inst(id);
            let next = match (inst.op, inst.operands(), inst.attrs()) {
                (HloOp::Copy | HloOp::Reshape | HloOp::OptimizationBarrier, [operand], _) => Some(*operand),
                (HloOp::GetTupleElement, [tuple], Attrs::GetTupleElement { index }) => {
                    match self.element(*tuple, *index as usize) {
                        Some(Origin::Value(v)) => Some(v),
                        Some(carried) => return carried,
                        None => None,
                    }
                }
                (HloOp::Parameter, ..) => self.argument(id),
                _ => None,
            };
            match next {
                Some(next) => id = next,
                None => break,
            }
        }
        Origin::Value(id)
    }

    /// Element `k` of a tuple.
    fn element(&self, tuple: HloId, k: usize) -> Option<Origin> {
        let inst = self.module.inst(tuple);
        match inst.op {
            HloOp::Tuple => inst.operands().get(k).copied().map(Origin::Value),
            HloOp::While => self.carried(tuple, k),
            HloOp::Parameter => self.carried(self.loop_of(inst.computation())?, k),
            _ => None,
        }
    }

    /// Leaf `k` of a while: what it starts with when the body passes it through.
    fn carried(&self, r#while: HloId, leaf: usize) -> Option<Origin> {
        let inst = self.module.inst(r#while);
        let body = self.module.comp(*inst.called().first()?);
        let next = self.module.inst(body.root);
        let next = next.operands().get(leaf).filter(|_| next.op == HloOp::Tuple)?;
        let passed = self.module.inst(*next);
        let same = passed.op == HloOp::GetTupleElement
            && passed.operands().first() == body.parameters.first()
            && matches!(passed.attrs(), Attrs::GetTupleElement { index } if *index as usize == leaf);
        if !same {
            return Some(Origin::Carried { r#while, leaf });
        }
        let start = self.module.inst(*inst.operands().first()?);
        match start.op {
            HloOp::Tuple => start.operands().get(leaf).copied().map(Origin::Value),
            _ => self.element(start.id, leaf),
        }
    }

    /// The while that runs a computation as its body or condition.
    fn loop_of(&self, computation: CompId) -> Option<HloId> {
        let whiles = self.module.insts().filter(|i| i.op == HloOp::While);
        whiles.filter(|i| i.called().contains(&computation)).map(|i| i.id).next()
    }

    /// What a conditional gives its branch's parameter.
    fn argument(&self, parameter: HloId) -> Option<HloId> {
        let computation = self.module.inst(parameter).computation();
        let conditionals = self.module.insts().filter(|i| i.op == HloOp::Conditional);
        conditionals
            .filter_map(|i| {
                let branch = i.called().iter().position(|c| *c == computation)?;
                i.operands().get(branch + 1).copied()
            })
            .next()
    }

    /// Registers of leaf `leaf` of a loop's carry. The lowering moves the first value of each leaf that lives in a
    /// register in front of the loop, leaf by leaf; a counted loop has its counter in the axis.
    fn carry_registers(&self, r#while: HloId, leaf: usize) -> SeededSet<RegId> {
        let inst = self.module.inst(r#while);
        let leaves: Vec<HloId> =
            match inst.called().first().map(|c| self.module.inst(self.module.comp(*c).root)) {
                Some(root) if root.op == HloOp::Tuple => root.operands().to_vec(),
                _ => return seeded_set(),
            };
        let in_register = |k: usize| {
            matches!(self.carried(r#while, k), Some(Origin::Carried { .. }))
                && leaves.get(k).is_some_and(|l| is_scalar(self.module.inst(*l).shape()))
        };
        let ordinal = (0..leaf).filter(|k| in_register(*k)).count();
        let nodes = &self.tables.nodes;
        let begin = nodes.iter().position(|(h, ..)| h.kind == NodeKind::LoopBegin && h.hlo == r#while);
        let before = nodes.get(..begin.unwrap_or_default()).unwrap_or_default();
        let moves = before.iter().filter(|(h, ..)| h.kind == NodeKind::ScalarMove && h.hlo == r#while);
        let mut all: Vec<RegId> = moves.skip(ordinal).take(1).map(|(.., s)| s.dst).collect();
        let axis = begin.and_then(|b| nodes.get(b)).map(|(h, ..)| h.axis);
        let axis = axis.and_then(|a| self.tables.axes.get(a.index()));
        if let Some(axis) = axis.filter(|a| a.head.kind == LoopKind::DynamicFor && a.head.unsigned == 0)
            && self.counts(r#while, leaf)
        {
            all.push(axis.regs.iv);
        }
        self.clones(&all)
    }

    /// Whether the condition of a while compares its leaf `leaf`.
    fn counts(&self, r#while: HloId, leaf: usize) -> bool {
        let Some(condition) = self.module.inst(r#while).called().get(1) else { return false };
        let compare = self.module.inst(self.module.comp(*condition).root);
        compare.operands().iter().any(|o| {
            let side = self.module.inst(*o);
            matches!(side.attrs(), Attrs::GetTupleElement { index } if *index as usize == leaf)
        })
    }

    /// Registers and their copies on the engines.
    pub(super) fn clones(&self, all: &[RegId]) -> SeededSet<RegId> {
        let mut out = seeded_set();
        out.extend(all.iter().copied().filter(|r| r.is_some()));
        for (k, reg) in self.tables.regs.iter().enumerate() {
            if reg.from.all.is_some() && all.contains(&reg.from.all) {
                out.insert(RegId::new(k));
            }
        }
        out
    }

    /// Everything that register arithmetic makes of `seeds`.
    pub(super) fn closure(&self, seeds: &SeededSet<RegId>) -> SeededSet<RegId> {
        let mut reached = seeds.clone();
        loop {
            let before = reached.len();
            for (_, _, inst) in self.program_order().filter(|(_, _, i)| is_arithmetic(i)) {
                let regs = inst.regs;
                if regs.dst.is_some() && (reached.contains(&regs.src0) || reached.contains(&regs.src1)) {
                    reached.insert(regs.dst);
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// Whether an instruction addresses memory through one of the registers.
    pub(super) fn addresses_by(&self, inst: &tables::Inst, regs: &SeededSet<RegId>) -> bool {
        let steers = |a: &tables::Ap| {
            regs.contains(&a.head.dynamic.address)
                || self
                    .payloads
                    .and_then(|p| p.dynamic(a.head.dynamic.payload))
                    .is_some_and(|d| regs.contains(&d.offset_reg))
        };
        inst.head.engine != EngineId::All
            && (self.aps(inst).iter().any(steers)
                || inst.head.op == Opcode::DmaCopy && regs.contains(&inst.regs.src0))
    }
}

/// One element of a type that registers hold.
fn is_scalar(shape: &Shape) -> bool {
    shape.array().is_some_and(|s| s.elements() == 1 && (s.ty.is_int() || s.ty == HloType::Pred))
}
