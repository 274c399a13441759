//! A line of the usual form, `name = shape opcode(operands), attributes`, in one go.
//!
//! Dumps repeat themselves: the same shapes, the same attributes, the same small constants, thousands of times. What the
//! token reader has understood once is found again by its text. A line whose every part is known is taken without
//! tokens; any other is left untouched to the token reader, which gives the same result for every line
//! ([`super::read_text_by_token`] reads all of them so).

use super::{Parser, is_keyword, is_name, reserved};
use crate::hlo::lex::is_word;
use memchr::memmem;
use murre_components::diag::Span;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{Attrs, Draft, HloOp};
use murre_components::ids::{AttrId, CompId, HloId, ShapeId, TextId};

/// A cache takes no more entries than this: what repeats is seen early.
const MOST_ENTRIES: usize = 1 << 14;
/// Attributes longer than this are left to the token reader: a text need not have lines at all.
const LONGEST_LINE: usize = 1 << 14;
/// Longest text of a constant that is remembered.
const SMALL_LITERAL: usize = 96;

/// Understood attributes: their id, and ranges of called computations and kept texts in the cache.
#[derive(Clone, Copy)]
struct Known {
    attrs: AttrId,
    called: (u32, u32),
    kept: (u32, u32),
}

/// What is known by its text.
pub(super) struct Cache<'a> {
    on: bool,
    shapes: SeededMap<&'a str, ShapeId>,
    literals: SeededMap<(ShapeId, &'a str), AttrId>,
    attributes: SeededMap<(HloOp, &'a str), Known>,
    /// Those of lines without attributes, by operation.
    bare: [Option<Known>; HloOp::ALL.len()],
    metadata: memmem::Finder<'static>,
    called: Vec<CompId>,
    kept: Vec<(TextId, TextId)>,
    /// Room for the operands of the instruction that is being read.
    pub operands: Vec<HloId>,
}

impl<'a> Cache<'a> {
    pub fn new() -> Self {
        Cache {
            on: true,
            shapes: seeded_map(),
            literals: seeded_map(),
            attributes: seeded_map(),
            bare: [None; HloOp::ALL.len()],
            metadata: memmem::Finder::new(METADATA),
            called: Vec::new(),
            kept: Vec::new(),
            operands: Vec::new(),
        }
    }

    /// A cache that knows nothing and learns nothing.
    pub fn off() -> Self {
        Cache { on: false, ..Cache::new() }
    }
}

/// A cursor over the bytes of a line. Every step is `None` where the line is not of the usual form.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn eat(&mut self, c: u8) -> Option<()> {
        (self.byte() == c).then(|| self.at += 1)
    }

    /// The longest run of the bytes of words.
    #[inline]
    fn run(&mut self) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let n = rest.iter().position(|b| !is_word(*b)).unwrap_or(rest.len());
        let run = &self.text[self.at..self.at + n];
        self.at += n;
        run
    }

    #[inline]
    fn word(&mut self) -> Option<&'a str> {
        let run = self.run();
        // `...` and `->` are no parts of a word.
        let whole = !run.is_empty() && !run.ends_with('-') && !run.as_bytes().windows(2).any(|w| w == b"..");
        whole.then_some(run)
    }

    /// The text up to the next space, which is a shape if it is known as one.
    #[inline]
    fn unspaced(&mut self) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let n = rest.iter().position(|b| matches!(b, b' ' | b'\n')).unwrap_or(rest.len());
        let text = &self.text[self.at..self.at + n];
        self.at += n;
        text
    }

    /// The text of a shape: `f32[2]{0}` or a balanced `( ... )`.
    #[inline]
    fn shape(&mut self) -> Option<&'a str> {
        let (start, bytes) = (self.at, self.text.as_bytes());
        if self.byte() == b'(' {
            let mut depth = 0u32;
            loop {
                match *bytes.get(self.at)? {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    b'\n' | b'"' => return None,
                    _ => {}
                }
                self.at += 1;
                if depth == 0 {
                    return Some(&self.text[start..self.at]);
                }
            }
        }
        for close in [b']', b'}'] {
            if close == b'}' && self.byte() != b'{' {
                break;
            }
            while *bytes.get(self.at)? != close {
                if bytes[self.at] == b'\n' {
                    return None;
                }
                self.at += 1;
            }
            self.at += 1;
        }
        Some(&self.text[start..self.at])
    }
}

impl<'a> Parser<'a> {
    /// Reads the lines of instructions from the current token on, as long as every part of them is known. No token is
    /// made in between.
    pub(super) fn lines(&mut self, root: &mut Option<HloId>) {
        if !self.cache.on || !self.faults.is_empty() {
            return;
        }
        let mut operands = std::mem::take(&mut self.cache.operands);
        let start = self.tok.start;
        let Span { mut line, mut column } = self.span();
        let mut c = Cursor { text: self.lexer.text(), at: start };
        let (mut begin, mut behind) = (start, start);
        loop {
            let is_root = c.text.as_bytes()[begin..].starts_with(ROOT);
            if is_root && root.is_some() {
                // A second one is a fault.
                break;
            }
            let before = if is_root { ROOT.len() } else { 0 };
            c.at += before;
            operands.clear();
            let place = (line, column.saturating_add(before as u32));
            let Some(id) = self.known_line(&mut c, &mut operands, place) else { break };
            if is_root {
                *root = Some(id);
            }
            behind = c.at;
            let mut line_start = behind;
            while let Some(blank) = c.text.as_bytes().get(c.at).filter(|b| b.is_ascii_whitespace()) {
                c.at += 1;
                if *blank == b'\n' {
                    (line, line_start) = (line + 1, c.at);
                }
            }
            begin = c.at;
            column = u32::try_from(begin - line_start).unwrap_or(u32::MAX).saturating_add(1);
        }
        self.cache.operands = operands;
        if begin > start {
            self.lexer.jump_lines(begin, line, column);
            self.tok = self.lexer.next_token();
            self.behind = behind;
        }
    }

    /// Reads one line. The cursor stands behind it afterwards.
    #[inline]
    fn known_line(
        &mut self,
        c: &mut Cursor<'a>,
        operands: &mut Vec<HloId>,
        (line, column): (u32, u32),
    ) -> Option<HloId> {
        let percent = c.eat(b'%').is_some();
        let name = c.word().filter(|n| is_name(n, percent) && !reserved(n))?;
        for b in *b" = " {
            c.eat(b)?;
        }
        let text = if c.byte() == b'(' { c.shape()? } else { c.unspaced() };
        let shape = *self.cache.shapes.get(text)?;
        c.eat(b' ')?;
        let op = HloOp::from_name(c.run())?;
        c.eat(b'(')?;
        let mut own = AttrId::NONE;
        match op {
            HloOp::Parameter => {
                let number = c.word()?.parse().ok()?;
                own = self.module.intern_attrs(Attrs::Parameter { number });
            }
            HloOp::Constant => own = self.known_literal(c, shape)?,
            _ => self.known_operands(c, operands)?,
        }
        c.eat(b')')?;
        let (known, metadata) = self.known_attributes(c, op)?;
        let metadata = metadata.map_or(TextId::NONE, |text| self.module.intern_text(text));
        let part = |(from, to): (u32, u32)| from as usize..to as usize;
        let id = self.module.push(Draft {
            operands,
            called: &self.cache.called[part(known.called)],
            attrs: if own.is_some() { own } else { known.attrs },
            kept: &self.cache.kept[part(known.kept)],
            metadata,
            line,
            column: u16::try_from(column).unwrap_or(u16::MAX),
            ..Draft::new(name, op, shape)
        });
        if !self.names.insert(&self.module, id, name) {
            // The token reader says what is wrong with it.
            self.module.truncate(id);
            return None;
        }
        Some(id)
    }

    fn known_literal(&mut self, c: &mut Cursor<'a>, shape: ShapeId) -> Option<AttrId> {
        let start = c.at;
        let bytes = c.text.as_bytes();
        let mut depth = 0;
        loop {
            match *bytes.get(c.at)? {
                b'(' => depth += 1,
                b')' if depth == 0 => break,
                b')' => depth -= 1,
                b'\n' => return None,
                _ => {}
            }
            c.at += 1;
            if c.at - start > SMALL_LITERAL {
                return None;
            }
        }
        self.cache.literals.get(&(shape, &c.text[start..c.at])).copied()
    }

    #[inline]
    fn known_operands(&mut self, c: &mut Cursor<'a>, operands: &mut Vec<HloId>) -> Option<()> {
        if c.byte() == b')' {
            return Some(());
        }
        loop {
            // `/*index=5*/` stands before every fifth operand of a long list.
            if c.byte() == b'/' {
                let near = c.text.get(c.at..c.text.len().min(c.at + 24))?;
                let comment = &near[..near.find("*/")? + 2];
                if !comment.starts_with("/*") || comment.len() < 4 || comment.contains('\n') {
                    return None;
                }
                c.at += comment.len();
            }
            let before = *c;
            let percent = c.eat(b'%').is_some();
            let name = c.run();
            // What ends in a bracket is the shape of what follows it.
            if matches!(c.byte(), b'(' | b'[') {
                *c = before;
                let shape = c.shape()?;
                self.known_operand(c, shape, operands)?;
            } else {
                operands.push(self.known_name(name, percent)?);
            }
            match c.byte() {
                b')' => return Some(()),
                b',' => {
                    c.at += 1;
                    c.eat(b' ')?;
                }
                _ => return None,
            }
        }
    }

    /// The instruction of this name. What is found has the form of a name.
    #[inline]
    fn known_name(&self, name: &str, percent: bool) -> Option<HloId> {
        self.names.get(&self.module, name).filter(|_| percent || !is_keyword(name))
    }

    /// The name behind an operand's shape; the shape must be the operand's own.
    fn known_operand(&mut self, c: &mut Cursor<'a>, shape: &str, operands: &mut Vec<HloId>) -> Option<()> {
        let shape = *self.cache.shapes.get(shape)?;
        c.eat(b' ')?;
        let percent = c.eat(b'%').is_some();
        let id = self.known_name(c.run(), percent)?;
        let actual = self.module.inst(id);
        operands.push(id);
        (actual.shape_id() == shape || actual.shape().same(self.module.shape(shape))).then_some(())
    }

    /// The attributes up to the end of the line, and the text of the metadata that may stand behind them.
    #[inline]
    fn known_attributes(&self, c: &mut Cursor<'a>, op: HloOp) -> Option<(Known, Option<&'a str>)> {
        if c.byte() == b'\n' {
            let known = self.cache.bare[op as usize]?;
            return begins_line(c).then_some((known, None));
        }
        let rest = &c.text.as_bytes()[c.at..];
        let rest = &rest[..rest.len().min(LONGEST_LINE)];
        let mut end = memchr::memchr(b'\n', rest)?;
        let behind = end;
        if end > 0 && rest[end - 1] == b'\r' {
            end -= 1;
        }
        let mut line = &c.text[c.at..c.at + end];
        let mut metadata = None;
        if line.len() > METADATA.len()
            && let Some(at) = self.cache.metadata.find(line.as_bytes())
        {
            // The closing brace must be the last of the line.
            metadata = Some(closed(&line[at + METADATA.len()..])?);
            line = &line[..at];
        }
        let known = *self.cache.attributes.get(&(op, line))?;
        c.at += behind;
        begins_line(c).then_some((known, metadata))
    }

    /// Keeps the shape that the token reader found between two byte offsets.
    pub(super) fn remember_shape(&mut self, start: usize, end: usize, shape: ShapeId) {
        let text = self.lexer.slice(start, end);
        let whole = {
            let mut c = Cursor { text, at: 0 };
            c.shape().is_some_and(|s| s.len() == text.len())
        };
        if self.cache.on && whole && self.cache.shapes.len() < MOST_ENTRIES {
            self.cache.shapes.insert(text, shape);
        }
    }

    /// Keeps the constant that the token reader found between two byte offsets.
    pub(super) fn remember_literal(&mut self, shape: ShapeId, start: usize, end: usize, attrs: AttrId) {
        let text = self.lexer.slice(start, end);
        if self.cache.on && text.len() <= SMALL_LITERAL && self.cache.literals.len() < MOST_ENTRIES {
            self.cache.literals.insert((shape, text), attrs);
        }
    }

    /// Keeps the attributes that the token reader found from byte offset `start` on, up to metadata at `metadata` or to
    /// where it stands now. For parameters and constants only that they have none counts.
    pub(super) fn remember_attributes(
        &mut self,
        op: HloOp,
        start: usize,
        metadata: Option<(usize, bool)>,
        attrs: AttrId,
        called: &[CompId],
        kept: &[(TextId, TextId)],
    ) {
        let end = match metadata {
            Some((at, true)) => at,
            // Attributes behind the metadata: not the usual form.
            Some((_, false)) => return,
            None => self.behind,
        };
        let text = self.lexer.slice(start, end);
        let fits = self.cache.on
            && self.faults.is_empty()
            && self.cache.attributes.len() < MOST_ENTRIES
            && !text.contains('\n')
            // Names that are looked up in the computation.
            && !text.contains("control-predecessors");
        if !fits {
            return;
        }
        let from = (self.cache.called.len() as u32, self.cache.kept.len() as u32);
        self.cache.called.extend_from_slice(called);
        self.cache.kept.extend_from_slice(kept);
        let to = (self.cache.called.len() as u32, self.cache.kept.len() as u32);
        let known = Known { attrs, called: (from.0, to.0), kept: (from.1, to.1) };
        if text.is_empty() {
            self.cache.bare[op as usize] = Some(known);
        }
        self.cache.attributes.insert((op, text), known);
    }
}

/// Whether what follows behind the end of a line begins another instruction or ends the computation.
#[inline]
fn begins_line(c: &Cursor<'_>) -> bool {
    let next = c.text.as_bytes()[c.at..].iter().find(|b| !b.is_ascii_whitespace());
    next.is_some_and(|b| is_word(*b) || matches!(b, b'%' | b'}'))
}

/// What stands before the name of the root.
const ROOT: &[u8] = b"ROOT ";
/// What stands before the text of metadata.
const METADATA: &str = ", metadata={";

/// Fields of metadata that hold a quoted text, and those that hold a number.
pub(super) const METADATA_TEXTS: [&str; 5] =
    ["op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name"];
pub(super) const METADATA_NUMBERS: [&str; 5] =
    ["source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id"];

/// The fields before the closing brace, if that is the last character and every field is a known one, given once, with a
/// space between them.
fn closed(text: &str) -> Option<&str> {
    let whole = text.strip_suffix('}')?;
    let mut rest = whole;
    let mut seen = 0u32;
    while !rest.is_empty() {
        let (key, value) = rest.split_once('=')?;
        let texts = METADATA_TEXTS.iter().position(|k| *k == key);
        let number = METADATA_NUMBERS.iter().position(|k| *k == key);
        let bit = 1 << texts.or(number.map(|n| n + METADATA_TEXTS.len()))?;
        if seen & bit != 0 {
            return None;
        }
        seen |= bit;
        let end = match texts {
            Some(_) => {
                let bytes = value.strip_prefix('"')?.as_bytes();
                memchr::memchr2(b'"', b'\\', bytes).filter(|at| bytes[*at] == b'"')? + 2
            }
            None => {
                let digits = value.bytes().take_while(u8::is_ascii_digit).count();
                // More digits may be more than a number holds.
                (1..=18).contains(&digits).then_some(digits)?
            }
        };
        rest = &value[end..];
        if !rest.is_empty() {
            rest = rest.strip_prefix(' ').filter(|r| !r.is_empty())?;
        }
    }
    Some(whole)
}
