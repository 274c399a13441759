//! In: DMAs on the abstract engine. Out: a copy that stores an on-chip value to DRAM (other than an output) is issued
//! by the engine that wrote the value last in the same block, so that no semaphore is needed between the two. Others
//! stay abstract; `alloc_queues` gives those to SP. When hardware-generated DMAs would stand on more than one engine,
//! IO copies go to SP. The arm of collective results has nothing to do: no collective is left. Why, in
//! [`EngineReasons`]; which copies stand in a loop body, in [`InLoop`]. Facts: `spec/ir.md 8.1`.
//!
//! Of several writers the latest in program order counts. A value without a writer in the block leaves the copy where it
//! is: the other compiler's listing stores an undefined candidate there. Blocks begin at labels and behind branches.
//!
//! ```text
//! TensorTensor(dve) sbuf:3 = ..            TensorTensor(dve) sbuf:3 = ..
//! DMACopy(dma)      tmp4 <- sbuf:3   =>    DMACopy(dve)      tmp4 <- sbuf:3
//! ```

use super::reason::{EngineReason, EngineReasons, InLoop};
use crate::batch::give_up;
use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::Diagnostics;
use murre_components::engine::EngineId;
use murre_components::program::VarKind;

/// The last writer of a location, and the block it stands in.
#[derive(Clone, Copy)]
struct Writer {
    block: u32,
    engine: EngineId,
}

/// The system.
pub fn assign_trigger_engine(
    mut insts: Query<(&mut InstHead, &InstOperands, &InstArgs)>,
    aps: Query<&ApHead>,
    locs: Query<&LocHead>,
    axes: Query<&AxisBounds>,
    order: Res<Order>,
    before: Option<Res<EngineReasons>>,
    parts: Res<Parts>,
    sink: Res<Diagnostics>,
    mut commands: Commands,
) {
    let (aps, locs) = (columns!(aps), columns!(locs));
    let axes: &[AxisBounds] = columns!(axes);
    let Ok(mut tables) = insts.contiguous_iter_mut() else { return };
    let Some((mut head, operands, args)) = tables.next() else { return };
    let head = head.bypass_change_detection();
    let mut reasons = before.map_or_else(Vec::new, |r| r.0.clone());
    reasons.resize(head.len(), EngineReason::NotBound);
    let mut writers = vec![Writer { block: u32::MAX, engine: EngineId::Unassigned }; locs.len()];
    let (mut block, mut depth, mut inside) = (0u32, 0u32, Vec::new());
    for &id in &order.0 {
        let (Some(h), Some(ops)) = (head.get_mut(id.index()), operands.get(id.index())) else { continue };
        if ops.outputs == 0 || !h.live() {
            if h.flags & InstHead::ENDS_BLOCK != 0 || h.op.is_structure() {
                block += 1;
            }
            // The branch of a conditional is a loop of one trip.
            let axis = || axes.get(args[id.index()].axis().index());
            if h.op.is_structure() && axis().is_some_and(|a| a.max_trip > 1) {
                depth = if h.op == Opcode::Terminator { depth.saturating_sub(1) } else { depth + 1 };
            }
            continue;
        }
        if depth > 0 && h.op == Opcode::DmaCopy {
            inside.resize(operands.len(), false);
            inside[id.index()] = true;
        }
        if h.op == Opcode::DmaCopy && h.engine == EngineId::Dma && ops.inputs > 0 {
            let end = |ap: murre_components::ids::ApId| aps.get(ap.index()).map(|a| a.loc.index());
            if let (Some(d), Some(s)) = (end(ops.output(0)), end(ops.input(0)))
                && let (Some(dst), Some(src), Some(w)) = (locs.get(d), locs.get(s), writers.get(s))
                && src.space != Space::Dram
                && dst.space == Space::Dram
                && dst.kind != VarKind::Output
                && w.block == block
                && w.engine.stream().is_some()
            {
                h.engine = w.engine;
                reasons[id.index()] = EngineReason::Writer;
            }
        }
        for k in 0..ops.outputs as usize {
            if let Some(w) = aps.get(ops.output(k).index()).and_then(|a| writers.get_mut(a.loc.index())) {
                *w = Writer { block, engine: h.engine };
            }
        }
    }
    let hwdge = |h: &InstHead| h.op == Opcode::DmaCopy && h.live() && h.dge == DgeType::Hwdge;
    let engines = head.iter().filter(|h| hwdge(h)).fold(0u8, |set, h| set | 1 << h.engine as u8);
    if engines.count_ones() > 1 && !give_up(&parts, &sink, "generated copies stand on several engines") {
        let copies = |(_, h): &(usize, &mut InstHead)| h.op == Opcode::DmaCopy && h.live();
        for (row, h) in head.iter_mut().enumerate().filter(copies) {
            let bound =
                h.dge == DgeType::Hwdge && h.engine != EngineId::Dma && h.engine != EngineId::Unassigned;
            if !bound && h.dge != DgeType::Swdge && h.flags & InstHead::IO != 0 {
                h.engine = EngineId::Sp;
                reasons[row] = EngineReason::IoToSp;
            }
        }
    }
    commands.insert_resource(InLoop(inside));
    commands.insert_resource(EngineReasons(reasons));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compiler;
    use crate::staging::{Operand, Staging};
    use bevy_ecs::system::RunSystemOnce;
    use murre_components::dtype::DType;
    use murre_components::ids::{AxisId, ExprId, HloId, InstId, LocId, RegId};

    /// A program under construction.
    struct Bench {
        c: Compiler,
        s: Staging,
    }

    fn bench() -> Bench {
        let c = Compiler::new(Default::default(), Default::default());
        let s = Staging::new(&c.world);
        Bench { c, s }
    }

    impl Bench {
        fn loc(&mut self, space: Space, kind: VarKind) -> LocId {
            let mut row = LocRow::new(space, DType::F32, 1, 64, HloId::NONE);
            row.head.kind = kind;
            self.s.loc(row)
        }

        fn inst(&mut self, row: InstRow, out: &[LocId], input: &[LocId]) -> InstId {
            let side = |loc: &LocId| Operand {
                loc: *loc,
                offset: 0,
                dtype: DType::F32,
                pattern: ApPattern::of([(1, 1), (1, 64)]),
                kind: ApKind::Physical,
                payload: PayloadKey::default(),
                flags: 0,
            };
            let [out, input] = [out, input].map(|l| l.iter().map(side).collect::<Vec<_>>());
            self.s.inst(row, &out, &input)
        }

        fn write(&mut self, engine: EngineId, loc: LocId) {
            self.inst(InstRow::new(Opcode::Memset, engine, HloId::NONE), &[loc], &[]);
        }

        fn copy(&mut self, dge: DgeType, engine: EngineId, flags: u8, out: LocId, input: LocId) -> InstId {
            let mut row = InstRow::new(Opcode::DmaCopy, engine, HloId::NONE);
            (row.head.dge, row.head.flags) = (dge, flags);
            self.inst(row, &[out], &[input])
        }

        fn label(&mut self, op: Opcode, axis: AxisId) {
            let mut row = InstRow::new(op, EngineId::All, HloId::NONE);
            row.args.aux = axis.0;
            self.inst(row, &[], &[]);
        }

        fn axis(&mut self, max_trip: u64) -> AxisId {
            let (none, inst, reg) = (ExprId::NONE, InstId::NONE, RegId::NONE);
            let kind = LoopKind::DoWhile;
            self.s.axis(AxisRow {
                head: AxisHead { parent: AxisId::NONE, begin: inst, end: inst, kind, unsigned: 0, depth: 0 },
                bounds: AxisBounds { lb: none, ub: none, step: none, max_trip },
                regs: AxisRegs { iv: reg, limit: reg, condition: reg, per_engine: [reg; 5] },
            })
        }

        /// Engine, reason and loop flag by instruction.
        fn run(mut self) -> Vec<(EngineId, EngineReason, bool)> {
            let count = self.s.insts.len();
            self.s.flush(&mut self.c.world);
            self.c.world.insert_resource(Order((0..count as u32).map(InstId).collect()));
            self.c.world.run_system_once(assign_trigger_engine).expect("it runs");
            let mut q = self.c.world.query::<&InstHead>();
            let engines: Vec<EngineId> = q.iter(&self.c.world).map(|h| h.engine).collect();
            let reasons = &self.c.world.resource::<EngineReasons>().0;
            let inside = &self.c.world.resource::<InLoop>().0;
            (0..count).map(|k| (engines[k], reasons[k], inside.get(k) == Some(&true))).collect()
        }
    }

    use EngineId::{Activation, Dma, Dve, Pool, Sp};

    #[test]
    fn a_store_goes_to_the_latest_writer_of_its_block() {
        let mut b = bench();
        let (x, y) = (b.loc(Space::Sbuf, VarKind::Internal), b.loc(Space::Sbuf, VarKind::Internal));
        let t = b.loc(Space::Dram, VarKind::Internal);
        let (out, input) = (b.loc(Space::Dram, VarKind::Output), b.loc(Space::Dram, VarKind::Input));
        b.write(Dve, x);
        b.write(Activation, x);
        let late = b.copy(DgeType::None, Dma, 0, t, x);
        let no_writer = b.copy(DgeType::None, Dma, 0, t, y);
        let output = b.copy(DgeType::None, Dma, InstHead::IO, out, x);
        let load = b.copy(DgeType::None, Dma, InstHead::IO, x, input);
        let concrete = b.copy(DgeType::Swdge, Pool, InstHead::DYNAMIC, t, x);
        let axis = b.axis(1);
        b.write(Dve, y);
        b.label(Opcode::DoWhile, axis);
        let other_block = b.copy(DgeType::None, Dma, 0, t, y);
        let found = b.run();
        let at = |id: InstId| (found[id.index()].0, found[id.index()].1);
        assert_eq!(at(late), (Activation, EngineReason::Writer), "the later of two writers");
        for id in [no_writer, output, load, other_block] {
            assert_eq!(at(id), (Dma, EngineReason::NotBound));
        }
        assert_eq!(at(concrete), (Pool, EngineReason::NotBound), "concrete engines are left alone");
        assert!(found.iter().all(|f| !f.2), "the branch of a conditional is no loop");
    }

    #[test]
    fn input_and_output_copies_go_to_sp_when_hardware_copies_are_on_several_engines() {
        let of = |second: EngineId| {
            let mut b = bench();
            let x = b.loc(Space::Sbuf, VarKind::Internal);
            let (out, t) = (b.loc(Space::Dram, VarKind::Output), b.loc(Space::Dram, VarKind::Internal));
            b.copy(DgeType::Hwdge, Sp, InstHead::DYNAMIC, t, x);
            b.copy(DgeType::Hwdge, second, InstHead::DYNAMIC | InstHead::IO, t, x);
            let io = b.copy(DgeType::None, Activation, InstHead::IO, out, x);
            let plain = b.copy(DgeType::None, Activation, 0, t, x);
            let soft = b.copy(DgeType::Swdge, Pool, InstHead::IO, out, x);
            let found = b.run();
            [1, io.index(), plain.index(), soft.index()].map(|k| found[k].0)
        };
        assert_eq!(of(Sp), [Sp, Activation, Activation, Pool], "one engine: nothing moves");
        assert_eq!(of(Activation), [Activation, Sp, Activation, Pool]);
    }

    #[test]
    fn copies_in_bodies_are_marked() {
        let mut b = bench();
        let (x, t) = (b.loc(Space::Sbuf, VarKind::Internal), b.loc(Space::Dram, VarKind::Internal));
        let (outer, inner) = (b.axis(9), b.axis(5));
        let before = b.copy(DgeType::None, Dma, 0, t, x);
        b.label(Opcode::DynamicForLoop, outer);
        b.label(Opcode::DynamicForLoop, inner);
        let body = b.copy(DgeType::None, Dma, 0, t, x);
        b.label(Opcode::Terminator, inner);
        let between = b.copy(DgeType::None, Dma, 0, t, x);
        b.label(Opcode::Terminator, outer);
        let behind = b.copy(DgeType::None, Dma, 0, t, x);
        let found = b.run();
        assert_eq!([before, body, between, behind].map(|id| found[id.index()].2), [false, true, true, false]);
    }
}
