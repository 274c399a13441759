//! Other DMAs become blocks of descriptors.

use super::shape;
use crate::twin::graph::{Block, Program};
use crate::twin::instruction::{Instruction, Operand, Transfer};
use crate::twin::pass::Pass;
use murre_components::bir::*;
use murre_components::ids::DmaBlockId;
use murre_systems::describe::family::{descriptors_of, family_of};
use murre_systems::describe::shape::{CopyShape, Cut, Step, side_base};
use std::cell::RefCell;
use std::rc::Rc;

/// The pass.
pub struct LowerDma;

impl Pass for LowerDma {
    fn name(&self) -> &'static str {
        "lower_dma"
    }

    fn run(&self, program: &mut Program) {
        for instruction in &program.instructions {
            let Some((to, from, transfer)) = instruction.copy() else { continue };
            if transfer.route.get() != DgeType::None {
                continue;
            }
            match block(program.blocks.len() as u32, instruction, to, from, transfer) {
                Some(block) => {
                    program.blocks.push(block.clone());
                    let _ = transfer.block.set(block);
                }
                None => program.faults.push("a copy without descriptors".into()),
            }
        }
    }
}

/// The block of a copy.
fn block(
    number: u32,
    instruction: &Instruction,
    to: &Operand,
    from: &Operand,
    transfer: &Transfer,
) -> Option<Rc<Block>> {
    if instruction.operands.iter().any(|o| o.is_dynamic()) {
        return None;
    }
    let shape = shape(to, from)?;
    descriptors_of(family_of(&shape, instruction.args.get().op0)).ok()?;
    let base = |o: &Operand| side_base(&o.head(), &o.location.head, &o.location.place);
    let (dst, src) = (base(to)?, base(from)?);
    let head = DescHead {
        block: DmaBlockId(number),
        hlo: instruction.from.hlo,
        src_tag: from.dtype.wire_tag(),
        dst_tag: to.dtype.wire_tag(),
        sem: 0,
        sem_inc: 0,
    };
    let (mut descriptors, mut reached) = (Vec::new(), true);
    shape.cuts(|cut| match descriptor(&shape, &cut, head, dst, src) {
        Some(row) => descriptors.push(row),
        None => reached = false,
    });
    let queue = transfer.queue.get()?.clone();
    reached.then(|| Rc::new(Block { number, queue, descriptors: RefCell::new(descriptors) }))
}

/// One descriptor; `None` when an address leaves its 32 bits.
fn descriptor(
    shape: &CopyShape,
    cut: &Cut,
    head: DescHead,
    dst: (u32, u32),
    src: (u32, u32),
) -> Option<DescRow> {
    let side = |(var, base): (u32, u32), moved: Step, steps: [i64; 2], bytes: u32| {
        Some(DescSide {
            base: u32::try_from(i64::from(base) + moved.bytes).ok()?,
            var,
            step0: i32::try_from(steps[0]).ok()?,
            step1: i32::try_from(steps[1]).ok()?,
            num0: cut.dim0.num as u16,
            num1: cut.dim1.num as u16,
            run: cut.run * bytes,
        })
    };
    let steps = [cut.dim0, cut.dim1];
    Some(DescRow {
        head,
        src: DescSrc(side(src, cut.src, steps.map(|d| d.src.bytes), shape.src_bytes)?),
        dst: DescDst(side(dst, cut.dst, steps.map(|d| d.dst.bytes), shape.dst_bytes)?),
    })
}
