//! glibc's search: which file it maps for each name, in which order, and what it tries in vain.
//!
//! Sources: `_dl_map_object`, `open_path`, `_dl_map_object_from_fd` in `elf/dl-load.c`, `_dl_map_object_deps` in
//! `elf/dl-deps.c`, `dl_main` in `elf/rtld.c`, of glibc 2.36; what other versions do differently is asked of
//! [`Identity::version`]. A library that is not found does not end the search here, as under `ldd`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::elf;

use super::binary::{Binary, File, Target, Verdict, glibc_verdict};
use super::cache::{Wanted, cache_flags};
use super::cpu::{Hwcaps, hwcaps};
use super::files::{Errno, Files};
use super::identity::Identity;
use super::memo::{CacheFile, Memo};
use super::places::{PathList, Places, Status};
use super::root::real_path;
use super::search::{FoundBy, Loaded, Missing, Opener, Options, Search};
use super::tokens::{Tokens, as_path, directories, expand, origin_of};
use crate::facts::Endian;

mod dependencies;

/// A start cannot go on.
struct Fatal(String);

/// What a search of one library came to.
type Found = Result<Option<Place>, Fatal>;

/// A file and where it was found.
type Place = (Arc<File>, PathBuf);

struct Glibc<'a> {
    opener: Opener<'a>,
    options: &'a Options,
    identity: &'a Identity,
    target: Target,
    platform: Option<&'static str>,
    places: Places,
    wanted: Wanted,
    system: PathList,
    library_path: PathList,
    loaded: Vec<Loaded>,
    /// RPATH and RUNPATH of each object in `loaded`.
    lists: Vec<(PathList, PathList)>,
    missing: Vec<Missing>,
    origin: Vec<u8>,
    cache_failed: bool,
}

/// Follows glibc's search for a program.
pub(super) fn search(
    program: (&Path, Arc<File>),
    interpreter: (&Path, Arc<File>),
    identity: &Identity,
    options: &Options,
    files: &dyn Files,
    memo: &Memo,
) -> Search {
    let (path, file) = program;
    let Ok(binary) = file.binary(path) else {
        let fatal = Some("the program cannot be read as ELF".to_string());
        let counts = Default::default();
        return Search { loaded: Vec::new(), scope: Vec::new(), interpreter: None, missing: Vec::new(), fatal, counts };
    };
    let mut glibc = Glibc::new(binary, path, identity, options, files, memo);
    glibc.add(Some(file.clone()), path, FoundBy::Program, None);
    glibc.add_interpreter(interpreter);
    glibc.set_up_paths(binary);
    let (scope, fatal) = glibc.load_all();
    let interpreter = (glibc.loaded.len() > 1).then_some(1);
    let counts = glibc.opener.counts;
    Search { loaded: glibc.loaded, scope, interpreter, missing: glibc.missing, fatal, counts }
}

impl<'a> Glibc<'a> {
    fn new(
        program: &Binary,
        path: &Path,
        identity: &'a Identity,
        options: &'a Options,
        files: &'a dyn Files,
        memo: &'a Memo,
    ) -> Glibc<'a> {
        let target = program.target;
        let is_64 = target.class == 2;
        let caps: Hwcaps = hwcaps(options.cpu, target.machine, is_64);
        let (flags, other_flags) = cache_flags(target.machine, is_64, target.e_flags);
        let named = if identity.version >= (2, 33) { caps.named.clone() } else { Vec::new() };
        let wanted =
            Wanted { flags, other_flags, hwcaps: named, isa: caps.isa, legacy: caps.legacy_bits(identity.version) };
        let opener = Opener::new(files, memo, &options.cwd);
        // /proc/self/exe: no links.
        let absolute = options.cwd.join(path);
        let origin = origin_of(&real_path(opener.files(), &absolute), &options.cwd);
        Glibc {
            opener,
            options,
            identity,
            target,
            platform: caps.platform,
            places: Places::new(caps.subdirectories(identity.version)),
            wanted,
            system: PathList::None,
            library_path: PathList::None,
            loaded: Vec::new(),
            lists: Vec::new(),
            missing: Vec::new(),
            origin,
            cache_failed: false,
        }
    }

    fn add(&mut self, file: Option<Arc<File>>, path: &Path, found_by: FoundBy, needed_by: Option<usize>) -> usize {
        let index = self.loaded.len();
        let path = path.to_path_buf();
        self.loaded.push(Loaded { file, path, names: Vec::new(), found_by, needed_by, needs: Vec::new() });
        self.lists.push((PathList::Unset, PathList::Unset));
        index
    }

    /// ld.so is in the process from the start, known by PT_INTERP's text and its SONAME.
    fn add_interpreter(&mut self, interpreter: (&Path, Arc<File>)) {
        let (path, file) = interpreter;
        let index = self.add(Some(file), path, FoundBy::Interpreter, Some(0));
        let soname = self.binary(index).and_then(|b| b.soname.clone());
        if let Some(object) = self.loaded.get_mut(index) {
            object.names.push(path.as_os_str().as_bytes().to_vec());
            object.names.extend(soname);
        }
    }

    fn binary(&self, index: usize) -> Option<&Binary> {
        let object = self.loaded.get(index)?;
        object.file.as_ref()?.binary(&object.path).ok()
    }

    fn tokens<'t>(&'t self, origin: &'t [u8]) -> Tokens<'t> {
        Tokens {
            origin: Some(origin),
            lib: &self.identity.lib,
            platform: self.platform.map(str::as_bytes),
            secure: self.options.secure.then_some(&self.identity.system_dirs),
        }
    }

    fn origin(&self, index: usize) -> Vec<u8> {
        match self.loaded.get(index) {
            Some(object) if index != 0 => origin_of(&object.path, &self.options.cwd),
            _ => self.origin.clone(),
        }
    }

    fn path_list(&mut self, text: &[u8], is_separator: fn(u8) -> bool, origin: &[u8]) -> PathList {
        if text.is_empty() {
            return PathList::None;
        }
        let names = directories(text, is_separator, self.tokens(origin));
        self.places.list(names)
    }

    /// `_dl_init_paths`: default directories, the program's own list, LD_LIBRARY_PATH.
    fn set_up_paths(&mut self, program: &Binary) {
        self.system = self.places.list(self.identity.system_dirs.clone());
        let origin = self.origin.clone();
        let runpath = program.runpath.as_ref().map(|t| self.path_list(t, |b| b == b':', &origin));
        let rpath = match (&runpath, &program.rpath) {
            (None, Some(text)) => self.path_list(text, |b| b == b':', &origin),
            _ => PathList::None,
        };
        if let Some(lists) = self.lists.get_mut(0) {
            *lists = (rpath, runpath.unwrap_or(PathList::None));
        }
        if let Some(text) = self.options.library_path.as_ref().filter(|_| !self.options.secure) {
            self.library_path = self.path_list(text, |b| b == b':' || b == b';', &origin);
        }
    }

    /// RPATH (true) or RUNPATH of an object, decomposed at its first use (`cache_rpath`).
    fn list_of(&mut self, index: usize, rpath: bool) -> PathList {
        let Some((first, second)) = self.lists.get(index) else { return PathList::None };
        let list = if rpath { first } else { second };
        if !matches!(list, PathList::Unset) {
            return list.clone();
        }
        let text = self.binary(index).and_then(|b| match (rpath, &b.runpath) {
            (true, None) => b.rpath.clone(),
            (true, Some(_)) => None,
            (false, text) => text.clone(),
        });
        let origin = self.origin(index);
        let list = text.map_or(PathList::None, |t| self.path_list(&t, |b| b == b':', &origin));
        self.set_list(index, rpath, list.clone());
        list
    }

    fn set_list(&mut self, index: usize, rpath: bool, list: PathList) {
        if let Some((first, second)) = self.lists.get_mut(index) {
            *(if rpath { first } else { second }) = list;
        }
    }

    /// `open_verify`: opens a file and tells whether it can be mapped here.
    fn open_verify(&mut self, by: FoundBy, path: &Path) -> Result<Result<Arc<File>, Errno>, Fatal> {
        let file = match self.opener.open(by, path) {
            Ok(file) => file,
            Err(e) => return Ok(Err(e)),
        };
        if let Err(e) = &file.bytes {
            return Err(Fatal(format!("{}: cannot read file data: {}", path.display(), e.text())));
        }
        match glibc_verdict(file.data(), self.target) {
            Verdict::Use => Ok(Ok(file)),
            Verdict::Skip(why) => {
                self.opener.note(by, path, why);
                Ok(Err(Errno::ENOENT))
            }
            Verdict::Fatal(why) => Err(Fatal(format!("{}: {why}", path.display()))),
        }
    }

    /// `open_path`: a library in a list of directories. The flag says whether any of them exists.
    fn open_path(&mut self, by: FoundBy, dirs: &[usize], name: &[u8]) -> Result<(Option<Place>, bool), Fatal> {
        let mut any = false;
        for dir in dirs {
            let mut here = false;
            let mut errno = Errno::ENOENT;
            for sub in 0..self.places.subdirectories() {
                let Some((directory, status)) = self.places.place(*dir, sub) else { continue };
                if status == Status::Nonexisting {
                    continue;
                }
                let path = as_path(&[&directory[..], name].concat()).to_path_buf();
                let opened = self.open_verify(by, &path)?;
                let now = match &opened {
                    Ok(_) if status == Status::Unknown => Status::Existing,
                    Ok(_) => status,
                    Err(e) => {
                        errno = *e;
                        if status == Status::Unknown { self.stat_once(&directory, &mut errno) } else { status }
                    }
                };
                self.places.set(*dir, sub, now);
                here |= now != Status::Nonexisting;
                if let Ok(file) = opened {
                    return Ok((Some((file, path)), true));
                }
            }
            // The file is there and cannot be opened (a loop of links, say): the rest of this list is not searched.
            if here && errno != Errno::ENOENT && errno != Errno::EACCES {
                return Ok((None, true));
            }
            any |= here;
        }
        Ok((None, any))
    }

    /// After a failure in a directory that is not known yet: is it there at all? 2.36 asks without the slash at its end,
    /// so that "/" becomes "" and does not exist; 2.41 (both were watched) asks with it.
    fn stat_once(&mut self, directory: &[u8], errno: &mut Errno) -> Status {
        let without_slash = directory.strip_suffix(b"/").unwrap_or(directory);
        let path = if self.identity.version <= (2, 36) { without_slash } else { directory };
        match self.opener.stat_dir(as_path(path)) {
            Ok(true) => Status::Existing,
            Ok(false) => Status::Nonexisting,
            Err(e) => {
                *errno = e;
                Status::Nonexisting
            }
        }
    }

    /// An object that already has this name (`_dl_name_match_p`, SONAME).
    fn known(&mut self, name: &[u8]) -> Option<usize> {
        let mut by_soname = None;
        for (index, object) in self.loaded.iter().enumerate() {
            let Some(file) = &object.file else { continue };
            let is_path = index != 0 && object.path.as_os_str().as_bytes() == name;
            if is_path || object.names.iter().any(|n| n == name) {
                return Some(index);
            }
            let soname = file.binary(&object.path).ok().and_then(|b| b.soname.as_deref());
            if soname == Some(name) {
                by_soname = Some(index);
                break;
            }
        }
        let index = by_soname?;
        self.add_name(index, name);
        Some(index)
    }

    fn add_name(&mut self, index: usize, name: &[u8]) {
        if let Some(object) = self.loaded.get_mut(index)
            && !object.names.iter().any(|n| n == name)
        {
            object.names.push(name.to_vec());
        }
    }

    /// `_dl_map_object`: the object for a name. `None` where it is not found.
    fn map_object(&mut self, loader: usize, name: &[u8], preload: bool) -> Result<Option<usize>, Fatal> {
        if let Some(known) = self.known(name) {
            return Ok(Some(known));
        }
        self.opener.tried.clear();
        let (by, found) = self.find(loader, name)?;
        let Some((file, path)) = found else { return Ok(None) };
        // The program and ld.so have no device and inode here: reached by another name, they are mapped again.
        let same = self.loaded.iter().skip(2).position(|o| o.file.as_ref().is_some_and(|f| f.id == file.id));
        if let Some(index) = same.and_then(|i| i.checked_add(2)) {
            self.add_name(index, name);
            return Ok(Some(index));
        }
        match file.binary(&path) {
            Ok(binary) => {
                if let Some(why) = binary.not_a_library {
                    return Err(Fatal(format!("{}: {why}", path.display())));
                }
            }
            Err(why) => return Err(Fatal(format!("{}: {why}", path.display()))),
        }
        let by = if preload { FoundBy::Preload } else { by };
        let index = self.add(Some(file.clone()), &path, by, Some(loader));
        self.add_name(index, name);
        Ok(Some(index))
    }

    fn find(&mut self, loader: usize, name: &[u8]) -> Result<(FoundBy, Option<Place>), Fatal> {
        if name.contains(&b'/') {
            let origin = self.origin(loader);
            let Some(path) = expand(name, self.tokens(&origin)) else { return Ok((FoundBy::Path, None)) };
            let path = as_path(&path).to_path_buf();
            let file = self.open_verify(FoundBy::Path, &path)?.ok();
            return Ok((FoundBy::Path, file.map(|f| (f, path))));
        }
        let has_runpath = self.binary(loader).is_some_and(|b| b.runpath.is_some());
        if !has_runpath && let Some(found) = self.by_rpath(loader, name)? {
            return Ok((FoundBy::Rpath, Some(found)));
        }
        if let PathList::Dirs(dirs) = self.library_path.clone()
            && let (Some(found), _) = self.open_path(FoundBy::LibraryPath, &dirs, name)?
        {
            return Ok((FoundBy::LibraryPath, Some(found)));
        }
        if let Some(found) = self.in_list_of(loader, false, name)? {
            return Ok((FoundBy::Runpath, Some(found)));
        }
        let flags_1 = self.binary(loader).map_or(0, |b| b.flags_1);
        let no_default = flags_1 & elf::DF_1_NODEFLIB.0 != 0;
        if let Some(found) = self.by_cache(name, no_default)? {
            return Ok((FoundBy::Cache, Some(found)));
        }
        match self.system.clone() {
            PathList::Dirs(dirs) if !no_default => {
                Ok((FoundBy::Default, self.open_path(FoundBy::Default, &dirs, name)?.0))
            }
            _ => Ok((FoundBy::Default, None)),
        }
    }

    /// RPATH of the object that asks, of who asked for that, and so on; the program's last.
    fn by_rpath(&mut self, loader: usize, name: &[u8]) -> Found {
        let mut next = Some(loader);
        let mut did_program = false;
        while let Some(index) = next {
            let has_list = matches!(self.list_of(index, true), PathList::Dirs(_));
            if let Some(found) = self.in_list_of(index, true, name)? {
                return Ok(Some(found));
            }
            did_program |= has_list && index == 0;
            next = self.loaded.get(index).and_then(|o| o.needed_by);
        }
        if did_program { Ok(None) } else { self.in_list_of(0, true, name) }
    }

    fn in_list_of(&mut self, index: usize, rpath: bool, name: &[u8]) -> Found {
        let PathList::Dirs(dirs) = self.list_of(index, rpath) else { return Ok(None) };
        let by = if rpath { FoundBy::Rpath } else { FoundBy::Runpath };
        let (found, any) = self.open_path(by, &dirs, name)?;
        if found.is_none() && !any {
            self.set_list(index, rpath, PathList::None);
        }
        Ok(found)
    }

    fn by_cache(&mut self, name: &[u8], no_default: bool) -> Found {
        let Some(cache_path) = self.identity.cache.as_deref() else { return Ok(None) };
        let endian = if self.target.data == 1 { Endian::Little } else { Endian::Big };
        let memo = self.opener.memo;
        let cache = match memo.cache(self.opener.files(), cache_path, endian) {
            CacheFile::Good(cache) => cache,
            CacheFile::Missing(e) => {
                self.note_missing_cache(cache_path, e);
                return Ok(None);
            }
            CacheFile::Bad(why) => {
                self.opener.note(FoundBy::Cache, cache_path, format!("not used: {why}"));
                return Ok(None);
            }
        };
        let Some(path) = cache.lookup(name, &self.wanted) else {
            self.opener.note(FoundBy::Cache, cache_path, "does not list it");
            return Ok(None);
        };
        let path = as_path(path).to_path_buf();
        let in_system = |dir: &Vec<u8>| path.as_os_str().as_bytes().starts_with(dir);
        if no_default && self.identity.system_dirs.iter().any(in_system) {
            self.opener.note(FoundBy::Cache, &path, "refused: DF_1_NODEFLIB, and it is in a default directory");
            return Ok(None);
        }
        Ok(self.open_verify(FoundBy::Cache, &path)?.ok().map(|file| (file, path)))
    }

    /// The cache is opened once: its failure counts once.
    fn note_missing_cache(&mut self, path: &Path, e: Errno) {
        if !self.cache_failed {
            self.cache_failed = true;
            self.opener.counts.failed_opens = self.opener.counts.failed_opens.saturating_add(1);
        }
        self.opener.note(FoundBy::Cache, path, e.text());
    }

    fn note_missing(&mut self, name: &[u8], needed_by: PathBuf, ignored: bool) {
        let tried = std::mem::take(&mut self.opener.tried);
        self.missing.push(Missing { name: name.to_vec(), needed_by, tried, ignored });
    }
}
