//! The route predicate as one decision function (`spec/ir.md 7.2`, 7.3).
//!
//! In: the facts of a DMA, the enabled DGE levels, the architecture level. Out: the primary route, the eligible set
//! and the row of the table that decided, or the code of the rule that was broken. First matching row wins.
//! Choices where the source is open: D2, D3, and the notes at [`fits`].

use super::reason::RouteReason;
use crate::describe::shape::CopyShape;
use crate::options::{DgeLevels, DgeRoute};
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
    /// Is a transpose. No copy of this compiler is one: what permutes elements is a strided copy or runs on PE.
    pub transpose: bool,
    /// Its shape suits the transposing hardware.
    pub transpose_fits: bool,
    /// Flavour of its dynamic side.
    pub dynamic: Option<Flavour>,
    /// The element types of its sides differ.
    pub cast: bool,
    /// Purpose, of a static copy.
    pub purpose: Purpose,
    /// Fits the software generator.
    pub fits_sw: bool,
    /// Fits the hardware generator.
    pub fits_hw: bool,
}

/// The decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// What the scan stamps when nobody asks for something else.
    pub primary: DgeType,
    /// What the cleanup accepts.
    pub eligible: DgeSet,
    /// Why.
    pub reason: RouteReason,
}

/// Whether an architecture level has a hardware generator.
pub fn has_hardware(arch: u32) -> bool {
    arch > 29
}

/// `spec/ir.md 7.2`. The levels `io` and `spill_reload` gate the two purposes of row 6. Rows 3 and 4 follow 14-b: only a
/// static transpose is hardware's, a dynamic one is software's alone, needs the level and a suitable shape, and neither
/// exists on generation 2.
pub fn dge_instruction_type(facts: &DmaFacts, levels: DgeLevels, arch: u32) -> Result<Route, Code> {
    use DgeType::{Hwdge, None, Swdge};
    let to =
        |primary, eligible: &[DgeType], reason| Ok(Route { primary, eligible: DgeSet::of(eligible), reason });
    let hardware = has_hardware(arch);
    if !facts.copy || !facts.operands {
        return to(None, &[None], RouteReason::NotACopy);
    }
    if levels == DgeLevels::NONE {
        return to(None, &[None], RouteReason::LevelsOff);
    }
    if facts.tensor_indirect {
        return Err(&lower::DMA_TENSOR_INDIRECT);
    }
    if facts.transpose && facts.dynamic.is_none() && levels.has(DgeLevels::TRANSPOSE) {
        return if facts.transpose_fits && hardware {
            to(Hwdge, &[None, Hwdge], RouteReason::Transpose)
        } else {
            to(None, &[None], RouteReason::TransposeShape)
        };
    }
    if let Some(flavour) = facts.dynamic {
        let level =
            if facts.transpose { DgeLevels::TRANSPOSE } else { DgeLevels::SCALAR | DgeLevels::VECTOR };
        if !levels.has(level) {
            return Err(&lower::DMA_LEVEL_OFF);
        }
        if facts.transpose && !(facts.transpose_fits && hardware) {
            return Err(&lower::DMA_DYNAMIC_TRANSPOSE);
        }
        let reason = match (facts.transpose, flavour) {
            (true, _) => RouteReason::DynamicTranspose,
            (false, Flavour::Scalar) => RouteReason::ScalarOffset,
            (false, Flavour::Vector) => RouteReason::VectorOffset,
        };
        let both = hardware && !facts.transpose;
        return if both { to(Swdge, &[Swdge, Hwdge], reason) } else { to(Swdge, &[Swdge], reason) };
    }
    let (level, off, fit, unfit) = match facts.purpose {
        Purpose::Io => {
            (DgeLevels::IO, RouteReason::IoLevelOff, RouteReason::IoFits, RouteReason::IoDoesNotFit)
        }
        Purpose::Spill => (
            DgeLevels::SPILL_RELOAD,
            RouteReason::SpillLevelOff,
            RouteReason::SpillFits,
            RouteReason::SpillDoesNotFit,
        ),
        Purpose::Other => return to(None, &[None], RouteReason::Default),
    };
    if !levels.has(level) {
        return to(None, &[None], off);
    }
    match (facts.fits_sw, facts.fits_hw && hardware) {
        (true, true) => to(Swdge, &[Swdge, Hwdge], fit),
        (true, false) => to(Swdge, &[Swdge], fit),
        (false, true) => to(Hwdge, &[Hwdge], RouteReason::FitsHardware),
        (false, false) => to(None, &[None], unfit),
    }
}

/// What is stamped of a decision. The table names software first wherever both can (14-c); `asked` is the place that
/// promotes. Hardware takes neither a vector of offsets nor a cast (`spec/ir.md 9.2`, `spec/hw.md 3`).
pub fn chosen(route: Route, facts: &DmaFacts, asked: DgeRoute) -> (DgeType, RouteReason) {
    let (software, hardware) = (route.eligible.has(DgeType::Swdge), route.eligible.has(DgeType::Hwdge));
    match asked {
        DgeRoute::Hardware if hardware && route.primary != DgeType::Hwdge => match facts {
            DmaFacts { dynamic: Some(Flavour::Vector), .. } => (route.primary, RouteReason::VectorIsSoftware),
            DmaFacts { cast: true, .. } => (route.primary, RouteReason::CastIsSoftware),
            _ => (DgeType::Hwdge, RouteReason::HardwareAsked),
        },
        DgeRoute::Software if route.primary == DgeType::Hwdge => {
            let instead = if software { DgeType::Swdge } else { DgeType::None };
            (instead, RouteReason::SoftwareAsked)
        }
        _ => (route.primary, route.reason),
    }
}

/// `spec/ir.md 7.3`: whether generator `route` can do a static copy. The generators make one ring descriptor of every
/// contiguous run, so their number must not pass the ring depth (D3) and the smaller side of a run must not be under
/// the floor (D2). The copy is issued inline, so one record has to say all of it. `None` (counts of the sides differ)
/// fits nothing, and the hardware generator does not cast (`spec/hw.md 3`).
pub fn fits(shape: Option<&CopyShape>, route: DgeType, cast: bool) -> bool {
    let Some(shape) = shape.filter(|s| s.single() && !(cast && route == DgeType::Hwdge)) else {
        return false;
    };
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
        cast: false,
        purpose: Purpose::Other,
        fits_sw: false,
        fits_hw: false,
    };
    const IO: DmaFacts = DmaFacts { purpose: Purpose::Io, fits_sw: true, fits_hw: true, ..COPY };
    const SPILL: DmaFacts = DmaFacts { purpose: Purpose::Spill, ..IO };
    const SCALAR: DmaFacts = DmaFacts { dynamic: Some(Flavour::Scalar), ..COPY };
    const VECTOR: DmaFacts = DmaFacts { dynamic: Some(Flavour::Vector), ..COPY };
    const TRANSPOSE: DmaFacts = DmaFacts { transpose: true, transpose_fits: true, ..COPY };
    const OLD: &[u32] = &[20];
    const NEW: &[u32] = &[30, 40, 50];
    const ANY: &[u32] = &[20, 30, 40, 50];

    #[test]
    fn the_route_table() {
        use DgeType::{Hwdge, None, Swdge};
        use RouteReason as R;
        let (all, off, default) = (DgeLevels::ALL, DgeLevels::NONE, DgeLevels::default());
        let without = |level: u8| DgeLevels(DgeLevels::ALL.0 & !level);
        let only = DgeLevels;
        let no_sw = |f| DmaFacts { fits_sw: false, ..f };
        let no_hw = |f| DmaFacts { fits_hw: false, ..f };
        // facts, levels, arch levels, primary, eligible, reason
        let table: &[(DmaFacts, DgeLevels, &[u32], DgeType, &[DgeType], R)] = &[
            // Row 1.
            (DmaFacts { copy: false, ..IO }, all, ANY, None, &[None], R::NotACopy),
            (DmaFacts { operands: false, ..IO }, all, ANY, None, &[None], R::NotACopy),
            (IO, off, ANY, None, &[None], R::LevelsOff),
            (SCALAR, off, ANY, None, &[None], R::LevelsOff),
            (TRANSPOSE, off, ANY, None, &[None], R::LevelsOff),
            // Rows 3 and 3'.
            (TRANSPOSE, all, NEW, Hwdge, &[None, Hwdge], R::Transpose),
            (TRANSPOSE, all, OLD, None, &[None], R::TransposeShape),
            (DmaFacts { transpose_fits: false, ..TRANSPOSE }, all, ANY, None, &[None], R::TransposeShape),
            (TRANSPOSE, default, ANY, None, &[None], R::Default),
            // Row 4: dynamic transposes are software's.
            (
                DmaFacts { transpose: true, transpose_fits: true, ..VECTOR },
                all,
                NEW,
                Swdge,
                &[Swdge],
                R::DynamicTranspose,
            ),
            (
                DmaFacts { transpose: true, transpose_fits: true, ..SCALAR },
                all,
                NEW,
                Swdge,
                &[Swdge],
                R::DynamicTranspose,
            ),
            // Row 5a: either level admits either flavour.
            (SCALAR, only(DgeLevels::SCALAR), OLD, Swdge, &[Swdge], R::ScalarOffset),
            (SCALAR, only(DgeLevels::SCALAR), NEW, Swdge, &[Swdge, Hwdge], R::ScalarOffset),
            (SCALAR, only(DgeLevels::VECTOR), NEW, Swdge, &[Swdge, Hwdge], R::ScalarOffset),
            (VECTOR, only(DgeLevels::VECTOR), OLD, Swdge, &[Swdge], R::VectorOffset),
            (VECTOR, only(DgeLevels::SCALAR), NEW, Swdge, &[Swdge, Hwdge], R::VectorOffset),
            // Row 6, inputs and outputs.
            (IO, default, OLD, Swdge, &[Swdge], R::IoFits),
            (IO, default, NEW, Swdge, &[Swdge, Hwdge], R::IoFits),
            (no_sw(IO), default, OLD, None, &[None], R::IoDoesNotFit),
            (no_sw(IO), default, NEW, Hwdge, &[Hwdge], R::FitsHardware),
            (no_hw(IO), default, NEW, Swdge, &[Swdge], R::IoFits),
            (no_hw(no_sw(IO)), all, ANY, None, &[None], R::IoDoesNotFit),
            (IO, without(DgeLevels::IO), ANY, None, &[None], R::IoLevelOff),
            // Row 6, spills and reloads.
            (SPILL, default, ANY, None, &[None], R::SpillLevelOff),
            (SPILL, only(DgeLevels::SPILL_RELOAD), OLD, Swdge, &[Swdge], R::SpillFits),
            (SPILL, all, NEW, Swdge, &[Swdge, Hwdge], R::SpillFits),
            (no_hw(no_sw(SPILL)), all, ANY, None, &[None], R::SpillDoesNotFit),
            // Row 7.
            (DmaFacts { purpose: Purpose::Other, ..IO }, all, ANY, None, &[None], R::Default),
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
        let code =
            |facts: DmaFacts, levels, arch| dge_instruction_type(&facts, levels, arch).map_err(|c| c.id);
        let dynamic_transpose = DmaFacts { transpose: true, transpose_fits: true, ..VECTOR };
        for &arch in ANY {
            let indirect = DmaFacts { tensor_indirect: true, ..COPY };
            assert_eq!(code(indirect, DgeLevels::ALL, arch), Err("MUR0431"));
            for level in [0, 3, 4, 5, 6] {
                for flavour in [SCALAR, VECTOR] {
                    assert_eq!(code(flavour, DgeLevels(1 << level), arch), Err("MUR0430"), "level {level}");
                }
            }
            assert_eq!(code(dynamic_transpose, DgeLevels::default(), arch), Err("MUR0430"));
            let unfit = DmaFacts { transpose_fits: false, ..dynamic_transpose };
            assert_eq!(code(unfit, DgeLevels::ALL, arch), Err("MUR0464"));
        }
        assert_eq!(code(dynamic_transpose, DgeLevels::ALL, 20), Err("MUR0464"));
    }

    #[test]
    fn what_is_asked_for_is_taken_where_it_can_be() {
        use DgeType::{Hwdge, None, Swdge};
        use RouteReason as R;
        let of = |facts: DmaFacts, arch, asked| {
            let route = dge_instruction_type(&facts, DgeLevels::ALL, arch).expect("a route");
            chosen(route, &facts, asked)
        };
        let (sw, hw, auto) = (DgeRoute::Software, DgeRoute::Hardware, DgeRoute::Auto);
        for &arch in NEW {
            assert_eq!(of(SCALAR, arch, auto), (Swdge, R::ScalarOffset));
            assert_eq!(of(SCALAR, arch, hw), (Hwdge, R::HardwareAsked));
            assert_eq!(of(IO, arch, hw), (Hwdge, R::HardwareAsked));
            assert_eq!(of(VECTOR, arch, hw), (Swdge, R::VectorIsSoftware));
            assert_eq!(of(DmaFacts { cast: true, ..SCALAR }, arch, hw), (Swdge, R::CastIsSoftware));
            let long = DmaFacts { fits_sw: false, ..IO };
            assert_eq!(of(long, arch, auto), (Hwdge, R::FitsHardware));
            assert_eq!(of(long, arch, hw), (Hwdge, R::FitsHardware));
            assert_eq!(of(long, arch, sw), (None, R::SoftwareAsked));
            assert_eq!(of(COPY, arch, hw), (None, R::Default));
        }
        for asked in DgeRoute::ALL {
            for facts in [SCALAR, VECTOR, IO, SPILL, TRANSPOSE, DmaFacts { fits_sw: false, ..IO }] {
                assert_ne!(of(facts, 20, asked).0, Hwdge, "generation 2 has no hardware generator");
            }
        }
    }

    #[test]
    fn ring_floor_and_cast_decide_what_fits() {
        use crate::describe::shape::{CopyDim, Step};
        let shape = |rows: u32, run: u32| {
            let step = |bytes| Step { elems: bytes / 4, bytes, crosses: false };
            let mut dims = arrayvec::ArrayVec::new();
            dims.push(CopyDim { num: rows, src: step(i64::from(run) * 8), dst: step(i64::from(run) * 4) });
            CopyShape { dims, run, src_bytes: 4, dst_bytes: 4 }
        };
        // rows, elements of a run, fits software, fits hardware
        for (rows, run, sw, hw) in [
            (1020, 128, true, true),
            (1021, 128, false, true),
            (65_520, 128, false, true),
            (65_521, 128, false, false),
            (8, 127, false, false),
        ] {
            let s = shape(rows, run);
            assert_eq!(fits(Some(&s), DgeType::Swdge, false), sw, "{rows} rows of {run}");
            assert_eq!(fits(Some(&s), DgeType::Hwdge, false), hw, "{rows} rows of {run}");
            assert!(!fits(Some(&s), DgeType::Hwdge, true), "hardware does not cast");
        }
        assert!(fits(Some(&shape(8, 128)), DgeType::Swdge, true));
        assert!(!fits(None, DgeType::Swdge, false), "the sides differ");
    }
}
