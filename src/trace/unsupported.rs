//! In the place of `stops` on systems and processors where no back end observes a start: the same names, and a reason.

use crate::error::{Error, Result};
use crate::sys::process::Program;
use crate::trace::locate::Locator;
use crate::trace::recording::{NotTraced, Recording};

/// Why nothing is observed.
pub const REASON: &str = "starts are observed on Linux (x86-64 and aarch64) only";

/// Which system calls would stop the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// None.
    Marks,
    /// None.
    Faults,
    /// Those of the loader.
    Loader,
    /// All.
    Calls,
    /// All, and constructors.
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
    pub fn record(
        &self,
        _: &Program,
        _: Watch,
        _: &mut Locator,
        _timeout_ns: Option<u64>,
        _before: &mut dyn FnMut(),
    ) -> Result<Recording, NotTraced> {
        Err(NotTraced::Denied(REASON.to_string()))
    }
}
