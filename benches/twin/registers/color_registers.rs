//! Physical ids by a scan over the ranges.

use crate::twin::graph::{Program, Register};
use crate::twin::pass::Pass;
use murre_components::bir::Opcode;
use murre_components::engine::ALLOCATABLE_REGISTERS;
use std::rc::Rc;

/// The pass.
pub struct ColorRegisters;

const EVEN: u64 = 0x5555_5555_5555_5555;

impl Pass for ColorRegisters {
    fn name(&self) -> &'static str {
        "color_registers"
    }

    fn run(&self, program: &mut Program) {
        let lives = |r: &Rc<Register>| Some((r.live.get()?, r.clone()));
        let ranges: Vec<((u32, u32), Rc<Register>)> = program.registers.iter().filter_map(lives).collect();
        let mut starts: Vec<(u32, &Rc<Register>)> = ranges.iter().map(|((a, _), r)| (*a, r)).collect();
        let mut ends: Vec<(u32, &Rc<Register>)> = ranges.iter().map(|((_, b), r)| (*b, r)).collect();
        // Registers stand in the order of their numbers, and the sort is stable.
        starts.sort_by_key(|s| s.0);
        ends.sort_by_key(|e| e.0);
        let mut expired = ends.into_iter().peekable();
        let mut free = [(1u64 << ALLOCATABLE_REGISTERS) - 1; 8];
        for (first, register) in starts {
            let file = register.engine as usize & 7;
            while let Some((_, end)) = expired.next_if(|e| e.0 < first) {
                if !end.given.get() {
                    free[end.engine as usize & 7] |= lanes(end);
                }
            }
            let instruction = &program.instructions[first as usize];
            let operands = instruction.registers.borrow();
            let is_defined = operands.destination.as_ref().is_some_and(|d| Rc::ptr_eq(d, register));
            // Sources whose range ends where this one begins.
            let ending = operands.sources.iter().flatten().filter(|s| {
                is_defined
                    && !Rc::ptr_eq(s, register)
                    && s.live.get().is_some_and(|l| l.1 == first)
                    && s.engine == register.engine
                    && s.colour.get().is_some()
            });
            let (mut wish, mut available) = (None, free[file]);
            for s in ending.clone() {
                available |= lanes(s);
                if instruction.op.get() == Opcode::RegisterMove && s.width == register.width {
                    wish = s.colour.get();
                }
            }
            let colour = choose(available, register.width, wish);
            if colour.is_none() {
                program.faults.push("an engine runs out of registers".into());
                return;
            }
            register.colour.set(colour);
            let taken = lanes(register);
            free[file] &= !taken;
            for s in ending.filter(|s| lanes(s) & taken != 0) {
                s.given.set(true);
                free[file] |= lanes(s) & !taken;
            }
        }
    }
}

fn lanes(register: &Register) -> u64 {
    register.colour.get().map_or(0, |c| (if register.width == 2 { 3u64 } else { 1 }) << c)
}

/// The id that a register of `width` takes out of `free`, `wish` if it can.
fn choose(free: u64, width: u8, wish: Option<u8>) -> Option<u8> {
    let pairs = free & (free >> 1) & EVEN;
    let candidates = if width == 2 { pairs } else { free };
    if let Some(w) = wish.filter(|w| *w < 64 && candidates >> w & 1 == 1) {
        return Some(w);
    }
    let halves = candidates & !(pairs | pairs << 1);
    let from = if width == 1 && halves != 0 { halves } else { candidates };
    (from != 0).then(|| from.trailing_zeros() as u8)
}
