//! The evaluator.

use super::{Code, CodeInfo, codes};

codes! {
    EVAL_UNSUPPORTED = "MUR0301", "the evaluator does not compute this operation";
    EVAL_INPUTS = "MUR0302", "the number of inputs is not the number of entry parameters";
    EVAL_STEP_LIMIT = "MUR0303", "the program ran longer than the step limit";
    EVAL_NESTING = "MUR0304", "computations called per element nest too deep";
    EVAL_TOO_LARGE = "MUR0305", "a value is larger than the evaluator's memory limit";
}
