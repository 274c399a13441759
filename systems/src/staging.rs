//! Rows on their way into the world. A pass that creates instructions, patterns, registers or locations collects them
//! here with their final ids and spawns each kind in one batch, so that a row's index in its table is its id.

use bevy_ecs::bundle::NoBundleEffect;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::*;

/// How many rows each table has. Written by [`Staging::flush`] alone.
#[derive(Resource, Default, Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub insts: u32,
    pub aps: u32,
    pub regs: u32,
    pub locs: u32,
    pub axes: u32,
    pub blocks: u32,
    pub descs: u32,
    pub queues: u32,
}

/// An operand of a new instruction.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Location.
    pub loc: LocId,
    /// Element offset.
    pub offset: u32,
    /// Element type.
    pub dtype: murre_components::dtype::DType,
    /// Dimensions.
    pub pattern: ApPattern,
    /// Kind.
    pub kind: ApKind,
    /// Payload of a dynamic or symbolic pattern.
    pub payload: PayloadKey,
    /// [`ApHead::KEEP_DIMS`] and friends.
    pub flags: u8,
}

/// New rows of every kind.
#[derive(Default, Debug)]
#[allow(missing_docs)]
pub struct Staging {
    base: Counts,
    pub insts: Vec<InstRow>,
    pub aps: Vec<ApRow>,
    pub regs: Vec<RegRow>,
    pub locs: Vec<LocRow>,
    pub axes: Vec<AxisRow>,
    pub blocks: Vec<BlockHead>,
    pub descs: Vec<DescRow>,
    pub queues: Vec<QueueHead>,
}

impl Staging {
    /// Staging that continues after the rows of `world`.
    pub fn new(world: &World) -> Self {
        Staging { base: world.get_resource::<Counts>().copied().unwrap_or_default(), ..Default::default() }
    }

    /// Staging that continues after `base`.
    pub fn after(base: Counts) -> Self {
        Staging { base, ..Default::default() }
    }

    /// The counts that this staging continues after.
    pub fn base(&self) -> Counts {
        self.base
    }

    /// The id that the next instruction gets.
    pub fn next_inst(&self) -> InstId {
        InstId(self.base.insts + self.insts.len() as u32)
    }

    /// The id that the next access pattern gets.
    pub fn next_ap(&self) -> ApId {
        ApId(self.base.aps + self.aps.len() as u32)
    }

    /// Adds a register.
    pub fn reg(&mut self, row: RegRow) -> RegId {
        self.regs.push(row);
        RegId(self.base.regs + self.regs.len() as u32 - 1)
    }

    /// Adds a location.
    pub fn loc(&mut self, row: LocRow) -> LocId {
        self.locs.push(row);
        LocId(self.base.locs + self.locs.len() as u32 - 1)
    }

    /// Adds a loop axis.
    pub fn axis(&mut self, row: AxisRow) -> AxisId {
        self.axes.push(row);
        AxisId(self.base.axes + self.axes.len() as u32 - 1)
    }

    /// Adds a queue.
    pub fn queue(&mut self, row: QueueHead) -> QueueId {
        self.queues.push(row);
        QueueId(self.base.queues + self.queues.len() as u32 - 1)
    }

    /// Adds a DMA block.
    pub fn block(&mut self, row: BlockHead) -> DmaBlockId {
        self.blocks.push(row);
        DmaBlockId(self.base.blocks + self.blocks.len() as u32 - 1)
    }

    /// Adds a descriptor.
    pub fn desc(&mut self, row: DescRow) -> DescId {
        self.descs.push(row);
        DescId(self.base.descs + self.descs.len() as u32 - 1)
    }

    /// Adds an instruction with its operands.
    pub fn inst(&mut self, mut row: InstRow, outputs: &[Operand], inputs: &[Operand]) -> InstId {
        let id = self.next_inst();
        row.operands = InstOperands {
            first: if outputs.is_empty() && inputs.is_empty() {
                ApId::NONE
            } else {
                ApId(self.base.aps + self.aps.len() as u32)
            },
            outputs: outputs.len() as u8,
            inputs: inputs.len() as u8,
            pad: 0,
        };
        for (o, output) in outputs.iter().map(|o| (o, 1)).chain(inputs.iter().map(|o| (o, 0))) {
            self.aps.push(ApRow {
                head: ApHead {
                    loc: o.loc,
                    offset: o.offset,
                    inst: id,
                    dtype: o.dtype,
                    kind: o.kind,
                    output,
                    flags: o.flags,
                    dynamic: ApDynamic { payload: o.payload, ..Default::default() },
                },
                pattern: o.pattern.clone(),
            });
        }
        self.insts.push(row);
        id
    }

    /// Spawns everything, one batch a kind, and counts it.
    pub fn flush(self, world: &mut World) {
        let mut counts = self.base;
        let first = counts.insts == 0 && !world.contains_resource::<Recycled>();
        counts.insts += self.insts.len() as u32;
        counts.aps += self.aps.len() as u32;
        counts.regs += self.regs.len() as u32;
        counts.locs += self.locs.len() as u32;
        counts.axes += self.axes.len() as u32;
        counts.blocks += self.blocks.len() as u32;
        counts.descs += self.descs.len() as u32;
        counts.queues += self.queues.len() as u32;
        // The passes behind the first rows add to them. Most of what they add gets its room here, or each of them would
        // move every column of a full table.
        let room = |rows: usize| if first { rows } else { 0 };
        let (insts, aps, locs) = (self.insts.len(), self.aps.len(), self.locs.len());
        spawn(world, self.aps, room(aps / 16 + 1));
        spawn(world, self.regs, 0);
        spawn(world, self.locs, room(locs / 16 + 1));
        spawn(world, self.axes, 0);
        spawn(world, self.blocks, 0);
        spawn(world, self.descs, 0);
        spawn(world, self.queues, 0);
        // The last batch is the one that may give back the ids that it did not need.
        drop(world.spawn_batch(WithRoom(self.insts.into_iter(), room(insts * 3 / 2))));
        world.insert_resource(counts);
    }
}

/// Says that ids of this world were given back, and that its tables may have room from before.
#[derive(Resource, Default, Clone, Copy, Debug)]
pub struct Recycled;

/// Rows, and how many more are to have room. A batch reserves the most that its iterator may yield, rows and ids.
///
/// The ids that it did not need it gives back when it is dropped. While it drew from ids that were given back before,
/// some would be handed out twice (bevy_ecs 0.20): there is no room in a world that is [`Recycled`], and of the batches
/// with room only the last gives back.
struct WithRoom<B>(std::vec::IntoIter<B>, usize);

impl<B> Iterator for WithRoom<B> {
    type Item = B;
    #[inline]
    fn next(&mut self) -> Option<B> {
        self.0.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len(), Some(self.0.len() + self.1))
    }
}

/// Spawns one batch. Ids beyond its rows stay unused, at a note of 28 bytes each. No rows are no batch: it would look
/// its table up for nothing.
fn spawn<B: Bundle<Effect: NoBundleEffect>>(world: &mut World, rows: Vec<B>, room: usize) {
    if rows.is_empty() {
        return;
    }
    let mut batch = world.spawn_batch(WithRoom(rows.into_iter(), room));
    batch.by_ref().for_each(drop);
    if room > 0 {
        std::mem::forget(batch);
    }
}

/// The columns of a read-only query as slices, indexed by dense id. Every kind is one archetype, so there is at most
/// one run of rows.
#[macro_export]
macro_rules! columns {
    ($query:expr) => {
        match $query.contiguous_iter() {
            Ok(mut tables) => tables.next().unwrap_or_default(),
            Err(_) => Default::default(),
        }
    };
    ($query:expr, $world:expr) => {
        match $query.contiguous_iter($world) {
            Ok(mut tables) => tables.next().unwrap_or_default(),
            Err(_) => Default::default(),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::engine::EngineId;

    /// Instructions and registers in numbers that leave room, then more of them.
    fn grow(world: &mut World) {
        for rows in [700, 500, 300] {
            let mut s = Staging::new(world);
            for _ in 0..rows {
                s.insts.push(InstRow::new(Opcode::NoOp, EngineId::Dve, HloId::NONE));
                s.reg(RegRow::new(EngineId::Dve, RegRole::ApAddr, HloId::NONE));
            }
            s.flush(world);
        }
    }

    #[test]
    fn every_id_is_handed_out_once_also_in_a_world_of_old_ids() {
        let mut world = World::new();
        for _ in 0..3 {
            grow(&mut world);
            let mut rows = world.query_filtered::<Entity, Or<(With<InstHead>, With<RegHead>)>>();
            let ids: Vec<Entity> = rows.iter(&world).collect();
            let different: std::collections::BTreeSet<Entity> = ids.iter().copied().collect();
            assert_eq!((ids.len(), different.len()), (3000, 3000));
            ids.into_iter().for_each(|id| {
                world.despawn(id);
            });
            world.insert_resource(Recycled);
            world.insert_resource(Counts::default());
        }
    }

    #[test]
    fn the_first_rows_leave_room_for_more() {
        let mut world = World::new();
        grow(&mut world);
        let mut rows = world.query_filtered::<Entity, With<InstHead>>();
        let table = rows.iter(&world).next().map(|id| world.entity(id).location().table_id);
        let capacity = table.and_then(|t| world.storages().tables.get(t)).map(|t| t.capacity());
        assert_eq!(
            capacity,
            Some(700 * 5 / 2),
            "the first batch made room for two and a half times its rows"
        );
    }
}
