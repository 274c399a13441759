//! What people and programs see. In: text, values and diagnostics. Out: standard output for results, standard error
//! for diagnostics and progress. Progress shows on a terminal only; a reader that closes the pipe ends the program
//! quietly.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use murre::components::diag::{Diagnostic, codes::internal::INTERNAL};
use murre::report;
use std::io::{ErrorKind, Write};

/// Where output goes and in which form.
#[derive(Clone, Copy)]
pub struct Console {
    /// JSON instead of text.
    pub json: bool,
}

impl Console {
    /// A console for text, or for JSON.
    pub fn new(json: bool) -> Self {
        Console { json }
    }

    /// Writes a result to standard output.
    pub fn out(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        finish(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    }

    /// Writes a result and a line feed.
    pub fn line(&self, text: &str) {
        self.out(&format!("{text}\n"));
    }

    /// Writes a JSON value on lines of its own.
    pub fn value(&self, value: &serde_json::Value) {
        self.line(&format!("{value:#}"));
    }

    /// Renders diagnostics on standard error.
    pub fn diagnostics(&self, diagnostics: &[Diagnostic]) {
        let text: String = diagnostics
            .iter()
            .map(|d| if self.json { report::diagnostic_json(d) + "\n" } else { report::diagnostic_text(d) })
            .collect();
        // Nothing is left to do when standard error is gone.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }

    /// A progress bar of `length` steps; invisible away from a terminal.
    pub fn progress(&self, length: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        bar
    }
}

/// Ends the program when standard output cannot be written: quietly when its reader went away, as a fault else.
fn finish(written: std::io::Result<()>) {
    if let Err(e) = written {
        if e.kind() == ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        let fault = Diagnostic::error(
            &murre::components::diag::codes::cli::CLI_FILE,
            format!("standard output cannot be written: {e}"),
        );
        let _ = std::io::stderr().lock().write_all(report::diagnostic_text(&fault).as_bytes());
        std::process::exit(1);
    }
}

/// Turns a panic into a diagnostic that says it is our bug and asks for the input.
pub fn report_panics(json: bool) {
    std::panic::set_hook(Box::new(move |info| {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into());
        let place = info.location().map(|l| format!("{}:{}", l.file(), l.line())).unwrap_or_default();
        let bug = Diagnostic::error(&INTERNAL, format!("the program panicked: {what}")).found(place).help(
            "this is a bug of murre, not of the input: please report it with the module and the command line",
        );
        Console::new(json).diagnostics(&[bug]);
    }));
}
