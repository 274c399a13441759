//! The artifact.

use super::{Code, CodeInfo, codes};

codes! {
    ART_NOT_ARTIFACT = "MUR0601", "not a murre artifact";
    ART_CHECKSUM = "MUR0602", "the artifact's checksum does not match its bytes";
    ART_VERSION = "MUR0603", "the artifact has a format version that this program does not read";
    ART_TABLE = "MUR0604", "a table of the artifact is malformed";
    ART_INDEX = "MUR0605", "an index in the artifact points outside its table";
    ART_IO = "MUR0606", "the artifact file could not be written";
}
