//! The child's side of a start: what it needs, what it does from fork to exec, and what it tells.

use std::os::fd::RawFd;

use crate::sys::clock::now_ns;
use crate::sys::platform;
use crate::sys::process::Program;
use crate::sys::ret::errno;
use crate::sys::start::StartFailure;

/// What a child tells its parent, in memory they share.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ChildReport {
    /// Its clock just before execve.
    pub(crate) t_exec: u64,
    /// errno of a failed execve (or of a step before it); 0 where exec succeeded.
    pub(crate) errno: i32,
    /// The step that failed: see `STEPS`.
    pub(crate) step: u32,
}

impl ChildReport {
    /// Before the child has told anything.
    pub(crate) const EMPTY: ChildReport = ChildReport { t_exec: 0, errno: 0, step: STEP_EXEC };
}

/// What a child does before execve, as it is named where it fails.
const STEPS: [&str; 3] =
    ["cannot set up the standard streams", "cannot enter the working directory", "cannot run on that processor"];
/// The step behind those.
const STEP_EXEC: u32 = STEPS.len() as u32;

/// The failure that a report tells of, if any.
pub(crate) fn failure(report: &ChildReport) -> Option<StartFailure> {
    let step = usize::try_from(report.step).ok().and_then(|step| STEPS.get(step));
    match (report.errno, step) {
        (0, _) => None,
        (errno, Some(step)) => Some(StartFailure::Setup(step, errno)),
        (errno, None) => Some(StartFailure::Exec(errno)),
    }
}

/// Everything a child needs before exec, as plain numbers and pointers: it may only make system calls.
pub(crate) struct ChildPlan<'a> {
    pub(crate) program: &'a Program,
    pub(crate) stdin: RawFd,
    pub(crate) stdout: RawFd,
    pub(crate) stderr: RawFd,
    pub(crate) report: *mut ChildReport,
    /// Standard output is a terminal, and becomes the child's own.
    pub(crate) terminal: bool,
    /// The parent wants a descriptor that tells the child's end, besides wait4.
    pub(crate) watched: bool,
}

/// dup2 without anything that allocates; false leaves errno.
///
/// # Safety
/// As for [`child_main`].
unsafe fn redirect(from: RawFd, to: RawFd) -> bool {
    loop {
        // SAFETY: dup2 takes numbers; the caller vouches that nobody in this process owns `to`.
        if unsafe { libc::dup2(from, to) } != -1 {
            return true;
        }
        if errno() != libc::EINTR {
            return false;
        }
    }
}

/// The child's side, from fork to exec: system calls only, no allocation, no lock, no return. We block no signal
/// and ignore none, so there is nothing to put back: exec resets what we handle.
///
/// # Safety
/// Runs in a forked child, or in a vforked one on a stack of its own; `plan` and all it points to are alive
/// there, and `plan.report` points to memory shared with the parent.
pub(crate) unsafe fn child_main(plan: &ChildPlan<'_>) -> ! {
    #[allow(clippy::multiple_unsafe_ops_per_block)] // reason: one reviewed unit, each line a plain system call
    // SAFETY: each call is async-signal-safe and takes numbers or pointers that the caller vouches for.
    unsafe {
        if plan.terminal {
            libc::setsid();
            libc::ioctl(plan.stdout, libc::TIOCSCTTY as _, 0);
        } else {
            libc::setpgid(0, 0);
        }
        let step = if !(redirect(plan.stdin, 0) && redirect(plan.stdout, 1) && redirect(plan.stderr, 2)) {
            0
        } else if plan.program.cwd.as_ref().is_some_and(|dir| libc::chdir(dir.as_ptr()) != 0) {
            1
        } else if plan.program.cpu.is_some_and(|cpu| !platform::pin_to_cpu(cpu)) {
            2
        } else {
            (*plan.report).t_exec = now_ns();
            platform::exec(plan.program);
            STEP_EXEC
        };
        (*plan.report).errno = errno();
        (*plan.report).step = step;
        libc::_exit(127)
    }
}
