//! In: DMA copies, some of them without a route. Out: a route in every one of them, and why ([`RouteReasons`]).
//! Routes that are there already stay, so a second scan changes nothing. Facts: `spec/ir.md 7.2`, 7.4.
//!
//! ```text
//! DMACopy sbuf:3 <- in0[reg7 + ..] dge=unassigned     =>     dge=swdge   (scalar offset)
//! DMACopy sbuf:3 <- tmp4           dge=unassigned     =>     dge=none    (default)
//! ```

use super::blame;
use super::dge_instruction_type::{
    DmaFacts, Flavour, Purpose, Route, RouteReason, dge_instruction_type, fits,
};
use crate::columns;
use crate::describe::shape::copy_shape;
use crate::options::CompileOptions;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Code, Diagnostics};
use murre_components::hlo::HloModule;
use murre_components::program::VarKind;

/// Why each instruction has its route, by instruction id.
#[derive(Resource, Default, Debug)]
pub struct RouteReasons(pub Vec<RouteReason>);

/// The columns that the predicate reads.
#[derive(Clone, Copy)]
pub(crate) struct DmaView<'a> {
    pub heads: &'a [ApHead],
    pub patterns: &'a [ApPattern],
    pub dynamics: &'a [ApDynamic],
    pub locs: &'a [LocHead],
    pub payloads: &'a Payloads,
}

impl DmaView<'_> {
    /// Offset flavour of a pattern.
    pub fn flavour(&self, ap: usize) -> Option<Flavour> {
        let info = self.payloads.dynamic(self.dynamics.get(ap)?.payload)?;
        Some(match info.kind {
            OffsetKind::Scalar => Flavour::Scalar,
            OffsetKind::Vector(_) => Flavour::Vector,
        })
    }

    /// Asks the predicate about one instruction.
    pub fn route(&self, head: InstHead, operands: InstOperands, o: &CompileOptions) -> Result<Route, Code> {
        let mut facts = DmaFacts { copy: head.op == Opcode::DmaCopy, ..Default::default() };
        let rows = operands.range();
        if facts.copy && operands.outputs >= 1 && operands.inputs >= 1 && rows.end <= self.heads.len() {
            facts.operands = true;
            let (d, s) = (operands.output(0).index(), operands.input(0).index());
            let (dh, sh) = (&self.heads[d], &self.heads[s]);
            facts.dynamic = self.flavour(d).or(self.flavour(s));
            facts.tensor_indirect = dh.kind == ApKind::Symbolic || sh.kind == ApKind::Symbolic;
            if let (None, Some(dl), Some(sl)) =
                (facts.dynamic, self.locs.get(dh.loc.index()), self.locs.get(sh.loc.index()))
            {
                facts.purpose = purpose(head, dl, sl);
                if facts.purpose != Purpose::Other && o.dge_levels.0 != 0 {
                    let shape = copy_shape((dh, &self.patterns[d], dl), (sh, &self.patterns[s], sl));
                    facts.fits_sw = fits(shape.as_ref(), DgeType::Swdge);
                    facts.fits_hw = fits(shape.as_ref(), DgeType::Hwdge);
                }
            }
        }
        dge_instruction_type(&facts, o.dge_levels, o.target.arch())
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

/// The system.
pub fn dynamic_dma_scan(
    mut insts: Query<(&mut InstHead, &InstOperands, &InstFrom)>,
    aps: Query<(&ApHead, &ApPattern, &ApDynamic)>,
    locs: Query<&LocHead>,
    payloads: Res<Payloads>,
    options: Res<CompileOptions>,
    module: Res<HloModule>,
    sink: Res<Diagnostics>,
    mut commands: Commands,
) {
    let (heads, patterns, dynamics) = columns!(aps);
    let view = DmaView { heads, patterns, dynamics, locs: columns!(locs), payloads: &payloads };
    let mut reasons = Vec::new();
    let Ok(tables) = insts.contiguous_iter_mut() else { return };
    for (mut head, operands, from) in tables {
        let head = head.bypass_change_detection();
        reasons.resize(head.len(), RouteReason::NotScanned);
        for (row, h) in head.iter_mut().enumerate().filter(|(_, h)| h.op == Opcode::DmaCopy && h.live()) {
            if h.dge != DgeType::Unassigned {
                reasons[row] = RouteReason::Preset;
                continue;
            }
            match view.route(*h, operands[row], &options) {
                Ok(route) => {
                    h.dge = route.primary;
                    reasons[row] = route.reason;
                }
                Err(code) => {
                    let id = murre_components::ids::InstId::new(row);
                    sink.push(blame(
                        code,
                        format!("DMACopy {row}: {}", code.title),
                        &module,
                        from[row].hlo,
                        id,
                    ));
                }
            }
        }
    }
    commands.insert_resource(RouteReasons(reasons));
}
