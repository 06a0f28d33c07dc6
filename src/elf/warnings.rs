//! Contradictions in a file, each with what kernel or loader will do about it. Sources: glibc's `elf_get_dynamic_info`,
//! `_dl_map_object_from_fd`, `_dl_relocate_object` and `_dl_protect_relro`; Linux' `load_elf_binary`; musl's `dynlink.c`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used)]

use object::elf;

use super::flavour::Flavour;
use super::image::Image;
use super::ranges::{mapped, pages_not_covered};
use super::relocation::Tables;
use super::relro::{is_mapped, relro_segment};
use super::startup::Startup;
use super::symbols::NeededVersion;
use crate::facts::{Fact, Kind, LinkFacts};
use crate::units;

/// All that is known of a file when its warnings are written.
pub(super) struct Evidence<'e, 'a> {
    pub(super) image: &'e Image<'a>,
    pub(super) facts: &'e LinkFacts,
    pub(super) tables: &'e Tables<'a>,
    pub(super) start: &'e Startup,
    pub(super) versions: &'e [NeededVersion<'a>],
    pub(super) flavour: Option<Flavour>,
    pub(super) lazy: bool,
}

/// Every contradiction found.
pub(super) fn warnings(e: &Evidence) -> Vec<String> {
    let mut out = Vec::new();
    header(e, &mut out);
    loads(e, &mut out);
    interpreter(e, &mut out);
    dynamic(e, &mut out);
    out.extend(e.tables.faults.iter().map(|fault| fault.text.clone()));
    relative_count(e, &mut out);
    relr(e, &mut out);
    android(e, &mut out);
    writes(e, &mut out);
    relro(e, &mut out);
    lookups(e, &mut out);
    out
}

fn header(e: &Evidence, out: &mut Vec<String>) {
    let image = e.image;
    if image.byte_order_lies() {
        out.push("the header names the wrong byte order: Linux ignores it, glibc refuses such a library".to_string());
    }
    if image.ident_version() != 1 {
        let version = image.ident_version();
        out.push(format!("EI_VERSION is {version} instead of 1: Linux ignores it, glibc refuses such a library"));
    }
    if image.declared_phnum() == 0xffff {
        out.push("e_phnum is 0xffff: Linux refuses the program (ENOEXEC), loaders misread the library".to_string());
    } else if image.segments().len().saturating_mul(if image.is_64() { 56 } else { 32 }) > 65536 {
        let count = image.segments().len();
        out.push(format!("{count} program headers take more than 65,536 bytes: Linux refuses the program (ENOEXEC)"));
    }
    if image.loads().is_empty() && !matches!(elf::FileType(image.file_type()), elf::ET_REL | elf::ET_CORE) {
        out.push("no PT_LOAD: there is nothing to load".to_string());
    }
}

/// At most one warning a subject, however many segments share the fault.
fn loads(e: &Evidence, out: &mut Vec<String>) {
    let image = e.image;
    let size = image.bytes().len() as u64;
    if let Some(cut) = image.loads().iter().find(|s| s.filesz > 0 && s.offset.saturating_add(s.filesz) > size) {
        let end = cut.offset.saturating_add(cut.filesz);
        out.push(format!("a segment ends at {end:#x} and the file at {size:#x}: touching the rest is fatal (SIGBUS)"));
    }
    if image.loads().iter().any(|s| s.filesz > s.memsz) {
        out.push("a segment has more bytes in the file than in memory: Linux and glibc refuse it".to_string());
    }
    if image.loads().iter().any(|s| s.vaddr & 0xfff != s.offset & 0xfff) {
        out.push("a segment's address and offset differ within a page: Linux and glibc refuse it".to_string());
    }
    let ascending = |pair: &[super::image::Segment]| match pair {
        [a, b] => a.vaddr <= b.vaddr,
        _ => true,
    };
    if !image.loads().windows(2).all(ascending) {
        out.push("the segments are not in ascending order: glibc maps them over what follows".to_string());
    }
    if image.loads().iter().any(|s| s.is_writable() && s.is_executable()) {
        out.push("a segment is both writable and executable".to_string());
    }
    let stack = image.segment(elf::PT_GNU_STACK);
    if stack.is_some_and(super::image::Segment::is_executable) {
        out.push("asks for an executable stack".to_string());
    }
}

fn interpreter(e: &Evidence, out: &mut Vec<String>) {
    if let Fact::Unreadable(why) = &e.facts.interp {
        out.push(format!("{why}: Linux refuses the program"));
    }
    let is_program = matches!(e.facts.kind, Kind::Exec | Kind::Pie);
    if is_program && e.facts.interp == Fact::Absent {
        out.push("needs libraries and names no interpreter: it runs unrelocated and crashes".to_string());
    }
    let count = e.image.segments().iter().filter(|s| s.kind == elf::PT_INTERP.0).count();
    if count > 1 {
        out.push(format!("{count} PT_INTERP segments: Linux takes the first"));
    }
}

fn dynamic(e: &Evidence, out: &mut Vec<String>) {
    let image = e.image;
    if let Some(why) = image.dynamic_fault() {
        let text = "a program runs unrelocated, glibc refuses the library (\"object file has no dynamic section\")";
        out.push(format!("{why}: {text}"));
    }
    if !image.dynamic_is_terminated() {
        out.push("no DT_NULL ends the dynamic table: loaders read on into what follows".to_string());
    }
    if image.dynamic().is_empty() {
        return;
    }
    if image.dynamic_value(elf::DT_STRTAB).is_none() {
        out.push("no DT_STRTAB: the loader crashes".to_string());
    } else if image.strings().is_none() {
        out.push("DT_STRTAB points to where the file loads nothing: the loader crashes".to_string());
    } else {
        let claimed = image.dynamic_values(elf::DT_NEEDED).count();
        if claimed > e.facts.needed.len() {
            let lost = claimed.saturating_sub(e.facts.needed.len()) as u64;
            out.push(format!("{} of DT_NEEDED cannot be read", units::counted(lost, "name")));
        }
    }
    if image.dynamic_value(elf::DT_GNU_PRELINKED).is_some() {
        out.push("prelinked: loaders since glibc 2.36 ignore that".to_string());
    }
}

/// glibc relocates the first DT_RELACOUNT records in a loop that asserts their type; musl does not use the count.
fn relative_count(e: &Evidence, out: &mut Vec<String>) {
    let rela = (elf::DT_RELACOUNT, "DT_RELACOUNT");
    let rel = (elf::DT_RELCOUNT, "DT_RELCOUNT");
    for (tag, name) in [rela, rel] {
        let Some(claimed) = e.image.dynamic_value(tag) else { continue };
        let there = e.start.relative_prefix;
        if claimed > there {
            let text = format!("{name} is {claimed}, but {there} relative relocations come first: glibc aborts");
            out.push(text);
        } else if claimed < there && there > 0 {
            out.push(format!(
                "{name} is {claimed}, {there} relative relocations come first: glibc takes its slow path"
            ));
        }
    }
}

fn relr(e: &Evidence, out: &mut Vec<String>) {
    if e.tables.relr.is_none() || e.flavour != Some(Flavour::Glibc) || e.tables.android_only {
        return;
    }
    let needs_glibc = e.facts.needed.iter().any(|name| name.to_string_lossy().starts_with("libc.so."));
    let marked = e.versions.iter().any(|v| v.version == b"GLIBC_ABI_DT_RELR");
    if !needs_glibc || marked {
        return;
    }
    // `_dl_map_object_from_fd` tests this only where versions are asked for and libc.so is needed.
    if e.image.dynamic_value(elf::DT_VERNEED).is_some() {
        out.push(
            "DT_RELR without GLIBC_ABI_DT_RELR dependency: glibc 2.36 and later abort with these words".to_string(),
        );
    } else {
        out.push(
            "DT_RELR without GLIBC_ABI_DT_RELR: glibc before 2.36 ignores the table, the program crashes".to_string(),
        );
    }
}

fn android(e: &Evidence, out: &mut Vec<String>) {
    if e.start.packed_fault {
        out.push("Android's packed relocations end before their claimed count: bionic refuses the file".to_string());
    }
    if e.tables.android_only && e.flavour != Some(Flavour::Bionic) {
        out.push("relocations in Android's format: only bionic reads them, other loaders crash".to_string());
    }
}

fn writes(e: &Evidence, out: &mut Vec<String>) {
    let loads = e.image.loads();
    let nowhere = pages_not_covered(&mapped(loads, |_| true), &e.start.pages);
    if nowhere > 0 {
        out.push(format!(
            "relocations write {} where nothing is loaded: the loader crashes",
            units::counted(nowhere, "page")
        ));
    }
    let writable = mapped(loads, super::image::Segment::is_writable);
    let read_only = pages_not_covered(&writable, &e.start.pages).saturating_sub(nowhere);
    if read_only > 0 && !e.facts.textrel {
        let pages = units::counted(read_only, "read-only page");
        out.push(format!("relocations write {pages} without DT_TEXTREL: the loader crashes"));
    }
    if e.facts.textrel && read_only == 0 {
        out.push(
            "DT_TEXTREL, but no relocation writes a read-only page: two system calls a segment for nothing".to_string(),
        );
    }
    if e.facts.textrel && e.flavour == Some(Flavour::Bionic) && e.image.is_64() {
        out.push("DT_TEXTREL: bionic refuses it in 64-bit files".to_string());
    }
}

fn relro(e: &Evidence, out: &mut Vec<String>) {
    let Some(segment) = relro_segment(e.image) else { return };
    if !is_mapped(e.image, segment) {
        let text = "PT_GNU_RELRO reaches past what is loaded: glibc ends the program";
        out.push(format!("{text} (\"cannot apply additional memory protection\")"));
    } else if e.facts.relro.bytes == 0 && segment.memsz > 0 {
        let size = units::bytes(segment.memsz);
        out.push(format!("PT_GNU_RELRO ({size}) covers no page up to its end: loaders round down and protect nothing"));
    }
    if e.facts.kind == Kind::Static && e.flavour.is_none() {
        out.push(
            "a static program must protect PT_GNU_RELRO itself: glibc's start files do, musl's do not".to_string(),
        );
    }
}

fn lookups(e: &Evidence, out: &mut Vec<String>) {
    let image = e.image;
    let has_symbols = image.dynamic_value(elf::DT_SYMTAB).is_some();
    if has_symbols && e.facts.hash.is_empty() && image.machine() != elf::EM_MIPS.0 {
        out.push("no hash table: no symbol of this file can be found by others".to_string());
    }
    if e.facts.hash == ["sysv"] && e.facts.needed.len() > 1 {
        out.push("only the old hash style: each lookup that passes this object costs several times more".to_string());
    }
    let gnu = image.dynamic_value(elf::DT_GNU_HASH).and_then(|addr| image.u32_at(addr));
    if gnu == Some(0) {
        out.push("DT_GNU_HASH has no buckets: musl divides by zero, glibc skips it".to_string());
    }
    let slots_bound_later = e.lazy && e.facts.relocations.jump_slot > 0;
    if slots_bound_later && e.start.open_slots == 0 && e.facts.relro.bytes > 0 {
        out.push("lazily bound slots lie in PT_GNU_RELRO: the first call crashes".to_string());
    }
}
