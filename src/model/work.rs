//! What one start has to do, in the units that the host model has a cost for.
//!
//! Counts come from the files alone (`loader::closure` and the objects' program headers); no program is run.

use std::path::Path;

use object::elf;

use crate::elf::image::{Image, Segment};
use crate::loader::files::Files;
use crate::loader::identity::Flavour;
use crate::loader::{Closure, Object};

/// A unit of load work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Its name in output and in the stored model.
    pub name: &'static str,
    /// How its cost is said: "2.15 µs a page written".
    pub unit: &'static str,
}

macro_rules! terms {
    ($($index:ident: $name:literal, $unit:literal;)*) => {
        /// Places of the terms in [`Work`].
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)] // reason: used as a list of indices only
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum T { $(
            #[doc = $unit]
            $index,
        )* }
        /// Every term, in the order of [`T`].
        pub const TERMS: &[Term] = &[$(Term { name: $name, unit: $unit },)*];
        /// The same by their places.
        pub const ALL: &[T] = &[$(T::$index,)*];
    };
}

terms! {
    Exec: "exec", "a start (fork's copy aside): exec of a static program of one segment, to its entry point";
    Segment: "segment", "a further PT_LOAD that the kernel maps";
    Loader: "loader", "a start of the loader with its C library";
    Object: "object", "a library that the loader maps";
    LibrarySegment: "library segment", "a further PT_LOAD of a library, beyond four";
    FailedOpen: "failed open", "an open that fails";
    FailedStat: "failed stat", "a stat of a directory that is not there";
    PageWritten: "page written", "a page of a file written before the entry point (copied on write)";
    PageFar: "page far", "such a page beyond the first 1,000 of an object";
    PageRead: "page read", "a run of 16 pages of a file touched";
    Relative: "relative", "a relative relocation with a record";
    RelativeFar: "relative far", "a relative relocation beyond the first 100,000 of an object";
    Relr: "relr", "a packed relative relocation";
    Lookup: "lookup", "a symbol look-up, in the first object asked";
    NameByte: "name byte", "a byte of a name that is looked up";
    Line: "line", "a line of 64 bytes of symbol tables read for the first time, out of order";
    LineAgain: "line again", "a line of symbol tables fetched again";
    Probe: "probe", "a further object asked, DT_GNU_HASH";
    NameSysv: "name sysv", "a symbol compared in an object that has DT_HASH alone";
    Cached: "cached", "a relocation for the symbol of the one before";
    Irelative: "irelative", "a relocation through a resolver function";
    Constructor: "constructor", "an init function";
    Relro: "relro", "an object made read-only after relocation";
    Tls: "tls", "an object with thread-local storage";
}

/// Counts by term.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// In the order of [`TERMS`].
    pub counts: [f64; TERMS.len()],
    /// Whose rules load it.
    pub flavour: Option<Flavour>,
}

/// Records of relative relocations (2.4 MB, with 0.8 MB of pointers that are copied) that a processor's own caches
/// hold from one start to the next, or nearly; beyond, the caches that it shares with others decide.
const NEAR: u64 = 100_000;
/// Pages written (4 MB, copied to another 4) that a processor's own caches hold.
const NEAR_PAGES: u64 = 1_000;
/// Bytes of a record of DT_RELA.
const RECORD: f64 = 24.0;

/// What `lookups` adds to.
const LOOKUPS: [T; 7] = [T::Lookup, T::NameByte, T::Line, T::LineAgain, T::Probe, T::NameSysv, T::Cached];

/// Pages of 4 KiB that the kernel maps around a fault on a file's page (`fault_around_bytes`, 64 KiB by default).
const FAULT_AROUND: f64 = 16.0;
const PAGE: u64 = 4096;
/// Bytes of these pages: one unit of [`T::PageRead`].
pub(super) const RUN: f64 = FAULT_AROUND * PAGE as f64;

impl Work {
    /// Nothing to do but exec.
    pub fn new() -> Work {
        let mut work = Work { counts: [0.0; TERMS.len()], flavour: None };
        work.add(T::Exec, 1.0);
        work
    }

    /// Adds to a count.
    pub fn add(&mut self, term: T, n: f64) {
        if let Some(count) = self.counts.get_mut(term as usize) {
            *count += n;
        }
    }

    /// Adds the relative relocations of one object.
    pub fn add_relative(&mut self, records: u64) {
        self.add(T::Relative, records as f64);
        self.add(T::RelativeFar, records.saturating_sub(NEAR) as f64);
    }

    /// Adds the pages written of one object.
    fn add_pages(&mut self, pages: u64) {
        self.add(T::PageWritten, pages as f64);
        self.add(T::PageFar, pages.saturating_sub(NEAR_PAGES) as f64);
    }

    /// Takes pages written of one object, which has so many, away.
    pub fn take_pages(&mut self, pages: u64) {
        self.add(T::PageWritten, -(pages as f64));
        self.add(T::PageFar, -(pages.saturating_sub(NEAR_PAGES) as f64));
    }

    /// Takes the relative relocations of one object away, and the reading of their table.
    pub fn take_relative(&mut self, records: u64) {
        self.add(T::Relative, -(records as f64));
        self.add(T::RelativeFar, -(records.saturating_sub(NEAR) as f64));
        self.add(T::PageRead, -(records as f64) * RECORD / RUN);
    }

    /// The same work with the look-ups of another closure.
    pub fn with_lookups_of(&self, closure: &Closure) -> Work {
        let mut work = *self;
        for term in LOOKUPS {
            work.add(term, -work.get(term));
        }
        work.lookups(closure);
        work
    }

    /// One count.
    pub fn get(&self, term: T) -> f64 {
        self.counts.get(term as usize).copied().unwrap_or(0.0)
    }

    /// The work of a closure. Objects whose file cannot be read any more count with what the closure knows.
    pub fn of(closure: &Closure, files: &dyn Files) -> Work {
        let mut work = Work::new();
        work.flavour = closure.loader.as_ref().map(|l| l.flavour);
        for object in Work::by_object(closure, files) {
            work.plus(&object);
        }
        // The exec of a program of one segment has that one in it.
        work.add(T::Segment, -1.0);
        if closure.loader.is_some() {
            work.add(T::Loader, 1.0);
            work.lookups(closure);
            let (all, stats) = (closure.totals.failed_opens, closure.totals.failed_stats);
            work.add(T::FailedOpen, all.saturating_sub(stats) as f64);
            work.add(T::FailedStat, stats as f64);
        }
        work
    }

    /// What each object of a closure adds, look-ups aside.
    pub fn by_object(closure: &Closure, files: &dyn Files) -> Vec<Work> {
        let flavour = closure.loader.as_ref().map(|l| l.flavour);
        let one = |(index, object): (usize, &Object)| {
            let mut work = Work { counts: [0.0; TERMS.len()], flavour };
            let is_loader = index > 0 && closure.loader.as_ref().is_some_and(|l| same_file(&l.path, &object.path));
            let by_kernel = index == 0 || is_loader;
            if let Some(bytes) = files.open(&object.path).ok().and_then(|o| o.bytes.ok())
                && let Ok(image) = Image::parse(bytes.as_ref().as_ref())
            {
                work.object(&image, by_kernel, flavour);
            }
            if !by_kernel {
                work.add(T::Object, 1.0);
            }
            if index > 0 {
                work.add(T::Constructor, object.init_functions as f64);
            }
            if flavour.is_some() {
                work.add_relative(object.relocations.relative);
                work.add(T::Relr, object.relocations.relr as f64);
                work.add(T::Irelative, object.relocations.irelative as f64);
            }
            work
        };
        closure.objects.iter().enumerate().map(one).collect()
    }

    /// Adds other work.
    pub fn plus(&mut self, other: &Work) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    fn lookups(&mut self, closure: &Closure) {
        let t = &closure.totals;
        let lookups = t.lookups.unwrap_or(0) as f64;
        self.add(T::Lookup, lookups);
        let sysv = t.probes_sysv.unwrap_or(0) as f64;
        self.add(T::NameSysv, t.chain_sysv.unwrap_or(0) as f64);
        self.add(T::NameByte, t.name_bytes.unwrap_or(0) as f64);
        let touched = t.touched.unwrap_or_default();
        self.add(T::Line, touched.first as f64);
        self.add(T::LineAgain, touched.again as f64);
        self.add(T::Probe, (t.probes.unwrap_or(0) as f64 - lookups - sysv).max(0.0));
        self.add(T::Cached, t.lookups_cached.unwrap_or(0) as f64);
    }

    /// Segments, pages and protections of one object.
    fn object(&mut self, image: &Image<'_>, by_kernel: bool, flavour: Option<Flavour>) {
        let loads = image.loads();
        let count = loads.len() as f64;
        if by_kernel {
            self.add(T::Segment, count);
        } else {
            self.add(T::LibrarySegment, count - 4.0);
        }
        if flavour.is_none() {
            return;
        }
        self.add_pages(pages_written(image, flavour) as u64);
        self.add(T::PageRead, runs_read(image));
        if crate::elf::relro::protected(image, PAGE).bytes() > 0 {
            self.add(T::Relro, 1.0);
        }
        if image.segment(elf::PT_TLS).is_some() {
            self.add(T::Tls, 1.0);
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Work::new()
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.file_name() == b.file_name()
}

/// Pages that relocation writes, the page of the dynamic table (glibc writes addresses into it), and the page on which
/// a segment's bytes end and its zeros begin (kernel and loaders clear the rest of that page).
fn pages_written(image: &Image<'_>, flavour: Option<Flavour>) -> usize {
    let tables = crate::elf::relocation::Tables::of(image);
    let protected = crate::elf::relro::protected(image, PAGE);
    let lazy = !binds_now(image) && flavour == Some(Flavour::Glibc);
    let mut pages = crate::elf::startup::startup(image, &tables, lazy, protected).pages;
    let writable =
        |s: &&Segment| s.is_writable() && s.memsz > s.filesz && !s.vaddr.saturating_add(s.filesz).is_multiple_of(PAGE);
    pages.extend(image.loads().iter().filter(writable).map(|s| s.vaddr.saturating_add(s.filesz) / PAGE));
    if let Some(dynamic) = image.segment(elf::PT_DYNAMIC).filter(|_| flavour == Some(Flavour::Glibc)) {
        pages.push(dynamic.vaddr / PAGE);
    }
    pages.sort_unstable();
    pages.dedup();
    pages.len()
}

fn binds_now(image: &Image<'_>) -> bool {
    image.dynamic_value(elf::DT_BIND_NOW).is_some()
        || image.dynamic_value(elf::DT_FLAGS).unwrap_or(0) & elf::DF_BIND_NOW.0 != 0
        || image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0) & elf::DF_1_NOW.0 != 0
}

/// Runs of pages that start-up reads from the file: the tables, one run of code for its init functions, and the first
/// look at the writable segment.
fn runs_read(image: &Image<'_>) -> f64 {
    let mut runs = 0.0;
    for segment in image.loads() {
        let pages = segment.filesz.div_ceil(PAGE).max(1) as f64;
        if segment.is_writable() {
            runs += 1.0;
        } else if segment.is_executable() {
            runs += if image.dynamic_value(elf::DT_INIT).is_some() || image.dynamic_value(elf::DT_INIT_ARRAY).is_some()
            {
                1.0
            } else {
                0.0
            };
        } else if image.dynamic_value(elf::DT_STRTAB).is_some_and(|at| segment.contains(at)) {
            runs += 1.0 + (pages - 1.0) / FAULT_AROUND;
        }
    }
    runs
}
