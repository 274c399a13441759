//! In: DMAs on the abstract engine. Out: a copy that stores an on-chip value to DRAM (other than an output) is issued
//! by the engine that wrote the value last in the same block, so that no semaphore is needed between the two. Others
//! stay abstract; `alloc_queues` gives those to SP. When hardware-generated DMAs would stand on more than one engine,
//! IO copies go to SP. Facts: `spec/ir.md 8.1`.
//!
//! ```text
//! TensorTensor(dve) sbuf:3 = ..            TensorTensor(dve) sbuf:3 = ..
//! DMACopy(dma)      tmp4 <- sbuf:3   =>    DMACopy(dve)      tmp4 <- sbuf:3
//! ```

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
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
    mut insts: Query<(&mut InstHead, &InstOperands)>,
    aps: Query<&ApHead>,
    locs: Query<&LocHead>,
    order: Res<Order>,
    blocks: Res<Blocks>,
) {
    let (aps, locs) = (columns!(aps), columns!(locs));
    let Ok(mut tables) = insts.contiguous_iter_mut() else { return };
    let Some((mut head, operands)) = tables.next() else { return };
    let head = head.bypass_change_detection();
    let mut writers = vec![Writer { block: u32::MAX, engine: EngineId::Unassigned }; locs.len()];
    let mut block = 0u32;
    for (position, id) in order.0.iter().enumerate() {
        while blocks.starts.get(block as usize + 1).is_some_and(|s| *s as usize <= position) {
            block += 1;
        }
        let (Some(h), Some(ops)) = (head.get_mut(id.index()), operands.get(id.index())) else { continue };
        if ops.outputs == 0 || !h.live() {
            continue;
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
    if engines.count_ones() > 1 {
        for h in head.iter_mut().filter(|h| h.op == Opcode::DmaCopy && h.live()) {
            let bound =
                h.dge == DgeType::Hwdge && h.engine != EngineId::Dma && h.engine != EngineId::Unassigned;
            if !bound && h.dge != DgeType::Swdge && h.flags & InstHead::IO != 0 {
                h.engine = EngineId::Sp;
            }
        }
    }
}
