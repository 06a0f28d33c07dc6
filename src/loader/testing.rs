//! A file system in memory, for the tests of this module.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Errno, FileId, Files, Opened};

/// Absolute paths without `..`; directories are the parents of what is in it.
#[derive(Default)]
pub(crate) struct Table {
    files: BTreeMap<PathBuf, (u64, Arc<Vec<u8>>)>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Table {
    pub(crate) fn file(&mut self, path: &str, bytes: &[u8]) {
        let ino = self.files.len() as u64 + 1;
        self.files.insert(path.into(), (ino, Arc::new(bytes.to_vec())));
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.links.insert(path.into(), target.into());
    }

    fn exists_as_dir(&self, path: &Path) -> bool {
        let below = |p: &PathBuf| p.starts_with(path) && p != path;
        self.files.keys().chain(self.links.keys()).any(below)
    }

    /// The path without links, in the kernel's way.
    fn follow(&self, path: &Path, follow_last: bool) -> Result<PathBuf, Errno> {
        let mut done = PathBuf::from("/");
        let mut todo = names(path);
        let mut links = 0;
        while let Some(name) = todo.pop() {
            match name.as_bytes() {
                b"." => continue,
                b".." => {
                    done.pop();
                    continue;
                }
                _ => done.push(&name),
            }
            if todo.is_empty() && !follow_last {
                break;
            }
            if let Some(target) = self.links.get(&done) {
                links += 1;
                if links > 40 {
                    return Err(Errno::ELOOP);
                }
                done.pop();
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                todo.extend(names(target));
            } else if !todo.is_empty() && !self.exists_as_dir(&done) {
                return Err(if self.files.contains_key(&done) { Errno::ENOTDIR } else { Errno::ENOENT });
            }
        }
        Ok(done)
    }
}

/// The names between slashes, last first.
fn names(path: &Path) -> Vec<OsString> {
    let parts = path.as_os_str().as_bytes().split(|b| *b == b'/').rev().filter(|c| !c.is_empty());
    parts.map(|c| OsStr::from_bytes(c).to_os_string()).collect()
}

impl Files for Table {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        let path = self.follow(path, true)?;
        if let Some((ino, bytes)) = self.files.get(&path) {
            return Ok(Opened { id: FileId { dev: 1, ino: *ino }, bytes: Ok(bytes.clone()) });
        }
        if self.exists_as_dir(&path) {
            return Ok(Opened { id: FileId { dev: 1, ino: 0 }, bytes: Err(Errno::EISDIR) });
        }
        Err(Errno::ENOENT)
    }

    fn is_dir(&self, path: &Path) -> Result<bool, Errno> {
        let path = self.follow(path, true)?;
        if self.files.contains_key(&path) {
            return Ok(false);
        }
        if self.exists_as_dir(&path) { Ok(true) } else { Err(Errno::ENOENT) }
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        let path = self.follow(path, false)?;
        if let Some(target) = self.links.get(&path) {
            return Ok(target.clone());
        }
        if self.files.contains_key(&path) || self.exists_as_dir(&path) {
            Err(Errno::EINVAL)
        } else {
            Err(Errno::ENOENT)
        }
    }
}
