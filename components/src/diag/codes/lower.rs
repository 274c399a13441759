//! Lowering: what the machine or the compiler cannot do.

use super::{Code, CodeInfo, codes};

codes! {
    LOWER_UNSUPPORTED_OP = "MUR0401", "this operation is not lowered";
    LOWER_TYPE = "MUR0402", "this element type is not lowered";
    LOWER_TILE = "MUR0403", "a tensor is too large for one tile";
    LOWER_LAYOUT = "MUR0404", "no access pattern can say this copy";
    LOWER_DIVISOR = "MUR0405", "registers divide and shift by constants only";
    LOWER_DYNAMIC_SHAPE = "MUR0406", "a dimension has a run-time extent";
    LOWER_LOOP_RULE = "MUR0407", "a loop breaks a rule of its kind";
    LOWER_RECURSION = "MUR0408", "computations call each other without end";
}
