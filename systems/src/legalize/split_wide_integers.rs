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
