//! Run-time values in addresses name the register of the engine that executes the address's instruction.

use crate::twin::graph::{Expr, Program};
use crate::twin::instruction::Address;
use crate::twin::pass::Pass;
use murre_components::engine::EngineId;
use std::rc::Rc;

/// The pass.
pub struct RewireDynamicApRegisters;

impl Pass for RewireDynamicApRegisters {
    fn name(&self) -> &'static str {
        "rewire_dynamic_ap_registers"
    }

    fn run(&self, program: &mut Program) {
        for instruction in &program.instructions {
            let engine = instruction.engine.get();
            for operand in &instruction.operands {
                let done = match &mut *operand.address.borrow_mut() {
                    Address::Dynamic(d) => d.terms.iter_mut().all(|(e, _)| rewire(e, engine)),
                    Address::Symbolic(s) => rewire(&mut s.tile, engine) && rewire(&mut s.block, engine),
                    Address::Static | Address::Register(_) => true,
                };
                if !done {
                    program.faults.push("a register of an address has no counterpart".into());
                }
            }
        }
    }
}

/// Rewires an expression. Others may hold it, so that a changed one is a new one. `false`: there is no such register.
fn rewire(e: &mut Rc<Expr>, engine: EngineId) -> bool {
    match &**e {
        Expr::Axis(_) => true,
        Expr::Register(r) => match r.copy(engine).cloned() {
            Some(copy) => {
                *e = Rc::new(Expr::Register(copy));
                true
            }
            None => false,
        },
        Expr::Affine { terms, .. } if !terms.iter().any(|(e, _)| matches!(**e, Expr::Register(_))) => true,
        Expr::Affine { terms, c } => {
            let (mut terms, c) = (terms.clone(), *c);
            let done = terms.iter_mut().all(|(e, _)| rewire(e, engine));
            *e = Rc::new(Expr::Affine { terms, c });
            done
        }
    }
}
