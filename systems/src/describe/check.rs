//! Check, the last step: what a descriptor generator takes. In: the generated DMAs after the cut. Out: a fault for each
//! that breaks a rule; nothing is changed. A run-time address may only have survived in one of two forms (`spec/ir.md
//! 9.2`): an offset register added to a table entry, or a vector of offsets in SBUF. Facts: `spec/ir.md 9.1, 9.2, 9.6`.
//!
//! ```text
//! DMACopy sbuf:3[64,2000][1,16] <- in0@reg7[..] (route swdge)   =>   MUR0470: more rows than the ring holds
//! ```
//!
//! The source numbers its rules SDD001 to SDD012; [`Rule`] holds those that can be broken here. The others, and why
//! they are not:
//!
//! | rule | here |
//! |---|---|
//! | SDD008, LDD001 | rows that 16 does not divide run on fewer engines ([`super::split::spread`]): slower, not wrong |
//! | SDD009 | equal offsets of both sides would forbid every slice: read as equal distances within a copy, which the cut keeps and `verify_describe` proves of blocks |
//! | SDD010 | a DMA with neither generator is no generated DMA: [`super::lower_dma`] takes it |
//! | XCG1010 | counts never come from a shape register, and a pattern holds five pairs |
//! | SDD012 | no copy is lowered as a transpose ([`super::family`]) |

use super::shape::copy_shape;
use crate::columns;
use crate::route::blame;
use crate::route::dge_instruction_type::ring_depth;
use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::{Diagnostics, codes::lower};
use murre_components::engine::MAX_DESCRIPTOR_BYTES;
use murre_components::hlo::HloModule;
use murre_components::ids::InstId;

/// A rule of the form of a generated DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Rule {
    OneOutput,
    Arguments,
    SameRank,
    Rank,
    SameCounts,
    Contiguous,
    RunTooLong,
    VectorRank,
    StillDynamic,
    RingDepth,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 10] = [
        Rule::OneOutput,
        Rule::Arguments,
        Rule::SameRank,
        Rule::Rank,
        Rule::SameCounts,
        Rule::Contiguous,
        Rule::RunTooLong,
        Rule::VectorRank,
        Rule::StillDynamic,
        Rule::RingDepth,
    ];

    /// The source's number, and what the rule asks.
    pub fn text(self) -> (&'static str, &'static str) {
        match self {
            Rule::OneOutput => ("SDD001", "exactly one output"),
            Rule::Arguments => ("SDD002", "one input, and one index where the offsets are a vector"),
            Rule::SameRank => ("SDD003", "as many dimensions on both sides"),
            Rule::Rank => ("SDD004", "at most two dimensions around the run"),
            Rule::SameCounts => ("SDD005", "equal counts on both sides"),
            Rule::Contiguous => ("SDD006", "a contiguous last dimension"),
            Rule::RunTooLong => ("SDD007", "a run of at most 65,536 bytes"),
            Rule::VectorRank => ("SDD011", "rows of one run each where the offsets are a vector"),
            Rule::StillDynamic => ("9.2", "run-time addresses as offset register or vector of offsets only"),
            Rule::RingDepth => ("9.3", "no more rows than the ring of its route holds"),
        }
    }
}

/// One operand.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Operand<'a> {
    pub head: &'a ApHead,
    pub pattern: &'a ApPattern,
    pub loc: &'a LocHead,
}

/// Whether a generated DMA keeps the rules, or the first that it breaks. `operands`: outputs, then inputs.
pub fn legal(
    route: DgeType,
    shape: InstOperands,
    operands: &[Operand<'_>],
    payloads: &Payloads,
) -> Result<(), Rule> {
    if shape.outputs != 1 {
        return Err(Rule::OneOutput);
    }
    let [dst, src, rest @ ..] = operands else { return Err(Rule::Arguments) };
    let vector = operands.iter().any(|o| {
        payloads.dynamic(o.head.dynamic.payload).is_some_and(|d| matches!(d.kind, OffsetKind::Vector(_)))
    });
    if rest.len() != usize::from(vector) {
        return Err(Rule::Arguments);
    }
    let (d, s) = (&dst.pattern.0, &src.pattern.0);
    if d.len() != s.len() {
        return Err(Rule::SameRank);
    }
    if d.iter().zip(s).any(|(d, s)| d.num != s.num) {
        return Err(Rule::SameCounts);
    }
    let rows = if vector { vector_rows(dst, src)? } else { scalar_rows(dst, src)? };
    let survives = |o: &Operand<'_>| match payloads.dynamic(o.head.dynamic.payload).map(|d| d.kind) {
        None => o.head.dynamic.payload == PayloadKey::default() && o.head.kind == ApKind::Physical,
        Some(OffsetKind::Scalar) => o.head.dynamic.address.is_some() && o.loc.space == Space::Dram,
        Some(OffsetKind::Vector(_)) => rest.iter().all(|index| index.loc.space == Space::Sbuf),
    };
    if !operands.iter().all(survives) {
        return Err(Rule::StillDynamic);
    }
    if rows > u64::from(ring_depth(route)) { Err(Rule::RingDepth) } else { Ok(()) }
}

/// Rows of a copy that one record has to say.
fn scalar_rows(dst: &Operand<'_>, src: &Operand<'_>) -> Result<u64, Rule> {
    let sides = ((dst.head, dst.pattern, dst.loc), (src.head, src.pattern, src.loc));
    // By reference: a shape is large, and each step by value would copy it.
    match &copy_shape(sides.0, sides.1) {
        Some(shape) if shape.single() => Ok(shape.rows()),
        _ => Err(Rule::Rank),
    }
}

/// Rows of a copy with a vector of offsets: pairs of a row count and a run.
fn vector_rows(dst: &Operand<'_>, src: &Operand<'_>) -> Result<u64, Rule> {
    for side in [dst, src] {
        let [_, run] = side.pattern.0.as_slice() else { return Err(Rule::VectorRank) };
        if run.num != 1 && run.step != 1 {
            return Err(Rule::Contiguous);
        }
        if u64::from(run.num) * u64::from(side.head.dtype.bytes()) > u64::from(MAX_DESCRIPTOR_BYTES) {
            return Err(Rule::RunTooLong);
        }
    }
    Ok(dst.pattern.0.first().map_or(1, |p| u64::from(p.num)))
}

/// Checks the given instructions.
pub fn check(
    world: &mut World,
    inline: &[InstId],
    insts: &mut QueryState<(&InstHead, &InstOperands, &InstArgs, &InstRegs, &InstFrom)>,
    aps: &mut QueryState<(&ApHead, &ApPattern)>,
    locs: &mut QueryState<(&LocHead, &LocPlace)>,
) {
    if inline.is_empty() {
        return;
    }
    let (heads, operands, _, _, from) = columns!(insts, world);
    let (ap, patterns) = columns!(aps, world);
    let (loc, _) = columns!(locs, world);
    let (sink, module, payloads) =
        (world.resource::<Diagnostics>(), world.resource::<HloModule>(), world.resource::<Payloads>());
    for &id in inline {
        let row = id.index();
        let (Some(h), Some(&o), Some(from)) = (heads.get(row), operands.get(row), from.get(row)) else {
            continue;
        };
        let operand = |k: usize| {
            let head = ap.get(k)?;
            Some(Operand { head, pattern: patterns.get(k)?, loc: loc.get(head.loc.index())? })
        };
        let all: arrayvec::ArrayVec<Operand<'_>, 4> = o.range().take(4).filter_map(operand).collect();
        if let Err(rule) = legal(h.dge, o, &all, payloads) {
            let (number, asks) = rule.text();
            let message = format!("DMACopy {}: {}, {number}", id.0, lower::DMA_DYNAMIC_FORM.title);
            sink.push(blame(&lower::DMA_DYNAMIC_FORM, message, module, from.hlo, id).expected(asks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::DType;
    use murre_components::ids::*;

    /// A side: location, pattern, payload and address register.
    struct Side {
        head: ApHead,
        pattern: ApPattern,
        loc: LocHead,
    }

    fn side(space: Space, pairs: &[(i32, u32)]) -> Side {
        let parts = if space == Space::Dram { 1 } else { 128 };
        Side {
            head: ApHead {
                loc: LocId(0),
                offset: 0,
                inst: InstId(0),
                dtype: DType::F32,
                kind: ApKind::Physical,
                output: 0,
                flags: 0,
                dynamic: ApDynamic::default(),
            },
            pattern: ApPattern::new(pairs.iter().copied()).unwrap_or_default(),
            loc: LocRow::new(space, DType::F32, parts, 1 << 20, HloId::NONE).head,
        }
    }

    fn legal_of(outputs: u8, sides: &[&Side], payloads: &Payloads) -> Result<(), Rule> {
        let operands: Vec<Operand<'_>> =
            sides.iter().map(|s| Operand { head: &s.head, pattern: &s.pattern, loc: &s.loc }).collect();
        let shape = InstOperands { first: ApId(0), outputs, inputs: sides.len() as u8 - outputs, pad: 0 };
        legal(DgeType::Swdge, shape, &operands, payloads)
    }

    fn payload(payloads: &mut Payloads, kind: OffsetKind) -> PayloadKey {
        payloads.0.insert(Payload::Dynamic(DynamicApInfo {
            kind,
            terms: Default::default(),
            c: 0,
            indirect_dim: 0,
            indirect_dim_max_index: 1,
            tensor_indirect_arg_id: -1,
            num_tensor_indirect_indices: 0,
            offset_reg: RegId::NONE,
            bound_reg: RegId::NONE,
        }))
    }

    #[test]
    fn an_offset_register_and_its_breaches() {
        let mut p = Payloads::default();
        let tile = |pairs: &[(i32, u32)]| side(Space::Sbuf, pairs);
        let mut src = side(Space::Dram, &[(100, 8), (1, 16)]);
        src.head.dynamic.payload = payload(&mut p, OffsetKind::Scalar);
        src.head.dynamic.address = RegId(3);
        let dst = tile(&[(1 << 20, 8), (1, 16)]);
        assert_eq!(legal_of(1, &[&dst, &src], &p), Ok(()));
        assert_eq!(legal_of(2, &[&dst, &src], &p), Err(Rule::OneOutput));
        assert_eq!(legal_of(0, &[&dst, &src], &p), Err(Rule::OneOutput));
        assert_eq!(legal_of(1, &[&dst], &p), Err(Rule::Arguments));
        assert_eq!(legal_of(1, &[&dst, &src, &dst], &p), Err(Rule::Arguments), "an index nobody reads");
        assert_eq!(legal_of(1, &[&tile(&[(1, 128)]), &src], &p), Err(Rule::SameRank));
        assert_eq!(legal_of(1, &[&tile(&[(1 << 20, 9), (1, 16)]), &src], &p), Err(Rule::SameCounts));
        let deep = [(1000, 3), (300, 3), (50, 3), (7, 3)];
        let mut large = side(Space::Dram, &deep);
        large.head.dynamic = src.head.dynamic;
        assert_eq!(
            legal_of(1, &[&tile(&[(900, 3), (200, 3), (40, 3), (9, 3)]), &large], &p),
            Err(Rule::Rank)
        );
        let rows = [(8, 2_000), (1, 4)];
        let mut many = side(Space::Dram, &rows);
        many.head.dynamic = src.head.dynamic;
        assert_eq!(legal_of(1, &[&tile(&[(16, 2_000), (1, 4)]), &many], &p), Err(Rule::RingDepth));
        // A run-time address in another form than an offset register.
        let mut symbolic = side(Space::Dram, &[(100, 8), (1, 16)]);
        symbolic.head.dynamic.payload = src.head.dynamic.payload;
        assert_eq!(legal_of(1, &[&dst, &symbolic], &p), Err(Rule::StillDynamic), "no register");
        let mut register = side(Space::Dram, &[(100, 8), (1, 16)]);
        register.head.kind = ApKind::Register;
        assert_eq!(legal_of(1, &[&dst, &register], &p), Err(Rule::StillDynamic));
        let mut moving = tile(&[(1 << 20, 8), (1, 16)]);
        moving.head.dynamic = src.head.dynamic;
        assert_eq!(legal_of(1, &[&moving, &src], &p), Err(Rule::StillDynamic), "an offset register in SBUF");
    }

    #[test]
    fn a_vector_of_offsets_and_its_breaches() {
        let mut p = Payloads::default();
        let dynamic =
            ApDynamic { payload: payload(&mut p, OffsetKind::Vector(ApId(2))), ..Default::default() };
        let far = |pairs: &[(i32, u32)]| {
            let mut far = side(Space::Dram, pairs);
            far.head.dynamic = dynamic;
            far
        };
        let near = |pairs: &[(i32, u32)]| side(Space::Dram, pairs);
        let index = side(Space::Sbuf, &[(1 << 20, 1), (1, 8)]);
        let rows = [(16, 8), (1, 16)];
        assert_eq!(legal_of(1, &[&near(&rows), &far(&rows), &index], &p), Ok(()));
        assert_eq!(legal_of(1, &[&near(&rows), &far(&rows)], &p), Err(Rule::Arguments));
        let flat = [(1, 128)];
        assert_eq!(legal_of(1, &[&near(&flat), &far(&flat), &index], &p), Err(Rule::VectorRank));
        let strided = [(16, 8), (2, 16)];
        assert_eq!(legal_of(1, &[&near(&rows), &far(&strided), &index], &p), Err(Rule::Contiguous));
        let long = [(20_000, 8), (1, 20_000)];
        assert_eq!(legal_of(1, &[&near(&long), &far(&long), &index], &p), Err(Rule::RunTooLong));
        let many = [(16, 1_021), (1, 16)];
        assert_eq!(legal_of(1, &[&near(&many), &far(&many), &index], &p), Err(Rule::RingDepth));
        let elsewhere = side(Space::Dram, &[(1, 1), (1, 8)]);
        assert_eq!(legal_of(1, &[&near(&rows), &far(&rows), &elsewhere], &p), Err(Rule::StillDynamic));
    }

    #[test]
    fn rules_have_numbers_of_their_own() {
        let mut numbers: Vec<_> = Rule::ALL.iter().map(|r| r.text().0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), Rule::ALL.len());
    }
}
