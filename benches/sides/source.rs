//! The programs that both sides begin with. In: sizes. Out: the rows of synthetic programs behind stage `place`.

use bevy_ecs::prelude::World;
use murre_components::bir::*;
use murre_components::ids::{ExprId, InstId};
use murre_systems::batch::{Batch, Member};
use murre_systems::place::Reuse;
use murre_systems::staging::{Counts, Staging};
use murre_systems::synth::{synthetic, synthetic_batch};
use murre_systems::{Compiler, Stage};

/// The seed of all programs.
pub const SEED: u64 = 7;

/// A placed program in rows, of no side; or several of them.
pub struct Source {
    pub insts: Vec<InstRow>,
    pub aps: Vec<ApRow>,
    pub regs: Vec<RegRow>,
    pub locs: Vec<LocRow>,
    pub axes: Vec<AxisRow>,
    pub exprs: Vec<Expr>,
    pub payloads: Payloads,
    pub order: Vec<InstId>,
    pub reuse: Reuse,
    /// Of a single program.
    pub signature: Signature,
    /// Where each of several begins, and their signatures.
    parts: Option<(Parts, Vec<Signature>)>,
}

/// What a world takes over from a source.
pub struct Rows {
    rows: Staging,
    exprs: Vec<Expr>,
    payloads: Payloads,
    order: Order,
    reuse: Reuse,
    signature: Signature,
    parts: Option<(Parts, Batch)>,
}

impl Rows {
    /// Puts everything where the passes look for it.
    pub fn into_world(self, world: &mut World) {
        self.rows.flush(world);
        let mut table = world.resource_mut::<Exprs>();
        for e in self.exprs {
            table.intern(e);
        }
        world.insert_resource(self.payloads);
        world.insert_resource(self.order);
        world.insert_resource(self.reuse);
        world.insert_resource(self.signature);
        if let Some((parts, batch)) = self.parts {
            world.insert_resource(parts);
            world.insert_resource(batch);
        }
    }
}

impl Source {
    /// A copy to hand over.
    pub fn rows(&self) -> Rows {
        let mut rows = Staging::after(Counts::default());
        rows.insts = self.insts.clone();
        rows.aps = self.aps.clone();
        rows.regs = self.regs.clone();
        rows.locs = self.locs.clone();
        rows.axes = self.axes.clone();
        let member = |s: &Signature| Member { signature: s.clone(), ..Member::default() };
        Rows {
            rows,
            exprs: self.exprs.clone(),
            payloads: Payloads(self.payloads.0.clone()),
            order: Order(self.order.clone()),
            reuse: self.reuse.clone(),
            signature: self.signature.clone(),
            parts: self.parts.as_ref().map(|(p, s)| (p.clone(), Batch(s.iter().map(member).collect()))),
        }
    }
}

/// A program of about `n` instructions.
pub fn source(n: u32) -> Source {
    placed(synthetic(n, SEED))
}

/// `count` programs of about `n` instructions, each by itself; and the same ones, `together` of them in each source.
pub fn sources(n: u32, count: u32, together: u32) -> (Vec<Source>, Vec<Source>) {
    let programs: Vec<(u32, u64)> = (0..count).map(|k| (n, SEED + u64::from(k))).collect();
    let each = programs.iter().map(|&(n, seed)| placed(synthetic(n, seed))).collect();
    let groups = programs.chunks(together as usize).map(|group| placed(synthetic_batch(group)));
    (each, groups.collect())
}

/// The rows of a compiler behind stage `place`.
fn placed(mut c: Compiler) -> Source {
    c.run_stages_stepwise(&[Stage::Place], |_, _, _| ());
    let w = &mut c.world;
    let insts = w
        .query::<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>()
        .iter(w)
        .map(|(head, operands, args, regs, from)| InstRow {
            head: *head,
            operands: *operands,
            args: *args,
            regs: *regs,
            from: *from,
        })
        .collect();
    let aps = w
        .query::<(&ApHead, &ApPattern)>()
        .iter(w)
        .map(|(head, pattern)| ApRow { head: *head, pattern: pattern.clone() })
        .collect();
    let regs = w
        .query::<(&RegHead, &RegFrom, &RegBounds)>()
        .iter(w)
        .map(|(head, from, bounds)| RegRow { head: *head, from: *from, bounds: *bounds })
        .collect();
    let locs = w
        .query::<(&LocHead, &LocPlace, &LocFrom)>()
        .iter(w)
        .map(|(head, place, from)| LocRow { head: *head, place: *place, from: *from })
        .collect();
    let axes = w
        .query::<(&AxisHead, &AxisBounds, &AxisRegs)>()
        .iter(w)
        .map(|(head, bounds, regs)| AxisRow { head: *head, bounds: *bounds, regs: *regs })
        .collect();
    let exprs = w.resource::<Exprs>();
    Source {
        insts,
        aps,
        regs,
        locs,
        axes,
        exprs: (0..exprs.len()).map(|e| exprs.get(ExprId::new(e)).clone()).collect(),
        payloads: Payloads(w.resource::<Payloads>().0.clone()),
        order: w.resource::<Order>().0.clone(),
        reuse: w.get_resource::<Reuse>().cloned().unwrap_or_default(),
        signature: w.get_resource::<Signature>().cloned().unwrap_or_default(),
        parts: w.get_resource::<Batch>().map(|b| {
            let signatures = b.0.iter().map(|m| m.signature.clone()).collect();
            (w.resource::<Parts>().clone(), signatures)
        }),
    }
}
