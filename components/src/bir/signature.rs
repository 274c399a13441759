//! What the host sees of a program: the leaves of its parameters and results.

use crate::dtype::HloType;
use bevy_ecs::prelude::Resource;

/// One leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct SignatureLeaf {
    pub name: String,
    pub ty: HloType,
    pub dims: Vec<u64>,
}

/// Inputs and outputs, depth first.
#[derive(Resource, Default, Clone, Debug)]
#[allow(missing_docs)]
pub struct Signature {
    pub inputs: Vec<SignatureLeaf>,
    pub outputs: Vec<SignatureLeaf>,
}
