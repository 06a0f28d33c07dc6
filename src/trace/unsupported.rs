//! In the place of `stops` on systems and processors where no back end observes a start: the same names, and a reason.

use crate::error::{Error, Result};
use crate::sys::process::Program;
use crate::trace::recording::{NotTraced, Recording};

const REASON: &str = "starts are observed on Linux (x86-64 and aarch64) only";

/// Which system calls would stop the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// Those of the loader.
    Loader,
    /// All.
    All,
}

/// Observes nothing.
#[derive(Debug)]
pub struct Tracer {}

impl Tracer {
    /// There is none.
    ///
    /// # Errors
    /// Always, with the reason.
    pub fn new() -> Result<Tracer> {
        Err(Error::new(REASON))
    }

    /// Records nothing.
    ///
    /// # Errors
    /// Always, with the reason.
    pub fn record(&mut self, _: &Program, _: Watch, _timeout_ns: Option<u64>) -> Result<Recording, NotTraced> {
        Err(NotTraced::Denied(REASON.to_string()))
    }
}
