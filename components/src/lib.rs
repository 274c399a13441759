//! The nouns of murre: component types, enums and encodings. Data and its invariants, no passes.
#![warn(missing_docs)]

pub mod bir;
pub mod costs;
pub mod diag;
pub mod dtype;
pub mod engine;
pub mod estimate;
pub mod hash;
pub mod hlo;
pub mod hlo_table;
pub mod ids;
pub mod isa;
pub mod penguin;
pub mod program;
pub mod text_list;
