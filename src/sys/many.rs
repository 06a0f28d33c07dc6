//! Many starts of one command at the same moment.
//!
//! Forking takes time, one child after the other: the first of 64 would long be done before the last is made. So the
//! children are made first, set up, and parked before a gate (the reading end of a pipe, in each); then the gate opens
//! for all at once, and that moment is their common start. What forking them took is told apart.
//!
//! A child goes on only where the parent says so in shared memory: a pipe that closes since the parent died is no
//! starting shot.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, Error, Result};
use crate::sys::child::{ChildPlan, ChildReport, Gate, failure};
use crate::sys::clock::now_ns;
use crate::sys::keeper::above_standard;
use crate::sys::platform;
use crate::sys::process::{Program, Stdin};
use crate::sys::shared::SharedMemory;
use crate::sys::signal;
use crate::sys::start::{Method, StartFailure};
use crate::sys::wait::{self, Usage, WaitStatus, Waited};

/// How one of them went. Times are `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneOfMany {
    /// In the child, just before execve.
    pub t_exec: u64,
    /// wait4 returned.
    pub t_exit: u64,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
    /// What the scheduler says of its first thread, from the gate on; only where asked for and where the kernel tells.
    pub scheduled: Option<Scheduled>,
    /// What of the processor time in `usage` went before the gate; only where observed.
    pub parked_ns: u64,
}

/// Where a thread's time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scheduled {
    /// On a processor.
    pub running_ns: u64,
    /// Ready to run, and waiting for a processor.
    pub waiting_ns: u64,
}

impl Scheduled {
    fn since(self, before: Scheduled) -> Scheduled {
        Scheduled {
            running_ns: self.running_ns.saturating_sub(before.running_ns),
            waiting_ns: self.waiting_ns.saturating_sub(before.waiting_ns),
        }
    }
}

/// How all of them went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Together {
    /// What it took to make them all, before the gate.
    pub fork_ns: u64,
    /// The gate opened.
    pub t_open: u64,
    /// The last one was waited for.
    pub t_last: u64,
    /// They ran too long and were killed.
    pub timed_out: bool,
    /// How long we ourselves ran, and waited for a processor, while they did: an end is noticed late by that at most.
    /// Only where observed.
    pub ours: Option<Scheduled>,
}

/// How we see to it that ends are noticed when they come, and not after all others have had their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticing {
    /// We have a real-time priority, and the starts none.
    RealTime,
    /// We ask for a short slice, and so go first when we wake up.
    ShortSlice,
    /// We queue like everybody else.
    Ordinary,
}

impl Noticing {
    /// The word in output.
    pub fn name(self) -> &'static str {
        match self {
            Noticing::RealTime => "real-time",
            Noticing::ShortSlice => "short slice",
            Noticing::Ordinary => "ordinary",
        }
    }
}

/// What to do with a crowd.
#[derive(Debug, Clone, Copy)]
pub struct ManyOptions<'a> {
    /// Kill them all after this long.
    pub timeout_ns: Option<u64>,
    /// Ask the scheduler about each; that takes time of ours while others still run.
    pub observe: bool,
    /// A file that each reads from its beginning, opened for each anew; else what the program says.
    pub stdin: Option<&'a Path>,
}

/// Buffers for at most so many at once, made once.
#[derive(Debug)]
pub struct Crowd {
    memory: SharedMemory,
    most: usize,
    null: OwnedFd,
    /// Pid and number of each, sorted by pid once all are made.
    pids: Vec<(i32, usize)>,
    /// How ends are noticed.
    noticing: Noticing,
    /// By place in `pids`: waited for, so that the number may belong to another process by now.
    ended: Vec<bool>,
}

/// The word by which the parent says that the gate was opened, at the start of the shared memory; reports follow.
const GO_BYTES: usize = 64;
/// How long children may take until all stand before the gate.
const READY_NS: u64 = 30_000_000_000;

impl Drop for Crowd {
    fn drop(&mut self) {
        platform::notice_as_ever();
    }
}

impl Crowd {
    /// Room for `most` at once.
    ///
    /// # Errors
    /// Where memory or `/dev/null` is not to be had.
    pub fn new(most: usize) -> Result<Crowd> {
        let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
        let null = above_standard(null.context(|| "/dev/null")?.into())?;
        let bytes = most.checked_mul(size_of::<ChildReport>()).and_then(|n| n.checked_add(GO_BYTES));
        let memory = SharedMemory::new(bytes.context(|| "too many at once")?)?;
        signal::catch_alarm()?;
        signal::catch_closed_pipes()?;
        Ok(Crowd {
            memory,
            most,
            null,
            pids: Vec::with_capacity(most),
            ended: Vec::with_capacity(most),
            noticing: platform::notice_soon(),
        })
    }

    /// How ends are noticed.
    pub fn noticing(&self) -> Noticing {
        self.noticing
    }

    fn report(&self, i: usize) -> *mut ChildReport {
        // SAFETY: the mapping holds GO_BYTES and more; that many keep the alignment of a page.
        let reports = unsafe { self.memory.start().add(GO_BYTES) }.cast::<ChildReport>();
        // SAFETY: callers pass i < most, and the mapping holds `most` reports there.
        unsafe { reports.add(i) }
    }

    fn go(&self) -> &AtomicU32 {
        // SAFETY: the first word of the mapping, page-aligned, zeroed, alive as long as `self`, used as this only.
        unsafe { &*self.memory.start().cast::<AtomicU32>() }
    }

    /// Starts `n` of them at once, with both output streams to `/dev/null`, and waits for all. What each showed is in `out`,
    /// in the order in which they were made.
    ///
    /// # Errors
    /// As for one start: exec or set-up failed in any of them, the system failed, or we were interrupted; whatever was
    /// made is gone then.
    pub fn start(
        &mut self,
        program: &Program,
        n: usize,
        options: &ManyOptions<'_>,
        out: &mut Vec<OneOfMany>,
    ) -> Result<Together, StartFailure> {
        if n == 0 || n > self.most {
            return Err(Error::new(format!("{n} at once, of at most {}", self.most)).into());
        }
        out.clear();
        self.pids.clear();
        self.ended.clear();
        self.go().store(0, Ordering::SeqCst);
        let made = self.make(program, n, options);
        let result = match made {
            Ok((gate, fork_ns)) => self.release(gate, fork_ns, options, out),
            Err(e) => Err(e),
        };
        signal::set_alarm(0);
        if result.is_err() {
            self.end_all();
        }
        result
    }

    /// Forks all and waits until they stand before the gate; returns its writing end.
    fn make(&mut self, program: &Program, n: usize, options: &ManyOptions<'_>) -> Result<(OwnedFd, u64), StartFailure> {
        let (gate_read, gate_write) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
        let (ready_read, ready_write) = platform::pipe_cloexec().context(|| "cannot make a pipe")?;
        let [gate_read, gate_write] = [above_standard(gate_read)?, above_standard(gate_write)?];
        let ready_write = above_standard(ready_write)?;
        let gate = Gate {
            read: gate_read.as_raw_fd(),
            write: gate_write.as_raw_fd(),
            ready: ready_write.as_raw_fd(),
            go: std::ptr::from_ref(self.go()),
        };
        let from = now_ns();
        for i in 0..n {
            if signal::interrupted() {
                return Err(StartFailure::Interrupted);
            }
            self.make_one(program, i, options, gate).map_err(|e| match e {
                StartFailure::System(e) => StartFailure::System(e.context(format!("number {} of {n} at once", i + 1))),
                other => other,
            })?;
        }
        wait_until_ready(&ready_read, n)?;
        let fork_ns = now_ns().saturating_sub(from);
        self.pids.sort_unstable();
        Ok((gate_write, fork_ns))
    }

    fn make_one(
        &mut self,
        program: &Program,
        i: usize,
        options: &ManyOptions<'_>,
        gate: Gate,
    ) -> Result<(), StartFailure> {
        // Each has a position of its own in the file.
        let own = options.stdin.map(File::open).transpose().context(|| "cannot open standard input")?;
        let own = own.map(|f| above_standard(f.into())).transpose()?;
        let null = self.null.as_raw_fd();
        let stdin: RawFd = match (&own, &program.stdin) {
            (Some(fd), _) => fd.as_raw_fd(),
            (None, Stdin::Inherit) => 0,
            (None, _) => null,
        };
        let plan = ChildPlan {
            program,
            stdin,
            stdout: null,
            stderr: null,
            report: self.report(i),
            terminal: false,
            watched: false,
            gate: Some(gate),
        };
        // SAFETY: report `i` lies in the mapping, and no child writes there yet.
        unsafe { plan.report.write(ChildReport::EMPTY) };
        let ready = platform::ready(Method::Fork, &plan)?;
        let (pid, _) = platform::spawn(ready, &plan)?;
        // Within the capacity reserved in `new`: no allocation.
        self.pids.push((pid, i));
        self.ended.push(false);
        Ok(())
    }

    /// Opens the gate and waits for all.
    fn release(
        &mut self,
        gate: OwnedFd,
        fork_ns: u64,
        options: &ManyOptions<'_>,
        out: &mut Vec<OneOfMany>,
    ) -> Result<Together, StartFailure> {
        let empty = OneOfMany {
            t_exec: 0,
            t_exit: 0,
            status: WaitStatus(0),
            usage: Usage::default(),
            scheduled: None,
            parked_ns: 0,
        };
        out.resize(self.pids.len(), empty);
        if options.observe {
            // Up to the gate: set apart, so that what is told begins with the start.
            for (pid, i) in &self.pids {
                out[*i].scheduled = platform::scheduled(*pid);
            }
        }
        let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
        let ours = if options.observe { platform::scheduled(own_pid) } else { None };
        signal::set_alarm(options.timeout_ns.unwrap_or(0));
        self.go().store(1, Ordering::SeqCst);
        // -- the window opens for all of them --
        let t_open = now_ns();
        drop(gate);
        let deadline = options.timeout_ns.map(|t| t_open.saturating_add(t));
        let mut together = Together { fork_ns, t_open, t_last: t_open, timed_out: false, ours: None };
        let mut left = self.pids.len();
        while left > 0 {
            if signal::interrupted() {
                return Err(StartFailure::Interrupted);
            }
            if deadline.is_some_and(|d| now_ns() >= d) && !together.timed_out {
                together.timed_out = true;
                self.kill_all();
            }
            let Some((pid, status, usage, t_exit, scheduled)) = next_end(options.observe)? else { continue };
            let Ok(at) = self.pids.binary_search_by_key(&pid, |(pid, _)| *pid) else { continue };
            self.ended[at] = true;
            // What it left in its group would load the machine while we measure on.
            wait::kill(-pid, libc::SIGKILL);
            let one = &mut out[self.pids[at].1];
            let before = one.scheduled;
            *one = OneOfMany {
                t_exec: 0,
                t_exit,
                status,
                usage,
                parked_ns: before.map_or(0, |b| b.running_ns),
                scheduled: scheduled.zip(before).map(|(now, before)| now.since(before)),
            };
            together.t_last = t_exit;
            left -= 1;
        }
        // -- the window is closed --
        together.ours = ours.and_then(|before| Some(platform::scheduled(own_pid)?.since(before)));
        for (i, one) in out.iter_mut().enumerate() {
            // SAFETY: report `i` lies in the mapping; the children are gone.
            let report = unsafe { self.report(i).read() };
            if let Some(failure) = failure(&report) {
                return Err(failure);
            }
            one.t_exec = if report.t_exec == 0 { t_open } else { report.t_exec };
        }
        Ok(together)
    }

    /// The pids that were not waited for yet.
    fn running(&self) -> impl Iterator<Item = i32> {
        self.pids.iter().zip(&self.ended).filter(|(_, ended)| !**ended).map(|((pid, _), _)| *pid)
    }

    fn kill_all(&self) {
        for pid in self.running() {
            wait::kill(-pid, libc::SIGKILL);
            wait::kill(pid, libc::SIGKILL);
        }
    }

    /// After a failure: kills and collects whatever there is.
    fn end_all(&mut self) {
        self.kill_all();
        for pid in self.running() {
            while matches!(wait::wait4(pid, true), Ok(Waited::Interrupted)) {}
        }
    }
}

type Ended = (i32, WaitStatus, Usage, u64, Option<Scheduled>);

/// The next child that ends; `None` where a signal came first. With `observe` it is asked about before it is collected.
fn next_end(observe: bool) -> Result<Option<Ended>, StartFailure> {
    let mut which = wait::OWN_CHILDREN;
    let (mut seen, mut scheduled) = (None, None);
    if observe {
        let Some(pid) = wait::next_ended_child()? else { return Ok(None) };
        seen = Some(now_ns());
        scheduled = platform::scheduled(pid);
        which = pid;
    }
    match wait::wait4(which, true)? {
        Waited::Ended(pid, status, usage) => Ok(Some((pid, status, usage, seen.unwrap_or_else(now_ns), scheduled))),
        Waited::Interrupted | Waited::Running => Ok(None),
        Waited::NoChild => Err(Error::new("the children are gone before they were waited for").into()),
    }
}

/// Reads a byte for each child that stands before the gate.
fn wait_until_ready(ready: &OwnedFd, n: usize) -> Result<(), StartFailure> {
    const LOOK_MS: i32 = 50;
    let from = now_ns();
    let mut left = n;
    let mut buffer = [0u8; 256];
    while left > 0 {
        let mut fd = libc::pollfd { fd: ready.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one live pollfd.
        let polled = unsafe { libc::poll(&raw mut fd, 1, LOOK_MS) };
        if signal::interrupted() {
            return Err(StartFailure::Interrupted);
        }
        if polled > 0 {
            // SAFETY: the buffer is writable for its length; the descriptor is open.
            let got = unsafe { libc::read(ready.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len().min(left)) };
            left -= usize::try_from(got).unwrap_or(0).min(left);
        } else if now_ns().saturating_sub(from) > READY_NS {
            return Err(Error::new(format!("{left} of {n} processes did not get ready in 30 s")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn program(words: &[&str]) -> Program {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        Program::new(Path::new(words[0]), &argv, &[]).unwrap()
    }

    const PLAIN: ManyOptions<'static> = ManyOptions { timeout_ns: None, observe: false, stdin: None };

    /// One at a time: a parked child holds copies of whatever another thread's gate has open.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn all_start_after_the_gate_and_each_is_accounted_for() {
        let _alone = ALONE.lock().unwrap();
        let mut crowd = Crowd::new(16).unwrap();
        let mut out = Vec::new();
        for observe in [false, true] {
            let options = ManyOptions { observe, ..PLAIN };
            let together = crowd.start(&program(&["/bin/sh", "-c", "exit 3"]), 16, &options, &mut out).unwrap();
            assert_eq!(out.len(), 16);
            assert!(out.iter().all(|o| o.status.exit_code() == Some(3)));
            assert!(out.iter().all(|o| o.t_exec >= together.t_open && o.t_exit >= o.t_exec), "{out:?}");
            assert_eq!(out.iter().map(|o| o.t_exit).max(), Some(together.t_last));
            assert!(cfg!(not(target_os = "linux")) || out.iter().all(|o| o.scheduled.is_some() == observe));
        }
    }

    // The time limit is tested through the verb: the alarm belongs to the process, and other tests of this one set it too.
    #[test]
    fn failures_come_home_and_nothing_is_left() {
        let _alone = ALONE.lock().unwrap();
        let mut crowd = Crowd::new(4).unwrap();
        let mut out = Vec::new();
        let missing = crowd.start(&program(&["/no/such/program"]), 4, &PLAIN, &mut out);
        assert_eq!(missing, Err(StartFailure::Exec(libc::ENOENT)));
        let mut nowhere = program(&["/bin/true"]);
        nowhere.cwd = Some(c"/no/such/directory".into());
        assert!(matches!(crowd.start(&nowhere, 4, &PLAIN, &mut out), Err(StartFailure::Setup(..))));
        assert!(matches!(crowd.start(&program(&["/bin/true"]), 5, &PLAIN, &mut out), Err(StartFailure::System(_))));
    }

    #[test]
    fn each_reads_the_file_from_its_beginning() {
        let _alone = ALONE.lock().unwrap();
        let file = std::env::temp_dir().join(format!("premain-many-{}", std::process::id()));
        std::fs::write(&file, "first\nsecond\n").unwrap();
        let script = "read x; test \"$x\" = first";
        let mut out = Vec::new();
        let options = ManyOptions { stdin: Some(&file), ..PLAIN };
        Crowd::new(8).unwrap().start(&program(&["/bin/sh", "-c", script]), 8, &options, &mut out).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(out.iter().all(|o| o.status.is_success()));
    }
}
