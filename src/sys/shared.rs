//! Anonymous memory shared with children.
//!
//! Two uses. A forked child stamps its own clock and `errno` there, so that fork's cost can be set apart and
//! an exec failure comes home. And pages of a shared mapping are neither copied at fork nor written again
//! after it, so buffers of ours that live there do not make fork dearer.

use std::ptr::NonNull;

use crate::error::{Context, Error, Result};
use crate::sys::ret::errno;

/// Zeroed bytes, shared with every child forked later, unmapped on drop.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

impl SharedMemory {
    /// Maps at least `len` bytes and touches each page, so that no fault falls into a timed window.
    ///
    /// # Errors
    /// Where the system has no memory to map.
    pub fn new(len: usize) -> Result<SharedMemory> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::from_errno(errno()).context("cannot map shared memory"));
        }
        let start = NonNull::new(at.cast::<u8>()).context(|| "cannot map shared memory")?;
        let mut memory = SharedMemory { start, len };
        memory.bytes().fill(0);
        Ok(memory)
    }

    /// The bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` bytes long, readable, writable, initialised by the kernel, and ours until drop.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The address, for a child of ours.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
