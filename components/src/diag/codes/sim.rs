//! The simulator.

use super::{Code, CodeInfo, codes};

codes! {
    SIM_POISON = "MUR0701", "an uninitialised value was read";
}
