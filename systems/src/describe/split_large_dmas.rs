//! In: blocks of any size. Out: no block holds more descriptors than the ring of pre-built descriptors (D3); what is
//! over becomes further blocks, each with its own copy instruction right behind the first (same operands, same queue).
//! [`BlockRoots`] keeps which blocks belong to one copy. Facts: `spec/ir.md 9.5`.
//!
//! ```text
//! DMACopy block=0 (2500 descriptors)   =>   DMACopy block=0 (1020); DMACopy block=7 (1020); DMACopy block=8 (460)
//! ```

use super::lower_dynamic_dma::insert_after;
use crate::columns;
use crate::route::dge_instruction_type::ring_depth;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::ids::{DescId, DmaBlockId, InstId};

/// The first block of the copy that a block is a part of, by block id.
#[derive(Resource, Default, Clone, Debug)]
pub struct BlockRoots(pub Vec<DmaBlockId>);

/// The system.
pub fn split_large_dmas(
    world: &mut World,
    blocks: &mut QueryState<&mut BlockHead>,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom, &InstDma, &InstSync)>,
    aps: &mut QueryState<(&ApHead, &ApPattern, &ApDynamic)>,
    descs: &mut QueryState<&mut DescHead>,
) {
    let depth = ring_depth(DgeType::None);
    let (mut roots, mut large) = (Vec::new(), Vec::new());
    if let Ok(tables) = blocks.contiguous_iter_mut(world) {
        for mut column in tables {
            for (k, b) in column.bypass_change_detection().iter_mut().enumerate() {
                roots.push(DmaBlockId::new(k));
                if b.count > depth {
                    large.push((DmaBlockId::new(k), *b));
                    b.count = depth;
                }
            }
        }
    }
    let mut staging = Staging::new(world);
    let mut clones: Vec<(InstId, InstId)> = Vec::new();
    let mut moved: Vec<(DmaBlockId, BlockHead)> = Vec::new();
    if !large.is_empty() {
        let (heads, operands, args, regs, from, dma, sync) = columns!(insts, world);
        let (ap, patterns, dynamics) = columns!(aps, world);
        for (root, whole) in large {
            let row = whole.trigger.index();
            let mut at = depth;
            while at < whole.count {
                let count = depth.min(whole.count - at);
                let (id, first) = (staging.next_inst(), staging.next_ap());
                let block = DmaBlockId::new(staging.base().blocks as usize + staging.blocks.len());
                for k in operands[row].range() {
                    let head = ApHead { inst: id, ..ap[k] };
                    let (pattern, dynamic) = (patterns[k].clone(), dynamics[k]);
                    staging.aps.push(ApRow { head, pattern, dynamic, word: ApWord(0) });
                }
                staging.insts.push(InstRow {
                    head: heads[row],
                    operands: InstOperands { first, ..operands[row] },
                    args: args[row],
                    regs: regs[row],
                    from: InstFrom { owner: whole.trigger, ..from[row] },
                    dma: InstDma { block, ..dma[row] },
                    sync: sync[row],
                });
                let piece = BlockHead { first: DescId(whole.first.0 + at), count, trigger: id, ..whole };
                staging.block(piece);
                roots.push(root);
                moved.push((block, piece));
                clones.push((whole.trigger, id));
                at += count;
            }
        }
    }
    if let (false, Ok(tables)) = (moved.is_empty(), descs.contiguous_iter_mut(world)) {
        for mut column in tables {
            let column = column.bypass_change_detection();
            for (block, piece) in moved.drain(..) {
                let first = piece.first.index();
                column[first..first + piece.count as usize].iter_mut().for_each(|d| d.block = block);
            }
        }
    }
    insert_after(&mut world.resource_mut::<Order>(), &clones);
    world.insert_resource(BlockRoots(roots));
    staging.flush(world);
}
