//! Symbolic access patterns become register access patterns, dynamic on-chip copies ordinary ones.

use crate::twin::graph::{Program, Register};
use crate::twin::instruction::{Address, Operand, SymbolicOffset};
use crate::twin::pass::Pass;
use crate::twin::walk::{Site, Walk};
use murre_components::bir::*;
use murre_components::engine::{PSUM_BASE, PSUM_PARTITION_STRIDE, SBUF_PARTITION_STRIDE};
use murre_systems::address::walk::op;
use std::rc::Rc;

/// The pass.
pub struct LowerAp;

impl Pass for LowerAp {
    fn name(&self) -> &'static str {
        "lower_ap"
    }

    fn run(&self, program: &mut Program) {
        let (old, mut walk) = Walk::over(program);
        for instruction in old {
            let op = instruction.op.get();
            if matches!(op, Opcode::TensorCopyDynamicSrc | Opcode::TensorCopyDynamicDst) {
                for operand in &instruction.operands {
                    let mut address = operand.address.borrow_mut();
                    let Address::Symbolic(offset) = &*address else { continue };
                    match convert(&mut walk, Site::before(&instruction), operand, offset) {
                        Ok(register) => {
                            register.uses.borrow_mut().push(Rc::downgrade(&instruction));
                            *address = Address::Register(register);
                            instruction.op.set(Opcode::TensorCopy);
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

/// The address in a register.
fn convert(
    walk: &mut Walk<'_>,
    site: Site,
    operand: &Operand,
    offset: &SymbolicOffset,
) -> Result<Rc<Register>, &'static str> {
    let location = &operand.location;
    if location.place.address == u32::MAX {
        return Err("a symbolic access on a location without an address");
    }
    let (stride, base) = match location.head.space {
        Space::Sbuf => (SBUF_PARTITION_STRIDE, location.place.address),
        Space::Psum => (PSUM_PARTITION_STRIDE, PSUM_BASE + location.place.address),
        Space::Dram => return Err("a symbolic access in DRAM"),
    };
    let step = operand.pattern.0.first().map_or(0, |p| i64::from(p.step));
    if step <= 0 {
        return Err("a symbolic access whose partition step is not positive");
    }
    let ap_offset = walk.register(RegRole::ApOffset, site);
    let sub_tensor = walk.register(RegRole::SubTensorId, site);
    let tmp = walk.register(RegRole::Temp, site);
    let address = walk.register(RegRole::ApAddr, site);
    walk.affine(site, &offset.tile, &ap_offset, &tmp);
    walk.affine(site, &offset.block, &sub_tensor, &tmp);
    walk.move_imm(site, &address, i64::from(base));
    walk.alu_imm(site, op::DIVIDE, &ap_offset, step, &tmp);
    walk.alu_imm(site, op::MULT, &tmp, i64::from(stride), &tmp);
    walk.alu_reg(site, op::ADD, &address, &tmp, &address);
    walk.alu_imm(site, op::MOD, &ap_offset, step, &tmp);
    walk.alu_imm(site, op::MULT, &tmp, i64::from(operand.dtype.bytes()), &tmp);
    walk.alu_reg(site, op::ADD, &address, &tmp, &address);
    Ok(address)
}
