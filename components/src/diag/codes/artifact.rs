//! The artifact.

use super::{Code, CodeInfo, codes};

codes! {
    ART_NOT_ARTIFACT = "MUR0601", "not a murre artifact";
}
