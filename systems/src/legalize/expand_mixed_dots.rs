//! `expand_mixed_dots`: the matrix engine takes operands of one float type of 16 or 32 bits. Eight-bit floats are exact as
//! bf16; operands of different types take the wider one; a result type without accumulation is cast from f32.
//!
//! Facts: `spec/isa_compute.md 3.4`.

use super::build::{Build, Expander, expand_all};
use bevy_ecs::prelude::*;
use murre_components::dtype::HloType;
use murre_components::hlo::{Attrs, HloInst, HloModule, HloOp, OpSet};
use murre_components::ids::HloId;

/// The pass.
pub fn expand_mixed_dots(mut module: ResMut<HloModule>) {
    let new = expand_all(&module, &mut MixedDots { module: &module });
    if let Some(new) = new {
        *module = new;
    }
}

struct MixedDots<'m> {
    module: &'m HloModule,
}

/// Types that the engine multiplies.
fn native(ty: HloType) -> bool {
    matches!(ty, HloType::F32 | HloType::Bf16 | HloType::F16)
}

fn f8(ty: HloType) -> bool {
    matches!(ty, HloType::F8E4M3Fn | HloType::F8E5M2)
}

impl Expander for MixedDots<'_> {
    fn family(&self) -> OpSet {
        OpSet::of(&[HloOp::Dot])
    }

    fn wants(&self, inst: HloInst<'_>) -> bool {
        let ty = |k: usize| {
            let id = inst.operands().get(k)?;
            Some(self.module.inst(*id).shape().array()?.ty)
        };
        let (Some(a), Some(b), Some(out)) = (ty(0), ty(1), inst.shape().array().map(|s| s.ty)) else {
            return false;
        };
        let known = |t: HloType| native(t) || f8(t);
        inst.op == HloOp::Dot && known(a) && known(b) && known(out) && !(native(a) && a == b && native(out))
    }

    fn expand(&mut self, inst: HloInst<'_>, operands: &[HloId], b: &mut Build<'_>) -> Option<HloId> {
        let Attrs::Dot(dims) = inst.attrs() else { return None };
        let out = inst.shape().array()?.ty;
        let half = |t: HloType| if f8(t) { HloType::Bf16 } else { t };
        let (x, y) = (half(b.ty(operands[0])), half(b.ty(operands[1])));
        let common = if x == y { x } else { HloType::F32 };
        let (l, r) = (b.convert(operands[0], common), b.convert(operands[1], common));
        let sum = b.dot(if native(out) { out } else { HloType::F32 }, l, r, (**dims).clone());
        Some(b.convert(sum, out))
    }
}
