//! Splits a command line into words as a POSIX shell would, without running one: blanks, quotes, backslashes.
//! Anything that a shell would expand or interpret is refused rather than passed on in silence.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The words of `line`.
///
/// # Errors
/// An open quote, a backslash at the end, no word at all, or an unquoted character that only a shell understands.
pub fn split(line: &OsStr) -> Result<Vec<OsString>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.as_bytes().iter().copied();
    while let Some(b) = bytes.next() {
        match b {
            b' ' | b'\t' | b'\n' => words.extend(word.take().map(OsString::from_vec)),
            b'\'' => quoted(&mut bytes, b'\'', word.get_or_insert_default())?,
            b'"' => quoted(&mut bytes, b'"', word.get_or_insert_default())?,
            b'\\' => match bytes.next() {
                Some(b'\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("ends in a backslash".to_string()),
            },
            b'|' | b'&' | b';' | b'<' | b'>' | b'(' | b')' | b'$' | b'`' | b'*' | b'?' | b'[' => {
                return Err(format!(
                    "'{}' needs a shell, and none is run: quote it, or use sh -c '...'",
                    char::from(b)
                ));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.map(OsString::from_vec));
    if words.is_empty() { Err("the command is empty".to_string()) } else { Ok(words) }
}

/// The inside of a quote; within double quotes a backslash frees `"`, `\`, `$` and a backquote.
fn quoted(bytes: &mut impl Iterator<Item = u8>, end: u8, word: &mut Vec<u8>) -> Result<(), String> {
    while let Some(b) = bytes.next() {
        match b {
            b if b == end => return Ok(()),
            b'\\' if end == b'"' => match bytes.next() {
                Some(b'\n') => {}
                Some(next) if b"\"\\$`".contains(&next) => word.push(next),
                Some(next) => word.extend([b'\\', next]),
                None => break,
            },
            b'$' | b'`' if end == b'"' => {
                return Err(format!(
                    "'{}' in double quotes needs a shell, and none is run: use single quotes",
                    char::from(b)
                ));
            }
            other => word.push(other),
        }
    }
    Err(format!("a {} quote is not closed", char::from(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, String> {
        split(OsStr::new(line)).map(|w| w.into_iter().map(|w| w.into_string().unwrap()).collect())
    }

    #[test]
    fn words_split_as_in_a_shell() {
        for (line, want) in [
            ("git --version", &["git", "--version"][..]),
            ("  a\t b\n", &["a", "b"]),
            ("sh -c 'exit 0'", &["sh", "-c", "exit 0"]),
            ("a '' \"\" b", &["a", "", "", "b"]),
            (r#"pre"mid dle"'post'"#, &["premid dlepost"]),
            (r#"a\ b "c\"d" 'e\f' "g\h""#, &["a b", "c\"d", "e\\f", "g\\h"]),
            ("'$HOME' '*'", &["$HOME", "*"]),
            ("é", &["é"]),
        ] {
            assert_eq!(words(line).unwrap(), want, "{line}");
        }
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        for (line, why) in [
            ("", "empty"),
            ("   ", "empty"),
            ("'a", "not closed"),
            ("\"a", "not closed"),
            ("a\\", "backslash"),
            ("a | b", "shell"),
            ("echo $HOME", "shell"),
            ("echo \"$HOME\"", "single quotes"),
            ("ls *.c", "shell"),
        ] {
            assert!(words(line).unwrap_err().contains(why), "{line}");
        }
    }
}
