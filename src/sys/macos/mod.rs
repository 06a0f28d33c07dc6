//! The macOS half of `sys`: the same function names as `linux`. What the system does not offer is an error that says
//! so, never a panic. Type-checked on Linux (`make check-mac`); it has not been run on a Mac.

pub mod host;
pub mod probe;
mod spawn;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::error::{Error, Result};
use crate::sys::process::{Program, Target};
use crate::sys::ret::cvt;

pub(crate) use spawn::{ready, spawn};

/// What starting without a copy is called here.
pub(crate) const VFORK_NAME: &str = "posix_spawn";

/// Nanoseconds since boot without sleep, from `mach_absolute_time`: CLOCK_MONOTONIC has microseconds here only.
pub(crate) const CLOCK: libc::clockid_t = libc::CLOCK_UPTIME_RAW;

/// The system examines a file when it is first executed (code signature, notarisation, XProtect), which takes up to
/// seconds: the first start of each file is never a sample.
pub const SCANS_NEW_FILES: bool = true;

/// A program of the system's that only exits, to stand for the control: the kernel runs no program here without the
/// dynamic linker and a signature, so that we cannot write one that is smaller.
pub fn system_control() -> Option<&'static Path> {
    Some(Path::new("/usr/bin/true"))
}

/// Both ends of a pipe, closed on exec: read, write. Between the two calls another thread could start a program that
/// inherits them; we start programs from one thread only.
pub(crate) fn pipe_cloexec() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe fills an array of two ints.
    cvt(unsafe { libc::pipe(fds.as_mut_ptr()) })?;
    // SAFETY: both descriptors were just made and have no other owner.
    let [read, write] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    for fd in fds {
        // SAFETY: the descriptor is open; F_SETFD takes an int.
        cvt(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok((read, write))
}

/// Both sides of a new pseudo-terminal, closed on exec: ours, the program's.
pub(crate) fn pseudo_terminal() -> Result<(OwnedFd, OwnedFd)> {
    let (mut ours, mut theirs) = (-1, -1);
    let (no_name, no_mode, no_size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: both descriptors are live locals; null stands for what is not asked for.
    cvt(unsafe { libc::openpty(&raw mut ours, &raw mut theirs, no_name, no_mode, no_size) })?;
    // SAFETY: both were just made and have no other owner.
    let [ours, theirs] = [ours, theirs].map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    for fd in [&ours, &theirs] {
        // SAFETY: the descriptor is open; F_SETFD takes an int.
        cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
    }
    Ok((ours, theirs))
}

pub(crate) use libc::__error as errno_location;

/// Sets `errno`, for refusals of ours that travel like the system's. Async-signal-safe.
fn refuse(errno: i32) {
    crate::sys::ret::set_errno(errno);
}

/// execve. Returns only on failure, with errno set.
///
/// # Safety
/// As for `child_main`.
pub(crate) unsafe fn exec(program: &Program) {
    match &program.target {
        Target::Path(path) => {
            // SAFETY: path and arrays are NUL-terminated and alive.
            unsafe { libc::execve(path.as_ptr(), program.argv.as_ptr(), program.envp.as_ptr()) };
        }
        // There is no fexecve; `program_file` makes none, so nobody comes here.
        Target::File(_) => refuse(libc::ENOTSUP),
    }
}

/// Bytes of arguments and environment that exec takes.
pub(crate) fn argument_limit() -> Option<u64> {
    // SAFETY: sysconf takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_ARG_MAX) }).ok()
}

/// Threads are placed by the system alone: refused, with errno set. Async-signal-safe.
pub(crate) fn pin_to_cpu(_cpu: usize) -> bool {
    refuse(libc::ENOTSUP);
    false
}

/// There is no affinity to processors here.
///
/// # Errors
/// Always.
pub fn stay_off_cpu(_cpu: usize) -> Result<()> {
    Err(Error::new("this system does not bind programs to processors"))
}

/// An executable file that needs no file system.
///
/// # Errors
/// Always: there is none here.
pub fn program_file(_name: &std::ffi::CStr, _bytes: &[u8]) -> Result<OwnedFd> {
    Err(Error::new("macOS executes no memory files"))
}

/// A growing store outside our address space for what is collected while we measure: a temporary file that has no
/// name any more.
///
/// # Errors
/// Where no temporary directory takes a file.
pub fn memory_file(name: &std::ffi::CStr) -> Result<std::fs::File> {
    crate::sys::file::unnamed(name)
}

/// Orphaned descendants of our children belong to launchd here: they are neither seen nor ended.
pub mod orphans {
    /// Nothing is adopted.
    #[derive(Debug)]
    pub struct Adopted;

    /// Adopts nothing.
    pub fn adopt() -> Adopted {
        Adopted
    }

    impl Adopted {
        /// Ends nothing.
        pub fn end(&mut self) -> Vec<String> {
            Vec::new()
        }

        /// There is nothing to keep.
        pub fn keep(&mut self) -> Vec<String> {
            Vec::new()
        }
    }
}

/// There are none.
pub(crate) fn reap_orphans() {}
