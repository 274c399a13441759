//! Shapes of HLO text: `f32[2,<=3]{1,0:T(8,128)}`, `(f32[], (s32[2], pred[]))`, `token[]`.
//!
//! Tiles, memory spaces and element sizes in a layout are kept as written: they do not change a program's meaning.

use super::{Parse, Parser};
use crate::hlo::lex::{Tok, Token};
use murre_components::diag::codes::read;
use murre_components::dtype::HloType;
use murre_components::hlo::{ArrayShape, Shape, UNBOUNDED};
use murre_components::ids::ShapeId;

/// Tuples may nest this deep: what walks or drops a shape recurses.
pub(crate) const MAX_TUPLE_DEPTH: usize = 64;

impl<'a> Parser<'a> {
    /// Whether a shape starts at the current token.
    pub(super) fn at_shape(&self) -> bool {
        match self.tok.tok {
            Tok::Punct(b'(') => true,
            Tok::Word(_) => self.peek() == Tok::Punct(b'['),
            _ => false,
        }
    }

    /// A shape in the module's table.
    pub(super) fn shape_id(&mut self) -> Parse<ShapeId> {
        let start = self.tok.start;
        let shape = self.shape()?;
        let id = self.module.intern_shape(shape);
        self.remember_shape(start, self.behind, id);
        Ok(id)
    }

    /// A shape.
    pub(super) fn shape(&mut self) -> Parse<Shape> {
        let mut open: Vec<Vec<Shape>> = Vec::new();
        loop {
            let mut done = if self.eat(b'(') {
                if open.len() >= MAX_TUPLE_DEPTH {
                    let what = format!("tuples nest more than {MAX_TUPLE_DEPTH} deep");
                    return Err(self.fault(&read::READ_TOO_DEEP, what));
                }
                if !self.eat(b')') {
                    open.push(Vec::new());
                    continue;
                }
                Shape::Tuple(Vec::new())
            } else {
                self.leaf_shape()?
            };
            loop {
                let Some(parts) = open.last_mut() else { return Ok(done) };
                parts.push(done);
                if self.eat(b',') {
                    break;
                }
                self.expect(b')')?;
                done = Shape::Tuple(open.pop().unwrap_or_default());
            }
        }
    }

    fn leaf_shape(&mut self) -> Parse<Shape> {
        let at = self.tok;
        let word = self.word("a shape")?;
        let Some(ty) = HloType::from_name(word).filter(|t| *t != HloType::Tuple) else {
            let fault = self.diagnostic(
                &read::READ_SHAPE,
                self.lexer.span(&at),
                format!("'{word}' is no element type"),
            );
            return Err(Box::new(fault.found(word).expected("an element type such as f32, s32 or pred")));
        };
        self.expect(b'[')?;
        let (mut dims, mut dynamic) = (Vec::new(), Vec::new());
        while !self.eat(b']') {
            if !dims.is_empty() {
                self.expect(b',')?;
            }
            if self.eat(b'?') {
                dims.push(UNBOUNDED);
                dynamic.push(true);
                continue;
            }
            let bounded = self.tok.tok == Tok::AtMost;
            if bounded {
                self.advance();
            }
            let at = self.tok;
            let extent = self.int()?;
            if extent < 0 {
                let fault = self.diagnostic(
                    &read::READ_SHAPE,
                    self.lexer.span(&at),
                    "a dimension's extent is negative",
                );
                return Err(Box::new(fault.found(extent.to_string())));
            }
            dims.push(extent);
            dynamic.push(bounded);
        }
        if !dynamic.contains(&true) {
            dynamic.clear();
        }
        let (layout, layout_note) =
            if self.at_layout() { self.layout(dims.len())? } else { Default::default() };
        Ok(match ty {
            HloType::Token => Shape::Token,
            HloType::Opaque => Shape::Opaque,
            _ => Shape::Array(ArrayShape { ty, dims, dynamic, layout, layout_note }),
        })
    }

    /// A `{` behind a shape opens a layout, or a computation's body behind its signature.
    fn at_layout(&self) -> bool {
        self.is(b'{')
            && match self.peek() {
                Tok::Word(w) => w.bytes().all(|b| b.is_ascii_digit()),
                Tok::Punct(b'}' | b':') => true,
                _ => false,
            }
    }

    fn layout(&mut self, rank: usize) -> Parse<(Vec<i64>, Box<str>)> {
        let at = self.tok;
        self.expect(b'{')?;
        let mut order = Vec::new();
        let mut seen = vec![false; rank];
        while let Tok::Word(_) = self.tok.tok {
            let d = self.int()?;
            match usize::try_from(d).ok().and_then(|d| seen.get_mut(d)) {
                Some(slot) if !*slot => *slot = true,
                _ => return Err(self.bad_layout(at, rank)),
            }
            order.push(d);
            if !self.eat(b',') {
                break;
            }
        }
        let note = if self.is(b':') { self.layout_note()? } else { "" };
        self.expect(b'}')?;
        if order.len() != rank
            || rank == 0 && self.lexer.slice(self.behind.saturating_sub(2), self.behind) == "{}"
        {
            return Err(self.bad_layout(at, rank));
        }
        Ok((order, note.into()))
    }

    /// What a layout says behind the colon: each kind at most once, in the order in which XLA writes them.
    fn layout_note(&mut self) -> Parse<&'a str> {
        let (text, start) = (self.lexer.text(), self.tok.end);
        let rest = &text[start..];
        let end = rest.find('}').filter(|e| !rest[..*e].contains('\n'));
        let Some(note) = end.map(|e| &rest[..e]) else { return Err(self.unexpected("'}'")) };
        let mut left = note.trim();
        for kind in ["D", "T", "L", "E", "SC", "S", "M"] {
            let mut groups = left.strip_prefix(kind).filter(|l| l.starts_with('('));
            while let Some(group) = groups {
                let Some(close) = group.find(')') else { return Err(self.unexpected("')' in a layout")) };
                let inside = &group[1..close];
                let fits = match kind {
                    "D" | "SC" => true,
                    "T" => inside
                        .split(',')
                        .all(|n| n.trim() == "*" || n.trim().parse::<u32>().is_ok_and(|n| n > 0)),
                    _ => inside.trim().parse::<u32>().is_ok(),
                };
                if !fits {
                    return Err(self.unexpected("tiles and sizes above 0 in a layout"));
                }
                left = group[close + 1..].trim_start();
                // Only tiles may follow each other.
                groups = Some(left).filter(|l| kind == "T" && l.starts_with('('));
            }
        }
        if !left.is_empty() {
            let expected = "T(tiles), L(alignment), E(bits), S(space) or M(bytes), in this order";
            let fault = self.fault(&read::READ_SHAPE, "a layout says something unknown").found(left);
            return Err(Box::new(fault.expected(expected)));
        }
        self.lexer.jump(start + note.len());
        self.tok.end = start + note.len();
        self.advance();
        Ok(note.trim())
    }

    fn bad_layout(&self, at: Token<'_>, rank: usize) -> super::Fault {
        let what = "a layout must name every dimension once (a scalar has none)";
        Box::new(
            self.diagnostic(&read::READ_SHAPE, self.lexer.span(&at), what)
                .expected(format!("an order of {rank} dimensions")),
        )
    }
}
