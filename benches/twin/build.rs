//! The graph of a program in rows.

use super::graph::{Axis, Expr, Location, Program, Register};
use super::instruction::{
    Address, DynamicOffset, Instruction, Label, Link, Operand, Operands, Registers, SymbolicOffset, Transfer,
};
use crate::sides::Source;
use murre_components::bir::{self, ApRow, AxisRow, InstRow, LocRow, Opcode, Payload};
use murre_components::ids::{ExprId, LocId, RegId};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

/// Expressions that stand more than once in the rows are one object.
struct Expressions<'a> {
    source: &'a Source,
    made: Vec<Option<Rc<Expr>>>,
}

impl Expressions<'_> {
    fn get(&mut self, id: ExprId, registers: &[Rc<Register>], axes: &[Rc<Axis>]) -> Rc<Expr> {
        if let Some(e) = &self.made[id.index()] {
            return e.clone();
        }
        let e = match &self.source.exprs[id.index()] {
            bir::Expr::AxisIv(axis) => Expr::Axis(axes[axis.index()].clone()),
            bir::Expr::RuntimeInt(r) => Expr::Register(registers[r.index()].clone()),
            bir::Expr::Affine { terms, c } => {
                let terms = terms.iter().map(|(e, k)| (self.get(*e, registers, axes), *k)).collect();
                Expr::Affine { terms, c: *c }
            }
            other => unreachable!("synthetic programs have no expression of kind {}", other.kind()),
        };
        let e = Rc::new(e);
        self.made[id.index()] = Some(e.clone());
        e
    }
}

fn location(row: &LocRow) -> Rc<Location> {
    Rc::new(Location {
        head: row.head,
        place: row.place,
        from: row.from,
        last_engine: Cell::new(None),
        writer: Cell::new(None),
        readers: RefCell::default(),
        touched: Cell::new(false),
        before: RefCell::default(),
    })
}

impl Program {
    /// The graph.
    pub fn new(source: &Source) -> Program {
        let mut program = Program {
            signature: source.signature.clone(),
            next: source.insts.len() as u32,
            registers: Vec::with_capacity(source.regs.len()),
            locations: source.locs.iter().map(location).collect(),
            ..Default::default()
        };
        source.regs.iter().for_each(|row| drop(program.register(*row)));
        for (number, location) in program.locations.iter().enumerate() {
            let before = source.reuse.of(LocId(number as u32)).iter();
            let before = before.map(|l| Rc::downgrade(&program.locations[l.index()]));
            *location.before.borrow_mut() = before.collect();
        }
        let mut expressions = Expressions { source, made: vec![None; source.exprs.len()] };
        for row in &source.axes {
            let axis = program.axis(row, &mut expressions);
            program.axes.push(axis);
        }
        program.instructions = Vec::with_capacity(source.order.len());
        for id in &source.order {
            let row = &source.insts[id.index()];
            let operands = row.operands.range();
            let operands =
                operands.map(|k| Box::new(program.operand(&source.aps[k], &mut expressions))).collect();
            let instruction = program.instruction(id.0, row, operands).share();
            if let Some(label) = instruction.label() {
                let begins = instruction.op.get() != Opcode::Terminator;
                let end = if begins { &label.axis.begin } else { &label.axis.end };
                *end.borrow_mut() = Rc::downgrade(&instruction);
            }
            program.instructions.push(instruction);
        }
        program
    }

    fn reg(&self, r: RegId) -> Option<Rc<Register>> {
        self.registers.get(r.index()).cloned()
    }

    fn axis(&self, row: &AxisRow, expressions: &mut Expressions<'_>) -> Rc<Axis> {
        let mut expr = |id| expressions.get(id, &self.registers, &self.axes);
        Rc::new(Axis {
            unsigned: row.head.unsigned != 0,
            max_trip: row.bounds.max_trip,
            lb: expr(row.bounds.lb),
            ub: expr(row.bounds.ub),
            step: expr(row.bounds.step),
            iv: self.registers[row.regs.iv.index()].clone(),
            limit: OnceCell::new(),
            begin: RefCell::new(Weak::new()),
            end: RefCell::new(Weak::new()),
        })
    }

    fn operand(&self, row: &ApRow, expressions: &mut Expressions<'_>) -> Operand {
        let payload = expressions.source.payloads.0.get(row.head.dynamic.payload);
        let mut expr = |id| expressions.get(id, &self.registers, &self.axes);
        let address = match payload {
            None => Address::Static,
            Some(Payload::Dynamic(info)) => Address::Dynamic(Box::new(DynamicOffset {
                terms: info.terms.iter().map(|t| (expr(t.expr), t.coef)).collect(),
                c: info.c,
                register: None,
            })),
            Some(Payload::Symbolic(s)) => {
                Address::Symbolic(Box::new(SymbolicOffset { tile: expr(s.tile), block: expr(s.block) }))
            }
        };
        Operand {
            location: self.locations[row.head.loc.index()].clone(),
            offset: row.head.offset,
            dtype: row.head.dtype,
            output: row.head.output == 1,
            flags: row.head.flags,
            pattern: row.pattern.clone(),
            address: RefCell::new(address),
            word: Cell::new(0),
        }
    }

    fn instruction(&self, number: u32, row: &InstRow, operands: Operands) -> Instruction {
        let label = |axis: Rc<Axis>| Link::Label(Box::new(Label { axis, at: Cell::default() }));
        let axis = || self.axes.get(row.args.axis().index()).cloned();
        Instruction {
            flags: row.head.flags,
            args: Cell::new(row.args),
            operands,
            registers: RefCell::new(Registers {
                sources: [self.reg(row.regs.src0), self.reg(row.regs.src1)],
                destination: self.reg(row.regs.dst),
            }),
            link: if row.head.op.is_structure() { axis().map_or(Link::None, label) } else { Link::None },
            transfer: row.head.op.is_dma().then(|| Box::new(Transfer::new(row.head.dge))),
            ..Instruction::new(number, row.head.op, row.head.engine, row.from)
        }
    }
}
