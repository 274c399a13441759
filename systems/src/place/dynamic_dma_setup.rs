//! `dynamic_dma_setup`: reserves the scratch of the descriptor generators at the low end of every SBUF partition
//! (`spec/ir.md 10.3`, D18) before anything else is placed. Exactly one exists; a second one is our bug.
//!
//! The program is one function by now: calls are inlined (stage `legalize`), so the assertion of the source that there
//! is exactly one has nothing to look at. The size is an option (1.5); a scratch of 0 bytes is none, and then no row is
//! made. Options that contradict the target are refused here, before anything is placed.

use super::Reuse;
use crate::options::{CompileOptions, DgeRoute};
use crate::route::dge_instruction_type::has_hardware;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::codes::lower::{DGE_NO_HARDWARE, DGE_SCRATCH};
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

/// Options about generators that the target cannot keep.
fn impossible(o: &CompileOptions) -> Option<Diagnostic> {
    if let Some(fault) = o.scratch_fault() {
        return Some(Diagnostic::error(&DGE_SCRATCH, DGE_SCRATCH.title).found(fault));
    }
    (o.dge_route == DgeRoute::Hardware && !has_hardware(o.target.arch())).then(|| {
        let message = format!("{} has no hardware descriptor generator", o.target.name());
        Diagnostic::error(&DGE_NO_HARDWARE, message)
            .found("--dge-route hw")
            .expected("a target from trn2 on")
            .help("leave --dge-route out, or say sw")
    })
}

/// The pass.
pub fn dynamic_dma_setup(world: &mut World, locs: &mut QueryState<&LocHead>) {
    world.init_resource::<Reuse>();
    if let Some(d) = impossible(world.resource::<CompileOptions>()) {
        world.resource::<Diagnostics>().push(d);
        return;
    }
    if let Some(fault) = world.resource::<CompileOptions>().sbuf_fault() {
        let d = Diagnostic::error(&RES_SBUF_LIMIT, "the limit of SBUF cannot be kept").found(fault);
        world.resource::<Diagnostics>().push(d);
        return;
    }
    let heads: &[LocHead] = crate::columns!(locs, world);
    if heads.iter().any(|h| h.flags & LocHead::SCRATCH != 0) {
        let d = Diagnostic::error(&INTERNAL, "the dynamic-DMA scratch was set up twice");
        world.resource::<Diagnostics>().push(d);
        return;
    }
    let bytes = reserved_bytes(world.resource::<CompileOptions>());
    if bytes == 0 {
        return;
    }
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
    use bevy_ecs::system::RunSystemOnce;

    #[test]
    fn one_scratch_at_zero_and_never_two() {
        let mut c = synthetic(50, 1);
        c.world.run_system_once(dynamic_dma_setup).expect("it runs");
        let mut q = c.world.query::<(&LocHead, &LocPlace)>();
        let found: Vec<_> = q.iter(&c.world).filter(|(h, _)| h.flags & LocHead::SCRATCH != 0).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.part_bytes(), found[0].1.address), (0x4008, 0));
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        c.world.run_system_once(dynamic_dma_setup).expect("it runs");
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
            c.world.run_system_once(dynamic_dma_setup).expect("it runs");
            let found = c.world.resource::<Diagnostics>().take();
            assert_eq!(found.is_empty(), good, "{limit}");
            assert!(found.iter().all(|d| d.code.id == "MUR0505"));
        }
    }
}
