//! The program's signature as the host sees it: flattened input and output leaves, in order.

use crate::dtype::HloType;
use bevy_ecs::prelude::Resource;

/// One array that goes in or comes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureLeaf {
    /// The parameter's name, or `out<k>`.
    pub name: String,
    /// Element type as the host sees it.
    pub ty: HloType,
    /// Extents.
    pub dims: Vec<u64>,
}

/// Inputs and outputs; the position of a leaf is the `LocFrom::ordinal` of its variable.
#[derive(Resource, Default, Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Signature {
    pub inputs: Vec<SignatureLeaf>,
    pub outputs: Vec<SignatureLeaf>,
    /// Output leaf and input leaf that are one variable, the input's.
    pub shared: Vec<(u32, u32)>,
    /// Input leaves that are donated: their variables may be overwritten, shared with an output or not.
    pub donated: Vec<u32>,
}
