//! One computation: its name, the optional signature, its instructions, and what must hold of them together.

use super::{Parse, Parser};
use crate::hlo::lex::Tok;
use murre_components::diag::codes::read;
use murre_components::hlo::{Computation, HloRange, Shape};
use murre_components::ids::{CompId, HloId};

impl<'a> Parser<'a> {
    pub(super) fn computation(&mut self) -> Parse<CompId> {
        let span = self.span();
        let name = self.name("a computation")?;
        let signature = self.signature()?;
        self.expect(b'{')?;
        let first = HloId::new(self.module.len());
        let lines = self.lines_ahead();
        self.names.begin(first, lines);
        self.module.reserve(lines);
        let mut root = None;
        loop {
            self.lines(&mut root);
            if self.eat(b'}') {
                break;
            }
            let span = self.span();
            let is_root = self.tok.tok == Tok::Word("ROOT");
            if is_root {
                self.advance();
            }
            let instruction = self.instruction()?;
            if is_root && root.replace(instruction).is_some() {
                let fault =
                    self.diagnostic(&read::READ_DUPLICATE, span, format!("a second ROOT in '{name}'"));
                self.note(fault)?;
            }
        }
        let mut extra = Vec::new();
        while self.eat(b',') {
            let at = self.span();
            let Tok::AttrName(key) = self.tok.tok else {
                return Err(self.unexpected("a computation attribute"));
            };
            self.advance();
            let value = self.raw_value()?;
            if !matches!(key, "execution_thread" | "is_fusion_computation") {
                let what = format!("a computation has no attribute '{key}'");
                let fault = self.diagnostic(&read::READ_UNKNOWN_ATTRIBUTE, at, what).found(key);
                self.note(fault.expected("execution_thread"))?;
            }
            extra.push((key.to_owned(), value.to_owned()));
        }
        let instructions = HloRange { first: first.0, count: self.module.len() as u32 - first.0 };
        let Some(last) = instructions.last() else {
            let fault = self.diagnostic(&read::READ_SYNTAX, span, format!("computation '{name}' is empty"));
            return Err(Box::new(fault.expected("an instruction")));
        };
        let mut root = root.unwrap_or(last);
        let first = self.unwrap_async(first, &mut root);
        let instructions = HloRange { first: first.0, count: instructions.count };
        let id = CompId::new(self.module.computations.len());
        if let Some(signature) = signature {
            let actual = self.module.inst(root).shape();
            if !signature.same(actual) && self.faults.is_empty() {
                let (found, expected) = (signature.to_string(), actual.to_string());
                let what = format!("'{name}' is declared to give {found}, but its root is {expected}");
                let fault = self.diagnostic(&read::READ_OPERAND_SHAPE, span, what);
                self.note(fault.found(found).expected(expected))?;
            }
        }
        let parameters = match self.module.numbered_parameters(instructions) {
            Ok(parameters) => parameters,
            Err(found) => {
                let what = format!("the parameters of '{name}' are not numbered 0, 1, 2 ...");
                let fault = self.diagnostic(&read::READ_PARAMETERS, span, what);
                self.note(fault.found(format!("{found:?}")))?;
                Vec::new()
            }
        };
        self.module.computations.push(Computation {
            name: name.to_owned(),
            instructions,
            parameters,
            root,
            extra,
        });
        if self.computations.insert(name, id).is_some() {
            let fault =
                self.diagnostic(&read::READ_DUPLICATE, span, format!("a second computation '{name}'"));
            self.note(fault)?;
        }
        Ok(id)
    }

    /// Lines up to the first that begins with a brace: about as many instructions as the computation has.
    fn lines_ahead(&mut self) -> usize {
        let text = self.lexer.text().as_bytes();
        let rest = &text[self.tok.start.min(text.len())..];
        // Looking ahead must not cost more than reading does, however the text is laid out.
        let rest = &rest[..rest.len().min(self.look_ahead)];
        let end = memchr::memmem::find(rest, b"\n}").unwrap_or(rest.len());
        self.look_ahead -= end;
        memchr::memchr_iter(b'\n', &rest[..end]).count()
    }

    /// `(p: f32[2]) -> f32[2]`: the parameters' shapes are stepped over, the result's is returned.
    fn signature(&mut self) -> Parse<Option<Shape>> {
        if !self.is(b'(') {
            return Ok(None);
        }
        self.skip_group()?;
        if self.tok.tok != Tok::Arrow {
            return Err(self.unexpected("'->'"));
        }
        self.advance();
        self.shape().map(Some)
    }
}
