//! Diagnostics as data. A fault is a registered [`Code`], the instruction it concerns, where it was written, what
//! was found, what was expected and what to do; passes collect them, the front door renders them.
//!
//! Every code lives in exactly one table ([`codes`]), has a page under `docs/codes/` and a test that reaches it.

pub mod codes;

use parking_lot::Mutex;
use serde::Serialize;

/// A registered diagnostic code.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeInfo {
    /// `MUR` and four digits. The first two digits name the part of the program that reports it.
    pub id: &'static str,
    /// One line, without the particulars.
    pub title: &'static str,
    /// The page of the code, in Markdown.
    pub page: &'static str,
}

/// A reference to a registered code.
pub type Code = &'static CodeInfo;

/// A place in a source text: 1-based line and column, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The input is refused.
    Error,
    /// Worth knowing; the result stands.
    Warning,
}

/// One fault.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnostic {
    /// The code's id.
    #[serde(serialize_with = "serialize_code")]
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// What happened, in one sentence with the particulars.
    pub message: String,
    /// The file, where the fault is in one.
    pub file: Option<String>,
    /// The place in the HLO text.
    pub span: Option<Span>,
    /// The HLO instruction.
    pub instruction: Option<String>,
    /// The user's source line (`model.py:31`) and operation name, when the module carries metadata.
    pub source: Option<String>,
    /// What was found.
    pub found: Option<String>,
    /// What was expected.
    pub expected: Option<String>,
    /// What to do.
    pub help: Option<String>,
    /// Sort key: the ordinal of the thing concerned, so that order never hangs on threads.
    #[serde(skip)]
    pub ordinal: u32,
}

fn serialize_code<S: serde::Serializer>(code: &Code, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(code.id)
}

impl Diagnostic {
    /// An error with its message.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            file: None,
            span: None,
            instruction: None,
            source: None,
            found: None,
            expected: None,
            help: None,
            ordinal: u32::MAX,
        }
    }

    /// A warning with its message.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Names the file.
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Names the place in the text.
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Names the HLO instruction.
    pub fn on(mut self, instruction: impl Into<String>) -> Self {
        self.instruction = Some(instruction.into());
        self
    }

    /// Names the user's source.
    pub fn from_source(mut self, source: Option<String>) -> Self {
        self.source = source;
        self
    }

    /// Says what was found.
    pub fn found(mut self, what: impl Into<String>) -> Self {
        self.found = Some(what.into());
        self
    }

    /// Says what was expected.
    pub fn expected(mut self, what: impl Into<String>) -> Self {
        self.expected = Some(what.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, what: impl Into<String>) -> Self {
        self.help = Some(what.into());
        self
    }

    /// Sets the sort key.
    pub fn ordered(mut self, ordinal: u32) -> Self {
        self.ordinal = ordinal;
        self
    }
}

/// The shared sink that passes report to, possibly from several threads at once.
#[derive(Default, bevy_ecs::prelude::Resource)]
pub struct Diagnostics(Mutex<Vec<Diagnostic>>);

impl Diagnostics {
    /// Adds one.
    pub fn push(&self, d: Diagnostic) {
        self.0.lock().push(d);
    }

    /// Whether an error was reported.
    pub fn has_errors(&self) -> bool {
        self.0.lock().iter().any(|d| d.severity == Severity::Error)
    }

    /// Takes them out, ordered by ordinal, code and message: the same order at any thread count.
    pub fn take(&self) -> Vec<Diagnostic> {
        let mut all = std::mem::take(&mut *self.0.lock());
        all.sort_by(|a, b| (a.ordinal, a.code.id, &a.message).cmp(&(b.ordinal, b.code.id, &b.message)));
        all
    }
}
