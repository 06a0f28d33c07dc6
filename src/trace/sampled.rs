//! Threads counted from outside, where tracing is denied: a look at the task directory every 100 µs.
//!
//! What it gives is a lower bound: a thread that lives shorter than two looks may be missed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::error::{Context, Error, Exit, Result};
use crate::sys::clock::now_ns;
use crate::sys::keeper::{Heard, Keeper, above_standard};
use crate::sys::probe::{self, Probed, Streams, Waited};
use crate::sys::process::Program;
use crate::sys::wait::{Usage, WaitStatus};

/// Between two looks.
const PERIOD: Duration = Duration::from_micros(100);

/// What one sampled start showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// Most threads seen at once: a lower bound.
    pub max_threads_at_least: u64,
    /// How often we looked.
    pub looks: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
    /// Its output.
    pub heard: Heard,
    /// From just before the fork until it was gone.
    pub elapsed_ns: u64,
}

/// Starts the command once and samples its threads.
///
/// # Errors
/// Where it cannot be started, or was interrupted.
pub fn threads(program: &Program, timeout_ns: Option<u64>) -> Result<Sampled> {
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null").context(|| "/dev/null")?.into();
    let null = above_standard(null)?;
    let keeper = Keeper::new(timeout_ns)?;
    let (stdout, stderr) = keeper.write_ends();
    let streams = Streams { null: &null, stdout, stderr };
    let mut child = Probed::fork(program, streams).context(|| "cannot start a sampled command")?;
    child.release().context(|| "cannot start a sampled command")?;
    keeper.watch(child.pid());
    let (mut most, mut looks) = (0, 0);
    let (status, usage) = loop {
        looks += 1;
        most = probe::thread_count(child.pid()).map_or(most, |n| n.max(most));
        if let Some(Waited::Ended(_, status, usage)) = probe::try_wait(child.pid())? {
            break (status, usage);
        }
        std::thread::sleep(PERIOD);
    };
    let elapsed_ns = now_ns().saturating_sub(child.t0());
    let heard = keeper.finish();
    let stamps = child.stamps();
    if stamps.errno != 0 {
        return Err(Error::from_errno(stamps.errno).context("cannot execute").with_exit(Exit::CommandFailed));
    }
    if heard.interrupted {
        return Err(Error::new("interrupted").with_exit(Exit::Interrupted));
    }
    Ok(Sampled { max_threads_at_least: most.max(1), looks, status, usage, heard, elapsed_ns })
}
