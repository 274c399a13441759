//! The layout of the world, proved: after a compilation every entity of the compiler stands in one of the declared
//! archetypes, and no pass has moved one. The schedule has no unordered conflicting systems under either executor.

use bevy_ecs::archetype::ArchetypeId;
use bevy_ecs::component::{Component, ComponentId};
use bevy_ecs::entity::Entity;
use bevy_ecs::prelude::World;
use murre::components::bir::*;
use murre::components::hlo_table::{HloEdges, HloHead, HloHome};
use murre::components::penguin::{NodeHead, NodeOperands, NodeScalars};
use murre::systems::staging::Counts;
use murre::systems::{CompileOptions, Compiler, ExecutorChoice, Stage, compile};
use std::collections::{BTreeMap, BTreeSet};

const PROGRAM: &str = r#"
HloModule step

cond { t = (s32[], f32[12,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=2
  ROOT c = pred[] compare(i, n), direction=LT }

body { t = (s32[], f32[12,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[12,4] get-tuple-element(t), index=1
  zero = s32[] constant(0)
  row = f32[1,4] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,4}
  two = f32[] constant(2)
  twos = f32[1,4] broadcast(two), dimensions={}
  scaled = f32[1,4] multiply(row, twos)
  y = f32[12,4] dynamic-update-slice(x, scaled, i, zero)
  n = s32[] get-tuple-element(t), index=2
  ROOT r = (s32[], f32[12,4], s32[]) tuple(next, y, n) }

ENTRY main { x = f32[12,4] parameter(0)
  big = f32[64,128] parameter(1)
  pos = s32[] parameter(2)
  n = s32[] parameter(3)
  zero = s32[] constant(0)
  init = (s32[], f32[12,4], s32[]) tuple(zero, x, n)
  loop = (s32[], f32[12,4], s32[]) while(init), condition=cond, body=body
  out = f32[12,4] get-tuple-element(loop), index=1
  slice = f32[2,128] dynamic-slice(big, pos, zero), dynamic_slice_sizes={2,128}
  ROOT r = (f32[12,4], f32[2,128]) tuple(out, slice) }
"#;

fn compiler(options: CompileOptions) -> Compiler {
    let module = murre::hlo::read_module(PROGRAM.as_bytes(), "test").expect("the test program reads");
    assert!(murre::hlo::verify(&module).is_empty());
    Compiler::new(module, options)
}

fn id<C: Component>(world: &mut World) -> ComponentId {
    world.register_component::<C>()
}

/// The declared archetypes, by kind.
fn declared(w: &mut World) -> Vec<(&'static str, BTreeSet<ComponentId>)> {
    vec![
        ("hlo", [id::<HloHead>(w), id::<HloEdges>(w), id::<HloHome>(w)].into()),
        ("node", [id::<NodeHead>(w), id::<NodeOperands>(w), id::<NodeScalars>(w)].into()),
        (
            "instruction",
            [
                id::<InstHead>(w),
                id::<InstOperands>(w),
                id::<InstArgs>(w),
                id::<InstRegs>(w),
                id::<InstFrom>(w),
            ]
            .into(),
        ),
        ("pattern", [id::<ApHead>(w), id::<ApPattern>(w)].into()),
        ("register", [id::<RegHead>(w), id::<RegFrom>(w), id::<RegBounds>(w)].into()),
        ("location", [id::<LocHead>(w), id::<LocPlace>(w), id::<LocFrom>(w)].into()),
        ("axis", [id::<AxisHead>(w), id::<AxisBounds>(w), id::<AxisRegs>(w)].into()),
        ("queue", [id::<QueueHead>(w)].into()),
        ("block", [id::<BlockHead>(w)].into()),
        ("descriptor", [id::<DescHead>(w), id::<DescSrc>(w), id::<DescDst>(w)].into()),
    ]
}

/// Archetype of every entity that has a component of ours.
fn places(
    world: &mut World,
    kinds: &[(&'static str, BTreeSet<ComponentId>)],
) -> BTreeMap<Entity, (ArchetypeId, String)> {
    let ours: BTreeSet<ComponentId> = kinds.iter().flat_map(|k| k.1.iter().copied()).collect();
    let mut out = BTreeMap::new();
    for archetype in world.archetypes().iter() {
        let components: BTreeSet<ComponentId> = archetype.components().iter().copied().collect();
        if archetype.is_empty() || components.is_disjoint(&ours) {
            continue;
        }
        let kind = kinds.iter().find(|k| k.1 == components).map_or("undeclared", |k| k.0);
        for e in archetype.entities() {
            out.insert(e.id(), (archetype.id(), kind.to_string()));
        }
    }
    out
}

#[test]
fn every_entity_stays_in_its_declared_archetype() {
    let mut c = compiler(CompileOptions { verify: true, ..CompileOptions::default() });
    let kinds = declared(&mut c.world);
    let mut before: BTreeMap<Entity, (ArchetypeId, String)> = BTreeMap::new();
    c.run_stepwise(|pass, _, world| {
        let now = places(world, &kinds);
        for (entity, (archetype, kind)) in &now {
            assert_ne!(kind, "undeclared", "{} made an undeclared archetype", pass.name);
            if let Some((old, _)) = before.get(entity) {
                assert_eq!(old, archetype, "{} moved an entity of kind {kind}", pass.name);
            }
        }
        assert!(before.keys().all(|e| now.contains_key(e)), "{} despawned an entity", pass.name);
        before = now;
    });
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for (_, kind) in before.values() {
        *seen.entry(kind.clone()).or_default() += 1;
    }
    let counts = *c.world.resource::<Counts>();
    let outcome = c.finish();
    assert!(outcome.program.is_some(), "{:?}", outcome.diagnostics);
    assert_eq!(seen.len(), kinds.len(), "every kind occurs: {seen:?}");
    assert_eq!(seen["instruction"], counts.insts);
    assert_eq!(seen["pattern"], counts.aps);
    assert_eq!(seen["register"], counts.regs);
    assert_eq!(seen["location"], counts.locs);
    assert_eq!(seen["descriptor"], counts.descs);
}

#[test]
fn rows_are_ids() {
    let mut c = compiler(CompileOptions::default());
    c.run(&Stage::ALL);
    let mut q = c.world.query::<(&InstOperands, &InstHead)>();
    let mut aps = c.world.query::<&ApHead>();
    let heads: Vec<ApHead> = aps.iter(&c.world).copied().collect();
    for (row, (operands, _)) in q.iter(&c.world).enumerate() {
        for ap in operands.range() {
            assert_eq!(heads[ap].inst.index(), row, "pattern {ap} belongs to the instruction that lists it");
        }
    }
}

#[test]
fn both_executors_give_the_same_program() {
    let run = |executor| {
        let module = murre::hlo::read_module(PROGRAM.as_bytes(), "test").expect("reads");
        compile(module, CompileOptions { executor, verify: true, ..CompileOptions::default() })
    };
    let (single, multi) = (run(ExecutorChoice::Single), run(ExecutorChoice::Multi));
    assert!(single.program.is_some(), "{:?}", single.diagnostics);
    assert_eq!(single.program, multi.program);
    let mut stepwise = compiler(CompileOptions { verify: true, ..CompileOptions::default() });
    stepwise.run_stepwise(|_, _, _| {});
    assert_eq!(stepwise.finish().program, single.program, "pass by pass is the same program");
}

#[test]
fn a_stage_can_be_the_last() {
    let mut c = compiler(CompileOptions { stop_after: Some(Stage::Codegen), ..CompileOptions::default() });
    c.run(&Stage::ALL);
    assert_eq!(c.world.resource::<Counts>().queues, 0);
    assert!(c.world.resource::<Counts>().insts > 0);
    assert!(c.finish().program.is_none());
}
