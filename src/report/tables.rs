//! A copy of the world's columns. In: a world at any point of a compilation. Out: plain vectors, row = dense id, that
//! reports read at leisure. Only reports copy; passes read the columns themselves.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::penguin::{NodeHead, NodeOperands, NodeScalars};
use murre_systems::columns;

/// The tables, one vector a column.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Tables {
    pub nodes: Vec<(NodeHead, NodeOperands, NodeScalars)>,
    pub insts: Vec<InstRow>,
    pub aps: Vec<ApRow>,
    pub regs: Vec<RegRow>,
    pub locs: Vec<LocRow>,
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

        let mut q =
            world.query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom, &InstDma, &InstSync)>();
        let (a, b, c, d, e, f, g) = columns!(q, world);
        t.insts = (0..a.len())
            .map(|k| InstRow {
                head: a[k],
                operands: b[k],
                args: c[k],
                regs: d[k],
                from: e[k],
                dma: f[k],
                sync: g[k],
            })
            .collect();

        let mut q = world.query::<(&ApHead, &ApPattern, &ApDynamic, &ApWord)>();
        let (a, b, c, d) = columns!(q, world);
        t.aps = (0..a.len())
            .map(|k| ApRow { head: a[k], pattern: b[k].clone(), dynamic: c[k], word: d[k] })
            .collect();

        let mut q = world.query::<(&RegHead, &RegFrom, &RegBounds, &RegLive)>();
        let (a, b, c, d) = columns!(q, world);
        t.regs = (0..a.len()).map(|k| RegRow { head: a[k], from: b[k], bounds: c[k], live: d[k] }).collect();

        let mut q = world.query::<(&LocHead, &LocPlace, &LocLive, &LocFrom)>();
        let (a, b, c, d) = columns!(q, world);
        t.locs = (0..a.len()).map(|k| LocRow { head: a[k], place: b[k], live: c[k], from: d[k] }).collect();

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
