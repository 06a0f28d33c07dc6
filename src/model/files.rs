//! Where the programs that we write live while they are measured.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::sys;

/// A directory of our own, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one in the first directory that takes executables: `TMPDIR`, then the usual ones.
    ///
    /// # Errors
    /// The last one's reason, where none does.
    pub fn new() -> Result<Scratch> {
        let mut reason = Error::new("no directory to try");
        let from_env = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|p| p.is_absolute());
        let fixed = ["/var/tmp", "/tmp", "/dev/shm"].map(PathBuf::from);
        for dir in from_env.into_iter().chain(fixed) {
            match Scratch::below(&dir) {
                Ok(scratch) => return Ok(scratch),
                Err(e) => reason = e.context(dir.to_string_lossy()),
            }
        }
        Err(reason.context("no directory takes programs"))
    }

    fn below(dir: &Path) -> Result<Scratch> {
        let path = dir.join(format!("premain-{}-{}", std::process::id(), sys::clock::now_ns()));
        // Only ours: nobody else may put a library there.
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let scratch = Scratch { path };
        // A mount with noexec takes the file and refuses to run it: known only by asking.
        let probe = scratch.path.join("probe");
        write_executable(&probe, b"")?;
        sys::process::check_executable(&probe)?;
        Ok(scratch)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drops its files from the page cache, so that they are read from the disk like programs that were installed before
    /// the last boot. As they were written they lie there in larger pieces, and start up to a tenth sooner. A file system
    /// that lives in memory keeps them.
    pub fn settle(&self) {
        let mut directories = vec![self.path.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(kind) if kind.is_file() => drop_from_cache(&entry.path()),
                    _ => {}
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Only what is on the disk can be dropped. What cannot be stays as it is.
fn drop_from_cache(path: &Path) {
    if std::fs::File::open(path).and_then(|file| file.sync_data()).is_ok() {
        let _ = sys::page_cache::evict(path);
    }
}

/// A new executable file.
///
/// # Errors
/// The system's reason.
pub fn write_executable(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
    file.write_all(bytes)?;
    Ok(())
}
