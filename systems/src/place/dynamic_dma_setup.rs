//! `dynamic_dma_setup`: reserves the scratch of the descriptor generators at the low end of every SBUF partition
//! (`spec/ir.md 10.3`, D18) before anything else is placed. Exactly one exists; a second one is our bug.

use super::Reuse;
use crate::options::CompileOptions;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::codes::resource::RES_SBUF_LIMIT;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::dtype::DType;
use murre_components::engine::PARTITIONS;
use murre_components::ids::HloId;

/// Bytes at the low end of a partition that no tile may use.
pub fn reserved_bytes(options: &CompileOptions) -> u32 {
    options.sbuf_reserved()
}

/// Bytes of a partition that may be used, the reserved ones included.
pub fn usable_bytes(options: &CompileOptions) -> u32 {
    let all = options.target.profile().sbuf_partition_bytes;
    options.sbuf_limit.map_or(all, |limit| limit.min(all))
}

/// The pass.
pub fn dynamic_dma_setup(world: &mut World) {
    world.init_resource::<Reuse>();
    if let Some(fault) = world.resource::<CompileOptions>().sbuf_fault() {
        let d = Diagnostic::error(&RES_SBUF_LIMIT, "the limit of SBUF cannot be kept").found(fault);
        world.resource::<Diagnostics>().push(d);
        return;
    }
    let mut query = world.query::<&LocHead>();
    let heads: &[LocHead] = crate::columns!(query, world);
    if heads.iter().any(|h| h.flags & LocHead::SCRATCH != 0) {
        let d = Diagnostic::error(&INTERNAL, "the dynamic-DMA scratch was set up twice");
        world.resource::<Diagnostics>().push(d);
        return;
    }
    let bytes = reserved_bytes(world.resource::<CompileOptions>());
    let mut row = LocRow::new(Space::Sbuf, DType::U8, PARTITIONS, bytes as u64, HloId::NONE);
    row.head.flags = LocHead::SCRATCH | LocHead::PINNED;
    row.place.address = 0;
    let mut rows = Staging::new(world);
    rows.loc(row);
    rows.flush(world);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::synthetic;

    #[test]
    fn one_scratch_at_zero_and_never_two() {
        let mut c = synthetic(50, 1);
        dynamic_dma_setup(&mut c.world);
        let mut q = c.world.query::<(&LocHead, &LocPlace)>();
        let found: Vec<_> = q.iter(&c.world).filter(|(h, _)| h.flags & LocHead::SCRATCH != 0).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.part_bytes(), found[0].1.address), (0x4008, 0));
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        dynamic_dma_setup(&mut c.world);
        assert_eq!(c.world.resource::<Diagnostics>().take()[0].code.id, "MUR1001");
    }

    #[test]
    fn a_limit_out_of_range_or_off_the_grid_is_refused() {
        for (limit, good) in [
            (16_384, false),
            (16_392, false),
            (16_448, true),
            (16_480, false),
            (0x38000, true),
            (0x38040, false),
        ] {
            let mut c = synthetic(50, 1);
            c.world.resource_mut::<CompileOptions>().sbuf_limit = Some(limit);
            dynamic_dma_setup(&mut c.world);
            let found = c.world.resource::<Diagnostics>().take();
            assert_eq!(found.is_empty(), good, "{limit}");
            assert!(found.iter().all(|d| d.code.id == "MUR0505"));
        }
    }
}
