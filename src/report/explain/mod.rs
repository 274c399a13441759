//! The life of a control scalar, stage by stage. In: a finished compilation, the module as it was read and the name of an
//! HLO value. Out: its uses in the HLO, the instructions that load it into registers, the arithmetic on them and why
//! each of it is there, the registers with colours and live ranges, and every access, branch and loop that hangs on it,
//! down to the record and the bits of the address word; and the values of a run beside them when inputs are given.
//!
//! The way is found by data flow over registers, not by names: it starts at the registers that hold the value
//! (`holders`) and follows RegisterAlu and RegisterMove to a fixed point. `access` tells of addresses, `loops` of trip counts,
//! `vector` of offsets that are tensors, `observe` of runs, `story` is the data and `text` the page.

mod access;
mod holders;
mod loops;
mod observe;
mod story;
mod text;
mod vector;
mod why;

pub use story::*;

use super::dump;
use super::names::{Names, nearest};
use super::tables::{self, Tables};
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, codes::cli::CLI_NO_SCALAR, codes::cli::CLI_VALUE};
use murre_components::engine::{EngineId, Target};
use murre_components::hash::{SeededSet, seeded_set};
use murre_components::hlo::{HloInst, HloModule, HloOp};
use murre_components::ids::*;
use murre_components::penguin::{
    DynamicCopies, NodeHead, NodeOperand, NodeOperands, NodeScalars, OperandPool, TensorCopyDynamicBase,
};
use murre_components::program::Program;
use murre_systems::dynamic_shape::story::ShapeStory;
use murre_systems::encode::RecordLayout;
use murre_systems::{CompileOptions, CompileOutcome};

impl Explanation {
    /// Explains `value`, or lists what can be explained. `source` is the module as it was read.
    pub fn of(
        outcome: &mut CompileOutcome,
        source: &HloModule,
        value: Option<&str>,
    ) -> Result<Explanation, Diagnostic> {
        let tables = Tables::of(&mut outcome.world);
        let empty = HloModule::default();
        let world = &outcome.world;
        let module = world.get_resource::<HloModule>().unwrap_or(&empty);
        let order = world.get_resource::<Order>().cloned().unwrap_or_default().0;
        let way = Way {
            names: Names { tables: &tables, module, exprs: world.get_resource::<Exprs>() },
            tables: &tables,
            module,
            source,
            order: &order,
            payloads: world.get_resource::<Payloads>(),
            pool: world.get_resource::<OperandPool>(),
            copies: world.get_resource::<DynamicCopies>(),
            world,
            layout: world.get_resource::<RecordLayout>(),
            shapes: world.get_resource::<ShapeStory>(),
            target: world.get_resource::<CompileOptions>().map_or(Target::Trn2, |o| o.target),
            program: outcome.program.as_ref(),
        };
        match value {
            None => Ok(Explanation::Listing(way.listing())),
            Some(value) => way.explain(value.trim_start_matches('%')),
        }
    }
}

/// The instruction of a name: the entry's own before those of other computations.
pub fn named<'m>(module: &'m HloModule, name: &str) -> Option<HloInst<'m>> {
    let entry = module.computations.get(module.entry.index()).map(|_| module.entry);
    let all = || module.insts().filter(|i| i.name() == name);
    all().find(|i| Some(i.computation()) == entry).or_else(|| all().next())
}

/// The tables of a finished compilation, and the module before and behind it.
struct Way<'a> {
    names: Names<'a>,
    tables: &'a Tables,
    /// As simplification left it: what provenance names.
    module: &'a HloModule,
    /// As it was read.
    source: &'a HloModule,
    order: &'a [InstId],
    payloads: Option<&'a Payloads>,
    pool: Option<&'a OperandPool>,
    copies: Option<&'a DynamicCopies>,
    /// Has the reasons of DMAs.
    world: &'a bevy_ecs::prelude::World,
    layout: Option<&'a RecordLayout>,
    /// Where the sizes of bounded dynamic dimensions come from.
    shapes: Option<&'a ShapeStory>,
    target: Target,
    program: Option<&'a Program>,
}

impl Way<'_> {
    fn explain(&self, name: &str) -> Result<Explanation, Diagnostic> {
        let Some(found) = named(self.module, name) else { return Err(self.no_value(name)) };
        let id = found.id;
        let seeds = self.holders(id);
        let story = if seeds.is_empty() { self.vector_story(id) } else { Some(self.story(id, &seeds)) };
        story.map(|s| Explanation::Story(Box::new(s))).ok_or_else(|| self.no_scalar(found))
    }

    /// Nothing of the finished module has the name.
    fn no_value(&self, name: &str) -> Diagnostic {
        let listed: Vec<String> = self.listing().into_iter().map(|r| r.name).collect();
        let listed = |n: usize| listed.iter().take(n).cloned().collect::<Vec<_>>().join(", ");
        let scalars = match listed(1).is_empty() {
            true => {
                "no value of this module reaches a register: it has no run-time offsets or trip counts".into()
            }
            false => format!("values that reach registers: {}", listed(12)),
        };
        if let Some(was) = named(self.source, name) {
            let what = format!(
                "'{name}' is gone: {} {} became other operations, a constant, or part of an equal instruction",
                was.shape(),
                was.op.name()
            );
            let help = format!("{scalars}{}", self.sizes(name));
            return Diagnostic::error(&CLI_VALUE, what).from_source(was.source()).help(help);
        }
        let names = self.source.insts().chain(self.module.insts()).map(|i| i.name());
        let near = nearest(name, names);
        let help = match near.is_empty() {
            true => scalars,
            false => format!("did you mean {}? {scalars}", near.join(", ")),
        };
        Diagnostic::error(&CLI_VALUE, format!("the module has no value '{name}'")).help(help)
    }

    /// The value is there, and nothing is steered by it: what it is and where it lives.
    fn no_scalar(&self, value: HloInst<'_>) -> Diagnostic {
        let homes: Vec<String> = (0..self.tables.locs.len())
            .map(LocId::new)
            .filter(|l| self.tables.locs[l.index()].from.hlo == value.id)
            .filter_map(|l| self.home(l))
            .map(|h| h.text())
            .collect();
        let lives = match homes.is_empty() {
            true => {
                "it has no memory of its own: its users compute it, or read it where it comes from".into()
            }
            false => format!("it lives in {}", homes.join(", ")),
        };
        let lives = format!("{lives}{}", self.sizes(value.name()));
        let what =
            format!("'{}' is {} {}: {}", value.name(), value.shape(), value.op.name(), self.no_way(value));
        Diagnostic::error(&CLI_NO_SCALAR, what).from_source(value.source()).help(lives)
    }

    /// Why no way starts at the value. A scalar constant and the condition of a counted loop may steer, but from no
    /// register of their own.
    fn no_way(&self, value: HloInst<'_>) -> String {
        let scalar = value.shape().array().is_some_and(|a| a.rank() == 0);
        let ends = |w: &HloInst<'_>| {
            let condition = w.called().get(1).map(|c| self.module.comp(*c).root);
            w.op == HloOp::While && condition == Some(value.id)
        };
        match self.module.insts().find(ends) {
            Some(w) => format!("it ends the loop {}, whose trips are counted in other registers", w.name()),
            None if scalar && value.op == HloOp::Constant => {
                "no run changes it, and what it steers has it as an immediate".into()
            }
            None => "no address and no trip count depends on it".into(),
        }
    }

    /// The values behind the run-time extents of an array: those can be explained.
    fn sizes(&self, name: &str) -> String {
        let rows = self.shapes.iter().flat_map(|s| &s.rows).filter(|d| d.instruction == name);
        rows.map(|d| {
            format!("; the size of its dimension {}, at most {}, is {}", d.dimension, d.bound, d.size)
        })
        .collect()
    }

    /// A location and where it was put.
    fn home(&self, id: LocId) -> Option<Home> {
        let loc = self.tables.locs.get(id.index()).filter(|_| id.is_some())?;
        Some(Home {
            name: self.names.loc(id),
            location: id.0,
            space: match loc.head.space {
                Space::Dram => "dram",
                Space::Sbuf => "sbuf",
                Space::Psum => "psum",
            },
            kind: format!("{:?}", loc.head.kind).to_lowercase(),
            partitions: loc.head.partitions,
            bytes: loc.head.part_bytes(),
            address: (loc.place.address != u32::MAX).then_some(loc.place.address),
        })
    }

    /// Live instructions in program order with their positions.
    fn program_order(&self) -> impl Iterator<Item = (usize, InstId, &tables::Inst)> {
        let rows = self.order.iter().enumerate();
        rows.filter_map(|(p, id)| Some((p, *id, self.tables.insts.get(id.index())?)))
            .filter(|(_, _, i)| i.head.live())
    }

    fn aps(&self, inst: &tables::Inst) -> &[tables::Ap] {
        self.tables.aps.get(inst.operands.range()).unwrap_or_default()
    }

    fn step(&self, position: usize, id: InstId, inst: &tables::Inst) -> Step {
        let text = dump::instruction(inst, &self.names, self.payloads);
        let text = text.split("  // ").next().unwrap_or_default().to_string();
        let branch = inst.head.op == Opcode::CompareAndBranch;
        let looked_at = if branch { inst.regs.src0 } else { inst.regs.dst };
        let unsigned = inst.args.dtype == 9;
        Step {
            position,
            instruction: id.0,
            engine: inst.head.engine.name(),
            opcode: inst.head.op.name(),
            why: self.why(inst),
            text,
            serves: self.names.hlo(inst.from.hlo).map(str::to_string),
            record: self.record(id),
            values: None,
            unsigned,
            watched: self.lanes(looked_at),
        }
    }

    /// The first record of an instruction.
    fn record(&self, id: InstId) -> Option<u32> {
        self.layout?.index.get(id.index()).copied().filter(|r| *r != u32::MAX)
    }

    fn reg(&self, id: RegId) -> Option<&tables::Reg> {
        self.tables.regs.get(id.index()).filter(|_| id.is_some())
    }

    fn colour(&self, id: RegId) -> Option<u8> {
        self.reg(id).map(|r| r.head.colour).filter(|c| *c != RegHead::UNCOLOURED)
    }

    /// Physical registers of a virtual one, the low one first.
    fn lanes(&self, id: RegId) -> Vec<u8> {
        let width = self.reg(id).map_or(1, |r| r.head.width);
        self.colour(id).map(|c| (c..c + width).collect()).unwrap_or_default()
    }

    fn listing(&self) -> Vec<ScalarRow> {
        let row = |id: HloId, seeds: &SeededSet<RegId>| {
            let (inst, reached) = (self.module.inst(id), self.closure(seeds));
            ScalarRow {
                name: inst.name().to_owned(),
                op: inst.op.name(),
                shape: inst.shape().to_string(),
                registers: reached.len(),
                accesses: self.program_order().filter(|(_, _, i)| self.addresses_by(i, &reached)).count(),
            }
        };
        self.scalars().into_iter().map(|id| row(id, &self.own_registers(id))).collect()
    }

    fn story(&self, id: HloId, seeds: &SeededSet<RegId>) -> Story {
        let reached = self.closure(seeds);
        let mut story = self.blank(id, self.holder(id));
        story.nodes = self.nodes(&reached);
        for (position, inst_id, inst) in self.program_order() {
            let regs = inst.regs;
            let reads = reached.contains(&regs.src0) || reached.contains(&regs.src1);
            if self.addresses_by(inst, &reached) {
                story.accesses.push(self.access(position, inst_id, inst, &reached));
            } else if is_arithmetic(inst) && (reads || reached.contains(&regs.dst)) {
                story.arithmetic.push(self.step(position, inst_id, inst));
            } else if regs.dst.is_some() && seeds.contains(&regs.dst) {
                story.loads.push(self.step(position, inst_id, inst));
            } else if reads {
                story.control.push(self.step(position, inst_id, inst));
            }
        }
        story.loops = self.loops(seeds, &reached);
        let mut ids: Vec<RegId> = reached.into_iter().collect();
        ids.sort();
        story.registers = ids.into_iter().filter_map(|r| self.register(r)).collect();
        story
    }

    /// A story with its head only.
    fn blank(&self, id: HloId, holder: Holder) -> Story {
        let value = self.module.inst(id);
        Story {
            name: value.name().to_owned(),
            op: value.op.name(),
            shape: value.shape().to_string(),
            source: value.source(),
            holder,
            uses: self.uses(value.name()),
            nodes: Vec::new(),
            loads: Vec::new(),
            arithmetic: Vec::new(),
            registers: Vec::new(),
            accesses: Vec::new(),
            loops: Vec::new(),
            control: Vec::new(),
            simulated: false,
        }
    }

    /// Uses in the module as it was read; a value that a pass made has them in the module it left.
    fn uses(&self, name: &str) -> Vec<Use> {
        let (module, value) = match (named(self.source, name), named(self.module, name)) {
            (Some(v), _) => (self.source, v.id),
            (None, Some(v)) => (self.module, v.id),
            (None, None) => return Vec::new(),
        };
        let of = |user: HloInst<'_>, operand: usize| Use {
            user: user.name().to_owned(),
            op: user.op.name(),
            operand,
            role: role(user.op, operand, user.operands().len()),
            line: user.text_place().map(|(line, _)| line),
            source: user.source(),
        };
        let users = module.insts();
        users
            .flat_map(|user| {
                let at = user.operands().iter().enumerate().filter(|(_, o)| **o == value);
                at.map(move |(k, _)| of(user, k))
            })
            .collect()
    }

    /// The nodes that name a register of engine ALL behind one of `reached`.
    fn nodes(&self, reached: &SeededSet<RegId>) -> Vec<Node> {
        let mut all: SeededSet<RegId> = seeded_set();
        for r in reached {
            all.extend(self.reg(*r).map(|row| row.from.all).filter(|r| r.is_some()));
        }
        let named = |(_, operands, scalars): &(NodeHead, NodeOperands, NodeScalars)| {
            [scalars.dst, scalars.a, scalars.b].iter().any(|r| all.contains(r))
                || self
                    .node_operands(operands)
                    .iter()
                    .any(|o| matches!(o, NodeOperand::Scalar(r, _) if all.contains(r)))
        };
        let rows = self.tables.nodes.iter().enumerate().filter(|(_, n)| named(n));
        rows.map(|(k, _)| self.node(k)).collect()
    }

    fn node_operands(&self, operands: &NodeOperands) -> &[NodeOperand] {
        let first = operands.first as usize;
        self.pool.and_then(|p| p.0.get(first..first + operands.count as usize)).unwrap_or_default()
    }

    /// A node and, of a dynamic copy, its right-hand side (`spec/ir.md 2.2`).
    fn node(&self, k: usize) -> Node {
        let text = dump::node(k, &self.names, self.pool, self.copies);
        let Some((head, operands, scalars)) = self.tables.nodes.get(k) else {
            return Node { node: k, kind: String::new(), text, right: None };
        };
        let payload = self.copies.and_then(|c| c.0.get(scalars.imm as usize));
        let copy =
            payload.and_then(|p| TensorCopyDynamicBase::of(head.kind, self.node_operands(operands), p));
        let right = copy.map(|copy| copy.rhs_str(|o| dump::use_str(o, &self.names)));
        Node { node: k, kind: format!("{:?}", head.kind), text, right }
    }

    fn register(&self, id: RegId) -> Option<Register> {
        let reg = self.reg(id)?;
        // The abstract register of all engines is replaced by its clones.
        if reg.head.engine == EngineId::All {
            return None;
        }
        Some(Register {
            register: id.0,
            engine: reg.head.engine.name(),
            role: reg.head.role.suffix(),
            colour: self.colour(id),
            width: reg.head.width,
            live: (reg.live.first <= reg.live.last).then_some((reg.live.first, reg.live.last)),
            range: (reg.bounds.lo, reg.bounds.hi),
        })
    }
}

/// What an operand is to its user.
fn role(op: HloOp, operand: usize, count: usize) -> &'static str {
    match (op, operand) {
        (HloOp::DynamicSlice, 1..) | (HloOp::DynamicUpdateSlice, 2..) => "start index",
        (HloOp::Gather | HloOp::Scatter, k) if k == count / 2 => "offsets",
        (HloOp::Compare, _) => "compared",
        (HloOp::Select, 0) => "condition",
        (HloOp::While, _) => "start of a loop's carry",
        (HloOp::Conditional, 0) => "which branch",
        (HloOp::Tuple, _) => "element of a tuple",
        (HloOp::Broadcast, _) => "spread over a tensor",
        (HloOp::Call, _) => "argument",
        (HloOp::SetDimensionSize, 1) => "size of a dimension",
        _ => "operand",
    }
}

fn is_arithmetic(inst: &tables::Inst) -> bool {
    matches!(inst.head.op, Opcode::RegisterAlu | Opcode::RegisterMove)
}

#[cfg(test)]
mod tests;
