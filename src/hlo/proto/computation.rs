//! The walk over a module's computations and a computation's instructions.
//!
//! Producers write callees before callers and operands before users; then every instruction is read once, in place. Where
//! that does not hold, the order is worked out first and the instructions are read in it.

use super::instruction::{Parts, decode_parts};
use super::order::dependency_order;
use super::wire::{Damaged, Fields};
use super::{Fault, damaged, fault, sanitized};
use bytes::Bytes;
use murre_components::diag::{Diagnostic, codes::read};
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{Computation, HloModule, HloOp, HloRange};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};
use std::borrow::Cow;

/// After this many faults reading stops.
const MAX_FAULTS: usize = 64;

/// The outer fields of a computation.
#[derive(Clone, Copy, Default)]
pub(super) struct Comp<'a> {
    pub bytes: &'a [u8],
    pub name: &'a str,
    pub id: i64,
    pub root: i64,
    pub thread: &'a str,
    /// Number of its instructions, and the first one's id.
    pub count: usize,
    pub first: i64,
}

impl<'a> Comp<'a> {
    /// Its name as the text form can write it.
    fn own_name(&self) -> Cow<'a, str> {
        sanitized(self.name, || format!("computation.{}", self.id))
    }
}

/// Attributes that were decoded before.
#[derive(Clone, Copy)]
pub(super) struct KnownAttributes {
    pub attrs: AttrId,
    pub kept: (u32, u32),
}

/// Positions of instructions by their opaque ids. Ids of one computation are mostly near each other: those near the
/// first one are looked up in a table, others in a map.
pub(super) struct Ids {
    count: u32,
    /// The id of the table's first entry.
    base: i64,
    /// Position plus one.
    table: Vec<u32>,
    outside: SeededMap<i64, u32>,
}

impl Ids {
    fn new() -> Self {
        Ids { count: 0, base: 0, table: Vec::new(), outside: seeded_map() }
    }

    /// Forgets all; `count` instructions will come, the first with this id.
    fn begin(&mut self, count: usize, first: i64) {
        self.count = 0;
        self.base = first.saturating_sub(count as i64);
        self.table.clear();
        self.table.resize(2 * count + 1, 0);
        self.outside.clear();
    }

    /// Adds the id of the next instruction; `false` if it is there already.
    #[inline]
    fn push(&mut self, id: i64) -> bool {
        let at = self.count;
        self.count += 1;
        match self.near(id) {
            Some(slot) => std::mem::replace(&mut self.table[slot], at + 1) == 0,
            None => self.outside.insert(id, at).is_none(),
        }
    }

    #[inline]
    fn near(&self, id: i64) -> Option<usize> {
        let slot = usize::try_from(id.checked_sub(self.base)?).ok()?;
        (slot < self.table.len()).then_some(slot)
    }

    /// Position of the instruction with this id.
    #[inline]
    fn get(&self, id: i64) -> Option<u32> {
        match self.near(id) {
            Some(slot) => self.table[slot].checked_sub(1),
            None => self.outside.get(&id).copied(),
        }
    }
}

/// Why a computation cannot be read in the given order.
enum Stop {
    /// An operand stands behind its user, or is nowhere.
    Order,
    Fault(Fault),
}

impl<T: Into<Fault>> From<T> for Stop {
    fn from(fault: T) -> Self {
        Stop::Fault(fault.into())
    }
}

/// A module being read.
pub(super) struct Reader<'a> {
    pub input: &'a Bytes,
    bytes: &'a [u8],
    pub out: HloModule,
    pub faults: Vec<Diagnostic>,
    pub comp_ids: SeededMap<i64, CompId>,
    pub shapes: SeededMap<&'a [u8], ShapeId>,
    pub metadata: SeededMap<&'a [u8], TextId>,
    pub literals: SeededMap<(ShapeId, &'a [u8]), AttrId>,
    pub attributes: SeededMap<Box<[u8]>, KnownAttributes>,
    pub kept: Vec<(TextId, TextId)>,
    /// Room for the key of an attribute look-up.
    pub key: Vec<u8>,
    names: crate::hlo::text::Names,
    ids: Ids,
    /// An instruction called a computation that had not been read.
    unknown_callee: bool,
    parts: Parts<'a>,
    operands: Vec<HloId>,
    called: Vec<CompId>,
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a Bytes, module: &'a [u8]) -> Self {
        Reader {
            input,
            bytes: module,
            out: HloModule::default(),
            faults: Vec::new(),
            comp_ids: seeded_map(),
            shapes: seeded_map(),
            metadata: seeded_map(),
            literals: seeded_map(),
            attributes: seeded_map(),
            kept: Vec::new(),
            key: Vec::new(),
            names: Default::default(),
            ids: Ids::new(),
            unknown_callee: false,
            parts: Parts::default(),
            operands: Vec::new(),
            called: Vec::new(),
        }
    }

    /// The module, or its faults.
    pub fn finish(mut self, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
        if self.faults.is_empty() {
            self.out.shrink();
            return Ok(self.out);
        }
        self.faults.iter_mut().for_each(|f| f.file = Some(origin.to_owned()));
        Err(self.faults)
    }

    fn full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }

    /// Reads the whole module; faults are noted.
    pub fn module(&mut self) {
        if let Err(fault) = self.read_module() {
            self.faults.push(*fault);
        }
    }

    fn read_module(&mut self) -> Result<(), Fault> {
        let mut comps = Vec::new();
        let mut fields = Fields::new(self.bytes);
        while let Some(field) = fields.next_field()? {
            if field.number == 3 {
                comps.push(outer(field.value.bytes()?)?);
            }
        }
        if !self.in_file_order(&comps)? {
            self.forget();
            for i in self.computation_order(&comps)? {
                if let Some(comp) = comps.get(i).copied() {
                    self.computation(comp)?;
                }
                if self.full() {
                    return Ok(());
                }
            }
        }
        if self.faults.is_empty() {
            self.outer_facts(self.bytes)?;
        }
        Ok(())
    }

    /// Reads the computations as they come; `false` if one calls another that did not come before it, or one comes twice.
    fn in_file_order(&mut self, comps: &[Comp<'a>]) -> Result<bool, Fault> {
        let mut names: SeededMap<Cow<'_, str>, ()> = seeded_map();
        for comp in comps {
            if self.comp_ids.contains_key(&comp.id) || names.insert(comp.own_name(), ()).is_some() {
                return Ok(false);
            }
            self.computation(*comp)?;
            if self.unknown_callee {
                return Ok(false);
            }
            if self.full() {
                break;
            }
        }
        Ok(true)
    }

    /// Begins anew.
    fn forget(&mut self) {
        *self = Reader::new(self.input, self.bytes);
    }

    /// The given order if callees come before callers in it, else one in which they do.
    fn computation_order(&mut self, comps: &[Comp<'a>]) -> Result<Vec<usize>, Fault> {
        let mut index: SeededMap<i64, usize> = seeded_map();
        let mut names: SeededMap<Cow<'_, str>, ()> = seeded_map();
        for (i, c) in comps.iter().enumerate() {
            if index.insert(c.id, i).is_some() {
                let what = format!("a second computation with id {}", c.id);
                self.faults.push(Diagnostic::error(&read::READ_DUPLICATE, what));
            }
            if names.insert(c.own_name(), ()).is_some() {
                let what = format!("a second computation '{}'", c.name);
                self.faults.push(Diagnostic::error(&read::READ_DUPLICATE, what));
            }
        }
        let mut edges = vec![Vec::new(); comps.len()];
        let mut called = Vec::new();
        for (i, c) in comps.iter().enumerate() {
            let mut fields = Fields::new(c.bytes);
            while let Some(field) = fields.next_field()? {
                if field.number != 2 {
                    continue;
                }
                called.clear();
                let mut inner = Fields::new(field.value.bytes()?);
                while let Some(f) = inner.next_field()? {
                    if f.number == 38 {
                        f.value.ints(&mut called)?;
                    }
                }
                for id in &called {
                    match index.get(id) {
                        Some(&callee) => edges[i].push(callee),
                        None => {
                            let what = format!("computation id {id} does not exist");
                            let fault = Diagnostic::error(&read::READ_MISSING_COMPUTATION, what);
                            self.faults.push(fault.on(name_of(field.value.bytes()?)));
                        }
                    }
                }
            }
        }
        if !self.faults.is_empty() {
            return Ok(Vec::new());
        }
        dependency_order(&edges).map_err(|at| {
            let name = comps.get(at).map_or("", |c| c.name);
            fault(&read::READ_CYCLE, format!("computation '{name}' calls itself, directly or through others"))
        })
    }

    fn computation(&mut self, comp: Comp<'a>) -> Result<(), Fault> {
        let id = CompId::new(self.out.computations.len());
        let first = HloId::new(self.out.len());
        let before = self.faults.len();
        match self.in_given_order(comp) {
            Ok(()) => {}
            Err(Stop::Order) => {
                self.out.truncate(first);
                self.faults.truncate(before);
                self.in_worked_out_order(comp)?;
            }
            Err(Stop::Fault(fault)) => return Err(fault),
        }
        if self.faults.len() > before {
            return Ok(());
        }
        let instructions = HloRange { first: first.0, count: self.out.len() as u32 - first.0 };
        let parameters = self.out.numbered_parameters(instructions).unwrap_or_else(|found| {
            let what = format!("the parameters of '{}' are not numbered 0, 1, 2 ...", comp.name);
            self.faults.push(Diagnostic::error(&read::READ_PARAMETERS, what).found(format!("{found:?}")));
            Vec::new()
        });
        let Some(root) = self.ids.get(comp.root).map(|at| HloId(first.0 + at)) else {
            let what = format!("the root of '{}', id {}, does not exist", comp.name, comp.root);
            self.faults.push(Diagnostic::error(&read::READ_PROTO, what));
            return Ok(());
        };
        let mut extra = Vec::new();
        if !comp.thread.is_empty() && comp.thread != "main" {
            let text = format!("\"{}\"", crate::hlo::lex::escape(comp.thread));
            extra.push(("execution_thread".to_owned(), text));
        }
        let name = comp.own_name().into_owned();
        self.out.computations.push(Computation { name, instructions, parameters, root, extra });
        self.comp_ids.insert(comp.id, id);
        Ok(())
    }

    fn in_given_order(&mut self, comp: Comp<'a>) -> Result<(), Stop> {
        self.ids.begin(comp.count, comp.first);
        self.out.reserve(comp.count);
        self.names.begin(HloId::new(self.out.len()), comp.count);
        let mut fields = Fields::new(comp.bytes);
        while let Some(field) = fields.next_field()? {
            if field.number == 2 {
                self.one(field.value.bytes()?, comp)?;
                if self.full() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn in_worked_out_order(&mut self, comp: Comp<'a>) -> Result<(), Fault> {
        let mut all: Vec<&'a [u8]> = Vec::new();
        let mut parts = std::mem::take(&mut self.parts);
        let mut index: SeededMap<i64, usize> = seeded_map();
        let mut needs: Vec<Vec<i64>> = Vec::new();
        let mut fields = Fields::new(comp.bytes);
        while let Some(field) = fields.next_field()? {
            if field.number == 2 {
                let bytes = field.value.bytes()?;
                decode_parts(bytes, &mut parts)?;
                index.insert(parts.id, all.len());
                needs.push(parts.operands.clone());
                all.push(bytes);
            }
        }
        let mut edges = vec![Vec::new(); all.len()];
        for (i, operands) in needs.iter().enumerate() {
            for operand in operands {
                match index.get(operand) {
                    Some(&o) => edges[i].push(o),
                    None => {
                        let name = name_of(all[i]);
                        let what = format!("operand id {operand} of '{name}' is not in '{}'", comp.name);
                        self.faults.push(Diagnostic::error(&read::READ_UNDEFINED, what).on(name));
                    }
                }
            }
        }
        self.parts = parts;
        let order = match dependency_order(&edges) {
            Ok(order) => order,
            Err(at) => {
                let name = all.get(at).map_or("", |b| name_of(b));
                let what = format!("instruction '{name}' depends on itself");
                self.faults.push(Diagnostic::error(&read::READ_CYCLE, what).on(name));
                return Ok(());
            }
        };
        if !self.faults.is_empty() {
            return Ok(());
        }
        self.ids.begin(comp.count, comp.first);
        self.names.begin(HloId::new(self.out.len()), comp.count);
        for i in order {
            match self.one(all[i], comp) {
                Ok(()) => {}
                Err(Stop::Fault(fault)) => return Err(fault),
                // Every operand is there and comes first: only equal ids can lead here.
                Err(Stop::Order) => return Err(damaged()),
            }
            if self.full() {
                break;
            }
        }
        Ok(())
    }

    /// Reads one instruction.
    #[inline]
    fn one(&mut self, bytes: &'a [u8], comp: Comp<'a>) -> Result<(), Stop> {
        let mut parts = std::mem::take(&mut self.parts);
        let read = decode_parts(bytes, &mut parts).map_err(Stop::from).and_then(|()| {
            self.operands.clear();
            let first = self.out.len() - self.ids.count as usize;
            for operand in &parts.operands {
                let at = self.ids.get(*operand).ok_or(Stop::Order)?;
                self.operands.push(HloId::new(first + at as usize));
            }
            Ok(())
        });
        let result = read.map(|()| self.add(&parts, comp));
        self.parts = parts;
        result
    }

    fn add(&mut self, parts: &Parts<'a>, comp: Comp<'a>) {
        if !self.ids.push(parts.id) {
            let what = format!("a second instruction with id {}", parts.id);
            self.faults.push(Diagnostic::error(&read::READ_DUPLICATE, what).on(parts.name));
        }
        let operands = std::mem::take(&mut self.operands);
        let mut called = std::mem::take(&mut self.called);
        called.clear();
        called.extend(parts.called.iter().filter_map(|c| self.comp_ids.get(c).copied()));
        self.unknown_callee |= called.len() != parts.called.len();
        let at = match self.instruction(parts, &operands, &called) {
            Ok(at) => at,
            Err(fault) => {
                let ordinal = self.out.len() as u32;
                self.faults.push(fault.on(parts.name).ordered(ordinal));
                // A placeholder, so that its users are not faulted for it.
                let shape = self.out.intern_shape(murre_components::hlo::Shape::Token);
                let name = parts.name;
                self.out.push(murre_components::hlo::Draft::new(name, HloOp::CustomCall, shape))
            }
        };
        if !self.names.insert(&self.out, at, self.out.inst(at).name()) {
            let what = format!("a second instruction '{}' in '{}'", parts.name, comp.name);
            self.faults.push(Diagnostic::error(&read::READ_DUPLICATE, what).on(parts.name));
        }
        self.operands = operands;
        self.called = called;
    }

    /// The instruction with this id in the computation being read.
    pub fn place(&self, id: i64) -> Option<HloId> {
        // The one being read has its id already, but no row.
        let first = self.out.len() + 1 - self.ids.count as usize;
        let at = first + self.ids.get(id)? as usize;
        (at < self.out.len()).then(|| HloId::new(at))
    }
}

fn outer(bytes: &[u8]) -> Result<Comp<'_>, Damaged> {
    let mut comp = Comp { bytes, ..Comp::default() };
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next_field()? {
        match field.number {
            1 => comp.name = field.value.text()?,
            2 => {
                if comp.count == 0 {
                    comp.first = id_of(field.value.bytes()?)?;
                }
                comp.count += 1;
            }
            5 => comp.id = field.value.int()?,
            6 => comp.root = field.value.int()?,
            8 => comp.thread = field.value.text()?,
            _ => {}
        }
    }
    Ok(comp)
}

/// The id of an instruction.
fn id_of(instruction: &[u8]) -> Result<i64, Damaged> {
    let mut fields = Fields::new(instruction);
    while let Some(field) = fields.next_field()? {
        if field.number == 35 {
            return field.value.int();
        }
    }
    Ok(0)
}

/// The name of an instruction, for a diagnostic.
fn name_of(instruction: &[u8]) -> &str {
    let mut fields = Fields::new(instruction);
    while let Ok(Some(field)) = fields.next_field() {
        if field.number == 1 {
            return field.value.text().unwrap_or("");
        }
    }
    ""
}
