//! Constants of HLO text: `3`, `{ { 1, 2 }, { 3, 4 } }`, `(1.5, {1,2})` for a known shape.
//!
//! The braces must nest as deep as the shape has dimensions, and every dimension must have its number of elements.
//! An elided constant (`{...}`) is refused: a reader that guesses its values computes nonsense.

use super::{Parse, Parser};
use crate::hlo::lex::Tok;
use crate::hlo::number::{NumberFault, parse_element};
use murre_components::diag::codes::read;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Literal, Shape};

impl<'a> Parser<'a> {
    /// The literal of a constant with this shape; the parentheses around it are the caller's.
    pub(super) fn literal(&mut self, shape: &Shape) -> Parse<Literal> {
        // Shapes nest at most MAX_TUPLE_DEPTH deep, so an explicit stack of open tuples is bounded as well.
        let mut open: Vec<(&[Shape], Vec<Literal>)> = Vec::new();
        let mut next = shape;
        loop {
            let mut done = match next {
                Shape::Array(array) => self.array_literal(array)?,
                Shape::Tuple(parts) => {
                    self.expect(b'(')?;
                    match parts.first() {
                        Some(first) => {
                            open.push((parts, Vec::new()));
                            next = first;
                            continue;
                        }
                        None => {
                            self.expect(b')')?;
                            Literal::Tuple(Vec::new())
                        }
                    }
                }
                Shape::Token | Shape::Opaque => {
                    return Err(
                        self.fault(&read::READ_LITERAL_SHAPE, "a token or opaque value has no literal")
                    );
                }
            };
            loop {
                let Some((parts, made)) = open.last_mut() else { return Ok(done) };
                made.push(done);
                if let Some(part) = parts.get(made.len()) {
                    next = part;
                    self.expect(b',')?;
                    break;
                }
                self.expect(b')')?;
                done = Literal::Tuple(open.pop().map(|(_, made)| made).unwrap_or_default());
            }
        }
    }

    fn array_literal(&mut self, shape: &ArrayShape) -> Parse<Literal> {
        let rank = shape.rank();
        let mut data = Vec::new();
        // Elements seen so far at each open brace.
        let mut counts: Vec<i64> = Vec::new();
        loop {
            if self.eat(b'{') {
                if self.tok.tok == Tok::Ellipsis {
                    let fault = self
                        .fault(&read::READ_ELIDED, "the values of this constant were left out of the dump");
                    return Err(Box::new(fault.help(
                        "dump with print_large_constants=true (XLA_FLAGS=--xla_dump_large_constants)",
                    )));
                }
                if counts.len() >= rank {
                    let what = format!("braces nest deeper than {shape} has dimensions");
                    return Err(self.fault(&read::READ_LITERAL_SHAPE, what));
                }
                counts.push(0);
                if !self.is(b'}') {
                    continue;
                }
            } else if counts.len() == rank {
                self.element(shape.ty, &mut data)?;
                if rank == 0 {
                    break;
                }
                if let Some(count) = counts.last_mut() {
                    *count += 1;
                }
                // Commas may be missing, or stand before the brace.
                if self.eat(b',') && !self.is(b'}') || matches!(self.tok.tok, Tok::Word(_)) {
                    continue;
                }
            } else {
                return Err(self.unexpected("'{'"));
            }
            // Close as many braces as end here.
            loop {
                if !self.is(b'}') {
                    return Err(self.unexpected("',' or '}'"));
                }
                let dimension = counts.len().saturating_sub(1);
                let (found, wanted) =
                    (counts.pop().unwrap_or(0), shape.dims.get(dimension).copied().unwrap_or(0));
                if found != wanted {
                    let what =
                        format!("dimension {dimension} of this constant has {found} elements, not {wanted}");
                    let fault = self.fault(&read::READ_LITERAL_SHAPE, what);
                    return Err(Box::new(
                        fault.found(found.to_string()).expected(format!("{wanted} for {shape}")),
                    ));
                }
                self.advance();
                match counts.last_mut() {
                    Some(count) => *count += 1,
                    None => return Ok(Literal::Array { shape: shape.clone(), data: data.into() }),
                }
                if self.eat(b',') && !self.is(b'}') || self.is(b'{') {
                    break;
                }
            }
        }
        Ok(Literal::Array { shape: shape.clone(), data: data.into() })
    }

    fn element(&mut self, ty: HloType, data: &mut Vec<u8>) -> Parse<()> {
        if matches!(ty, HloType::C64 | HloType::C128) {
            let part = if ty == HloType::C64 { HloType::F32 } else { HloType::F64 };
            if self.eat(b'(') {
                self.real(part, data)?;
                self.expect(b',')?;
                self.real(part, data)?;
                return self.expect(b')');
            }
            return Err(self.unexpected("a complex value such as (1, -4)"));
        }
        self.real(ty, data)
    }

    fn real(&mut self, ty: HloType, data: &mut Vec<u8>) -> Parse<()> {
        let Tok::Word(text) = self.tok.tok else { return Err(self.unexpected("a value")) };
        let at = self.tok;
        self.advance();
        let mut payload = None;
        if matches!(text, "nan" | "-nan") && self.eat(b'(') {
            payload = Some(self.word("a NaN payload")?);
            self.expect(b')')?;
        }
        let bits = match parse_element(ty, text, payload) {
            Ok(bits) => bits,
            Err(NumberFault::Malformed) => {
                let fault = self.diagnostic(
                    &read::READ_SYNTAX,
                    self.lexer.span(&at),
                    format!("'{text}' is no value of type {}", ty.name()),
                );
                return Err(Box::new(fault.found(text).expected(format!("a value of type {}", ty.name()))));
            }
            Err(NumberFault::Range) => {
                let what = format!("{text} does not fit {}", ty.name());
                let fault =
                    self.diagnostic(&read::READ_LITERAL_RANGE, self.lexer.span(&at), what).found(text);
                self.note(fault.expected(format!("a value in the range of {}", ty.name())))?;
                0
            }
        };
        data.extend_from_slice(&bits.to_le_bytes()[..ty.bytes().min(8)]);
        Ok(())
    }
}
