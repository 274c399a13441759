//! `verify_registers`: a symbolic run over physical registers that knows nothing of live ranges.
//!
//! For every engine it keeps which virtual register each of the 64 ids holds, follows fall-through and branch edges to
//! a fixpoint (an id that holds different registers on two ways in holds none), and checks that each use finds the
//! register that it names, in all of its lanes. An id that nothing wrote on some way in holds nothing: reading it is
//! `MUR0507`. It also checks ids, pairs and engines, and the widths of operands ([`super::register_rules`], `MUR0506`).
//! Any other violation is our bug: `MUR1001`. It shares no code with colouring.

use super::register_rules;
use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::codes::resource::{RES_REGISTER_RULE, RES_REGISTER_UNWRITTEN};
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::engine::{ALLOCATABLE_REGISTERS, EngineId};
use murre_components::ids::*;

/// Contents of a register file: `NEVER` written, a register, or `MIXED`.
type File = [u32; 64];
const NEVER: u32 = u32::MAX;
const MIXED: u32 = u32::MAX - 1;

fn meet(into: &mut File, other: &File) -> bool {
    let mut changed = false;
    for (a, b) in into.iter_mut().zip(other) {
        // Written on one way only is not written.
        let both = match (*a, *b) {
            (x, y) if x == y => x,
            (NEVER, _) | (_, NEVER) => NEVER,
            _ => MIXED,
        };
        changed |= both != *a;
        *a = both;
    }
    changed
}

/// The pass.
pub fn verify_registers(
    order: Res<Order>,
    diagnostics: Res<Diagnostics>,
    insts: Query<(&InstHead, &InstOperands, &InstArgs, &InstRegs)>,
    aps: Query<(&ApHead, &ApPattern)>,
    regs: Query<&RegHead>,
) {
    if diagnostics.has_errors() {
        return;
    }
    let (heads, operands, args, inst_regs): (&[InstHead], &[InstOperands], &[InstArgs], &[InstRegs]) =
        columns!(insts);
    let (ap_heads, patterns): (&[ApHead], &[ApPattern]) = columns!(aps);
    let reg_heads: &[RegHead] = columns!(regs);
    let fault = |id: InstId, what: String| {
        let m = format!("register allocation is wrong at instruction {}: {what}", id.0);
        diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(id.0));
    };
    for &id in &order.0 {
        let k = id.index();
        let load = operands[k]
            .range()
            .next()
            .map_or(0, |a| ap_heads[a].dtype.bytes() as u64 * patterns[a].elements());
        if let Err(rule) = register_rules::check(heads[k].op, args[k], inst_regs[k], reg_heads, load) {
            let m = format!("{} {}: {} [{}]", heads[k].op.name(), id.0, rule.what, rule.rule);
            diagnostics.push(Diagnostic::error(&RES_REGISTER_RULE, m).ordered(id.0));
        }
    }
    let positions = order.positions(heads.len());
    let is_branch = |op| matches!(op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch);
    let mut starts: Vec<usize> = vec![0];
    for (p, id) in order.0.iter().enumerate() {
        let op = heads[id.index()].op;
        if op.is_structure() && p > 0 {
            starts.push(p);
        }
        if is_branch(op) || op == Opcode::Exit {
            starts.push(p + 1);
        }
    }
    starts.dedup();
    starts.retain(|&s| s < order.0.len());
    let block_of = |p: usize| starts.partition_point(|&s| s <= p) - 1;
    for engine in EngineId::STREAMS {
        let mut entry: Vec<Option<File>> = vec![None; starts.len()];
        if let Some(first) = entry.first_mut() {
            *first = Some([NEVER; 64]);
        }
        // Passes over the blocks until nothing changes; the last one reports.
        let mut settled = false;
        loop {
            let mut changed = false;
            for b in 0..starts.len() {
                let Some(mut file) = entry[b] else {
                    continue;
                };
                let end = starts.get(b + 1).copied().unwrap_or(order.0.len());
                let (mut target, mut falls) = (None, true);
                for &id in &order.0[starts[b]..end] {
                    let (h, r) = (heads[id.index()], inst_regs[id.index()]);
                    if h.engine != engine {
                        continue;
                    }
                    if settled {
                        let addresses =
                            ap_heads[operands[id.index()].range()].iter().map(|a| a.dynamic.address);
                        for u in addresses.chain([r.src0, r.src1]).filter(|u| u.is_some()) {
                            let Some(reg) = reg_heads.get(u.index()) else {
                                fault(id, format!("register {} does not exist", u.0));
                                continue;
                            };
                            for lane in reg.colour..reg.colour.saturating_add(reg.width) {
                                let held = file.get(lane as usize).copied();
                                if reg.engine != engine {
                                    fault(id, format!("register {} is of another engine", u.0));
                                } else if held == Some(NEVER) {
                                    let m = format!("instruction {} reads register {}", id.0, u.0);
                                    diagnostics
                                        .push(Diagnostic::error(&RES_REGISTER_UNWRITTEN, m).ordered(id.0));
                                } else if held != Some(u.0) {
                                    fault(id, format!("id {lane} does not hold register {}", u.0));
                                }
                            }
                        }
                    }
                    if r.dst.is_some()
                        && let Some(reg) = reg_heads.get(r.dst.index())
                    {
                        let (low, width) = (reg.colour as usize, reg.width as usize);
                        let fits = low + width <= ALLOCATABLE_REGISTERS as usize && reg.engine == engine;
                        if !fits || width == 2 && low % 2 == 1 {
                            if settled {
                                fault(id, format!("register {} stands at {low}", r.dst.0));
                            }
                            continue;
                        }
                        file[low..low + width].fill(r.dst.0);
                    }
                    if is_branch(h.op) {
                        let label = args[id.index()].aux as usize;
                        target = positions.get(label).copied().filter(|p| *p != u32::MAX);
                        falls = h.op == Opcode::CompareAndBranch;
                    }
                    falls &= h.op != Opcode::Exit;
                }
                let next = (falls && b + 1 < starts.len()).then_some(b + 1);
                for to in next.into_iter().chain(target.map(|p| block_of(p as usize))) {
                    changed |= match &mut entry[to] {
                        Some(f) => meet(f, &file),
                        none => {
                            *none = Some(file);
                            true
                        }
                    };
                }
            }
            if settled {
                break;
            }
            settled = !changed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::color_registers::tests::{Code, random};
    use super::*;
    use crate::synth::Lcg;

    const N: RegId = RegId::NONE;

    fn codes(c: &mut crate::Compiler) -> Vec<&'static str> {
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_registers);
        schedule.run(&mut c.world);
        c.world.resource::<Diagnostics>().take().iter().map(|d| d.code.id).collect()
    }

    #[test]
    fn a_stolen_register_is_seen_also_around_a_loop() {
        let mut code = Code::new();
        let (kept, other) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, kept, N, N, 0);
        code.op(Opcode::RegisterAlu, kept, kept, kept, 0);
        let label = code.op(Opcode::DynamicForLoop, N, N, N, 0);
        code.op(Opcode::NoOp, N, kept, N, 0);
        code.op(Opcode::RegisterMove, other, N, N, 0);
        code.op(Opcode::CompareAndBranch, N, other, N, label.0);
        code.op(Opcode::Terminator, N, N, N, 0);
        let mut c = code.run();
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        for mut r in c.world.query::<&mut RegHead>().iter_mut(&mut c.world) {
            r.colour = 5;
        }
        assert_eq!(codes(&mut c), ["MUR1001"], "only the second trip sees it");
    }

    #[test]
    fn what_is_written_on_one_way_only_is_not_written() {
        let mut code = Code::new();
        let (sure, maybe) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, sure, N, N, 0);
        let head = code.op(Opcode::CompareAndBranch, N, sure, N, 3);
        code.op(Opcode::RegisterMove, maybe, N, N, 0);
        let label = code.op(Opcode::Terminator, N, N, N, 0);
        assert_eq!((head, label), (InstId(1), InstId(3)));
        code.op(Opcode::NoOp, N, maybe, sure, 0);
        let d = code.run().world.resource::<Diagnostics>().take();
        assert_eq!(d.iter().map(|d| d.code.id).collect::<Vec<_>>(), ["MUR0507"]);
    }

    #[test]
    fn a_64_bit_sum_into_a_32_bit_register_is_refused() {
        let mut code = Code::new();
        let (wide, narrow) = (code.reg(2), code.reg(1));
        code.op(Opcode::RegisterMove, wide, N, N, 0);
        let sum = code.op(Opcode::RegisterAlu, narrow, wide, N, 0);
        // Wire tag UINT64.
        code.rows.insts[sum.index()].args.dtype = 1;
        code.op(Opcode::NoOp, N, narrow, N, 0);
        let d = code.run().world.resource::<Diagnostics>().take();
        assert_eq!(d.iter().map(|d| d.code.id).collect::<Vec<_>>(), ["MUR0506"]);
    }

    /// Whether the straight-line program reads what it means to: each register's id is written by nothing else between
    /// a write and the reads behind it.
    fn is_right(order: &[InstId], regs: &[InstRegs], heads: &[RegHead]) -> bool {
        let mut file = [u32::MAX; 64];
        for id in order {
            let r = regs[id.index()];
            for u in [r.src0, r.src1].into_iter().filter(|u| u.is_some()) {
                let h = heads[u.index()];
                if (h.colour..h.colour + h.width).any(|lane| file[lane as usize] != u.0) {
                    return false;
                }
            }
            if r.dst.is_some() {
                let h = heads[r.dst.index()];
                (h.colour..h.colour + h.width).for_each(|lane| file[lane as usize] = r.dst.0);
            }
        }
        true
    }

    #[test]
    fn every_swap_or_theft_that_a_straight_line_program_notices_is_reported_and_no_other() {
        let (mut killed, mut harmless) = (0, 0);
        for seed in 0..40 {
            let mut rng = Lcg::new(seed ^ 77);
            let mut c = random(120, seed, false);
            assert!(c.world.resource::<Diagnostics>().take().is_empty());
            let order = c.world.resource::<Order>().0.clone();
            let regs: Vec<InstRegs> = c.world.query::<&InstRegs>().iter(&c.world).copied().collect();
            let heads: Vec<RegHead> = c.world.query::<&RegHead>().iter(&c.world).copied().collect();
            let lives = c.world.resource::<RegLives>().0.clone();
            for _ in 0..20 {
                let a = rng.below(heads.len() as u32) as usize;
                let together = |b: &usize| {
                    *b != a
                        && heads[*b].width == heads[a].width
                        && lives[*b].first < lives[a].last
                        && lives[a].first < lives[*b].last
                };
                let others: Vec<usize> = (0..heads.len()).filter(together).collect();
                let Some(&b) = others.get(rng.below(others.len() as u32) as usize) else { continue };
                let mut spoiled = heads.clone();
                spoiled[a].colour = heads[b].colour;
                if rng.below(2) == 0 {
                    spoiled[b].colour = heads[a].colour;
                }
                for (mut row, h) in c.world.query::<&mut RegHead>().iter_mut(&mut c.world).zip(&spoiled) {
                    *row = *h;
                }
                let right = is_right(&order, &regs, &spoiled);
                assert_eq!(codes(&mut c).is_empty(), right, "seed {seed}: registers {a} and {b}");
                *(if right { &mut harmless } else { &mut killed }) += 1;
            }
        }
        assert!(killed > 300, "{killed} killed, {harmless} harmless");
    }

    #[test]
    fn a_lost_definition_is_reported() {
        for seed in 0..20 {
            let mut c = random(120, seed, false);
            let order = c.world.resource::<Order>().0.clone();
            let heads: Vec<InstHead> = c.world.query::<&InstHead>().iter(&c.world).copied().collect();
            let regs: Vec<InstRegs> = c.world.query::<&InstRegs>().iter(&c.world).copied().collect();
            for lost in order.iter().filter(|id| heads[id.index()].op == Opcode::RegisterMove) {
                let dst = regs[lost.index()].dst;
                let defs = order.iter().filter(|id| regs[id.index()].dst == dst).count();
                let used =
                    order.iter().any(|id| [regs[id.index()].src0, regs[id.index()].src1].contains(&dst));
                if defs == 1 && used {
                    let rest = order.iter().copied().filter(|id| id != lost).collect();
                    c.world.insert_resource(Order(rest));
                    assert!(!codes(&mut c).is_empty(), "seed {seed}: instruction {}", lost.0);
                }
            }
        }
    }
}
