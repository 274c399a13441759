//! `inline_calls`: a call becomes the instructions of the computation it calls, named `call/inner`.
//!
//! In: a module whose computations stand before their callers. Out: a module without `call`; computations that only
//! calls named are gone. Facts: `spec/hlo.md 7`.
//!
//! ```text
//! f { p = s32[] parameter(0) ; ROOT q = s32[] add(p, p) }      a = s32[] call(x), to_apply=f
//! ->                                                           a/q = s32[] add(x, x)
//! ```

use super::rebuild::Rebuild;
use bevy_ecs::prelude::*;
use murre_components::diag::codes::lower::LOWER_RECURSION;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::{Draft, HloModule, HloOp, OpSet};
use murre_components::ids::{CompId, HloId};

/// Most instructions that inlining may make, beside twice as many as there were: calls that double level by level end here.
pub const MAX_INLINED: usize = 2_000_000;

/// The pass.
pub fn inline_calls(mut module: ResMut<HloModule>, diagnostics: Res<Diagnostics>) {
    if !module.ops().meets(CALLS) {
        return;
    }
    match inline(&module) {
        Ok(inlined) => *module = inlined,
        Err(d) => diagnostics.push(d),
    }
}

/// A fusion is a call of its computation: how its parts run together is for whoever compiles it to decide.
const CALLS: OpSet = OpSet::of(&[HloOp::Call, HloOp::Fusion]);

fn is_call(op: HloOp) -> bool {
    CALLS.contains(op)
}

/// A computation whose instructions are being copied to where it is called.
struct Frame {
    comp: CompId,
    /// The call that its root becomes the value of.
    call: HloId,
    /// Instructions done.
    next: usize,
    /// Where its new ids begin.
    base: usize,
    /// How long the names of the calls around it are.
    prefix: usize,
}

/// Inlines every call. A computation that only calls name is written where it is called and nowhere else, so a chain of
/// calls costs what its instructions cost once.
pub fn inline(old: &HloModule) -> Result<HloModule, Diagnostic> {
    let mut out = Rebuild::new(old);
    let limit = MAX_INLINED + 2 * old.len();
    let refused = |what: &str, id: HloId| {
        Err(Diagnostic::error(&LOWER_RECURSION, what).on(old.inst(id).name()).ordered(id.0))
    };
    let mut done = 0;
    let mut frames: Vec<Frame> = Vec::new();
    // By open frame and position: new ids. The names of the calls around the innermost.
    let (mut ids, mut prefix): (Vec<HloId>, String) = (Vec::new(), String::new());
    let (mut operands, mut called, mut name) = (Vec::new(), Vec::new(), String::new());
    for top in kept(old) {
        ids.clear();
        ids.resize(old.comp(top).instructions.len(), HloId::NONE);
        frames.push(Frame { comp: top, call: HloId::NONE, next: 0, base: 0, prefix: 0 });
        let mut root = HloId::NONE;
        while let Some(frame) = frames.last_mut() {
            let (comp, base) = (old.comp(frame.comp), frame.base);
            let first = comp.instructions.first;
            let Some(id) = comp.instructions.get(frame.next) else {
                root = ids[base + (comp.root.0 - first) as usize];
                let call = frame.call;
                prefix.truncate(frame.prefix);
                frames.pop();
                if let Some(caller) = frames.last() {
                    let first = old.comp(caller.comp).instructions.first;
                    ids.truncate(base);
                    ids[caller.base + (call.0 - first) as usize] = root;
                }
                continue;
            };
            let at = base + frame.next;
            frame.next += 1;
            done += 1;
            let inst = old.inst(id);
            operands.clear();
            operands.extend(inst.operands().iter().map(|o| ids[base + (o.0 - first) as usize]));
            if is_call(inst.op) {
                // Computations stand before their callers, so this ends.
                let Some(&callee) = inst.called().first().filter(|c| c.0 < frame.comp.0) else {
                    return refused("a call reaches its own computation", id);
                };
                let to = old.comp(callee);
                if done + to.instructions.len() > limit {
                    return refused("inlining its calls makes the module too large", id);
                }
                let base = ids.len();
                ids.resize(base + to.instructions.len(), HloId::NONE);
                for (p, operand) in to.parameters.iter().zip(&operands) {
                    ids[base + (p.0 - to.instructions.first) as usize] = *operand;
                }
                frames.push(Frame { comp: callee, call: id, next: 0, base, prefix: prefix.len() });
                prefix.push_str(inst.name());
                prefix.push('/');
            } else if frames.len() == 1 {
                ids[at] = out.copy_with(old, id, &operands);
            } else if inst.op != HloOp::Parameter {
                called.clear();
                called.extend(inst.called().iter().map(|c| out.computations[c.index()]));
                name.clear();
                name.push_str(&prefix);
                name.push_str(inst.name());
                let draft = Draft { name: &name, operands: &operands, called: &called, ..inst.draft() };
                ids[at] = out.push(draft);
            }
        }
        out.finish(old, top, root);
    }
    Ok(out.module)
}

/// The computations that stay, in order: the entry, and what something else than a call names.
fn kept(module: &HloModule) -> Vec<CompId> {
    let reached = reached(module);
    let mut kept = vec![false; module.computations.len()];
    kept[module.entry.index()] = true;
    for comp in module.computations.iter().zip(&reached).filter(|(_, r)| **r).map(|(c, _)| c) {
        let others = comp.instructions.iter().map(|id| module.inst(id)).filter(|i| !is_call(i.op));
        others.flat_map(|i| i.called()).for_each(|c| kept[c.index()] = true);
    }
    (0..kept.len()).filter(|c| kept[*c]).map(CompId::new).collect()
}

/// Which computations the entry reaches: only they are worth the room.
fn reached(module: &HloModule) -> Vec<bool> {
    let mut reached = vec![false; module.computations.len()];
    reached[module.entry.index()] = true;
    // Callees stand before their callers, so one walk backwards finds all.
    for c in (0..module.computations.len()).rev().filter(|c| *c <= module.entry.index()) {
        if reached[c] {
            let instructions = module.computations[c].instructions.iter();
            instructions.flat_map(|id| module.inst(id).called()).for_each(|callee| {
                if let Some(flag) = reached.get_mut(callee.index()) {
                    *flag = true;
                }
            });
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::hlo::{Computation, HloRange, Shape};

    /// `f0 { p ; n = negate(p) }`, and each further one calls the one before and negates; the last is the entry.
    fn chain(depth: u32) -> HloModule {
        let mut m = HloModule::default();
        let shape = m.intern_shape(Shape::Token);
        for c in 0..depth {
            let first = m.len() as u32;
            let p = m.push(Draft::new("p", HloOp::Parameter, shape));
            let value = match c.checked_sub(1) {
                None => p,
                Some(callee) => {
                    let called = [CompId(callee)];
                    m.push(Draft { operands: &[p], called: &called, ..Draft::new("c", HloOp::Call, shape) })
                }
            };
            let root = m.push(Draft { operands: &[value], ..Draft::new("n", HloOp::Negate, shape) });
            let instructions = HloRange { first, count: m.len() as u32 - first };
            m.computations.push(Computation {
                name: format!("f{c}"),
                instructions,
                parameters: vec![p],
                root,
                extra: Vec::new(),
            });
        }
        m.entry = CompId(depth - 1);
        m
    }

    #[test]
    fn a_chain_of_calls_is_written_once() {
        let m = inline(&chain(4)).expect("inlines");
        let names: Vec<&str> = m.insts().map(|i| i.name()).collect();
        assert_eq!(names, ["p", "c/c/c/n", "c/c/n", "c/n", "n"]);
        assert_eq!(m.computations.len(), 1);
        let deep = inline(&chain(3_000)).expect("inlines");
        assert_eq!(deep.len(), 3_001);
    }

    #[test]
    fn a_call_of_itself_is_refused() {
        let mut m = chain(2);
        let call = m.insts().find(|i| i.op == HloOp::Call).map(|i| i.id).expect("a call");
        m.called_mut(call)[0] = CompId(1);
        assert!(inline(&m).is_err());
    }
}
