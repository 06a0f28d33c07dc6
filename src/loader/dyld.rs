//! The closure of a Mach-O program as dyld loads it: which libraries it maps, in which order, and how it finds them.
//!
//! Libraries of the system live in dyld's shared cache, where their fixups are done; they are listed by name. Source of
//! the order: dyld's `loadDependents` (all libraries that an image names first, then each of those in turn), and of
//! which are the same: `Loader::getLoader` (a name that starts with `@rpath/` is compared with install names, any
//! other one by path, and then by file).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::files::{Errno, FileId, Files};
use super::identity::Flavour;
use super::rpath::{Link, candidates, may_be_in_shared_cache};
use super::search::{FoundBy, Missing, SearchCounts, Tried};
use super::{Closure, Loader, Object, totals};
use crate::facts::macho::MachoDylib;
use crate::facts::{LinkFacts, RelocationCounts};
use crate::macho;

/// First SDK whose images have no directories of last resort (macOS 13, autumn of 2022).
const SDK_WITHOUT_FALLBACKS: u32 = 13;

/// Paths that are tried for one program. Real programs stay far below; a file that names thousands of libraries and
/// thousands of run paths asks for their product.
const MOST_PATHS: usize = 100_000;

/// One image in memory.
struct Image {
    path: PathBuf,
    id: Option<FileId>,
    install_name: Option<OsString>,
    rpaths: Vec<OsString>,
    dylibs: Vec<MachoDylib>,
    fallbacks: bool,
    /// The image from which dyld came to it when it loaded what it needs.
    chain: Option<usize>,
    visited: bool,
}

impl Image {
    fn new(path: PathBuf, id: Option<FileId>, facts: &LinkFacts) -> Image {
        let block = facts.macho.as_deref();
        let before = |sdk: &str| {
            sdk.split('.').next().and_then(|n| n.parse().ok()).is_none_or(|n: u32| n < SDK_WITHOUT_FALLBACKS)
        };
        Image {
            path,
            id,
            install_name: facts.soname.clone(),
            rpaths: facts.rpath.clone(),
            dylibs: block.map(|b| b.dylibs.clone()).unwrap_or_default(),
            fallbacks: block.is_some_and(|b| b.platforms.iter().any(|p| p.name == "macos" && before(&p.sdk))),
            chain: None,
            visited: false,
        }
    }

    fn named(path: PathBuf, install_name: OsString) -> Image {
        Image {
            path,
            id: None,
            install_name: Some(install_name),
            rpaths: Vec::new(),
            dylibs: Vec::new(),
            fallbacks: false,
            chain: None,
            visited: true,
        }
    }
}

/// The search in progress: images and objects go by the same index.
struct Search<'a> {
    files: &'a dyn Files,
    cwd: &'a Path,
    executable: PathBuf,
    cpu: String,
    images: Vec<Image>,
    objects: Vec<Object>,
    missing: Vec<Missing>,
    warnings: Vec<String>,
    failed_opens: u64,
    in_cache: u64,
    paths_left: usize,
}

/// The closure of a program whose facts (of the slice that would be started) are known. Relative paths start at `cwd`.
/// A library is taken for a program of its own: `@executable_path` is then its own directory.
pub fn closure(program: &Path, facts: &LinkFacts, cwd: &Path, files: &dyn Files) -> Closure {
    let executable = cwd.join(program);
    let id = files.open(&executable).ok().map(|opened| opened.id);
    let mut search = Search {
        files,
        cwd,
        executable: executable.clone(),
        cpu: facts.macho.as_ref().map(|m| m.cpu.clone()).unwrap_or_default(),
        images: vec![Image::new(executable, id, facts)],
        objects: vec![object(program, program.as_os_str(), FoundBy::Program, None, facts)],
        missing: Vec::new(),
        warnings: Vec::new(),
        failed_opens: 0,
        in_cache: 0,
        paths_left: MOST_PATHS,
    };
    search.run();
    search.closure(facts)
}

fn object(path: &Path, name: &OsStr, found_by: FoundBy, needed_by: Option<usize>, facts: &LinkFacts) -> Object {
    let fixups = facts.macho.as_ref().map(|m| &m.fixups);
    Object {
        path: path.to_path_buf(),
        name: name.as_bytes().to_vec(),
        found_by,
        needed_by,
        needs: Vec::new(),
        in_scope: true,
        relocations: facts.relocations,
        relative_tagged: 0,
        // dyld looks each distinct symbol up once, in the library that the image names.
        lookups: fixups.map(|f| f.symbols),
        lookups_cached: None,
        probes: None,
        lookups_own: None,
        provided: None,
        lazy_slots: fixups.map(|f| f.lazy_binds),
        pages_written: facts.pages_written,
        relro_bytes: facts.relro.bytes,
        init_functions: facts.init.total(),
    }
}

/// A library of the shared cache: nothing of it is left to do at start that can be counted from here.
fn cached_object(name: &OsStr, needed_by: usize) -> Object {
    Object {
        path: PathBuf::from(name),
        name: name.as_bytes().to_vec(),
        found_by: FoundBy::SharedCache,
        needed_by: Some(needed_by),
        needs: Vec::new(),
        in_scope: true,
        relocations: RelocationCounts::default(),
        relative_tagged: 0,
        lookups: None,
        lookups_cached: None,
        probes: None,
        lookups_own: None,
        provided: None,
        lazy_slots: None,
        pages_written: 0,
        relro_bytes: 0,
        init_functions: 0,
    }
}

impl Search<'_> {
    /// Loads what the program needs. An explicit stack, since a chain of libraries can be as long as its author likes.
    fn run(&mut self) {
        let mut stack: Vec<(usize, usize)> = Vec::new();
        self.visit(0, None);
        stack.push((0, 0));
        while let Some((index, next)) = stack.pop() {
            let Some(child) = self.objects.get(index).and_then(|o| o.needs.get(next).copied()) else { continue };
            stack.push((index, next.saturating_add(1)));
            if self.images.get(child).is_some_and(|image| !image.visited) {
                self.visit(child, Some(index));
                stack.push((child, 0));
            }
        }
    }

    /// Finds all libraries that one image names.
    fn visit(&mut self, index: usize, from: Option<usize>) {
        let Some(image) = self.images.get_mut(index) else { return };
        image.visited = true;
        image.chain = from;
        let dylibs = image.dylibs.clone();
        for dylib in &dylibs {
            // dyld loads these when they are first called.
            if dylib.lazy {
                continue;
            }
            if let Some(found) = self.find(index, dylib) {
                if dylib.delayed_init {
                    let name = dylib.name.to_string_lossy();
                    self.warnings.push(format!("{name}: its fixups and initialisers wait until it is needed"));
                }
                if let Some(object) = self.objects.get_mut(index) {
                    object.needs.push(found);
                }
            }
        }
    }

    /// Paths at which an image's library is looked for.
    fn candidates(&self, index: usize, name: &OsStr) -> Vec<(FoundBy, PathBuf)> {
        let mut chain = Vec::new();
        let mut at = Some(index);
        while let Some(image) = at.and_then(|i| self.images.get(i)) {
            chain.push(Link { path: &image.path, rpaths: &image.rpaths });
            at = image.chain;
        }
        let fallbacks = self.images.get(index).is_some_and(|image| image.fallbacks);
        candidates(name, &chain, &self.executable, fallbacks)
    }

    fn loaded_as(&self, name: &OsStr) -> Option<usize> {
        self.images
            .iter()
            .position(|image| image.install_name.as_deref() == Some(name) || image.path == Path::new(name))
    }

    fn find(&mut self, index: usize, dylib: &MachoDylib) -> Option<usize> {
        let by_run_path = dylib.name.as_bytes().starts_with(b"@rpath/");
        if let Some(loaded) = by_run_path.then(|| self.loaded_as(&dylib.name)).flatten() {
            return Some(loaded);
        }
        let mut tried = Vec::new();
        if self.paths_left == 0 {
            return None;
        }
        let candidates = self.candidates(index, &dylib.name);
        self.paths_left = self.paths_left.saturating_sub(candidates.len().max(1));
        if self.paths_left == 0 {
            self.warnings.push(format!("gave up after {MOST_PATHS} paths: what follows is not looked for"));
            return None;
        }
        for (by, path) in candidates {
            if let Some(loaded) = self.loaded_as(path.as_os_str()) {
                return Some(loaded);
            }
            match self.open(&path) {
                Ok(Found::Loaded(loaded)) => return Some(loaded),
                Ok(Found::New(id, facts)) => return Some(self.add(index, dylib, by, path, id, &facts)),
                Err(why) => tried.push(Tried { by, path, why }),
            }
        }
        if may_be_in_shared_cache(&dylib.name) {
            self.in_cache = self.in_cache.saturating_add(1);
            self.images.push(Image::named(PathBuf::from(&dylib.name), dylib.name.clone()));
            self.objects.push(cached_object(&dylib.name, index));
            return self.objects.len().checked_sub(1);
        }
        let needed_by = self.images.get(index).map(|image| image.path.clone()).unwrap_or_default();
        let name = dylib.name.as_bytes().to_vec();
        self.missing.push(Missing { name, needed_by, tried, ignored: dylib.weak });
        None
    }

    /// Opens a candidate, and takes its slice for the program's machine.
    fn open(&mut self, path: &Path) -> Result<Found, String> {
        let opened = self.files.open(&self.cwd.join(path)).map_err(|e| self.failed(e))?;
        if let Some(loaded) = self.images.iter().position(|image| image.id == Some(opened.id)) {
            return Ok(Found::Loaded(loaded));
        }
        let bytes = opened.bytes.map_err(|e| self.failed(e))?;
        let bytes: &[u8] = (*bytes).as_ref();
        if !macho::is_macho(bytes) {
            return Err("not a Mach-O file".to_string());
        }
        let mut all = macho::link_facts(path, bytes, Some(&self.cpu))
            .or_else(|e| match other_variant(&self.cpu) {
                Some(cpu) => macho::link_facts(path, bytes, Some(cpu)),
                None => Err(e),
            })
            .map_err(|e| e.to_string())?;
        if all.is_empty() {
            Err("holds no image".to_string())
        } else {
            Ok(Found::New(opened.id, Box::new(all.swap_remove(0))))
        }
    }

    fn failed(&mut self, errno: Errno) -> String {
        self.failed_opens = self.failed_opens.saturating_add(1);
        errno.text()
    }

    fn add(
        &mut self,
        index: usize,
        dylib: &MachoDylib,
        by: FoundBy,
        path: PathBuf,
        id: FileId,
        facts: &LinkFacts,
    ) -> usize {
        self.objects.push(object(&path, &dylib.name, by, Some(index), facts));
        self.images.push(Image::new(path, Some(id), facts));
        self.images.len().saturating_sub(1)
    }

    fn closure(mut self, facts: &LinkFacts) -> Closure {
        if self.in_cache > 0 {
            let libraries = crate::units::counted(self.in_cache, "library");
            self.warnings.push(format!(
                "{libraries} expected in dyld's shared cache, where fixups are done: not looked at, nor what they need"
            ));
        }
        let path = facts.interp.value().cloned();
        let mut closure = Closure {
            loader: path.map(|path| Loader { path, flavour: Flavour::Dyld, version: None }),
            objects: self.objects,
            missing: self.missing,
            warnings: self.warnings,
            ..Closure::default()
        };
        let counts = SearchCounts { failed_opens: self.failed_opens, ..SearchCounts::default() };
        closure.totals = totals(&closure, counts, true);
        // Which images are asked for a symbol, and how often, is not modelled.
        closure.totals.lookups_cached = None;
        closure.totals.probes = None;
        closure
    }
}

enum Found {
    Loaded(usize),
    New(FileId, Box<LinkFacts>),
}

/// Another variant of the machine whose libraries a program may use as well.
fn other_variant(cpu: &str) -> Option<&'static str> {
    match cpu {
        "x86_64" => Some("x86_64h"),
        "x86_64h" => Some("x86_64"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::arithmetic_side_effects)]
mod tests {
    use super::super::testing::Table;
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/macho/built").join(name);
        std::fs::read(path).unwrap()
    }

    fn run(files: &Table, program: &str, arch: Option<&str>) -> Closure {
        let path = Path::new(program);
        let bytes = files.open(path).unwrap().bytes.unwrap();
        let facts = macho::link_facts(path, (*bytes).as_ref(), arch).unwrap().remove(0);
        closure(path, &facts, Path::new("/"), files)
    }

    fn found(closure: &Closure) -> Vec<String> {
        let line = |o: &Object| format!("{} {}", o.found_by.name(), o.path.display());
        closure.objects.iter().map(line).collect()
    }

    fn app(kind: &str) -> Table {
        let mut files = Table::default();
        files.file("/app/bin/prog", &fixture(&format!("{kind}/prog")));
        for name in ["libtop", "libbase", "libopt"] {
            files.file(&format!("/app/lib/{name}.dylib"), &fixture(&format!("{kind}/{name}.dylib")));
        }
        files
    }

    #[test]
    fn the_program_and_its_libraries_are_found_by_run_path() {
        for kind in ["arm64-chained", "arm64-opcodes", "x86_64-chained", "x86_64-opcodes"] {
            let closure = run(&app(kind), "/app/bin/prog", None);
            assert_eq!(
                found(&closure),
                [
                    "program /app/bin/prog",
                    "rpath /app/bin/../lib/libtop.dylib",
                    "rpath /app/bin/../lib/libbase.dylib",
                    "rpath /app/bin/../lib/libopt.dylib",
                    "shared_cache /usr/lib/libSystem.B.dylib",
                ],
                "{kind}"
            );
            assert!(closure.missing.is_empty());
            assert_eq!(closure.loader.as_ref().unwrap().path, Path::new("/usr/lib/dyld"));
            assert_eq!(closure.objects[1].needs, [2, 2, 4], "libtop names libbase twice, then the system");
            let relative: u64 = closure.objects.iter().map(|o| o.relocations.relative).sum();
            assert_eq!(closure.totals.relative, relative);
            assert!(closure.totals.lookups.unwrap() > 0 && closure.totals.probes.is_none());
        }
    }

    #[test]
    fn what_is_weak_may_be_missing() {
        let mut files = Table::default();
        files.file("/app/bin/prog", &fixture("arm64-chained/prog"));
        files.file("/app/lib/libtop.dylib", &fixture("arm64-chained/libtop.dylib"));
        // The second run path, and a link that leads to the same file as the first.
        files.file("/app/bin/lib/libbase.dylib", &fixture("arm64-chained/libbase.dylib"));
        let closure = run(&files, "/app/bin/prog", None);
        let missing: Vec<(String, bool)> =
            closure.missing.iter().map(|m| (String::from_utf8_lossy(&m.name).into_owned(), m.ignored)).collect();
        assert_eq!(missing, [("@rpath/libopt.dylib".to_string(), true)]);
        let tried: Vec<String> = closure.missing[0].tried.iter().map(|t| t.path.display().to_string()).collect();
        assert_eq!(
            tried,
            [
                "/app/bin/../lib/libopt.dylib",
                "/app/bin/lib/libopt.dylib",
                "/usr/local/lib/libopt.dylib",
                "/usr/lib/libopt.dylib"
            ]
        );
        assert!(found(&closure).contains(&"rpath /app/bin/lib/libbase.dylib".to_string()));
        // libbase: one miss before its hit; libopt: four; libSystem: its path and one last resort.
        assert_eq!(closure.totals.failed_opens, 1 + 4 + 2);
    }

    #[test]
    fn one_file_is_one_object_whatever_its_names() {
        let mut files = app("arm64-chained");
        files.link("/app/bin/lib", "/app/lib");
        files.file("/app/lib/libtop.dylib", &fixture("arm64-chained/libbase.dylib"));
        let closure = run(&files, "/app/bin/prog", None);
        // libtop's file now has libbase's install name: the second name is the same library.
        assert_eq!(closure.objects.iter().filter(|o| o.path.ends_with("libbase.dylib")).count(), 0);
        assert_eq!(closure.objects[0].needs[0], 1);
        assert_eq!(closure.objects[0].needs[1], 1);
    }

    #[test]
    fn a_library_of_another_machine_is_passed_over() {
        let mut files = app("arm64-chained");
        files.file("/app/lib/libbase.dylib", &fixture("x86_64-chained/libbase.dylib"));
        let closure = run(&files, "/app/bin/prog", None);
        assert!(closure.missing[0].tried[0].why.contains("only x86_64"), "{:?}", closure.missing);
        // A universal library has the right slice.
        files.file("/app/lib/libbase.dylib", &fixture("universal/libbase64.dylib"));
        assert!(run(&files, "/app/bin/prog", None).missing.is_empty());
    }

    #[test]
    fn lazy_libraries_wait_and_cycles_end() {
        let mut files = Table::default();
        files.file("/lib/lazy.dylib", &fixture("attributes/lazy.dylib"));
        files.file("/lib/libbase.dylib", &fixture("x86_64-chained/libbase.dylib"));
        let closure = run(&files, "/lib/lazy.dylib", None);
        assert_eq!(found(&closure).len(), 2, "the library and the system's");
        // A library that stands for all that it needs.
        let mut files = Table::default();
        files.file("/lib/libopt.dylib", &fixture("x86_64-chained/libopt.dylib"));
        files.link("/lib/libbase.dylib", "libopt.dylib");
        let closure = run(&files, "/lib/libopt.dylib", None);
        assert_eq!(closure.objects[0].needs[0], 0);
    }
}
