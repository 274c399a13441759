//! The stage on whole programs: what each pass leaves, and that each of its checks can fail.

use super::alloc_queues::queue_name;
use super::assign_hwdge_engine::{HwdgeTurn, valid_engines};
use super::reason::{DmaWhy, EngineReason, EngineReasons, QueueReasons};
use super::*;
use crate::Compiler;
use crate::columns;
use crate::options::{CompileOptions, DgeLevels, DgeRoute};
use crate::synth::synthetic;
use bevy_ecs::system::RunSystemOnce;
use murre_components::bir::*;
use murre_components::diag::Diagnostics;
use murre_components::engine::{EngineId, Target};

/// A synthetic program behind stage `last`, compiled under `change`d options.
fn program(last: Stage, change: impl Fn(&mut CompileOptions)) -> Compiler {
    let mut c = synthetic(1500, 5);
    let mut options = c.world.resource_mut::<CompileOptions>();
    options.verify = true;
    change(&mut options);
    let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place && *s <= last).collect();
    c.run(&stages);
    c
}

fn codes(c: &Compiler) -> Vec<&'static str> {
    c.world.resource::<Diagnostics>().take().iter().map(|d| d.code.id).collect()
}

/// Live copies in program order.
fn copies(c: &mut Compiler) -> Vec<(InstId, InstHead, InstDma)> {
    let order = c.world.resource::<Order>().0.clone();
    let mut q = c.world.query::<&InstHead>();
    let heads: &[InstHead] = columns!(q, &c.world);
    let dmas = c.world.resource::<InstDmas>();
    let of = |id: &InstId| (*id, heads[id.index()], dmas.of(id.index()));
    order.iter().map(of).filter(|(_, h, _)| h.op == Opcode::DmaCopy && h.live()).collect()
}

fn dynamic(h: &InstHead) -> bool {
    h.flags & InstHead::DYNAMIC != 0
}

/// Changes the first copy that `wanted` picks.
fn change(c: &mut Compiler, wanted: impl Fn(&InstHead) -> bool, to: impl Fn(&mut InstHead)) {
    let (id, ..) = copies(c).into_iter().find(|(_, h, _)| wanted(h)).expect("such a copy");
    let mut q = c.world.query::<&mut InstHead>();
    let mut head = q.iter_mut(&mut c.world).nth(id.index()).expect("a row");
    to(&mut head);
}

#[test]
fn hardware_copies_stand_on_engines_with_a_generator_and_their_registers_with_them() {
    for target in [Target::Trn2, Target::Trn3, Target::CoreV5] {
        let mut c = program(Stage::Sync, |o| (o.target, o.dge_route) = (target, DgeRoute::Hardware));
        assert_eq!(codes(&c), [""; 0], "{target:?}");
        let valid = valid_engines(target.arch());
        let order = c.world.resource::<Order>().0.clone();
        let mut q = c.world.query::<(&InstHead, &InstRegs)>();
        let mut regs = c.world.query::<&RegHead>();
        let mut queues = c.world.query::<&QueueHead>();
        let (heads, fields) = columns!(q, &c.world);
        let dmas = c.world.resource::<InstDmas>();
        let (regs, queues): (&[RegHead], &[QueueHead]) =
            (columns!(regs, &c.world), columns!(queues, &c.world));
        let (mut seen, mut offsets) = (0u8, 0);
        for id in order.iter().filter(|id| heads[id.index()].dge == DgeType::Hwdge) {
            let (h, r) = (heads[id.index()], fields[id.index()]);
            assert!(valid.contains(&h.engine), "{target:?} {h:?}");
            let queue = queues[dmas.of(id.index()).queue.index()];
            assert_eq!(queue.engine, h.engine);
            assert_eq!(queue_name(&queue), format!("q_dynamic_{}", h.engine.name()));
            for reg in [r.src0, r.src1].into_iter().filter(|r| r.is_some()) {
                assert_eq!(regs[reg.index()].engine, h.engine);
                offsets += 1;
            }
            seen |= 1 << h.engine as u8;
        }
        assert!(offsets > 20, "{offsets} registers of hardware-generated copies");
        if target == Target::CoreV5 {
            assert_eq!(seen.count_ones(), 3, "all engines take turns");
        }
    }
}

#[test]
fn the_round_robin_goes_on_behind_what_was_bound_early() {
    let mut c = program(Stage::Place, |o| (o.target, o.dge_route) = (Target::CoreV5, DgeRoute::Hardware));
    let early: Vec<EngineId> = copies(&mut c)
        .into_iter()
        .filter(|(_, h, _)| h.dge == DgeType::Hwdge)
        .map(|(_, h, _)| h.engine)
        .collect();
    let valid = valid_engines(50);
    assert!(early.len() > 3 && early.iter().enumerate().all(|(k, e)| *e == valid[k % 3]), "{early:?}");
    assert_eq!(*c.world.resource::<HwdgeTurn>(), HwdgeTurn(early.len() as u32));
    c.run(&[Stage::Address, Stage::Registers, Stage::Route]);
    let all = copies(&mut c);
    let kept = all.iter().filter(|(_, h, _)| h.dge == DgeType::Hwdge && dynamic(h)).map(|(_, h, _)| h.engine);
    assert_eq!(kept.collect::<Vec<_>>(), early, "the binder keeps them");
    let later: Vec<EngineId> = all
        .iter()
        .filter(|(_, h, _)| h.dge == DgeType::Hwdge && !dynamic(h))
        .map(|(_, h, _)| h.engine)
        .collect();
    assert!(!later.is_empty());
    assert!(later.iter().enumerate().all(|(k, e)| *e == valid[(early.len() + k) % 3]), "{later:?}");
}

#[test]
fn software_is_first_and_generation_2_has_no_hardware() {
    for target in Target::ALL {
        for route in [DgeRoute::Auto, DgeRoute::Software] {
            let mut c = program(Stage::Route, |o| (o.target, o.dge_route) = (target, route));
            assert_eq!(codes(&c), [""; 0]);
            let all = copies(&mut c);
            assert!(all.iter().any(|(_, h, _)| h.dge == DgeType::Swdge && h.engine == EngineId::Pool));
            assert!(all.iter().all(|(_, h, _)| h.dge != DgeType::Hwdge));
        }
    }
    let c = program(Stage::Route, |o| (o.target, o.dge_route) = (Target::Trn1, DgeRoute::Hardware));
    assert_eq!(codes(&c), ["MUR0462"]);
}

#[test]
fn every_decision_of_a_program_has_its_reasons() {
    let mut c = program(Stage::Route, |o| o.dge_route = DgeRoute::Hardware);
    let mut seen = (Vec::new(), Vec::new(), Vec::new());
    for (id, h, dma) in copies(&mut c) {
        let why = DmaWhy::of(&c.world, id);
        assert_ne!(why.route, RouteReason::NotScanned, "{h:?}");
        assert_ne!(why.engine, EngineReason::NotBound, "{h:?}");
        assert!(why.queue.kind.is_some() && dma.queue.is_some(), "{h:?}");
        assert_eq!(h.dge == DgeType::Swdge, why.engine == EngineReason::Software, "{h:?}");
        seen.0.push(why.route);
        seen.1.push(why.engine);
        seen.2.push(why.queue.opened);
    }
    for route in [RouteReason::HardwareAsked, RouteReason::Default] {
        assert!(seen.0.contains(&route), "{route:?}");
    }
    for engine in [EngineReason::Kept, EngineReason::NobodyChose, EngineReason::Ladder] {
        assert!(seen.1.contains(&engine), "{engine:?}");
    }
    let mut queues = c.world.query::<&QueueHead>();
    let opened = seen.2.iter().filter(|o| **o).count();
    assert_eq!(opened, queues.iter(&c.world).count(), "a queue is opened once and used again");
    assert!(seen.2.len() > 10 * opened);
    assert!(copies(&mut c).iter().any(|(id, ..)| DmaWhy::of(&c.world, *id).in_loop));
}

#[test]
fn the_second_run_of_every_pass_changes_nothing() {
    let mut c = program(Stage::Route, |o| o.dge_route = DgeRoute::Hardware);
    let before = copies(&mut c);
    let queues = c.world.resource::<crate::staging::Counts>().queues;
    c.world.run_system_once(dynamic_dma_scan::dynamic_dma_scan).expect("it runs");
    c.world.run_system_once(alloc_queues::alloc_queues).expect("it runs");
    c.world.run_system_once(dynamic_dma_cleanup::dynamic_dma_cleanup).expect("it runs");
    assert_eq!(before, copies(&mut c));
    assert_eq!(queues, c.world.resource::<crate::staging::Counts>().queues);
    assert_eq!(codes(&c), [""; 0]);
}

/// The three checks of the cleanup, and ours: each with the change that it notices.
#[test]
fn each_check_of_the_cleanup_fails_on_its_fault() {
    let cleaned = |c: &mut Compiler| {
        c.world.run_system_once(dynamic_dma_cleanup::dynamic_dma_cleanup).expect("it runs");
        codes(c)
    };
    let mut c = program(Stage::Route, |o| o.target = Target::Trn1);
    assert_eq!(cleaned(&mut c), [""; 0]);
    change(&mut c, dynamic, |h| h.dge = DgeType::Hwdge);
    assert!(cleaned(&mut c).contains(&"MUR0433"), "not eligible on generation 2");

    let mut c = program(Stage::Route, |o| o.dge_route = DgeRoute::Hardware);
    change(&mut c, |h| h.dge == DgeType::Hwdge, |h| h.engine = EngineId::Dve);
    assert_eq!(cleaned(&mut c), ["MUR0434"]);

    let mut c = program(Stage::Route, |_| ());
    let generated = copies(&mut c).iter().filter(|(_, h, _)| h.dge == DgeType::Swdge).count();
    c.world.resource_mut::<CompileOptions>().dge_levels = DgeLevels::NONE;
    assert_eq!(cleaned(&mut c), vec!["MUR0432"; generated]);
    assert!(copies(&mut c).iter().all(|(_, h, _)| h.dge == DgeType::None), "and forces None");

    let mut c = program(Stage::Route, |_| ());
    c.world.resource_mut::<CompileOptions>().dge_scratch_bytes = 0;
    assert_eq!(cleaned(&mut c), vec!["MUR0463"; generated]);
}

#[test]
fn a_combining_copy_needs_its_level_and_a_target_that_can() {
    let of = |target: Target, levels| {
        let mut c = synthetic(300, 5);
        let o = CompileOptions { target, dge_levels: DgeLevels(levels), ..Default::default() };
        c.world.insert_resource(o);
        c.run(&[Stage::Place, Stage::Address, Stage::Registers]);
        // The first dynamic copy becomes an accumulating one.
        let (id, ..) = copies(&mut c).into_iter().find(|(_, h, _)| dynamic(h)).expect("a dynamic copy");
        let mut q = c.world.query::<(&mut InstArgs, &InstOperands)>();
        let (mut args, operands) = q.iter_mut(&mut c.world).nth(id.index()).expect("a row");
        args.op0 = 1;
        let rows = operands.range();
        let mut q = c.world.query::<&ApHead>();
        let keys: Vec<PayloadKey> =
            q.iter(&c.world).skip(rows.start).take(rows.len()).map(|a| a.dynamic.payload).collect();
        for key in keys {
            if let Some(Payload::Dynamic(info)) = c.world.resource_mut::<Payloads>().0.get_mut(key) {
                info.kind = OffsetKind::Vector(murre_components::ids::ApId(0));
            }
        }
        c.world.run_system_once(dynamic_dma_scan::dynamic_dma_scan).expect("it runs");
        let mut found = codes(&c);
        found.dedup();
        found
    };
    assert_eq!(of(Target::Trn2, DgeLevels::default().0), [""; 0]);
    assert_eq!(of(Target::Trn2, DgeLevels::VECTOR), ["MUR0460"]);
    assert_eq!(of(Target::CoreV5, DgeLevels::ALL.0), ["MUR0460"]);
}

#[test]
fn reasons_are_there_for_every_row() {
    let c = program(Stage::Route, |_| ());
    let rows = c.world.resource::<crate::staging::Counts>().insts as usize;
    assert_eq!(c.world.resource::<RouteReasons>().0.len(), rows);
    assert_eq!(c.world.resource::<EngineReasons>().0.len(), rows);
    assert_eq!(c.world.resource::<QueueReasons>().0.len(), rows);
}

#[test]
fn the_checker_of_the_stage_notices_a_dynamic_copy_without_a_generator() {
    let mut c = program(Stage::Route, |_| ());
    change(&mut c, dynamic, |h| h.dge = DgeType::None);
    c.world.run_system_once(verify_route::verify_route).expect("it runs");
    assert_eq!(codes(&c), ["MUR0438"]);
}
