//! What a loader may ask of a file system, behind a trait, so that another root or a test can stand in.
//!
//! Nothing here opens a file: the host's files come from `sys` through an adapter, a foreign root's through
//! [`super::root::Rooted`], a test's from a table in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error number of Linux, as ld.so and musl see it (and branch on it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// No such file or directory.
    pub const ENOENT: Errno = Errno(2);
    /// Input/output error.
    pub const EIO: Errno = Errno(5);
    /// Permission denied.
    pub const EACCES: Errno = Errno(13);
    /// Not a directory.
    pub const ENOTDIR: Errno = Errno(20);
    /// Is a directory: opening it works, reading it does not.
    pub const EISDIR: Errno = Errno(21);
    /// Invalid argument: what `readlink` says of a file that is no link.
    pub const EINVAL: Errno = Errno(22);
    /// File name too long.
    pub const ENAMETOOLONG: Errno = Errno(36);
    /// Too many levels of symbolic links.
    pub const ELOOP: Errno = Errno(40);

    /// The system's words.
    pub fn text(self) -> String {
        crate::error::Error::from_errno(self.0).to_string()
    }
}

/// Which file it is: loaders map a file once, whatever names lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Device (`st_dev`).
    pub dev: u64,
    /// Inode (`st_ino`).
    pub ino: u64,
}

/// Bytes of a file, shared by all who read them.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A file that could be opened.
#[derive(Clone)]
pub struct Opened {
    /// Which file it is.
    pub id: FileId,
    /// Its bytes, or why they cannot be read (a directory opens well, and fails at `read`).
    pub bytes: Result<Bytes, Errno>,
}

/// Questions to a file system. Paths are those of the process that would be started: absolute, or relative to its
/// working directory.
pub trait Files: Sync {
    /// `open(path, O_RDONLY)`, links followed.
    ///
    /// # Errors
    /// What `open` would set `errno` to.
    fn open(&self, path: &Path) -> Result<Opened, Errno>;

    /// `stat(path)`: whether it is a directory.
    ///
    /// # Errors
    /// What `stat` would set `errno` to.
    fn is_dir(&self, path: &Path) -> Result<bool, Errno>;

    /// `readlink(path)`.
    ///
    /// # Errors
    /// `EINVAL` where the file is no link, else what `readlink` would set `errno` to.
    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno>;
}
