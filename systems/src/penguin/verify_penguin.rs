//! `verify_penguin`: every dynamic copy holds together, and no address can leave its tensor.
//!
//! In: nodes, operands, payloads, the proved ranges of registers. An address is checked at the two ends of its registers'
//! ranges, which is where a sum with positive coefficients is smallest and largest (D17: clamps make the rest impossible).
//! Facts: `spec/ir.md 2.2`.

use bevy_ecs::prelude::*;
use murre_components::bir::*;
use murre_components::diag::codes::lower::DYNAMIC_COPY;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::penguin::*;

/// The pass.
pub fn verify_penguin(
    nodes: Query<(&NodeHead, &NodeOperands, &NodeScalars)>,
    locs: Query<&LocHead>,
    regs: Query<&RegBounds>,
    pool: Res<OperandPool>,
    copies: Res<DynamicCopies>,
    diagnostics: Res<Diagnostics>,
) {
    if copies.0.is_empty() {
        return;
    }
    let (heads, operands, scalars) = crate::columns!(nodes);
    let (locs, bounds) = (crate::columns!(locs), crate::columns!(regs));
    for ((head, range), scalars) in heads.iter().zip(operands).zip(scalars) {
        let first = range.first as usize;
        let list = pool.0.get(first..first + range.count as usize).unwrap_or_default();
        let Some(payload) = copies.0.get(scalars.imm as usize) else { continue };
        let Some(copy) = TensorCopyDynamicBase::of(head.kind, list, payload) else { continue };
        if let Err(what) = copy.verify().and_then(|()| inside(copy, locs, bounds)) {
            let what = format!("{:?}: {what}", head.kind);
            diagnostics.push(Diagnostic::error(&DYNAMIC_COPY, what).ordered(head.hlo.0));
        }
    }
}

/// Whether every address that the registers' ranges allow stays inside the tensor.
fn inside(copy: TensorCopyDynamicBase<'_>, locs: &[LocHead], bounds: &[RegBounds]) -> Result<(), String> {
    let Some(side) = copy.dynamic_side().access() else { return Ok(()) };
    let (mut low, mut high) = side.pattern.span();
    for (index, addr) in copy.payload.indices.iter().zip(copy.generic_addrs()) {
        let NodeOperand::Scalar(reg, _) = addr else {
            // A vector is checked row by row as it is read.
            return Ok(());
        };
        let Some(b) = bounds.get(reg.index()) else { return Err("an address is in no register".into()) };
        let scale = i64::from(index.scale);
        (low, high) = (low + b.lo.saturating_mul(scale), high.saturating_add(b.hi.saturating_mul(scale)));
    }
    let Some(loc) = locs.get(side.loc.index()) else { return Err("a location that is not there".into()) };
    let size = i64::from(loc.partitions) * loc.part_bytes() as i64 / i64::from(side.dtype.bytes());
    let at = i64::from(side.offset);
    if at + low < 0 || at.saturating_add(high) >= size {
        return Err(format!("elements {}..={} of {size}", at + low, at.saturating_add(high)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::Compiler;
    use crate::options::CompileOptions;
    use crate::staging::Staging;
    use murre_components::dtype::DType;
    use murre_components::engine::EngineId;
    use murre_components::hlo::{HloModule, HloOp};
    use murre_components::ids::*;

    /// A gather of one row of `f32[12,8]` in DRAM, its index between 0 and `most`.
    fn faults(most: i64, scale: u32) -> Vec<(&'static str, String)> {
        let mut world = Compiler::new(HloModule::default(), CompileOptions::default()).world;
        let mut s = Staging::new(&world);
        let whole = s.loc(LocRow::new(Space::Dram, DType::F32, 1, 96, HloId(0)));
        let tile = s.loc(LocRow::new(Space::Sbuf, DType::F32, 1, 8, HloId(0)));
        let mut row = RegRow::new(EngineId::All, murre_components::bir::RegRole::Scalar, HloId(0));
        row.bounds = RegBounds { lo: 0, hi: most };
        let reg = s.reg(row);
        s.flush(&mut world);
        let pattern = ApPattern::of([(8, 1), (1, 8)]);
        let access = |loc, mode| {
            NodeOperand::Access(Access { loc, offset: 0, dtype: DType::F32, pattern: pattern.clone(), mode })
        };
        let operands = vec![
            access(tile, AccessMode::Store),
            access(whole, AccessMode::Load),
            NodeOperand::Scalar(reg, DType::I32),
        ];
        world.spawn(NodeRow {
            head: NodeHead {
                kind: NodeKind::TensorCopyDynamicSrc,
                op: HloOp::Copy,
                sub: 0,
                flags: 0,
                hlo: HloId(0),
                axis: AxisId::NONE,
            },
            operands: NodeOperands { first: 0, count: 3 },
            scalars: NodeScalars { imm: 0, ..Default::default() },
        });
        world.insert_resource(OperandPool(operands));
        let payload = TensorCopyDynamic {
            indices: [DynamicIndex { dim: 0, scale }].into_iter().collect(),
            ap: ApIndices::of(&pattern, None, &pattern, &[i64::from(scale)]),
            shape: [12, 8].into_iter().collect(),
            max_index: 89,
        };
        world.insert_resource(DynamicCopies(vec![payload]));
        let mut schedule = Schedule::default();
        schedule.add_systems(verify_penguin);
        schedule.run(&mut world);
        let found = world.resource::<Diagnostics>().take();
        found.into_iter().map(|d| (d.code.id, d.message)).collect()
    }

    #[test]
    fn a_range_that_ends_on_the_last_row_is_fine_and_one_row_more_is_not() {
        assert!(faults(11, 8).is_empty());
        let outside = "TensorCopyDynamicSrc: elements 0..=103 of 96".to_owned();
        assert_eq!(faults(12, 8), [("MUR0411", outside)]);
    }

    #[test]
    fn what_the_copy_itself_finds_is_reported() {
        assert!(faults(7, 12)[0].1.contains("has scale 12"));
    }
}
