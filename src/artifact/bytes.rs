//! Little-endian reading and writing of table rows. A reader never runs past its bytes and never allocates more
//! than the bytes it has could fill.

use murre_components::diag::{Diagnostic, codes::artifact as codes};

/// Appends fields to a section.
#[derive(Default)]
pub(super) struct Sink(pub(super) Vec<u8>);

impl Sink {
    /// With room for so many bytes.
    pub(super) fn with_room(bytes: usize) -> Sink {
        Sink(Vec::with_capacity(bytes))
    }

    pub(super) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(super) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(super) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// A length and the bytes.
    pub(super) fn text(&mut self, s: &str) {
        self.u32(s.len() as u32);
        self.0.extend_from_slice(s.as_bytes());
    }
}

/// Takes fields from a section.
pub(super) struct Source<'a> {
    section: &'static str,
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    pub(super) fn new(section: &'static str, bytes: &'a [u8]) -> Self {
        Source { section, rest: bytes }
    }

    pub(super) fn fault(&self, what: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::error(&codes::ART_TABLE, format!("section {}: {what}", self.section))
            .help("compile the program again; the file was damaged or written by another tool")
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Diagnostic> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(self.fault(format!("ends {} bytes short of a row", n - self.rest.len()))),
        }
    }

    pub(super) fn u8(&mut self) -> Result<u8, Diagnostic> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, Diagnostic> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Diagnostic> {
        let low = self.u32()? as u64;
        Ok(low | (self.u32()? as u64) << 32)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Diagnostic> {
        let n = self.u32()? as usize;
        let bytes = self.take(n)?;
        std::str::from_utf8(bytes).map_err(|_| self.fault("a name is not UTF-8"))
    }

    /// A count of rows of at least `row_bytes` each; refused when the section cannot hold that many.
    pub(super) fn count(&mut self, row_bytes: usize) -> Result<usize, Diagnostic> {
        let n = self.u32()? as usize;
        if n > self.rest.len() / row_bytes.max(1) {
            return Err(self.fault(format!("promises {n} rows and has {} bytes", self.rest.len())));
        }
        Ok(n)
    }

    /// The section must be used up.
    pub(super) fn end(&self) -> Result<(), Diagnostic> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.fault(format!("{} bytes left over", self.rest.len())))
        }
    }
}
