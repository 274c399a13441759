//! The way of a control scalar through the stages. In: a finished compilation and the name of an HLO value. Out: its uses
//! in the HLO, the instructions that load it into registers, the arithmetic on them (clamps, wraps, scaling), the
//! registers with colours and live ranges, and every access, branch and loop that hangs on it, down to the record
//! and the bits of the address word.
//!
//! The way is found by data flow over registers, not by names: it starts at the registers that hold the value and
//! follows RegisterAlu and RegisterMove to a fixed point.

use super::dump;
use super::names::{Names, route};
use super::tables::Tables;
use super::word::Decoded;
use murre_components::bir::*;
use murre_components::diag::{Diagnostic, codes::cli::CLI_VALUE};
use murre_components::dtype::HloType;
use murre_components::engine::EngineId;
use murre_components::hash::{SeededSet, seeded_set};
use murre_components::hlo::HloModule;
use murre_components::ids::*;
use murre_components::isa::{Instr, decode};
use murre_components::penguin::{
    DynamicCopies, NodeHead, NodeOperand, NodeOperands, NodeScalars, OperandPool,
};
use murre_components::program::Program;
use murre_systems::CompileOutcome;
use murre_systems::route::RouteReasons;
use serde::Serialize;

/// What `explain` says.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Explanation {
    /// Without a value: the HLO values that reach registers.
    Listing(Vec<ScalarRow>),
    /// The story of one value.
    Story(Box<Story>),
}

/// A value that reaches registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct ScalarRow {
    pub name: String,
    pub op: &'static str,
    pub shape: String,
    pub registers: usize,
    pub accesses: usize,
}

/// The way of one value.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Story {
    pub name: String,
    pub op: &'static str,
    pub shape: String,
    pub source: Option<String>,
    /// `user (op), operand k`.
    pub uses: Vec<String>,
    /// Penguin nodes that load, compute with or address by it, on the registers of engine ALL.
    pub nodes: Vec<String>,
    /// Instructions that put the value into a register.
    pub loads: Vec<Step>,
    /// Arithmetic on what was loaded.
    pub arithmetic: Vec<Step>,
    pub registers: Vec<Register>,
    pub accesses: Vec<AccessStory>,
    /// Branches and loops that it decides.
    pub control: Vec<Step>,
}

/// One instruction of the way.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Step {
    pub position: usize,
    pub instruction: u32,
    pub engine: &'static str,
    pub text: String,
    /// The HLO instruction that it serves.
    pub serves: Option<String>,
}

/// One register of the way.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Register {
    pub register: u32,
    pub engine: &'static str,
    pub role: &'static str,
    /// The physical register, as `r5` or `r4+r5`.
    pub physical: Option<String>,
    pub live: Option<(u32, u32)>,
    pub range: (i64, i64),
}

/// A memory access whose address the value steers.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct AccessStory {
    pub step: Step,
    pub route: Option<&'static str>,
    pub reason: Option<&'static str>,
    pub queue: Option<String>,
    /// Record of the stream, or descriptor.
    pub record: Option<String>,
    /// Address words, the name of the side first.
    pub words: Vec<(String, Decoded)>,
}

impl Explanation {
    /// Explains `value`, or lists what can be explained.
    pub fn of(outcome: &mut CompileOutcome, value: Option<&str>) -> Result<Explanation, Diagnostic> {
        let tables = Tables::of(&mut outcome.world);
        let empty = HloModule::default();
        let world = &outcome.world;
        let module = world.get_resource::<HloModule>().unwrap_or(&empty);
        let order = world.get_resource::<Order>().cloned().unwrap_or_default().0;
        let way = Way {
            names: Names { tables: &tables, module, exprs: world.get_resource::<Exprs>() },
            tables: &tables,
            module,
            order: &order,
            payloads: world.get_resource::<Payloads>(),
            pool: world.get_resource::<OperandPool>(),
            copies: world.get_resource::<DynamicCopies>(),
            reasons: reasons(world),
            program: outcome.program.as_ref(),
        };
        let Some(value) = value else { return Ok(Explanation::Listing(way.listing())) };
        let name = value.trim_start_matches('%');
        let ids = || (0..module.len()).map(HloId::new);
        let entry = module.computations.get(module.entry.index()).map(|_| module.entry);
        let found = ids()
            .find(|id| Some(module.inst(*id).computation()) == entry && module.inst(*id).name() == name)
            .or_else(|| ids().find(|id| module.inst(*id).name() == name));
        let Some(id) = found else {
            let scalars: Vec<String> = way.listing().into_iter().take(12).map(|r| r.name).collect();
            let help = if scalars.is_empty() {
                "no value of this module reaches a register: it has no run-time offsets or trip counts".into()
            } else {
                format!("values that reach registers: {}", scalars.join(", "))
            };
            let what = format!("the module has no value '{name}' after simplification");
            return Err(Diagnostic::error(&CLI_VALUE, what).help(help));
        };
        Ok(Explanation::Story(Box::new(way.story(id))))
    }
}

/// Why each DMA went its route, by instruction.
fn reasons(world: &bevy_ecs::prelude::World) -> Vec<&'static str> {
    let reasons = world.get_resource::<RouteReasons>();
    reasons.map(|r| r.0.iter().map(|reason| reason.text()).collect()).unwrap_or_default()
}

struct Way<'a> {
    names: Names<'a>,
    tables: &'a Tables,
    module: &'a HloModule,
    order: &'a [InstId],
    payloads: Option<&'a Payloads>,
    pool: Option<&'a OperandPool>,
    copies: Option<&'a DynamicCopies>,
    /// Why each DMA went its route, by instruction.
    reasons: Vec<&'static str>,
    program: Option<&'a Program>,
}

impl Way<'_> {
    /// Live instructions in program order with their positions.
    fn program_order(&self) -> impl Iterator<Item = (usize, InstId, &InstRow)> {
        let rows = self.order.iter().enumerate();
        rows.filter_map(|(p, id)| Some((p, *id, self.tables.insts.get(id.index())?)))
            .filter(|(_, _, i)| i.head.live())
    }

    fn aps(&self, inst: &InstRow) -> &[ApRow] {
        self.tables.aps.get(inst.operands.range()).unwrap_or_default()
    }

    /// The value that a load into a register reads.
    fn loaded_value(&self, inst: &InstRow) -> HloId {
        let source = self.aps(inst).iter().find(|a| a.head.output == 0);
        let loc = source.and_then(|a| self.tables.locs.get(a.head.loc.index()));
        loc.map_or(HloId::NONE, |l| l.from.hlo)
    }

    /// Registers that hold `hlo` itself.
    fn seeds(&self, hlo: HloId) -> SeededSet<RegId> {
        let mut seeds = seeded_set();
        for (k, reg) in self.tables.regs.iter().enumerate() {
            if reg.from.hlo == hlo && reg.head.role == RegRole::Scalar {
                seeds.insert(RegId::new(k));
            }
        }
        for (_, _, inst) in self.program_order() {
            if inst.head.op == Opcode::TensorLoad && self.loaded_value(inst) == hlo && inst.regs.dst.is_some()
            {
                seeds.insert(inst.regs.dst);
            }
        }
        seeds
    }

    /// Everything that register arithmetic makes of `seeds`.
    fn closure(&self, seeds: &SeededSet<RegId>) -> SeededSet<RegId> {
        let mut reached = seeds.clone();
        loop {
            let before = reached.len();
            for (_, _, inst) in self.program_order().filter(|(_, _, i)| is_arithmetic(i)) {
                let regs = inst.regs;
                if regs.dst.is_some() && (reached.contains(&regs.src0) || reached.contains(&regs.src1)) {
                    reached.insert(regs.dst);
                }
            }
            if reached.len() == before {
                return reached;
            }
        }
    }

    /// Whether an instruction addresses memory through one of the registers.
    fn addresses_by(&self, inst: &InstRow, regs: &SeededSet<RegId>) -> bool {
        let steers = |a: &ApRow| {
            regs.contains(&a.dynamic.address)
                || self
                    .payloads
                    .and_then(|p| p.dynamic(a.dynamic.payload))
                    .is_some_and(|d| regs.contains(&d.offset_reg))
        };
        self.aps(inst).iter().any(steers)
            || inst.head.op == Opcode::DmaCopy && (regs.contains(&inst.regs.src0))
    }

    fn step(&self, position: usize, id: InstId, inst: &InstRow) -> Step {
        let text = dump::instruction(inst, &self.names, self.payloads);
        let text = text.split("  // ").next().unwrap_or_default().to_string();
        Step {
            position,
            instruction: id.0,
            engine: inst.head.engine.name(),
            text,
            serves: self.names.hlo(inst.from.hlo).map(str::to_string),
        }
    }

    fn listing(&self) -> Vec<ScalarRow> {
        let mut values: Vec<HloId> = Vec::new();
        for reg in &self.tables.regs {
            if reg.head.role == RegRole::Scalar && reg.from.hlo.is_some() {
                values.push(reg.from.hlo);
            }
        }
        for (_, _, inst) in self.program_order().filter(|(_, _, i)| i.head.op == Opcode::TensorLoad) {
            values.push(self.loaded_value(inst));
        }
        let scalar = |v: &HloId| {
            let inst = self.module.get(*v).and_then(|i| i.shape().array());
            inst.is_some_and(|s| s.elements() == 1 && (s.ty.is_int() || s.ty == HloType::Pred))
        };
        values.retain(|v| v.is_some() && scalar(v));
        values.sort();
        values.dedup();
        values
            .into_iter()
            .map(|id| {
                let (inst, reached) = (self.module.inst(id), self.closure(&self.seeds(id)));
                let accesses =
                    self.program_order().filter(|(_, _, i)| self.addresses_by(i, &reached)).count();
                ScalarRow {
                    name: inst.name().to_owned(),
                    op: inst.op.name(),
                    shape: inst.shape().to_string(),
                    registers: reached.len(),
                    accesses,
                }
            })
            .collect()
    }

    fn story(&self, id: HloId) -> Story {
        let value = self.module.inst(id);
        let seeds = self.seeds(id);
        let reached = self.closure(&seeds);
        let uses = self
            .module
            .insts()
            .flat_map(|user| {
                let at = user.operands().iter().enumerate().filter(|(_, o)| **o == id);
                at.map(move |(k, _)| format!("{} ({}), operand {k}", user.name(), user.op.name()))
            })
            .collect();
        let mut story = Story {
            name: value.name().to_owned(),
            op: value.op.name(),
            shape: value.shape().to_string(),
            source: value.source(),
            uses,
            nodes: self.nodes(&reached),
            loads: Vec::new(),
            arithmetic: Vec::new(),
            registers: Vec::new(),
            accesses: Vec::new(),
            control: Vec::new(),
        };
        // The n-th generated DMA of a stream is its n-th 0xD4 record.
        let mut generated = [0usize; 5];
        for (position, inst_id, inst) in self.program_order() {
            let regs = inst.regs;
            let ordinal = inst.head.engine.stream().filter(|_| is_generated(inst)).map(|s| {
                generated[s] += 1;
                (s, generated[s] - 1)
            });
            let reads = reached.contains(&regs.src0) || reached.contains(&regs.src1);
            if self.addresses_by(inst, &reached) {
                story.accesses.push(self.access(position, inst_id, inst, ordinal, &reached));
            } else if is_arithmetic(inst) && reads {
                story.arithmetic.push(self.step(position, inst_id, inst));
            } else if regs.dst.is_some() && seeds.contains(&regs.dst) {
                story.loads.push(self.step(position, inst_id, inst));
            } else if reads {
                story.control.push(self.step(position, inst_id, inst));
            }
        }
        let mut ids: Vec<RegId> = reached.into_iter().collect();
        ids.sort();
        story.registers = ids.into_iter().filter_map(|r| self.register(r)).collect();
        story
    }

    /// The nodes that name a register of engine ALL behind one of `reached`.
    fn nodes(&self, reached: &SeededSet<RegId>) -> Vec<String> {
        let abstracted = |r: RegId| self.tables.regs.get(r.index()).map_or(RegId::NONE, |row| row.from.all);
        let all: SeededSet<RegId> = {
            let mut set = seeded_set();
            set.extend(reached.iter().map(|r| abstracted(*r)).filter(|r| r.is_some()));
            set
        };
        let named = |(_, operands, scalars): &(NodeHead, NodeOperands, NodeScalars)| {
            let first = operands.first as usize;
            let list =
                self.pool.and_then(|p| p.0.get(first..first + operands.count as usize)).unwrap_or_default();
            [scalars.dst, scalars.a, scalars.b].iter().any(|r| all.contains(r))
                || list.iter().any(|o| matches!(o, NodeOperand::Scalar(r, _) if all.contains(r)))
        };
        let rows = self.tables.nodes.iter().enumerate().filter(|(_, n)| named(n));
        rows.map(|(k, _)| dump::node(k, &self.names, self.pool, self.copies)).collect()
    }

    fn register(&self, id: RegId) -> Option<Register> {
        let reg = self.tables.regs.get(id.index())?;
        // The abstract register of all engines is replaced by its clones.
        if reg.head.engine == EngineId::All {
            return None;
        }
        let low = reg.head.colour;
        let physical = match reg.head.width {
            2 => format!("r{low}+r{}", low as u32 + 1),
            _ => format!("r{low}"),
        };
        Some(Register {
            register: id.0,
            engine: reg.head.engine.name(),
            role: reg.head.role.suffix(),
            physical: (low != RegHead::UNCOLOURED).then_some(physical),
            live: (reg.live.first <= reg.live.last).then_some((reg.live.first, reg.live.last)),
            range: (reg.bounds.lo, reg.bounds.hi),
        })
    }

    fn access(
        &self,
        position: usize,
        id: InstId,
        inst: &InstRow,
        ordinal: Option<(usize, usize)>,
        reached: &SeededSet<RegId>,
    ) -> AccessStory {
        let dma = inst.head.op.is_dma();
        let queue = self.tables.queues.get(inst.dma.queue.index()).filter(|_| inst.dma.queue.is_some());
        let mut story = AccessStory {
            step: self.step(position, id, inst),
            route: dma.then(|| route(inst.head.dge)),
            reason: self.reasons.get(id.index()).filter(|_| dma).copied(),
            queue: queue.map(|q| format!("{} {:?} {}", inst.dma.queue.0, q.kind, q.engine.name())),
            record: None,
            words: Vec::new(),
        };
        if let (Some(program), Some((stream, n))) = (self.program, ordinal) {
            let mut records = program.streams[stream].iter().enumerate().filter(|(_, r)| r[0] == 0xD4);
            if let Some((at, record)) = records.nth(n) {
                story.record = Some(format!("record {at} of stream {}", EngineId::STREAMS[stream].name()));
                if let Ok((Instr::DmaDirect(d), _)) = decode(record) {
                    for (side, word) in [("destination", d.dst), ("source", d.src)] {
                        let word = u64::from_le_bytes(word.to_bytes());
                        story.words.push((side.into(), Decoded::addr8(word)));
                    }
                }
            }
        } else if !dma {
            let steered = self.aps(inst).iter().filter(|a| reached.contains(&a.dynamic.address));
            for ap in steered.filter(|a| a.word.0 != 0) {
                let side = if ap.head.output == 1 { "destination" } else { "source" };
                story.words.push((side.into(), Decoded::addr4(ap.word.0)));
            }
        }
        story
    }
}

fn is_arithmetic(inst: &InstRow) -> bool {
    matches!(inst.head.op, Opcode::RegisterAlu | Opcode::RegisterMove)
}

/// Whether an instruction is a DMA record inside a stream.
fn is_generated(inst: &InstRow) -> bool {
    inst.head.op == Opcode::DmaCopy && matches!(inst.head.dge, DgeType::Swdge | DgeType::Hwdge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_systems::{CompileOptions, Compiler, Stage};

    const WRITE: &str = "HloModule m\n\nENTRY main {\n  cache = f32[16,8] parameter(0)\n  new = f32[1,8] parameter(1)\n  \
        pos = s32[] parameter(2)\n  zero = s32[] constant(0)\n  \
        ROOT out = f32[16,8] dynamic-update-slice(cache, new, pos, zero)\n}\n";

    fn outcome() -> CompileOutcome {
        let module = crate::check::verified_module(&bytes::Bytes::from_static(WRITE.as_bytes()), "m")
            .expect("a valid module");
        let options = CompileOptions { stop_after: Some(Stage::Registers), ..CompileOptions::default() };
        let mut compiler = Compiler::new(module, options);
        compiler.run(&Stage::ALL);
        compiler.finish()
    }

    fn story() -> Story {
        match Explanation::of(&mut outcome(), Some("%pos")) {
            Ok(Explanation::Story(story)) => *story,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_position_is_followed_to_its_access() {
        let story = story();
        assert_eq!(story.uses, ["out (dynamic-update-slice), operand 2"]);
        assert!(story.nodes.iter().any(|n| n.contains("TensorCopyDynamic")), "{:?}", story.nodes);
        assert!(!story.loads.is_empty() && story.loads.iter().all(|s| s.text.contains("TensorLoad")));
        let has = |what: &str| story.arithmetic.iter().any(|s| s.text.contains(what));
        assert!(has("max 0") && has("min 15"), "{:?}", story.arithmetic);
        assert!(story.registers.iter().all(|r| r.physical.is_some()), "{:?}", story.registers);
        assert_eq!(story.accesses.len(), 1, "{:?}", story.accesses);
        assert_eq!(story.accesses[0].step.serves.as_deref(), Some("out"));
    }

    #[test]
    fn without_a_value_the_scalars_are_listed_and_an_unknown_one_is_refused() {
        let listing = Explanation::of(&mut outcome(), None).expect("a listing");
        let Explanation::Listing(rows) = &listing else { panic!("{listing:?}") };
        assert!(rows.iter().any(|r| r.name == "pos" && r.accesses == 1), "{rows:?}");
        assert!(listing.text().contains("pos"));
        let fault = Explanation::of(&mut outcome(), Some("nothing")).expect_err("no such value");
        assert_eq!(fault.code.id, "MUR0903");
        assert!(fault.help.is_some_and(|h| h.contains("pos")));
    }

    #[test]
    fn the_page_has_every_part() {
        let text = Explanation::Story(Box::new(story())).text();
        for part in ["HLO uses", "into registers", "clamps", "registers (", "memory accesses"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
