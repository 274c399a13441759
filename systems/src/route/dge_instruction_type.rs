//! The route predicate as one decision function (`spec/ir.md 7.2`, 7.3).
//!
//! In: the facts of a DMA, the enabled DGE levels, the architecture level. Out: the primary route, the eligible set
//! and the row of the table that decided, or the code of the rule that was broken. First matching row wins.
//! Choices where the source is open: D2, D3, and the notes at [`fits`].

use crate::describe::shape::CopyShape;
use crate::options::DgeLevels;
use murre_components::bir::DgeType;
use murre_components::diag::{Code, codes::lower};
use murre_components::engine::{HWDGE_RING_DEPTH, MIN_DGE_DESCRIPTOR_BYTES, SWDGE_RING_DEPTH};

/// Ring depth of a route (D3).
pub fn ring_depth(route: DgeType) -> u32 {
    if route == DgeType::Hwdge { HWDGE_RING_DEPTH } else { SWDGE_RING_DEPTH }
}

/// A set of routes; bit `k` is the [`DgeType`] with ordinal `k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DgeSet(pub u8);

impl DgeSet {
    /// The set of the given routes.
    pub fn of(routes: &[DgeType]) -> Self {
        DgeSet(routes.iter().fold(0, |bits, r| bits | 1 << *r as u8))
    }

    /// Membership.
    pub fn has(self, route: DgeType) -> bool {
        self.0 >> route as u8 & 1 != 0
    }
}

/// Flavour of a run-time offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Flavour {
    Scalar,
    Vector,
}

/// What a static copy is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Purpose {
    /// Touches a network input or output.
    Io,
    /// Moves an intermediate between SBUF and DRAM.
    Spill,
    /// Anything else.
    #[default]
    Other,
}

/// What the predicate looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DmaFacts {
    /// In the DMA mask, and number at most 32.
    pub copy: bool,
    /// Has access-pattern operands.
    pub operands: bool,
    /// An operand is tensor-indirect.
    pub tensor_indirect: bool,
    /// Is a transpose.
    pub transpose: bool,
    /// Its shape suits the transposing hardware of the target.
    pub transpose_fits: bool,
    /// Flavour of its dynamic side.
    pub dynamic: Option<Flavour>,
    /// Purpose, of a static copy.
    pub purpose: Purpose,
    /// Fits the software generator.
    pub fits_sw: bool,
    /// Fits the hardware generator.
    pub fits_hw: bool,
}

/// The row that decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum RouteReason {
    /// No DMA, or not scanned.
    #[default]
    NotScanned,
    /// The route was there before the scan.
    Preset,
    /// Row 1: no DMA copy, or no operands.
    NotACopy,
    /// Row 1: every DGE level is off.
    LevelsOff,
    /// Row 3.
    Transpose,
    /// Row 3'.
    TransposeShape,
    /// Row 5a, scalar.
    ScalarOffset,
    /// Row 5a, vector.
    VectorOffset,
    /// Row 6: an IO copy that fits.
    IoFits,
    /// Row 6: an IO copy that fits no generator.
    IoDoesNotFit,
    /// Row 6: a spill or reload that fits.
    SpillFits,
    /// Row 6: a spill or reload that fits no generator.
    SpillDoesNotFit,
    /// Row 7.
    Default,
}

impl RouteReason {
    /// One line for people.
    pub fn text(self) -> &'static str {
        match self {
            RouteReason::NotScanned => "not a DMA",
            RouteReason::Preset => "the route was set before the scan",
            RouteReason::NotACopy => "not a DMA copy, or without operands: descriptors are built ahead",
            RouteReason::LevelsOff => "every DGE level is off: descriptors are built ahead",
            RouteReason::Transpose => "a transpose that the hardware generator can do",
            RouteReason::TransposeShape => "a transpose whose shape the hardware generator cannot do",
            RouteReason::ScalarOffset => "an offset in a register: software generator",
            RouteReason::VectorOffset => "a vector of run-time offsets: software generator",
            RouteReason::IoFits => "an input or output copy that one generated record can do",
            RouteReason::IoDoesNotFit => {
                "an input or output copy past the generator's limits: descriptors are built ahead"
            }
            RouteReason::SpillFits => "a spill or reload that one generated record can do",
            RouteReason::SpillDoesNotFit => {
                "a spill or reload past the generator's limits: descriptors are built ahead"
            }
            RouteReason::Default => "a static copy between intermediates: descriptors are built ahead",
        }
    }
}

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// What the scan stamps.
    pub primary: DgeType,
    /// What the cleanup accepts.
    pub eligible: DgeSet,
    /// Why.
    pub reason: RouteReason,
}

/// `spec/ir.md 7.2`. Row 6 for spills asks for the spill_reload level, IO copies for any level.
pub fn dge_instruction_type(facts: &DmaFacts, levels: DgeLevels, arch: u32) -> Result<Route, Code> {
    use DgeType::{Hwdge, None, Swdge};
    let to =
        |primary, eligible: &[DgeType], reason| Ok(Route { primary, eligible: DgeSet::of(eligible), reason });
    if !facts.copy || !facts.operands {
        return to(None, &[None], RouteReason::NotACopy);
    }
    if levels.0 == 0 {
        return to(None, &[None], RouteReason::LevelsOff);
    }
    if facts.tensor_indirect {
        return Err(&lower::DMA_TENSOR_INDIRECT);
    }
    if facts.transpose && levels.has(DgeLevels::TRANSPOSE) && facts.dynamic != Some(Flavour::Vector) {
        return if facts.transpose_fits {
            to(Hwdge, &[None, Hwdge], RouteReason::Transpose)
        } else {
            to(None, &[None], RouteReason::TransposeShape)
        };
    }
    if let Some(flavour) = facts.dynamic {
        if !levels.has(DgeLevels::SCALAR | DgeLevels::VECTOR) {
            return Err(&lower::DMA_LEVEL_OFF);
        }
        let reason = match flavour {
            Flavour::Scalar => RouteReason::ScalarOffset,
            Flavour::Vector => RouteReason::VectorOffset,
        };
        return if arch > 29 { to(Swdge, &[Swdge, Hwdge], reason) } else { to(Swdge, &[Swdge], reason) };
    }
    let (fit, unfit) = match facts.purpose {
        Purpose::Io => (RouteReason::IoFits, RouteReason::IoDoesNotFit),
        Purpose::Spill if levels.has(DgeLevels::SPILL_RELOAD) => {
            (RouteReason::SpillFits, RouteReason::SpillDoesNotFit)
        }
        _ => return to(None, &[None], RouteReason::Default),
    };
    match (facts.fits_sw, facts.fits_hw && arch > 29) {
        (true, true) => to(Swdge, &[Swdge, Hwdge], fit),
        (true, false) => to(Swdge, &[Swdge], fit),
        (false, true) => to(Hwdge, &[Hwdge], fit),
        (false, false) => to(None, &[None], unfit),
    }
}

/// `spec/ir.md 7.3`: whether generator `route` can do a static copy. The generators make one ring descriptor of every
/// contiguous run, so their number must not pass the ring depth (D3) and the smaller side of a run must not be under
/// the floor (D2). The copy is issued inline, so one record has to say all of it. `None` (counts of the sides differ)
/// fits nothing.
pub fn fits(shape: Option<&CopyShape>, route: DgeType) -> bool {
    let Some(shape) = shape.filter(|s| s.single()) else { return false };
    let (mut runs, mut run) = (0u64, 0u32);
    shape.cuts(|c| {
        runs += u64::from(c.dim0.num) * u64::from(c.dim1.num);
        run = c.run;
    });
    let bytes = u64::from(run) * u64::from(shape.src_bytes.min(shape.dst_bytes));
    runs <= u64::from(ring_depth(route)) && bytes >= u64::from(MIN_DGE_DESCRIPTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: DmaFacts = DmaFacts {
        copy: true,
        operands: true,
        tensor_indirect: false,
        transpose: false,
        transpose_fits: false,
        dynamic: None,
        purpose: Purpose::Other,
        fits_sw: false,
        fits_hw: false,
    };

    #[test]
    fn the_route_table() {
        use DgeType::{Hwdge, None, Swdge};
        let io = DmaFacts { purpose: Purpose::Io, fits_sw: true, fits_hw: true, ..COPY };
        let scalar = DmaFacts { dynamic: Some(Flavour::Scalar), ..COPY };
        let vector = DmaFacts { dynamic: Some(Flavour::Vector), ..COPY };
        let transpose = DmaFacts { transpose: true, transpose_fits: true, ..COPY };
        let all = DgeLevels(63);
        let off = DgeLevels(0);
        let default = DgeLevels::default();
        let old: &[u32] = &[20];
        let new: &[u32] = &[30, 40, 50];
        let any: &[u32] = &[20, 30, 40, 50];
        // facts, levels, arch levels, primary, eligible, reason
        let table: &[(DmaFacts, DgeLevels, &[u32], DgeType, &[DgeType], RouteReason)] = &[
            (DmaFacts { copy: false, ..io }, all, any, None, &[None], RouteReason::NotACopy),
            (DmaFacts { operands: false, ..io }, all, any, None, &[None], RouteReason::NotACopy),
            (io, off, any, None, &[None], RouteReason::LevelsOff),
            (scalar, off, any, None, &[None], RouteReason::LevelsOff),
            (transpose, all, any, Hwdge, &[None, Hwdge], RouteReason::Transpose),
            (
                DmaFacts { transpose_fits: false, ..transpose },
                all,
                any,
                None,
                &[None],
                RouteReason::TransposeShape,
            ),
            (transpose, default, any, None, &[None], RouteReason::Default),
            (DmaFacts { transpose: true, ..vector }, all, old, Swdge, &[Swdge], RouteReason::VectorOffset),
            (scalar, default, old, Swdge, &[Swdge], RouteReason::ScalarOffset),
            (scalar, default, new, Swdge, &[Swdge, Hwdge], RouteReason::ScalarOffset),
            (vector, default, old, Swdge, &[Swdge], RouteReason::VectorOffset),
            (vector, DgeLevels(DgeLevels::SCALAR), new, Swdge, &[Swdge, Hwdge], RouteReason::VectorOffset),
            (io, default, old, Swdge, &[Swdge], RouteReason::IoFits),
            (io, default, new, Swdge, &[Swdge, Hwdge], RouteReason::IoFits),
            (DmaFacts { fits_sw: false, ..io }, default, old, None, &[None], RouteReason::IoDoesNotFit),
            (DmaFacts { fits_sw: false, ..io }, default, new, Hwdge, &[Hwdge], RouteReason::IoFits),
            (DmaFacts { fits_hw: false, ..io }, default, new, Swdge, &[Swdge], RouteReason::IoFits),
            (
                DmaFacts { fits_sw: false, fits_hw: false, ..io },
                all,
                any,
                None,
                &[None],
                RouteReason::IoDoesNotFit,
            ),
            (DmaFacts { purpose: Purpose::Spill, ..io }, default, any, None, &[None], RouteReason::Default),
            (DmaFacts { purpose: Purpose::Spill, ..io }, all, old, Swdge, &[Swdge], RouteReason::SpillFits),
            (DmaFacts { purpose: Purpose::Other, ..io }, all, any, None, &[None], RouteReason::Default),
        ];
        for (row, (facts, levels, archs, primary, eligible, reason)) in table.iter().enumerate() {
            for &arch in *archs {
                let expected = Route { primary: *primary, eligible: DgeSet::of(eligible), reason: *reason };
                assert_eq!(dge_instruction_type(facts, *levels, arch), Ok(expected), "row {row} arch {arch}");
            }
        }
    }

    #[test]
    fn broken_rules_have_codes() {
        let indirect = DmaFacts { tensor_indirect: true, ..COPY };
        assert_eq!(dge_instruction_type(&indirect, DgeLevels(63), 30).map_err(|c| c.id), Err("MUR0431"));
        let dynamic = DmaFacts { dynamic: Some(Flavour::Scalar), ..COPY };
        for levels in [DgeLevels::SPILL_RELOAD, DgeLevels::TRANSPOSE] {
            assert_eq!(
                dge_instruction_type(&dynamic, DgeLevels(levels), 30).map_err(|c| c.id),
                Err("MUR0430")
            );
        }
    }
}
