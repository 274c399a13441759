//! Lowering: what the machine or the compiler cannot do.

use super::{Code, CodeInfo, codes};

codes! {
    LOWER_UNSUPPORTED_OP = "MUR0401", "this operation is not lowered";
}
