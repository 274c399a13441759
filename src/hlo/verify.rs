//! The verifier: a module in, every fault in it out. First the tables (ids in range, operands before users, callees
//! before callers), then each instruction's shape against what its operation gives. After a clean run look-ups by id
//! and shape arithmetic cannot fail, and passes rely on that.

use crate::hlo::infer::{Expect, Inspect, same_bounds};
use murre_components::diag::{Diagnostic, Span, codes::verify as codes};
use murre_components::hlo::{Attrs, HloInstruction, HloModule, UNBOUNDED};

/// All faults of a module, in program order; empty when it is valid.
pub fn verify(module: &HloModule) -> Vec<Diagnostic> {
    let mut faults = structure(module);
    if !faults.is_empty() {
        return faults;
    }
    for (ordinal, inst) in module.instructions.iter().enumerate() {
        instruction(module, inst, ordinal as u32, &mut faults);
    }
    faults
}

fn on(fault: Diagnostic, inst: &HloInstruction, ordinal: u32) -> Diagnostic {
    let fault = fault.on(&inst.name).from_source(inst.source()).ordered(ordinal);
    match inst.loc.text_line {
        0 => fault,
        line => fault.at(Span { line, column: inst.loc.text_column }),
    }
}

fn structure(module: &HloModule) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(Diagnostic::error(&codes::VERIFY_STRUCTURE, what));
    let mut position = vec![None; module.instructions.len()];
    for (c, computation) in module.computations.iter().enumerate() {
        let name = &computation.name;
        for (at, id) in computation.instructions.iter().enumerate() {
            match (module.instructions.get(id.index()), position.get_mut(id.index())) {
                (Some(inst), Some(slot @ None)) if inst.computation.index() == c => *slot = Some(at),
                _ => fault(format!("'{name}' lists an instruction that is not its own, or lists it twice")),
            }
        }
        let listed = |id: &murre_components::ids::HloId| {
            module.instructions.get(id.index()).is_some_and(|i| i.computation.index() == c)
        };
        if !listed(&computation.root) {
            fault(format!("the root of '{name}' is not in it"));
        }
        for (number, id) in computation.parameters.iter().enumerate() {
            let attrs = module.instructions.get(id.index()).map(|i| &i.attrs);
            if !listed(id) || !matches!(attrs, Some(Attrs::Parameter { number: n }) if *n as usize == number)
            {
                fault(format!("parameter {number} of '{name}' is not numbered so"));
            }
        }
    }
    for (i, inst) in module.instructions.iter().enumerate() {
        let Some(own) = position[i] else {
            fault(format!("no computation lists '{}'", inst.name));
            continue;
        };
        for operand in &inst.operands {
            let before =
                module.instructions.get(operand.index()).is_some_and(|o| o.computation == inst.computation)
                    && position.get(operand.index()).is_some_and(|p| p.is_some_and(|p| p < own));
            if !before {
                fault(format!("an operand of '{}' does not come before it in its computation", inst.name));
            }
        }
        if inst.called.iter().any(|c| c.index() >= inst.computation.index()) {
            fault(format!("'{}' calls a computation that does not come before its own", inst.name));
        }
    }
    if module.computations.get(module.entry.index()).is_none() {
        fault("the entry computation does not exist".to_owned());
    }
    faults
}

fn instruction(module: &HloModule, inst: &HloInstruction, ordinal: u32, faults: &mut Vec<Diagnostic>) {
    if inst.shape.leaves().iter().any(|s| s.array().is_some_and(|a| a.dims.contains(&UNBOUNDED))) {
        let what = "a dimension without a bound";
        let fault = Diagnostic::error(&codes::VERIFY_UNSUPPORTED, what).found(inst.shape.to_string());
        faults.push(on(fault.expected("a bound such as f32[<=8]"), inst, ordinal));
        return;
    }
    if inst.shape.leaves().iter().any(|s| s.array().is_some_and(|a| !whole(a))) {
        let what = "the value's size overflows";
        let fault = Diagnostic::error(&codes::VERIFY_SHAPE, what).found(inst.shape.to_string());
        faults.push(on(fault.expected("fewer than 2^62 bytes"), inst, ordinal));
        return;
    }
    let mut inspect = Inspect::new(module, inst);
    let expected = match inspect.expect() {
        Ok(Expect::Exact(shape)) if !shape.same(&inst.shape) => Some(shape),
        Ok(Expect::Bounds(shape)) if !same_bounds(&shape, &inst.shape) => Some(shape),
        Ok(Expect::Unsupported) => {
            let what = format!("{} is outside what murre computes", inst.op.name());
            let mut fault = Diagnostic::error(&codes::VERIFY_UNSUPPORTED, what).found(inst.op.name());
            if let Attrs::CustomCall { target, .. } = &inst.attrs {
                fault = fault.found(format!("custom-call to \"{target}\""));
            }
            faults.push(on(fault, inst, ordinal));
            None
        }
        _ => None,
    };
    for problem in inspect.problems {
        let fault =
            Diagnostic::error(problem.code, problem.message).found(problem.found).expected(problem.expected);
        faults.push(on(fault, inst, ordinal));
    }
    if let Some(shape) = expected {
        let found = inst.shape.to_string();
        let what = format!("{} gives {shape}, not {found}", inst.op.name());
        let fault = Diagnostic::error(&codes::VERIFY_SHAPE, what).found(found).expected(shape.to_string());
        faults.push(on(fault, inst, ordinal));
    }
}

/// Whether the array's bytes can be counted.
fn whole(a: &murre_components::hlo::ArrayShape) -> bool {
    a.elements().saturating_mul(16) < 1 << 62 && a.dims.iter().all(|d| *d < 1 << 48)
}
