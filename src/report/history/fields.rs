//! The components of an entity as named values, and the rows that came of an HLO instruction. In: tables behind a pass.
//! Out: fields, references in the notation of entities; places in program order are no fields, because every insertion
//! moves them.

use super::super::names::alu;
use super::super::tables::{self, Tables};
use super::{Children, Entity, records_of};
use bevy_ecs::prelude::World;
use murre_components::bir::*;
use murre_components::hlo::{HloInst, HloModule};
use murre_components::ids::*;
use murre_components::penguin::{NodeOperand, OperandPool};
use murre_components::program::Program;
use murre_systems::encode::RecordLayout;
use murre_systems::route::RouteReasons;
use serde_json::{Value, json};

/// Field names and values.
pub type Fields = Vec<(&'static str, Value)>;

/// Attributes longer than this are cut.
const LONGEST_ATTRIBUTES: usize = 200;

/// Everything that fields are read from.
pub struct Rows<'a> {
    tables: &'a Tables,
    module: Option<&'a HloModule>,
    order: &'a [InstId],
    exprs: Option<&'a Exprs>,
    payloads: Option<&'a Payloads>,
    pool: Option<&'a OperandPool>,
    reasons: Option<&'a RouteReasons>,
    layout: Option<&'a RecordLayout>,
    program: Option<&'a Program>,
}

fn reference(prefix: &str, id: u32) -> Value {
    if id == u32::MAX { Value::Null } else { format!("{prefix}{id}").into() }
}

fn pairs(p: &ApPattern) -> Value {
    p.0.iter().map(|p| json!({ "num": p.num, "step": p.step })).collect()
}

impl<'a> Rows<'a> {
    /// Of the world behind a pass.
    pub fn of(world: &'a World, tables: &'a Tables) -> Rows<'a> {
        Rows {
            tables,
            module: world.get_resource(),
            order: world.get_resource::<Order>().map_or(&[], |o| &o.0),
            exprs: world.get_resource(),
            payloads: world.get_resource(),
            pool: world.get_resource(),
            reasons: world.get_resource(),
            layout: world.get_resource(),
            program: world.get_resource(),
        }
    }

    fn hlo(&self, id: HloId) -> Value {
        self.module.and_then(|m| m.get(id)).filter(|_| id.is_some()).map_or(Value::Null, |i| i.name().into())
    }

    fn named(&self, name: &str) -> Option<HloInst<'a>> {
        super::super::explain::named(self.module?, name)
    }

    fn expr(&self, id: ExprId) -> Value {
        let Some(exprs) = self.exprs.filter(|x| id.is_some() && id.index() < x.len()) else {
            return Value::Null;
        };
        match exprs.get(id) {
            Expr::RuntimeInt(r) => reference("r", r.0),
            Expr::AxisIv(a) => reference("axis", a.0),
            Expr::IndirectArg { arg_id } => format!("argument {arg_id}").into(),
            Expr::Sum(operands) => {
                let operands: Vec<Value> = operands.iter().map(|e| self.expr(*e)).collect();
                json!({ "sum": operands })
            }
            Expr::Mult { operand, coef } => json!({ "mult": [self.expr(*operand), coef] }),
            Expr::FloorDiv { numer, denom } => json!({ "floor_div": [self.expr(*numer), denom] }),
            Expr::Modulo { numer, denom } => json!({ "modulo": [self.expr(*numer), denom] }),
            Expr::Affine { terms, c } => {
                let terms: Vec<Value> = terms.iter().map(|(e, k)| json!([k, self.expr(*e)])).collect();
                json!({ "constant": c, "terms": terms })
            }
        }
    }

    /// Where an instruction stands in program order.
    pub fn position(&self, entity: &Entity) -> Option<usize> {
        let Entity::Inst(id) = entity else { return None };
        self.order.iter().position(|i| i.0 == *id)
    }

    /// The components of an entity; `None` when it is not there.
    pub fn fields(&self, entity: &Entity) -> Option<Fields> {
        let t = self.tables;
        match entity {
            Entity::Hlo(name) => self.named(name).map(|i| self.hlo_fields(i)),
            Entity::Node(k) => self.node_fields(*k as usize),
            Entity::Inst(k) => self.inst_fields(*k as usize),
            Entity::Ap(k) => t.aps.get(*k as usize).map(|a| self.ap_fields(a)),
            Entity::Reg(k) => t.regs.get(*k as usize).map(|r| self.reg_fields(r)),
            Entity::Loc(k) => t.locs.get(*k as usize).map(|l| self.loc_fields(l)),
            Entity::Axis(k) => t.axes.get(*k as usize).map(|a| self.axis_fields(a)),
            Entity::Queue(k) => t.queues.get(*k as usize).map(|q| {
                vec![
                    ("engine", q.engine.name().into()),
                    ("kind", format!("{:?}", q.kind).into()),
                    ("instance", q.instance.into()),
                    ("semaphore", q.semaphore.into()),
                ]
            }),
            Entity::Block(k) => t.blocks.get(*k as usize).map(|b| {
                vec![
                    ("queue", reference("queue", b.queue.0)),
                    ("first", reference("desc", b.first.0)),
                    ("count", b.count.into()),
                    ("trigger", reference("%", b.trigger.0)),
                ]
            }),
            Entity::Desc(k) => t.descs.get(*k as usize).map(|d| {
                let side = |s: &DescSide| {
                    json!({
                        "variable": if s.var == u32::MAX { Value::Null } else { s.var.into() }, "base": s.base,
                        "steps": [s.step0, s.step1], "counts": [s.num0, s.num1], "run": s.run,
                    })
                };
                vec![
                    ("block", reference("block", d.head.block.0)),
                    ("hlo", self.hlo(d.head.hlo)),
                    ("tags", json!([d.head.src_tag, d.head.dst_tag])),
                    ("semaphore", json!([d.head.sem, d.head.sem_inc])),
                    ("source", side(&d.src.0)),
                    ("destination", side(&d.dst.0)),
                ]
            }),
        }
    }

    fn hlo_fields(&self, inst: HloInst<'_>) -> Fields {
        let operands: Vec<Value> = inst.operands().iter().map(|o| self.hlo(*o)).collect();
        let comp = |c: &CompId| self.module.map_or(Value::Null, |m| m.comp(*c).name.clone().into());
        let mut attributes = format!("{:?}", inst.attrs());
        if let Some((at, _)) = attributes.char_indices().nth(LONGEST_ATTRIBUTES) {
            attributes.truncate(at);
            attributes += " ...";
        }
        vec![
            ("op", inst.op.name().into()),
            ("shape", inst.shape().to_string().into()),
            ("operands", operands.into()),
            ("called", inst.called().iter().map(comp).collect()),
            ("attributes", attributes.into()),
            ("computation", comp(&inst.computation())),
        ]
    }

    fn node_fields(&self, k: usize) -> Option<Fields> {
        let (head, operands, s) = self.tables.nodes.get(k)?;
        let first = operands.first as usize;
        let list =
            self.pool.and_then(|p| p.0.get(first..first + operands.count as usize)).unwrap_or_default();
        let operand = |o: &NodeOperand| match o {
            NodeOperand::Access(a) => json!({
                "location": reference("loc", a.loc.0), "offset": a.offset, "dtype": a.dtype.name(),
                "pattern": pairs(&a.pattern),
            }),
            NodeOperand::Splat(bits, t) => json!({ "splat": bits, "dtype": t.name() }),
            NodeOperand::Scalar(r, t) => json!({ "register": reference("r", r.0), "dtype": t.name() }),
        };
        Some(vec![
            ("kind", format!("{:?}", head.kind).into()),
            ("op", head.op.name().into()),
            ("sub", head.sub.into()),
            ("flags", head.flags.into()),
            ("hlo", self.hlo(head.hlo)),
            ("axis", reference("axis", head.axis.0)),
            ("operands", list.iter().map(operand).collect()),
            ("dst", reference("r", s.dst.0)),
            ("a", reference("r", s.a.0)),
            ("b", reference("r", s.b.0)),
            ("imm", s.imm.into()),
            ("tag", s.tag.into()),
        ])
    }

    fn inst_fields(&self, k: usize) -> Option<Fields> {
        let i = self.tables.insts.get(k)?;
        let (h, a, s) = (i.head, i.args, i.sync);
        let aps: Vec<Value> = i.operands.range().map(|k| reference("ap", k as u32)).collect();
        let in_order = self.order.contains(&InstId::new(k));
        let op0 = if h.op == Opcode::RegisterAlu { Value::from(alu(a.op0)) } else { a.op0.into() };
        let mut fields = vec![
            ("op", h.op.name().into()),
            ("engine", h.engine.name().into()),
            ("in program", (in_order && h.live()).into()),
            ("flags", h.flags.into()),
            ("outputs", i.operands.outputs.into()),
            ("operands", aps.into()),
            ("op0", op0),
            ("op1", a.op1.into()),
            ("mode", a.mode.into()),
            ("dtype", a.dtype.into()),
            ("imm", json!([a.imm0, a.imm1])),
            ("aux", a.aux.into()),
            ("src0", reference("r", i.regs.src0.0)),
            ("src1", reference("r", i.regs.src1.0)),
            ("dst", reference("r", i.regs.dst.0)),
            ("hlo", self.hlo(i.from.hlo)),
            ("owner", reference("%", i.from.owner.0)),
            ("wait", json!([s.wait_mode, s.wait_sem, s.value])),
            ("update", json!([s.update_mode, s.update_sem])),
        ];
        if h.op.is_dma() {
            let reason = self.reasons.and_then(|r| r.0.get(k)).map_or(Value::Null, |r| r.text().into());
            fields.extend([
                ("route", super::super::names::route(h.dge).into()),
                ("reason", reason),
                ("queue", reference("queue", i.dma.queue.0)),
                ("block", reference("block", i.dma.block.0)),
            ]);
        }
        let record = self.layout.and_then(|l| l.index.get(k)).filter(|r| **r != u32::MAX);
        fields.extend(record.map(|r| ("record", Value::from(*r))));
        Some(fields)
    }

    fn ap_fields(&self, a: &tables::Ap) -> Fields {
        let payload = match self.payloads.and_then(|p| p.0.get(a.head.dynamic.payload)) {
            None => Value::Null,
            Some(Payload::Symbolic(s)) => json!({ "tile": self.expr(s.tile), "block": self.expr(s.block) }),
            Some(Payload::Dynamic(d)) => {
                let terms: Vec<Value> = d.terms.iter().map(|t| json!([t.coef, self.expr(t.expr)])).collect();
                json!({
                    "vector": matches!(d.kind, OffsetKind::Vector(_)), "terms": terms, "constant": d.c,
                    "dimension": d.indirect_dim, "below": d.indirect_dim_max_index,
                    "indices": d.num_tensor_indirect_indices, "offset": reference("r", d.offset_reg.0),
                    "bound": reference("r", d.bound_reg.0),
                })
            }
        };
        vec![
            ("location", reference("loc", a.head.loc.0)),
            ("offset", a.head.offset.into()),
            ("inst", reference("%", a.head.inst.0)),
            ("dtype", a.head.dtype.name().into()),
            ("kind", format!("{:?}", a.head.kind).into()),
            ("output", (a.head.output == 1).into()),
            ("flags", a.head.flags.into()),
            ("pattern", pairs(&a.pattern)),
            ("dynamic", payload),
            ("address", reference("r", a.head.dynamic.address.0)),
            ("ap offset", reference("r", a.origin.map_or(RegId::NONE, |o| o.ap_offset).0)),
            ("sub tensor", reference("r", a.origin.map_or(RegId::NONE, |o| o.sub_tensor).0)),
            ("word", if a.word == 0 { Value::Null } else { format!("{:08x}", a.word).into() }),
        ]
    }

    fn reg_fields(&self, r: &tables::Reg) -> Fields {
        let colour = r.head.colour;
        let live = r.live.first <= r.live.last;
        vec![
            ("engine", r.head.engine.name().into()),
            ("width", r.head.width.into()),
            ("role", r.head.role.suffix().into()),
            ("colour", if colour == RegHead::UNCOLOURED { Value::Null } else { colour.into() }),
            ("hlo", self.hlo(r.from.hlo)),
            ("all", reference("r", r.from.all.0)),
            ("inst", reference("%", r.from.inst.0)),
            ("location", reference("loc", r.from.loc.0)),
            ("range", json!([r.bounds.lo, r.bounds.hi])),
            ("live", if live { json!([r.live.first, r.live.last]) } else { Value::Null }),
        ]
    }

    fn loc_fields(&self, l: &tables::Loc) -> Fields {
        let known = |v: u32| if v == u32::MAX { Value::Null } else { v.into() };
        let live = l.live.first != u32::MAX;
        vec![
            ("space", format!("{:?}", l.head.space).into()),
            ("kind", format!("{:?}", l.head.kind).into()),
            ("dtype", l.head.dtype.name().into()),
            ("flags", l.head.flags.into()),
            ("partitions", l.head.partitions.into()),
            ("elements a partition", l.head.part_elems.into()),
            ("address", known(l.place.address)),
            ("table entry", known(l.place.table_entry)),
            ("live", if live { json!([l.live.first, l.live.last]) } else { Value::Null }),
            ("hlo", self.hlo(l.from.hlo)),
            ("ordinal", known(l.from.ordinal)),
        ]
    }

    fn axis_fields(&self, a: &AxisRow) -> Fields {
        vec![
            ("kind", format!("{:?}", a.head.kind).into()),
            ("parent", reference("axis", a.head.parent.0)),
            ("depth", a.head.depth.into()),
            ("unsigned", (a.head.unsigned != 0).into()),
            ("begin", reference("%", a.head.begin.0)),
            ("end", reference("%", a.head.end.0)),
            ("lower", self.expr(a.bounds.lb)),
            ("upper", self.expr(a.bounds.ub)),
            ("step", self.expr(a.bounds.step)),
            ("max trips", a.bounds.max_trip.into()),
            ("counter", reference("r", a.regs.iv.0)),
            ("limit", reference("r", a.regs.limit.0)),
            ("condition", reference("r", a.regs.condition.0)),
            ("per engine", a.regs.per_engine.iter().map(|r| reference("r", r.0)).collect()),
        ]
    }

    /// Rows that came of an entity and are not among `known` yet; `known` learns them.
    pub fn children(&self, entity: &Entity, known: &mut Vec<(&'static str, Vec<String>)>) -> Vec<Children> {
        let t = self.tables;
        let numbers = |prefix: &str, is_child: &mut dyn Iterator<Item = bool>| -> Vec<String> {
            let rows = is_child.enumerate().filter(|(_, child)| *child);
            rows.map(|(k, _)| format!("{prefix}{k}")).collect()
        };
        let all = match entity {
            Entity::Hlo(name) => match self.named(name) {
                Some(inst) => self.served(inst),
                None => return Vec::new(),
            },
            Entity::Inst(id) => {
                vec![("instructions", numbers("%", &mut t.insts.iter().map(|i| i.from.owner.0 == *id)))]
            }
            Entity::Reg(id) => {
                vec![("copies on engines", numbers("r", &mut t.regs.iter().map(|r| r.from.all.0 == *id)))]
            }
            _ => return Vec::new(),
        };
        let mut out = Vec::new();
        for (kind, ids) in all {
            let at = known.iter().position(|(k, _)| *k == kind).unwrap_or_else(|| {
                known.push((kind, Vec::new()));
                known.len() - 1
            });
            let old: murre_components::hash::SeededSet<&String> = {
                let mut set = murre_components::hash::seeded_set();
                set.extend(known[at].1.iter());
                set
            };
            let fresh: Vec<String> = ids.iter().filter(|i| !old.contains(i)).cloned().collect();
            known[at].1 = ids;
            if !fresh.is_empty() {
                out.push(Children { kind, ids: fresh });
            }
        }
        out
    }

    /// Everything that serves an HLO instruction, by kind.
    fn served(&self, inst: HloInst<'_>) -> Vec<(&'static str, Vec<String>)> {
        let (t, id) = (self.tables, inst.id);
        let numbers = |prefix: &str, serves: &mut dyn Iterator<Item = HloId>| -> Vec<String> {
            let rows = serves.enumerate().filter(|(_, h)| *h == id);
            rows.map(|(k, _)| format!("{prefix}{k}")).collect()
        };
        let (dotted, slashed) = (format!("{}.", inst.name()), format!("{}/", inst.name()));
        let insts = self.module.into_iter().flat_map(|m| m.insts()).map(|i| i.name());
        let named = insts.filter(|n| n.starts_with(&dotted) || n.starts_with(&slashed)).map(str::to_owned);
        let records = self.program.zip(self.module).map(|(p, m)| records_of(p, m, id));
        vec![
            ("HLO instructions", named.collect()),
            ("nodes", numbers("n", &mut t.nodes.iter().map(|n| n.0.hlo))),
            ("instructions", numbers("%", &mut t.insts.iter().map(|i| i.from.hlo))),
            ("registers", numbers("r", &mut t.regs.iter().map(|r| r.from.hlo))),
            ("locations", numbers("loc", &mut t.locs.iter().map(|l| l.from.hlo))),
            ("descriptors", numbers("desc", &mut t.descs.iter().map(|d| d.head.hlo))),
            ("records", records.unwrap_or_default()),
        ]
    }
}
