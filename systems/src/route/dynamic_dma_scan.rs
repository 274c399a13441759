//! In: DMA copies, some of them without a route. Out: a route in every one of them, and why ([`RouteReasons`]). Routes
//! that are there already stay, so a second scan changes nothing: neither a route nor a reason. Facts:
//! `spec/ir.md 7.2`, 7.4. The loop-body flag of the source decides nothing in the table; `assign_trigger_engine`, which
//! walks the program in order, keeps it for reports ([`super::reason::InLoop`]).
//!
//! The first scan is [`super::bind_dynamic_dma`], before registers are minted, for what needs its engine then; this one
//! is the late slot (14-y), and the cleanup behind it sees no copy without a route.
//!
//! ```text
//! DMACopy sbuf:3 <- in0[reg7 + ..] dge=unassigned     =>     dge=swdge   (scalar offset)
//! DMACopy sbuf:3 <- tmp4           dge=unassigned     =>     dge=none    (default)
//! ```

use super::blame;
use super::dge_instruction_type::{DmaFacts, Flavour, Purpose, Route, chosen, dge_instruction_type, fits};
use super::reason::{RouteReason, RouteReasons};
use crate::columns;
use crate::describe::shape::copy_shape;
use crate::options::{CompileOptions, DgeLevels};
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Code, Diagnostic, Diagnostics, codes::lower};
use murre_components::hlo::HloModule;
use murre_components::ids::{HloId, InstId};
use murre_components::program::VarKind;

/// The columns that the predicate reads.
#[derive(Clone, Copy)]
pub(crate) struct DmaView<'a> {
    pub heads: &'a [ApHead],
    pub patterns: &'a [ApPattern],
    pub locs: &'a [LocHead],
    pub payloads: &'a Payloads,
}

impl DmaView<'_> {
    /// Offset flavour of a pattern.
    pub fn flavour(&self, ap: usize) -> Option<Flavour> {
        let info = self.payloads.dynamic(self.heads.get(ap)?.dynamic.payload)?;
        Some(match info.kind {
            OffsetKind::Scalar => Flavour::Scalar,
            OffsetKind::Vector(_) => Flavour::Vector,
        })
    }

    /// What the predicate looks at, of one instruction.
    pub fn facts(&self, head: InstHead, operands: InstOperands, o: &CompileOptions) -> DmaFacts {
        let mut facts = DmaFacts { copy: head.op == Opcode::DmaCopy, ..Default::default() };
        let rows = operands.range();
        if !facts.copy || operands.outputs == 0 || operands.inputs == 0 || rows.end > self.heads.len() {
            return facts;
        }
        facts.operands = true;
        let (d, s) = (operands.output(0).index(), operands.input(0).index());
        let (dh, sh) = (&self.heads[d], &self.heads[s]);
        facts.dynamic = self.flavour(d).or(self.flavour(s));
        facts.tensor_indirect = dh.kind == ApKind::Symbolic || sh.kind == ApKind::Symbolic;
        facts.cast = dh.dtype != sh.dtype;
        if let (None, Some(dl), Some(sl)) =
            (facts.dynamic, self.locs.get(dh.loc.index()), self.locs.get(sh.loc.index()))
        {
            facts.purpose = purpose(head, dl, sl);
            if facts.purpose != Purpose::Other && o.dge_levels != DgeLevels::NONE {
                let shape = copy_shape((dh, &self.patterns[d], dl), (sh, &self.patterns[s], sl));
                // Software writes its descriptors to the scratch.
                facts.fits_sw = o.dge_scratch_bytes > 0 && fits(shape.as_ref(), DgeType::Swdge, facts.cast);
                facts.fits_hw = fits(shape.as_ref(), DgeType::Hwdge, facts.cast);
            }
        }
        facts
    }

    /// Asks the predicate about one instruction.
    pub fn route(&self, head: InstHead, operands: InstOperands, o: &CompileOptions) -> Result<Route, Code> {
        dge_instruction_type(&self.facts(head, operands, o), o.dge_levels, o.target.arch())
    }

    /// The route to stamp, or the code of the rule that forbids every one.
    pub fn decide(
        &self,
        head: InstHead,
        operands: InstOperands,
        args: InstArgs,
        o: &CompileOptions,
    ) -> Result<(DgeType, RouteReason), Code> {
        let facts = self.facts(head, operands, o);
        let route = dge_instruction_type(&facts, o.dge_levels, o.target.arch())?;
        // Row 1 says None while every level is off; a copy at a run-time offset has no descriptors to build ahead.
        if facts.dynamic.is_some() && route.reason == RouteReason::LevelsOff {
            return Err(&lower::DMA_LEVEL_OFF);
        }
        let combines = facts.dynamic == Some(Flavour::Vector) && args.op0 != 0;
        if combines && (!o.dge_levels.has(DgeLevels::DST_REDUCE) || o.target.arch() > 49) {
            return Err(&lower::DMA_DST_REDUCE);
        }
        Ok(chosen(route, &facts, o.dge_route))
    }
}

fn purpose(head: InstHead, dst: &LocHead, src: &LocHead) -> Purpose {
    let internal = |l: &LocHead| l.space == Space::Dram && l.kind == VarKind::Internal;
    if head.flags & InstHead::IO != 0 {
        Purpose::Io
    } else if (internal(dst) && src.space == Space::Sbuf) || (internal(src) && dst.space == Space::Sbuf) {
        Purpose::Spill
    } else {
        Purpose::Other
    }
}

/// A copy that no route may take: which instruction, why, and what would help.
pub(super) fn refusal(
    code: Code,
    view: &DmaView<'_>,
    operands: InstOperands,
    o: &CompileOptions,
    module: &HloModule,
    hlo: HloId,
    inst: InstId,
) -> Diagnostic {
    let flavour = operands.range().find_map(|ap| view.flavour(ap));
    let (what, level) = match flavour {
        Some(Flavour::Scalar) => ("copies at a run-time offset", "scalar_dynamic_offset"),
        Some(Flavour::Vector) => ("copies rows at run-time offsets", "vector_dynamic_offsets"),
        None => ("copies", "all"),
    };
    let levels = || match DgeLevels::NAMES.iter().enumerate().filter(|(k, _)| o.dge_levels.has(1 << k)) {
        on if on.clone().count() == 0 => "--dge-levels none".to_owned(),
        on => format!("--dge-levels {}", on.map(|(_, n)| *n).collect::<Vec<_>>().join(",")),
    };
    let d = blame(code, format!("DMACopy {}: {}", inst.0, code.title), module, hlo, inst);
    if std::ptr::eq(code, &lower::DMA_LEVEL_OFF) {
        d.found(format!("{what}, and {}", levels()))
            .expected(
                "level scalar_dynamic_offset or vector_dynamic_offsets, either of which admits both kinds",
            )
            .help(format!("add {level} to --dge-levels; its descriptors cannot be built ahead of the run"))
    } else if std::ptr::eq(code, &lower::DMA_DST_REDUCE) {
        d.found(format!("combines at its destination on {}, and {}", o.target.name(), levels())).help(
            "with level dst_reduce off, or on core_v5, a scatter that combines should have become a loop",
        )
    } else {
        d
    }
}

/// The system.
pub fn dynamic_dma_scan(
    mut insts: Query<(&mut InstHead, &InstOperands, &InstArgs, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern)>,
    locs: Query<&LocHead>,
    payloads: Res<Payloads>,
    before: Option<Res<RouteReasons>>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
    mut commands: Commands,
) {
    let (heads, patterns) = columns!(aps);
    let view = DmaView { heads, patterns, locs: columns!(locs), payloads: &payloads };
    let mut reasons = before.map_or_else(Vec::new, |r| r.0.clone());
    let Ok(tables) = insts.contiguous_iter_mut() else { return };
    for (mut head, operands, args, from) in tables {
        let head = head.bypass_change_detection();
        reasons.resize(head.len(), RouteReason::NotScanned);
        for (row, h) in head.iter_mut().enumerate().filter(|(_, h)| h.op == Opcode::DmaCopy && h.live()) {
            if h.dge != DgeType::Unassigned {
                if reasons[row] == RouteReason::NotScanned {
                    reasons[row] = RouteReason::Preset;
                }
                continue;
            }
            match view.decide(*h, operands[row], args[row], &options) {
                Ok((route, reason)) => (h.dge, reasons[row]) = (route, reason),
                Err(code) => {
                    let (hlo, id) = (from[row].hlo, InstId::new(row));
                    sink.push(refusal(code, &view, operands[row], &options, &module, hlo, id));
                }
            }
        }
    }
    commands.insert_resource(RouteReasons(reasons));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::Stage;
    use crate::synth::synthetic;
    use bevy_ecs::system::RunSystemOnce;

    fn heads(world: &mut World) -> Vec<InstHead> {
        let mut q = world.query::<&InstHead>();
        columns!(q, world).to_vec()
    }

    #[test]
    fn a_second_scan_changes_neither_route_nor_reason() {
        let mut c = synthetic(2000, 5);
        c.run(&[Stage::Place, Stage::Address, Stage::Registers]);
        c.world.run_system_once(dynamic_dma_scan).expect("it runs");
        let first = (heads(&mut c.world), c.world.resource::<RouteReasons>().clone());
        let mut seen: Vec<RouteReason> = first.1.0.clone();
        seen.sort_by_key(|r| *r as u8);
        seen.dedup();
        assert!(seen.contains(&RouteReason::ScalarOffset) && seen.contains(&RouteReason::IoFits), "{seen:?}");
        // The same once more, and once more under options that would decide otherwise.
        c.world.run_system_once(dynamic_dma_scan).expect("it runs");
        assert_eq!(first, (heads(&mut c.world), c.world.resource::<RouteReasons>().clone()));
        c.world.resource_mut::<CompileOptions>().dge_levels = DgeLevels::NONE;
        c.world.run_system_once(dynamic_dma_scan).expect("it runs");
        assert_eq!(first, (heads(&mut c.world), c.world.resource::<RouteReasons>().clone()));
        assert!(!c.world.resource::<Diagnostics>().has_errors());
    }
}
