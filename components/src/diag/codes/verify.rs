//! The HLO verifier.

use super::{Code, CodeInfo, codes};

codes! {
    VERIFY_SHAPE = "MUR0201", "a shape contradicts its operation";
    VERIFY_OPERAND_COUNT = "MUR0202", "an operation has the wrong number of operands";
    VERIFY_OPERAND = "MUR0203", "an operand is of a kind that the operation does not take";
    VERIFY_ATTRIBUTE = "MUR0204", "an attribute contradicts the operands";
    VERIFY_COMPUTATION = "MUR0205", "a called computation does not fit its call";
    VERIFY_UNBOUNDED = "MUR0206", "a dimension has no bound";
    VERIFY_STRUCTURE = "MUR0207", "the module's tables contradict each other";
}
