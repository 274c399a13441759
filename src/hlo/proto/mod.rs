//! HLO protos in, module out: ids become dense, computations come callees first, instructions operands first, and
//! literals leave their layout order for row-major order.
//!
//! A proto promises no order; where it has a legal one it is kept. What the ids name must exist, and nothing may
//! depend on itself. The big messages (module, computation, instruction) are walked on the wire; what repeats (shapes,
//! attributes, small constants, metadata) is decoded once and then found by its bytes. Facts: `spec/hlo.md 5`.
//!
//! * [`wire`]: fields of a message; [`messages`]: the schema of the small messages
//! * [`computation`], [`instruction`]: the walk; [`order`]: where the given order is not legal
//! * [`shape`], [`literal`], [`attributes`], [`kept`]: the parts of an instruction; [`outer`]: facts of the module

mod attributes;
mod computation;
mod instruction;
mod kept;
mod literal;
pub mod messages;
mod order;
mod outer;
mod shape;
mod wire;

use bytes::Bytes;
use computation::Reader;
use murre_components::diag::{Code, Diagnostic, codes::read};
use murre_components::hlo::HloModule;
use std::borrow::Cow;
use wire::{Damaged, Fields};

/// A fault inside the proto; the caller adds where.
pub(super) type Fault = Box<Diagnostic>;

pub(super) fn fault(code: Code, message: impl Into<String>) -> Fault {
    Box::new(Diagnostic::error(code, message))
}

/// The bytes are no message of the kind that must stand here.
fn damaged() -> Fault {
    let fault = Diagnostic::error(&read::READ_CUT, "the proto is cut short or damaged");
    Box::new(fault.help("compare the file's size with the original's"))
}

impl From<Damaged> for Fault {
    fn from(_: Damaged) -> Fault {
        damaged()
    }
}

/// A name as the text form can write it: XLA, too, replaces what is not allowed when it takes a proto in.
fn sanitized<'n>(name: &'n str, otherwise: impl FnOnce() -> String) -> Cow<'n, str> {
    let first = name.as_bytes().first().copied().unwrap_or(0);
    let begins = first.is_ascii_alphabetic() || first == b'_';
    // Three dots are a token of their own; two may be part of three.
    let mut before = 0;
    let word = name.bytes().all(|b| {
        let dots = b == b'.' && before == b'.';
        before = b;
        super::lex::is_word(b) && !dots
    });
    if begins && (word || is_dotted_word(name)) && !super::text::reserved(name) {
        return Cow::Borrowed(name);
    }
    let mut out: String =
        name.chars().map(|c| if c.is_ascii() && super::lex::is_word(c as u8) { c } else { '_' }).collect();
    out = out.replace("...", "___");
    if name.is_empty() {
        out = otherwise();
    } else if !begins {
        out.replace_range(..1, "_");
    }
    if super::text::reserved(&out) {
        out.push('_');
    }
    Cow::Owned(out)
}

/// Whether a name with two dots in a row is a word all the same.
#[cold]
fn is_dotted_word(name: &str) -> bool {
    name.bytes().all(super::lex::is_word) && !name.contains("...")
}

/// Field 1 of a message, if the message is whole and the field a message.
fn first_field(message: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(message);
    let mut found = None;
    while let Some(field) = fields.next_field().ok()? {
        if field.number == 1 {
            found = field.value.bytes().ok();
        }
    }
    found
}

/// What the top fields of a message say about it.
enum Looks {
    /// A module: it has computations with instructions in them.
    Module,
    /// A module without a computation, or another message of whole fields.
    Empty,
    Damaged,
}

fn looks(message: &[u8]) -> Looks {
    let mut fields = Fields::new(message);
    let mut found = Looks::Empty;
    loop {
        match fields.next_field() {
            Ok(Some(field)) if field.number == 3 => {
                let instructions = |m: &[u8]| {
                    let mut inner = Fields::new(m);
                    while let Ok(Some(f)) = inner.next_field() {
                        if f.number == 2 && f.value.bytes().is_ok() {
                            return true;
                        }
                    }
                    false
                };
                if field.value.bytes().is_ok_and(instructions) {
                    found = Looks::Module;
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return found,
            Err(Damaged) => return Looks::Damaged,
        }
    }
}

/// Reads an `HloModuleProto`, `HloProto` or `HloSnapshot`.
pub(super) fn read(input: &Bytes, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    let one = |fault: Diagnostic| Err(vec![fault.in_file(origin)]);
    if let Some(fault) = super::too_large(input.len()) {
        return one(fault);
    }
    let plain = looks(input);
    let wrapped = first_field(input);
    // A wrapper first: its other fields may look like computations, a module's name never looks like a module.
    let candidates = [wrapped.and_then(first_field), wrapped, Some(&input[..])];
    let module = candidates.into_iter().flatten().find(|m| matches!(looks(m), Looks::Module));
    if let Some(module) = module {
        let mut reader = Reader::new(input, module);
        reader.module();
        return reader.finish(origin);
    }
    one(match plain {
        Looks::Empty if input.first() == Some(&0x0a) => {
            Diagnostic::error(&read::READ_PROTO, "the proto holds no computation")
        }
        // Field 1 of every form: a proto that was cut, or damaged.
        Looks::Damaged if input.first() == Some(&0x0a) && input.len() > 2 => *damaged(),
        _ => Diagnostic::error(&read::READ_FORMAT, "the input is binary, but not an HLO proto")
            .expected("HLO text, HloModuleProto, HloProto or HloSnapshot"),
    })
}

#[cfg(test)]
mod tests {
    use super::sanitized;

    #[test]
    fn names_become_what_text_can_write() {
        assert_eq!(sanitized("add.3", String::new), "add.3");
        assert_eq!(sanitized("a b/ü", String::new), "a_b__");
        assert_eq!(sanitized("3x", String::new), "_x");
        assert_eq!(sanitized("f32", String::new), "f32_");
        assert_eq!(sanitized("a...b", String::new), "a___b");
        assert_eq!(sanitized("", || "add.7".to_owned()), "add.7");
    }
}
