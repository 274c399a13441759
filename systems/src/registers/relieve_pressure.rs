//! Fewer registers alive at once: values that can be computed again give way where an engine has too many.
//!
//! In: live ranges of a program that does not colour. Out: a program in which the cheapest such values end early and are
//! computed again right before each later use, so that one long range becomes several short ones; `false` when there is
//! nothing to be won. One walk over the ranges by begin chooses victims at all crowded places at once; the cost of a value
//! is the operations that its uses need, ten times as much for each loop around one.
//!
//! ```text
//! mov a, 7 ; (70 others) ; use a     ->     (70 others) ; mov a', 7 ; use a'
//! ```
//!
//! What can be computed again, and how, is [`super::rematerialize`]'s. Runs only when colouring has failed.
//!
//! Facts: `spec/ir.md 6` (costs, spilling not available: 14-l).

use super::color_registers::living;
use super::drop_dead_registers::drop_dead_registers;
use super::rematerialize::{Recomputed, Values};
use crate::columns;
use crate::staging::Staging;
use bevy_ecs::prelude::*;
use bevy_ecs::system::RunSystemOnce;
use murre_components::bir::*;
use murre_components::ids::*;

/// Most loops that count for the cost of a use.
const DEEPEST: u32 = 9;

/// Rewrites the program. Whether anything has changed; live ranges and colours are then to be made anew.
pub fn relieve_pressure(world: &mut World, limit: u32) -> bool {
    let mut insts = world.query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>();
    let mut aps = world.query::<(&ApHead, &ApPattern)>();
    let mut regs = world.query::<(&RegHead, &RegFrom, &RegBounds)>();
    let mut locs = world.query::<&LocHead>();
    let mut staging = Staging::new(world);
    let done = {
        let values = Values::new(
            &world.resource::<Order>().0,
            columns!(insts, world),
            columns!(aps, world),
            columns!(regs, world),
            &world.resource::<RegLives>().0,
            columns!(locs, world),
        );
        let victims = choose_victims(&values, limit);
        if victims.is_empty() { Recomputed::default() } else { values.recompute(&victims, &mut staging) }
    };
    if done.uses.is_empty() {
        return false;
    }
    staging.flush(world);
    world.insert_resource(Order(done.order));
    let mut inst_regs = world.query::<&mut InstRegs>();
    let mut aps = world.query::<&mut ApHead>();
    let mut colours = world.query::<&mut RegHead>();
    if let Ok(mut tables) = inst_regs.contiguous_iter_mut(world)
        && let Some(mut column) = tables.next()
    {
        let column = column.bypass_change_detection();
        for u in &done.uses {
            let row = &mut column[u.inst.index()];
            for source in [&mut row.src0, &mut row.src1] {
                if *source == u.old {
                    *source = u.new;
                }
            }
        }
    }
    if let Ok(mut tables) = aps.contiguous_iter_mut(world)
        && let Some(mut column) = tables.next()
    {
        let column = column.bypass_change_detection();
        for u in &done.uses {
            for ap in u.operands.clone() {
                if column[ap].dynamic.address == u.old {
                    column[ap].dynamic.address = u.new;
                }
            }
        }
    }
    for mut r in colours.iter_mut(world) {
        r.bypass_change_detection().colour = RegHead::UNCOLOURED;
    }
    world.run_system_once(drop_dead_registers).is_ok()
}

/// What has to be computed again for at most `limit` lanes to be alive: each register with the position from which on
/// its uses are.
fn choose_victims(v: &Values<'_>, limit: u32) -> Vec<(RegId, u32)> {
    let (rows, lives) = (v.reg_heads, v.reg_lives);
    let mut costs: Vec<Option<Option<u64>>> = vec![None; rows.len()];
    let mut alive: [Vec<u32>; 8] = Default::default();
    let mut victims = Vec::new();
    let starts = living(lives, |l| l.first);
    for &r in &starts {
        let (head, at) = (rows[r as usize], lives[r as usize].first);
        let here = &mut alive[head.engine as usize & 7];
        here.retain(|&o| lives[o as usize].last >= at);
        here.push(r);
        let mut lanes: u32 = here.iter().map(|&o| rows[o as usize].width as u32).sum();
        while lanes > limit {
            let best = here
                .iter()
                .enumerate()
                .filter(|(_, o)| !v.is_accessed_at(RegId(**o), at))
                .filter_map(|(k, &o)| {
                    let cost = *costs[o as usize].get_or_insert_with(|| cost(v, RegId(o)));
                    Some((cost?, std::cmp::Reverse(lives[o as usize].last), o, k))
                })
                .min();
            let Some((_, _, o, k)) = best else { break };
            here.swap_remove(k);
            lanes -= rows[o as usize].width as u32;
            victims.push((RegId(o), at));
        }
    }
    victims
}

/// Operations to compute a register again at all of its uses, weighted by loop depth; `None` when it cannot be.
fn cost(v: &Values<'_>, r: RegId) -> Option<u64> {
    v.uses(r).iter().try_fold(0u64, |sum, &at| {
        let steps = v.steps(r, at)? as u64;
        Some(sum.saturating_add(steps * 10u64.pow(v.depth(at).min(DEEPEST))))
    })
}

#[cfg(test)]
mod tests {
    use super::super::color_registers::tests::{Code, E};
    use super::*;
    use murre_components::diag::Diagnostics;

    const N: RegId = RegId::NONE;

    fn count(c: &mut crate::Compiler, op: Opcode) -> usize {
        let order = c.world.resource::<Order>().0.clone();
        let mut q = c.world.query::<&InstHead>();
        let heads: Vec<InstHead> = q.iter(&c.world).copied().collect();
        order.iter().filter(|id| heads[id.index()].op == op).count()
    }

    fn passes(c: &mut crate::Compiler) {
        let d = c.world.resource::<Diagnostics>().take();
        assert!(d.is_empty(), "{:?}", d[0]);
    }

    #[test]
    fn constants_are_moved_again_at_their_uses() {
        let mut code = Code::new();
        let regs: Vec<RegId> = (0..100).map(|_| code.reg(1)).collect();
        for r in &regs {
            code.op(Opcode::RegisterMove, *r, N, N, 0);
        }
        for r in &regs {
            code.op(Opcode::NoOp, N, *r, N, 0);
        }
        let mut c = code.run();
        passes(&mut c);
        assert_eq!(count(&mut c, Opcode::RegisterMove), 100, "each is still made once, some of them later");
    }

    #[test]
    fn chains_are_computed_again_from_what_is_alive() {
        let mut code = Code::new();
        let base = code.reg(1);
        code.op(Opcode::RegisterMove, base, N, N, 0);
        code.op(Opcode::RegisterAlu, base, base, base, 0);
        let chains: Vec<RegId> = (0..90)
            .map(|_| {
                let (t, r) = (code.reg(1), code.reg(1));
                code.op(Opcode::RegisterAlu, t, base, N, 0);
                code.op(Opcode::RegisterAlu, r, t, base, 0);
                r
            })
            .collect();
        for r in &chains {
            code.op(Opcode::NoOp, N, *r, N, 0);
        }
        code.op(Opcode::NoOp, N, base, N, 0);
        let mut c = code.run();
        passes(&mut c);
    }

    #[test]
    fn a_source_that_changes_in_between_keeps_its_results() {
        let mut code = Code::new();
        let base = code.reg(1);
        code.op(Opcode::RegisterMove, base, N, N, 0);
        let results: Vec<RegId> = (0..70)
            .map(|_| {
                let r = code.reg(1);
                code.op(Opcode::RegisterAlu, r, base, N, 0);
                r
            })
            .collect();
        code.op(Opcode::RegisterAlu, base, base, N, 0);
        for r in &results {
            code.op(Opcode::NoOp, N, *r, N, 0);
        }
        code.op(Opcode::NoOp, N, base, N, 0);
        let d = code.run().world.resource::<Diagnostics>().take();
        assert_eq!(d[0].code.id, "MUR0502");
    }

    #[test]
    fn what_a_loop_only_reads_is_computed_again_inside_and_the_rest_of_the_loop_stays() {
        let mut code = Code::new();
        let constants: Vec<RegId> = (0..64).map(|_| code.reg(1)).collect();
        for r in &constants {
            code.op(Opcode::RegisterMove, *r, N, N, 0);
        }
        let iv = code.reg(1);
        code.op(Opcode::RegisterMove, iv, N, N, 0);
        let label = code.op(Opcode::DynamicForLoop, N, N, N, 0);
        for r in &constants {
            code.op(Opcode::NoOp, N, *r, iv, 0);
        }
        code.op(Opcode::RegisterAlu, iv, iv, N, 0);
        code.op(Opcode::CompareAndBranch, N, iv, N, label.0);
        code.op(Opcode::Terminator, N, N, N, 0);
        let mut c = code.run();
        passes(&mut c);
        let order = c.world.resource::<Order>().0.clone();
        let head = order.iter().position(|id| *id == label);
        let mut q = c.world.query::<(&InstHead, &InstRegs)>();
        let rows: Vec<(InstHead, InstRegs)> = q.iter(&c.world).map(|(h, r)| (*h, *r)).collect();
        let inside = order[head.unwrap_or(0)..]
            .iter()
            .filter(|id| rows[id.index()].0.op == Opcode::RegisterMove)
            .count();
        assert!((2..=12).contains(&inside), "{inside} constants are made inside, the others once in front");
        assert!(rows.iter().all(|(h, _)| h.engine == E));
    }
}
