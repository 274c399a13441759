//! The program that both sides begin with. In: a size. Out: the rows of a synthetic program behind stage `place`.

use murre_components::bir::*;
use murre_components::ids::{ExprId, InstId};
use murre_systems::Stage;
use murre_systems::place::Reuse;
use murre_systems::synth::synthetic;

/// The seed of all programs.
pub const SEED: u64 = 7;

/// A placed program in rows, of no side.
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
    pub signature: Signature,
}

/// A program of about `n` instructions.
pub fn source(n: u32) -> Source {
    let mut c = synthetic(n, SEED);
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
        signature: w.resource::<Signature>().clone(),
    }
}
