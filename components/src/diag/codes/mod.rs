//! Every diagnostic code, by the part of the program that reports it.
//!
//! | digits | part |
//! |---|---|
//! | `01xx` | reading HLO text, protos and arrays |
//! | `02xx` | the HLO verifier |
//! | `03xx` | the evaluator |
//! | `04xx` | lowering: what the machine or the compiler cannot do |
//! | `05xx` | resources: registers, SBUF, PSUM, semaphores, queues |
//! | `06xx` | the artifact |
//! | `07xx` | the simulator |
//! | `08xx` | encoding and decoding of words and records |
//! | `09xx` | files, inputs and outputs of the command line |
//! | `10xx` | internal consistency: our bugs |

use super::{Code, CodeInfo};

pub mod artifact;
pub mod cli;
pub mod eval;
pub mod internal;
pub mod isa;
pub mod lower;
pub mod read;
pub mod resource;
pub mod sim;
pub mod verify;

/// Declares the codes of one part and the table of them.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $title:literal;)*) => {
        $($(#[$doc])* #[doc = $title] pub static $name: CodeInfo = CodeInfo {
            id: $id,
            title: $title,
            page: include_str!(concat!("../../../../docs/codes/", $id, ".md")),
        };)*
        /// The codes of this part.
        pub static ALL: &[Code] = &[$(&$name),*];
    };
}
pub(crate) use codes;

/// Every registered code, in order.
pub fn all() -> impl Iterator<Item = Code> {
    [
        read::ALL,
        verify::ALL,
        eval::ALL,
        lower::ALL,
        resource::ALL,
        artifact::ALL,
        sim::ALL,
        isa::ALL,
        cli::ALL,
        internal::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The code with this id.
pub fn find(id: &str) -> Option<Code> {
    all().find(|c| c.id.eq_ignore_ascii_case(id))
}
