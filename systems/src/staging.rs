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
        let room = |rows: usize, share: usize| if first && rows > 0 { share } else { 0 };
        let (insts, aps, locs) = (self.insts.len(), self.aps.len(), self.locs.len());
        let for_aps = room(aps, aps / 16 + 1);
        let for_locs = room(locs, locs / 16 + 1);
        let for_insts = room(insts, insts * 3 / 2);
        let mut spare = Spare::default();
        if first && insts > 0 {
            let rows = aps + self.regs.len() + locs + self.axes.len() + self.blocks.len() + self.descs.len();
            let ids = rows + self.queues.len() + insts + for_aps + for_locs + for_insts;
            spare = Spare::ahead(world, ids as u32, insts as u32 / 2);
        }
        spare.spawn(world, self.aps, for_aps);
        spare.spawn(world, self.regs, 0);
        spare.spawn(world, self.locs, for_locs);
        spare.spawn(world, self.axes, 0);
        spare.spawn(world, self.blocks, 0);
        spare.spawn(world, self.descs, 0);
        spare.spawn(world, self.queues, 0);
        spare.spawn(world, self.insts, for_insts);
        // Only behind the last batch with room: what draws from ids that were given back must not over-ask.
        world.entity_allocator_mut().free_many(&spare.ids);
        world.insert_resource(counts);
    }
}

/// Says that ids of this world were given back, and that its tables may have room from before.
#[derive(Resource, Default, Clone, Copy, Debug)]
pub struct Recycled;

/// Rows, and how many more are to have room. A batch reserves the most that its iterator may yield, rows and ids.
///
/// The ids that it did not need it gives back when it is dropped, one by one; and while it drew from ids that were given
/// back before, some would be handed out twice (bevy_ecs 0.20). So there is no room in a world that is [`Recycled`], and
/// a batch with room is forgotten: its ids are [`Spare`].
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

/// Ids that batches asked for and did not need.
#[derive(Default)]
struct Spare {
    ids: Vec<Entity>,
    /// The index that the next batch begins with. Known while the world counts upwards, having none given back to it.
    next: Option<u32>,
    /// The last id of all batches, as it is to be given back.
    end: Option<Entity>,
}

impl Spare {
    /// Before batches of `ids` ids in total, the last of them with room. Takes `more` ids besides, and makes the world's
    /// notes on ids long enough for all at once: else they grow by doubling under the batches, and are copied each time.
    fn ahead(world: &mut World, ids: u32, more: u32) -> Spare {
        let mut spare =
            Spare { ids: world.entity_allocator().alloc_many(more + 2).collect(), ..Spare::default() };
        let Some(last) = spare.ids.last().map(|id| id.index_u32()) else { return spare };
        if spare.ids.windows(2).all(|pair| pair[0].index_u32() + 1 == pair[1].index_u32()) {
            spare.next = Some(last + 1);
            // A note is made when something stands at its id.
            let end = last.checked_add(ids).and_then(Entity::from_raw_u32);
            if let Some(Ok(stands)) = end.map(|id| world.spawn_empty_at(id)) {
                spare.end = Some(stands.despawn_no_free());
            }
        }
        spare
    }

    /// Spawns one batch. No rows are no batch: it would look its table up for nothing.
    fn spawn<B: Bundle<Effect: NoBundleEffect>>(&mut self, world: &mut World, rows: Vec<B>, room: usize) {
        if rows.is_empty() {
            return;
        }
        let asked = (rows.len() + room) as u32;
        let mut batch = world.spawn_batch(WithRoom(rows.into_iter(), room));
        let last = batch.by_ref().last();
        if room > 0 {
            std::mem::forget(batch);
        }
        self.next = self.next.map(|first| first + asked);
        if let (Some(next), Some(last)) = (self.next, last) {
            let unused = last.index_u32() + 1..next;
            self.ids.extend(unused.filter_map(Entity::from_raw_u32));
        }
        if let (Some(end), Some(id)) = (self.end, self.ids.last_mut())
            && id.index_u32() == end.index_u32()
        {
            *id = end;
        }
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
    fn ids_that_were_over_asked_are_handed_out_before_new_ones() {
        let mut world = World::new();
        let mut notes = Vec::new();
        for rows in [700, 500] {
            let mut s = Staging::new(&world);
            for _ in 0..rows {
                s.insts.push(InstRow::new(Opcode::NoOp, EngineId::Dve, HloId::NONE));
                s.reg(RegRow::new(EngineId::Dve, RegRole::ApAddr, HloId::NONE));
            }
            s.flush(&mut world);
            notes.push(world.entities().len());
        }
        assert_eq!(
            notes[0], notes[1],
            "the world noted all ids of the first batches at once, and knows no others"
        );
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
