//! Control operations on engine ALL are cloned for the engines that need their result.

use crate::twin::graph::{Expr, Program, Register};
use crate::twin::instruction::{Address, Instruction, Link, Registers};
use crate::twin::pass::Pass;
use crate::twin::walk::Walk;
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::ids::{InstId, RegId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const EVERY_ENGINE: u8 = 0b1_1111;

/// The pass.
pub struct ExpandAllEngine;

impl Pass for ExpandAllEngine {
    fn name(&self) -> &'static str {
        "expand_all_engine"
    }

    fn run(&self, program: &mut Program) {
        demand(program);
        let count = program.registers.len();
        let (old, mut walk) = Walk::over(program);
        for instruction in old {
            let engine = instruction.engine.get();
            if instruction.label().is_some() || engine != EngineId::All {
                // Register immediates of a compute instruction.
                for r in instruction.registers.borrow_mut().sources.iter_mut().flatten() {
                    *r = local(walk.program, r, engine);
                    r.uses.borrow_mut().push(Rc::downgrade(&instruction));
                }
                walk.out.push(instruction);
                continue;
            }
            let wanted = instruction.registers.borrow().destination.as_ref().map_or(EVERY_ENGINE, wanted);
            for engine in EngineId::STREAMS.into_iter().filter(|e| wanted & bit(*e) != 0) {
                let clone = on_engine(walk.program, &instruction, engine);
                walk.out.push(clone);
            }
        }
        walk.end();
        // Addresses may name a register that no operation of their engine defines.
        for number in 0..count {
            let register = program.registers[number].clone();
            for engine in EngineId::STREAMS.into_iter().filter(|e| wanted(&register) & bit(*e) != 0) {
                local(program, &register, engine);
            }
        }
    }
}

fn bit(engine: EngineId) -> u8 {
    engine.stream().map_or(0, |s| 1 << s)
}

/// Streams that need a register.
fn wanted(register: &Rc<Register>) -> u8 {
    register.copies.as_ref().map_or(0, |c| c.demand.get())
}

/// Notes that more streams need a register. Whether that is new.
fn want(register: &Register, streams: u8) -> bool {
    let Some(copies) = &register.copies else { return false };
    let before = copies.demand.replace(copies.demand.get() | streams);
    streams & !before != 0
}

/// The copy of a register on an engine, made when there is none.
fn local(program: &mut Program, register: &Rc<Register>, engine: EngineId) -> Rc<Register> {
    let Some((copies, stream)) = register.copies.as_ref().zip(engine.stream()) else {
        return register.clone();
    };
    let slot = &copies.registers[stream];
    if slot.get().is_none() {
        let mut row = RegRow::new(engine, register.role, register.from.hlo);
        row.head.width = register.width;
        row.from = RegFrom { all: RegId(register.number), ..register.from };
        row.bounds = register.bounds;
        let _ = slot.set(program.register(row));
    }
    slot.get().unwrap_or(register).clone()
}

/// The clone of an instruction on an engine.
fn on_engine(program: &mut Program, instruction: &Rc<Instruction>, engine: EngineId) -> Rc<Instruction> {
    let registers = instruction.registers.borrow();
    let mut map = |r: &Option<Rc<Register>>| r.as_ref().map(|r| local(program, r, engine));
    let sources = [map(&registers.sources[0]), map(&registers.sources[1])];
    let destination = map(&registers.destination);
    let from = InstFrom { owner: InstId(instruction.number), ..instruction.from };
    let clone = Instruction {
        flags: instruction.flags,
        args: Cell::new(instruction.args.get()),
        operands: instruction.operands.clone(),
        registers: RefCell::new(Registers { sources, destination }),
        link: if let Link::Target(label) = &instruction.link {
            Link::Target(label.clone())
        } else {
            Link::None
        },
        ..Instruction::new(program.number(), instruction.op.get(), engine, from)
    };
    clone.share()
}

/// Finds the engines that need each register on ALL.
fn demand(program: &Program) {
    let index = |e: &Expr, streams: u8| match e {
        Expr::Register(r) => want(r, streams),
        Expr::Axis(axis) => want(&axis.iv, streams),
        Expr::Affine { .. } => false,
    };
    for instruction in &program.instructions {
        let engine = instruction.engine.get();
        for operand in &instruction.operands {
            match &*operand.address.borrow() {
                Address::Dynamic(d) => {
                    for (e, _) in &d.terms {
                        index(e, bit(engine));
                    }
                }
                Address::Symbolic(s) => {
                    for e in [&s.tile, &s.block] {
                        match &**e {
                            Expr::Affine { terms, .. } => {
                                for (e, _) in terms {
                                    index(e, bit(engine));
                                }
                            }
                            alone => {
                                index(alone, bit(engine));
                            }
                        }
                    }
                }
                Address::Static | Address::Register(_) => {}
            }
        }
        let registers = instruction.registers.borrow();
        let defines = engine == EngineId::All && registers.destination.is_some();
        if instruction.label().is_none() && !defines {
            let streams = if engine == EngineId::All { EVERY_ENGINE } else { bit(engine) };
            for r in registers.sources.iter().flatten() {
                want(r, streams);
            }
        }
    }
    // What is demanded demands the sources of its definitions.
    let mut work: Vec<Rc<Register>> = program.registers.iter().filter(|r| wanted(r) != 0).cloned().collect();
    while let Some(register) = work.pop() {
        let streams = wanted(&register);
        for definition in register.definitions.borrow().iter().filter_map(|d| d.upgrade()) {
            let registers = definition.registers.borrow();
            work.extend(registers.sources.iter().flatten().filter(|r| want(r, streams)).cloned());
        }
    }
}
