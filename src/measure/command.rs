//! A command to measure: argv, environment, working directory, stdin source, and what it is called.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::sys::process::Program;

/// One command, ready to start.
#[derive(Debug)]
pub struct Command {
    /// What output calls it.
    pub name: String,
    /// As given.
    pub argv: Vec<OsString>,
    /// The file that is executed.
    pub path: PathBuf,
    /// All that exec needs.
    pub program: Program,
}

/// How a word is shown in a name: quoted where a shell would need it.
pub fn show_word(word: &std::ffi::OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// The words of a command as one line.
pub fn show_argv(argv: &[OsString]) -> String {
    argv.iter().map(|w| show_word(w)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_pasted_into_a_shell() {
        let argv: Vec<OsString> = ["git", "log", "a b", "", "it's"].map(OsString::from).to_vec();
        assert_eq!(show_argv(&argv), r"git log 'a b' '' 'it'\''s'");
    }
}
