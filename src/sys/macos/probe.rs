//! A command that is watched from outside while it runs: the part of `linux::ptrace` that needs no tracing, under the
//! same names. macOS lets nobody trace a program of the system's, so there are no stops here.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::{host, spawn};
use crate::error::Error;
use crate::sys::child::{ChildPlan, ChildReport};
use crate::sys::clock::now_ns;
use crate::sys::process::{Program, Stdin};
use crate::sys::shared::SharedMemory;
use crate::sys::start::{Method, StartFailure};
use crate::sys::wait::{self, Usage, WaitStatus};

/// What a wait found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A child is gone.
    Ended(i32, WaitStatus, Usage),
    /// A signal to us came first.
    Interrupted,
}

/// Times that the child stamped itself, before exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildStamps {
    /// Just before execve; 0 where it did not come to it.
    pub exec: u64,
    /// errno of a failed exec; 0 where it succeeded.
    pub errno: i32,
}

/// Where a probed command's standard streams go.
#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    /// `/dev/null`, open for reading and writing.
    pub null: &'a OwnedFd,
    /// Standard output.
    pub stdout: &'a OwnedFd,
    /// Standard error.
    pub stderr: &'a OwnedFd,
}

/// A probed command. It runs as soon as it is forked.
#[derive(Debug)]
pub struct Probed {
    pid: i32,
    t0: u64,
    memory: SharedMemory,
}

impl Probed {
    /// Forks.
    ///
    /// # Errors
    /// Where no child can be made.
    pub fn fork(program: &Program, streams: Streams<'_>) -> io::Result<Probed> {
        let system = |e: Error| io::Error::other(e.to_string());
        let memory = SharedMemory::new(size_of::<ChildReport>()).map_err(system)?;
        let plan = ChildPlan {
            program,
            stdin: match &program.stdin {
                Stdin::Null => streams.null.as_raw_fd(),
                Stdin::Inherit => 0,
                Stdin::File(fd) => rewound(fd),
            },
            stdout: streams.stdout.as_raw_fd(),
            stderr: streams.stderr.as_raw_fd(),
            report: memory.start().cast::<ChildReport>(),
            terminal: false,
            watched: false,
        };
        let ready = spawn::ready(Method::Fork, &plan).map_err(system)?;
        let t0 = now_ns();
        let (pid, _) = spawn::spawn(ready, &plan).map_err(|failure| match failure {
            StartFailure::Exec(errno) => io::Error::from_raw_os_error(errno),
            StartFailure::Setup(_, errno) => io::Error::from_raw_os_error(errno),
            StartFailure::System(e) => system(e),
            StartFailure::Interrupted => io::ErrorKind::Interrupted.into(),
        })?;
        Ok(Probed { pid, t0, memory })
    }

    /// Nothing holds it.
    ///
    /// # Errors
    /// None here.
    pub fn release(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Our clock just before the fork.
    pub fn t0(&self) -> u64 {
        self.t0
    }

    /// What the child stamped so far.
    pub fn stamps(&self) -> ChildStamps {
        // SAFETY: the mapping starts page-aligned, is long enough and was zeroed: a valid ChildReport, whose numbers are
        // valid whatever the child writes; volatile, since it may be writing now.
        let report = unsafe { self.memory.start().cast::<ChildReport>().read_volatile() };
        ChildStamps { exec: report.t_exec, errno: report.errno }
    }
}

fn rewound(fd: &OwnedFd) -> RawFd {
    // SAFETY: lseek takes no pointers.
    unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_SET) };
    fd.as_raw_fd()
}

/// Waits for one child without sleeping: `None` while it runs.
///
/// # Errors
/// The system's reason, outside of the ordinary outcomes.
pub fn try_wait(pid: i32) -> io::Result<Option<Waited>> {
    match wait::wait4(pid, false) {
        Ok(wait::Waited::Ended(pid, status, usage)) => Ok(Some(Waited::Ended(pid, status, usage))),
        Ok(wait::Waited::Running) => Ok(None),
        Ok(wait::Waited::NoChild) => Err(io::Error::other("the child is gone before it was waited for")),
        Ok(wait::Waited::Interrupted) => Ok(Some(Waited::Interrupted)),
        Err(e) => Err(io::Error::other(e.to_string())),
    }
}

/// How many threads a process has now; `None` where it is gone.
pub fn thread_count(pid: i32) -> Option<u64> {
    host::thread_count(pid).ok()
}
