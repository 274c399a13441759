//! In: blocks of any size. Out: no block holds more descriptors than the ring of pre-built descriptors (D3); what is
//! over becomes further blocks, each with its own copy instruction right behind the first (same operands, same queue).
//! A copy between variables is cut where its addresses go on without a step, if one of the last half ring's descriptors
//! allows it; a replication reads the same bytes again and any cut is as good. [`BlockRoots`] keeps which blocks belong
//! to one copy. Facts: `spec/ir.md 9.5`.
//!
//! ```text
//! DMACopy block=0 (2500 descriptors)   =>   DMACopy block=0 (1020); DMACopy block=7 (1020); DMACopy block=8 (460)
//! ```

use super::lower_dynamic_dma::insert_after;
use crate::batch::give_up;
use crate::columns;
use crate::route::dge_instruction_type::ring_depth;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::Diagnostics;
use murre_components::ids::{DescId, DmaBlockId, InstId};

/// The first block of the copy that a block is a part of, by block id.
#[derive(Resource, Default, Clone, Debug)]
pub struct BlockRoots(pub Vec<DmaBlockId>);

/// Whether a side goes on where the one before it ends.
fn continues(before: &DescSide, next: &DescSide) -> bool {
    let last = |num: u16, step: i32| (i64::from(num) - 1) * i64::from(step);
    let end = i64::from(before.base)
        + last(before.num1, before.step1)
        + last(before.num0, before.step0)
        + i64::from(before.run);
    before.var == next.var && end == i64::from(next.base)
}

/// How many of the next descriptors form a block: `descs` starts at the first of them.
fn block_size(family: DmaFamily, descs: (&[DescSrc], &[DescDst]), depth: u32) -> u32 {
    let (src, dst) = descs;
    let (Ok(left), most) = (u32::try_from(src.len()), depth as usize) else { return depth };
    if left <= depth {
        return left;
    }
    let between =
        src.first().is_some_and(|s| s.0.var != u32::MAX) && dst.first().is_some_and(|d| d.0.var != u32::MAX);
    if family == DmaFamily::Replicate || !between {
        return depth;
    }
    let whole = |k: &usize| match (src.get(k - 1..=*k), dst.get(k - 1..=*k)) {
        (Some([s0, s1]), Some([d0, d1])) => continues(&s0.0, &s1.0) && continues(&d0.0, &d1.0),
        _ => false,
    };
    (most / 2 + 1..=most).rev().find(whole).map_or(depth, |k| k as u32)
}

/// The system.
pub fn split_large_dmas(
    world: &mut World,
    blocks: &mut QueryState<&mut BlockHead>,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    descs: &mut QueryState<&mut DescHead>,
    sides: &mut QueryState<(&DescSrc, &DescDst)>,
) {
    let depth = ring_depth(DgeType::None);
    let (mut roots, mut large) = (Vec::new(), Vec::new());
    if let Ok(tables) = blocks.contiguous_iter_mut(world) {
        for mut column in tables {
            for (k, b) in column.bypass_change_detection().iter_mut().enumerate() {
                roots.push(DmaBlockId::new(k));
                if b.count > depth {
                    large.push((DmaBlockId::new(k), *b));
                }
            }
        }
    }
    if !large.is_empty()
        && give_up(
            world.resource::<Parts>(),
            world.resource::<Diagnostics>(),
            "a block is past the ring depth",
        )
    {
        return;
    }
    let mut staging = Staging::new(world);
    let mut clones: Vec<(InstId, InstId)> = Vec::new();
    let mut moved: Vec<(DmaBlockId, BlockHead)> = Vec::new();
    let mut shortened: Vec<(DmaBlockId, u32)> = Vec::new();
    if !large.is_empty() {
        let (heads, operands, args, regs, from) = columns!(insts, world);
        let (ap, patterns) = columns!(aps, world);
        let (srcs, dsts) = columns!(sides, world);
        for (root, whole) in large {
            let row = whole.trigger.index();
            let end = (whole.first.0 + whole.count) as usize;
            let size = |at: u32| {
                let range = (whole.first.0 + at) as usize..end;
                match (srcs.get(range.clone()), dsts.get(range)) {
                    (Some(s), Some(d)) => block_size(whole.family, (s, d), depth),
                    _ => depth.min(whole.count - at),
                }
            };
            let mut at = size(0);
            shortened.push((root, at));
            while at < whole.count {
                let count = size(at);
                let (id, first) = (staging.next_inst(), staging.next_ap());
                let block = DmaBlockId::new(staging.base().blocks as usize + staging.blocks.len());
                for k in operands[row].range() {
                    let head = ApHead { inst: id, ..ap[k] };
                    staging.aps.push(ApRow { head, pattern: patterns[k].clone() });
                }
                staging.insts.push(InstRow {
                    head: heads[row],
                    operands: InstOperands { first, ..operands[row] },
                    args: args[row],
                    regs: regs[row],
                    from: InstFrom { owner: whole.trigger, ..from[row] },
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
    let mut dmas = world.resource_mut::<InstDmas>();
    for &(block, piece) in &moved {
        dmas.put(piece.trigger, InstDma { block, queue: piece.queue });
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
    if let (false, Ok(tables)) = (shortened.is_empty(), blocks.contiguous_iter_mut(world)) {
        for mut column in tables {
            let column = column.bypass_change_detection();
            for (block, count) in shortened.drain(..) {
                column[block.index()].count = count;
            }
        }
    }
    insert_after(&mut world.resource_mut::<Order>(), &clones);
    world.insert_resource(BlockRoots(roots));
    staging.flush(world);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors of 8 bytes between two variables: the k-th side starts at `at(k)`.
    fn sides(n: u32, var: u32, at: impl Fn(u32) -> u32) -> Vec<DescSide> {
        let side = |k| DescSide { base: at(k), var, step0: 0, step1: 0, num0: 1, num1: 1, run: 8 };
        (0..n).map(side).collect()
    }

    fn size(family: DmaFamily, src: &[DescSide], dst: &[DescSide], depth: u32) -> u32 {
        let src: Vec<DescSrc> = src.iter().copied().map(DescSrc).collect();
        let dst: Vec<DescDst> = dst.iter().copied().map(DescDst).collect();
        block_size(family, (&src, &dst), depth)
    }

    #[test]
    fn copies_between_variables_are_cut_where_they_go_on() {
        // Groups of seven descriptors are contiguous, groups are apart.
        let grouped = |k: u32| 8 * k + 100 * (k.div_ceil(7));
        let (src, dst) = (sides(50, 0, grouped), sides(50, 1, |k| 8 * k));
        assert_eq!(size(DmaFamily::Copy, &src, &dst, 20), 20, "between 19 and 20 nothing jumps");
        let (src, dst) = (sides(50, 0, |k| 8 * k + 100 * (k / 19)), sides(50, 1, |k| 8 * k));
        assert_eq!(size(DmaFamily::Copy, &src, &dst, 19), 18, "the jump is in front of 19");
        let apart = sides(50, 0, |k| 16 * k);
        assert_eq!(size(DmaFamily::Copy, &apart, &dst, 20), 20, "no place is better than another");
        assert_eq!(size(DmaFamily::Replicate, &src, &dst, 19), 19);
        let sbuf = sides(50, u32::MAX, |k| 8 * k);
        assert_eq!(size(DmaFamily::Copy, &src, &sbuf, 19), 19, "only between variables");
        assert_eq!(size(DmaFamily::Copy, &src[..12], &dst[..12], 20), 12);
    }
}
