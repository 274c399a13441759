//! What must hold between instructions: what starts in the background is finished by the one instruction that uses it, and
//! a fused computation belongs to one fusion.

use super::on;
use murre_components::diag::{Diagnostic, codes::verify as codes};
use murre_components::hlo::{Computation, HloModule, HloOp, OpSet};

/// The operations that may finish what `op` starts; empty where it starts nothing.
fn finishers(op: HloOp) -> &'static [HloOp] {
    use HloOp::*;
    match op {
        AllGatherStart => &[AllGatherDone],
        AllReduceStart => &[AllReduceDone],
        AsyncStart | AsyncUpdate => &[AsyncUpdate, AsyncDone],
        CollectivePermuteStart => &[CollectivePermuteDone],
        CopyStart => &[CopyDone],
        Recv => &[RecvDone],
        Send => &[SendDone],
        _ => &[],
    }
}

/// The operations that may start what `op` finishes; empty where it finishes nothing.
fn starters(op: HloOp) -> Vec<HloOp> {
    HloOp::ALL.iter().copied().filter(|start| finishers(*start).contains(&op)).collect()
}

fn names(ops: &[HloOp]) -> String {
    ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(" or ")
}

/// Notes every pair that is none.
pub(super) fn background(module: &HloModule, faults: &mut Vec<Diagnostic>) {
    let mut involved = OpSet::default();
    for start in HloOp::ALL.iter().filter(|op| !finishers(**op).is_empty()) {
        involved = finishers(*start).iter().fold(involved.with(*start), |set, end| set.with(*end));
    }
    if !module.ops().meets(involved) {
        return;
    }
    let mut users = vec![0u32; module.len()];
    let mut finished = vec![0u32; module.len()];
    for inst in module.insts() {
        for o in inst.operands() {
            users[o.index()] += 1;
            finished[o.index()] += u32::from(finishers(module.inst(*o).op).contains(&inst.op));
        }
    }
    for inst in module.insts().filter(|i| involved.contains(i.op)) {
        let mut fault = |what: String, found: String, expected: String| {
            let fault = Diagnostic::error(&codes::VERIFY_OPERAND, what).found(found).expected(expected);
            faults.push(on(fault, inst, inst.id.0));
        };
        let (starts, ends) = (finishers(inst.op), starters(inst.op));
        let at = inst.id.index();
        if !starts.is_empty() && (users[at], finished[at]) != (1, 1) {
            let what = format!("{} must be used once, by what finishes it", inst.op.name());
            fault(what, format!("{} uses", users[at]), names(starts));
        }
        let operand = inst.operands().first().map(|o| module.inst(*o));
        let Some(start) = operand.filter(|_| !ends.is_empty()) else { continue };
        if !ends.contains(&start.op) {
            let what = format!("{} finishes what was not started", inst.op.name());
            fault(what, start.op.name().to_owned(), names(&ends));
        }
        for key in ["channel_id", "is_host_transfer"] {
            let (own, theirs) = (inst.kept_value(key), start.kept_value(key));
            if own.is_some() && own != theirs {
                let what = format!("{} has another {key} than what it finishes", inst.op.name());
                fault(what, own.unwrap_or("").to_owned(), theirs.unwrap_or("none").to_owned());
            }
        }
    }
}

/// Notes calls from one execution thread into another: only what runs in the background may do that.
pub(super) fn threads(module: &HloModule, faults: &mut Vec<Diagnostic>) {
    let thread = |c: &Computation| {
        let given = c.extra.iter().find(|(k, _)| k == "execution_thread");
        given.map_or("\"main\"".to_owned(), |(_, v)| v.clone())
    };
    if module.computations.iter().all(|c| c.extra.is_empty()) {
        return;
    }
    for caller in &module.computations {
        for inst in caller.instructions.iter().map(|id| module.inst(id)) {
            let background = matches!(inst.op, HloOp::AsyncStart | HloOp::AsyncUpdate | HloOp::AsyncDone);
            let other = inst.called().iter().map(|c| module.comp(*c)).find(|c| thread(c) != thread(caller));
            if let Some(other) = other.filter(|_| !background) {
                let what = format!("'{}' runs on another thread than its caller", other.name);
                let fault = Diagnostic::error(&codes::VERIFY_COMPUTATION, what);
                faults.push(on(fault.found(thread(other)).expected(thread(caller)), inst, inst.id.0));
            }
        }
    }
}

/// Notes every fused computation that more than one instruction calls, and what it computes for nothing.
pub(super) fn fusions(module: &HloModule, faults: &mut Vec<Diagnostic>) {
    if !module.ops().contains(HloOp::Fusion) {
        return;
    }
    let mut callers = vec![0u32; module.computations.len()];
    for inst in module.insts() {
        inst.called().iter().for_each(|c| callers[c.index()] += 1);
    }
    for inst in module.insts().filter(|i| i.op == HloOp::Fusion) {
        if let Some(c) = inst.called().iter().find(|c| callers[c.index()] > 1) {
            let what = format!("the fused computation '{}' has other callers", module.comp(*c).name);
            let fault = Diagnostic::error(&codes::VERIFY_COMPUTATION, what);
            let fault = fault.found(format!("{} callers", callers[c.index()])).expected("one fusion");
            faults.push(on(fault, inst, inst.id.0));
        }
    }
    let mut used = vec![false; module.len()];
    module.insts().flat_map(|i| i.operands()).for_each(|o| used[o.index()] = true);
    for c in module.insts().filter(|i| i.op == HloOp::Fusion).flat_map(|i| i.called()) {
        let computation = module.comp(*c);
        for id in computation.instructions.iter().filter(|id| !used[id.index()] && *id != computation.root) {
            let what = "an instruction of a fusion is not used";
            let fault =
                Diagnostic::error(&codes::VERIFY_COMPUTATION, what).found("no users").expected("a user");
            faults.push(on(fault, module.inst(id), id.0));
        }
    }
}
