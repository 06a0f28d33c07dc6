//! `premain inspect`: link facts of files.

use std::path::PathBuf;

use super::common::Common;
use crate::error::{Error, Exit, Result};
use crate::output::Output;

/// Options of `inspect`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Files.
    pub files: Vec<PathBuf>,
}

/// Inspects.
///
/// # Errors
/// Usage.
pub fn run(options: &Options, _common: &Common, _output: &mut Output<'_>) -> Result<Exit> {
    if options.files.is_empty() {
        return Err(Error::new("no file given; try 'premain inspect --help'"));
    }
    Ok(Exit::Done)
}
