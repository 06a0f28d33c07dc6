//! Ctrl-C and TERM: one flag, set by a handler, read between starts. And the alarm that bounds a wait.
//!
//! The first signal asks the run to end after what is under way; complete rounds are kept. The second ends
//! the process at once.

use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use crate::error::Result;
use crate::sys::ret::{self, cvt};
use crate::sys::shared::SharedMemory;
use crate::sys::wait;

static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// Where the pid of the child that ends with us stands (0: none), once interrupts are caught. It is written just after
/// fork, inside the timed window, so it lies in memory that fork does not mark for copying: the fault of a first write
/// to a page of ours made a start 2 % dearer.
static CHILD: AtomicPtr<AtomicI32> = AtomicPtr::new(std::ptr::null_mut());

fn child() -> Option<&'static AtomicI32> {
    // SAFETY: null, or the address that `catch_interrupts` stored: aligned, zeroed, and mapped until the process ends.
    unsafe { CHILD.load(Ordering::Acquire).as_ref() }
}

extern "C" fn remember(signal: libc::c_int) {
    if CAUGHT.swap(signal, Ordering::Relaxed) != 0 {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(130) };
    }
    // The interrupted code may be about to read errno.
    let errno = ret::errno();
    end_child(child().map_or(0, |pid| pid.load(Ordering::Relaxed)));
    ret::set_errno(errno);
}

fn end_child(pid: i32) {
    if pid > 0 {
        wait::kill(-pid, libc::SIGKILL);
        wait::kill(pid, libc::SIGKILL);
    }
}

/// From now on an interrupt ends this child and its process group (0: none). Done by the handler itself: a signal that
/// comes just before we go to sleep would otherwise be noticed only when the child ends by itself.
pub(crate) fn end_on_interrupt(pid: i32) {
    let Some(cell) = child() else { return };
    cell.store(pid, Ordering::Relaxed);
    if interrupted() {
        end_child(pid);
    }
}

extern "C" fn wake(_signal: libc::c_int) {}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> Result<()> {
    // SAFETY: sigaction is plain data for which all zeroes is a value (empty mask, no flags, so no SA_RESTART).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: both handlers of this file are async-signal-safe; the pointer is to a live local.
    cvt(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

/// Makes SIGALRM interrupt whatever system call sleeps, and do nothing else.
///
/// # Errors
/// The system's reason.
pub fn catch_alarm() -> Result<()> {
    handle(libc::SIGALRM, wake)
}

/// Turns SIGPIPE, which Rust's runtime ignores, into a signal that is handled and has no effect: our writes still
/// fail with EPIPE, but exec resets a handler, where an ignored signal would stay ignored in the program measured.
///
/// # Errors
/// The system's reason.
pub fn catch_closed_pipes() -> Result<()> {
    handle(libc::SIGPIPE, wake)
}

/// After the first alarm they repeat this often, so that one that comes just before a wait is not the last.
const REPEAT_US: u64 = 20_000;

/// Sends SIGALRM after `ns` and then again and again; 0 ends that. A child does not inherit it.
pub fn set_alarm(ns: u64) {
    let us = ns.div_ceil(1000);
    // The fields' types have no name that is right on every libc: musl's are to change.
    let timeval = |us: u64| libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ };
    let (first, repeat) = (timeval(us), timeval(if ns == 0 { 0 } else { REPEAT_US }));
    let timer = libc::itimerval { it_interval: repeat, it_value: first };
    // SAFETY: the pointer is to a live local; a null `old` is allowed.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Installs the handler for SIGINT, SIGTERM and SIGHUP, without SA_RESTART, so that waits return. One that we were
/// started to ignore (`nohup`) stays ignored. And gives SIGCHLD its default: where it is ignored, which programs inherit,
/// children vanish before they can be waited for.
///
/// # Errors
/// The system's reason.
pub fn catch_interrupts() -> Result<()> {
    if child().is_none() {
        let memory = SharedMemory::new(size_of::<AtomicI32>())?;
        CHILD.store(memory.start().cast(), Ordering::Release);
        // The handler may look there as long as we live.
        std::mem::forget(memory);
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !is_ignored(signal)? {
            handle(signal, remember)?;
        }
    }
    // SAFETY: sigaction is plain data for which all zeroes is a value: SIG_DFL, no flags, empty mask.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local of the right type.
    cvt(unsafe { libc::sigaction(libc::SIGCHLD, &raw const default, std::ptr::null_mut()) })?;
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> Result<bool> {
    // SAFETY: sigaction is plain data for which all zeroes is a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; the other pointer is to a live local.
    cvt(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) })?;
    Ok(now.sa_sigaction == libc::SIG_IGN)
}

/// After this an interrupt is a first one again: for work that is owed even after one. True where there had been one.
pub fn forget_interrupt() -> bool {
    CAUGHT.swap(0, Ordering::Relaxed) != 0
}

/// True once an interrupt was caught.
pub fn interrupted() -> bool {
    CAUGHT.load(Ordering::Relaxed) != 0
}
