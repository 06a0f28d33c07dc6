//! One image as [`LinkFacts`]: the fields that it shares with ELF, and the Mach-O block.

use std::path::{Path, PathBuf};

use object::Endianness;
use object::macho;

use super::image::{Image, Range};
use super::{exports, fixups, names, signature, universal};
use crate::error::{Error, Result};
use crate::facts::macho::{MachoExports, MachoFacts, MachoInit, MachoSegment};
use crate::facts::{Endian, Fact, Format, InitFunctions, Kind, LinkFacts, Relro, RelroKind};

/// Facts of the image in `bytes`, of a file of `file_bytes`.
///
/// # Errors
/// The header or the table of load commands is cut off.
pub(super) fn link_facts(path: &Path, bytes: &[u8], file_bytes: usize) -> Result<LinkFacts> {
    let mut image = Image::parse(bytes)?;
    let found = fixups::count(&mut image);
    let mut facts = LinkFacts::new(path, Format::MachO, file_bytes as u64);
    header(&mut facts, &image);
    relocations(&mut facts, &found);
    let relro_kind = relro(&mut facts, &image);
    facts.relro.kind = relro_kind;
    let init = initialisers(&image);
    facts.init = InitFunctions {
        preinit_array: 0,
        init_array: init.pointers.saturating_add(init.offsets),
        has_init: init.routines,
    };
    let page_size = names::page_size(image.cpu_type);
    facts.pages_written = if page_size == 4096 { found.facts.pages_4k } else { found.facts.pages_16k };
    facts.textrel = found.writes_read_only;
    let mut macho = block(&image, found, init);
    macho.notes = notes(&image, &macho);
    facts.bind_now = macho.fixups.lazy_binds == 0;
    facts.warnings = std::mem::take(&mut image.warnings);
    facts.macho = Some(Box::new(macho));
    Ok(facts)
}

/// Facts of a slice that cannot be read: what the universal file's table says of it.
pub(super) fn unreadable(path: &Path, file_bytes: usize, entry: &universal::Entry, fault: &Error) -> LinkFacts {
    let mut facts = LinkFacts::new(path, Format::MachO, file_bytes as u64);
    facts.arch = names::arch(entry.cpu_type);
    facts.warnings.push(fault.to_string());
    facts.macho = Some(Box::new(MachoFacts { cpu: entry.cpu(), file_type: "unknown", ..MachoFacts::default() }));
    facts
}

fn header(facts: &mut LinkFacts, image: &Image<'_>) {
    facts.arch = names::arch(image.cpu_type);
    facts.bits = if image.is_64 { 64 } else { 32 };
    facts.endian = match image.endian {
        Endianness::Little => Endian::Little,
        Endianness::Big => Endian::Big,
    };
    facts.kind = kind(image);
    if let Some(path) = &image.dylinker {
        facts.interp = Fact::Value(PathBuf::from(path));
    }
    facts.needed = image.dylibs.iter().map(|d| d.name.clone()).collect();
    facts.rpath = image.rpaths.clone();
    facts.soname = image.id.clone();
    facts.tls_bytes = [macho::S_THREAD_LOCAL_REGULAR, macho::S_THREAD_LOCAL_ZEROFILL]
        .iter()
        .flat_map(|kind| image.sections_of(*kind))
        .fold(0, |sum, section| sum.saturating_add(section.bytes));
    let is_libsystem = |name: &std::ffi::OsString| name.to_str().is_some_and(|n| n.contains("/libSystem."));
    facts.libc = facts.needed.iter().any(is_libsystem).then(|| "libSystem".to_string());
}

/// Kind by the header's type, and for programs by whether they name a dynamic linker.
fn kind(image: &Image<'_>) -> Kind {
    match image.file_type {
        macho::MH_EXECUTE => {
            // arm64 systems place every program where they like, with the flag or without.
            let moves = image.flags.contains(macho::MH_PIE) || image.cpu_type == macho::CPU_TYPE_ARM64;
            match (image.dylinker.is_some(), moves) {
                (true, true) => Kind::Pie,
                (true, false) => Kind::Exec,
                (false, true) => Kind::StaticPie,
                (false, false) => Kind::Static,
            }
        }
        macho::MH_DYLIB | macho::MH_BUNDLE | macho::MH_DYLINKER | macho::MH_DYLIB_STUB | macho::MH_FVMLIB => {
            Kind::Shared
        }
        _ => Kind::Other,
    }
}

fn relocations(facts: &mut LinkFacts, found: &fixups::Found) {
    let counts = &mut facts.relocations;
    counts.relative = found.facts.rebases;
    counts.glob_dat = found.got_binds;
    counts.absolute = found.facts.binds.saturating_sub(found.got_binds);
    counts.jump_slot = found.facts.lazy_binds;
    counts.table_bytes = found.facts.table_bytes;
}

/// Segments that dyld makes read-only after fixups; the kind is partial where lazy pointers stay writable.
fn relro(facts: &mut LinkFacts, image: &Image<'_>) -> RelroKind {
    let page = names::page_size(image.cpu_type);
    let mut relro = Relro::default();
    for segment in image.segments.iter().filter(|s| s.read_only) {
        relro.bytes = relro.bytes.saturating_add(segment.vm_bytes);
        relro.pages = relro.pages.saturating_add(segment.vm_bytes.div_ceil(page));
    }
    facts.relro = relro;
    match (relro.bytes, facts.relocations.jump_slot) {
        (0, _) => RelroKind::None,
        (_, 0) => RelroKind::Full,
        _ => RelroKind::Partial,
    }
}

fn initialisers(image: &Image<'_>) -> MachoInit {
    let pointer = image.pointer_size();
    let entries = |kind, width: u64| {
        // Not more entries than the image has bytes for.
        let bytes = image.sections_of(kind).fold(0u64, |sum, s| sum.saturating_add(s.bytes));
        bytes.min(image.data.len() as u64).checked_div(width).unwrap_or(0)
    };
    let listed = image.sections.iter().filter(|s| s.name == "__objc_nlclslist" || s.name == "__objc_nlcatlist");
    let listed_bytes = listed.fold(0u64, |sum, s| sum.saturating_add(s.bytes)).min(image.data.len() as u64);
    MachoInit {
        pointers: entries(macho::S_MOD_INIT_FUNC_POINTERS, pointer),
        offsets: entries(macho::S_INIT_FUNC_OFFSETS, 4),
        routines: image.routines,
        objc_load: listed_bytes.checked_div(pointer).unwrap_or(0),
    }
}

fn block(image: &Image<'_>, found: fixups::Found, init: MachoInit) -> MachoFacts {
    let segments = image.segments.iter().zip(&found.by_segment).map(|(segment, counts)| MachoSegment {
        name: segment.name.clone(),
        vm_bytes: segment.vm_bytes,
        file_bytes: segment.file_bytes,
        protection: protection(segment.protection),
        read_only: segment.read_only,
        rebases: counts.rebases,
        binds: counts.binds,
        lazy_binds: counts.lazy_binds,
        weak_binds: counts.weak_binds,
    });
    MachoFacts {
        cpu: names::cpu(image.cpu_type, image.cpu_subtype),
        file_type: names::file_type(image.file_type),
        slice: None,
        platforms: image.platforms.clone(),
        dylibs: image.dylibs.clone(),
        entry: image.entry,
        segments: segments.collect(),
        fixups: found.facts,
        init,
        exports: exports_of(image),
        weak_defines: image.flags.contains(macho::MH_WEAK_DEFINES),
        binds_to_weak: image.flags.contains(macho::MH_BINDS_TO_WEAK),
        flat_namespace: image.flags.contains(macho::MH_DYLDLINK)
            && (image.flags.contains(macho::MH_FORCE_FLAT) || !image.flags.contains(macho::MH_TWOLEVEL)),
        signature: table_fact(image, image.signature, signature::read),
        encryption: image.encryption,
        uuid: image.uuid.clone(),
        notes: Vec::new(),
    }
}

/// LC_DYLD_EXPORTS_TRIE, or the same trie named by LC_DYLD_INFO.
fn exports_of(image: &Image<'_>) -> Fact<MachoExports> {
    let older = image.dyld_info.map(|info| info.exports).filter(|range| range.bytes != 0);
    table_fact(image, image.exports_trie.or(older), exports::walk)
}

fn table_fact<T>(image: &Image<'_>, range: Option<Range>, read: impl Fn(&[u8]) -> Result<T, String>) -> Fact<T> {
    let Some(range) = range else { return Fact::Absent };
    match range.data(image.data) {
        None => Fact::Unreadable("the table extends past the end of the image".to_string()),
        Some(bytes) => read(bytes).map_or_else(Fact::Unreadable, Fact::Value),
    }
}

fn protection(bits: u32) -> String {
    let letter = |bit: u32, letter| if bits & bit != 0 { letter } else { '-' };
    [letter(1, 'r'), letter(2, 'w'), letter(4, 'x')].iter().collect()
}

/// What a reader of the figures should know.
fn notes(image: &Image<'_>, facts: &MachoFacts) -> Vec<String> {
    let mut notes = Vec::new();
    let fixups = &facts.fixups;
    if fixups.page_in_linking && fixups.rebases.saturating_add(fixups.binds) > 0 {
        notes.push(
            "chained fixups may be applied by the kernel page by page at first touch: pages written at start are an upper bound"
                .to_string(),
        );
    }
    if facts.weak_defines || facts.binds_to_weak {
        notes.push("coalesced (weak) symbols: dyld searches every image that takes part for each of them".to_string());
    }
    if facts.encryption.is_some_and(|e| e.system != 0) {
        notes.push("encrypted: its pages are decrypted when they are first touched".to_string());
    }
    if image.file_type == macho::MH_DSYM {
        notes.push("debugging information only: not loaded by a program".to_string());
    }
    if let (Some(_), Some(_)) = (&image.chained, &image.dyld_info) {
        notes.push("has chained fixups and opcodes: dyld takes the chained ones, and so do these counts".to_string());
    }
    notes
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use crate::macho::testing::Builder;

    fn words(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    fn facts(bytes: &[u8]) -> LinkFacts {
        link_facts(Path::new("x"), bytes, bytes.len()).unwrap()
    }

    /// dylib_command: name at `name_at`, timestamp, versions, then whatever lies before the name.
    fn dylib(timestamp: u32, before_name: &[u32], name: &[u8]) -> Vec<u8> {
        let name_at = 24 + 4 * before_name.len() as u32;
        let mut body = words(&[name_at, timestamp, 0x0002_0103, 0x0001_0000]);
        body.extend(words(before_name));
        body.extend(name);
        body.resize(body.len().next_multiple_of(8), 0);
        body
    }

    #[test]
    fn libraries_keep_their_attributes() {
        let mut builder = Builder::new(&[0; 64]);
        builder.command(0xc, &dylib(2, &[], b"/usr/lib/libSystem.B.dylib\0"));
        builder.command(0x8000_0018, &dylib(2, &[], b"weak\0"));
        builder.command(0x8000_001f, &dylib(2, &[], b"reexport\0"));
        builder.command(0x8000_0023, &dylib(2, &[], b"upward\0"));
        builder.command(0x20, &dylib(2, &[], b"lazy\0"));
        // The newer form: a marker for a timestamp, and flags before the name.
        builder.command(0x8000_0018, &dylib(0x1a74_1800, &[0x0d], b"delayed\0"));
        // The marker alone, with the name in its old place, is a timestamp.
        builder.command(0xc, &dylib(0x1a74_1800, &[], b"old\0"));
        let facts = facts(&builder.build());
        let dylibs = &facts.macho.as_ref().unwrap().dylibs;
        let marks: Vec<String> = dylibs
            .iter()
            .map(|d| {
                let marks = [d.weak, d.reexport, d.upward, d.lazy, d.delayed_init];
                marks.iter().zip("wruld".chars()).map(|(set, c)| if *set { c } else { '-' }).collect()
            })
            .collect();
        assert_eq!(marks, ["-----", "w----", "-r---", "--u--", "---l-", "w-u-d", "-----"]);
        assert_eq!((&dylibs[0].current_version[..], &dylibs[0].compatibility_version[..]), ("2.1.3", "1.0"));
        assert_eq!(facts.needed.last().unwrap(), "old");
        assert_eq!(facts.libc.as_deref(), Some("libSystem"));
        assert!(facts.warnings.is_empty(), "{:?}", facts.warnings);
    }

    #[test]
    fn other_commands_are_taken() {
        let mut builder = Builder::new(&[0; 64]);
        builder.command(0x24, &words(&[0x000a_0f04, 0x000b_0000]));
        builder.command(0x32, &words(&[6, 0x000e_0000, 0x000e_0100, 0]));
        builder.command(0x32, &words(&[77, 0, 0, 0]));
        builder.command(0x5, &words(&[6, 0]));
        builder.command(0x1a, &[0; 64]);
        builder.command(0x2c, &words(&[0x1000, 0x2000, 1, 0]));
        builder.command(0x1b, &[0xab; 16]);
        builder.command(0x8000_001c, &[&words(&[12])[..], b"@loader_path/lib\0\0\0\0"].concat());
        builder.table(0x1d, b"no signature");
        let facts = facts(&builder.build());
        let macho = facts.macho.as_ref().unwrap();
        let platforms: Vec<String> =
            macho.platforms.iter().map(|p| format!("{} {} {}", p.name, p.min_version, p.sdk)).collect();
        assert_eq!(platforms, ["macos 10.15.4 11.0", "mac-catalyst 14.0 14.1", "platform 77 0.0 0.0"]);
        assert_eq!((macho.entry, macho.init.routines, facts.init.has_init), (Some("thread"), true, true));
        assert_eq!(macho.encryption.map(|e| (e.bytes, e.system)), Some((0x2000, 1)));
        assert_eq!(macho.uuid.as_deref(), Some("ABABABAB-ABAB-ABAB-ABAB-ABABABABABAB"));
        assert_eq!(facts.rpath, ["@loader_path/lib"]);
        assert!(matches!(macho.signature, Fact::Unreadable(_)));
        assert_eq!(facts.kind, Kind::StaticPie, "no dynamic linker is named");
        assert!(macho.notes.iter().any(|n| n.contains("encrypted")));
    }

    #[test]
    fn relocation_entries_are_counted() {
        let mut builder = Builder::new(&[0; 4096]);
        let at = builder.linkedit_offset();
        // Two local entries, one external, all counted from the first segment, whose size is 4096.
        let entries = [0x1000u32, 0, 0x1010, 0, 0x1ff8, 0];
        builder.linkedit.extend(words(&entries));
        let mut dysymtab = [0u32; 18];
        (dysymtab[14], dysymtab[15]) = (at + 16, 1);
        (dysymtab[16], dysymtab[17]) = (at, 2);
        builder.command(0xb, &words(&dysymtab));
        let found = facts(&builder.build());
        let fixups = &found.macho.as_ref().unwrap().fixups;
        assert_eq!((fixups.format, fixups.rebases, fixups.binds, fixups.table_bytes), ("relocations", 2, 1, 24));
        assert_eq!((fixups.pages_4k, found.pages_written, found.textrel), (1, 1, false));
        // The x86-64 base is the first writable segment: the same entries lie past it.
        builder.cpu = (0x0100_0007, 3);
        let found = facts(&builder.build());
        assert!(found.warnings[0].contains("counted up to there"), "{:?}", found.warnings);
    }

    #[test]
    fn load_commands_that_are_cut_off_are_warnings() {
        let mut builder = Builder::new(&[0; 64]);
        builder.command(0xc, &[0; 4]);
        builder.command(0x19, &[0xff; 64]);
        let mut bytes = builder.build();
        let found = facts(&bytes);
        assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
        // More commands than there is room for.
        bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        let found = facts(&bytes);
        assert!(found.warnings.iter().any(|w| w.contains("rest is not read")), "{:?}", found.warnings);
        // A table longer than the file is an error, as nothing can be said.
        bytes[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(link_facts(Path::new("x"), &bytes, bytes.len()).is_err());
    }
}
