//! One timed start: the window from just before `fork` to the return of `wait4`.
//!
//! This file is the method. What may sit between `t0` and `t_exit` is fixed here: the fork itself, closing
//! our copies of the child's pipe ends, waiting for and reading its output, and `wait4`. No allocation, no
//! file opened, no page touched for the first time.
//!
//! The hard part is how it ends. A time limit is an alarm set before the window, which interrupts the wait: no
//! clock is read and no timer call made in a start that ends in time. The child is known to be gone by its pidfd, never by its pipes: a
//! grandchild may hold them open (we do not wait for it), or the child may close them and run on.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::error::{Context, Exit, Result};
use crate::sys::child::{ChildPlan, ChildReport, failure};
use crate::sys::clock::now_ns;
use crate::sys::output_hash::OutputHash;
use crate::sys::platform;
use crate::sys::process::{Program, Stdin};
use crate::sys::ret::{cvt, errno};
use crate::sys::shared::SharedMemory;
use crate::sys::signal;
use crate::sys::wait::{self, Usage, WaitStatus, Waited};

/// How a child is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Plain fork, exec, wait4.
    #[default]
    Fork,
    /// `clone` with CLONE_VM and CLONE_VFORK: nothing is copied, the parent sleeps until exec. On macOS posix_spawn,
    /// which is one system call there: the child stamps no clock of its own, so fork and exec are not told apart.
    Vfork,
}

impl Method {
    /// The word in output and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Method::Fork => "fork",
            Method::Vfork => platform::VFORK_NAME,
        }
    }
}

/// Where a child's standard output goes (standard error: a pipe of its own, or `/dev/null` with it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdout {
    /// A pipe that we drain, with the first byte stamped.
    #[default]
    Pipe,
    /// `/dev/null`.
    Null,
    /// A pseudo-terminal that we drain, for standard error too: what a person's terminal would make the program do.
    Pty,
}

impl Stdout {
    /// The word in output and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Stdout::Pipe => "pipe",
            Stdout::Null => "null",
            Stdout::Pty => "pty",
        }
    }
}

/// Which stream the first byte came on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// How to start and when to give up.
#[derive(Debug, Clone, Copy, Default)]
pub struct StartOptions {
    /// fork or vfork.
    pub method: Method,
    /// Where output goes.
    pub stdout: Stdout,
    /// Kill the process group after this long.
    pub timeout_ns: Option<u64>,
    /// End the start at its first byte of output (servers that never exit).
    pub until_first_byte: bool,
    /// Stamp the end of standard output. It wakes us once more in each start, just as the child ends, which made
    /// a start 12 % dearer; so it has to be asked for.
    pub stamp_eof: bool,
    /// Leave running what the command leaves in its process group.
    pub keep: bool,
}

/// What one start showed. Times are `CLOCK_MONOTONIC` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawStart {
    /// Just before fork.
    pub t0: u64,
    /// In the child, just before execve.
    pub t_exec: u64,
    /// First byte of standard output read.
    pub t_byte: Option<u64>,
    /// First byte of either stream, and which.
    pub t_first_output: Option<(u64, Stream)>,
    /// Standard output reached its end; only with [`StartOptions::stamp_eof`].
    pub t_eof: Option<u64>,
    /// wait4 returned.
    pub t_exit: u64,
    /// Bytes read from standard output.
    pub stdout_bytes: u64,
    /// Bytes read from standard error.
    pub stderr_bytes: u64,
    /// [`OutputHash`] of standard output.
    pub stdout_hash: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
    /// Something still held its output open after it ended.
    pub held_open: bool,
    /// We killed it for running too long.
    pub timed_out: bool,
    /// The signal that held it when its time was up.
    pub stopped_by: Option<i32>,
    /// We ended it at its first byte, as asked.
    pub ended_at_first_byte: bool,
}

/// Why there is no sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFailure {
    /// execve failed with this errno: never a fast start.
    Exec(i32),
    /// What has to be set up in the child before execve could not be, with this errno.
    Setup(&'static str, i32),
    /// fork or a pipe failed, or the wait did.
    System(crate::error::Error),
    /// A signal asked us to stop; the child was killed.
    Interrupted,
}

impl From<crate::error::Error> for StartFailure {
    fn from(e: crate::error::Error) -> Self {
        if e.exit() == Exit::Interrupted { StartFailure::Interrupted } else { StartFailure::System(e) }
    }
}

/// After TERM, this long until KILL.
const GRACE_NS: u64 = 500_000_000;
/// Bytes per read: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;
/// Start of the read buffer in the shared memory; the child's report lies before it.
const REPORT_BYTES: usize = 4096;
/// Bytes of standard error that are kept to explain a failure.
pub const STDERR_KEPT: usize = 2048;

/// The parent's side of many starts: buffers that are made once and reused.
#[derive(Debug)]
pub struct Starter {
    memory: SharedMemory,
    null: OwnedFd,
    stderr_kept: Vec<u8>,
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
    set_nonblocking(&read)?;
    Ok((read, write))
}

fn set_nonblocking(fd: &OwnedFd) -> Result<()> {
    // SAFETY: `fd` is open; F_SETFL takes an int.
    cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })
        .context(|| "cannot set up a stream")?;
    Ok(())
}

/// Both ends of a child's streams; all `None` where they go to `/dev/null`, and one stream where it is a terminal.
struct StreamEnds {
    out_read: Option<OwnedFd>,
    out_write: Option<OwnedFd>,
    err_read: Option<OwnedFd>,
    err_write: Option<OwnedFd>,
}

impl StreamEnds {
    fn new(to: Stdout) -> Result<StreamEnds> {
        let (mut out, mut err) = (None, None);
        match to {
            Stdout::Null => {}
            Stdout::Pipe => (out, err) = (Some(pipe()?), Some(pipe()?)),
            Stdout::Pty => {
                let (ours, theirs) = platform::pseudo_terminal().context(|| "cannot make a pseudo-terminal")?;
                set_nonblocking(&ours)?;
                out = Some((ours, theirs));
            }
        }
        let (out_read, out_write) = out.unzip();
        let (err_read, err_write) = err.unzip();
        Ok(StreamEnds { out_read, out_write, err_read, err_write })
    }

    fn close_write_ends(&mut self) {
        drop((self.out_write.take(), self.err_write.take()));
    }
}

/// A copy of `fd` above the standard three, so that redirecting one cannot overwrite another.
fn above_standard(fd: OwnedFd) -> Result<OwnedFd> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    // SAFETY: `fd` is open; F_DUPFD_CLOEXEC takes an int and returns a new descriptor.
    let copy = cvt(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` was just made and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// One stream of a child while it runs.
struct Reader {
    fd: Option<OwnedFd>,
    bytes: u64,
    hash: OutputHash,
    first: Option<u64>,
    eof: Option<u64>,
}

enum ReadOutcome {
    Data(usize),
    Nothing,
    End,
}

impl Reader {
    fn new(fd: Option<OwnedFd>) -> Reader {
        Reader { fd, bytes: 0, hash: OutputHash::default(), first: None, eof: None }
    }

    fn raw(&self) -> RawFd {
        self.fd.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn end(&mut self, now: u64) {
        self.eof = Some(now);
        self.fd = None;
    }

    fn read(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        // SAFETY: the buffer is writable for its length; the descriptor is open or -1, which fails cleanly.
        let n = unsafe { libc::read(self.raw(), buffer.as_mut_ptr().cast(), buffer.len()) };
        let now = now_ns();
        match usize::try_from(n) {
            Ok(0) => {
                self.end(now);
                ReadOutcome::End
            }
            Ok(n) => {
                self.first.get_or_insert(now);
                self.bytes += n as u64;
                ReadOutcome::Data(n)
            }
            Err(_) if matches!(errno(), libc::EAGAIN | libc::EINTR) => ReadOutcome::Nothing,
            // EIO is how a pseudo-terminal says that its other end is closed.
            Err(_) => {
                self.end(now);
                ReadOutcome::End
            }
        }
    }
}

/// A child while it runs, and why it was told to end.
struct Running {
    pid: i32,
    exit: Option<OwnedFd>,
    deadline: Option<u64>,
    kill_at: Option<u64>,
    timed_out: bool,
    stopped_by: Option<i32>,
    interrupted: bool,
    ended_at_first_byte: bool,
}

impl Running {
    /// The command's whole process group; the child itself too, in case it has not made its group yet.
    fn signal_group(&self, signal: i32) {
        wait::kill(-self.pid, signal);
        wait::kill(self.pid, signal);
    }

    /// Its first byte is what was wanted: ask it to go, and kill it after a grace.
    fn end_at_first_byte(&mut self) {
        self.ended_at_first_byte = true;
        self.signal_group(libc::SIGTERM);
        self.kill_at = Some(now_ns().saturating_add(GRACE_NS));
        signal::set_alarm(GRACE_NS);
    }

    /// Acts on what the clock and the signals say: called when a wait was interrupted, by a signal or by the alarm.
    fn attend(&mut self) {
        let now = now_ns();
        if signal::interrupted() && !self.interrupted {
            self.interrupted = true;
            self.signal_group(libc::SIGKILL);
        }
        if self.deadline.is_some_and(|d| now >= d) && !self.timed_out {
            self.timed_out = true;
            self.stopped_by = wait::stopped_by(self.pid);
            self.signal_group(libc::SIGTERM);
            self.signal_group(libc::SIGCONT);
            self.kill_at = Some(now.saturating_add(GRACE_NS));
        }
        if self.kill_at.is_some_and(|k| now >= k) {
            self.signal_group(libc::SIGKILL);
        }
    }
}

impl Starter {
    /// Makes the buffers.
    ///
    /// # Errors
    /// Where memory or `/dev/null` is not to be had.
    pub fn new() -> Result<Starter> {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
        let null = above_standard(null.context(|| "/dev/null")?.into())?;
        let memory = SharedMemory::new(REPORT_BYTES + READ_BYTES)?;
        signal::catch_alarm()?;
        signal::catch_closed_pipes()?;
        Ok(Starter { memory, null, stderr_kept: Vec::with_capacity(STDERR_KEPT) })
    }

    /// The first bytes that the last start wrote to standard error.
    pub fn stderr_kept(&self) -> &[u8] {
        &self.stderr_kept
    }

    /// Starts `program` once and waits for its end.
    ///
    /// # Errors
    /// [`StartFailure`]: exec failed, the system failed, or we were interrupted. Never a sample then.
    pub fn start(&mut self, program: &Program, options: &StartOptions) -> Result<RawStart, StartFailure> {
        // A signal that came between two starts interrupted no wait: it is seen here.
        if signal::interrupted() {
            return Err(StartFailure::Interrupted);
        }
        // -- preparation: everything that can be done before the clock is read --
        self.stderr_kept.clear();
        let mut ends = StreamEnds::new(options.stdout)?;
        rewind_stdin(&program.stdin)?;
        let null = self.null.as_raw_fd();
        let plan = ChildPlan {
            program,
            stdin: match &program.stdin {
                Stdin::Null => null,
                Stdin::Inherit => 0,
                Stdin::File(fd) => fd.as_raw_fd(),
            },
            stdout: ends.out_write.as_ref().map_or(null, AsRawFd::as_raw_fd),
            stderr: ends.err_write.as_ref().or(ends.out_write.as_ref()).map_or(null, AsRawFd::as_raw_fd),
            terminal: options.stdout == Stdout::Pty,
            report: self.memory.start().cast::<ChildReport>(),
            watched: options.stdout != Stdout::Null,
        };
        // SAFETY: the report lies at the start of a mapping of at least REPORT_BYTES, page-aligned; no child is running.
        unsafe { plan.report.write(ChildReport::EMPTY) };

        let ready = platform::ready(options.method, &plan)?;
        signal::set_alarm(options.timeout_ns.unwrap_or(0));

        // -- the timed window opens: nothing below allocates --
        let t0 = now_ns();
        let (pid, exit) = platform::spawn(ready, &plan)?;
        signal::end_on_interrupt(pid);
        // Our copies of the writing ends keep the pipes from hanging up as the child ends: the descriptor of its end
        // wakes us, once. Without that descriptor, hanging up is all there is to wait for.
        if options.stamp_eof || exit.is_none() {
            ends.close_write_ends();
        }
        let deadline = options.timeout_ns.map(|t| t0.saturating_add(t));
        let mut child = Running {
            pid,
            exit,
            deadline,
            kill_at: None,
            timed_out: false,
            stopped_by: None,
            interrupted: false,
            ended_at_first_byte: false,
        };
        let (mut out, mut err) = (Reader::new(ends.out_read.take()), Reader::new(ends.err_read.take()));
        self.watch(&mut child, &mut out, &mut err, options.until_first_byte);
        let (status, usage) = reap(&mut child)?;
        let t_exit = now_ns();
        // -- the window is closed; what follows is bookkeeping --

        signal::end_on_interrupt(0);
        signal::set_alarm(0);
        ends.close_write_ends();
        self.drain(&mut out, &mut err);
        let held_open = out.fd.is_some() || err.fd.is_some();
        // SAFETY: as above; the child is gone, so nothing writes there any more.
        let report = unsafe { plan.report.read() };
        // What the command left in its group is not ours to keep: it would load the machine while we measure on. What
        // made a session of its own meant to stay: the end of the run ends it.
        if !options.keep {
            wait::kill(-child.pid, libc::SIGKILL);
        }
        platform::reap_orphans();
        if child.interrupted || signal::interrupted() {
            return Err(StartFailure::Interrupted);
        }
        if let Some(failure) = failure(&report) {
            return Err(failure);
        }
        let first = match (out.first, err.first) {
            (Some(o), Some(e)) if e < o => Some((e, Stream::Stderr)),
            (Some(o), _) => Some((o, Stream::Stdout)),
            (None, e) => e.map(|e| (e, Stream::Stderr)),
        };
        Ok(RawStart {
            t0,
            // Zero where the child was killed before it came to exec.
            t_exec: if report.t_exec == 0 { t0 } else { report.t_exec },
            t_byte: out.first,
            t_first_output: first,
            t_eof: out.eof.filter(|_| options.stamp_eof),
            t_exit,
            stdout_bytes: out.bytes,
            stderr_bytes: err.bytes,
            stdout_hash: out.hash.finish(),
            status,
            usage,
            held_open,
            timed_out: child.timed_out,
            stopped_by: child.stopped_by,
            ended_at_first_byte: child.ended_at_first_byte,
        })
    }

    /// Reads both streams until they end or the child does.
    fn watch(&mut self, child: &mut Running, out: &mut Reader, err: &mut Reader, mut until_first_byte: bool) {
        // -1 on kernels without pidfd (Linux before 5.2): there the end of the pipes is waited for.
        let exit = child.exit.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        while out.fd.is_some() || err.fd.is_some() {
            let mut fds = [out.raw(), err.raw(), exit].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            // SAFETY: `fds` is an array of three pollfd; negative descriptors are ignored by poll.
            if unsafe { libc::poll(fds.as_mut_ptr(), 3, -1) } <= 0 {
                child.attend();
                continue;
            }
            self.follow(out, fds[0].revents, false);
            self.follow(err, fds[1].revents, true);
            if until_first_byte && (out.first.is_some() || err.first.is_some()) {
                until_first_byte = false;
                child.end_at_first_byte();
            }
            if fds[2].revents != 0 {
                return;
            }
        }
    }

    fn follow(&mut self, stream: &mut Reader, revents: libc::c_short, keep: bool) {
        if revents & libc::POLLIN != 0 {
            self.take(stream, keep);
        } else if revents != 0 {
            // Hung up with nothing left to read: its end, known without a read.
            stream.end(now_ns());
        }
    }

    fn take(&mut self, stream: &mut Reader, keep: bool) -> bool {
        let buffer = self.memory.bytes().get_mut(REPORT_BYTES..).unwrap_or_default();
        let ReadOutcome::Data(n) = stream.read(buffer) else { return false };
        let data = buffer.get(..n).unwrap_or_default();
        if keep {
            let room = STDERR_KEPT - self.stderr_kept.len();
            // Within the capacity reserved in `new`: no allocation.
            self.stderr_kept.extend_from_slice(&data[..n.min(room)]);
        } else {
            stream.hash.update(data);
        }
        true
    }

    /// What lay in the pipes when the child ended; bounded, since a grandchild may go on writing.
    fn drain(&mut self, out: &mut Reader, err: &mut Reader) {
        const READS: usize = 64;
        for (stream, keep) in [(out, false), (err, true)] {
            let mut reads = 0;
            while stream.fd.is_some() && reads < READS && self.take(stream, keep) {
                reads += 1;
            }
        }
    }
}

fn rewind_stdin(stdin: &Stdin) -> Result<()> {
    if let Stdin::File(fd) = stdin {
        // SAFETY: lseek takes no pointers; a stream that cannot seek is fed as it comes.
        unsafe { libc::lseek(fd.as_raw_fd(), 0, libc::SEEK_SET) };
    }
    Ok(())
}

/// Waits for the child's end, and kills it where a signal asks us to stop.
fn reap(child: &mut Running) -> Result<(WaitStatus, Usage), StartFailure> {
    loop {
        match wait::wait4(child.pid, true)? {
            Waited::Ended(_, status, usage) => return Ok((status, usage)),
            Waited::Interrupted | Waited::Running => {
                child.attend();
            }
            Waited::NoChild => {
                return Err(crate::error::Error::new("the child is gone before it was waited for").into());
            }
        }
    }
}
