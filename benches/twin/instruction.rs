//! Instructions and their operands.

use super::graph::{Axis, Block, Expr, Location, Queue, Register};
use murre_components::bir::*;
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::ids::{InstId, LocId};
use murre_systems::route::DmaWhy;
use murre_systems::sync::ENGINES;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// An instruction.
pub struct Instruction {
    pub number: u32,
    pub op: Cell<Opcode>,
    pub engine: Cell<EngineId>,
    pub flags: u8,
    pub args: Cell<InstArgs>,
    pub from: InstFrom,
    /// Outputs, then inputs.
    pub operands: Operands,
    pub registers: RefCell<Registers>,
    pub link: Link,
    /// Of a DMA.
    pub transfer: Option<Box<Transfer>>,
    pub dead: Cell<bool>,
    /// Channels and positions that it waits for.
    pub waits: RefCell<Vec<(u32, u32)>>,
    pub awaited: Cell<bool>,
    /// What its channel's semaphore is once it has completed.
    pub count: Cell<u32>,
    pub sync: Cell<InstSync>,
    /// Its first record in its stream, and the table set that is loaded in front.
    pub index: Cell<u32>,
    pub load: Cell<Option<u8>>,
}

/// Each operand is an object of its own.
#[allow(clippy::vec_box)]
pub type Operands = Vec<Box<Operand>>;

/// Register operands.
#[derive(Default)]
pub struct Registers {
    pub sources: [Option<Rc<Register>>; 2],
    pub destination: Option<Rc<Register>>,
}

/// What control instructions point to.
pub enum Link {
    None,
    /// Head or end of a loop.
    Label(Box<Label>),
    /// The label that a branch goes to.
    Target(Rc<Instruction>),
}

/// A label.
pub struct Label {
    pub axis: Rc<Axis>,
    /// Records in front of it in each stream.
    pub at: Cell<[u32; 5]>,
}

/// The state of a DMA.
pub struct Transfer {
    pub route: Cell<DgeType>,
    pub why: Cell<DmaWhy>,
    pub queue: OnceCell<Rc<Queue>>,
    pub block: OnceCell<Rc<Block>>,
}

/// An access of an instruction.
#[derive(Clone)]
pub struct Operand {
    pub location: Rc<Location>,
    pub offset: u32,
    pub dtype: DType,
    pub output: bool,
    pub flags: u8,
    pub pattern: ApPattern,
    pub address: RefCell<Address>,
    pub word: Cell<u32>,
}

/// Where an operand begins.
#[derive(Clone)]
pub enum Address {
    Static,
    /// A DMA at a run-time offset.
    Dynamic(Box<DynamicOffset>),
    /// An on-chip access at a run-time offset.
    Symbolic(Box<SymbolicOffset>),
    /// The same in a register.
    Register(Rc<Register>),
}

/// `c + sum(coefficient * expression)` elements.
#[derive(Clone)]
pub struct DynamicOffset {
    pub terms: Vec<(Rc<Expr>, i64)>,
    pub c: i64,
    /// The same in bytes, once expanded.
    pub register: Option<Rc<Register>>,
}

/// Elements in a tile, and the tile.
#[derive(Clone)]
pub struct SymbolicOffset {
    pub tile: Rc<Expr>,
    pub block: Rc<Expr>,
}

impl Transfer {
    /// Of a DMA with a route.
    pub fn new(route: DgeType) -> Transfer {
        Transfer {
            route: Cell::new(route),
            why: Cell::default(),
            queue: OnceCell::new(),
            block: OnceCell::new(),
        }
    }

    /// Whether its record stands in a stream.
    pub fn is_generated(&self) -> bool {
        matches!(self.route.get(), DgeType::Swdge | DgeType::Hwdge)
    }

    /// Notes a reason.
    pub fn explain(&self, change: impl FnOnce(&mut DmaWhy)) {
        let mut why = self.why.get();
        change(&mut why);
        self.why.set(why);
    }
}

impl Address {
    /// The register that is read.
    pub fn register(&self) -> Option<&Rc<Register>> {
        match self {
            Address::Dynamic(d) => d.register.as_ref(),
            Address::Register(r) => Some(r),
            Address::Static | Address::Symbolic(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn register_mut(&mut self) -> Option<&mut Rc<Register>> {
        match self {
            Address::Dynamic(d) => d.register.as_mut(),
            Address::Register(r) => Some(r),
            Address::Static | Address::Symbolic(_) => None,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> ApKind {
        match self {
            Address::Static | Address::Dynamic(_) => ApKind::Physical,
            Address::Symbolic(_) => ApKind::Symbolic,
            Address::Register(_) => ApKind::Register,
        }
    }
}

impl Operand {
    /// Its geometry, as the leaves that both sides call want it.
    pub fn head(&self) -> ApHead {
        ApHead {
            loc: LocId::NONE,
            offset: self.offset,
            inst: InstId::NONE,
            dtype: self.dtype,
            kind: ApKind::Physical,
            output: u8::from(self.output),
            flags: self.flags,
            dynamic: ApDynamic::default(),
        }
    }

    /// Whether it is at a run-time offset.
    pub fn is_dynamic(&self) -> bool {
        matches!(*self.address.borrow(), Address::Dynamic(_))
    }
}

impl Instruction {
    /// An instruction without operands.
    pub fn new(number: u32, op: Opcode, engine: EngineId, from: InstFrom) -> Instruction {
        Instruction {
            number,
            op: Cell::new(op),
            engine: Cell::new(engine),
            flags: 0,
            args: Cell::default(),
            from,
            operands: Vec::new(),
            registers: RefCell::default(),
            link: Link::None,
            transfer: None,
            dead: Cell::new(false),
            waits: RefCell::default(),
            awaited: Cell::new(false),
            count: Cell::new(0),
            sync: Cell::default(),
            index: Cell::new(u32::MAX),
            load: Cell::new(None),
        }
    }

    /// Puts it on the heap, and on the lists of the registers that it names.
    pub fn share(self) -> Rc<Instruction> {
        let shared = Rc::new(self);
        if let Some(d) = &shared.registers.borrow().destination {
            d.definitions.borrow_mut().push(Rc::downgrade(&shared));
        }
        shared.reads(|r| r.uses.borrow_mut().push(Rc::downgrade(&shared)));
        shared
    }

    /// Names `new` wherever it names `old`.
    pub fn replace(&self, old: &Register, new: &Rc<Register>) {
        let replace = |r: &mut Rc<Register>| {
            if std::ptr::eq(&**r, old) {
                *r = new.clone();
            }
        };
        for operand in &self.operands {
            operand.address.borrow_mut().register_mut().into_iter().for_each(replace);
        }
        let registers = &mut *self.registers.borrow_mut();
        registers.sources.iter_mut().chain([&mut registers.destination]).flatten().for_each(replace);
    }

    /// Calls `f` with every register that it reads.
    pub fn reads(&self, mut f: impl FnMut(&Rc<Register>)) {
        for operand in &self.operands {
            operand.address.borrow().register().into_iter().for_each(&mut f);
        }
        self.registers.borrow().sources.iter().flatten().for_each(f);
    }

    /// The label of a loop's head or end.
    pub fn label(&self) -> Option<&Label> {
        if let Link::Label(label) = &self.link { Some(label) } else { None }
    }

    /// The sides of a copy that is one: destination, source, and what is known of the transfer.
    pub fn copy(&self) -> Option<(&Operand, &Operand, &Transfer)> {
        match (self.op.get(), self.operands.as_slice(), &self.transfer) {
            (Opcode::DmaCopy, [to, from, ..], Some(transfer)) => Some((&**to, &**from, &**transfer)),
            _ => None,
        }
    }

    /// Issuing engine and channel.
    pub fn channel(&self) -> Option<(usize, usize)> {
        let engine = self.engine.get().stream()?;
        match &self.transfer {
            Some(t) => Some((engine, ENGINES + t.queue.get()?.number as usize)),
            None => Some((engine, engine)),
        }
    }
}
