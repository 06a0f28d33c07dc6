//! The page of `premain inspect FILE` without its closure: what one file says of itself.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use crate::elf::{Holders, PageWrites};
use crate::facts::{ElfFacts, Fact, Format, Kind, LinkFacts, RelroKind};
use crate::output::Style;
use crate::report::table::Table;
use crate::report::width::{columns, printable, wrap};
use crate::units::{bytes, count, counted};

/// Columns of a row's name.
const NAME: usize = 14;

/// Lines of names and values, values wrapped and aligned.
pub struct Page {
    text: String,
    style: Style,
}

impl Page {
    /// A page with a heading.
    pub fn new(heading: &str, style: Style) -> Page {
        Page { text: format!("{}\n", style.bold(&printable(heading))), style }
    }

    /// A row; nothing where the value is empty.
    pub fn row(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let width = self.style.width.saturating_sub(NAME + 4).max(20);
        for (i, line) in wrap(&printable(value), width).iter().enumerate() {
            let name = if i == 0 { name } else { "" };
            let space = " ".repeat((NAME + 2).saturating_sub(columns(name)).max(1));
            let _ = writeln!(self.text, "  {}{space}{line}", self.style.dim(name));
        }
    }

    /// A row that needs attention.
    pub fn warning(&mut self, value: &str) {
        let width = self.style.width.saturating_sub(NAME + 4).max(20);
        for (i, line) in wrap(&printable(value), width).iter().enumerate() {
            let name = if i == 0 { "warning" } else { "" };
            let _ = writeln!(self.text, "  {}{line}", self.style.warn(&format!("{name:<0$}", NAME + 2)));
        }
    }

    /// Text as it is.
    pub fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }
}

/// All rows of one file.
pub fn file(f: &LinkFacts, style: Style) -> Page {
    let mut page = Page::new(&f.path.to_string_lossy(), style);
    page.row("kind", &kind(f));
    match &f.interp {
        Fact::Absent => {}
        Fact::Value(path) => page.row("interpreter", &path.to_string_lossy()),
        Fact::Unreadable(why) => page.row("interpreter", &format!("unreadable: {why}")),
    }
    if let Some(m) = &f.macho {
        super::macho_text::rows(f, m, &mut page);
    } else if f.format != Format::Script {
        names(f, &mut page);
        work(f, &mut page);
    }
    if let Some(e) = &f.elf {
        elf(f, e, &mut page);
    }
    for warning in &f.warnings {
        page.warning(warning);
    }
    page
}

fn kind(f: &LinkFacts) -> String {
    let what = match f.kind {
        Kind::Static => "static program at a fixed address",
        Kind::StaticPie => "static program, position independent",
        Kind::Exec => "dynamic program at a fixed address",
        Kind::Pie => "dynamic program, position independent",
        Kind::Shared => "shared library or loader",
        Kind::Script => "script",
        Kind::Other => "no program",
    };
    let mut text = format!("{} ({what})", f.kind.name());
    if f.format != Format::Script {
        let format = if f.format == Format::Elf { "ELF" } else { "Mach-O" };
        let _ = write!(text, ", {format} {} bit {}, {} endian", f.bits, f.arch, f.endian.name());
    }
    let _ = write!(text, ", {}", bytes(f.size_bytes));
    text
}

fn list(names: &[std::ffi::OsString]) -> String {
    names.iter().map(|n| String::from_utf8_lossy(n.as_bytes()).into_owned()).collect::<Vec<_>>().join(", ")
}

fn names(f: &LinkFacts, page: &mut Page) {
    page.row("soname", &f.soname.as_ref().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default());
    if let Some(libc) = &f.libc {
        let version = f.elf.as_ref().and_then(|e| e.libc_version.as_ref());
        page.row("C library", &version.map_or(libc.clone(), |v| format!("{libc}, {v} or later")));
    }
    page.row("needed", &list(&f.needed));
    page.row("runpath", &list(&f.runpath));
    page.row("rpath", &list(&f.rpath));
}

fn work(f: &LinkFacts, page: &mut Page) {
    let r = &f.relocations;
    let classes: Vec<String> =
        r.classes().iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{} {}", count(*n), name)).collect();
    let tables = if r.table_bytes > 0 { format!("; tables {}", bytes(r.table_bytes)) } else { String::new() };
    match r.total() {
        0 => page.row("relocations", "none"),
        n => page.row("relocations", &format!("{}: {}{tables}", count(n), classes.join(", "))),
    }
    page.row("writes", &writes(f));
    page.row("relro", &relro(f));
    let by = f.elf.as_ref().map(|e| e.bind_now_by.join(", ")).filter(|by| !by.is_empty());
    if r.jump_slot > 0 || f.bind_now {
        let now = by.map_or("at start".to_string(), |by| format!("at start ({by})"));
        page.row("binding", if f.bind_now { &now } else { "functions at their first call (lazy)" });
    }
    page.row("hash tables", &f.hash.join(", "));
    page.row("init", &init(f));
    if f.tls_bytes > 0 {
        page.row("thread-local", &bytes(f.tls_bytes));
    }
    if f.textrel {
        page.row("text", "relocations write into read-only segments (TEXTREL)");
    }
}

/// Pages written, and how many of them become read-only.
fn writes(f: &LinkFacts) -> String {
    if f.pages_written == 0 {
        return "no page".to_string();
    }
    let mut text = format!("{} ({})", counted(f.pages_written, "page"), bytes(f.pages_written.saturating_mul(4096)));
    let pages = f.elf.as_ref().map_or(&[][..], |e| &e.pages);
    if let Some(small) = pages.first() {
        let _ = write!(text, ", {} of them read-only afterwards", count(small.in_relro));
    }
    let larger: Vec<String> =
        pages.iter().skip(1).map(|p| format!("{} of {} KiB", count(p.pages), p.page_size >> 10)).collect();
    if !larger.is_empty() {
        let _ = write!(text, "; with larger pages {}", larger.join(", "));
    }
    text
}

fn relro(f: &LinkFacts) -> String {
    match f.relro.kind {
        RelroKind::None => "none: nothing is read-only after relocation".to_string(),
        kind => format!("{}: {} ({})", kind.name(), bytes(f.relro.bytes), counted(f.relro.pages, "page")),
    }
}

fn init(f: &LinkFacts) -> String {
    let mut parts = Vec::new();
    if f.init.has_init {
        parts.push("DT_INIT".to_string());
    }
    if f.init.preinit_array > 0 {
        parts.push(format!("{} in preinit_array", count(f.init.preinit_array)));
    }
    if f.init.init_array > 0 {
        parts.push(format!("{} in init_array", count(f.init.init_array)));
    }
    parts.join(", ")
}

fn elf(f: &LinkFacts, e: &ElfFacts, page: &mut Page) {
    if e.exported + e.imported > 0 {
        let ifuncs = if e.ifuncs > 0 { format!(", {} with a resolver", count(e.ifuncs)) } else { String::new() };
        page.row("symbols", &format!("{} exported, {} imported{ifuncs}", count(e.exported), count(e.imported)));
    }
    let loads = e.segments.iter().filter(|s| s.kind == "load").count() as u64;
    if loads > 0 {
        page.row("segments", &format!("{}, aligned to {}", counted(loads, "loaded segment"), bytes(e.page_align)));
    }
    if f.kind != Kind::Other && e.implicit_got > 0 {
        page.row("implicit got", &counted(e.implicit_got, "entry"));
    }
    page.row("build id", e.build_id.as_deref().unwrap_or_default());
    for note in &e.notes {
        page.row("note", note);
    }
}

/// The pages that relocations write; neighbours that are written alike stand in one line.
pub fn pages(all: &[PageWrites], style: Style) -> String {
    let mut table = Table::new(["address", ">pages", "afterwards", "written by"]);
    let mut rest = all;
    while let Some(first) = rest.first() {
        let alike = |(i, p): &(usize, &PageWrites)| {
            p.writes == first.writes && p.in_relro == first.in_relro && p.addr == first.addr + 4096 * *i as u64
        };
        let run = rest.iter().enumerate().take_while(alike).count().max(1);
        let writes: Vec<String> = first.writes.iter().map(|(by, n)| format!("{} {by}", count(*n))).collect();
        let each = if run > 1 { " each" } else { "" };
        table.row([
            format!("{:#x}", first.addr),
            count(run as u64),
            if first.in_relro { "read-only" } else { "writable" }.to_string(),
            format!("{}{each}", writes.join(", ")),
        ]);
        rest = &rest[run..];
    }
    if all.is_empty() { "  no page is written by relocations\n".to_string() } else { indent(&table.render(style)) }
}

/// Data objects that are listed; JSON has more.
const OBJECTS_SHOWN: usize = 12;

/// The sections and data objects that relocations write to.
pub fn holders(h: &Holders, style: Style) -> String {
    let mut out = String::new();
    for (title, all) in [("section", h.sections.as_slice()), ("data object", &h.objects)] {
        if all.is_empty() {
            continue;
        }
        let mut table = Table::new([title, ">size", ">relocations", ">pages written"]);
        for holder in all.iter().take(OBJECTS_SHOWN) {
            table.row([printable(&holder.name), bytes(holder.bytes), count(holder.writes), count(holder.pages)]);
        }
        out.push_str(&indent(&table.render(style)));
    }
    out
}

/// Two blanks before each line.
pub fn indent(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_string() } else { format!("  {line}\n") }).collect()
}
