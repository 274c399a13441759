//! The door: HLO text or protos in, a checked [`HloModule`] out, and the printer back to text.
//!
//! ```text
//! bytes --read_module--> HloModule --verify--> faults
//!                            |
//!                            +------print_module--> text that reads back to the same module
//! ```

pub mod infer;
pub mod lex;
pub mod number;
mod outer;
mod print;
pub mod proto;
mod text;
mod verify;
mod words;

pub use print::print_module;
pub use text::{read_text, read_text_by_token};
pub(crate) use verify::is_unbounded;
pub use verify::verify;

use bytes::Bytes;
use murre_components::diag::{Diagnostic, Span, codes::read};
use murre_components::hlo::HloModule;

/// [`read_shared`] for bytes that the caller keeps: a proto is copied once.
pub fn read_module(bytes: &[u8], origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    if looks_like_text(bytes) {
        // Text is read in place.
        return read_text_bytes(bytes, origin);
    }
    read_shared(&Bytes::copy_from_slice(bytes), origin)
}

/// Reads a module in whatever form it comes: HLO text, `HloModuleProto`, `HloProto` or `HloSnapshot`, told apart by
/// content. `origin` names the input in diagnostics. All faults are reported together. Large constants of a proto share
/// the input's bytes.
pub fn read_shared(input: &Bytes, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    if looks_like_text(input) { read_text_bytes(input, origin) } else { proto::read(input, origin) }
}

fn read_text_bytes(bytes: &[u8], origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    if bytes.iter().all(|b| b.is_ascii_whitespace()) {
        return Err(vec![Diagnostic::error(&read::READ_EMPTY, "the input is empty").in_file(origin)]);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => match foreign_text(text) {
            Some(fault) => Err(vec![fault.in_file(origin)]),
            None => read_text(text, origin),
        },
        Err(error) => {
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let line = good.matches('\n').count() as u32 + 1;
            let column = good.rsplit('\n').next().map_or(0, |l| l.chars().count()) as u32 + 1;
            let what = "the text is not UTF-8 here";
            Err(vec![Diagnostic::error(&read::READ_SYNTAX, what).in_file(origin).at(Span { line, column })])
        }
    }
}

/// Text has no control characters but white space; a proto has tags that are.
fn looks_like_text(bytes: &[u8]) -> bool {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    if bytes[start..].starts_with(b"HloModule ") {
        return true;
    }
    let control = |b: &u8| *b < 0x20 && !b.is_ascii_whitespace() && *b != 0x0b;
    !bytes.iter().any(control) && std::str::from_utf8(bytes).is_ok()
}

/// A fault for text that is not HLO at all.
fn foreign_text(text: &str) -> Option<Diagnostic> {
    let mut lexer = lex::Lexer::new(text);
    let first = lexer.next_token();
    let second = lexer.next_token().tok;
    let hlo = match first.tok {
        lex::Tok::Word(
            "HloModule" | "ENTRY" | "FileNames" | "FunctionNames" | "FileLocations" | "StackFrames",
        ) => true,
        lex::Tok::Word(_) => matches!(second, lex::Tok::Punct(b'{' | b'(') | lex::Tok::End),
        lex::Tok::Punct(b'%') | lex::Tok::Open(_) | lex::Tok::End => true,
        _ => false,
    };
    if hlo {
        return None;
    }
    let fault =
        Diagnostic::error(&read::READ_FORMAT, "the text does not start like HLO").at(lexer.span(&first));
    let fault = fault.expected("HloModule, ENTRY or a computation");
    Some(if text.contains("stablehlo.") || first.tok == lex::Tok::Word("module") {
        fault.help("this looks like StableHLO: pass the HLO text instead (for JAX: lowered.as_text(dialect=\"hlo\"))")
    } else {
        fault
    })
}

/// The fault of an input that is larger than the ids of the tables reach.
fn too_large(bytes: usize) -> Option<Diagnostic> {
    let fault = Diagnostic::error(&read::READ_TOO_LARGE, "the input is too large")
        .found(format!("{bytes} bytes"))
        .expected("less than 4 GiB");
    u32::try_from(bytes).is_err().then_some(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_end_where_ids_do() {
        assert!(too_large(u32::MAX as usize).is_none());
        assert_eq!(too_large(5 << 30).map(|d| d.code.id), Some("MUR0128"));
    }
}
