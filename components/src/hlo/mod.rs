//! The HLO module as read: flat tables with dense ids. The reader fills it, the verifier checks it, the evaluator
//! computes it, and stage 0 spawns its instructions as entities.
//!
//! Invariants after verification: operands precede their users inside a computation; called computations exist
//! and no computation reaches itself; parameter numbers of a computation are dense; shapes agree with operations.
//!
//! * [`shape`]: element types, extents, bounds, layouts
//! * [`op`], [`attrs`]: operations, what they are told, literals
//! * [`texts`]: interned texts; [`source`]: where an instruction comes from
//! * [`module`]: the tables

pub mod attrs;
pub mod module;
pub mod op;
pub mod shape;
pub mod source;
pub mod texts;

pub use attrs::{
    ANNOTATIONS, Attrs, ConvDims, Direction, DotDims, GatherDims, Literal, ScatterDims, WindowDim,
};
pub use module::{Computation, Draft, HloInst, HloModule, HloRange};
pub use op::{HloOp, OpSet};
pub use shape::{ArrayShape, Shape, UNBOUNDED};
pub use source::{FileLocation, SourceLoc, StackFrame, StackFrames};
pub use texts::Texts;
