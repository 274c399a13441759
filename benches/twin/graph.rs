//! The objects, instructions apart: registers, locations, expressions, axes, queues, blocks of descriptors, the program.

use super::instruction::Instruction;
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::isa::Name;
use murre_components::program::{self, Record};
use murre_systems::CompileOptions;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

/// A register.
pub struct Register {
    pub number: u32,
    pub engine: EngineId,
    pub width: u8,
    pub role: RegRole,
    pub from: RegFrom,
    pub bounds: RegBounds,
    pub colour: Cell<Option<u8>>,
    pub live: Cell<Option<(u32, u32)>>,
    /// Instructions that write it, and that read it; some may be gone.
    pub definitions: RefCell<Vec<Weak<Instruction>>>,
    pub uses: RefCell<Vec<Weak<Instruction>>>,
    /// Its copies on the streams, of one on engine ALL.
    pub copies: Option<Box<Copies>>,
    /// An instruction that stays reads it.
    pub needed: Cell<bool>,
    /// Its lanes went to another register at the end of its range.
    pub given: Cell<bool>,
    pub accesses: Cell<Accesses>,
    /// Another register has taken its place.
    pub replaced: Cell<bool>,
}

/// What a register on engine ALL has on each stream.
#[derive(Default)]
pub struct Copies {
    /// Streams that need it, a bit each.
    pub demand: Cell<u8>,
    pub registers: [OnceCell<Rc<Register>>; 5],
}

/// Accesses of a register; positions count from 1.
#[derive(Clone, Copy, Default)]
pub struct Accesses {
    /// Writes, at most 255.
    pub writes: u8,
    /// The last access in the program, the last one so far, the last write so far.
    pub last: u32,
    pub seen: u32,
    pub written: u32,
}

/// A place in memory.
pub struct Location {
    pub head: LocHead,
    pub place: LocPlace,
    pub from: LocFrom,
    /// Block and engine of the last writer.
    pub last_engine: Cell<Option<(u32, EngineId)>>,
    /// Channel and position of the last writer, and of the last reader of each channel.
    pub writer: Cell<Option<(u32, u32)>>,
    pub readers: RefCell<Vec<(u32, u32)>>,
    pub touched: Cell<bool>,
    /// Locations whose bytes it takes over.
    pub before: RefCell<Vec<Weak<Location>>>,
}

/// An expression of an address or a bound.
pub enum Expr {
    Axis(Rc<Axis>),
    Register(Rc<Register>),
    /// A sum of indices and a constant.
    Affine {
        terms: Vec<(Rc<Expr>, i64)>,
        c: i64,
    },
}

impl Expr {
    /// The register of an index on an engine; a register that is rewired is there already.
    pub fn index_register(&self, engine: EngineId) -> Option<&Rc<Register>> {
        match self {
            Expr::Register(r) => Some(r),
            Expr::Axis(axis) => axis.iv.copy(engine),
            Expr::Affine { .. } => None,
        }
    }

    /// The constant of a sum.
    pub fn constant(&self) -> i64 {
        if let Expr::Affine { c, .. } = self { *c } else { 0 }
    }
}

/// A counted loop.
pub struct Axis {
    pub unsigned: bool,
    pub max_trip: u64,
    pub lb: Rc<Expr>,
    pub ub: Rc<Expr>,
    pub step: Rc<Expr>,
    pub iv: Rc<Register>,
    pub limit: OnceCell<Rc<Register>>,
    pub begin: RefCell<Weak<Instruction>>,
    pub end: RefCell<Weak<Instruction>>,
}

/// A DMA queue.
pub struct Queue {
    pub number: u32,
    pub engine: EngineId,
    pub kind: QueueKind,
    pub name: Name<32>,
    pub semaphore: Cell<u8>,
}

/// A block of descriptors behind a trigger.
pub struct Block {
    pub number: u32,
    pub queue: Rc<Queue>,
    pub descriptors: RefCell<Vec<DescRow>>,
}

/// The records.
#[derive(Default)]
pub struct Records {
    pub streams: [Vec<Record>; 5],
    pub from: [Vec<murre_components::ids::HloId>; 5],
    pub addr4: Vec<u32>,
    pub sites: Vec<program::WordSite>,
    pub descriptors: Vec<Record>,
}

/// A program.
#[derive(Default)]
pub struct Program {
    pub options: CompileOptions,
    pub signature: Signature,
    pub instructions: Vec<Rc<Instruction>>,
    pub registers: Vec<Rc<Register>>,
    pub locations: Vec<Rc<Location>>,
    pub axes: Vec<Rc<Axis>>,
    pub queues: Vec<Rc<Queue>>,
    pub blocks: Vec<Rc<Block>>,
    /// First position of each stretch between fences, and first and last position of each loop.
    pub starts: Vec<u32>,
    pub loops: Vec<(u32, u32)>,
    /// Number of the next instruction.
    pub next: u32,
    /// Length of each stream in records.
    pub lengths: [u32; 5],
    pub records: Records,
    pub encoded: Option<program::Program>,
    /// What was refused.
    pub faults: Vec<String>,
}

impl Register {
    /// The copy on an engine of a register on engine ALL.
    pub fn copy(&self, engine: EngineId) -> Option<&Rc<Register>> {
        self.copies.as_ref()?.registers[engine.stream()?].get()
    }

    /// Puts another register in its place, in all instructions.
    pub fn replace_by(&self, other: &Rc<Register>) {
        self.replaced.set(true);
        let (definitions, uses) = (self.definitions.take(), self.uses.take());
        for instruction in definitions.iter().chain(&uses).filter_map(Weak::upgrade) {
            instruction.replace(self, other);
        }
        other.definitions.borrow_mut().extend(definitions);
        other.uses.borrow_mut().extend(uses);
    }

    /// Notes accesses.
    pub fn note(&self, change: impl FnOnce(&mut Accesses)) {
        let mut a = self.accesses.get();
        change(&mut a);
        self.accesses.set(a);
    }
}

impl Program {
    /// A new register, like `row`.
    pub fn register(&mut self, row: RegRow) -> Rc<Register> {
        let register = Rc::new(Register {
            number: self.registers.len() as u32,
            engine: row.head.engine,
            width: row.head.width,
            role: row.head.role,
            from: row.from,
            bounds: row.bounds,
            colour: Cell::new((row.head.colour < 64).then_some(row.head.colour)),
            live: Cell::new(None),
            definitions: RefCell::default(),
            uses: RefCell::default(),
            copies: (row.head.engine == EngineId::All).then(Box::default),
            needed: Cell::new(false),
            given: Cell::new(false),
            accesses: Cell::default(),
            replaced: Cell::new(false),
        });
        self.registers.push(register.clone());
        register
    }

    /// A number for a new instruction.
    pub fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
