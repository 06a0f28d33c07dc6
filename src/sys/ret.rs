//! A raw return value becomes a `Result`: the only place that reads `errno`.

use std::io;

use crate::error::{Error, Result};
use crate::sys::platform;

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sets it, for code that runs between a call and the reading of its errno. Async-signal-safe.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the address is that of the calling thread's own errno, which lives as long as the thread.
    let at = unsafe { platform::errno_location() };
    // SAFETY: as above.
    unsafe { at.write(errno) };
}

/// `-1` is an error, anything else a value.
pub(crate) fn cvt(value: i32) -> Result<i32> {
    if value == -1 { Err(Error::from_errno(errno())) } else { Ok(value) }
}

/// The same for calls that return a long (only Linux makes raw system calls).
#[cfg(target_os = "linux")]
pub(crate) fn cvt_long(value: libc::c_long) -> Result<libc::c_long> {
    if value == -1 { Err(Error::from_errno(errno())) } else { Ok(value) }
}
