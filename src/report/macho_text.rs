//! Rows of `premain inspect FILE` for a Mach-O image: its libraries, fixups, initialisers, exports, signature.

use std::fmt::Write;

use super::facts_text::Page;
use crate::facts::macho::{MachoDylib, MachoFacts, MachoFixups};
use crate::facts::{Fact, LinkFacts, RelroKind};
use crate::units::{bytes, count, counted};

/// Adds the rows of one image.
pub fn rows(f: &LinkFacts, m: &MachoFacts, page: &mut Page) {
    page.row("image", &image(m));
    let platforms: Vec<String> =
        m.platforms.iter().map(|p| format!("{} {} or later (SDK {})", p.name, p.min_version, p.sdk)).collect();
    page.row("platform", &platforms.join(", "));
    page.row("install name", &f.soname.as_ref().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default());
    page.row("needed", &m.dylibs.iter().map(dylib).collect::<Vec<_>>().join(", "));
    let rpaths: Vec<_> = f.rpath.iter().map(|r| r.to_string_lossy()).collect();
    page.row("run paths", &rpaths.join(", "));
    page.row("fixups", &fixups(&m.fixups));
    page.row("writes", &writes(&m.fixups));
    page.row("read-only", &read_only(f));
    page.row("init", &init(m));
    if f.tls_bytes > 0 {
        page.row("thread-local", &bytes(f.tls_bytes));
    }
    if f.textrel {
        page.row("text", "fixups write into segments that are not writable");
    }
    page.row("exports", &exports(m));
    page.row("weak symbols", &weak(m));
    page.row("signature", &signature(m));
    if let Some(e) = m.encryption.filter(|e| e.system != 0) {
        page.row("encrypted", &format!("{} (system {})", bytes(e.bytes), e.system));
    }
    for note in &m.notes {
        page.row("note", note);
    }
}

fn image(m: &MachoFacts) -> String {
    let mut text = format!("{} {}", m.cpu, m.file_type);
    if let Some(slice) = &m.slice {
        let place = slice.index.saturating_add(1);
        let hidden = if slice.hidden { ", behind the counted ones" } else { "" };
        let _ = write!(text, ", slice {place} of {}{hidden}, {}", slice.of, bytes(slice.size_bytes));
    }
    if m.flat_namespace {
        text.push_str(", flat namespace");
    }
    text
}

fn dylib(d: &MachoDylib) -> String {
    let marks = [
        (d.weak, "weak"),
        (d.reexport, "re-exported"),
        (d.upward, "upward"),
        (d.lazy, "lazy"),
        (d.delayed_init, "delayed"),
    ];
    let marks: Vec<&str> = marks.iter().filter(|(set, _)| *set).map(|(_, word)| *word).collect();
    let name = d.name.to_string_lossy();
    if marks.is_empty() { name.into_owned() } else { format!("{name} ({})", marks.join(", ")) }
}

fn fixups(x: &MachoFixups) -> String {
    let all = x.rebases.saturating_add(x.binds).saturating_add(x.lazy_binds);
    if all == 0 {
        return "none".to_string();
    }
    let mut text = format!("{}: {}", count(all), counted(x.rebases, "rebase"));
    if x.binds > 0 {
        let _ = write!(text, ", {} of {}", counted(x.binds, "bind"), counted(x.symbols, "symbol"));
        if x.weak_imports > 0 {
            let _ = write!(text, " ({} may be missing)", count(x.weak_imports));
        }
    }
    if x.lazy_binds > 0 {
        let _ = write!(text, ", {}", counted(x.lazy_binds, "lazy bind"));
    }
    if x.authenticated > 0 {
        let _ = write!(text, ", {} signed", count(x.authenticated));
    }
    let formats =
        if x.pointer_formats.is_empty() { String::new() } else { format!(" {}", x.pointer_formats.join(", ")) };
    let _ = write!(text, "; {}{formats}, tables {}", x.format, bytes(x.table_bytes));
    text
}

fn writes(x: &MachoFixups) -> String {
    if x.pages_4k == 0 {
        return "no page".to_string();
    }
    let bound = if x.page_in_linking { ", at most" } else { "" };
    format!("{} of 4 KiB, {} of 16 KiB{bound}", counted(x.pages_4k, "page"), count(x.pages_16k))
}

fn read_only(f: &LinkFacts) -> String {
    let size = || format!("{} ({})", bytes(f.relro.bytes), counted(f.relro.pages, "page"));
    match f.relro.kind {
        RelroKind::None => "nothing after fixups".to_string(),
        RelroKind::Partial => format!("{} after fixups; lazy pointers stay writable", size()),
        RelroKind::Full => format!("{} after fixups", size()),
    }
}

fn init(m: &MachoFacts) -> String {
    let mut parts = Vec::new();
    if m.init.pointers > 0 {
        parts.push(format!("{} (pointers)", counted(m.init.pointers, "function")));
    }
    if m.init.offsets > 0 {
        parts.push(format!("{} (offsets)", counted(m.init.offsets, "function")));
    }
    if m.init.routines {
        parts.push("LC_ROUTINES".to_string());
    }
    if m.init.objc_load > 0 {
        parts.push(format!("{} Objective-C +load", count(m.init.objc_load)));
    }
    parts.join(", ")
}

fn exports(m: &MachoFacts) -> String {
    let e = match &m.exports {
        Fact::Absent => return String::new(),
        Fact::Unreadable(why) => return format!("unreadable: {why}"),
        Fact::Value(e) => e,
    };
    let mut text = format!("{}, trie {}", counted(e.symbols, "symbol"), bytes(e.trie_bytes));
    for (n, what) in [(e.reexports, "re-exported"), (e.resolvers, "with a resolver")] {
        if n > 0 {
            let _ = write!(text, ", {} {what}", count(n));
        }
    }
    text
}

/// Symbols that dyld searches in every image.
fn weak(m: &MachoFacts) -> String {
    let mut parts = Vec::new();
    if m.weak_defines {
        let defined = m.exports.value().map_or(0, |e| e.weak_definitions);
        parts.push(format!("{} defined", count(defined)));
    }
    if m.binds_to_weak || m.fixups.weak_binds > 0 {
        parts.push(format!("{} to them", counted(m.fixups.weak_binds, "bind")));
    }
    parts.join(", ")
}

fn signature(m: &MachoFacts) -> String {
    match &m.signature {
        Fact::Absent => String::new(),
        Fact::Unreadable(why) => format!("unreadable: {why}"),
        Fact::Value(s) => {
            let who = match s.adhoc {
                Some(true) => "ad hoc, ",
                Some(false) => "by an identity, ",
                None => "",
            };
            format!("{who}{}, {} hashed at first touch", bytes(s.bytes), counted(s.page_hashes, "page"))
        }
    }
}
