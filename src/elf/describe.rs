//! Link facts from an image: the list of what is asked of it.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::elf;

use super::detail::{Detail, PageWrites};
use super::flavour::{Flavour, highest_glibc};
use super::holders::{Census, Holders};
use super::image::{Image, Segment};
use super::kind::{is_debug_file, kind};
use super::machine::arch_name;
use super::notes::{Notes, notes};
use super::pages::{pages_inside, pages_of};
use super::relocation::Tables;
use super::relro::{Protected, protected};
use super::sections::{Section, init_arrays, sections, static_records};
use super::startup::{Sink, Startup, startup, startup_into, static_startup, static_startup_into};
use super::symbols::{NeededVersion, count_symbols, needed_versions};
use super::warnings::{Evidence, warnings};
use crate::error::{Error, Result};
use crate::facts::{
    ElfFacts, Fact, Format, InitFunctions, Kind, LinkFacts, PagesWritten, Relro, RelroKind, SegmentFacts,
};

/// Page sizes that Linux kernels use: 4 KiB everywhere, 16 and 64 KiB on Arm and others.
const PAGE_SIZES: [u64; 3] = [4096, 16384, 65536];

/// DT_NEEDED entries that are listed: no file has a tenth of it, and each may name a long string.
const MOST_NEEDED: usize = 1 << 14;

/// All facts of one image.
pub(super) fn describe(path: &Path, image: &Image) -> Result<LinkFacts> {
    let sections = sections(image);
    let debug_file = is_debug_file(image, &sections);
    check_dynamic(image, debug_file)?;
    let mut facts = LinkFacts::new(path, Format::Elf, image.bytes().len() as u64);
    facts.arch = arch_name(image);
    facts.bits = if image.is_64() { 64 } else { 32 };
    facts.endian = image.endian();
    facts.kind = kind(image, &sections);
    // The headers of a debug file describe a program whose bytes are elsewhere: what they point to here is chance.
    if debug_file {
        facts.warnings = vec!["a separate debug file: it holds no program to load".to_string()];
        facts.elf =
            Some(ElfFacts { build_id: notes(image).build_id, segments: segments(image), ..ElfFacts::default() });
        return Ok(facts);
    }
    let notes = notes(image);
    let versions = needed_versions(image);
    names(image, &mut facts);
    let flavour = flavour(image, &facts, &notes);
    facts.libc = libc_name(flavour, &facts);
    let bind_now_by = bind_now_by(image);
    facts.bind_now = !bind_now_by.is_empty();
    facts.textrel = says_textrel(image);
    facts.hash = hash_styles(image);
    facts.tls_bytes = image.segment(elf::PT_TLS).map_or(0, |s| s.memsz);
    facts.init = init_functions(image, facts.kind, &sections);
    let tables = Tables::of(image);
    let lazy = binds_lazily(&facts, flavour);
    let protected = protected(image, PAGE_SIZES[0]);
    let start = match facts.kind {
        Kind::Static => static_startup(image, static_records(image, &sections).into_iter(), protected),
        _ => startup(image, &tables, lazy, protected),
    };
    facts.relocations = start.counts;
    facts.relro = relro(protected, &start, lazy);
    facts.pages_written = start.pages.len() as u64;
    let evidence =
        Evidence { image, facts: &facts, tables: &tables, start: &start, versions: &versions, flavour, lazy };
    facts.warnings = warnings(&evidence);
    facts.elf = Some(elf_facts(image, &start, bind_now_by, notes, &versions));
    Ok(facts)
}

/// A static-pie relocates itself, all at once, as do some C libraries whatever the file says.
fn binds_lazily(facts: &LinkFacts, flavour: Option<Flavour>) -> bool {
    !(facts.bind_now || facts.kind == Kind::StaticPie || flavour.is_some_and(Flavour::always_binds_now))
}

/// The pages that start-up relocations write, each with what writes it.
pub(super) fn page_writes(path: &Path, image: &Image) -> Result<Vec<PageWrites>> {
    Ok(writes_into(path, image, Detail::default())?.into_pages(protected(image, PAGE_SIZES[0])))
}

/// The sections and data objects that start-up relocations write to.
pub(super) fn holders(path: &Path, image: &Image) -> Result<Holders> {
    Ok(writes_into(path, image, Census::of(image))?.holders())
}

/// All writes of start-up, noted in `sink`.
fn writes_into<S: Sink>(path: &Path, image: &Image, sink: S) -> Result<S> {
    let facts = describe(path, image)?;
    let flavour = flavour(image, &facts, &notes(image));
    let protected = protected(image, PAGE_SIZES[0]);
    Ok(match facts.kind {
        Kind::Other => sink,
        Kind::Static => {
            let records = static_records(image, &sections(image));
            static_startup_into(image, records.into_iter(), protected, sink).1
        }
        _ => {
            let lazy = binds_lazily(&facts, flavour);
            startup_into(image, &Tables::of(image), lazy, protected, sink).1
        }
    })
}

/// A dynamic table that the file claims and does not have ends the matter, but for files that are no programs.
fn check_dynamic(image: &Image, debug_file: bool) -> Result<()> {
    let empty = image.segments().iter().rfind(|s| s.kind == elf::PT_DYNAMIC.0).is_some_and(|s| s.filesz == 0);
    match image.dynamic_fault() {
        Some(why) if !debug_file && !empty => Err(Error::new(why)),
        _ => Ok(()),
    }
}

/// Names and paths in the dynamic table.
fn names(image: &Image, facts: &mut LinkFacts) {
    facts.interp = match image.interp() {
        None => Fact::Absent,
        Some(Ok(path)) => Fact::Value(PathBuf::from(OsStr::from_bytes(path))),
        Some(Err(why)) => Fact::Unreadable(why.to_string()),
    };
    let needed = image.dynamic_values(elf::DT_NEEDED).take(MOST_NEEDED);
    facts.needed = needed.filter_map(|at| image.string(at)).map(os).collect();
    facts.soname = image.dynamic_value(elf::DT_SONAME).and_then(|at| image.string(at)).map(os);
    facts.runpath = path_list(image, elf::DT_RUNPATH);
    facts.rpath = path_list(image, elf::DT_RPATH);
}

fn os(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_os_string()
}

/// A list of directories split at colons; an empty string is an empty list.
fn path_list(image: &Image, tag: elf::DynamicTag) -> Vec<OsString> {
    match image.dynamic_value(tag).and_then(|at| image.string(at)) {
        None | Some(b"") => Vec::new(),
        Some(list) => list.split(|b| *b == b':').map(os).collect(),
    }
}

/// Whose rules the file is loaded by: its interpreter tells, else what it needs, else its own name, else its start files.
fn flavour(image: &Image, facts: &LinkFacts, notes: &Notes) -> Option<Flavour> {
    if let Some(interp) = facts.interp.value() {
        return Flavour::by_interpreter(interp.as_os_str().as_bytes());
    }
    let needed = || facts.needed.iter().map(|name| name.as_bytes());
    let android = notes.sentences.iter().any(|s| s.contains("Android"))
        || image.dynamic_value(elf::DT_ANDROID_RELA).or(image.dynamic_value(elf::DT_ANDROID_REL)).is_some();
    Flavour::by_needed(needed())
        .or_else(|| android.then_some(Flavour::Bionic))
        .or_else(|| facts.soname.as_ref().and_then(|name| Flavour::by_soname(name.as_bytes())))
        .or_else(|| needed().any(|name| name == b"libc.so").then_some(Flavour::Musl))
        .or_else(|| (notes.has_abi_tag && image.segment(elf::PT_INTERP).is_none()).then_some(Flavour::Glibc))
}

/// The flavour's word, or the file name of an interpreter that is not known here.
fn libc_name(flavour: Option<Flavour>, facts: &LinkFacts) -> Option<String> {
    if let Some(flavour) = flavour {
        return Some(flavour.name().to_string());
    }
    facts.interp.value().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned())
}

/// The tags that ask for binding at start; any of them is enough.
fn bind_now_by(image: &Image) -> Vec<&'static str> {
    let flags = image.dynamic_value(elf::DT_FLAGS).unwrap_or(0);
    let flags_1 = image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0);
    let sources = [
        (image.dynamic_value(elf::DT_BIND_NOW).is_some(), "DT_BIND_NOW"),
        (flags & elf::DF_BIND_NOW.0 != 0, "DT_FLAGS"),
        (flags_1 & elf::DF_1_NOW.0 != 0, "DT_FLAGS_1"),
    ];
    sources.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect()
}

fn says_textrel(image: &Image) -> bool {
    let flags = image.dynamic_value(elf::DT_FLAGS).unwrap_or(0);
    image.dynamic_value(elf::DT_TEXTREL).is_some() || flags & elf::DF_TEXTREL.0 != 0
}

fn hash_styles(image: &Image) -> Vec<&'static str> {
    let styles = [(elf::DT_GNU_HASH, "gnu"), (elf::DT_HASH, "sysv")];
    styles.into_iter().filter(|(tag, _)| image.dynamic_value(*tag).is_some()).map(|(_, name)| name).collect()
}

/// Functions that run before `main`. Entries are counted as far as the file has bytes for them.
fn init_functions(image: &Image, kind: Kind, sections: &[Section]) -> InitFunctions {
    if kind == Kind::Static {
        let (preinit_array, init_array) = init_arrays(image, sections);
        return InitFunctions { preinit_array, init_array, has_init: false };
    }
    let entries = |addr, size| {
        let there = image.dynamic_value(addr).and_then(|at| image.from_vaddr(at)).map_or(0, |bytes| bytes.len() as u64);
        let claimed = image.dynamic_value(size).unwrap_or(0);
        claimed.min(there).checked_div(image.word_size()).unwrap_or(0)
    };
    InitFunctions {
        preinit_array: entries(elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ),
        init_array: entries(elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ),
        has_init: image.dynamic_value(elf::DT_INIT).is_some(),
    }
}

/// Full where every slot that holds a function's or object's address is read-only once the program runs.
fn relro(protected: Protected, start: &Startup, lazy: bool) -> Relro {
    let kind = match protected.bytes() {
        0 => RelroKind::None,
        _ if start.open_slots > 0 || (lazy && start.counts.jump_slot > 0) => RelroKind::Partial,
        _ => RelroKind::Full,
    };
    Relro { kind, bytes: protected.bytes(), pages: protected.bytes() >> 12 }
}

fn elf_facts(
    image: &Image,
    start: &Startup,
    bind_now_by: Vec<&'static str>,
    notes: Notes,
    versions: &[NeededVersion],
) -> ElfFacts {
    let symbols = count_symbols(image, start.symbols_seen);
    let tag = |tag| image.dynamic_value(tag).unwrap_or(0);
    ElfFacts {
        entry: image.entry(),
        bind_now_by,
        libc_version: highest_glibc(versions),
        relative_tagged: tag(elf::DT_RELACOUNT).saturating_add(tag(elf::DT_RELCOUNT)),
        relocation_types: start.by_type.clone(),
        implicit_got: start.implicit_got,
        pages: PAGE_SIZES.iter().map(|size| pages_written(image, start, *size)).collect(),
        ifuncs: symbols.ifuncs,
        exported: symbols.exported,
        imported: symbols.imported,
        page_align: image.loads().iter().map(|s| s.align).max().unwrap_or(0),
        build_id: notes.build_id,
        notes: notes.sentences,
        segments: segments(image),
    }
}

fn pages_written(image: &Image, start: &Startup, page_size: u64) -> PagesWritten {
    let range = protected(image, page_size);
    PagesWritten {
        page_size,
        pages: pages_of(&start.pages, page_size),
        in_relro: pages_inside(&start.pages, page_size, range.start, range.end),
    }
}

fn segments(image: &Image) -> Vec<SegmentFacts> {
    image.segments().iter().map(segment).collect()
}

fn segment(s: &Segment) -> SegmentFacts {
    let flag = |bit: u32, letter| if s.flags & bit != 0 { letter } else { '-' };
    SegmentFacts {
        kind: segment_name(s.kind),
        flags: [flag(elf::PF_R.0, 'r'), flag(elf::PF_W.0, 'w'), flag(elf::PF_X.0, 'x')].iter().collect(),
        offset: s.offset,
        vaddr: s.vaddr,
        file_bytes: s.filesz,
        memory_bytes: s.memsz,
        align: s.align,
    }
}

fn segment_name(kind: u32) -> String {
    let name = match elf::ProgramType(kind) {
        elf::PT_NULL => "null",
        elf::PT_LOAD => "load",
        elf::PT_DYNAMIC => "dynamic",
        elf::PT_INTERP => "interp",
        elf::PT_NOTE => "note",
        elf::PT_PHDR => "phdr",
        elf::PT_TLS => "tls",
        elf::PT_GNU_EH_FRAME => "eh-frame",
        elf::PT_GNU_STACK => "stack",
        elf::PT_GNU_RELRO => "relro",
        elf::PT_GNU_PROPERTY => "property",
        elf::ProgramType(n) => return format!("{n:#x}"),
    };
    name.to_string()
}
