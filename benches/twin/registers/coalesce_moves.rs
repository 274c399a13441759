//! Registers that a move joins become one; constants that are moved twice are moved once.

use crate::twin::graph::{Program, Register};
use crate::twin::instruction::Instruction;
use crate::twin::pass::Pass;
use murre_components::bir::{InstArgs, Opcode};
use murre_systems::address::walk::op::{ADD, MULT};
use std::rc::Rc;

/// How many instructions behind the last use of a constant it is still taken instead of a new one.
const NEAR: u32 = 64;
/// Constants that are remembered for each engine.
const REMEMBERED: usize = 8;

/// The pass.
pub struct CoalesceMoves;

impl Pass for CoalesceMoves {
    fn name(&self) -> &'static str {
        "coalesce_moves"
    }

    fn run(&self, program: &mut Program) {
        count(program);
        let mut decisions = Decisions {
            instructions: &program.instructions,
            constants: Default::default(),
            block: 1,
            dropped: 0,
        };
        for (at, instruction) in (1..).zip(&program.instructions) {
            decisions.visit(at, instruction);
        }
        if decisions.dropped > 0 {
            program.instructions.retain(|i| !i.dead.get());
        }
    }
}

/// Counts accesses.
fn count(program: &Program) {
    for (at, instruction) in (1..).zip(&program.instructions) {
        instruction.reads(|r| r.note(|a| a.last = at));
        if let Some(d) = &instruction.registers.borrow().destination {
            d.note(|a| (a.last, a.writes) = (at, a.writes.saturating_add(1)));
        }
    }
}

/// `x * 1` and `x + 0`.
fn is_copy(a: InstArgs) -> bool {
    a.imm1 == 0 && (a.op0 == MULT && a.imm0 == 1 || a.op0 == ADD && a.imm0 == 0)
}

/// A constant in a register.
struct Constant {
    imm: u32,
    dtype: u8,
    register: Rc<Register>,
}

/// What has been decided so far.
struct Decisions<'a> {
    instructions: &'a [Rc<Instruction>],
    constants: [[Option<Constant>; REMEMBERED]; 8],
    /// Position at which the block begins.
    block: u32,
    dropped: u32,
}

impl Decisions<'_> {
    fn visit(&mut self, at: u32, instruction: &Instruction) {
        let op = instruction.op.get();
        if op.is_structure() || matches!(op, Opcode::CompareAndBranch | Opcode::UnconditionalBranch) {
            self.block = at;
            self.constants = Default::default();
        }
        for operand in &instruction.operands {
            operand.address.borrow().register().into_iter().for_each(|r| see(r, at));
        }
        let (sources, destination) = {
            let registers = instruction.registers.borrow();
            (registers.sources.clone(), registers.destination.clone())
        };
        if let Some(d) = &destination {
            self.simplify(instruction, &sources, d);
            if self.is_needless(at, instruction, d) {
                instruction.dead.set(true);
                self.dropped += 1;
                return;
            }
        }
        sources.iter().flatten().for_each(|r| see(r, at));
        if let Some(d) = destination {
            d.note(|a| (a.seen, a.written) = (at, at));
        }
    }

    /// Makes a move of an operation that is one.
    fn simplify(&mut self, instruction: &Instruction, sources: &[Option<Rc<Register>>; 2], d: &Rc<Register>) {
        let args = instruction.args.get();
        if instruction.op.get() != Opcode::RegisterAlu {
            return;
        }
        let immediate = args.mode & 1 == 1;
        if immediate && is_copy(args) && d.width == 1 {
            become_move(instruction);
            instruction.registers.borrow_mut().sources[1] = None;
        } else if !immediate
            && args.op0 == ADD
            && let [Some(a), Some(t)] = sources
            && Rc::ptr_eq(a, d)
        {
            self.sum(instruction, d, t);
        }
    }

    /// Whether a move has become needless.
    fn is_needless(&mut self, at: u32, instruction: &Instruction, d: &Rc<Register>) -> bool {
        let args = instruction.args.get();
        if instruction.op.get() != Opcode::RegisterMove {
            false
        } else if args.mode & 1 == 1 {
            self.repeats(at, instruction, d)
        } else {
            let source = instruction.registers.borrow().sources[0].clone();
            source.is_some_and(|s| self.copies(at, &s, d))
        }
    }

    /// `d = s`: whether they have become one register.
    fn copies(&self, at: u32, s: &Rc<Register>, d: &Rc<Register>) -> bool {
        if Rc::ptr_eq(s, d) || s.engine != d.engine || s.width != d.width {
            return Rc::ptr_eq(s, d);
        }
        let (a, b) = (s.accesses.get(), d.accesses.get());
        if a.writes == 1 && b.writes == 1 {
            s.note(|x| (x.last, x.seen) = (a.last.max(b.last), at));
            d.replace_by(s);
            return true;
        }
        self.becomes(at, s, d)
    }

    /// Whether the value that `value` gets in this block, and whose last reader stands at `at`, could be made in `home`.
    fn becomes(&self, at: u32, value: &Rc<Register>, home: &Rc<Register>) -> bool {
        let (v, h) = (value.accesses.get(), home.accesses.get());
        if v.writes != 1 || v.last != at || v.written < self.block || v.written == 0 || h.seen > v.written {
            return false;
        }
        value.replace_by(home);
        home.note(|a| (a.seen, a.written) = (at, v.written));
        true
    }

    /// Whether a register near by has the constant already.
    fn repeats(&mut self, at: u32, instruction: &Instruction, d: &Rc<Register>) -> bool {
        let (args, accesses) = (instruction.args.get(), d.accesses.get());
        if accesses.writes != 1 || d.width != 1 {
            return false;
        }
        let constants = &mut self.constants[instruction.engine.get() as usize & 7];
        for c in constants.iter().flatten() {
            let a = c.register.accesses.get();
            if (c.imm, c.dtype) == (args.imm0, args.dtype)
                && a.writes == 1
                && !c.register.replaced.get()
                && a.seen + NEAR >= at
            {
                c.register.note(|a| (a.last, a.seen) = (a.last.max(accesses.last), at));
                d.replace_by(&c.register);
                return true;
            }
        }
        let constant = Constant { imm: args.imm0, dtype: args.dtype, register: d.clone() };
        constants[args.imm0 as usize % REMEMBERED] = Some(constant);
        false
    }

    /// `d = d + t` behind `d = c` in this block.
    fn sum(&mut self, instruction: &Instruction, d: &Rc<Register>, t: &Rc<Register>) {
        let a = d.accesses.get();
        if Rc::ptr_eq(d, t) || d.width != 1 || a.written == 0 {
            return;
        }
        let first = &self.instructions[a.written as usize - 1];
        let is_first = first.op.get() == Opcode::RegisterMove
            && !first.dead.get()
            && first.args.get().mode & 1 == 1
            && first.registers.borrow().destination.as_ref().is_some_and(|f| Rc::ptr_eq(f, d));
        if !is_first || a.written < self.block || a.seen != a.written {
            return;
        }
        let c = first.args.get().imm0;
        first.dead.set(true);
        self.dropped += 1;
        d.note(|a| a.writes -= 1);
        instruction.registers.borrow_mut().sources = [Some(t.clone()), None];
        if c == 0 {
            become_move(instruction);
        } else {
            instruction.args.set(InstArgs { mode: 1, imm0: c, ..instruction.args.get() });
        }
    }
}

fn become_move(instruction: &Instruction) {
    instruction.op.set(Opcode::RegisterMove);
    instruction.args.set(InstArgs { dtype: instruction.args.get().dtype, ..Default::default() });
}

fn see(r: &Register, at: u32) {
    r.note(|a| a.seen = at);
}
