//! Cold starts without root: asks the kernel to forget a file's pages, and counts what it did forget.
//!
//! `posix_fadvise(DONTNEED)` drops clean pages that nobody has mapped; pages of a library that any running program
//! has mapped stay. So what was achieved is counted with `mincore` and reported, never assumed.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::sys::ret::cvt;

/// What was in memory of a file before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Evicted {
    /// Pages of the file.
    pub pages: u64,
    /// Of them in memory before.
    pub before: u64,
    /// Of them in memory after.
    pub after: u64,
}

impl Evicted {
    /// Sums over files.
    pub fn add(&mut self, other: Evicted) {
        self.pages += other.pages;
        self.before += other.before;
        self.after += other.after;
    }
}

/// Asks for the pages of `path` to be dropped.
///
/// # Errors
/// Where the file cannot be opened, or its state not be read.
pub fn evict(path: &Path) -> Result<Evicted> {
    let file = File::open(path).context(|| path.to_string_lossy())?;
    let (pages, before) = resident(&file)?;
    drop_pages(&file);
    let (_, after) = resident(&file)?;
    Ok(Evicted { pages, before, after })
}

#[cfg(target_os = "linux")]
fn drop_pages(file: &File) {
    // SAFETY: the descriptor is open; the call takes numbers only. It is advice: a refusal shows in the count.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

#[cfg(not(target_os = "linux"))]
fn drop_pages(_file: &File) {}

/// Pages of a file, and how many are in memory.
fn resident(file: &File) -> Result<(u64, u64)> {
    let len = usize::try_from(file.metadata()?.len()).map_err(|_| Error::new("too large"))?;
    if len == 0 {
        return Ok((0, 0));
    }
    // SAFETY: a read-only mapping of an open file at an address of the kernel's choice; it is never read through.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(Error::from_errno(crate::sys::ret::errno()).context("cannot map"));
    }
    let pages = len.div_ceil(crate::sys::page_size());
    let mut state = vec![0u8; pages];
    // SAFETY: the mapping is `len` bytes long and the vector holds one byte for each of its pages.
    let known = cvt(unsafe { libc::mincore(at, len, state.as_mut_ptr().cast()) });
    // SAFETY: unmaps exactly the mapping made above.
    unsafe { libc::munmap(at, len) };
    known.context(|| "mincore")?;
    Ok((pages as u64, state.iter().filter(|s| **s & 1 != 0).count() as u64))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_file_of_ours_can_be_evicted_and_is_counted() {
        let path = std::env::temp_dir().join(format!("premain-evict-{}", std::process::id()));
        std::fs::write(&path, vec![7u8; 40_000]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
        let e = super::evict(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(e.pages, 40_000_u64.div_ceil(crate::sys::page_size() as u64));
        assert!(e.after <= e.before && e.before <= e.pages, "{e:?}");
    }
}
