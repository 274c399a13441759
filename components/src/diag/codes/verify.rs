//! The HLO verifier.

use super::{Code, CodeInfo, codes};

codes! {
    VERIFY_SHAPE = "MUR0201", "a shape contradicts its operation";
}
