//! `verify_registers`: a symbolic run over physical registers that knows nothing of live ranges.
//!
//! For every engine it keeps which virtual register each of the 64 ids holds, follows fall-through and branch edges to
//! a fixpoint (an id that holds different registers on two ways in holds none), and checks that each use finds the
//! register that it names. It also checks ids, pairs and engines. A violation is our bug: `MUR1001`.

use crate::columns;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::internal::INTERNAL;
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
        let both = if *a == *b || *b == NEVER {
            *a
        } else if *a == NEVER {
            *b
        } else {
            MIXED
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
    aps: Query<&ApDynamic>,
    regs: Query<&RegHead>,
) {
    if diagnostics.has_errors() {
        return;
    }
    let (heads, operands, args, inst_regs): (&[InstHead], &[InstOperands], &[InstArgs], &[InstRegs]) =
        columns!(insts);
    let (dynamics, reg_heads): (&[ApDynamic], &[RegHead]) = (columns!(aps), columns!(regs));
    let fault = |id: InstId, what: String| {
        let m = format!("register allocation is wrong at instruction {}: {what}", id.0);
        diagnostics.push(Diagnostic::error(&INTERNAL, m).ordered(id.0));
    };
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
                        let addresses = dynamics[operands[id.index()].range()].iter().map(|d| d.address);
                        for u in addresses.chain([r.src0, r.src1]).filter(|u| u.is_some()) {
                            let Some(reg) = reg_heads.get(u.index()) else {
                                fault(id, format!("register {} does not exist", u.0));
                                continue;
                            };
                            for lane in reg.colour..reg.colour.saturating_add(reg.width) {
                                let held = file.get(lane as usize).copied();
                                if reg.engine != engine || held != Some(u.0) && held != Some(NEVER) {
                                    fault(id, format!("id {lane} does not hold register {}", u.0));
                                }
                            }
                        }
                    }
                    if r.dst.is_some()
                        && let Some(reg) = reg_heads.get(r.dst.index())
                    {
                        let (low, width) = (reg.colour as usize, reg.width as usize);
                        if low + width > ALLOCATABLE_REGISTERS as usize || width == 2 && low % 2 == 1 {
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
    use super::super::color_registers::tests::Code;
    use super::*;

    #[test]
    fn a_stolen_register_is_seen_also_around_a_loop() {
        let mut code = Code::new();
        let (kept, other) = (code.reg(1), code.reg(1));
        code.op(Opcode::RegisterMove, kept, RegId::NONE, RegId::NONE, 0);
        let label = code.op(Opcode::DynamicForLoop, RegId::NONE, RegId::NONE, RegId::NONE, 0);
        code.op(Opcode::NoOp, RegId::NONE, kept, RegId::NONE, 0);
        code.op(Opcode::RegisterMove, other, RegId::NONE, RegId::NONE, 0);
        code.op(Opcode::CompareAndBranch, RegId::NONE, other, RegId::NONE, label.0);
        code.op(Opcode::Terminator, RegId::NONE, RegId::NONE, RegId::NONE, 0);
        let mut c = code.run();
        assert!(!c.world.resource::<Diagnostics>().has_errors());
        for mut r in c.world.query::<&mut RegHead>().iter_mut(&mut c.world) {
            r.colour = 5;
        }
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_registers);
        schedule.run(&mut c.world);
        let d = c.world.resource::<Diagnostics>().take();
        assert_eq!(d.len(), 1, "only the second trip sees it");
        assert_eq!(d[0].code.id, "MUR1001");
    }
}
