//! Scripts: the first line that names an interpreter, read as Linux reads it (`load_script` in fs/binfmt_script.c).
//!
//! Only the first 256 bytes count. Within them the line ends at a newline; without one, the interpreter's name must at
//! least end (at a space, tab or NUL), else it could be cut and Linux refuses the file.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::facts::{Fact, Format, Kind, LinkFacts};

/// Bytes of a file that Linux looks at to tell what it is (BINPRM_BUF_SIZE).
const WINDOW: usize = 256;

/// Scripts that may name a script before Linux gives up with ELOOP (`exec_binprm`): five hops run, a sixth does not.
pub const MOST_HOPS: usize = 5;

/// What a first line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shebang<'a> {
    /// The interpreter's path.
    pub interpreter: &'a [u8],
    /// The rest of the line as one argument, inner blanks included; may be empty.
    pub argument: Option<&'a [u8]>,
}

/// True for files that start with `#!`.
pub fn is_script(bytes: &[u8]) -> bool {
    bytes.starts_with(b"#!")
}

/// Reads the first line of a script.
///
/// # Errors
/// Why Linux refuses the file (ENOEXEC): no interpreter is named, or its name does not end within 256 bytes.
pub fn shebang(bytes: &[u8]) -> Result<Shebang<'_>> {
    let window = bytes.get(..WINDOW).unwrap_or(bytes);
    let Some(line) = window.strip_prefix(b"#!") else { return Err(Error::new("not a script (no #!)")) };
    let line = match line.iter().position(|b| *b == b'\n') {
        Some(end) => trim_end(line.get(..end).unwrap_or(line)),
        // The kernel pads a shorter file with NUL, and blanks before a NUL belong to the argument.
        None if bytes.len() < WINDOW => line,
        None => trim_end(whole_window(line)?),
    };
    let line = trim_start(line);
    let end = line.iter().position(|b| ends_name(*b)).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at_checked(end).unwrap_or((line, &[]));
    if interpreter.is_empty() {
        return Err(Error::new("the first line names no interpreter: Linux refuses it (ENOEXEC)"));
    }
    // A NUL ends everything, as the kernel handles C strings.
    let argument = match rest.first() {
        None | Some(0) => None,
        Some(_) => Some(until_nul(trim_start(rest))),
    };
    Ok(Shebang { interpreter, argument })
}

/// The line where the window is full and has no newline: the name could be cut, unless something ends it. The window's
/// last byte never belongs to the line.
fn whole_window(line: &[u8]) -> Result<&[u8]> {
    if !trim_start(line).iter().any(|b| ends_name(*b)) {
        return Err(Error::new("the interpreter's name does not end within 256 bytes: Linux refuses it (ENOEXEC)"));
    }
    Ok(line.split_last().map_or(line, |(_, rest)| rest))
}

fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

fn ends_name(b: u8) -> bool {
    is_blank(b) || b == 0
}

fn trim_start(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|b| !is_blank(*b)).unwrap_or(line.len());
    line.get(start..).unwrap_or(&[])
}

fn trim_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|b| !is_blank(*b)).and_then(|i| i.checked_add(1)).unwrap_or(0);
    line.get(..end).unwrap_or(&[])
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or(bytes)
}

/// Link facts of a script: its interpreter, and nothing else, since the kernel reads nothing else.
///
/// # Errors
/// As [`shebang`].
pub fn link_facts(path: &Path, bytes: &[u8]) -> Result<LinkFacts> {
    let line = shebang(bytes)?;
    let mut facts = LinkFacts::new(path, Format::Script, bytes.len() as u64);
    facts.kind = Kind::Script;
    facts.interp = Fact::Value(PathBuf::from(OsStr::from_bytes(line.interpreter)));
    if line.interpreter.first() != Some(&b'/') {
        facts
            .warnings
            .push("the interpreter is named relative to the directory in which the script is run".to_string());
    }
    if line.interpreter.ends_with(b"\r") || line.argument.is_some_and(|arg| arg.ends_with(b"\r")) {
        facts
            .warnings
            .push("the first line ends with a carriage return, which belongs to the name or argument".to_string());
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &[u8], interpreter: &str, argument: Option<&str>) {
        let line = shebang(file).unwrap();
        assert_eq!(line.interpreter, interpreter.as_bytes());
        assert_eq!(line.argument, argument.map(str::as_bytes));
    }

    #[test]
    fn interpreter_and_one_argument() {
        check(b"#!/bin/sh\n", "/bin/sh", None);
        check(b"#!/bin/sh", "/bin/sh", None);
        check(b"#! \t /usr/bin/env   -S  a b \t\nrest", "/usr/bin/env", Some("-S  a b"));
        check(b"#!/bin/sh \n", "/bin/sh", None);
        check(b"#!/bin/sh\0ignored\n", "/bin/sh", None);
        check(b"#!/bin/sh -e\0ignored\n", "/bin/sh", Some("-e"));
        check(b"#!/bin/sh\r\n", "/bin/sh\r", None);
        // Without a newline, blanks are not trimmed: they make an argument, be it an empty one.
        check(b"#!/bin/sh -e ", "/bin/sh", Some("-e "));
        check(b"#!/bin/sh ", "/bin/sh", Some(""));
    }

    #[test]
    fn lines_that_linux_refuses() {
        for file in [&b"#!"[..], b"#!\n", b"#!  \t \n/bin/sh\n", b"#!\0/bin/sh\n", b"##!/bin/sh\n"] {
            assert!(shebang(file).is_err(), "{file:?}");
        }
    }

    /// Observed on Linux: a name that fills the window is refused, the same with a space after it is cut and tried.
    #[test]
    fn only_256_bytes_count() {
        let mut long = b"#!/".to_vec();
        long.resize(400, b'a');
        assert!(shebang(&long).unwrap_err().to_string().contains("256 bytes"));
        long[100] = b' ';
        let line = shebang(&long).unwrap();
        assert_eq!((line.interpreter.len(), line.argument.map(<[u8]>::len)), (98, Some(154)));
        // In a shorter file the padding ends the name.
        let mut full = b"#!/".to_vec();
        full.resize(255, b'a');
        assert_eq!(shebang(&full).unwrap().interpreter.len(), 253);
        full.push(b'a');
        assert!(shebang(&full).is_err());
        // A newline past the window does not count.
        long.resize(300, b'a');
        long[280] = b'\n';
        assert_eq!(shebang(&long).unwrap().argument.map(<[u8]>::len), Some(154));
    }

    #[test]
    fn facts_of_a_script() {
        let facts = link_facts(Path::new("x"), b"#!sh -e\r\n").unwrap();
        assert_eq!((facts.kind, facts.interp), (Kind::Script, Fact::Value(PathBuf::from("sh"))));
        assert_eq!(facts.warnings.len(), 2);
    }
}
