//! Another root: a container image or a foreign machine's tree, seen as its own processes would see it.
//!
//! Every component is walked by hand, so that an absolute link leads to the new root and `..` stops there. Nothing
//! outside of the root is ever opened: the path that is handed on is free of links and of `..`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::files::{Errno, Files, Opened};

/// Links that Linux follows in one path before it gives up with ELOOP (`MAXSYMLINKS` in `include/linux/namei.h`).
const MOST_LINKS: u32 = 40;

/// A directory of `base` as the root of everything.
pub struct Rooted<'a> {
    base: &'a dyn Files,
    root: PathBuf,
}

impl<'a> Rooted<'a> {
    /// Files below `root`, which is itself looked up in `base` in the ordinary way.
    pub fn new(base: &'a dyn Files, root: &Path) -> Self {
        Rooted { base, root: root.to_path_buf() }
    }

    /// The path in `base`.
    fn outside(&self, inside: &[OsString]) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(inside);
        path
    }

    /// Follows every link of `path` inside the root. The last component need not exist; whether a link there is
    /// followed is `follow_last`.
    fn resolve(&self, path: &Path, follow_last: bool) -> Result<PathBuf, Errno> {
        let mut inside: Vec<OsString> = Vec::new();
        let mut todo: Vec<OsString> = components_reversed(path);
        let mut links = 0u32;
        while let Some(name) = todo.pop() {
            if name == ".." {
                inside.pop();
                continue;
            }
            inside.push(name);
            if todo.is_empty() && !follow_last {
                break;
            }
            match self.base.read_link(&self.outside(&inside)) {
                Ok(target) => {
                    links = links.saturating_add(1);
                    if links > MOST_LINKS {
                        return Err(Errno::ELOOP);
                    }
                    inside.pop();
                    if target.is_absolute() {
                        inside.clear();
                    }
                    todo.extend(components_reversed(&target));
                }
                Err(Errno::EINVAL) => {}
                // The walk may end at a name that does not exist, but not pass through one.
                Err(e) if !todo.is_empty() => return Err(e),
                Err(_) => {}
            }
        }
        Ok(self.outside(&inside))
    }
}

/// The names of a path, last first, `..` kept.
fn components_reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|c| match c {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    names.collect()
}

impl Files for Rooted<'_> {
    fn open(&self, path: &Path) -> Result<Opened, Errno> {
        self.base.open(&self.resolve(path, true)?)
    }

    fn is_dir(&self, path: &Path) -> Result<bool, Errno> {
        self.base.is_dir(&self.resolve(path, true)?)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Errno> {
        self.base.read_link(&self.resolve(path, false)?)
    }
}

/// Every link of `path` followed: what the kernel writes into `/proc/self/exe`. Where a part does not exist, what is
/// left of the path stays as it is.
pub fn real_path(files: &dyn Files, path: &Path) -> PathBuf {
    let mut done = PathBuf::from("/");
    let mut todo: Vec<OsString> = components_reversed(path);
    let mut links = 0u32;
    while let Some(name) = todo.pop() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        if links >= MOST_LINKS {
            continue;
        }
        if let Ok(target) = files.read_link(&done) {
            links = links.saturating_add(1);
            done.pop();
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            todo.extend(components_reversed(&target));
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::super::testing::Table;
    use super::*;

    fn host() -> Table {
        let mut t = Table::default();
        t.file("/etc/passwd", b"outside");
        t.file("/r/etc/passwd", b"inside");
        t.file("/r/lib/x", b"x");
        t.link("/r/abs", "/etc/passwd");
        t.link("/r/up", "../../../etc/passwd");
        t.link("/r/deep", "lib/../up");
        t.link("/r/a", "b");
        t.link("/r/b", "a");
        t.link("/r/dir", "/lib");
        t.link("/r/lib/back", "..");
        t
    }

    fn read(files: &dyn Files, path: &str) -> Result<Vec<u8>, Errno> {
        let opened = files.open(Path::new(path))?;
        Ok(opened.bytes?.as_ref().as_ref().to_vec())
    }

    #[test]
    fn nothing_escapes_the_root() {
        let t = host();
        let r = Rooted::new(&t, Path::new("/r"));
        for path in ["/etc/passwd", "/abs", "/up", "/deep", "/../../etc/passwd", "/lib/../../etc/passwd"] {
            assert_eq!(read(&r, path).as_deref(), Ok(&b"inside"[..]), "{path}");
        }
        assert_eq!(read(&r, "/dir/x").as_deref(), Ok(&b"x"[..]));
        assert_eq!(read(&r, "/lib/back/etc/passwd").as_deref(), Ok(&b"inside"[..]));
    }

    #[test]
    fn loops_and_gaps_are_errors() {
        let t = host();
        let r = Rooted::new(&t, Path::new("/r"));
        assert_eq!(read(&r, "/a"), Err(Errno::ELOOP));
        assert_eq!(read(&r, "/nothing"), Err(Errno::ENOENT));
        assert_eq!(read(&r, "/nothing/../lib/x"), Err(Errno::ENOENT));
        assert_eq!(r.is_dir(Path::new("/dir")), Ok(true));
        assert_eq!(r.read_link(Path::new("/dir")), Ok(PathBuf::from("/lib")));
    }

    #[test]
    fn the_real_path_of_a_program_has_no_links() {
        let t = host();
        let r = Rooted::new(&t, Path::new("/r"));
        assert_eq!(real_path(&r, Path::new("/dir/x")), PathBuf::from("/lib/x"));
        assert_eq!(real_path(&r, Path::new("/gone/x")), PathBuf::from("/gone/x"));
        assert!(real_path(&r, Path::new("/a")).is_absolute());
    }
}
