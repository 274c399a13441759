//! HLO text in, module out. This file reads what stands around instructions: the header, the stack-frame tables and
//! the computations; [`instruction`], [`shape`], [`literal`] and [`attributes`] read the parts of a line.
//!
//! A line's own faults (an unknown opcode, an undefined operand, a value out of range) are collected and reading goes
//! on; where the text's structure breaks, reading stops, since what follows could only be guessed. Nothing here
//! recurses on the depth of the input. Facts: `spec/hlo.md 4`.

mod assemble;
mod attributes;
mod instruction;
mod literal;
mod shape;

pub(crate) use shape::MAX_TUPLE_DEPTH;

use crate::hlo::lex::{Lexer, Tok, Token, unescape};
use murre_components::diag::{Code, Diagnostic, Span, codes::read};
use murre_components::dtype::HloType;
use murre_components::hash::{SeededMap, seeded_map};
use murre_components::hlo::{Attrs, Computation, HloModule};
use murre_components::ids::{CompId, HloId};

/// A fault that ends reading.
pub(crate) type Fault = Box<Diagnostic>;
/// What a reading function gives.
pub(crate) type Parse<T> = Result<T, Fault>;

/// After this many faults reading stops.
const MAX_FAULTS: usize = 64;

/// Where instructions come from: the four tables of a dump with metadata, by the numbers they have there.
pub(crate) struct FrameTables {
    files: SeededMap<i64, String>,
    /// File and line.
    locations: SeededMap<i64, (i64, i64)>,
    frames: SeededMap<i64, i64>,
}

impl FrameTables {
    /// File and line of a stack frame.
    pub(crate) fn resolve(&self, frame: i64) -> Option<(&str, i64)> {
        let (file, line) = self.locations.get(self.frames.get(&frame)?)?;
        Some((self.files.get(file)?, *line))
    }
}

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    tok: Token<'a>,
    /// Byte offset behind the token before `tok`.
    behind: usize,
    origin: &'a str,
    module: HloModule,
    computations: SeededMap<&'a str, CompId>,
    /// The names of the computation being read.
    names: SeededMap<&'a str, HloId>,
    tables: FrameTables,
    faults: Vec<Diagnostic>,
}

/// Reads HLO text. `origin` names the input in diagnostics.
pub fn read_text(text: &str, origin: &str) -> Result<HloModule, Vec<Diagnostic>> {
    let mut lexer = Lexer::new(text);
    let tok = lexer.next_token();
    let mut parser = Parser {
        lexer,
        tok,
        behind: 0,
        origin,
        module: HloModule::default(),
        computations: seeded_map(),
        names: seeded_map(),
        tables: FrameTables { files: seeded_map(), locations: seeded_map(), frames: seeded_map() },
        faults: Vec::new(),
    };
    if let Err(fault) = parser.module() {
        parser.faults.push(*fault);
    }
    if parser.faults.is_empty() { Ok(parser.module) } else { Err(parser.faults) }
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
    fn span(&self) -> Span {
        self.lexer.span(&self.tok)
    }

    fn diagnostic(&self, code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, message)
            .in_file(self.origin)
            .at(span)
            .ordered(self.module.instructions.len() as u32)
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

    /// A name, with or without `%`.
    fn name(&mut self, what: &str) -> Parse<&'a str> {
        self.eat(b'%');
        if let Tok::AttrName(w) = self.tok.tok {
            let fault =
                self.fault(&read::READ_SYNTAX, format!("'{w}=' reads as an attribute, not as a name"));
            return Err(Box::new(fault.help("put a space before the '='")));
        }
        self.word(what)
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
    fn raw_value(&mut self) -> Parse<String> {
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
                return Ok(self.lexer.slice(start, self.behind).to_owned());
            }
        }
    }

    fn module(&mut self) -> Parse<()> {
        if self.tok.tok == Tok::End {
            return Err(self.fault(&read::READ_EMPTY, "the input has no HLO in it"));
        }
        if self.tok.tok == Tok::Word("HloModule") {
            self.advance();
            self.module.name = self.name("the module's name")?.to_owned();
            while self.eat(b',') {
                let Tok::AttrName(name) = self.tok.tok else {
                    return Err(self.unexpected("a module attribute"));
                };
                self.advance();
                let value = self.raw_value()?;
                self.module.extra.push((name.to_owned(), value));
            }
        }
        while let Tok::Word(table @ ("FileNames" | "FunctionNames" | "FileLocations" | "StackFrames")) =
            self.tok.tok
        {
            if !matches!(self.peek(), Tok::Word(w) if w.parse::<i64>().is_ok()) {
                break;
            }
            self.advance();
            self.table(table)?;
        }
        let mut entry: Option<CompId> = None;
        while self.tok.tok != Tok::End {
            let span = self.span();
            let is_entry = self.tok.tok == Tok::Word("ENTRY");
            if is_entry {
                self.advance();
            }
            let id = self.computation()?;
            if is_entry {
                if entry.is_some() {
                    let fault = self.diagnostic(&read::READ_ENTRY, span, "a second ENTRY computation");
                    self.note(fault)?;
                }
                entry = Some(id);
            }
        }
        match entry {
            Some(id) => self.module.entry = id,
            None if self.module.computations.is_empty() => {
                let code = if self.faults.is_empty() { &read::READ_CUT } else { &read::READ_ENTRY };
                return Err(self.fault(code, "the module has no computation"));
            }
            None => self.module.entry = CompId::new(self.module.computations.len() - 1),
        }
        Ok(())
    }

    fn table(&mut self, table: &str) -> Parse<()> {
        while let Tok::Word(w) = self.tok.tok {
            let Ok(number) = w.parse::<i64>() else { break };
            self.advance();
            if let Tok::Str(text) = self.tok.tok {
                self.advance();
                if table == "FileNames" {
                    self.tables.files.insert(number, unescape(text));
                }
                continue;
            }
            self.expect(b'{')?;
            let (mut file, mut line, mut location) = (0, 0, 0);
            while !self.eat(b'}') {
                let Tok::AttrName(key) = self.tok.tok else { return Err(self.unexpected("a field or '}'")) };
                self.advance();
                let value = self.int()?;
                match key {
                    "file_name_id" => file = value,
                    "line" => line = value,
                    "file_location_id" => location = value,
                    _ => {}
                }
            }
            match table {
                "FileLocations" => drop(self.tables.locations.insert(number, (file, line))),
                "StackFrames" => drop(self.tables.frames.insert(number, location)),
                _ => {}
            }
        }
        Ok(())
    }

    fn computation(&mut self) -> Parse<CompId> {
        let span = self.span();
        let name = self.name("a computation")?;
        if self.is(b'(') {
            self.skip_group()?;
            if self.tok.tok != Tok::Arrow {
                return Err(self.unexpected("'->'"));
            }
            self.advance();
            self.shape()?;
        }
        self.expect(b'{')?;
        let id = CompId::new(self.module.computations.len());
        self.names.clear();
        let mut instructions = Vec::new();
        let mut root = None;
        while !self.eat(b'}') {
            let span = self.span();
            let is_root = self.tok.tok == Tok::Word("ROOT");
            if is_root {
                self.advance();
            }
            let instruction = self.instruction(id)?;
            if is_root && root.replace(instruction).is_some() {
                let fault =
                    self.diagnostic(&read::READ_DUPLICATE, span, format!("a second ROOT in '{name}'"));
                self.note(fault)?;
            }
            instructions.push(instruction);
        }
        while self.eat(b',') {
            // execution_thread="x"
            let Tok::AttrName(_) = self.tok.tok else {
                return Err(self.unexpected("a computation attribute"));
            };
            self.advance();
            self.raw_value()?;
        }
        let Some(&last) = instructions.last() else {
            let fault = self.diagnostic(&read::READ_SYNTAX, span, format!("computation '{name}' is empty"));
            return Err(Box::new(fault.expected("an instruction")));
        };
        let parameters = self.parameters(name, span, &instructions)?;
        let computation =
            Computation { name: name.to_owned(), instructions, parameters, root: root.unwrap_or(last) };
        self.module.computations.push(computation);
        if self.computations.insert(name, id).is_some() {
            let fault =
                self.diagnostic(&read::READ_DUPLICATE, span, format!("a second computation '{name}'"));
            self.note(fault)?;
        }
        Ok(id)
    }

    /// The parameters by number: each number from 0 up exactly once.
    fn parameters(&mut self, name: &str, span: Span, instructions: &[HloId]) -> Parse<Vec<HloId>> {
        let mut numbered: Vec<(u32, HloId)> = Vec::new();
        for &i in instructions {
            if let Some(Attrs::Parameter { number }) =
                self.module.instructions.get(i.index()).map(|x| &x.attrs)
            {
                numbered.push((*number, i));
            }
        }
        numbered.sort();
        if let Some(at) = (0..numbered.len()).find(|&i| numbered[i].0 as usize != i) {
            let found: Vec<u32> = numbered.iter().map(|(n, _)| *n).collect();
            let what = format!(
                "the parameters of '{name}' are not numbered 0, 1, 2 ...: number {at} is not there once"
            );
            let fault = self.diagnostic(&read::READ_PARAMETERS, span, what);
            self.note(fault.found(format!("{found:?}")))?;
        }
        Ok(numbered.into_iter().map(|(_, i)| i).collect())
    }
}

/// Whether a word cannot name an instruction: it reads as a type or as a literal.
fn reserved(name: &str) -> bool {
    matches!(name, "true" | "false" | "inf" | "nan" | "ROOT" | "ENTRY")
        || name != "tuple" && HloType::from_name(name).is_some()
}
