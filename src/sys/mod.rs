//! Everything that talks to the kernel, and the only place with `unsafe` and `libc::`.
//!
//! A raw call becomes a `Result` in [`ret`], and leaves here as a safe noun. What differs between systems
//! lives in `linux/` and `macos/` under the same function names; what differs between processors in
//! `linux/arch/`.
#![allow(unsafe_code)] // reason: this is the layer that holds it; each block carries its SAFETY line.

mod child;
pub mod clock;
pub mod cpu;
pub mod file;
#[cfg(any(test, target_env = "musl"))]
mod heap;
pub mod host;
pub mod identity;
pub mod keeper;
pub mod many;
pub mod output_hash;
pub mod page_cache;
pub mod process;
mod ret;

/// errno of exec on a file that somebody has open for writing.
pub const ETXTBSY: i32 = libc::ETXTBSY;
/// errno of exec on a file, or on an interpreter, that is not there.
pub const ENOENT: i32 = libc::ENOENT;
/// errno of exec with more arguments and environment than the system takes.
pub const E2BIG: i32 = libc::E2BIG;
/// errno of exec on a file that is no program for this machine.
pub const ENOEXEC: i32 = libc::ENOEXEC;

pub mod shared;
pub mod signal;
pub mod start;
pub mod terminal;
pub mod wait;

#[cfg(target_os = "linux")]
pub mod linux;
#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(target_os = "macos")]
pub mod macos;
#[cfg(target_os = "macos")]
use macos as platform;

#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

/// Bytes of a memory page.
pub fn page_size() -> usize {
    // SAFETY: sysconf takes a number.
    let n = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(n).unwrap_or(4096).max(1)
}
pub use platform::orphans;
#[cfg(any(target_os = "macos", target_arch = "x86_64", target_arch = "aarch64"))]
pub use platform::probe;
pub use platform::{SCANS_NEW_FILES, memory_file, program_file, stay_off_cpu, system_control};
