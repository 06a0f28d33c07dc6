//! A command made ready: every array that exec needs is built here, long before the clock starts.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use crate::error::{Context, Error, Exit, Result};

/// What exec is called with.
#[derive(Debug)]
pub enum Target {
    /// A path.
    Path(CString),
    /// An open file (the control, which needs no file system).
    File(OwnedFd),
}

/// Standard input of every start.
#[derive(Debug)]
pub enum Stdin {
    /// Nothing to read: `/dev/null`.
    Null,
    /// Ours.
    Inherit,
    /// A file, read from its beginning by every start.
    File(OwnedFd),
}

/// A NULL-terminated array of C strings, with the strings it points to.
#[derive(Debug)]
pub struct StringArray {
    // Order matters to nobody, but both must live together: `pointers` points into `strings`.
    strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl StringArray {
    /// Builds the array.
    ///
    /// # Errors
    /// Where a string holds a NUL byte.
    pub fn new<S: AsRef<OsStr>>(items: impl IntoIterator<Item = S>) -> Result<StringArray> {
        let strings = items.into_iter().map(|s| c_string(s.as_ref())).collect::<Result<Vec<_>>>()?;
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect();
        Ok(StringArray { strings, pointers })
    }

    /// Bytes that exec copies: the strings with their ends, and a pointer each. And those of the longest string.
    fn bytes(&self) -> (u64, u64) {
        let lengths = || self.strings.iter().map(|s| s.as_bytes_with_nul().len() as u64);
        let pointers = self.strings.len() as u64 * size_of::<usize>() as u64;
        (lengths().sum::<u64>() + pointers, lengths().max().unwrap_or(0))
    }

    /// What exec takes.
    pub(crate) fn as_ptr(&self) -> *const *const libc::c_char {
        self.pointers.as_ptr()
    }
}

/// A path or argument as C takes it.
///
/// # Errors
/// Where it holds a NUL byte.
pub fn c_string(s: &OsStr) -> Result<CString> {
    CString::new(s.as_bytes()).map_err(|_| Error::new("holds a NUL byte").context(s.to_string_lossy()))
}

/// One command ready to start any number of times.
#[derive(Debug)]
pub struct Program {
    /// What is executed.
    pub target: Target,
    /// Arguments, the first being the name as given.
    pub argv: StringArray,
    /// Environment.
    pub envp: StringArray,
    /// Working directory, where it is not ours.
    pub cwd: Option<CString>,
    /// Standard input.
    pub stdin: Stdin,
    /// Processor to run on.
    pub cpu: Option<usize>,
}

/// How much exec has to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentSizes {
    /// The arguments.
    pub arguments_bytes: u64,
    /// The environment.
    pub environment_bytes: u64,
    /// The longest string of both: Linux takes none above 128 KiB, whatever the sum.
    pub longest_bytes: u64,
    /// What the system takes in all just now, where it tells.
    pub limit_bytes: Option<u64>,
}

impl Program {
    /// How much exec has to copy.
    pub fn argument_sizes(&self) -> ArgumentSizes {
        let ((arguments_bytes, a), (environment_bytes, e)) = (self.argv.bytes(), self.envp.bytes());
        let limit_bytes = crate::sys::platform::argument_limit();
        ArgumentSizes { arguments_bytes, environment_bytes, longest_bytes: a.max(e), limit_bytes }
    }

    /// A command that runs the file at `path` with `argv` in this environment, with nothing on stdin.
    ///
    /// # Errors
    /// Where a string holds a NUL byte.
    pub fn new(path: &Path, argv: &[OsString], env: &[(OsString, OsString)]) -> Result<Program> {
        Ok(Program {
            target: Target::Path(c_string(path.as_os_str())?),
            argv: StringArray::new(argv)?,
            envp: environment(env)?,
            cwd: None,
            stdin: Stdin::Null,
            cpu: None,
        })
    }
}

/// `NAME=value` strings in the order given.
///
/// # Errors
/// Where a string holds a NUL byte.
pub fn environment(env: &[(OsString, OsString)]) -> Result<StringArray> {
    StringArray::new(env.iter().map(|(k, v)| {
        let mut pair = k.clone();
        pair.push("=");
        pair.push(v);
        pair
    }))
}

/// May we execute this file, as the kernel would judge by mode and mount?
///
/// # Errors
/// The system's reason.
pub fn check_executable(path: &Path) -> Result<()> {
    let c = c_string(path.as_os_str())?;
    // SAFETY: `c` is a NUL-terminated string that outlives the call.
    let found = unsafe { libc::access(c.as_ptr(), libc::X_OK) };
    if found != 0 {
        return Err(Error::from_errno(crate::sys::ret::errno()));
    }
    if std::fs::metadata(path)?.is_dir() {
        return Err(Error::new("is a directory"));
    }
    Ok(())
}

/// Finds what a shell would run for `name`: a name with a slash is the path itself, else the first
/// executable regular file in `path_list` (an empty element is the working directory).
///
/// Done once, before anything is timed: a search costs the start of a bare name about 1 µs a directory.
///
/// # Errors
/// Exit class "command could not be executed", with the reason of the best candidate.
pub fn resolve(name: &OsStr, path_list: Option<&OsStr>) -> Result<PathBuf> {
    let fail = |e: Error| e.context("cannot execute").context(name.to_string_lossy()).with_exit(Exit::CommandFailed);
    if name.is_empty() {
        return Err(Error::new("the command is empty"));
    }
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return check_executable(&path).map(|()| path).map_err(fail);
    }
    let mut reason = Error::new("not found in PATH");
    for dir in path_list.context(|| "PATH is not set").map_err(fail)?.as_bytes().split(|&b| b == b':') {
        let dir = if dir.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(dir)) };
        let candidate = dir.join(name);
        match check_executable(&candidate) {
            Ok(()) => return Ok(candidate),
            // A file that is there and may not run is a better reason than "not found".
            Err(e) if candidate.is_file() => reason = e.context(candidate.to_string_lossy()),
            Err(_) => {}
        }
    }
    Err(fail(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_searched_and_a_path_is_not() {
        assert_eq!(resolve(OsStr::new("sh"), Some(OsStr::new("/nowhere:/bin"))).unwrap(), Path::new("/bin/sh"));
        assert_eq!(resolve(OsStr::new("/bin/sh"), None).unwrap(), Path::new("/bin/sh"));
        for (name, reason) in [
            ("no-such-program-here", "no-such-program-here: cannot execute: not found in PATH"),
            ("/", "/: cannot execute: is a directory"),
            ("/no/such", "/no/such: cannot execute: No such file or directory"),
        ] {
            let e = resolve(OsStr::new(name), Some(OsStr::new("/bin"))).unwrap_err();
            assert_eq!((e.to_string().as_str(), e.exit()), (reason, Exit::CommandFailed));
        }
        assert_eq!(resolve(OsStr::new(""), None).unwrap_err().exit(), Exit::Trouble);
    }

    #[test]
    fn nul_bytes_are_refused() {
        assert!(StringArray::new(["a\0b"]).is_err());
    }
}
