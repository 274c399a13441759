//! The passes, and the manager that calls them.

use super::graph::{Instruction, Operand, Program, Register};
use murre_components::bir::{ApKind, Opcode, Space};
use murre_components::engine::ALLOCATABLE_REGISTERS;
use murre_components::isa::addr4_register;
use murre_systems::place::loop_hull::LoopHulls;
use std::rc::Rc;

/// A pass over a program.
pub trait Pass {
    fn run(&self, program: &mut Program);
}

/// Runs passes in order.
pub struct PassManager(pub Vec<Box<dyn Pass>>);

impl PassManager {
    pub fn run(&self, program: &mut Program) {
        self.0.iter().for_each(|pass| pass.run(program));
    }
}

/// The passes on registers and addresses.
pub fn manager() -> PassManager {
    PassManager(vec![
        Box::new(DropDeadRegisters),
        Box::new(Liveness),
        Box::new(Colour),
        Box::new(DropIdentityMoves),
        Box::new(PackAddr4),
    ])
}

/// Registers that an instruction reads.
fn reads(instruction: &Instruction) -> impl Iterator<Item = &Rc<Register>> {
    let addresses = instruction.operands.iter().filter_map(|o| o.address.as_ref());
    addresses.chain(instruction.sources.iter().flatten())
}

/// Drops register instructions whose result nothing needs.
struct DropDeadRegisters;

impl Pass for DropDeadRegisters {
    fn run(&self, program: &mut Program) {
        let pure = |i: &Instruction| {
            i.destination.is_some()
                && matches!(i.op, Opcode::RegisterAlu | Opcode::RegisterMove | Opcode::TensorLoad)
        };
        let mut work: Vec<Rc<Register>> = Vec::new();
        for instruction in program.instructions.iter().filter(|i| !pure(i)) {
            work.extend(reads(instruction).filter(|r| !r.needed.replace(true)).cloned());
        }
        while let Some(register) = work.pop() {
            for definition in register.definitions.borrow().iter().filter_map(|d| d.upgrade()) {
                if pure(&definition) {
                    work.extend(reads(&definition).filter(|r| !r.needed.replace(true)).cloned());
                }
            }
        }
        program.instructions.retain(|i| !pure(i) || i.destination.as_ref().is_some_and(|d| d.needed.get()));
    }
}

/// Live ranges.
struct Liveness;

impl Pass for Liveness {
    fn run(&self, program: &mut Program) {
        let mut hulls = LoopHulls::new(program.registers.len());
        for (position, instruction) in program.instructions.iter().enumerate() {
            let position = position as u32;
            match instruction.op {
                Opcode::Loop | Opcode::DynamicForLoop | Opcode::DoWhile => hulls.enter(position, false),
                Opcode::Terminator => drop(hulls.leave(position)),
                _ => {}
            }
            reads(instruction).for_each(|r| hulls.access(r.number as usize, position, false));
            if let Some(d) = &instruction.destination {
                hulls.access(d.number as usize, position, true);
            }
        }
        for register in &program.registers {
            register.live.set(hulls.interval(register.number as usize));
        }
    }
}

/// Physical ids by a scan over the ranges.
struct Colour;

const EVEN: u64 = 0x5555_5555_5555_5555;

fn lanes(register: &Register) -> u64 {
    register.colour.get().map_or(0, |c| (if register.width == 2 { 3u64 } else { 1 }) << c)
}

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

impl Pass for Colour {
    fn run(&self, program: &mut Program) {
        let range = |r: &Register| r.live.get().unwrap_or((u32::MAX, 0));
        let mut starts: Vec<Rc<Register>> =
            program.registers.iter().filter(|r| r.live.get().is_some()).cloned().collect();
        let mut ends = starts.clone();
        starts.sort_unstable_by_key(|r| (range(r).0, r.number));
        ends.sort_unstable_by_key(|r| (range(r).1, r.number));
        let mut expired = ends.iter().peekable();
        let mut free = [(1u64 << ALLOCATABLE_REGISTERS) - 1; 8];
        for register in &starts {
            let (first, file) = (range(register).0, register.engine as usize & 7);
            while let Some(end) = expired.next_if(|e| range(e).1 < first) {
                if !end.given.get() {
                    free[end.engine as usize & 7] |= lanes(end);
                }
            }
            let instruction = &program.instructions[first as usize];
            let defined_here = instruction.destination.as_ref().is_some_and(|d| Rc::ptr_eq(d, register));
            let ending: Vec<&Rc<Register>> = if defined_here {
                let sources = instruction.sources.iter().flatten();
                sources
                    .filter(|s| !Rc::ptr_eq(s, register) && range(s).1 == first)
                    .filter(|s| s.engine == register.engine && s.colour.get().is_some())
                    .collect()
            } else {
                Vec::new()
            };
            let mut wish = None;
            let mut available = free[file];
            for s in &ending {
                available |= lanes(s);
                if instruction.op == Opcode::RegisterMove && s.width == register.width {
                    wish = s.colour.get();
                }
            }
            register.colour.set(choose(available, register.width, wish));
            let taken = lanes(register);
            free[file] &= !taken;
            for s in ending.iter().filter(|s| lanes(s) & taken != 0) {
                s.given.set(true);
                free[file] |= lanes(s) & !taken;
            }
        }
    }
}

/// Drops moves between equal ids.
struct DropIdentityMoves;

impl Pass for DropIdentityMoves {
    fn run(&self, program: &mut Program) {
        program.instructions.retain(|i| match (&i.sources[0], &i.destination) {
            (Some(s), Some(d)) if i.op == Opcode::RegisterMove => s.colour != d.colour,
            _ => true,
        });
    }
}

/// Address words of operands.
pub struct PackAddr4;

fn word(operand: &Operand) -> u32 {
    if operand.kind == ApKind::Register {
        let colour = operand.address.as_ref().and_then(|r| r.colour.get());
        return colour.map_or(u32::MAX, |c| addr4_register(u32::from(c)));
    }
    let Some(location) = &operand.location else { return u32::MAX };
    if location.space == Space::Dram {
        return 0;
    }
    let (Some(address), ApKind::Physical) = (location.address, operand.kind) else { return u32::MAX };
    let mut byte = u64::from(operand.offset) * u64::from(operand.dtype.bytes());
    let mut part = 0;
    if byte >= location.part_bytes && location.part_bytes != 0 {
        (part, byte) = (byte / location.part_bytes, byte % location.part_bytes);
    }
    let (shift, base, partition) = match location.space {
        Space::Psum => (15, 1 << 25, 0x4000),
        _ => (18, 0, 0x40000),
    };
    let inside = u64::from(address) + byte;
    if part > 127 || inside >= partition { u32::MAX } else { (part as u32) << shift | base | inside as u32 }
}

impl Pass for PackAddr4 {
    fn run(&self, program: &mut Program) {
        for operand in program.instructions.iter().flat_map(|i| &i.operands) {
            operand.word.set(word(operand));
        }
    }
}
