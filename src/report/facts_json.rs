//! The JSON of one file's link facts: one entry of `inspect --json` → `files[]`, without its closure.

use crate::facts::{ElfFacts, Fact, Format, LinkFacts, PagesWritten, RelocationCounts, SegmentFacts};
use crate::json::Json;

/// One file.
pub fn file(f: &LinkFacts) -> Json {
    let mut j = Json::object([
        ("path", f.path.as_os_str().into()),
        ("format", f.format.name().into()),
        ("arch", f.arch.as_str().into()),
        ("bits", f.bits.into()),
        ("endian", if f.format == Format::Script { Json::Null } else { f.endian.name().into() }),
        ("size_bytes", f.size_bytes.into()),
        ("kind", f.kind.name().into()),
        ("libc", f.libc.as_deref().into()),
        ("interp", fact(&f.interp, |p| p.as_os_str().into())),
        ("needed", Json::array(f.needed.iter().map(std::ffi::OsString::as_os_str))),
        ("runpath", Json::array(f.runpath.iter().map(std::ffi::OsString::as_os_str))),
        ("rpath", Json::array(f.rpath.iter().map(std::ffi::OsString::as_os_str))),
        ("soname", f.soname.as_deref().into()),
        ("bind_now", f.bind_now.into()),
        ("textrel", f.textrel.into()),
        ("hash", Json::array(f.hash.iter().copied())),
        ("relocations", relocations(&f.relocations)),
        (
            "relro",
            Json::object([
                ("kind", Json::from(f.relro.kind.name())),
                ("bytes", f.relro.bytes.into()),
                ("pages", f.relro.pages.into()),
            ]),
        ),
        ("pages_written", f.pages_written.into()),
        (
            "init",
            Json::object([
                ("preinit_array", Json::from(f.init.preinit_array)),
                ("init_array", f.init.init_array.into()),
                ("has_init", f.init.has_init.into()),
            ]),
        ),
        ("tls_bytes", f.tls_bytes.into()),
    ]);
    if let Some(e) = &f.elf {
        j.push("elf", elf(e));
    }
    if let Some(m) = &f.macho {
        j.push("macho", super::macho_json::block(m));
    }
    j.push("warnings", Json::array(f.warnings.iter().map(String::as_str)));
    j
}

/// A fact in its three states.
fn fact<T>(f: &Fact<T>, value: impl Fn(&T) -> Json) -> Json {
    match f {
        Fact::Absent => Json::Null,
        Fact::Value(v) => value(v),
        Fact::Unreadable(why) => Json::unreadable(why.as_str()),
    }
}

/// Counts by class, with their sum and the bytes of their tables.
pub fn relocations(r: &RelocationCounts) -> Json {
    let mut j = Json::object(r.classes().map(|(name, n)| (name, Json::from(n))));
    j.push("total", r.total());
    j.push("table_bytes", r.table_bytes);
    j
}

fn elf(e: &ElfFacts) -> Json {
    Json::object([
        ("entry", Json::from(e.entry)),
        ("bind_now_by", Json::array(e.bind_now_by.iter().copied())),
        ("libc_version", e.libc_version.as_deref().into()),
        ("relative_tagged", e.relative_tagged.into()),
        ("relocation_types", Json::Array(e.relocation_types.iter().map(relocation_type).collect())),
        ("implicit_got", e.implicit_got.into()),
        ("pages", Json::array(e.pages.iter().map(pages))),
        ("ifuncs", e.ifuncs.into()),
        ("exported_symbols", e.exported.into()),
        ("imported_symbols", e.imported.into()),
        ("page_align_bytes", e.page_align.into()),
        ("build_id", e.build_id.as_deref().into()),
        ("notes", Json::array(e.notes.iter().map(String::as_str))),
        ("segments", Json::array(e.segments.iter().map(segment))),
    ])
}

fn relocation_type((kind, count): &(u32, u64)) -> Json {
    Json::object([("type", Json::from(*kind)), ("count", (*count).into())])
}

fn pages(p: &PagesWritten) -> Json {
    Json::object(
        [("page_size_bytes", p.page_size), ("pages_written", p.pages), ("in_relro", p.in_relro)]
            .map(|(k, v)| (k, Json::from(v))),
    )
}

fn segment(s: &SegmentFacts) -> Json {
    Json::object([
        ("kind", Json::from(s.kind.as_str())),
        ("flags", s.flags.as_str().into()),
        ("offset", s.offset.into()),
        ("vaddr", s.vaddr.into()),
        ("file_bytes", s.file_bytes.into()),
        ("memory_bytes", s.memory_bytes.into()),
        ("align", s.align.into()),
    ])
}
