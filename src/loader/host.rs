//! The host's own files, as a loader sees them.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Bytes, Errno, FileId, Files, Opened};
use crate::sys::file::{self, Refusal};

/// The file system that premain runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host;

fn errno(e: &io::Error) -> Errno {
    Errno(e.raw_os_error().unwrap_or(Errno::EIO.0))
}

impl Files for Host {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        match file::open(path) {
            Ok(bytes) => {
                let stamp = bytes.stamp();
                let bytes: Bytes = Arc::new(bytes);
                Ok(Opened { id: FileId { dev: stamp.dev, ino: stamp.ino }, bytes: Ok(bytes) })
            }
            // A loader can open a directory or a FIFO, and then fails to read or map it.
            Err(Refusal::Kind(_)) => {
                let meta = std::fs::metadata(path).map_err(|e| errno(&e))?;
                let why = if meta.is_dir() { Errno::EISDIR } else { Errno::EINVAL };
                Ok(Opened { id: FileId { dev: meta.dev(), ino: meta.ino() }, bytes: Err(why) })
            }
            Err(Refusal::Errno(n)) => Err(Errno(n)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool, Errno> {
        std::fs::metadata(path).map(|m| m.is_dir()).map_err(|e| errno(&e))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        std::fs::read_link(path).map_err(|e| errno(&e))
    }
}
