//! In: hardware-generated DMAs on any engine. Out: each on an engine with a generator: up to generation 4 SP or
//! Activation by a ladder on the present engine, on generation 5 round robin over [`valid_engines`]. The counter starts
//! anew for each module. Facts: `spec/ir.md 8.2`, D4.
//!
//! ```text
//! DMACopy(dve) .. dge=hwdge   =>   DMACopy(act) .. dge=hwdge
//! ```

use super::blame;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;

/// Engines with a hardware generator, in order of preference.
pub fn valid_engines(arch: u32) -> &'static [EngineId] {
    if arch <= 49 {
        &[EngineId::Sp, EngineId::Activation]
    } else {
        &[EngineId::Sp, EngineId::Activation, EngineId::Dve]
    }
}

/// The engine of a hardware-generated DMA that stands on `current`; `None` when there is none (PE). `turn` counts the
/// round robin.
pub fn hwdge_engine(arch: u32, current: EngineId, turn: &mut u32) -> Option<EngineId> {
    let valid = valid_engines(arch);
    if arch <= 49 {
        return match current {
            EngineId::Pe => None,
            EngineId::Activation | EngineId::Dve => Some(EngineId::Activation),
            _ => Some(EngineId::Sp),
        };
    }
    let engine = valid.get(*turn as usize % valid.len()).copied();
    *turn = turn.wrapping_add(1);
    engine
}

/// The system.
pub fn assign_hwdge_engine(
    mut insts: Query<(&mut InstHead, &InstFrom)>,
    order: Res<Order>,
    options: Res<crate::options::CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let arch = options.target.arch();
    let mut turn = 0;
    let Ok(mut tables) = insts.contiguous_iter_mut() else { return };
    let Some((mut head, from)) = tables.next() else { return };
    let head = head.bypass_change_detection();
    for &id in &order.0 {
        let Some(h) = head.get_mut(id.index()) else { continue };
        if h.op != Opcode::DmaCopy || h.dge != DgeType::Hwdge || !h.live() {
            continue;
        }
        match hwdge_engine(arch, h.engine, &mut turn) {
            Some(engine) => h.engine = engine,
            None => report(&sink, &module, from, id),
        }
    }
}

fn report(sink: &Diagnostics, module: &HloModule, from: &[InstFrom], id: InstId) {
    let hlo = from.get(id.index()).map(|f| f.hlo).unwrap_or_default();
    sink.push(blame(&lower::DMA_ON_PE, format!("DMACopy {} stands on PE", id.0), module, hlo, id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use EngineId::*;

    #[test]
    fn the_ladder_up_to_generation_4() {
        for arch in [20, 30, 40] {
            let table = [
                (Dma, Some(Sp)),
                (Unassigned, Some(Sp)),
                (Pool, Some(Sp)),
                (Sp, Some(Sp)),
                (Activation, Some(Activation)),
                (Dve, Some(Activation)),
                (Pe, None),
            ];
            for (current, expected) in table {
                assert_eq!(hwdge_engine(arch, current, &mut 0), expected, "arch {arch} {current:?}");
            }
        }
    }

    #[test]
    fn round_robin_on_generation_5() {
        let mut turn = 0;
        let seen: Vec<_> = (0..5).filter_map(|_| hwdge_engine(50, Pe, &mut turn)).collect();
        assert_eq!(seen, [Sp, Activation, Dve, Sp, Activation]);
    }
}
