//! What is shown to people and to programs that read: diagnostics, tables, records, words, and the way of a value
//! through the stages. In: data of the other parts. Out: text and JSON, the same bytes for the same data.

mod diagnostic;
mod dump;
mod estimate;
mod explain;
mod history;
mod names;
mod program;
mod shapes;
mod summary;
mod tables;
mod timeline;
mod word;

pub use diagnostic::{diagnostic_json, diagnostic_text, is_internal};
pub use dump::dump;
pub use estimate::{estimate_json, estimate_text};
pub use explain::{Explanation, Story};
pub use history::{History, Recorder};
pub use program::{program_json, program_text};
pub use shapes::{shapes_json, shapes_text};
pub use summary::{Summary, summary};
pub use timeline::{Timeline, passes_trace, steps_trace};
pub use word::{Bits, Decoded, decode_hex};
