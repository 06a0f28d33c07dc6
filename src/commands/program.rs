//! The files of a program: the script chain, then the file that is loaded, and its closure in the environment that
//! the command will get.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::files;
use crate::error::{Context, Error, Result};
use crate::facts::{Fact, Format, LinkFacts};
use crate::loader::host::Host;
use crate::loader::{self, Assume, Closure};
use crate::script;

/// Facts of `path` and, where it is a script, of the interpreters that the kernel goes through, the last one being the
/// program that runs.
///
/// # Errors
/// Where a file cannot be read or is of no known format.
pub fn chain(path: &Path) -> Result<Vec<LinkFacts>> {
    let mut files: Vec<LinkFacts> = Vec::new();
    let mut next = path.to_path_buf();
    while files.len() <= script::MOST_HOPS + 1 {
        let facts = files::facts(&next).context(|| next.to_string_lossy())?;
        let interpreter = match (&facts.interp, facts.format) {
            (Fact::Value(interp), Format::Script) => Some(interp.clone()),
            _ => None,
        };
        files.push(facts);
        match interpreter {
            Some(interp) => next = interp,
            None => return Ok(files),
        }
    }
    Err(Error::new("too many scripts in a row: Linux gives up with ELOOP").context(path.to_string_lossy()))
}

/// What the loader of `program` will map and do in the environment `env`, started from `cwd`.
///
/// # Errors
/// Where the file cannot be read.
pub fn closure(program: &Path, env: &[(OsString, OsString)], cwd: Option<&Path>) -> Result<Closure> {
    closure_with(program, env, cwd, loader::Options::default())
}

/// The same with all that a prediction needs, as if it had been linked with other settings.
///
/// # Errors
/// Where the file cannot be read.
pub fn closure_assuming(
    program: &Path,
    env: &[(OsString, OsString)],
    cwd: Option<&Path>,
    assume: Assume,
) -> Result<Closure> {
    closure_with(program, env, cwd, loader::Options { count_lines: true, assume, ..loader::Options::default() })
}

fn closure_with(
    program: &Path,
    env: &[(OsString, OsString)],
    cwd: Option<&Path>,
    options: loader::Options,
) -> Result<Closure> {
    let var = |name: &str| env.iter().find(|(n, _)| n == OsStr::new(name)).map(|(_, v)| v.clone().into_vec());
    let cwd = match cwd {
        Some(dir) => std::path::absolute(dir).context(|| dir.to_string_lossy())?,
        None => std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
    };
    let options = loader::Options {
        library_path: var("LD_LIBRARY_PATH"),
        preload: var("LD_PRELOAD"),
        bind_now: var("LD_BIND_NOW").is_some_and(|v| !v.is_empty()),
        cwd,
        cpu: loader::cpu::Cpu::host(),
        ..options
    };
    loader::closure(program, &options, &Host).or_else(|e| match files::facts(program) {
        Ok(facts) if facts.macho.is_some() => Ok(loader::dyld::closure(program, &facts, &options.cwd, &Host)),
        _ => Err(e),
    })
}
