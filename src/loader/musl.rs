//! musl's search: no cache, no hwcaps, no SONAMEs; RPATH and RUNPATH alike, inherited; the C library's names are its own.
//!
//! Source: `load_library`, `path_open`, `fixup_rpath`, `map_library`, `load_deps` in `ldso/dynlink.c` of musl 1.2.3.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf;

use super::binary::{Binary, File, Need, NeedKind};
use super::files::{Errno, Files};
use super::hash::{Hashed, gnu};
use super::identity::Identity;
use super::lookup::{Space, Wanted};
use super::memo::Memo;
use super::root::real_path;
use super::search::{FoundBy, Loaded, Missing, Opener, Options, Search};
use super::symbols::TypeClass;
use super::tokens::as_path;

/// Libraries that musl is itself (`reserved` in `load_library`): `lib` + one of these + a dot.
const ITS_OWN: [&[u8]; 7] = [b"c.", b"pthread.", b"rt.", b"m.", b"dl.", b"util.", b"xnet."];
/// NAME_MAX: longer names are not searched.
const NAME_MAX: usize = 255;
/// Room for a path that is tried (`buf` in `load_library`); a longer one is passed over.
const PATH_BUFFER: usize = 2 * NAME_MAX + 2;

struct Musl<'a> {
    opener: Opener<'a>,
    options: &'a Options,
    identity: &'a Identity,
    loaded: Vec<Loaded>,
    /// Order of loading, which is the global scope.
    order: Vec<usize>,
    missing: Vec<Missing>,
    system_path: Option<Vec<Vec<u8>>>,
    program_origin: Vec<u8>,
}

/// How a path list ended.
enum Opened {
    Found(Arc<File>, PathBuf),
    NotFound,
    /// An error that ends the search of this library.
    Stop,
}

/// Index of the program and of musl itself in `loaded`.
const PROGRAM: usize = 0;
const ITSELF: usize = 1;

/// Follows musl's search for a program.
pub(super) fn search(
    program: (&Path, Arc<File>),
    interpreter: (&Path, Arc<File>),
    identity: &Identity,
    options: &Options,
    files: &dyn Files,
    memo: &Memo,
) -> Search {
    let (path, file) = program;
    let absolute = options.cwd.join(path);
    let mut musl = Musl {
        opener: Opener::new(files, memo, &options.cwd),
        options,
        identity,
        loaded: Vec::new(),
        order: vec![PROGRAM],
        missing: Vec::new(),
        system_path: None,
        program_origin: real_path(files, &absolute).as_os_str().as_bytes().to_vec(),
    };
    musl.add(file, path, FoundBy::Program, None);
    musl.add(interpreter.1, interpreter.0, FoundBy::Interpreter, Some(PROGRAM));
    musl.load_preloads();
    musl.load_needed();
    let counts = musl.opener.counts;
    Search {
        loaded: musl.loaded,
        scope: musl.order,
        interpreter: Some(ITSELF),
        missing: musl.missing,
        fatal: None,
        counts,
    }
}

impl Musl<'_> {
    fn add(&mut self, file: Arc<File>, path: &Path, found_by: FoundBy, needed_by: Option<usize>) -> usize {
        let index = self.loaded.len();
        let path = path.to_path_buf();
        self.loaded.push(Loaded { file: Some(file), path, names: Vec::new(), found_by, needed_by, needs: Vec::new() });
        index
    }

    fn binary(&self, index: usize) -> Option<&Binary> {
        let object = self.loaded.get(index)?;
        object.file.as_ref()?.binary(&object.path).ok()
    }

    fn load_preloads(&mut self) {
        let Some(text) = self.options.preload.as_ref().filter(|_| !self.options.secure) else { return };
        let names: Vec<Vec<u8>> = text
            .split(|b| b.is_ascii_whitespace() || *b == b':')
            .filter(|n| !n.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        for name in names {
            self.opener.tried.clear();
            if let Err(why) = self.load_library(&name, None, true) {
                self.note_missing(&name, PathBuf::from("LD_PRELOAD"), why, true);
            }
        }
    }

    fn load_needed(&mut self) {
        let mut at = 0usize;
        while let Some(index) = self.order.get(at).copied() {
            at = at.saturating_add(1);
            // musl itself needs nothing.
            if index == ITSELF {
                continue;
            }
            let needs = self.binary(index).map(|b| b.needs.clone()).unwrap_or_default();
            let is_asked = |n: &&Need| n.kind == NeedKind::Needed && !self.options.assume.is_without(&n.name);
            for need in needs.iter().filter(is_asked) {
                self.opener.tried.clear();
                match self.load_library(&need.name, Some(index), false) {
                    Ok(dependency) => {
                        if let Some(object) = self.loaded.get_mut(index) {
                            object.needs.push(dependency);
                        }
                    }
                    Err(why) => {
                        let who = self.loaded.get(index).map(|o| o.path.clone()).unwrap_or_default();
                        self.note_missing(&need.name, who, why, false);
                    }
                }
            }
        }
    }

    fn note_missing(&mut self, name: &[u8], needed_by: PathBuf, why: Option<String>, ignored: bool) {
        let mut tried = std::mem::take(&mut self.opener.tried);
        if let (Some(last), Some(why)) = (tried.last_mut(), why) {
            last.why = why;
        }
        self.missing.push(Missing { name: name.to_vec(), needed_by, tried, ignored });
    }

    fn itself(&mut self) -> usize {
        if !self.order.contains(&ITSELF) {
            self.order.push(ITSELF);
        }
        ITSELF
    }

    /// `load_library`. The error is why the last file that was found could not be used.
    fn load_library(&mut self, name: &[u8], needed_by: Option<usize>, preload: bool) -> Result<usize, Option<String>> {
        if name.is_empty() {
            return Err(None);
        }
        let own_name = name.strip_prefix(b"lib").is_some_and(|rest| ITS_OWN.iter().any(|own| rest.starts_with(own)));
        let interpreter = self.loaded.get(ITSELF).map(|o| o.path.clone()).unwrap_or_default();
        if own_name || interpreter.as_os_str().as_bytes() == name {
            return Ok(self.itself());
        }
        let has_slash = name.contains(&b'/');
        let (by, file, path) = if has_slash {
            let path = as_path(name).to_path_buf();
            (FoundBy::Path, self.opener.open(FoundBy::Path, &path).map_err(|_| None)?, path)
        } else {
            let known = |o: &Loaded| o.names.iter().any(|n| n == name);
            if let Some(index) = self.order.iter().skip(1).copied().find(|i| self.loaded.get(*i).is_some_and(known)) {
                return Ok(index);
            }
            if name.len() > NAME_MAX {
                return Err(None);
            }
            self.find(name, needed_by).ok_or(None)?
        };
        self.map(name, by, file, &path, needed_by, preload)
    }

    fn map(
        &mut self,
        name: &[u8],
        by: FoundBy,
        file: Arc<File>,
        path: &Path,
        needed_by: Option<usize>,
        preload: bool,
    ) -> Result<usize, Option<String>> {
        let has_slash = name.contains(&b'/');
        let same = |o: &Loaded| o.file.as_ref().is_some_and(|f| f.id == file.id);
        // Only what is mapped from a file has a device and inode: neither the program nor musl itself.
        let mut mapped = self.order.iter().copied().filter(|i| *i > ITSELF);
        if let Some(index) = mapped.find(|i| self.loaded.get(*i).is_some_and(same)) {
            let object = self.loaded.get_mut(index).filter(|o| !has_slash && o.names.is_empty());
            if let Some(object) = object {
                let short = object.path.file_name().unwrap_or_default().as_bytes().to_vec();
                object.names.push(short);
            }
            return Ok(index);
        }
        self.check(&file, path)?;
        if is_another_libc(&file, path) {
            return self.load_library(b"libc.so", needed_by, preload);
        }
        let by = if preload { FoundBy::Preload } else { by };
        let index = self.add(file, path, by, needed_by);
        if !has_slash && let Some(object) = self.loaded.get_mut(index) {
            object.names.push(path.file_name().unwrap_or_default().as_bytes().to_vec());
        }
        self.order.push(index);
        Ok(index)
    }

    /// `map_library` looks at the type and at PT_DYNAMIC, not even at the magic number.
    fn check(&mut self, file: &Arc<File>, path: &Path) -> Result<(), Option<String>> {
        let why = match file.binary(path) {
            Ok(binary) if !matches!(binary.file_type, 2 | 3) => "neither ET_DYN nor ET_EXEC".to_string(),
            Ok(binary) if !binary.has_dynamic => "no dynamic table".to_string(),
            Ok(_) => return Ok(()),
            Err(why) => why.to_string(),
        };
        self.opener.note(FoundBy::Path, path, why.clone());
        Err(Some(why))
    }

    fn find(&mut self, name: &[u8], needed_by: Option<usize>) -> Option<(FoundBy, Arc<File>, PathBuf)> {
        if let Some(text) = self.options.library_path.as_ref().filter(|_| !self.options.secure) {
            match self.path_open(FoundBy::LibraryPath, &split(text), name) {
                Opened::Found(file, path) => return Some((FoundBy::LibraryPath, file, path)),
                Opened::Stop => return None,
                Opened::NotFound => {}
            }
        }
        let mut next = needed_by;
        while let Some(index) = next {
            let (by, list) = self.rpath_of(index);
            match self.path_open(by, &list, name) {
                Opened::Found(file, path) => return Some((by, file, path)),
                Opened::Stop => return None,
                Opened::NotFound => {}
            }
            next = self.loaded.get(index).and_then(|o| o.needed_by);
        }
        let system = self.system_path();
        match self.path_open(FoundBy::Default, &system, name) {
            Opened::Found(file, path) => Some((FoundBy::Default, file, path)),
            _ => None,
        }
    }

    /// RUNPATH, or else RPATH, with `$ORIGIN` replaced. A list with any other `$` is void as a whole.
    fn rpath_of(&self, index: usize) -> (FoundBy, Vec<Vec<u8>>) {
        let Some(binary) = self.binary(index) else { return (FoundBy::Rpath, Vec::new()) };
        let (by, text) = match (&binary.runpath, &binary.rpath) {
            (Some(text), _) => (FoundBy::Runpath, text),
            (None, Some(text)) => (FoundBy::Rpath, text),
            (None, None) => return (FoundBy::Rpath, Vec::new()),
        };
        let path = match self.loaded.get(index) {
            Some(object) if index != PROGRAM => object.path.as_os_str().as_bytes(),
            _ => &self.program_origin,
        };
        let origin = match path.iter().rposition(|b| *b == b'/') {
            Some(slash) => path.get(..slash).unwrap_or(&[]),
            None => b".",
        };
        let distrusted = self.options.secure && (index == PROGRAM || !origin.starts_with(b"/"));
        let replaced = replace_origin(text, origin, distrusted);
        (by, replaced.map(|text| split(&text)).unwrap_or_default())
    }

    /// The file that replaces the default path, or the default path.
    fn system_path(&mut self) -> Vec<Vec<u8>> {
        if let Some(known) = &self.system_path {
            return known.clone();
        }
        let path = self.read_path_file().unwrap_or_else(|| self.identity.system_dirs.clone());
        self.system_path = Some(path.clone());
        path
    }

    fn read_path_file(&mut self) -> Option<Vec<Vec<u8>>> {
        let suffix = self.identity.path_file.as_ref()?;
        let own = self.loaded.get(ITSELF)?.path.as_os_str().as_bytes();
        // The directory above the loader's: "" for /lib/ld-musl-….
        let prefix = if own.starts_with(b"/") { parent(parent(own)) } else { b"" };
        let path = as_path(&[prefix, suffix].concat()).to_path_buf();
        let noted = self.opener.tried.len();
        let opened = self.opener.open(FoundBy::Default, &path);
        self.opener.tried.truncate(noted);
        match opened {
            Ok(file) => Some(split(file.data())),
            Err(Errno::ENOENT) => None,
            Err(_) => Some(Vec::new()),
        }
    }

    fn path_open(&mut self, by: FoundBy, list: &[Vec<u8>], name: &[u8]) -> Opened {
        for dir in list {
            let path = [dir.as_slice(), b"/", name].concat();
            if path.len() >= PATH_BUFFER {
                self.opener.note(by, as_path(&path), "longer than musl's buffer");
                continue;
            }
            match self.opener.open(by, as_path(&path)) {
                Ok(file) => return Opened::Found(file, as_path(&path).to_path_buf()),
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG) => {}
                Err(_) => return Opened::Stop,
            }
        }
        Opened::NotFound
    }
}

/// Elements of a path list; empty ones do not count.
fn split(text: &[u8]) -> Vec<Vec<u8>> {
    // The text is a C string.
    let text = text.split(|b| *b == 0).next().unwrap_or(&[]);
    text.split(|b| matches!(b, b':' | b'\n')).filter(|e| !e.is_empty()).map(<[u8]>::to_vec).collect()
}

fn parent(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    path.get(..slash).unwrap_or(&[])
}

fn replace_origin(text: &[u8], origin: &[u8], distrusted: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.iter().position(|b| *b == b'$') {
        let (before, behind) = rest.split_at_checked(dollar)?;
        out.extend_from_slice(before);
        let after = behind.strip_prefix(b"$ORIGIN").or_else(|| behind.strip_prefix(b"${ORIGIN}"))?;
        if distrusted {
            return None;
        }
        out.extend_from_slice(origin);
        rest = after;
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// A file that defines `__libc_start_main` and `stdin` is a C library, and is replaced by musl itself.
fn is_another_libc(file: &Arc<File>, path: &Path) -> bool {
    let Ok(binary) = file.binary(path) else { return false };
    let space = Space {
        objects: vec![Some(binary.symbols())],
        global: vec![0],
        executable: usize::MAX,
        lines: None,
        gnu_hash: false,
    };
    let defines = |name: &[u8]| {
        let wanted = Wanted { name: Hashed::new(name, gnu(name)), version: None, class: TypeClass::Plt };
        space.musl(wanted).found.is_some()
    };
    binary.file_type == elf::ET_DYN.0 && defines(b"__libc_start_main") && defines(b"stdin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_only_token() {
        assert_eq!(replace_origin(b"$ORIGIN/../lib:/x", b"/a/b", false).as_deref(), Some(&b"/a/b/../lib:/x"[..]));
        assert_eq!(replace_origin(b"${ORIGIN}", b"/a", false).as_deref(), Some(&b"/a"[..]));
        assert_eq!(replace_origin(b"/x:$LIB", b"/a", false), None);
        assert_eq!(replace_origin(b"$ORIGIN", b"/a", true), None);
        assert_eq!(replace_origin(b"/x", b"/a", true).as_deref(), Some(&b"/x"[..]));
    }

    #[test]
    fn lists_are_split_at_colons_and_lines() {
        assert_eq!(split(b":/a::/b\n/c\0/d"), [b"/a".to_vec(), b"/b".to_vec(), b"/c".to_vec()]);
        assert_eq!(parent(parent(b"/lib/ld-musl-x86_64.so.1")), b"");
        assert_eq!(parent(parent(b"/opt/m/lib/ld-musl.so")), b"/opt/m");
    }
}
