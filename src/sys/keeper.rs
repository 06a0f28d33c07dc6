//! Reads a probed command's output while the thread that probes it is busy, and ends the command in time.
//!
//! Never used in a timed start: a thread beside it would disturb. Without it a command that writes more than a
//! pipe holds would wait for us while we wait for it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::JoinHandle;

use crate::error::{Context, Result};
use crate::sys::clock::now_ns;
use crate::sys::platform;
use crate::sys::ret::cvt;
use crate::sys::signal;
use crate::sys::start::Stream;
use crate::sys::wait;

/// Between looks at the clock and at Ctrl-C, in ms.
const LOOK_MS: i32 = 50;
/// After the command ended, at most this many further reads: a grandchild may go on writing.
const LAST_READS: usize = 64;

/// What was read of one command's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// First byte on standard output, `CLOCK_MONOTONIC`.
    pub stdout_first: Option<u64>,
    /// First byte on standard error.
    pub stderr_first: Option<u64>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// It ran too long and was killed.
    pub timed_out: bool,
    /// A signal to us ended it.
    pub interrupted: bool,
}

impl Heard {
    /// First byte of either stream, and which.
    pub fn first(&self) -> Option<(u64, Stream)> {
        let out = self.stdout_first.map(|t| (t, Stream::Stdout));
        let err = self.stderr_first.map(|t| (t, Stream::Stderr));
        match (out, err) {
            (Some(o), Some(e)) if e.0 < o.0 => Some(e),
            (Some(o), _) => Some(o),
            (None, e) => e,
        }
    }
}

/// The thread, with the write ends of the pipes for the command.
#[derive(Debug)]
pub struct Keeper {
    thread: JoinHandle<Heard>,
    pid: Arc<AtomicI32>,
    done: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    out_inode: u64,
    err_inode: u64,
}

impl Keeper {
    /// Makes the pipes and starts reading. `timeout_ns` counts from now.
    ///
    /// # Errors
    /// Where there are no descriptors or threads left.
    pub fn new(timeout_ns: Option<u64>) -> Result<Keeper> {
        let (out_read, stdout) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
        let (err_read, stderr) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
        let (done_read, done) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
        let [stdout, stderr] = [above_standard(stdout)?, above_standard(stderr)?];
        let (out_inode, err_inode) = (inode(&stdout), inode(&stderr));
        for fd in [&out_read, &err_read] {
            // SAFETY: the descriptor is open; F_SETFL takes an int.
            cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })
                .context(|| "cannot set up a pipe")?;
        }
        let pid = Arc::new(AtomicI32::new(0));
        let watched = Arc::clone(&pid);
        let deadline = timeout_ns.map(|t| now_ns().saturating_add(t));
        let keep = move || keep(out_read, err_read, &done_read, &watched, deadline);
        let thread = std::thread::Builder::new().spawn(keep).context(|| "cannot start a thread")?;
        Ok(Keeper { thread, pid, done, stdout, stderr, out_inode, err_inode })
    }

    /// The command's standard output and standard error.
    pub fn write_ends(&self) -> (&OwnedFd, &OwnedFd) {
        (&self.stdout, &self.stderr)
    }

    /// The inodes of both pipes: how a descriptor of the command is known to be one of them.
    pub fn inodes(&self) -> [u64; 2] {
        [self.out_inode, self.err_inode]
    }

    /// Tells which process to kill when time is up.
    pub fn watch(&self, pid: i32) {
        self.pid.store(pid, Ordering::Release);
    }

    /// The command has ended: what was read.
    pub fn finish(self) -> Heard {
        let Keeper { thread, done, stdout, stderr, .. } = self;
        drop((stdout, stderr, done));
        // The thread does not panic; if it did, nothing was heard.
        thread.join().unwrap_or_default()
    }
}

fn inode(fd: &OwnedFd) -> u64 {
    // SAFETY: stat is plain data for which all zeroes is a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the pointer is to a live local. A failure leaves 0, which is no inode.
    unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) };
    stat.st_ino
}

/// A copy of `fd` above the standard three, so that redirecting one cannot overwrite another.
pub fn above_standard(fd: OwnedFd) -> Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: `fd` is open; F_DUPFD_CLOEXEC takes an int and returns a new descriptor.
    let copy = cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

fn keep(out: OwnedFd, err: OwnedFd, done: &OwnedFd, pid: &AtomicI32, deadline: Option<u64>) -> Heard {
    let mut heard = Heard::default();
    let (mut out, mut err) = (Some(out), Some(err));
    let mut buffer = vec![0u8; 64 * 1024];
    loop {
        let raw = |fd: &Option<OwnedFd>| fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut fds =
            [raw(&out), raw(&err), done.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: an array of three pollfd; negative descriptors are ignored.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), 3, LOOK_MS) };
        let [out_ready, err_ready, ended] = fds.map(|f| ready > 0 && f.revents != 0);
        let reads = if ended { LAST_READS } else { 1 };
        if out_ready {
            read_some(&mut out, &mut buffer, reads, &mut heard.stdout_first, &mut heard.stdout_bytes);
        }
        if err_ready {
            read_some(&mut err, &mut buffer, reads, &mut heard.stderr_first, &mut heard.stderr_bytes);
        }
        if ended {
            return heard;
        }
        let too_long = deadline.is_some_and(|d| now_ns() >= d);
        if (too_long && !heard.timed_out) || (signal::interrupted() && !heard.interrupted) {
            heard.timed_out |= too_long;
            heard.interrupted |= signal::interrupted();
            kill_all(pid.load(Ordering::Acquire));
        }
    }
}

fn kill_all(pid: i32) {
    if pid > 0 {
        wait::kill(-pid, libc::SIGKILL);
        wait::kill(pid, libc::SIGKILL);
    }
}

fn read_some(fd: &mut Option<OwnedFd>, buffer: &mut [u8], reads: usize, first: &mut Option<u64>, bytes: &mut u64) {
    for _ in 0..reads {
        let Some(raw) = fd.as_ref().map(AsRawFd::as_raw_fd) else { return };
        match read_once(raw, buffer) {
            Ok(0) => *fd = None,
            Ok(n) => {
                first.get_or_insert_with(now_ns);
                *bytes = bytes.saturating_add(n as u64);
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => return,
            Err(_) => *fd = None,
        }
    }
}

fn read_once(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its length; the descriptor is open.
    let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
