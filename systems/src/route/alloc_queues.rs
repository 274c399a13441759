//! In: routed DMAs. Out: a queue in each, one queue for every (engine, kind) in use, and the engine of the queue.
//! Generated DMAs go to a Dynamic queue: SWDGE on Pool, HWDGE on its bound engine. Others go to an Input, Output or
//! Data queue by the kind of their DRAM side, on SP when no engine has been chosen. A queue that is there is used again.
//! Why, in [`QueueReasons`] and [`EngineReasons`]. Each module of a batch has queues of its own, which its DMAs number from
//! 0 on. Facts: `spec/ir.md 8.3`.
//!
//! The source states a limit of two hardware-generator queues beside two engines with a generator. A queue has one
//! engine here, so the limit is one queue an engine: two up to generation 4 and, with D4, three on generation 5.
//!
//! ```text
//! DMACopy(dma) sbuf:3 <- in0 dge=none   =>   DMACopy(sp) sbuf:3 <- in0 queue=q_input_sp
//! ```

use super::assign_hwdge_engine::valid_engines;
use super::blame;
use super::reason::{EngineReason, EngineReasons, QueueReason, QueueReasons};
use crate::columns;
use crate::options::CompileOptions;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, Diagnostics, codes::lower};
use murre_components::engine::{EngineId, MAX_QUEUES};
use murre_components::hlo::HloModule;
use murre_components::ids::{InstId, QueueId};
use murre_components::program::VarKind;

/// Longest queue name, characters.
pub const MAX_QUEUE_NAME: usize = 31;

/// The name that triggers carry.
pub fn queue_name(q: &QueueHead) -> String {
    let kind = match q.kind {
        QueueKind::Input => "input",
        QueueKind::Output => "output",
        QueueKind::Data => "data",
        QueueKind::Dynamic => "dynamic",
    };
    match q.instance {
        0 => format!("q_{kind}_{}", q.engine.name()),
        n => format!("q_{kind}_{}_{n}", q.engine.name()),
    }
}

/// The queue kind of a copy whose descriptors are built ahead.
pub fn static_kind(dst: &LocHead, src: &LocHead) -> QueueKind {
    let dram = |l: &LocHead, kind| l.space == Space::Dram && l.kind == kind;
    if dram(dst, VarKind::Output) {
        QueueKind::Output
    } else if dram(src, VarKind::Input) {
        QueueKind::Input
    } else {
        QueueKind::Data
    }
}

/// Limits of the core: number of queues, hardware-generator queues, length of names.
pub fn check_queues(queues: &[QueueHead], names: impl Iterator<Item = String>, arch: u32) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    if queues.len() > MAX_QUEUES as usize {
        let message = format!("the program needs {} DMA queues, the core has {MAX_QUEUES}", queues.len());
        faults.push(Diagnostic::error(&lower::DMA_QUEUES, message));
    }
    let limit = valid_engines(arch).len();
    let hardware =
        queues.iter().filter(|q| q.kind == QueueKind::Dynamic && q.engine != EngineId::Pool).count();
    if hardware > limit {
        let message = format!("{hardware} queues of the hardware descriptor generator, the limit is {limit}");
        faults.push(Diagnostic::error(&lower::DMA_QUEUES, message));
    }
    for name in names.filter(|n| n.chars().count() > MAX_QUEUE_NAME) {
        faults.push(Diagnostic::error(&lower::DMA_QUEUE_NAME, format!("queue name `{name}` is too long")));
    }
    faults
}

/// The module of each instruction of the program, by row.
fn modules_of(order: &[InstId], heads: &[InstHead]) -> Vec<u32> {
    let mut modules = vec![u32::MAX; heads.len()];
    let mut borders = Borders::default();
    for id in order {
        borders.crosses(heads[id.index()]);
        modules[id.index()] = borders.part as u32;
    }
    modules
}

/// The system; exclusive because it appends queue rows.
pub fn alloc_queues(
    world: &mut World,
    insts: &mut QueryState<(&mut InstHead, &InstOperands, &InstFrom)>,
    aps: &mut QueryState<&ApHead>,
    locs: &mut QueryState<&LocHead>,
    queues: &mut QueryState<&QueueHead>,
) {
    let mut staging = Staging::new(world);
    let mut parts = world.remove_resource::<Parts>().unwrap_or_default();
    // Of each module, its queues by engine and kind, and those that it opens.
    let mut by_key = vec![[[QueueId::NONE; 9]; 8]; parts.0.len()];
    for (k, q) in columns!(queues, world).iter().enumerate().filter(|(_, q)| q.instance == 0) {
        by_key[0][q.engine as usize][q.kind as usize] = QueueId::new(k);
    }
    let mut opened: Vec<Vec<QueueHead>> = vec![Vec::new(); parts.0.len()];
    let there = staging.base().queues as usize;
    // Nothing for a single module.
    let module_of = if parts.are_many() {
        modules_of(&world.resource::<Order>().0, columns!(insts, world).0)
    } else {
        Vec::new()
    };
    let aps: Vec<murre_components::ids::LocId> = columns!(aps, world).iter().map(|a| a.loc).collect();
    let locs: Vec<LocHead> = columns!(locs, world).to_vec();
    let arch = world.resource::<CompileOptions>().target.arch();
    let mut undecided = Vec::new();
    let mut engines = world.remove_resource::<EngineReasons>().unwrap_or_default().0;
    let mut reasons = Vec::new();
    let mut dmas = Vec::new();
    if let Ok(tables) = insts.contiguous_iter_mut(world) {
        for (mut head, operands, from) in tables {
            let head = head.bypass_change_detection();
            dmas.resize(head.len(), InstDma::default());
            engines.resize(head.len(), EngineReason::NotBound);
            reasons.resize(head.len(), QueueReason::default());
            for (row, h) in head.iter_mut().enumerate().filter(|(_, h)| h.op == Opcode::DmaCopy && h.live()) {
                let kind = match h.dge {
                    DgeType::Swdge => {
                        h.engine = EngineId::Pool;
                        engines[row] = EngineReason::Software;
                        QueueKind::Dynamic
                    }
                    DgeType::Hwdge => QueueKind::Dynamic,
                    DgeType::None | DgeType::Unassigned => {
                        let end = |ap: murre_components::ids::ApId| locs.get(aps.get(ap.index())?.index());
                        match (end(operands[row].output(0)), end(operands[row].input(0))) {
                            (Some(d), Some(s)) => static_kind(d, s),
                            _ => QueueKind::Data,
                        }
                    }
                };
                if matches!(h.engine, EngineId::Dma | EngineId::Unassigned) {
                    h.engine = EngineId::Sp;
                    engines[row] = EngineReason::NobodyChose;
                } else if engines[row] == EngineReason::NotBound {
                    engines[row] = EngineReason::AsLowered;
                }
                if h.engine.stream().is_none() {
                    undecided.push((InstId::new(row), from[row].hlo));
                    continue;
                }
                let module = module_of.get(row).map_or(0, |m| *m as usize);
                let (Some(by_key), Some(opened)) = (by_key.get_mut(module), opened.get_mut(module)) else {
                    continue;
                };
                let slot = &mut by_key[h.engine as usize][kind as usize];
                reasons[row] = QueueReason { kind: Some(kind), opened: slot.is_none() };
                if slot.is_none() {
                    *slot = QueueId::new(there + opened.len());
                    opened.push(QueueHead { engine: h.engine, kind, instance: 0, semaphore: 0 });
                }
                dmas[row].queue = *slot;
            }
        }
    }
    let (sink, module) = (world.resource::<Diagnostics>(), world.resource::<HloModule>());
    for (k, queues) in opened.into_iter().enumerate() {
        parts.begin(k, |p| p.queue = staging.queues.len() as u32);
        check_queues(&queues, queues.iter().map(queue_name), arch).into_iter().for_each(|d| sink.push(d));
        staging.queues.extend(queues);
    }
    for (id, hlo) in undecided {
        let message = format!("DMACopy {} is on no single engine", id.0);
        sink.push(blame(&lower::ROUTE_INCONSISTENT, message, module, hlo, id));
    }
    staging.flush(world);
    world.insert_resource(parts);
    world.insert_resource(InstDmas(dmas));
    world.insert_resource(EngineReasons(engines));
    world.insert_resource(QueueReasons(reasons));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_codes() {
        let q = QueueHead { engine: EngineId::Sp, kind: QueueKind::Data, instance: 0, semaphore: 0 };
        let many = vec![q; 177];
        let ids = |d: Vec<Diagnostic>| d.iter().map(|d| d.code.id).collect::<Vec<_>>();
        assert_eq!(ids(check_queues(&many, std::iter::empty(), 30)), ["MUR0436"]);
        assert!(check_queues(&many[..176], many.iter().map(queue_name), 30).is_empty());
        let hw = [q, q, q].map(|q| QueueHead { kind: QueueKind::Dynamic, ..q });
        assert_eq!(ids(check_queues(&hw, std::iter::empty(), 40)), ["MUR0436"]);
        assert!(check_queues(&hw, std::iter::empty(), 50).is_empty());
        assert_eq!(ids(check_queues(&[q], ["x".repeat(32)].into_iter(), 30)), ["MUR0437"]);
    }

    #[test]
    fn every_name_fits() {
        for kind in [QueueKind::Input, QueueKind::Output, QueueKind::Data, QueueKind::Dynamic] {
            for engine in EngineId::STREAMS {
                let name = queue_name(&QueueHead { engine, kind, instance: 255, semaphore: 0 });
                assert!(name.len() <= MAX_QUEUE_NAME, "{name}");
            }
        }
    }
}
