//! An access whose address the value steers. In: an instruction with a run-time address. Out: the address as an expression,
//! the route and why not the others, queue, records, the bound, and the address words taken apart.

use super::super::names::route;
use super::super::tables;
use super::super::word::Decoded;
use super::{AccessStory, Bound, Index, OtherRoute, Queue, Symbolic, Term, Way};
use murre_components::bir::*;
use murre_components::engine::EngineId;
use murre_components::hash::SeededSet;
use murre_components::ids::*;
use murre_components::isa::{Addr8Form, Instr, decode};
use murre_systems::route::{DmaWhy, RouteReason};

impl Way<'_> {
    pub(super) fn access(
        &self,
        position: usize,
        id: InstId,
        inst: &tables::Inst,
        reached: &SeededSet<RegId>,
    ) -> AccessStory {
        let aps = self.aps(inst);
        let steered = |a: &&tables::Ap| {
            reached.contains(&a.head.dynamic.address)
                || self.payloads.is_some_and(|p| p.0.contains_key(a.head.dynamic.payload))
        };
        let side =
            aps.iter().find(|a| reached.contains(&a.head.dynamic.address)).or(aps.iter().find(steered));
        let mut story = self.plain_access(position, id, inst, side);
        let address = side.map_or(inst.regs.src0, |a| a.head.dynamic.address);
        let address = if address.is_some() { address } else { inst.regs.src0 };
        story.step.watched = self.lanes(address);
        if let Some(side) = side {
            story.symbolic = self.symbolic(side);
            if inst.head.op == Opcode::DmaCopy && inst.regs.src1.is_some() {
                let loc = self.tables.locs.get(side.head.loc.index());
                story.bound = Some(Bound {
                    register: inst.regs.src1.0,
                    colour: self.colour(inst.regs.src1),
                    bytes: loc.map_or(0, |l| l.head.part_bytes()),
                });
            }
        }
        story
    }

    /// What an access has whatever steers it.
    pub(super) fn plain_access(
        &self,
        position: usize,
        id: InstId,
        inst: &tables::Inst,
        side: Option<&tables::Ap>,
    ) -> AccessStory {
        let dma = inst.head.op.is_dma();
        let queue = self.tables.queues.get(inst.dma.queue.index()).filter(|_| inst.dma.queue.is_some());
        // A piece that was cut off a copy has its owner's reasons.
        let owner =
            if inst.from.owner.is_some() && inst.head.op == Opcode::DmaCopy { inst.from.owner } else { id };
        let why = dma.then(|| DmaWhy::of(self.world, owner));
        let reason = why.map(|w| w.route);
        let [route_text, engine_text, queue_text] = why.map_or([None, None, None], |w| w.text().map(Some));
        let step = self.step(position, id, inst);
        let mut story = AccessStory {
            home: side.and_then(|a| self.home(a.head.loc)),
            symbolic: None,
            route: dma.then(|| route(inst.head.dge)),
            reason: route_text,
            engine_reason: engine_text,
            queue_reason: queue_text,
            others: reason.map(|r| others(inst, r, self.target.arch())).unwrap_or_default(),
            queue: queue.map(|q| Queue {
                number: inst.dma.queue.0,
                kind: format!("{:?}", q.kind).to_lowercase(),
                engine: q.engine.name(),
            }),
            records: step.record.into_iter().collect(),
            step,
            bound: None,
            table: None,
            words: Vec::new(),
            places: Vec::new(),
            runs: None,
            offsets: Vec::new(),
            vector: None,
        };
        match inst.head.engine.stream().filter(|_| inst.head.op == Opcode::DmaCopy) {
            Some(stream) => self.words_of_record(&mut story, stream),
            None => {
                for ap in self.aps(inst).iter().filter(|a| a.head.dynamic.address.is_some() && a.word != 0) {
                    let side = if ap.head.output == 1 { "destination" } else { "source" };
                    story.words.push((side.into(), Decoded::addr4(ap.word)));
                }
            }
        }
        story
    }

    /// Address words of a 0xD4 record, and of the 0xDA record behind it.
    fn words_of_record(&self, story: &mut AccessStory, stream: usize) {
        let Some(records) = self.program.and_then(|p| p.streams.get(stream)) else { return };
        let Some(first) = story.step.record else { return };
        let at = |n: u32| records.get(n as usize).and_then(|r| decode(r).ok()).map(|(i, _)| i);
        let Some(Instr::DmaDirect(d)) = at(first) else { return };
        for (side, word) in [("destination", d.dst), ("source", d.src)] {
            story.words.push((side.into(), Decoded::addr8(u64::from_le_bytes(word.to_bytes()))));
            if let Addr8Form::TableRegister { entry, .. } = word.form {
                let row = self.program.and_then(|p| p.table.get(entry as usize));
                story.table = row.map(|t| (entry, t.var, t.displacement));
            }
        }
        if let Some(Instr::DmaExtension(x)) = at(first + 1).filter(|_| d.dge_op == 1) {
            story.records.push(first + 1);
            for (side, word) in [("destination offsets", x.dst_index), ("source offsets", x.src_index)] {
                if word.word() != 0 {
                    story.words.push((side.into(), Decoded::addr4(word.word())));
                }
            }
        }
    }

    /// The run-time part of an address, in bytes from the start of the variable, or in elements of an SBUF tile.
    fn symbolic(&self, side: &tables::Ap) -> Option<Symbolic> {
        let exprs = self.names.exprs?;
        let terms =
            |list: &[(ExprId, i64)]| list.iter().map(|(e, k)| self.term(*e, *k)).collect::<Option<_>>();
        match self.payloads?.0.get(side.head.dynamic.payload)? {
            Payload::Dynamic(d) => {
                let bytes = side.head.dtype.bytes() as i64;
                let fixed = if side.head.flags & ApHead::TABLE_ENTRY != 0 { 0 } else { side.head.offset };
                Some(Symbolic {
                    unit: "bytes",
                    constant: (d.c + i64::from(fixed)) * bytes,
                    terms: terms(&d.terms.iter().map(|t| (t.expr, t.coef * bytes)).collect::<Vec<_>>())?,
                    below: Some(u64::from(d.indirect_dim_max_index)),
                })
            }
            Payload::Symbolic(s) => {
                let (list, c) = exprs.as_affine(s.tile)?;
                let constant = c + i64::from(side.head.offset);
                Some(Symbolic { unit: "elements", constant, terms: terms(&list)?, below: None })
            }
        }
    }

    /// A term over a register or an axis; nothing else is left behind the address stage.
    fn term(&self, e: ExprId, coef: i64) -> Option<Term> {
        match *self.names.exprs?.get(e) {
            Expr::RuntimeInt(r) => Some(Term {
                coef,
                index: Index::Register { register: r.0, colour: self.colour(r) },
                value: self.reg(r).and_then(|r| self.names.hlo(r.from.hlo)).map(str::to_owned),
            }),
            Expr::AxisIv(axis) => Some(Term { coef, index: Index::Axis { axis: axis.0 }, value: None }),
            _ => None,
        }
    }

    /// `coef * register + constant` of a loop's limit.
    pub(super) fn affine(&self, id: ExprId, unit: &'static str) -> Option<Symbolic> {
        let exprs = self.names.exprs.filter(|x| id.is_some() && id.index() < x.len())?;
        let (terms, constant) = exprs.as_affine(id)?;
        let terms = terms.into_iter().map(|(e, k)| self.term(e, k)).collect::<Option<_>>()?;
        Some(Symbolic { unit, constant, terms, below: None })
    }

    /// Index of the stream that an engine's name stands for.
    pub(super) fn stream(name: &str) -> Option<usize> {
        EngineId::STREAMS.iter().position(|e| e.name() == name)
    }
}

/// The routes that a DMA did not take (`spec/ir.md 7.2`, 14 c).
fn others(inst: &tables::Inst, reason: RouteReason, arch: u32) -> Vec<OtherRoute> {
    let taken = inst.head.dge;
    let dynamic = inst.head.flags & InstHead::DYNAMIC != 0;
    let all = [DgeType::None, DgeType::Swdge, DgeType::Hwdge];
    let why_not = |way: DgeType| match (way, dynamic) {
        (DgeType::None, true) => {
            (false, "descriptors built ahead cannot hold an address that only a run knows")
        }
        (DgeType::Hwdge, true) if arch <= 29 => {
            (false, "this generation's hardware generator takes no run-time offsets")
        }
        (DgeType::Hwdge, true) if reason == RouteReason::VectorIsSoftware => {
            (false, "the hardware generator takes no vector of offsets")
        }
        (DgeType::Hwdge, true) if reason == RouteReason::CastIsSoftware => {
            (false, "the hardware generator converts no element types")
        }
        (DgeType::Swdge, true) => (true, "could do it, but hardware was asked for (--dge-route hw)"),
        (DgeType::Hwdge, true) => {
            (true, "could do it, but the route table names the software generator first")
        }
        (DgeType::None, false) => (true, "a generated record is shorter than descriptors built ahead"),
        _ => (false, "the row of the route table that decided names another route"),
    };
    all.into_iter()
        .filter(|way| *way != taken)
        .map(|way| {
            let (eligible, why_not) = why_not(way);
            OtherRoute { route: route(way), eligible, why_not }
        })
        .collect()
}
