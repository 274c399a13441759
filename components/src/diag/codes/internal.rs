//! Internal consistency: our bugs.

use super::{Code, CodeInfo, codes};

codes! {
    INTERNAL = "MUR1001", "an internal check failed";
}
