//! The host's own files, as a loader sees them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Bytes, Errno, FileId, Files, Opened};

/// The file system that premain runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

fn errno(e: &io::Error) -> Errno {
    Errno(e.raw_os_error().unwrap_or(Errno::EIO.0))
}

impl Files for Host {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        // A FIFO would block us until somebody writes into it, and no loader maps one.
        let meta = std::fs::metadata(path).map_err(|e| errno(&e))?;
        let id = FileId { dev: meta.dev(), ino: meta.ino() };
        if meta.is_dir() {
            return Ok(Opened { id, bytes: Err(Errno::EISDIR) });
        }
        if !meta.is_file() {
            return Ok(Opened { id, bytes: Err(Errno::EINVAL) });
        }
        let bytes = std::fs::read(path).map_err(|e| errno(&e))?;
        let bytes: Bytes = Arc::new(bytes);
        Ok(Opened { id, bytes: Ok(bytes) })
    }

    fn is_dir(&self, path: &Path) -> Result<bool, Errno> {
        std::fs::metadata(path).map(|m| m.is_dir()).map_err(|e| errno(&e))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        std::fs::read_link(path).map_err(|e| errno(&e))
    }
}
