//! Files below some paths, each once, in order of their names, without holding more than one directory's names a level.

use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File systems of the kernel: they hold no programs, and reading some of their files has effects.
const KERNEL_TREES: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

/// What the walk met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// A file to look at.
    File(PathBuf),
    /// A directory that cannot be listed, or a path that was asked for and is not there: why.
    Bad(PathBuf, String),
}

/// Walks depth first.
pub struct Walk {
    /// Paths still to visit, the next one last; the flag says that somebody asked for this one.
    stack: Vec<(PathBuf, bool)>,
    /// Canonical forms of the paths asked for: a link into one of them leads to a file that is met by itself.
    roots: Vec<PathBuf>,
    /// Files with several names that were met.
    seen: HashSet<(u64, u64)>,
    /// Links are passed over: they mean something else than they would to us.
    no_links: bool,
}

impl Walk {
    /// A walk of these paths, in this order.
    pub fn new(paths: &[PathBuf]) -> Walk {
        Walk {
            stack: paths.iter().rev().map(|p| (p.clone(), true)).collect(),
            roots: paths.iter().filter_map(|p| fs::canonicalize(p).ok()).filter(|p| p.is_dir()).collect(),
            seen: HashSet::new(),
            no_links: false,
        }
    }

    /// A walk of paths inside another root. Its links are passed over: an absolute one would lead out of it.
    pub fn below(root: &Path, paths: impl Iterator<Item = PathBuf>) -> Walk {
        let outside = |path: PathBuf| root.join(path.strip_prefix("/").unwrap_or(&path));
        let paths: Vec<PathBuf> = paths.map(outside).collect();
        Walk { no_links: true, ..Walk::new(&paths) }
    }

    fn visit(&mut self, path: PathBuf, asked: bool) -> Option<Met> {
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            Err(e) => return Some(Met::Bad(path, crate::error::Error::from(e).to_string())),
        };
        if meta.file_type().is_symlink() {
            return if self.no_links { None } else { self.link(path, asked) };
        }
        if meta.is_dir() {
            return self.directory(path, asked);
        }
        // Nobody runs a FIFO or a device; one that was asked for by name is told.
        if !meta.is_file() && !asked {
            return None;
        }
        (meta.nlink() < 2 || self.is_new(&meta)).then_some(Met::File(path))
    }

    fn is_new(&mut self, meta: &Metadata) -> bool {
        self.seen.insert((meta.dev(), meta.ino()))
    }

    /// Links are followed to files, and to directories only where they were asked for: the rest of a tree is met by
    /// itself, and a link upwards would never end.
    fn link(&mut self, path: PathBuf, asked: bool) -> Option<Met> {
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() && asked => self.directory(path, true),
            Ok(meta) if meta.is_file() => {
                let inside = |target: PathBuf| self.roots.iter().any(|root| target.starts_with(root));
                let met_by_itself = !asked && fs::canonicalize(&path).is_ok_and(inside);
                (!met_by_itself && self.is_new(&meta)).then_some(Met::File(path))
            }
            Ok(_) if asked => Some(Met::File(path)),
            Ok(_) => None,
            Err(e) if asked => Some(Met::Bad(path, crate::error::Error::from(e).to_string())),
            // A dangling or looping link in a tree is no program.
            Err(_) => None,
        }
    }

    fn directory(&mut self, path: PathBuf, asked: bool) -> Option<Met> {
        if !asked && KERNEL_TREES.iter().any(|tree| path == Path::new(tree)) {
            return None;
        }
        let names = fs::read_dir(&path).and_then(|entries| {
            let mut names: Vec<PathBuf> =
                entries.map(|e| e.map(|e: DirEntry| e.path())).collect::<std::io::Result<_>>()?;
            names.sort_unstable();
            Ok(names)
        });
        match names {
            Ok(names) => {
                self.stack.extend(names.into_iter().rev().map(|p| (p, false)));
                None
            }
            Err(e) => Some(Met::Bad(path, crate::error::Error::from(e).to_string())),
        }
    }
}

impl Iterator for Walk {
    type Item = Met;

    fn next(&mut self) -> Option<Met> {
        while let Some((path, asked)) = self.stack.pop() {
            if let Some(met) = self.visit(path, asked) {
                return Some(met);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn each_file_once_in_order_and_links_without_end_end() {
        let dir = std::env::temp_dir().join(format!("premain-walk-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("b/deep")).unwrap();
        for file in ["a", "b/deep/x", "b/y", "outside"] {
            fs::write(dir.join(file), file).unwrap();
        }
        fs::hard_link(dir.join("a"), dir.join("b/hard")).unwrap();
        symlink(dir.join("b"), dir.join("b/deep/up")).unwrap();
        symlink("../y", dir.join("b/deep/link-inside")).unwrap();
        symlink("../outside", dir.join("b/link-outside")).unwrap();
        symlink("nowhere", dir.join("b/dangling")).unwrap();
        symlink("loop", dir.join("b/loop")).unwrap();
        let walk = |paths: &[&str]| -> Vec<String> {
            let paths: Vec<PathBuf> = paths.iter().map(|p| dir.join(p)).collect();
            Walk::new(&paths)
                .map(|met| match met {
                    Met::File(p) => p.strip_prefix(&dir).unwrap().display().to_string(),
                    Met::Bad(p, why) => format!("{}: {why}", p.strip_prefix(&dir).unwrap().display()),
                })
                .collect()
        };
        assert_eq!(walk(&["b"]), ["b/deep/x", "b/hard", "b/link-outside", "b/y"]);
        assert_eq!(walk(&["a", "b", "a"]), ["a", "b/deep/x", "b/link-outside", "b/y"]);
        let missing = "none: No such file or directory";
        assert_eq!(walk(&["none", "b/dangling", "b/deep/up"])[..1], [missing]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
