//! Diagnostics as text and as JSON lines.
//!
//! ```text
//! error[MUR0103] step.hlo.txt:4:9: the HLO text is malformed here
//!   instruction: %add.3
//!   found: ')'
//!   expected: a shape
//! ```

use murre_components::diag::{Diagnostic, Severity, codes::internal};

/// Whether a diagnostic reports a bug of ours.
pub fn is_internal(d: &Diagnostic) -> bool {
    internal::ALL.iter().any(|c| c.id == d.code.id)
}

/// The text form, a line feed at its end.
pub fn diagnostic_text(d: &Diagnostic) -> String {
    let severity = match d.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut place = d.file.clone().unwrap_or_default();
    if let Some(span) = d.span {
        let sep = if place.is_empty() { "" } else { ":" };
        place += &format!("{sep}{}:{}", span.line, span.column);
    }
    let colon = if place.is_empty() { "" } else { ": " };
    let mut out = format!("{severity}[{}] {place}{colon}{}\n", d.code.id, d.message);
    let instruction = d.instruction.as_ref().map(|i| format!("%{}", i.trim_start_matches('%')));
    let lines = [
        ("instruction", &instruction),
        ("source", &d.source),
        ("found", &d.found),
        ("expected", &d.expected),
        ("help", &d.help),
    ];
    for (name, text) in lines {
        if let Some(text) = text.as_deref().filter(|t| !t.is_empty()) {
            out += &format!("  {name}: {text}\n");
        }
    }
    out
}

/// One line of JSON, without a line feed.
pub fn diagnostic_json(d: &Diagnostic) -> String {
    serde_json::to_string(d).unwrap_or_else(|e| format!("{{\"code\":\"{}\",\"message\":\"{e}\"}}", d.code.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use murre_components::diag::{Span, codes::read};

    #[test]
    fn text_has_a_head_and_a_line_for_each_part() {
        let d = Diagnostic::error(&read::READ_SYNTAX, "the shape is cut")
            .in_file("a.hlo")
            .at(Span { line: 4, column: 9 })
            .on("add.3")
            .from_source(Some("model.py:31".into()))
            .found("')'")
            .expected("a dimension")
            .help("close the bracket");
        assert_eq!(
            diagnostic_text(&d),
            "error[MUR0103] a.hlo:4:9: the shape is cut\n  instruction: %add.3\n  source: model.py:31\n  \
             found: ')'\n  expected: a dimension\n  help: close the bracket\n"
        );
        assert_eq!(
            diagnostic_text(&Diagnostic::warning(&read::READ_EMPTY, "nothing")),
            "warning[MUR0101] nothing\n"
        );
    }

    #[test]
    fn json_is_one_line_with_the_code() {
        let line = diagnostic_json(&Diagnostic::error(&internal::INTERNAL, "two\nlines"));
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["code"], "MUR1001");
        assert_eq!(value["severity"], "error");
        assert!(is_internal(&Diagnostic::error(&internal::INTERNAL, "")));
        assert!(!is_internal(&Diagnostic::error(&read::READ_EMPTY, "")));
    }
}
