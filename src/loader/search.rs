//! What both loaders' searches have in common: options, opening with a count of what fails, and the list of what was
//! tried for a library.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::binary::File;
use super::cpu::Cpu;
use super::files::{Errno, Files};
use super::memo::Memo;

/// How the program would be started.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// LD_LIBRARY_PATH.
    pub library_path: Option<Vec<u8>>,
    /// LD_PRELOAD.
    pub preload: Option<Vec<u8>>,
    /// LD_BIND_NOW is set and not empty.
    pub bind_now: bool,
    /// The program is privileged (AT_SECURE): the variables above are ignored, `$ORIGIN` is distrusted.
    pub secure: bool,
    /// Working directory, for relative names.
    pub cwd: PathBuf,
    /// The processor.
    pub cpu: Cpu,
    /// Count the lines of tables that look-ups read, which predictions need; inspecting then takes about twice as long.
    pub count_lines: bool,
    /// Leave symbol look-ups out: much faster, and the counts of look-ups are then absent.
    pub without_lookups: bool,
    /// How many of the most expensive look-ups to list.
    pub costly: usize,
    /// List where each symbol is bound.
    pub bindings: bool,
    /// Threads that may read large objects at once; 0 and 1 are none beside the caller's.
    pub threads: usize,
    /// What to take for granted that the files do not say.
    pub assume: Assume,
}

/// Link settings that the files do not have, to see what they would change. All but `without` are for glibc alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assume {
    /// Every object has DT_GNU_HASH.
    pub gnu_hash: bool,
    /// The program binds its function slots at their first call.
    pub lazy: bool,
    /// References of the object of this path to what it defines itself are bound when it is linked.
    pub own_bound: Option<PathBuf>,
    /// Nothing needs a library of this name, and nothing refers to what only it and its own dependencies define.
    pub without: Option<Vec<u8>>,
}

impl Assume {
    /// Nobody asks for a library of this name.
    pub fn is_without(&self, name: &[u8]) -> bool {
        self.without.as_deref() == Some(name)
    }
}

/// How an object came to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// It is the program.
    Program,
    /// The kernel loads it: PT_INTERP.
    Interpreter,
    /// LD_PRELOAD or the system's preload file named it.
    Preload,
    /// Its name is a path.
    Path,
    /// DT_RPATH.
    Rpath,
    /// LD_LIBRARY_PATH.
    LibraryPath,
    /// DT_RUNPATH.
    Runpath,
    /// ld.so.cache.
    Cache,
    /// The loader's default directories.
    Default,
    /// dyld's shared cache: expected there, not looked at.
    SharedCache,
}

impl FoundBy {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            FoundBy::Program => "program",
            FoundBy::Interpreter => "interpreter",
            FoundBy::Preload => "preload",
            FoundBy::Path => "path",
            FoundBy::Rpath => "rpath",
            FoundBy::LibraryPath => "ld_library_path",
            FoundBy::Runpath => "runpath",
            FoundBy::Cache => "cache",
            FoundBy::Default => "default",
            FoundBy::SharedCache => "shared_cache",
        }
    }
}

/// A place where a library was looked for, and why it was not taken from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// What led there.
    pub by: FoundBy,
    /// File, directory or cache.
    pub path: PathBuf,
    /// Why not.
    pub why: String,
}

/// A library that the loader does not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Name as written.
    pub name: Vec<u8>,
    /// Who needs it.
    pub needed_by: PathBuf,
    /// Where it was looked for, in order.
    pub tried: Vec<Tried>,
    /// The loader goes on without it (a preload, DT_AUXILIARY).
    pub ignored: bool,
}

/// System calls of the search that fail, and stats that succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchCounts {
    /// Failed `open`s.
    pub failed_opens: u64,
    /// Failed `stat`s.
    pub failed_stats: u64,
    /// Successful `stat`s of directories.
    pub stats: u64,
}

/// Files through the memo, with a count.
pub struct Opener<'a> {
    files: &'a dyn Files,
    /// What is shared with other programs.
    pub memo: &'a Memo,
    cwd: &'a Path,
    /// What failed so far.
    pub counts: SearchCounts,
    /// Where the library at hand was looked for.
    pub tried: Vec<Tried>,
}

impl<'a> Opener<'a> {
    /// Nothing opened yet.
    pub fn new(files: &'a dyn Files, memo: &'a Memo, cwd: &'a Path) -> Self {
        Opener { files, memo, cwd, counts: SearchCounts::default(), tried: Vec::new() }
    }

    /// The file system.
    pub fn files(&self) -> &'a dyn Files {
        self.files
    }

    fn absolute<'p>(&self, path: &'p Path) -> std::borrow::Cow<'p, Path> {
        if path.is_absolute() { path.into() } else { self.cwd.join(path).into() }
    }

    /// Opens a file for a search.
    ///
    /// # Errors
    /// What `open` would set `errno` to; it is counted and noted.
    pub fn open(&mut self, by: FoundBy, path: &Path) -> Result<Arc<File>, Errno> {
        let opened = self.memo.open(self.files, &self.absolute(path));
        if let Err(e) = &opened {
            self.counts.failed_opens = self.counts.failed_opens.saturating_add(1);
            self.note(by, path, e.text());
        }
        opened
    }

    /// Asks whether a directory exists, as glibc does once for each.
    ///
    /// # Errors
    /// What `stat` would set `errno` to; it is counted.
    pub fn stat_dir(&mut self, path: &Path) -> Result<bool, Errno> {
        // The empty name is no file, not the working directory.
        let is_empty = path.as_os_str().is_empty();
        let answer = if is_empty { Err(Errno::ENOENT) } else { self.memo.is_dir(self.files, &self.absolute(path)) };
        let count = if answer.is_err() { &mut self.counts.failed_stats } else { &mut self.counts.stats };
        *count = count.saturating_add(1);
        answer
    }

    /// Notes why a place was not it.
    pub fn note(&mut self, by: FoundBy, path: &Path, why: impl Into<String>) {
        self.tried.push(Tried { by, path: path.to_path_buf(), why: why.into() });
    }
}

/// An object of the process, in the order in which the loader met them.
pub struct Loaded {
    /// The file; `None` where it was not found and the loader goes on as `ldd` does.
    pub file: Option<Arc<File>>,
    /// Where it was found, as the loader spells it.
    pub path: PathBuf,
    /// Names under which it is known.
    pub names: Vec<Vec<u8>>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Who asked for it first.
    pub needed_by: Option<usize>,
    /// What it needs, in order.
    pub needs: Vec<usize>,
}

/// The objects of a process after its loader's search.
pub struct Search {
    /// Every object, in order of creation; the program is first.
    pub loaded: Vec<Loaded>,
    /// The global scope: indices into `loaded`, without what was not found.
    pub scope: Vec<usize>,
    /// Where the interpreter stands in `loaded`.
    pub interpreter: Option<usize>,
    /// What was not found.
    pub missing: Vec<Missing>,
    /// What ends the start before all is loaded.
    pub fatal: Option<String>,
    /// What failed on the way.
    pub counts: SearchCounts,
}
