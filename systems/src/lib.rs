//! The verbs of murre: every pass is an ECS system, one folder a stage, one file a pass. The folders in the order in
//! which they run: `dynamic_shape`, `legalize`, `simplify`, `penguin`, `loops`, `codegen`, `place`, `address`,
//! `registers`, `route`, `describe`, `sync`, `encode`, `estimate`.

pub mod access;
pub mod address;
pub mod batch;
pub mod by_position;
pub mod chaos;
pub mod codegen;
pub mod compile;
pub mod describe;
pub mod dynamic_shape;
pub mod encode;
pub mod estimate;
pub mod legalize;
pub mod loops;
pub mod options;
pub mod order;
pub mod pass;
pub mod penguin;
pub mod place;
pub mod registers;
mod reserve;
pub mod route;
pub mod simplify;
pub mod staging;
pub mod sweep;
pub mod sync;
pub mod synth;
pub mod watch;

pub use compile::{CompileOutcome, Compiler, Lean, compile};
pub use options::{CompileOptions, DgeLevels, DgeRoute, EstimateOptions, ExecutorChoice, IndexNumbering};
pub use pass::{Pass, Stage, passes};
