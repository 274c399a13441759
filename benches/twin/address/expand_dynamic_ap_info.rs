//! The run-time offset of a dynamic DMA as register arithmetic in front of it.

use crate::twin::graph::{Expr, Program, Register};
use crate::twin::instruction::{Address, DynamicOffset, Registers};
use crate::twin::pass::Pass;
use crate::twin::walk::{Site, Walk};
use murre_components::bir::*;
use murre_systems::address::expand_dynamic_ap_info::WIDE_BYTES;
use murre_systems::address::walk::op;
use std::rc::Rc;

/// The pass.
pub struct ExpandDynamicApInfo;

impl Pass for ExpandDynamicApInfo {
    fn name(&self) -> &'static str {
        "expand_dynamic_ap_info"
    }

    fn run(&self, program: &mut Program) {
        let (old, mut walk) = Walk::over(program);
        for instruction in old {
            if instruction.flags & InstHead::DYNAMIC != 0 {
                let mut products = Products::default();
                for operand in &instruction.operands {
                    let Address::Dynamic(info) = &mut *operand.address.borrow_mut() else { continue };
                    let (bytes, size) = (operand.dtype.bytes(), operand.location.head.part_bytes());
                    match expand(&mut walk, Site::before(&instruction), info, bytes, size, &mut products) {
                        Ok((sum, bound)) => {
                            info.register = Some(sum.clone());
                            for r in [&sum, &bound] {
                                r.uses.borrow_mut().push(Rc::downgrade(&instruction));
                            }
                            *instruction.registers.borrow_mut() =
                                Registers { sources: [Some(sum), Some(bound)], destination: None };
                        }
                        Err(fault) => walk.program.faults.push(fault.into()),
                    }
                }
            }
            walk.out.push(instruction);
        }
        walk.end();
    }
}

/// Products of an instruction: expression, factor, register.
type Products = Vec<(Rc<Expr>, i64, Rc<Register>)>;

/// Offset and bound in registers.
fn expand(
    walk: &mut Walk<'_>,
    site: Site,
    info: &DynamicOffset,
    bytes: u32,
    size: u64,
    products: &mut Products,
) -> Result<(Rc<Register>, Rc<Register>), &'static str> {
    if size >= WIDE_BYTES {
        return Err("an offset that is more than 32 bits");
    }
    let sum = walk.register(RegRole::DynamicOffset, site);
    walk.move_imm(site, &sum, info.c * i64::from(bytes));
    for (e, coefficient) in &info.terms {
        if *coefficient <= 0 {
            return Err("a run-time offset that counts down");
        }
        let scale = coefficient * i64::from(bytes);
        let known = products.iter().find(|p| Rc::ptr_eq(&p.0, e) && p.1 == scale);
        let product = match known {
            Some(p) => p.2.clone(),
            None => {
                let index = e.index_register(site.engine).filter(|r| r.engine == site.engine);
                let index = index.ok_or("an index without a register")?;
                let product = walk.register(RegRole::DynamicTerm, site);
                walk.alu_imm(site, op::MULT, index, scale, &product);
                products.push((e.clone(), scale, product.clone()));
                product
            }
        };
        walk.alu_reg(site, op::ADD, &sum, &product, &sum);
    }
    let bound = walk.register(RegRole::Bound, site);
    walk.move_imm(site, &bound, size as i64);
    Ok((sum, bound))
}
