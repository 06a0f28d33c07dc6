//! One start of one arm: the real thing, and the seam where tests put a scripted one.

use super::command::Command;
use crate::sys::start::{RawStart, StartFailure, StartOptions, Starter};

/// Makes starts.
pub trait Sampler {
    /// Starts arm `arm` once.
    ///
    /// # Errors
    /// No sample: exec failed, the system failed, or we were interrupted.
    fn start(&mut self, arm: usize) -> Result<RawStart, StartFailure>;

    /// Called before the first start of every round, warm-up rounds included.
    ///
    /// # Errors
    /// What has to be done before a round failed.
    fn begin_round(&mut self) -> Result<(), StartFailure> {
        Ok(())
    }

    /// Nanoseconds of a monotonic clock, for budgets.
    fn now_ns(&self) -> u64;

    /// What the last start wrote to standard error, its beginning.
    fn stderr(&self) -> &[u8];
}

/// Starts processes.
pub struct ProcessSampler<'a> {
    arms: Vec<&'a Command>,
    starter: Starter,
    options: StartOptions,
    /// Arms whose file the system has seen executed before.
    scanned: Vec<bool>,
    /// Starts that were refused because the file was open for writing, and then repeated.
    pub busy_retries: u64,
}

/// How often a start that fails with ETXTBSY is repeated, each time after twice as long: another process may be closing
/// the file just now. 1 + 2 + 4 + ... ms are half a second in all.
const BUSY_TRIES: u32 = 9;

impl<'a> ProcessSampler<'a> {
    /// A sampler over these arms.
    ///
    /// # Errors
    /// Where its buffers cannot be made.
    pub fn new(arms: Vec<&'a Command>, options: StartOptions) -> crate::error::Result<ProcessSampler<'a>> {
        let scanned = vec![!crate::sys::SCANS_NEW_FILES; arms.len()];
        Ok(ProcessSampler { arms, starter: Starter::new()?, options, scanned, busy_retries: 0 })
    }
}

impl Sampler for ProcessSampler<'_> {
    fn start(&mut self, arm: usize) -> Result<RawStart, StartFailure> {
        let Some(command) = self.arms.get(arm) else {
            return Err(StartFailure::System(crate::error::Error::new("no such arm")));
        };
        if let Some(scanned) = self.scanned.get_mut(arm).filter(|scanned| !**scanned) {
            // Not a sample whatever it shows: the start that follows tells what is wrong.
            *scanned = true;
            let _ = self.starter.start(&command.program, &self.options);
        }
        let mut tries = 0;
        loop {
            match self.starter.start(&command.program, &self.options) {
                Err(StartFailure::Exec(e)) if e == crate::sys::ETXTBSY && tries < BUSY_TRIES => {
                    std::thread::sleep(std::time::Duration::from_millis(1 << tries));
                    tries += 1;
                    self.busy_retries += 1;
                }
                done => return done,
            }
        }
    }

    fn now_ns(&self) -> u64 {
        crate::sys::clock::now_ns()
    }

    fn stderr(&self) -> &[u8] {
        self.starter.stderr_kept()
    }
}
