//! In: copies with route None. Out: a block of 2-D descriptors for each, all spawned in one batch; the copy names its
//! block, the block its family ([`super::family`]). Adjacent dimensions that continue each other on both sides are one, runs past 65,536 bytes are peeled, the
//! two largest remaining dimensions stay in the descriptor and the others are unrolled. With a cast the run has equal
//! element counts and different bytes on the two sides. Facts: `spec/ir.md 9.4`, `spec/isa.md 4.3`, D1, D6.
//!
//! ```text
//! DMACopy sbuf:3[64,128][1,64] <- in0[64,128][1,64]   =>   block 0: run 256 B, 128 x (0x40000 <- 256)
//! ```

use super::family::{descriptors_of, family_of};
use super::shape::{CopyShape, Cut, copy_shape, side_base};
use crate::columns;
use crate::route::blame;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Code, Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::ids::{DescId, DmaBlockId, HloId, InstId};

/// The system.
pub fn lower_dma(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    locs: &mut QueryState<(&LocHead, &LocPlace)>,
) {
    let mut staging = Staging::new(world);
    let first_desc = world.resource::<crate::staging::Counts>().descs;
    let mut faults: Vec<(Code, InstId, HloId)> = Vec::new();
    let mut refused: Vec<(Code, &'static str, InstId, HloId)> = Vec::new();
    let mut blocks: Vec<(InstId, DmaBlockId)> = Vec::new();
    let mut parts = world.remove_resource::<Parts>().unwrap_or_default();
    let mut borders = Borders::default();
    {
        let (heads, operands, args, from) = columns!(insts, world);
        let dmas = world.resource::<InstDmas>();
        let (ap, patterns) = columns!(aps, world);
        let (loc, place) = columns!(locs, world);
        for &id in &world.resource::<Order>().0 {
            let row = id.index();
            let Some(h) = heads.get(row) else { continue };
            if borders.crosses(*h) {
                let next = (staging.blocks.len() as u32, staging.descs.len() as u32);
                parts.begin(borders.part, |p| (p.block, p.desc) = next);
            }
            if h.op != Opcode::DmaCopy || !h.live() || h.dge != DgeType::None {
                continue;
            }
            let hlo = from[row].hlo;
            let side = |k: usize| {
                let head = ap.get(k)?;
                Some((head, patterns.get(k)?, loc.get(head.loc.index())?, place.get(head.loc.index())?))
            };
            let (d, s) = (operands[row].output(0).index(), operands[row].input(0).index());
            let (Some(d), Some(s)) = (side(d), side(s)) else {
                faults.push((&lower::DMA_SHAPE, id, hlo));
                continue;
            };
            if operands[row]
                .range()
                .any(|k| ap.get(k).is_some_and(|x| x.dynamic.payload != PayloadKey::default()))
            {
                faults.push((&lower::DMA_DYNAMIC_AHEAD, id, hlo));
                continue;
            }
            let Some(shape) = copy_shape((d.0, d.1, d.2), (s.0, s.1, s.2)) else {
                faults.push((&lower::DMA_SHAPE, id, hlo));
                continue;
            };
            let family = match descriptors_of(family_of(&shape, args[row].op0)) {
                Ok(family) => family,
                Err((code, reason)) => {
                    refused.push((code, reason, id, hlo));
                    continue;
                }
            };
            let (Some(dst), Some(src)) = (side_base(d.0, d.2, d.3), side_base(s.0, s.2, s.3)) else {
                faults.push((&lower::DMA_ADDRESS, id, hlo));
                continue;
            };
            let block = DmaBlockId::new(staging.base().blocks as usize + staging.blocks.len());
            let before = staging.descs.len();
            let head = DescHead {
                block,
                hlo,
                src_tag: s.0.dtype.wire_tag(),
                dst_tag: d.0.dtype.wire_tag(),
                sem: 0,
                sem_inc: 0,
            };
            let mut reached = true;
            shape.cuts(|cut| match descriptor(&shape, &cut, head, dst, src) {
                Some(row) => staging.descs.push(row),
                None => reached = false,
            });
            if !reached {
                faults.push((&lower::DMA_ADDRESS, id, hlo));
            }
            let (first, count) = (DescId(first_desc + before as u32), (staging.descs.len() - before) as u32);
            staging.block(BlockHead { queue: dmas.of(row).queue, first, count, trigger: id, family });
            blocks.push((id, block));
        }
    }
    let mut dmas = world.resource_mut::<InstDmas>();
    for (id, block) in blocks {
        let dma = InstDma { block, ..dmas.of(id.index()) };
        dmas.put(id, dma);
    }
    world.insert_resource(parts);
    let (sink, module) = (world.resource::<Diagnostics>(), world.resource::<HloModule>());
    for (code, id, hlo) in faults {
        sink.push(blame(code, format!("DMACopy {}: {}", id.0, code.title), module, hlo, id));
    }
    for (code, reason, id, hlo) in refused {
        let message = format!("DMACopy {}: {}: {reason}", id.0, code.title);
        sink.push(blame(code, message, module, hlo, id));
    }
    staging.flush(world);
}

/// One descriptor; `None` when an address leaves its 32 bits.
fn descriptor(
    shape: &CopyShape,
    cut: &Cut,
    head: DescHead,
    dst: (u32, u32),
    src: (u32, u32),
) -> Option<DescRow> {
    let side = |(var, base): (u32, u32), step: super::shape::Step, s0: i64, s1: i64, bytes: u32| {
        Some(DescSide {
            base: u32::try_from(i64::from(base) + step.bytes).ok()?,
            var,
            step0: i32::try_from(s0).ok()?,
            step1: i32::try_from(s1).ok()?,
            num0: cut.dim0.num as u16,
            num1: cut.dim1.num as u16,
            run: cut.run * bytes,
        })
    };
    Some(DescRow {
        head,
        src: DescSrc(side(src, cut.src, cut.dim0.src.bytes, cut.dim1.src.bytes, shape.src_bytes)?),
        dst: DescDst(side(dst, cut.dst, cut.dim0.dst.bytes, cut.dim1.dst.bytes, shape.dst_bytes)?),
    })
}
