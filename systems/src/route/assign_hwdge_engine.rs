//! In: hardware-generated DMAs on any engine. Out: each on an engine with a generator: up to generation 4 SP or
//! Activation by a ladder on the present engine, on generation 5 round robin over [`valid_engines`]. The counter starts
//! anew for each module and runs on from what [`super::bind_dynamic_dma`] bound early; those copies keep their engine
//! (kind 2 of the source: a copy with a dynamic pattern, 14-s). SP without one stays SP (14-f). Facts: `spec/ir.md 8.2`, D4.
//!
//! ```text
//! DMACopy(dve) .. dge=hwdge   =>   DMACopy(act) .. dge=hwdge
//! ```

use super::blame;
use super::reason::{EngineReason, EngineReasons};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::engine::EngineId;
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;

const VALID: [EngineId; 3] = [EngineId::Sp, EngineId::Activation, EngineId::Dve];
/// How many of [`VALID`] there are up to generation 4.
const VALID_UP_TO_4: usize = 2;
// The ladder needs a place for SP's and one for Activation's.
const _: () = assert!(VALID_UP_TO_4 >= 2 && VALID.len() >= 2);

/// Engines with a hardware generator, in order of preference.
pub fn valid_engines(arch: u32) -> &'static [EngineId] {
    if arch <= 49 { &VALID[..VALID_UP_TO_4] } else { &VALID }
}

/// The round robin of this module: how many copies it has bound.
#[derive(Resource, Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct HwdgeTurn(pub u32);

/// The engine of a hardware-generated DMA that stands on `current`; `None` when there is none (PE). `turn` counts the
/// round robin, which asks nobody where he stands.
pub fn hwdge_engine(arch: u32, current: EngineId, turn: &mut HwdgeTurn) -> Option<EngineId> {
    let valid = valid_engines(arch);
    if arch <= 49 {
        return match current {
            EngineId::Pe => None,
            EngineId::Activation | EngineId::Dve => Some(EngineId::Activation),
            _ => Some(EngineId::Sp),
        };
    }
    let engine = valid.get(turn.0 as usize % valid.len()).copied();
    turn.0 = turn.0.wrapping_add(1);
    engine
}

/// The system.
pub fn assign_hwdge_engine(
    mut insts: Query<(&mut InstHead, &InstFrom)>,
    order: Res<Order>,
    bound: Option<Res<HwdgeTurn>>,
    mut reasons: ResMut<EngineReasons>,
    options: Res<crate::options::CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
) {
    let arch = options.target.arch();
    let bound = bound.map_or(HwdgeTurn::default(), |b| *b);
    let mut turn = bound;
    let Ok(mut tables) = insts.contiguous_iter_mut() else { return };
    let Some((mut head, from)) = tables.next() else { return };
    let head = head.bypass_change_detection();
    for &id in &order.0 {
        let Some(h) = head.get_mut(id.index()) else { continue };
        if h.op == Opcode::Exit {
            turn = bound;
        }
        if h.op != Opcode::DmaCopy || h.dge != DgeType::Hwdge || !h.live() {
            continue;
        }
        let why = if h.flags & InstHead::DYNAMIC != 0 && valid_engines(arch).contains(&h.engine) {
            EngineReason::Kept
        } else {
            match hwdge_engine(arch, h.engine, &mut turn) {
                Some(engine) => h.engine = engine,
                None => report(&sink, &module, from, id),
            }
            if arch <= 49 { EngineReason::Ladder } else { EngineReason::Turn }
        };
        if let Some(slot) = reasons.0.get_mut(id.index()) {
            *slot = why;
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
                let mut turn = HwdgeTurn::default();
                assert_eq!(hwdge_engine(arch, current, &mut turn), expected, "arch {arch} {current:?}");
                assert_eq!(turn, HwdgeTurn(0), "no turns up to generation 4");
            }
        }
    }

    #[test]
    fn round_robin_on_generation_5() {
        let mut turn = HwdgeTurn::default();
        let seen: Vec<_> = (0..5).filter_map(|_| hwdge_engine(50, Pe, &mut turn)).collect();
        assert_eq!(seen, [Sp, Activation, Dve, Sp, Activation]);
    }
}
