//! `expand_all_engine`: control operations on engine ALL are cloned for the engines that need their result (D19).
//!
//! In: a program whose control scalars, loops and exits are on ALL. Out: per-engine clones next to each other in stream
//! order; the originals dead and out of `Order`; a register per engine behind each ALL register (`LocalRegs`); the
//! induction registers of each axis per engine. A scalar that no engine needs leaves no operation.
//!
//! Demand flows backwards from branches and exits (all five engines), from compute instructions that take a register
//! immediate, and from run-time addresses (the engine of their instruction), through the operations that define what
//! is demanded, from a list of what is new.
//!
//! Facts: `spec/ir.md 5.7` (L19), `spec/ir.md 3.1` (data-path engines).

use super::walk::Walk;
use crate::staging::{Operand, Staging};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::ids::*;

/// Per ALL register, its register on each stream engine.
#[derive(Resource, Default)]
pub struct LocalRegs(pub Vec<[RegId; 5]>);

impl LocalRegs {
    /// The register of `engine` behind an ALL register.
    pub fn get(&self, reg: RegId, engine: EngineId) -> RegId {
        match (self.0.get(reg.index()), engine.stream()) {
            (Some(row), Some(s)) => row[s],
            _ => RegId::NONE,
        }
    }
}

const EVERY_ENGINE: u8 = 0b1_1111;

/// The pass.
pub fn expand_all_engine(
    world: &mut World,
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    axis_regs: &mut QueryState<&mut AxisRegs>,
    all_regs: &mut QueryState<(&RegHead, &RegFrom, &RegBounds)>,
    insts_mut: &mut QueryState<(&mut InstHead, &mut InstRegs)>,
) {
    let order = std::mem::take(&mut *world.resource_mut::<Order>());
    let mut walk = Walk::new(Staging::new(world), order.0.len());
    let mut local;
    let mut dead = Vec::new();
    let mut rewired: Vec<(InstId, InstRegs)> = Vec::new();
    let axes: Vec<AxisRegs> = axis_regs.iter(world).copied().collect();
    {
        let (heads, operands, args, regs, from) = crate::columns!(insts, world);
        let (ap_heads, patterns) = crate::columns!(aps, world);
        let (reg_heads, reg_from, reg_bounds) = crate::columns!(all_regs, world);
        let all = |id: &&InstId| heads[id.index()].engine == EngineId::All;
        walk.staging.insts.reserve(order.0.iter().filter(all).count() * EngineId::STREAMS.len());
        let demand = demand(world, &order, heads, regs, ap_heads, &axes, reg_heads.len());
        local = vec![[RegId::NONE; 5]; reg_heads.len()];
        let mut map = |walk: &mut Walk, reg: RegId, engine: EngineId| -> RegId {
            let Some(s) = engine.stream().filter(|_| reg.is_some()) else { return RegId::NONE };
            let slot = &mut local[reg.index()][s];
            if slot.is_none() {
                let mut row = RegRow::new(engine, reg_heads[reg.index()].role, reg_from[reg.index()].hlo);
                row.head.width = reg_heads[reg.index()].width;
                row.from = RegFrom { all: reg, ..reg_from[reg.index()] };
                row.bounds = reg_bounds[reg.index()];
                *slot = walk.staging.reg(row);
            }
            *slot
        };
        for &id in &order.0 {
            let k = id.index();
            let (head, r) = (heads[k], regs[k]);
            if head.engine != EngineId::All || head.op.is_structure() {
                if r.src0.is_some() && !head.op.is_structure() {
                    // A register immediate of a compute instruction.
                    let mapped = InstRegs {
                        src0: map(&mut walk, r.src0, head.engine),
                        src1: map(&mut walk, r.src1, head.engine),
                        dst: RegId::NONE,
                    };
                    rewired.push((id, mapped));
                }
                walk.order.push(id);
                continue;
            }
            let wanted = if r.dst.is_some() { demand[r.dst.index()] } else { EVERY_ENGINE };
            for (s, engine) in EngineId::STREAMS.into_iter().enumerate() {
                if wanted & (1 << s) == 0 {
                    continue;
                }
                let mut row = InstRow::new(head.op, engine, from[k].hlo);
                row.head.flags = head.flags;
                row.args = args[k];
                row.regs = InstRegs {
                    src0: map(&mut walk, r.src0, engine),
                    src1: map(&mut walk, r.src1, engine),
                    dst: map(&mut walk, r.dst, engine),
                };
                row.from.owner = id;
                let inputs: Vec<Operand> = operands[k]
                    .range()
                    .map(|a| Operand {
                        loc: ap_heads[a].loc,
                        offset: ap_heads[a].offset,
                        dtype: ap_heads[a].dtype,
                        pattern: patterns[a].clone(),
                        kind: ap_heads[a].kind,
                        payload: ap_heads[a].dynamic.payload,
                        flags: ap_heads[a].flags,
                    })
                    .collect();
                let clone = walk.staging.inst(row, &[], &inputs);
                walk.order.push(clone);
            }
            dead.push(id);
        }
        // Addresses may name a register that no operation of this engine defines yet; it gets its copy here.
        for (reg, mask) in demand.iter().enumerate().filter(|(_, m)| **m != 0) {
            for (s, engine) in EngineId::STREAMS.into_iter().enumerate() {
                if mask & (1 << s) != 0 {
                    map(&mut walk, RegId(reg as u32), engine);
                }
            }
        }
    }
    let Walk { staging, order } = walk;
    staging.flush(world);
    if let Ok(mut tables) = insts_mut.contiguous_iter_mut(world)
        && let Some((mut heads, mut regs)) = tables.next()
    {
        let (heads, regs) = (heads.bypass_change_detection(), regs.bypass_change_detection());
        for id in dead {
            heads[id.index()].flags |= InstHead::DEAD;
        }
        for (id, mapped) in rewired {
            regs[id.index()] = mapped;
        }
    }
    let local = LocalRegs(local);
    for mut row in axis_regs.iter_mut(world) {
        let row = row.bypass_change_detection();
        for (s, engine) in EngineId::STREAMS.into_iter().enumerate() {
            row.per_engine[s] = local.get(row.iv, engine);
        }
    }
    world.insert_resource(local);
    world.insert_resource(Order(order));
}

/// Which engines need each ALL register, a bit per stream.
fn demand(
    world: &World,
    order: &Order,
    heads: &[InstHead],
    regs: &[InstRegs],
    ap_heads: &[ApHead],
    axes: &[AxisRegs],
    count: usize,
) -> Vec<u8> {
    let mut mask = vec![0u8; count];
    let exprs = world.resource::<Exprs>();
    let payloads = world.resource::<Payloads>();
    let bit = |e: EngineId| e.stream().map_or(0, |s| 1u8 << s);
    let want = |mask: &mut Vec<u8>, index: ExprId, engine: EngineId| match exprs.get(index) {
        Expr::RuntimeInt(r) if r.is_some() => mask[r.index()] |= bit(engine),
        Expr::AxisIv(axis) => {
            let iv = axes[axis.index()].iv;
            if iv.is_some() {
                mask[iv.index()] |= bit(engine);
            }
        }
        _ => {}
    };
    for head in ap_heads {
        let engine = heads[head.inst.index()].engine;
        match payloads.0.get(head.dynamic.payload) {
            Some(Payload::Dynamic(info)) => {
                for t in &info.terms {
                    want(&mut mask, t.expr, engine);
                }
            }
            Some(Payload::Symbolic(s)) => {
                for e in [s.tile, s.block] {
                    for (index, _) in exprs.as_affine(e).map_or(Vec::new(), |a| a.0) {
                        want(&mut mask, index, engine);
                    }
                }
            }
            None => {}
        }
    }
    // Definitions of each register, as lists through the control operations.
    let mut control: Vec<InstRegs> = Vec::new();
    let mut last_definition = vec![u32::MAX; count];
    let mut earlier: Vec<u32> = Vec::new();
    for &id in &order.0 {
        let (head, r) = (heads[id.index()], regs[id.index()]);
        if head.engine == EngineId::All && head.op.is_structure() {
            continue;
        }
        if head.engine == EngineId::All && r.dst.is_some() {
            earlier.push(std::mem::replace(&mut last_definition[r.dst.index()], control.len() as u32));
            control.push(r);
            continue;
        }
        let engines = if head.engine == EngineId::All { EVERY_ENGINE } else { bit(head.engine) };
        for s in [r.src0, r.src1].into_iter().filter(|s| s.is_some()) {
            mask[s.index()] |= engines;
        }
    }
    // A register is looked at again only when one more engine needs it, five times at most.
    let mut work: Vec<u32> = (0..count as u32).filter(|r| mask[*r as usize] != 0).collect();
    while let Some(r) = work.pop() {
        let wanted = mask[r as usize];
        let mut at = last_definition[r as usize];
        while let Some(definition) = control.get(at as usize) {
            for s in [definition.src0, definition.src1].into_iter().filter(|s| s.is_some()) {
                if wanted & !mask[s.index()] != 0 {
                    mask[s.index()] |= wanted;
                    work.push(s.0);
                }
            }
            at = earlier[at as usize];
        }
    }
    mask
}
