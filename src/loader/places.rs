//! glibc's search directories: each known once, whatever lists name it, with what was learnt of it.
//! Source: `fillin_rpath`, `struct r_search_path_elem` in `elf/dl-load.c` of glibc 2.36.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::collections::HashMap;

/// What glibc knows of a directory with one of the subdirectories that it tries (`enum r_dir_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Not tried yet.
    Unknown,
    /// There is such a directory, or it is relative: the working directory may change.
    Existing,
    /// Not tried again.
    Nonexisting,
}

/// A search directory, shared by all lists that name it.
#[derive(Debug)]
struct Dir {
    /// With its slash; empty for the working directory.
    name: Vec<u8>,
    /// One for each subdirectory.
    status: Vec<Status>,
}

/// A list of search directories (`struct r_search_path_struct`).
#[derive(Debug, Clone)]
pub(super) enum PathList {
    /// Not looked at yet.
    Unset,
    /// There is none, or none of its directories exists.
    None,
    /// Indices into the directories.
    Dirs(Vec<usize>),
}

/// All search directories of one start.
#[derive(Debug)]
pub(super) struct Places {
    dirs: Vec<Dir>,
    by_name: HashMap<Vec<u8>, usize>,
    /// Subdirectories that are tried in each, the directory itself last.
    subdirectories: Vec<String>,
}

impl Places {
    /// None yet.
    pub(super) fn new(subdirectories: Vec<String>) -> Places {
        Places { dirs: Vec::new(), by_name: HashMap::new(), subdirectories }
    }

    /// How many subdirectories are tried in each directory.
    pub(super) fn subdirectories(&self) -> usize {
        self.subdirectories.len()
    }

    /// The list of some directories, each in glibc's spelling.
    pub(super) fn list(&mut self, names: Vec<Vec<u8>>) -> PathList {
        let dirs: Vec<usize> = names.into_iter().map(|n| self.index(n)).collect();
        if dirs.is_empty() { PathList::None } else { PathList::Dirs(dirs) }
    }

    fn index(&mut self, name: Vec<u8>) -> usize {
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        let index = self.dirs.len();
        let status = if name.starts_with(b"/") { Status::Unknown } else { Status::Existing };
        self.dirs.push(Dir { name: name.clone(), status: vec![status; self.subdirectories.len()] });
        self.by_name.insert(name, index);
        index
    }

    /// A directory with a subdirectory, with its slash, and what is known of it.
    pub(super) fn place(&self, dir: usize, sub: usize) -> Option<(Vec<u8>, Status)> {
        let dir = self.dirs.get(dir)?;
        let sub_name = self.subdirectories.get(sub)?;
        Some(([dir.name.as_slice(), sub_name.as_bytes()].concat(), *dir.status.get(sub)?))
    }

    /// Notes what was learnt of a place.
    pub(super) fn set(&mut self, dir: usize, sub: usize, status: Status) {
        if let Some(slot) = self.dirs.get_mut(dir).and_then(|d| d.status.get_mut(sub)) {
            *slot = status;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_once() {
        let mut places = Places::new(vec!["tls/".to_string(), String::new()]);
        let PathList::Dirs(a) = places.list(vec![b"/a/".to_vec(), b"rel/".to_vec()]) else { panic!("no list") };
        let PathList::Dirs(b) = places.list(vec![b"/b/".to_vec(), b"/a/".to_vec()]) else { panic!("no list") };
        assert_eq!(a.first(), b.get(1));
        places.set(0, 0, Status::Nonexisting);
        assert_eq!(places.place(0, 0), Some((b"/a/tls/".to_vec(), Status::Nonexisting)));
        assert_eq!(places.place(0, 1), Some((b"/a/".to_vec(), Status::Unknown)));
        assert_eq!(places.place(1, 1), Some((b"rel/".to_vec(), Status::Existing)));
        assert!(matches!(places.list(Vec::new()), PathList::None));
    }
}
