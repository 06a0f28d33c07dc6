//! Two builds of one program in the units of start-up work: what one has more of than the other.

use crate::facts::LinkFacts;
use crate::facts::macho::MachoFacts;
use crate::json::Json;
use crate::loader::Closure;
use crate::output::Style;
use crate::report::facts_text::indent;
use crate::report::table::{Cell, Table};
use crate::units;

/// One figure in both files; `None` where it does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its name in JSON.
    pub field: String,
    /// In the first file.
    pub old: Option<u64>,
    /// In the second.
    pub new: Option<u64>,
    /// Whether it is bytes rather than a count.
    pub is_bytes: bool,
}

impl Difference {
    /// Second minus first, where both exist.
    pub fn change(&self) -> Option<i64> {
        let (old, new) = (self.old?, self.new?);
        i64::try_from(i128::from(new) - i128::from(old)).ok()
    }
}

/// A word in both files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordChange {
    /// Its name in JSON.
    pub field: &'static str,
    /// In the first file.
    pub old: String,
    /// In the second.
    pub new: String,
}

/// A file with its closure.
pub type Side<'a> = (&'a LinkFacts, Option<&'a Closure>);

/// Every figure of both files, equal ones too, in the order of output.
pub fn differences(old: Side<'_>, new: Side<'_>) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut push = |field: &str, is_bytes: bool, pick: &dyn Fn(Side<'_>) -> Option<u64>| {
        all.push(Difference { field: field.to_string(), old: pick(old), new: pick(new), is_bytes });
    };
    push("size_bytes", true, &|s| Some(s.0.size_bytes));
    for (i, (class, _)) in old.0.relocations.classes().iter().enumerate() {
        push(&format!("relocations.{class}"), false, &|s| Some(s.0.relocations.classes()[i].1));
    }
    push("relocations.total", false, &|s| Some(s.0.relocations.total()));
    push("relocations.table_bytes", true, &|s| Some(s.0.relocations.table_bytes));
    push("pages_written", false, &|s| Some(s.0.pages_written));
    push("relro.bytes", true, &|s| Some(s.0.relro.bytes));
    push("init_functions", false, &|s| Some(s.0.init.total()));
    push("tls_bytes", true, &|s| Some(s.0.tls_bytes));
    push("needed", false, &|s| Some(s.0.needed.len() as u64));
    push("exported_symbols", false, &|s| s.0.elf.as_ref().map(|e| e.exported));
    push("imported_symbols", false, &|s| s.0.elf.as_ref().map(|e| e.imported));
    type MachoPick = fn(&MachoFacts) -> u64;
    let macho: [(&str, bool, MachoPick); 6] = [
        ("macho.symbols", false, |m| m.fixups.symbols),
        ("macho.weak_binds", false, |m| m.fixups.weak_binds),
        ("macho.pages_16k", false, |m| m.fixups.pages_16k),
        ("macho.exports", false, |m| m.exports.value().map_or(0, |e| e.symbols)),
        ("macho.export_trie_bytes", true, |m| m.exports.value().map_or(0, |e| e.trie_bytes)),
        ("macho.signature_page_hashes", false, |m| m.signature.value().map_or(0, |s| s.page_hashes)),
    ];
    for (field, is_bytes, pick) in macho {
        push(field, is_bytes, &|s| s.0.macho.as_deref().map(pick));
    }
    type Pick = fn(&crate::loader::Totals) -> Option<u64>;
    let totals: [(&str, bool, Pick); 9] = [
        ("closure.objects", false, |t| Some(t.objects)),
        ("closure.relative", false, |t| Some(t.relative)),
        ("closure.relr", false, |t| Some(t.relr)),
        ("closure.lookups", false, |t| t.lookups),
        ("closure.lookups_cached", false, |t| t.lookups_cached),
        ("closure.probes", false, |t| t.probes),
        ("closure.failed_opens", false, |t| Some(t.failed_opens)),
        ("closure.pages_written", false, |t| Some(t.pages_written)),
        ("closure.relro_bytes", true, |t| Some(t.relro_bytes)),
    ];
    for (field, is_bytes, pick) in totals {
        push(field, is_bytes, &|s| s.1.and_then(|c| pick(&c.totals)));
    }
    all
}

/// Words that differ: kind, RELRO, binding, hash styles.
pub fn word_changes(old: &LinkFacts, new: &LinkFacts) -> Vec<WordChange> {
    let words = |f: &LinkFacts| {
        [
            ("arch", f.arch.clone()),
            ("kind", f.kind.name().to_string()),
            ("relro.kind", f.relro.kind.name().to_string()),
            ("bind_now", f.bind_now.to_string()),
            ("textrel", f.textrel.to_string()),
            ("hash", f.hash.join(", ")),
            ("libc", f.libc.clone().unwrap_or_default()),
            ("macho.fixups", f.macho.as_ref().map(|m| m.fixups.format.to_string()).unwrap_or_default()),
        ]
    };
    let pairs = words(old).into_iter().zip(words(new));
    pairs
        .filter(|((_, old), (_, new))| old != new)
        .map(|((field, old), (_, new))| WordChange { field, old, new })
        .collect()
}

/// The differences as JSON, those that are none left out.
pub fn json(figures: &[Difference], words: &[WordChange]) -> Json {
    let words = words.iter().map(|w| {
        Json::object([("field", Json::from(w.field)), ("old", w.old.as_str().into()), ("new", w.new.as_str().into())])
    });
    let figures = figures.iter().filter(|d| d.old != d.new).map(|d| {
        Json::object([
            ("field", Json::from(d.field.as_str())),
            ("old", d.old.into()),
            ("new", d.new.into()),
            ("difference", d.change().map_or(Json::Null, Json::Int)),
        ])
    });
    Json::Array(words.chain(figures).collect())
}

/// The differences as a table.
pub fn text(figures: &[Difference], words: &[WordChange], style: Style) -> String {
    let mut table = Table::new(["", ">old", ">new", ">difference"]);
    for w in words {
        table.row([Cell::from(&w.field), Cell::from(&w.old), Cell::from(&w.new), Cell::from("")]);
    }
    for d in figures.iter().filter(|d| d.old != d.new) {
        let show = |n: Option<u64>| n.map_or_else(|| "-".to_string(), |n| figure(n, d.is_bytes));
        let change = d.change().map_or_else(String::new, |n| {
            let size = figure(n.unsigned_abs(), d.is_bytes);
            format!("{}{size}", if n < 0 { '-' } else { '+' })
        });
        let name = d.field.replace('_', " ");
        table.row([Cell::from(name), Cell::from(show(d.old)), Cell::from(show(d.new)), Cell::bold(change)]);
    }
    let rendered = table.render(style);
    if rendered.lines().count() > 1 { indent(&rendered) } else { "  no difference in start-up work\n".to_string() }
}

fn figure(n: u64, is_bytes: bool) -> String {
    if is_bytes { units::bytes(n) } else { units::count(n) }
}
