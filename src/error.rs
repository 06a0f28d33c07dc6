//! One small error, the exit codes, and nothing else.
//!
//! An error is a chain from the outermost context to the cause, printed on one line as
//! `premain: <path or command>: <what failed>: <reason>`. It carries the exit code that it leads to.

use std::fmt;
use std::io;

/// How premain ends. Each number is part of the contract with scripts and CI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All that was asked was done.
    Done,
    /// The answer is no: a regression is shown.
    No,
    /// Usage, or premain could not do it, or part of it failed.
    Trouble,
    /// Under `--strict`: the data do not decide.
    NotDecided,
    /// A measured command failed or could not be executed.
    CommandFailed,
    /// A measured command ran past `--timeout`.
    TimedOut,
    /// Interrupted; complete rounds were printed and saved.
    Interrupted,
}

impl Exit {
    /// The process exit status.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Trouble => 2,
            Exit::NotDecided => 3,
            Exit::CommandFailed => 4,
            Exit::TimedOut => 124,
            Exit::Interrupted => 130,
        }
    }
}

/// `Result` with our error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A chain of contexts, outermost first, with the exit code it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    chain: Vec<String>,
    exit: Exit,
    pipe_closed: bool,
}

impl Error {
    /// An error of the class "premain could not do it" (exit 2).
    pub fn new(reason: impl Into<String>) -> Self {
        Error { chain: vec![reason.into()], exit: Exit::Trouble, pipe_closed: false }
    }

    /// The same with another exit code.
    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Puts `what` (a path, a command, a flag, an action) in front.
    #[must_use]
    pub fn context(mut self, what: impl Into<String>) -> Self {
        self.chain.insert(0, what.into());
        self
    }

    /// The exit code that this error leads to.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// True where the reader of our output went away: not worth a message.
    pub fn is_pipe_closed(&self) -> bool {
        self.pipe_closed
    }

    /// An operating system's error, by number, in the system's words without Rust's "(os error N)".
    pub fn from_errno(errno: i32) -> Self {
        Error::new(os_text(&io::Error::from_raw_os_error(errno)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One line whatever a file name or a foreign message holds.
        let line = self.chain.join(": ");
        for c in line.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Error { chain: vec![os_text(&e)], exit: Exit::Trouble, pipe_closed: e.kind() == io::ErrorKind::BrokenPipe }
    }
}

/// "No such file or directory" rather than "No such file or directory (os error 2)".
fn os_text(e: &io::Error) -> String {
    let text = e.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// Adds context to any failing result.
pub trait Context<T> {
    /// Puts `what()` in front of the error.
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|e| e.into().context(what()))
    }
}

impl<T> Context<T> for Option<T> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.ok_or_else(|| Error::new(what()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_prints_on_one_line_outermost_first() {
        let e = Error::from_errno(2).context("cannot open").context("/no/such\nfile");
        assert_eq!(e.to_string(), "/no/such\\nfile: cannot open: No such file or directory");
        assert_eq!(e.exit(), Exit::Trouble);
    }

    #[test]
    fn a_closed_pipe_is_known() {
        assert!(Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).is_pipe_closed());
        assert!(!Error::new("x").is_pipe_closed());
    }

    #[test]
    fn exit_codes_are_the_contract() {
        let all = [
            Exit::Done,
            Exit::No,
            Exit::Trouble,
            Exit::NotDecided,
            Exit::CommandFailed,
            Exit::TimedOut,
            Exit::Interrupted,
        ];
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3, 4, 124, 130]);
    }
}
