//! Why an instruction of the way is there. In: an instruction on registers, and the HLO that it serves. Out: a word of a
//! fixed list. HLO's clamp is the maximum and the minimum in the name of a dynamic slice; the wrap of negative indices that
//! front ends write is recognised in the HLO: `select(x < 0, x + n, x)`.

use super::super::tables;
use super::{Way, Why};
use murre_components::bir::*;
use murre_components::hlo::{Attrs, Direction, HloInst, HloOp};
use murre_components::ids::HloId;
use murre_components::isa::AluOp;

impl Way<'_> {
    pub(super) fn why(&self, inst: &tables::Inst) -> Why {
        let role = self.reg(inst.regs.dst).map(|r| r.head.role);
        let scaled = AluOp::from_wire(inst.args.op0) == Some(AluOp::Mult);
        match (inst.head.op, role) {
            (Opcode::TensorLoad, _) => Why::Load,
            (Opcode::CompareAndBranch | Opcode::UnconditionalBranch, _) => Why::Branch,
            (Opcode::RegisterMove, Some(RegRole::Induction)) => Why::CounterStart,
            (Opcode::RegisterAlu, Some(RegRole::Induction)) => Why::CounterStep,
            (Opcode::RegisterMove | Opcode::RegisterAlu, Some(RegRole::Limit)) => Why::Limit,
            (Opcode::RegisterMove, Some(RegRole::DynamicOffset | RegRole::ApOffset)) => Why::OffsetStart,
            (Opcode::RegisterAlu, Some(RegRole::DynamicTerm)) if scaled => Why::ScaleToBytes,
            (Opcode::RegisterAlu, Some(RegRole::DynamicOffset | RegRole::ApOffset)) => Why::OffsetSum,
            (
                Opcode::RegisterAlu | Opcode::RegisterMove,
                Some(RegRole::ApAddr | RegRole::SubTensorId | RegRole::Temp | RegRole::DramAddr0),
            ) => {
                let limit = self.module.get(inst.from.hlo).is_some_and(|i| i.op == HloOp::While);
                if limit { Why::Limit } else { Why::ChipAddress }
            }
            (Opcode::RegisterAlu | Opcode::RegisterMove, _) => self.why_scalar(inst),
            _ => Why::Program,
        }
    }

    fn why_scalar(&self, inst: &tables::Inst) -> Why {
        let Some(served) = self.module.get(inst.from.hlo) else { return Why::Program };
        let alu = AluOp::from_wire(inst.args.op0).filter(|_| inst.head.op == Opcode::RegisterAlu);
        match (served.op, alu) {
            (HloOp::DynamicSlice | HloOp::DynamicUpdateSlice, Some(AluOp::Max)) => Why::LowerClamp,
            (HloOp::DynamicSlice | HloOp::DynamicUpdateSlice, Some(AluOp::Min)) => Why::UpperClamp,
            (HloOp::While, None) => Why::Carried,
            (HloOp::Select, _) if self.wrapped(served).is_some() => Why::WrapSelect,
            (HloOp::Compare | HloOp::Add, _) => self.wrap_part(served).unwrap_or(Why::Program),
            _ => Why::Program,
        }
    }

    /// The comparison and the addition of a wrap.
    fn wrapped(&self, select: HloInst<'_>) -> Option<(HloId, HloId)> {
        let &[condition, from_end, index] = select.operands() else { return None };
        let (compare, add) = (self.module.inst(condition), self.module.inst(from_end));
        let below = matches!(compare.attrs(), Attrs::Compare { direction: Direction::Lt, .. });
        let zero = compare.operands().get(1).map(|z| self.module.inst(*z));
        let zero = zero
            .is_some_and(|z| matches!(z.attrs(), Attrs::Constant(l) if l.bytes().iter().all(|b| *b == 0)));
        let same = |i: HloInst<'_>| i.operands().first() == Some(&index);
        (below && zero && add.op == HloOp::Add && same(compare) && same(add)).then_some((condition, from_end))
    }

    fn wrap_part(&self, part: HloInst<'_>) -> Option<Why> {
        let selects = self.module.insts().filter(|i| i.op == HloOp::Select);
        selects.filter_map(|s| self.wrapped(s)).find_map(|(compare, add)| {
            if compare == part.id {
                Some(Why::NegativeTest)
            } else {
                (add == part.id).then_some(Why::NegativeWrap)
            }
        })
    }
}
