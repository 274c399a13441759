//! Where an instruction comes from: the metadata that producers write, and the tables it points into.
//!
//! Metadata is kept as the text between the braces of `metadata={...}` and only taken apart for a diagnostic.
//! Facts: `spec/hlo.md 4`.

/// Where an instruction comes from in the user's program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct SourceLoc {
    pub op_name: String,
    pub file: String,
    pub line: u32,
}

/// Line of a file: numbers of the tables, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct FileLocation {
    pub file: i64,
    pub function: i64,
    pub line: i64,
    pub end_line: i64,
    pub column: i64,
    pub end_column: i64,
}

/// A location, counted from 1, and the frame that called it as the text form has it: its number plus one, 1 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct StackFrame {
    pub location: i64,
    pub parent: i64,
}

/// The four tables of a dump with metadata. A number names the entry before it counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct StackFrames {
    pub files: Vec<String>,
    pub functions: Vec<String>,
    pub locations: Vec<FileLocation>,
    pub frames: Vec<StackFrame>,
}

fn entry<T>(table: &[T], number: i64) -> Option<&T> {
    table.get(usize::try_from(number).ok()?.checked_sub(1)?)
}

impl StackFrames {
    /// File and line of a stack frame.
    pub fn resolve(&self, frame: i64) -> Option<(&str, i64)> {
        let location = entry(&self.locations, entry(&self.frames, frame)?.location)?;
        Some((entry(&self.files, location.file)?, location.line))
    }

    /// Whether there is nothing in them.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.functions.is_empty()
            && self.locations.is_empty()
            && self.frames.is_empty()
    }
}

impl SourceLoc {
    /// What a diagnostic needs of `key="value"` or `key=value` fields with white space between them. A field that is
    /// not understood is stepped over.
    pub fn of_metadata(text: &str, frames: &StackFrames) -> SourceLoc {
        let mut loc = SourceLoc::default();
        let mut rest = text.trim_start();
        while let Some((key, value)) = rest.split_once('=') {
            let (value, behind) = match value.strip_prefix('"') {
                Some(quoted) => {
                    let end = quote_end(quoted);
                    (&quoted[..end], quoted.get(end + 1..).unwrap_or(""))
                }
                None => {
                    value.split_at(value.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(value.len()))
                }
            };
            match key.trim() {
                "op_name" => loc.op_name = unescape(value),
                "source_file" => loc.file = unescape(value),
                "source_line" => loc.line = value.parse().unwrap_or(0),
                "stack_frame_id" => {
                    if let Some((file, line)) = value.parse().ok().and_then(|id| frames.resolve(id)) {
                        loc.file = file.to_owned();
                        loc.line = u32::try_from(line).unwrap_or(0);
                    }
                }
                _ => {}
            }
            rest = behind.trim_start_matches([',', ' ', '\t', '\n', '\r']);
        }
        loc
    }

    /// The user's source line for a diagnostic.
    pub fn describe(&self) -> Option<String> {
        match (self.file.is_empty(), self.op_name.is_empty()) {
            (true, true) => None,
            (true, false) => Some(self.op_name.clone()),
            (false, true) => Some(format!("{}:{}", self.file, self.line)),
            (false, false) => Some(format!("{}:{} ({})", self.file, self.line, self.op_name)),
        }
    }
}

/// Place of the quote that ends a quoted text.
fn quote_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() && bytes[i] != b'"' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    i.min(bytes.len())
}

/// The text that an escaped quoted text stands for (`\n`, `\t`, `\"`, `\'`, `\\`, octal `\303`, hex `\xc3`).
pub fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while let Some(&b) = bytes.get(i) {
        i += 1;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let escaped = bytes.get(i).copied().unwrap_or(b'\\');
        i += 1;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'0'..=b'7' => {
                let mut value = u32::from(escaped - b'0');
                for _ in 0..2 {
                    if let Some(d @ b'0'..=b'7') = bytes.get(i) {
                        value = value * 8 + u32::from(d - b'0');
                        i += 1;
                    }
                }
                out.push(value as u8);
            }
            b'x' => {
                let mut value = 0;
                for _ in 0..2 {
                    if let Some(d) = bytes.get(i).and_then(|d| (*d as char).to_digit(16)) {
                        value = value * 16 + d;
                        i += 1;
                    }
                }
                out.push(value as u8);
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The escaped form of a text, which [`unescape`] takes back.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_taken_apart() {
        let mut frames = StackFrames::default();
        frames.files.push("b.py".to_owned());
        frames.locations.push(FileLocation { file: 1, line: 9, ..FileLocation::default() });
        frames.frames.push(StackFrame { location: 1, parent: 0 });
        let loc = SourceLoc::of_metadata(
            r#"op_type="x" op_name="a\"= b" source_file="f.py" source_line=3"#,
            &frames,
        );
        assert_eq!(loc, SourceLoc { op_name: "a\"= b".to_owned(), file: "f.py".to_owned(), line: 3 });
        let loc = SourceLoc::of_metadata("source_line=1 stack_frame_id=1", &frames);
        assert_eq!((loc.file.as_str(), loc.line), ("b.py", 9));
        assert_eq!(SourceLoc::of_metadata("op_name=\"", &frames), SourceLoc::default());
    }

    #[test]
    fn escapes_go_both_ways() {
        let text = "a\"b\\c\nd\te";
        assert_eq!(unescape(&escape(text)), text);
        assert_eq!(unescape(r"\303\251\x41"), "éA");
    }
}
