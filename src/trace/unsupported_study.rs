//! In the place of `study` where no back end observes a start: the same names, and a reason.

use std::path::Path;

use crate::error::{Error, Result};
use crate::sys::process::Program;
use crate::trace::stops::REASON;
use crate::trace::summary::{Choice, Study};

/// Observes nothing.
#[derive(Debug)]
pub struct Observer<'a> {
    program: &'a Program,
    never: std::convert::Infallible,
}

impl<'a> Observer<'a> {
    /// There is none.
    ///
    /// # Errors
    /// Always, with the reason.
    pub fn new(_: &'a Program, _: &Path, _: Choice, _timeout_ns: Option<u64>) -> Result<Observer<'a>> {
        Err(Error::new(REASON))
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn observe(&mut self) -> Result<()> {
        let _ = self.program;
        match self.never {}
    }

    /// Never called.
    pub fn finish(self) -> Study {
        match self.never {}
    }
}
