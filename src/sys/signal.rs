//! Ctrl-C and TERM: one flag, set by a handler, read between starts.
//!
//! The first signal asks the run to end after what is under way; complete rounds are kept. The second ends
//! the process at once.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::Result;
use crate::sys::ret::cvt;

static CAUGHT: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(signal: libc::c_int) {
    if CAUGHT.swap(signal, Ordering::Relaxed) != 0 {
        // SAFETY: _exit is async-signal-safe and does not return.
        unsafe { libc::_exit(130) };
    }
}

/// Installs the handler for SIGINT, SIGTERM and SIGHUP, without SA_RESTART, so that waits return.
///
/// # Errors
/// The system's reason.
pub fn catch_interrupts() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: sigaction is plain data for which all zeroes is a value (empty mask, no flags).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = remember as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only touches an atomic and calls _exit; the pointer is to a live local.
        cvt(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(())
}

/// True once an interrupt was caught.
pub fn interrupted() -> bool {
    CAUGHT.load(Ordering::Relaxed) != 0
}
