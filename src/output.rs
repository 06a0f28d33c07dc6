//! Where text goes: a buffered standard output that ends quietly when its reader leaves, and what the
//! terminal at its other end can do. No print macros anywhere: they panic on a closed pipe.

use std::io::{self, Write};

use crate::error::Result;

/// Colour on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the reader of our output can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Escape sequences may be used.
    pub color: bool,
    /// Columns; 80 where it is not a terminal.
    pub width: usize,
}

impl Style {
    /// Neither colour nor a terminal: what files and tests get.
    pub const PLAIN: Style = Style { color: false, width: 80 };

    fn paint(self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// For headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For what matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what needs attention.
    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }
}

/// Output of one invocation: text or JSON to `out`, warnings and progress to `err`.
pub struct Output<'a> {
    /// Standard output, buffered by the caller.
    pub out: &'a mut dyn Write,
    /// Standard error.
    pub err: &'a mut dyn Write,
    /// What `out` can show.
    pub style: Style,
    /// `err` is a terminal, so progress may be shown.
    pub err_is_terminal: bool,
}

impl Output<'_> {
    /// Writes text to standard output.
    ///
    /// # Errors
    /// Where it cannot be written; a closed pipe is marked as such.
    pub fn text(&mut self, text: &str) -> Result<()> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes a warning line to standard error; a failure there has nowhere to be told.
    pub fn warn(&mut self, text: &str) {
        let _ = writeln!(self.err, "premain: warning: {text}");
    }

    /// Writes the line that tells why we end; a failure there has nowhere to be told.
    pub fn error(&mut self, text: &str) {
        let _ = writeln!(self.err, "premain: {text}");
    }

    /// Replaces the progress line on a terminal; elsewhere does nothing. Empty text clears it.
    pub fn progress(&mut self, text: &str) {
        if self.err_is_terminal {
            let _ = write!(self.err, "\r\x1b[K{text}");
            let _ = self.err.flush();
        }
    }

    /// Pushes buffered output out.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
