//! In: descriptors in block order. Out: [`DescriptorRecords`], a 0xD4 record each, events unused, completion semaphore
//! and increment at +0D and +0E. Facts: `spec/isa.md 4.3`, D6.

use crate::columns;
use crate::route::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;
use murre_components::isa::dma::RowBytes;
use murre_components::isa::{self, Addr8, BoundRegister, DmaDirect, Events, Fault};
use murre_components::program::Record;

/// Records of all descriptors, by descriptor id.
#[derive(Resource, Default, Clone, Debug)]
pub struct DescriptorRecords(pub Vec<Record>);

fn address(s: &DescSide) -> Result<Addr8, Fault> {
    if s.var == u32::MAX { Addr8::immediate(u64::from(s.base)) } else { Addr8::variable(s.var, s.base) }
}

fn record(head: &DescHead, src: &DescSide, dst: &DescSide) -> Result<Record, Fault> {
    let direct = DmaDirect {
        priority: 0,
        semaphore: head.sem,
        increment: head.sem_inc,
        dge_op: 0,
        src: address(src)?,
        src_step: [src.step0, src.step1],
        src_num: [src.num0, src.num1],
        src_row: RowBytes::new(src.run)?,
        src_bound: BoundRegister::NONE,
        dst_bound: BoundRegister::NONE,
        dst: address(dst)?,
        dst_step: [dst.step0, dst.step1],
        dst_num: [dst.num0, dst.num1],
        dst_row: RowBytes::new(dst.run)?,
        src_dtype: head.src_tag,
        dst_dtype: head.dst_tag,
    };
    Ok(isa::encode(&direct, &Events::NONE))
}

/// The system.
pub fn encode_descriptors(
    descs: Query<(&DescHead, &DescSrc, &DescDst)>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
    mut result: ResMut<DescriptorRecords>,
) {
    let (heads, srcs, dsts) = columns!(descs);
    let mut records = Vec::with_capacity(heads.len());
    for ((head, src), dst) in heads.iter().zip(srcs).zip(dsts) {
        match record(head, &src.0, &dst.0) {
            Ok(r) => records.push(r),
            Err(f) => {
                let message =
                    format!("descriptor {}: {} (found {:#x})", records.len(), f.code.title, f.found);
                sink.push(
                    blame(&lower::DMA_ADDRESS, message, &module, head.hlo, InstId::NONE).expected(f.expected),
                );
                records.push([0; 64]);
            }
        }
    }
    result.0 = records;
}
