//! A copy of the world's columns. In: a world at any point of a compilation. Out: plain vectors, row = dense id, that
//! reports read at leisure. Only reports copy; passes read the columns themselves.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::ApId;
use murre_components::penguin::{NodeHead, NodeOperands, NodeScalars};
use murre_systems::columns;

/// An instruction, and what stands beside its table.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Inst {
    pub row: InstRow,
    pub dma: InstDma,
    pub sync: InstSync,
}

/// An access pattern, its address word, and the registers that its address was made of.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Ap {
    pub row: ApRow,
    pub word: u32,
    pub origin: Option<ApOrigin>,
}

/// A register and its live range.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Reg {
    pub row: RegRow,
    pub live: RegLive,
}

/// A location and its live range.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Loc {
    pub row: LocRow,
    pub live: LocLive,
}

macro_rules! derefs {
    ($($whole:ty => $row:ty),*) => {
        $(impl std::ops::Deref for $whole {
            type Target = $row;
            fn deref(&self) -> &$row {
                &self.row
            }
        })*
    };
}
derefs!(Inst => InstRow, Ap => ApRow, Reg => RegRow, Loc => LocRow);

/// The tables, one vector a column.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Tables {
    pub nodes: Vec<(NodeHead, NodeOperands, NodeScalars)>,
    pub insts: Vec<Inst>,
    pub aps: Vec<Ap>,
    pub regs: Vec<Reg>,
    pub locs: Vec<Loc>,
    pub axes: Vec<AxisRow>,
    pub queues: Vec<QueueHead>,
    pub blocks: Vec<BlockHead>,
    pub descs: Vec<DescRow>,
}

impl Tables {
    /// Copies the columns.
    pub fn of(world: &mut World) -> Tables {
        let mut t = Tables::default();
        let mut q = world.query::<(&NodeHead, &NodeOperands, &NodeScalars)>();
        let (a, b, c) = columns!(q, world);
        t.nodes = a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c)).collect();

        let mut q = world.query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>();
        let (a, b, c, d, e) = columns!(q, world);
        let dmas = world.get_resource::<InstDmas>().unwrap_or(const { &InstDmas(Vec::new()) });
        let syncs = world.get_resource::<InstSyncs>().unwrap_or(const { &InstSyncs(Vec::new()) });
        let inst = |k: usize| InstRow { head: a[k], operands: b[k], args: c[k], regs: d[k], from: e[k] };
        let whole = |k| Inst { row: inst(k), dma: dmas.of(k), sync: syncs.of(k) };
        t.insts = (0..a.len()).map(whole).collect();

        let mut q = world.query::<(&ApHead, &ApPattern)>();
        let (a, b) = columns!(q, world);
        let words: &[u32] = world.get_resource::<ApWords>().map_or(&[], |w| &w.0);
        let ap = |k: usize| ApRow { head: a[k], pattern: b[k].clone() };
        let origins = world.get_resource::<ApOrigins>();
        let origin = |k| origins.and_then(|o| o.of(ApId::new(k))).copied();
        let whole = |k| Ap { row: ap(k), word: words.get(k).copied().unwrap_or(0), origin: origin(k) };
        t.aps = (0..a.len()).map(whole).collect();

        let mut q = world.query::<(&RegHead, &RegFrom, &RegBounds)>();
        let (a, b, c) = columns!(q, world);
        let lives: &[RegLive] = world.get_resource::<RegLives>().map_or(&[], |l| &l.0);
        let reg = |k: usize| RegRow { head: a[k], from: b[k], bounds: c[k] };
        let whole = |k| Reg { row: reg(k), live: lives.get(k).copied().unwrap_or(RegLive::NEVER) };
        t.regs = (0..a.len()).map(whole).collect();

        let mut q = world.query::<(&LocHead, &LocPlace, &LocFrom)>();
        let (a, b, c) = columns!(q, world);
        let lives: &[LocLive] = world.get_resource::<LocLives>().map_or(&[], |l| &l.0);
        let loc = |k: usize| LocRow { head: a[k], place: b[k], from: c[k] };
        let whole = |k| Loc { row: loc(k), live: lives.get(k).copied().unwrap_or(LocLive::NEVER) };
        t.locs = (0..a.len()).map(whole).collect();

        let mut q = world.query::<(&AxisHead, &AxisBounds, &AxisRegs)>();
        let (a, b, c) = columns!(q, world);
        t.axes = (0..a.len()).map(|k| AxisRow { head: a[k], bounds: b[k], regs: c[k] }).collect();

        t.queues = world.query::<&QueueHead>().contiguous_iter(world).map(flat).unwrap_or_default();
        t.blocks = world.query::<&BlockHead>().contiguous_iter(world).map(flat).unwrap_or_default();

        let mut q = world.query::<(&DescHead, &DescSrc, &DescDst)>();
        let (a, b, c) = columns!(q, world);
        t.descs = (0..a.len()).map(|k| DescRow { head: a[k], src: b[k], dst: c[k] }).collect();
        t
    }
}

fn flat<'a, T: Clone + 'a>(tables: impl Iterator<Item = &'a [T]>) -> Vec<T> {
    tables.flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::EngineId;
    use murre_components::ids::HloId;
    use murre_systems::staging::Staging;

    #[test]
    fn rows_come_in_the_order_of_their_ids() {
        let mut world = World::new();
        assert!(Tables::of(&mut world).insts.is_empty());
        let mut staging = Staging::new(&world);
        for op in [Opcode::NoOp, Opcode::Exit] {
            staging.inst(InstRow::new(op, EngineId::Pool, HloId(3)), &[], &[]);
        }
        staging.reg(RegRow::new(EngineId::Activation, RegRole::Scalar, HloId(1)));
        staging.flush(&mut world);
        let t = Tables::of(&mut world);
        assert_eq!(t.insts.iter().map(|i| i.head.op).collect::<Vec<_>>(), [Opcode::NoOp, Opcode::Exit]);
        assert_eq!(t.regs.len(), 1);
    }
}
