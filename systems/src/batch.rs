//! Small modules in one world. What a world and a walk over every pass cost is then paid once for all of them.
//!
//! The stages that rewrite HLO see one module at a time; from stage `penguin` on the tables hold the rows of all, one module
//! behind the other in [`Order`](murre_components::bir::Order), and each pass sweeps them once. [`Parts`] says where each
//! begins. The bytes are those that a module has by itself: what runs on over a program (round robins, what stood where
//! before, what a register holds) begins anew at a border, and what a record names (variables, queues, blocks,
//! records) counts from the border.
//!
//! Some decisions look at a whole program and are rare in small ones: spilling, a second layout, recomputed registers, tables
//! beyond the variables. A pass that comes to one gives the batch up ([`give_up`]), and so does any diagnostic: then
//! nobody gets a program, and whoever asked compiles each module by itself.
//!
//! ```text
//! [a, b, c]  ->  a | b | c in one world  ->  program of a, program of b, program of c
//! ```
//!
//! Facts: `spec/ecs.md 3, 8` (batched worlds).

use crate::options::{CompileOptions, DgeRoute};
use bevy_ecs::prelude::*;
use murre_components::bir::{Parts, Signature};
use murre_components::diag::codes::internal::INTERNAL;
use murre_components::diag::{Diagnostic, Diagnostics};
use murre_components::hlo::HloModule;
use murre_components::program::{Extents, Program};

/// What a module of a batch has for itself.
#[derive(Default, Debug)]
pub struct Member {
    /// The module, as the HLO stages left it.
    pub module: HloModule,
    /// Its run-time sizes.
    pub extents: Option<Extents>,
    /// Its inputs and outputs.
    pub signature: Signature,
    /// The bytes of its constants.
    pub constants: Vec<u8>,
}

/// The modules of a batch, parallel to [`Parts`]. There is none when the world holds a single module: then its module,
/// signature and constants are resources of their own.
#[derive(Resource, Default, Debug)]
pub struct Batch(pub Vec<Member>);

/// The programs of a batch.
#[derive(Resource, Default, Debug)]
pub struct Programs(pub Vec<Program>);

/// Whether modules may share a world under these options. What is only there to look at one module, or belongs to a
/// route that counts over the whole program, is not batched.
pub fn allowed(o: &CompileOptions) -> bool {
    !o.verify
        && o.stop_after.is_none()
        && o.estimate.is_none()
        && !o.pointer_bases
        && o.dge_route != DgeRoute::Hardware
        && o.chaos.is_none()
}

/// Gives the batch up, if it is one: a decision about a whole program is due. Whether it was one.
pub fn give_up(parts: &Parts, diagnostics: &Diagnostics, why: &str) -> bool {
    if parts.are_many() {
        diagnostics.push(Diagnostic::error(&INTERNAL, format!("not as a part of a batch: {why}")));
    }
    parts.are_many()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stage;
    use crate::synth::{synthetic, synthetic_batch};

    #[test]
    fn a_back_end_of_many_programs_gives_those_of_each() {
        let sizes: Vec<(u32, u64)> = (0..40).map(|k| (20 + k * k, u64::from(k))).collect();
        let back_end: Vec<Stage> = Stage::ALL.into_iter().filter(|s| *s >= Stage::Place).collect();
        let mut batch = synthetic_batch(&sizes);
        batch.run(&back_end);
        assert_eq!(batch.world.resource::<Diagnostics>().take().len(), 0);
        let programs = batch.world.remove_resource::<Programs>().expect("programs").0;
        assert_eq!(programs.len(), sizes.len());
        for ((n, seed), program) in sizes.into_iter().zip(programs) {
            let mut one = synthetic(n, seed);
            one.run(&back_end);
            assert!(one.take().0.as_ref() == Some(&program), "{n} instructions, seed {seed}");
        }
    }

    #[test]
    fn only_a_batch_is_given_up() {
        let (one, two) = (Parts::default(), Parts(vec![Default::default(); 2]));
        let sink = Diagnostics::default();
        assert!(!give_up(&one, &sink, "spilling") && sink.take().is_empty());
        assert!(give_up(&two, &sink, "spilling") && sink.has_errors());
    }
}
