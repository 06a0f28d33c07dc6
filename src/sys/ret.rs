//! A raw return value becomes a `Result`: the only place that reads `errno`.

use std::io;

use crate::error::{Error, Result};

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
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

/// Repeats a call that a signal interrupted.
pub(crate) fn cvt_retry(mut call: impl FnMut() -> i32) -> Result<i32> {
    loop {
        let value = call();
        if value != -1 || errno() != libc::EINTR {
            return cvt(value);
        }
    }
}
