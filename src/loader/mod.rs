//! What a loader must do before a program's entry point: which files it maps and how it finds them, which relocations it
//! processes, which symbols it looks up and where each of them ends.
//!
//! Nothing is run. The rules are those of the loader that the program names (PT_INTERP), glibc or musl, its version and
//! directories read from its own file. Files come through [`Files`], so another root or a test can stand in.
//!
//! | file | subject |
//! |---|---|
//! | `files`, `root`, `memo` | opening, another root, what is shared between programs |
//! | `identity`, `cpu`, `tokens`, `cache` | the loader's own file, hwcaps, `$ORIGIN`, `ld.so.cache` |
//! | `binary`, `symbols`, `versions`, `hash` | one object: what it needs, what it looks up, where others look |
//! | `search`, `glibc`, `places`, `musl` | the search of each loader |
//! | `dyld`, `rpath` | the closure of a Mach-O program |
//! | `order`, `lookup`, `own`, `work`, `version_check` | order of relocation, where look-ups end, what the loader looks up for itself, the sums, versions |
//! | `ahead` | reading of large objects by several threads |

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

mod ahead;
pub mod binary;
pub mod cache;
pub mod cpu;
pub mod dyld;
pub mod files;
mod glibc;
pub mod hash;
pub mod host;
pub mod identity;
pub mod lines;
pub mod lookup;
pub mod memo;
mod musl;
mod order;
pub mod own;
mod places;
pub mod root;
pub mod rpath;
pub mod search;
pub mod symbols;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used)] // reason: a test's stand-in.
pub(crate) mod testing;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, clippy::unwrap_used)] // reason: tests.
mod tests;
pub mod tokens;
mod version_check;
pub mod versions;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Context, Error, Result};
use crate::facts::{Kind, RelocationCounts};
use binary::{Binary, File};
use files::{Errno, Files};
use identity::{Flavour, Identity};
use lines::Touched;
use memo::Memo;
use own::OwnTerm;
pub use search::{Assume, FoundBy, Missing, Options, Tried};
use search::{Loaded, Search, SearchCounts};
use tokens::as_path;

/// One object that the loader maps.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Where it was found, as the loader spells it.
    pub path: PathBuf,
    /// The name that led to it first; the path for the program itself.
    pub name: Vec<u8>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Index of the object that asked for it first.
    pub needed_by: Option<usize>,
    /// Indices of what it needs, in order.
    pub needs: Vec<usize>,
    /// In the global scope, where symbols are looked for: all but a loader that nothing needs.
    pub in_scope: bool,
    /// Its relocations by class.
    pub relocations: RelocationCounts,
    /// DT_RELCOUNT and DT_RELACOUNT, as glibc counts "relative relocations".
    pub relative_tagged: u64,
    /// Symbol look-ups that its relocations make at start; `None` where the machine is not modelled.
    pub lookups: Option<u64>,
    /// Relocations that glibc's one-entry cache answers.
    pub lookups_cached: Option<u64>,
    /// Objects that are asked by its look-ups.
    pub probes: Option<u64>,
    /// Look-ups that end in the object itself.
    pub lookups_own: Option<u64>,
    /// Distinct symbols of this object that others find at start.
    pub provided: Option<u64>,
    /// PLT slots that are bound at their first call, not at start.
    pub lazy_slots: Option<u64>,
    /// Pages that its relocations write.
    pub pages_written: u64,
    /// Bytes that are made read-only after relocation.
    pub relro_bytes: u64,
    /// Functions that run before `main`.
    pub init_functions: u64,
}

/// A look-up that ends nowhere, and whose reference is not weak: the start fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Index of the object that refers to it.
    pub object: usize,
    /// The symbol.
    pub symbol: Vec<u8>,
    /// Its version.
    pub version: Option<Vec<u8>>,
}

/// A version that a library should define and does not: glibc ends the start after loading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionError {
    /// Index of the object that asks for it.
    pub object: usize,
    /// The version.
    pub version: Vec<u8>,
    /// The library that should define it.
    pub file: Vec<u8>,
    /// The loader's words.
    pub why: String,
}

/// Where a symbol is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Index of the object that refers to it.
    pub object: usize,
    /// The symbol.
    pub symbol: Vec<u8>,
    /// Its version.
    pub version: Option<Vec<u8>>,
    /// Index of the object that defines it.
    pub bound_to: Option<usize>,
    /// Objects asked.
    pub probes: u64,
    /// Relocations that this look-up serves.
    pub relocations: u32,
}

/// An expensive look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costly {
    /// Index of the object that refers to it.
    pub object: usize,
    /// The symbol.
    pub symbol: Vec<u8>,
    /// Its version.
    pub version: Option<Vec<u8>>,
    /// Index of the object that defines it.
    pub bound_to: Option<usize>,
    /// Objects asked.
    pub probes: u64,
    /// Objects whose bloom filter let it through in vain.
    pub false_hits: u64,
    /// Hash chain entries looked at.
    pub chain: u64,
}

/// Sums over the closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Objects mapped, the loader included.
    pub objects: u64,
    /// Relative relocations with a record each.
    pub relative: u64,
    /// DT_RELCOUNT and DT_RELACOUNT over the global scope: glibc's "number of relative relocations".
    pub relative_tagged: u64,
    /// Packed relative relocations.
    pub relr: u64,
    /// All symbol look-ups at start: glibc's "number of relocations".
    pub lookups: Option<u64>,
    /// glibc's "number of relocations from cache".
    pub lookups_cached: Option<u64>,
    /// Objects asked by all look-ups: the "lookup in file" lines of `LD_DEBUG=symbols`.
    pub probes: Option<u64>,
    /// Of these, objects without DT_GNU_HASH.
    pub probes_sysv: Option<u64>,
    /// Entries of their chains that are looked at.
    pub chain_sysv: Option<u64>,
    /// Bytes of the names that relocations look up.
    pub name_bytes: Option<u64>,
    /// Lines of 64 bytes that all look-ups together read of symbol tables, out of order: for the first time, and again
    /// after others took their place in a small cache (see `lines`); `None` where they were not to be counted.
    pub touched: Option<Touched>,
    /// PLT slots left for their first call.
    pub lazy_slots: Option<u64>,
    /// `open`s and `stat`s that fail during the search.
    pub failed_opens: u64,
    /// Of these, `stat`s.
    pub failed_stats: u64,
    /// `stat`s of search directories that succeed.
    pub stats: u64,
    /// Pages that relocations write.
    pub pages_written: u64,
    /// Bytes that are made read-only after relocation.
    pub relro_bytes: u64,
    /// Functions that run before `main`.
    pub init_functions: u64,
}

/// The loader of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// Its path, from PT_INTERP.
    pub path: PathBuf,
    /// `glibc`, `musl` or `unknown`.
    pub flavour: Flavour,
    /// Major and minor version, where it is known.
    pub version: Option<(u32, u32)>,
}

/// A program and every object that its loader maps, in load order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Closure {
    /// The loader; `None` for a program that needs none.
    pub loader: Option<Loader>,
    /// The program first; a loader that is not in the global scope last.
    pub objects: Vec<Object>,
    /// What is not found.
    pub missing: Vec<Missing>,
    /// What ends the start before all is loaded.
    pub fatal: Option<String>,
    /// Versions that no library defines.
    pub version_errors: Vec<VersionError>,
    /// Look-ups that end nowhere.
    pub unresolved: Vec<Unresolved>,
    /// What the loader looks up for itself.
    pub own_lookups: Vec<OwnTerm>,
    /// The most expensive look-ups, dearest first, as many as were asked for.
    pub costly: Vec<Costly>,
    /// Where each symbol is bound, if that was asked for.
    pub bindings: Vec<Binding>,
    /// What could not be done.
    pub warnings: Vec<String>,
    /// Sums.
    pub totals: Totals,
}

/// The closure of a program, nothing shared with others.
///
/// # Errors
/// Where the program cannot be opened or is no ELF file.
pub fn closure(program: &Path, options: &Options, files: &dyn Files) -> Result<Closure> {
    closure_with(program, options, files, &Memo::new())
}

/// The closure of a program; libraries that `memo` knows are not read again.
///
/// # Errors
/// Where the program cannot be opened or is no ELF file.
pub fn closure_with(program: &Path, options: &Options, files: &dyn Files, memo: &Memo) -> Result<Closure> {
    let absolute = options.cwd.join(program);
    let opened = files.open(&absolute).map_err(errno_error).context(|| "cannot open")?;
    let bytes = opened.bytes.map_err(errno_error).context(|| "cannot read")?;
    let file = Arc::new(File::new(opened.id, Ok(bytes)));
    closure_of(program, file, options, files, memo)
}

/// The closure of a program whose file is already open.
///
/// # Errors
/// Where it is no ELF file.
pub fn closure_of(
    program: &Path,
    file: Arc<File>,
    options: &Options,
    files: &dyn Files,
    memo: &Memo,
) -> Result<Closure> {
    let binary = file.binary(program).map_err(Error::new)?;
    let Some(interpreter) = interpreter_of(binary) else {
        return Ok(alone(program, binary));
    };
    let path = as_path(&interpreter).to_path_buf();
    let absolute = options.cwd.join(&path);
    let loader_file = match memo.open(files, &absolute) {
        Ok(file) => file,
        Err(e) => return Ok(without_interpreter(program, binary, &path, e)),
    };
    let identity = match loader_file.binary(&path) {
        Ok(loader) => loader.identity(),
        Err(_) => return Ok(without_interpreter(program, binary, &path, Errno(8))),
    };
    let (program, interpreter) = ((program, file.clone()), (path.as_path(), loader_file.clone()));
    let found = match identity.flavour {
        Flavour::Glibc => glibc::search(program, interpreter, identity, options, files, memo),
        Flavour::Musl => musl::search(program, interpreter, identity, options, files, memo),
        Flavour::Dyld | Flavour::Unknown => {
            let mut closure = alone(program.0, binary);
            closure.loader = Some(Loader { path, flavour: Flavour::Unknown, version: None });
            closure
                .warnings
                .push("the rules of this loader are not known: only the program itself is shown".to_string());
            return Ok(closure);
        }
    };
    Ok(assemble(found, identity, &path, options))
}

fn errno_error(e: Errno) -> Error {
    Error::from_errno(e.0)
}

/// PT_INTERP. A library without one is taken as its C library's loader would take it, by the path that the machine's
/// ABI gives that loader.
fn interpreter_of(binary: &Binary) -> Option<Vec<u8>> {
    if let Some(interpreter) = &binary.interp {
        return Some(interpreter.clone());
    }
    let facts = binary.facts().ok().filter(|f| f.kind == Kind::Shared && !binary.needs.is_empty())?;
    let is_musl = binary.needs.iter().any(|n| n.name.starts_with(b"libc.musl-") || n.name == b"libc.so");
    let arch = facts.arch.as_str();
    let path = match (is_musl, arch) {
        (true, "x86-64") => "/lib/ld-musl-x86_64.so.1".to_string(),
        (true, other) => format!("/lib/ld-musl-{other}.so.1"),
        (false, "x86-64") => "/lib64/ld-linux-x86-64.so.2".to_string(),
        (false, "x32") => "/libx32/ld-linux-x32.so.2".to_string(),
        (false, "i386") => "/lib/ld-linux.so.2".to_string(),
        (false, "aarch64") => "/lib/ld-linux-aarch64.so.1".to_string(),
        (false, "arm") => "/lib/ld-linux-armhf.so.3".to_string(),
        (false, "riscv64") => "/lib/ld-linux-riscv64-lp64d.so.1".to_string(),
        (false, "ppc64le") => "/lib64/ld64.so.2".to_string(),
        (false, "ppc64") => "/lib64/ld64.so.1".to_string(),
        (false, "s390x") => "/lib/ld64.so.1".to_string(),
        (false, "loongarch64") => "/lib64/ld-linux-loongarch-lp64d.so.1".to_string(),
        _ => return None,
    };
    Some(path.into_bytes())
}

/// An object as it stands, before look-ups are counted.
fn object_of(path: &Path, name: Vec<u8>, found_by: FoundBy, binary: &Binary) -> Object {
    let facts = binary.facts().ok();
    Object {
        path: path.to_path_buf(),
        name,
        found_by,
        needed_by: None,
        needs: Vec::new(),
        in_scope: true,
        relocations: facts.map(|f| f.relocations).unwrap_or_default(),
        relative_tagged: binary.relcount.saturating_add(binary.relacount),
        lookups: Some(0),
        lookups_cached: Some(0),
        probes: Some(0),
        lookups_own: Some(0),
        provided: Some(0),
        lazy_slots: Some(0),
        pages_written: facts.map_or(0, |f| f.pages_written),
        relro_bytes: facts.map_or(0, |f| f.relro.bytes),
        init_functions: facts.map_or(0, |f| f.init.total()),
    }
}

/// A program that no loader has a part in.
fn alone(program: &Path, binary: &Binary) -> Closure {
    use std::os::unix::ffi::OsStrExt;
    let object = object_of(program, program.as_os_str().as_bytes().to_vec(), FoundBy::Program, binary);
    let mut closure = Closure { objects: vec![object], ..Closure::default() };
    closure.totals = totals(&closure, SearchCounts::default(), true);
    closure
}

/// The kernel refuses the program: its interpreter cannot be opened.
fn without_interpreter(program: &Path, binary: &Binary, interpreter: &Path, e: Errno) -> Closure {
    use std::os::unix::ffi::OsStrExt;
    let mut closure = alone(program, binary);
    let tried = Tried { by: FoundBy::Interpreter, path: interpreter.to_path_buf(), why: e.text() };
    closure.missing.push(Missing {
        name: interpreter.as_os_str().as_bytes().to_vec(),
        needed_by: program.to_path_buf(),
        tried: vec![tried],
        ignored: false,
    });
    closure.fatal = Some(format!("the kernel cannot load the interpreter {}: {}", interpreter.display(), e.text()));
    closure
}

/// Puts the search's objects into load order, with their work.
fn assemble(search: Search, identity: &Identity, interpreter: &Path, options: &Options) -> Closure {
    ahead::read(&search, identity, options);
    let lookups = if options.without_lookups { None } else { work::count(&search, identity, options) };
    let mut order: Vec<usize> = search.scope.clone();
    order.extend(search.interpreter.filter(|i| !search.scope.contains(i)));
    let place = |index: usize| order.iter().position(|i| *i == index);
    let mut objects = Vec::with_capacity(order.len());
    for index in &order {
        let Some(loaded) = search.loaded.get(*index) else { continue };
        let Some(binary) = loaded.file.as_ref().and_then(|f| f.binary(&loaded.path).ok()) else { continue };
        let mut object = object_of(&loaded.path, name_of(loaded), loaded.found_by, binary);
        object.in_scope = search.scope.contains(index);
        object.needed_by = loaded.needed_by.and_then(place);
        object.needs = loaded.needs.iter().filter_map(|i| place(*i)).collect();
        let counted = lookups.as_ref().and_then(|l| l.by_object.get(*index)).copied();
        object.lookups = counted.map(|c| c.lookups);
        object.lookups_cached = counted.map(|c| c.cached);
        object.probes = counted.map(|c| c.probes);
        object.lookups_own = counted.map(|c| c.own);
        object.provided = counted.map(|c| c.provided);
        let is_lazy = |b: &Binary| !b.symbols().bind_now && !options.bind_now && identity.flavour == Flavour::Glibc;
        let slots = || if is_lazy(binary) && object.in_scope { binary.symbols().lazy_slots } else { 0 };
        object.lazy_slots = counted.map(|_| if Some(*index) == search.interpreter { 0 } else { slots() });
        objects.push(object);
    }
    let counted = lookups.is_some();
    let work = lookups.as_ref();
    let (probes_sysv, chain_sysv) = (work.map(|l| l.probes_sysv), work.map(|l| l.chain_sysv));
    let (touched, name_bytes) = (work.and_then(|l| l.touched), work.map(|l| l.name_bytes));
    let mut closure = Closure {
        loader: Some(Loader {
            path: interpreter.to_path_buf(),
            flavour: identity.flavour,
            version: Some(identity.version),
        }),
        objects,
        fatal: search.fatal.clone(),
        ..Closure::default()
    };
    if identity.flavour == Flavour::Glibc {
        closure.version_errors = version_check::check(&search, identity);
        closure.version_errors.iter_mut().for_each(|e| e.object = place(e.object).unwrap_or(0));
    }
    if let Some(lookups) = lookups {
        add_lookups(&mut closure, lookups, &place);
    }
    closure.totals =
        Totals { probes_sysv, chain_sysv, name_bytes, touched, ..totals(&closure, search.counts, counted) };
    closure.missing = search.missing;
    closure
}

fn add_lookups(closure: &mut Closure, lookups: work::Lookups, place: &dyn Fn(usize) -> Option<usize>) {
    if lookups.gave_up {
        closure.warnings.push("hash chains without end: not all look-ups were followed".to_string());
    }
    let at = |index: usize| place(index).unwrap_or(0);
    closure.own_lookups = lookups.own;
    closure.unresolved = lookups.unresolved;
    closure.unresolved.iter_mut().for_each(|u| u.object = at(u.object));
    closure.costly = lookups.costly;
    for costly in &mut closure.costly {
        (costly.object, costly.bound_to) = (at(costly.object), costly.bound_to.and_then(place));
    }
    closure.bindings = lookups.bindings;
    for binding in &mut closure.bindings {
        (binding.object, binding.bound_to) = (at(binding.object), binding.bound_to.and_then(place));
    }
}

fn name_of(loaded: &Loaded) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    loaded.names.first().cloned().unwrap_or_else(|| loaded.path.as_os_str().as_bytes().to_vec())
}

fn totals(closure: &Closure, counts: SearchCounts, counted: bool) -> Totals {
    let sum = |of: &dyn Fn(&Object) -> u64| closure.objects.iter().fold(0u64, |n, o| n.saturating_add(of(o)));
    let own = |of: &dyn Fn(&OwnTerm) -> u64| closure.own_lookups.iter().fold(0u64, |n, t| n.saturating_add(of(t)));
    Totals {
        objects: closure.objects.len() as u64,
        relative: sum(&|o| o.relocations.relative),
        relative_tagged: sum(&|o| if o.in_scope { o.relative_tagged } else { 0 }),
        relr: sum(&|o| o.relocations.relr),
        lookups: counted.then(|| sum(&|o| o.lookups.unwrap_or(0)).saturating_add(own(&|t| t.lookups))),
        lookups_cached: counted.then(|| sum(&|o| o.lookups_cached.unwrap_or(0))),
        probes: counted.then(|| sum(&|o| o.probes.unwrap_or(0)).saturating_add(own(&|t| t.probes))),
        probes_sysv: counted.then_some(0),
        chain_sysv: counted.then_some(0),
        name_bytes: counted.then_some(0),
        touched: None,
        lazy_slots: counted.then(|| sum(&|o| o.lazy_slots.unwrap_or(0))),
        failed_opens: counts.failed_opens.saturating_add(counts.failed_stats),
        failed_stats: counts.failed_stats,
        stats: counts.stats,
        pages_written: sum(&|o| o.pages_written),
        relro_bytes: sum(&|o| o.relro_bytes),
        init_functions: sum(&|o| o.init_functions),
    }
}
