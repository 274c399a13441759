//! murre: a data-oriented compiler for HLO programs with runtime offsets and trip counts.
#![warn(missing_docs)]

pub mod array;
pub mod artifact;
pub mod bulk;
pub mod check;
pub mod eval;
pub mod fixtures;
pub mod heap;
pub mod hlo;
pub mod lab;
pub mod report;
pub mod sim;

pub use murre_components as components;
pub use murre_systems as systems;
