//! HLO text in, module out. This file has the parser's state and its smallest steps; [`header`] reads what stands around
//! computations, [`computation`] what stands around instructions; [`instruction`], [`shape`], [`literal`] and
//! [`attributes`] read the parts of a line, and [`mod@line`] reads a line of the usual form in one go.
//!
//! A line's own faults (an unknown opcode, an undefined operand, a value out of range) are collected and reading goes
//! on; where the text's structure breaks, reading stops, since what follows could only be guessed. Nothing here
//! recurses on the depth of the input. Facts: `spec/hlo.md 4`.

mod allowed;
mod assemble;
mod attributes;
mod computation;
mod header;
mod instruction;
mod kept;
mod line;
mod literal;
mod names;
mod shape;
mod wrapped;

pub(crate) use allowed::takes;
pub(crate) use names::Names;
pub(crate) use shape::MAX_TUPLE_DEPTH;

use crate::hlo::lex::{Lexer, Tok, Token};
use crate::hlo::outer::Outer;
use line::Cache;
use murre_components::diag::{Code, Diagnostic, Span, codes::read};
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{HloModule, Shape};
use murre_components::ids::CompId;

/// A fault that ends reading.
pub(crate) type Fault = Box<Diagnostic>;
/// What a reading function gives.
pub(crate) type Parse<T> = Result<T, Fault>;

/// After this many faults reading stops.
const MAX_FAULTS: usize = 64;

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    tok: Token<'a>,
    /// Byte offset behind the token before `tok`.
    behind: usize,
    origin: &'a str,
    module: HloModule,
    computations: SeededMap<&'a str, CompId>,
    /// The names of the computation being read.
    names: Names,
    /// What was read before, by its text.
    cache: Cache<'a>,
    /// Computations that short forms of background operations stand for.
    wrapped: Vec<wrapped::Wrapped>,
    /// What the header says of the entry computation.
    outer: Outer,
    /// Bytes that may still be looked at ahead of reading them.
    look_ahead: usize,
    faults: Vec<Diagnostic>,
}

/// Reads HLO text. `origin` names the input in diagnostics.
pub fn read_text(text: &str, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    read(text, origin, Cache::new())
}

/// Reads HLO text token by token, lines of the usual form too: what [`read_text`] must agree with.
pub fn read_text_by_token(text: &str, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    read(text, origin, Cache::off())
}

fn read<'a>(text: &'a str, origin: &'a str, cache: Cache<'a>) -> Result<HloModule, Vec<Diagnostic>> {
    if let Some(fault) = super::too_large(text.len()) {
        return Err(vec![fault.in_file(origin)]);
    }
    let mut parser = Parser::new(text, origin, cache);
    if let Err(fault) = parser.module() {
        parser.faults.push(*fault);
    }
    parser.module.shrink();
    if parser.faults.is_empty() { Ok(parser.module) } else { Err(parser.faults) }
}

/// Whether a text is what `read` reads, all of it. What comes from a proto is held against this, so that every module can
/// be printed and read again.
fn readable(text: &str, read: impl FnOnce(&mut Parser<'_>) -> Parse<bool>) -> bool {
    let mut parser = Parser::new(text, "", Cache::off());
    matches!(read(&mut parser), Ok(true)) && parser.tok.tok == Tok::End && parser.faults.is_empty()
}

/// Whether the value of a kept attribute has the form that the text reader asks for.
pub(crate) fn is_kept_value(name: &str, value: &str) -> bool {
    readable(value, |p| p.kept_value(name))
}

/// Whether a shape can be read as it is printed.
pub(crate) fn is_shape(text: &str) -> bool {
    readable(text, |p| p.shape().map(|_| true))
}

/// The shapes of a list such as `{f32[2]{0}, s32[]}`; `None` if it is none.
pub(crate) fn shape_list(text: &str) -> Option<Vec<Shape>> {
    let shapes = std::cell::RefCell::new(Vec::new());
    let each = |p: &mut Parser<'_>| {
        let shape = p.shape()?;
        shapes.borrow_mut().push(shape);
        Ok(())
    };
    readable(text, |p| p.list_of(each).map(|()| true)).then(|| shapes.into_inner())
}

/// Whether `name=value` is an attribute of a module.
pub(crate) fn is_module_attribute(text: &str) -> bool {
    readable(text, |p| p.module_attribute().map(|()| true))
}

/// A token in words, for "found".
fn describe(tok: &Tok<'_>) -> String {
    match tok {
        Tok::Word(w) => format!("'{w}'"),
        Tok::AttrName(w) => format!("'{w}='"),
        Tok::Str(_) => "a quoted text".to_owned(),
        Tok::Punct(c) => format!("'{}'", *c as char),
        Tok::Arrow => "'->'".to_owned(),
        Tok::AtMost => "'<='".to_owned(),
        Tok::Ellipsis => "'...'".to_owned(),
        Tok::Bad(c) => format!("the character {c:?}"),
        Tok::Open(what) => format!("{what} without an end"),
        Tok::End => "the end of the text".to_owned(),
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, origin: &'a str, cache: Cache<'a>) -> Self {
        let mut lexer = Lexer::new(text);
        let tok = lexer.next_token();
        Parser {
            lexer,
            tok,
            behind: 0,
            origin,
            module: HloModule::default(),
            computations: seeded_map(),
            names: Names::default(),
            cache,
            wrapped: Vec::new(),
            outer: Outer::default(),
            look_ahead: 2 * text.len(),
            faults: Vec::new(),
        }
    }

    fn span(&self) -> Span {
        self.lexer.span(&self.tok)
    }

    fn diagnostic(&self, code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, message).in_file(self.origin).at(span).ordered(self.module.len() as u32)
    }

    /// A fault at the current token.
    fn fault(&self, code: Code, message: impl Into<String>) -> Fault {
        Box::new(self.diagnostic(code, self.span(), message))
    }

    /// The current token is not what must stand here.
    fn unexpected(&self, expected: &str) -> Fault {
        let code = match self.tok.tok {
            Tok::End | Tok::Open(_) => &read::READ_CUT,
            _ => &read::READ_SYNTAX,
        };
        let found = describe(&self.tok.tok);
        let fault = self.diagnostic(code, self.span(), format!("expected {expected}, found {found}"));
        Box::new(fault.found(found).expected(expected))
    }

    /// Notes a fault and goes on, unless there are too many.
    fn note(&mut self, fault: Diagnostic) -> Parse<()> {
        if self.faults.len() + 1 >= MAX_FAULTS {
            return Err(Box::new(fault));
        }
        self.faults.push(fault);
        Ok(())
    }

    fn advance(&mut self) -> Token<'a> {
        let next = self.lexer.next_token();
        self.behind = self.tok.end;
        std::mem::replace(&mut self.tok, next)
    }

    fn peek(&self) -> Tok<'a> {
        self.lexer.clone().next_token().tok
    }

    fn is(&self, c: u8) -> bool {
        self.tok.tok == Tok::Punct(c)
    }

    fn eat(&mut self, c: u8) -> bool {
        let found = self.is(c);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, c: u8) -> Parse<()> {
        if self.eat(c) { Ok(()) } else { Err(self.unexpected(&format!("'{}'", c as char))) }
    }

    fn word(&mut self, what: &str) -> Parse<&'a str> {
        match self.tok.tok {
            Tok::Word(w) => {
                self.advance();
                Ok(w)
            }
            _ => Err(self.unexpected(what)),
        }
    }

    fn int(&mut self) -> Parse<i64> {
        match self.tok.tok {
            Tok::Word(w) => match w.parse::<i64>() {
                Ok(n) => {
                    self.advance();
                    Ok(n)
                }
                Err(_) => Err(self.unexpected("an integer")),
            },
            _ => Err(self.unexpected("an integer")),
        }
    }

    /// A name, with or without `%`. Without it a word that the syntax needs for itself is no name.
    fn name(&mut self, what: &str) -> Parse<&'a str> {
        let percent = self.eat(b'%');
        if let Tok::AttrName(w) = self.tok.tok {
            let fault =
                self.fault(&read::READ_SYNTAX, format!("'{w}=' reads as an attribute, not as a name"));
            return Err(Box::new(fault.help("put a space before the '='")));
        }
        match self.tok.tok {
            Tok::Word(w) if is_name(w, percent) => self.word(what),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Skips a balanced group that starts at the current token.
    fn skip_group(&mut self) -> Parse<()> {
        let mut depth = 0usize;
        loop {
            match self.tok.tok {
                Tok::Punct(b'(' | b'{' | b'[') => depth += 1,
                Tok::Punct(b')' | b'}' | b']') => depth = depth.saturating_sub(1),
                Tok::End | Tok::Open(_) => return Err(self.unexpected("a closing bracket")),
                Tok::Bad(_) => return Err(self.unexpected("HLO text")),
                _ => {}
            }
            self.advance();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// The text of an attribute's value that nobody interprets: one word, text or balanced group, and what hangs on it
    /// (`[2,4]<=[8]`).
    fn raw_value(&mut self) -> Parse<&'a str> {
        let start = self.tok.start;
        if !matches!(self.tok.tok, Tok::Word(_) | Tok::Str(_) | Tok::Punct(b'{' | b'[' | b'(' | b'%')) {
            return Err(self.unexpected("an attribute's value"));
        }
        loop {
            if self.eat(b'%') {
                self.name("a name")?;
            } else {
                self.skip_group()?;
            }
            let goes_on = matches!(self.tok.tok, Tok::Punct(b'[' | b'(' | b':') | Tok::AtMost | Tok::Arrow)
                || self.lexer.slice(self.behind.saturating_sub(1), self.behind).ends_with([':', '=', '>'])
                    && matches!(self.tok.tok, Tok::Word(_) | Tok::Punct(b'{'));
            if !goes_on {
                return Ok(self.lexer.slice(start, self.behind));
            }
        }
    }
}

/// Whether a word is a name only behind a `%`.
#[inline]
pub(crate) fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "ENTRY"
            | "HloModule"
            | "ROOT"
            | "false"
            | "inf"
            | "last_tile_dim_replicate"
            | "manual"
            | "maximal"
            | "nan"
            | "replicated"
            | "shard_as"
            | "shard_like"
            | "true"
            | "unknown"
            | "unreduced"
    )
}

/// Whether a word has the form of a name. `percent`: a `%` stands before it.
#[inline]
fn is_name(word: &str, percent: bool) -> bool {
    let first = word.as_bytes().first().copied().unwrap_or(0);
    (first.is_ascii_alphabetic() || first == b'_') && (percent || !is_keyword(word))
}

/// Whether a word cannot name an instruction: it reads as a type.
pub(crate) fn reserved(name: &str) -> bool {
    // Few names begin as a type does: a letter and a digit, or one of four words.
    let begins = match name.as_bytes() {
        [b's' | b'u' | b'f' | b'c', second, ..] => second.is_ascii_digit(),
        [first, second, ..] => matches!(&[*first, *second], b"pr" | b"bf" | b"to" | b"op"),
        _ => false,
    };
    begins && name.len() <= 13 && HloType::from_name(name).is_some()
}
