//! What many programs have in common, read once: files by path and by identity, directories, caches.
//!
//! A handle may be shared by threads. What it holds is a snapshot: a file that changes while it lives is not read again.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::binary::File;
use super::cache::Cache;
use super::files::{Errno, FileId, Files};
use crate::facts::Endian;

/// A cache file, or why there is none.
#[derive(Clone)]
pub enum CacheFile {
    /// It could be read.
    Good(Arc<Cache>),
    /// It cannot be opened.
    Missing(Errno),
    /// It is opened and not used.
    Bad(String),
}

/// What was read for earlier programs.
#[derive(Default)]
pub struct Memo {
    opened: RwLock<HashMap<PathBuf, Result<Arc<File>, Errno>>>,
    files: RwLock<HashMap<FileId, Arc<File>>>,
    directories: RwLock<HashMap<PathBuf, Result<bool, Errno>>>,
    caches: RwLock<HashMap<(PathBuf, bool), CacheFile>>,
}

/// The value of a key, made at its first use. Two threads may both make it: the first to finish is kept.
fn get_or_make<K: Eq + Hash, V: Clone>(map: &RwLock<HashMap<K, V>>, key: K, make: impl FnOnce(&K) -> V) -> V {
    // A poisoned lock only says that another thread panicked; the map is whole.
    if let Some(value) = map.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return value.clone();
    }
    let value = make(&key);
    map.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(value).clone()
}

impl Memo {
    /// Nothing read yet.
    pub fn new() -> Memo {
        Memo::default()
    }

    /// Opens a file, or repeats how that ended before.
    ///
    /// # Errors
    /// What `open` would set `errno` to.
    pub fn open(&self, files: &dyn Files, path: &Path) -> Result<Arc<File>, Errno> {
        if let Some(known) = self.opened.read().unwrap_or_else(PoisonError::into_inner).get(path) {
            return known.clone();
        }
        get_or_make(&self.opened, path.to_path_buf(), |path| {
            let opened = files.open(path)?;
            Ok(get_or_make(&self.files, opened.id, |id| Arc::new(File::new(*id, opened.bytes.clone()))))
        })
    }

    /// `stat(path)`: whether it is a directory.
    ///
    /// # Errors
    /// What `stat` would set `errno` to.
    pub fn is_dir(&self, files: &dyn Files, path: &Path) -> Result<bool, Errno> {
        get_or_make(&self.directories, path.to_path_buf(), |path| files.is_dir(path))
    }

    /// A cache for a loader of this byte order.
    pub fn cache(&self, files: &dyn Files, path: &Path, endian: Endian) -> CacheFile {
        let key = (path.to_path_buf(), endian == Endian::Little);
        get_or_make(&self.caches, key, |(path, _)| {
            let opened = match files.open(path) {
                Ok(opened) => opened,
                Err(e) => return CacheFile::Missing(e),
            };
            match opened.bytes.map_err(Errno::text).and_then(|bytes| Cache::parse(bytes, endian)) {
                Ok(cache) => CacheFile::Good(Arc::new(cache)),
                Err(why) => CacheFile::Bad(why),
            }
        })
    }
}
