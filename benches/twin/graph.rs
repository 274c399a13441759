//! The objects. In: rows of a program as murre's address stage leaves them. Out: the same program as a graph.

use crate::Source;
use murre_components::bir::{ApKind, DescRow, Opcode, Space};
use murre_components::dtype::DType;
use murre_components::engine::EngineId;
use murre_components::ids::LocId;
use murre_components::program::Record;
use murre_systems::sync::channel;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// A register. Passes find its definitions through it.
pub struct Register {
    pub number: u32,
    pub engine: EngineId,
    pub width: u8,
    pub colour: Cell<Option<u8>>,
    pub live: Cell<Option<(u32, u32)>>,
    pub needed: Cell<bool>,
    /// A range whose lanes went to another register at its end.
    pub given: Cell<bool>,
    pub definitions: RefCell<Vec<Weak<Instruction>>>,
}

/// A place in memory.
pub struct Location {
    pub space: Space,
    pub part_bytes: u64,
    pub address: Option<u32>,
    /// Channel and position of the last writer, and of the last reader of each channel.
    pub writer: Cell<Option<(u32, u32)>>,
    pub readers: RefCell<Vec<(u32, u32)>>,
    pub touched: Cell<bool>,
    /// Locations whose bytes it takes over.
    pub before: RefCell<Vec<Rc<Location>>>,
}

/// An access of an instruction.
pub struct Operand {
    pub location: Option<Rc<Location>>,
    pub offset: u32,
    pub dtype: DType,
    pub kind: ApKind,
    pub address: Option<Rc<Register>>,
    pub word: Cell<u32>,
    pub number: u32,
    pub output: bool,
}

/// An instruction.
pub struct Instruction {
    pub number: u32,
    pub op: Opcode,
    #[allow(clippy::vec_box)] // an object graph: each operand is an object of its own
    pub operands: Vec<Box<Operand>>,
    pub sources: [Option<Rc<Register>>; 2],
    pub destination: Option<Rc<Register>>,
    /// Issuing engine and channel.
    pub channel: Option<(usize, usize)>,
    /// Channels and positions that it waits for.
    pub waits: RefCell<Vec<(u32, u32)>>,
    pub awaited: Cell<bool>,
}

/// A descriptor and its record.
pub struct Descriptor {
    pub row: DescRow,
    pub record: Cell<Record>,
}

/// A program.
#[derive(Default)]
pub struct Program {
    pub instructions: Vec<Rc<Instruction>>,
    pub registers: Vec<Rc<Register>>,
    #[allow(clippy::vec_box)] // likewise
    pub descriptors: Vec<Box<Descriptor>>,
    /// First position of each block.
    pub blocks: Vec<u32>,
    pub queues: usize,
}

impl Program {
    /// The graph of a program in rows.
    pub fn new(source: &Source) -> Program {
        let registers: Vec<Rc<Register>> = source
            .regs
            .iter()
            .enumerate()
            .map(|(number, row)| {
                Rc::new(Register {
                    number: number as u32,
                    engine: row.head.engine,
                    width: row.head.width,
                    colour: Cell::new((row.head.colour < 64).then_some(row.head.colour)),
                    live: Cell::new(None),
                    needed: Cell::new(false),
                    given: Cell::new(false),
                    definitions: RefCell::default(),
                })
            })
            .collect();
        let locations: Vec<Rc<Location>> = source
            .locs
            .iter()
            .map(|row| {
                let address = (row.place.address != u32::MAX).then_some(row.place.address);
                Rc::new(Location {
                    space: row.head.space,
                    part_bytes: row.head.part_bytes(),
                    address,
                    writer: Cell::new(None),
                    readers: RefCell::default(),
                    touched: Cell::new(false),
                    before: RefCell::default(),
                })
            })
            .collect();
        for (number, location) in locations.iter().enumerate() {
            let before = source.reuse.of(LocId(number as u32)).iter();
            location.before.borrow_mut().extend(before.map(|l| locations[l.index()].clone()));
        }
        let mut instructions = Vec::with_capacity(source.order.len());
        for id in &source.order {
            let row = &source.insts[id.index()];
            let register = |r: murre_components::ids::RegId| registers.get(r.index()).cloned();
            let operands = row.operands.range().map(|k| {
                let ap = &source.aps[k];
                Box::new(Operand {
                    location: locations.get(ap.head.loc.index()).cloned(),
                    offset: ap.head.offset,
                    dtype: ap.head.dtype,
                    kind: ap.head.kind,
                    address: register(ap.dynamic.address),
                    word: Cell::new(0),
                    number: k as u32,
                    output: ap.head.output == 1,
                })
            });
            let instruction = Rc::new(Instruction {
                number: id.0,
                op: row.head.op,
                operands: operands.collect(),
                sources: [register(row.regs.src0), register(row.regs.src1)],
                destination: register(row.regs.dst),
                channel: channel(row.head, row.dma),
                waits: RefCell::default(),
                awaited: Cell::new(false),
            });
            if let Some(destination) = &instruction.destination {
                destination.definitions.borrow_mut().push(Rc::downgrade(&instruction));
            }
            instructions.push(instruction);
        }
        let descriptors =
            source.descs.iter().map(|row| Box::new(Descriptor { row: *row, record: Cell::new([0; 64]) }));
        Program {
            instructions,
            registers,
            descriptors: descriptors.collect(),
            blocks: source.blocks.starts.clone(),
            queues: source.queues.len(),
        }
    }
}
