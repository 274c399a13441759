//! The evaluator.

use super::{Code, CodeInfo, codes};

codes! {
    EVAL_UNSUPPORTED = "MUR0301", "the evaluator does not compute this operation";
}
