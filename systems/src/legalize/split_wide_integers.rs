//! `split_wide_integers`: 64-bit integers become pairs of u32 words, or one s32 or u32 word where the elements provably fit,
//! and f64 that is the same on every run becomes constants of the types that it is converted to.
//!
//! In: a module without `call`. Out: a module in which only the entry's own parameters and results have 64-bit elements,
//! opened and closed by `bitcast-convert`; or one diagnostic for everything that has no rule. Facts: `spec/hlo.md 5, 7`.
//!
//! ```text
//! c = s64[4] add(a, b)
//! ->  c.lo = u32[4] add(a.lo, b.lo)    c.compare = pred[4] compare(c.lo, a.lo), direction=LT    c.hi = ...
//! ```

use super::wide;
use bevy_ecs::prelude::*;
use murre_components::diag::Diagnostics;
use murre_components::hlo::HloModule;

/// The pass.
pub fn split_wide_integers(mut module: ResMut<HloModule>, diagnostics: Res<Diagnostics>) {
    if module.entry.is_none() || !wide::needed(&module) {
        return;
    }
    match wide::split(&module) {
        Ok(split) => *module = split,
        Err(faults) => faults.into_iter().for_each(|f| diagnostics.push(f)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::dtype::HloType;
    use murre_components::hlo::{ArrayShape, Attrs, Computation, Draft, HloOp, HloRange, Shape};
    use murre_components::ids::{CompId, HloId};

    /// `op(a, b)` of two parameters of type `ty`.
    fn module(op: HloOp, ty: HloType) -> HloModule {
        let mut m = HloModule::default();
        let shape = m.intern_shape(Shape::Array(ArrayShape::new(ty, [4])));
        let mut parameters = Vec::new();
        for (number, name) in ["a", "b"].into_iter().enumerate() {
            let attrs = m.intern_attrs(Attrs::Parameter { number: number as u32 });
            parameters.push(m.push(Draft { attrs, ..Draft::new(name, HloOp::Parameter, shape) }));
        }
        let root = m.push(Draft { operands: &parameters, line: 7, ..Draft::new("c", op, shape) });
        let instructions = HloRange { first: 0, count: 3 };
        m.computations.push(Computation {
            name: "e".into(),
            instructions,
            parameters,
            root,
            extra: Vec::new(),
        });
        m.entry = CompId(0);
        m
    }

    fn run(module: HloModule) -> (HloModule, Vec<murre_components::diag::Diagnostic>) {
        let mut world = World::new();
        world.insert_resource(module);
        world.init_resource::<Diagnostics>();
        let mut schedule = Schedule::default();
        schedule.add_systems(split_wide_integers);
        schedule.run(&mut world);
        let faults = world.resource::<Diagnostics>().take();
        (world.remove_resource::<HloModule>().unwrap_or_default(), faults)
    }

    #[test]
    fn an_addition_carries() {
        let (split, faults) = run(module(HloOp::Add, HloType::S64));
        assert!(faults.is_empty());
        let names: Vec<&str> = split.insts().map(|i| i.name()).collect();
        assert!(
            names.contains(&"c.lo") && names.contains(&"c.carry") && names.contains(&"c.hi"),
            "{names:?}"
        );
        let wide =
            |i: &murre_components::hlo::HloInst<'_>| i.shape().array().is_some_and(|a| wide_type(a.ty));
        let ops: Vec<HloOp> = split.insts().filter(wide).map(|i| i.op).collect();
        assert_eq!(ops, [HloOp::Parameter, HloOp::Parameter, HloOp::BitcastConvert]);
        let sum = split.insts().find(|i| i.name() == "c.lo");
        assert_eq!(
            sum.and_then(|i| i.text_place()),
            Some((7, 0)),
            "the place in the text is that of the sum"
        );
    }

    fn wide_type(ty: HloType) -> bool {
        matches!(ty, HloType::S64 | HloType::U64 | HloType::F64)
    }

    #[test]
    fn what_has_nothing_wide_is_left_alone() {
        let (same, faults) = run(module(HloOp::Add, HloType::S32));
        assert!(faults.is_empty());
        assert_eq!((same.len(), same.inst(HloId(2)).name()), (3, "c"));
    }

    #[test]
    fn what_has_no_rule_is_named() {
        let (_, faults) = run(module(HloOp::Power, HloType::U64));
        assert_eq!(
            faults.iter().map(|f| (f.code.id, f.instruction.as_deref())).collect::<Vec<_>>(),
            [("MUR0402", Some("c"))]
        );
    }
}
