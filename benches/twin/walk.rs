//! Inserting before instructions: the program is taken apart and put together again with new instructions in between.

use super::graph::{Expr, Program, Register};
use super::instruction::{Instruction, Registers};
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::ids::{HloId, InstId};
use murre_systems::address::walk::op;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A program while instructions are inserted.
pub struct Walk<'a> {
    pub program: &'a mut Program,
    pub out: Vec<Rc<Instruction>>,
}

/// Where new instructions run and what for.
#[derive(Clone, Copy)]
pub struct Site {
    pub engine: EngineId,
    pub hlo: HloId,
    pub owner: InstId,
}

impl Site {
    /// In front of an instruction, on its engine.
    pub fn before(instruction: &Instruction) -> Site {
        let (hlo, owner) = (instruction.from.hlo, InstId(instruction.number));
        Site { engine: instruction.engine.get(), hlo, owner }
    }
}

impl<'a> Walk<'a> {
    /// The instructions of a program, and a walk that receives what becomes of them.
    pub fn over(program: &'a mut Program) -> (Vec<Rc<Instruction>>, Walk<'a>) {
        let old = std::mem::take(&mut program.instructions);
        let out = Vec::with_capacity(old.len() + old.len() / 4);
        (old, Walk { program, out })
    }

    /// The program has the new instructions.
    pub fn end(self) {
        self.program.instructions = self.out;
    }

    /// A 32-bit register.
    pub fn register(&mut self, role: RegRole, site: Site) -> Rc<Register> {
        let mut row = RegRow::new(site.engine, role, site.hlo);
        row.from.inst = site.owner;
        self.program.register(row)
    }

    /// Appends a new instruction.
    pub fn emit(&mut self, op: Opcode, site: Site, args: InstArgs, registers: Registers) {
        let from = InstFrom { hlo: site.hlo, owner: site.owner };
        let new = Instruction {
            args: Cell::new(args),
            registers: RefCell::new(registers),
            ..Instruction::new(self.program.number(), op, site.engine, from)
        };
        self.out.push(new.share());
    }

    /// `dst = imm`.
    pub fn move_imm(&mut self, site: Site, dst: &Rc<Register>, imm: i64) {
        let args = InstArgs { mode: 1, dtype: 8, imm0: imm as u32, ..Default::default() };
        let registers = Registers { sources: [None, None], destination: Some(dst.clone()) };
        self.emit(Opcode::RegisterMove, site, args, registers);
    }

    /// `dst = a op imm`.
    pub fn alu_imm(&mut self, site: Site, op: u8, a: &Rc<Register>, imm: i64, dst: &Rc<Register>) {
        let args = InstArgs { op0: op, mode: 1, dtype: 8, imm0: imm as u32, ..Default::default() };
        let registers = Registers { sources: [Some(a.clone()), None], destination: Some(dst.clone()) };
        self.emit(Opcode::RegisterAlu, site, args, registers);
    }

    /// `dst = a op b`.
    pub fn alu_reg(&mut self, site: Site, op: u8, a: &Rc<Register>, b: &Rc<Register>, dst: &Rc<Register>) {
        let args = InstArgs { op0: op, dtype: 8, ..Default::default() };
        let sources = [Some(a.clone()), Some(b.clone())];
        let registers = Registers { sources, destination: Some(dst.clone()) };
        self.emit(Opcode::RegisterAlu, site, args, registers);
    }

    /// `dst = e`, with `tmp` for every product.
    pub fn affine(&mut self, site: Site, e: &Rc<Expr>, dst: &Rc<Register>, tmp: &Rc<Register>) {
        self.move_imm(site, dst, e.constant());
        let alone;
        let terms = match &**e {
            Expr::Affine { terms, .. } => terms.as_slice(),
            Expr::Axis(_) | Expr::Register(_) => {
                alone = [(e.clone(), 1)];
                &alone
            }
        };
        for (index, coefficient) in terms {
            match index.index_register(site.engine) {
                Some(r) => {
                    self.alu_imm(site, op::MULT, r, *coefficient, tmp);
                    self.alu_reg(site, op::ADD, dst, tmp, dst);
                }
                None => self.program.faults.push("an index of an address has no register".into()),
            }
        }
    }
}
