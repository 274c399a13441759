//! The lexer of HLO text: bytes in, one token at a time out, each with its place.
//!
//! HLO text has few token kinds once numbers, names and dimension lists are all taken as *words*: a word is a run of
//! letters, digits, `_`, `.` and `-` (an exponent may carry a `+`), and it knows whether `=` follows directly, which
//! makes it an attribute's name. Comments (`/* */`, `//`) and white space separate tokens and are otherwise skipped.
//! Facts: `spec/hlo.md 4`.

use murre_components::diag::Span;
pub use murre_components::hlo::source::{escape, unescape};
use std::cell::Cell;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tok<'a> {
    /// A name, number or dimension list.
    Word(&'a str),
    /// A word directly followed by `=`; the `=` belongs to the token.
    AttrName(&'a str),
    /// A quoted text without its quotes, escapes still in it.
    Str(&'a str),
    /// A single character of `{}()[],=:?%*`.
    Punct(u8),
    /// `->`
    Arrow,
    /// `<=`
    AtMost,
    /// `...`
    Ellipsis,
    /// A character that has no place in HLO text.
    Bad(char),
    /// A comment or a quoted text without its end.
    Open(&'static str),
    /// The end of the input.
    End,
}

/// A token, where it starts and where it ends. Its column is counted on demand ([`Lexer::span`]): a constant can
/// have a line of many megabytes.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub tok: Tok<'a>,
    /// Byte offset of its first character.
    pub start: usize,
    /// Byte offset behind its last character.
    pub end: usize,
    line: u32,
    line_start: usize,
}

/// A cursor over HLO text.
#[derive(Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
    /// Start of a line, a byte offset in it, and the characters before that.
    counted: Cell<(usize, usize, usize)>,
}

/// Bytes of words.
const WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        table[b] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        b += 1;
    }
    table
};

/// Whether a byte may stand in a word: a letter, a digit, `_`, `.` or `-`.
#[inline]
pub(crate) fn is_word(b: u8) -> bool {
    WORD[b as usize]
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Lexer { text, at: 0, line: 1, line_start: 0, counted: Cell::default() }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The text between two byte offsets that tokens reported.
    pub fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or("")
    }

    /// The whole text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Goes on reading at a byte offset further on in the same line.
    pub(super) fn jump(&mut self, at: usize) {
        self.at = at;
    }

    /// Goes on reading at a byte offset further on, which has this line and, only spaces before it, this column.
    pub(super) fn jump_lines(&mut self, at: usize, line: u32, column: u32) {
        (self.at, self.line, self.line_start) = (at, line, at + 1 - column as usize);
    }

    /// Goes on reading at a byte offset further on, perhaps in another line.
    pub(super) fn jump_counting(&mut self, at: usize) {
        let passed = &self.text.as_bytes()[self.at.min(at)..at];
        self.line += memchr::memchr_iter(b'\n', passed).count() as u32;
        if let Some(last) = memchr::memrchr(b'\n', passed) {
            self.line_start = self.at + last + 1;
        }
        self.at = at;
    }

    fn advance_line(&mut self) {
        self.line += 1;
        self.line_start = self.at;
    }

    /// Skips white space and comments; says when a comment does not end.
    fn skip_blank(&mut self) -> bool {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.at += 1;
                    self.advance_line();
                }
                (b' ' | b'\t' | b'\r' | 0x0c | 0x0b, _) => self.at += 1,
                (b'/', b'/') => {
                    while self.at < self.text.len() && self.byte(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    while (self.byte(0), self.byte(1)) != (b'*', b'/') {
                        if self.at >= self.text.len() {
                            return false;
                        }
                        self.at += 1;
                        if self.text.as_bytes().get(self.at - 1) == Some(&b'\n') {
                            self.advance_line();
                        }
                    }
                    self.at += 2;
                }
                _ => return true,
            }
        }
    }

    /// The next token. After the end it is `End` for ever.
    pub fn next_token(&mut self) -> Token<'a> {
        let closed = self.skip_blank();
        let start = self.at;
        let (line, line_start) = (self.line, self.line_start);
        let tok = if closed { self.scan(start) } else { Tok::Open("a comment") };
        Token { tok, start, end: self.at.min(self.text.len()), line, line_start }
    }

    /// Line and column of a token, from 1, in characters. Counts on from the place asked for last, where that is in the same
    /// line: a line may hold a whole module.
    pub fn span(&self, token: &Token<'_>) -> Span {
        let (line_start, at, passed) = self.counted.get();
        let (from, before) = if line_start == token.line_start && at <= token.start {
            (at, passed)
        } else {
            (token.line_start, 0)
        };
        let column = before + self.text.get(from..token.start).map_or(0, |t| t.chars().count());
        self.counted.set((token.line_start, token.start, column));
        Span { line: token.line, column: u32::try_from(column).unwrap_or(u32::MAX).saturating_add(1) }
    }

    fn scan(&mut self, start: usize) -> Tok<'a> {
        if start >= self.text.len() {
            return Tok::End;
        }
        let first = self.byte(0);
        match first {
            b'.' if self.byte(1) == b'.' && self.byte(2) == b'.' => {
                self.at += 3;
                Tok::Ellipsis
            }
            b'-' if self.byte(1) == b'>' => {
                self.at += 2;
                Tok::Arrow
            }
            b'<' if self.byte(1) == b'=' => {
                self.at += 2;
                Tok::AtMost
            }
            b'"' => self.scan_text(),
            b if is_word(b) && b != b'.' => self.scan_word(start),
            b'{' | b'}' | b'(' | b')' | b'[' | b']' | b',' | b'=' | b':' | b'?' | b'%' | b'*' | b'<'
            | b'>' | b'@' => {
                self.at += 1;
                Tok::Punct(first)
            }
            _ => {
                let c = self.text.get(start..).and_then(|t| t.chars().next()).unwrap_or('\0');
                self.at += c.len_utf8();
                Tok::Bad(c)
            }
        }
    }

    fn scan_word(&mut self, start: usize) -> Tok<'a> {
        let numeric = matches!(self.byte(0), b'0'..=b'9' | b'-');
        while is_word(self.byte(0)) || numeric && self.byte(0) == b'+' && self.after_exponent() {
            match self.byte(0) {
                b'-' if self.byte(1) == b'>' => break,
                b'.' if self.byte(1) == b'.' && self.byte(2) == b'.' => break,
                _ => self.at += 1,
            }
        }
        let word = &self.text[start..self.at];
        if self.byte(0) == b'=' {
            self.at += 1;
            return Tok::AttrName(word);
        }
        Tok::Word(word)
    }

    fn after_exponent(&self) -> bool {
        self.at > 0 && matches!(self.text.as_bytes().get(self.at - 1), Some(b'e' | b'E'))
    }

    fn scan_text(&mut self) -> Tok<'a> {
        let start = self.at + 1;
        self.at = start;
        loop {
            match self.byte(0) {
                _ if self.at >= self.text.len() => return Tok::Open("a quoted text"),
                b'"' => {
                    let text = self.slice(start, self.at);
                    self.at += 1;
                    return Tok::Str(text);
                }
                b'\\' => self.at += 2,
                b'\n' => {
                    self.at += 1;
                    self.advance_line();
                }
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Tok<'_>> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            match lexer.next_token().tok {
                Tok::End => return out,
                t => out.push(t),
            }
        }
    }

    #[test]
    fn tokens_of_an_instruction() {
        assert_eq!(
            words("%a.1 = f32[<=2]{0} /* x */ add(b-c), k=1 // end\n"),
            [
                Tok::Punct(b'%'),
                Tok::Word("a.1"),
                Tok::Punct(b'='),
                Tok::Word("f32"),
                Tok::Punct(b'['),
                Tok::AtMost,
                Tok::Word("2"),
                Tok::Punct(b']'),
                Tok::Punct(b'{'),
                Tok::Word("0"),
                Tok::Punct(b'}'),
                Tok::Word("add"),
                Tok::Punct(b'('),
                Tok::Word("b-c"),
                Tok::Punct(b')'),
                Tok::Punct(b','),
                Tok::AttrName("k"),
                Tok::Word("1"),
            ]
        );
        assert_eq!(words("b01f_01io->b01f {...}").len(), 6);
        assert_eq!(words("-3.25e+05"), [Tok::Word("-3.25e+05")]);
        assert_eq!(words("a # b"), [Tok::Word("a"), Tok::Bad('#'), Tok::Word("b")]);
        assert_eq!(words("/* a"), [Tok::Open("a comment")]);
    }

    #[test]
    fn places_count_characters_from_one() {
        let mut lexer = Lexer::new("a\n  \"é\" b");
        for (line, column) in [(1, 1), (2, 3), (2, 7)] {
            let token = lexer.next_token();
            assert_eq!(lexer.span(&token), Span { line, column });
        }
    }
}
