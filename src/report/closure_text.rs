//! A closure for people: the objects with their share of the work, what is missing and where it was looked for, a tree.

use std::fmt::Write;

use crate::loader::{Closure, Missing};
use crate::output::Style;
use crate::report::facts_text::indent;
use crate::report::table::{Cell, Table};
use crate::report::width::printable;
use crate::units::{bytes, count, counted};

/// A count that may not be known.
fn figure(n: Option<u64>) -> String {
    n.map_or_else(|| "-".to_string(), count)
}

/// Objects, sums, missing libraries, warnings.
pub fn closure(c: &Closure, style: Style) -> String {
    let mut t = heading(c, style);
    t.push_str(&indent(&objects(c, style)));
    sums(c, &mut t);
    for missing in &c.missing {
        t.push_str(&absent(missing, style));
    }
    if let Some(why) = &c.fatal {
        let _ = writeln!(t, "  {} {}", style.warn("the start fails:"), printable(why));
    }
    for e in &c.version_errors {
        let by = c.objects.get(e.object).map(|o| o.path.to_string_lossy().into_owned()).unwrap_or_default();
        let file = String::from_utf8_lossy(&e.file);
        let why = printable(&format!("{file}: {} (required by {by})", e.why));
        let _ = writeln!(t, "  {} {why}", style.warn("the start fails:"));
    }
    unresolved(c, style, &mut t);
    for warning in &c.warnings {
        let _ = writeln!(t, "  {} {}", style.warn("warning:"), printable(warning));
    }
    t
}

fn heading(c: &Closure, style: Style) -> String {
    let by = c.loader.as_ref().map_or_else(String::new, |l| {
        let version = l.version.map_or_else(String::new, |(major, minor)| format!(" {major}.{minor}"));
        format!(", loaded by {}{version}", l.flavour.name())
    });
    let title = format!("closure: {}{by}", counted(c.totals.objects, "object"));
    format!("{}\n", style.bold(&title))
}

fn objects(c: &Closure, style: Style) -> String {
    let headers = ["object", "found by", ">relative", ">look-ups", ">cached", ">probes", ">pages\nwritten"];
    let mut table = Table::new(headers);
    for o in &c.objects {
        let r = o.relocations;
        table.row([
            o.path.to_string_lossy().into_owned(),
            o.found_by.name().replace('_', " "),
            count(r.relative.saturating_add(r.relr)),
            figure(o.lookups),
            figure(o.lookups_cached),
            figure(o.probes),
            count(o.pages_written),
        ]);
    }
    let own =
        c.own_lookups.iter().fold((0u64, 0u64), |(l, p), t| (l.saturating_add(t.lookups), p.saturating_add(t.probes)));
    if own.0 > 0 {
        table.row(["(the loader's own)", "", "", count(own.0).as_str(), "", count(own.1).as_str(), ""]);
    }
    let t = &c.totals;
    table.row([
        Cell::bold("together"),
        Cell::from(""),
        Cell::bold(count(t.relative.saturating_add(t.relr))),
        Cell::bold(figure(t.lookups)),
        Cell::bold(figure(t.lookups_cached)),
        Cell::bold(figure(t.probes)),
        Cell::bold(count(t.pages_written)),
    ]);
    table.render(style)
}

fn sums(c: &Closure, t: &mut String) {
    let totals = &c.totals;
    let mut parts = vec![
        counted(totals.failed_opens, "failed open"),
        format!("{} made read-only", bytes(totals.relro_bytes)),
        counted(totals.init_functions, "function") + " before main",
    ];
    if let Some(lazy) = totals.lazy_slots.filter(|n| *n > 0) {
        parts.push(format!("{} left for the first call", counted(lazy, "function slot")));
    }
    let _ = writeln!(t, "  {}", parts.join(", "));
}

fn absent(m: &Missing, style: Style) -> String {
    let name = printable(&String::from_utf8_lossy(&m.name));
    let needed = printable(&m.needed_by.to_string_lossy());
    let outcome = if m.ignored { " (the loader goes on without it)" } else { "" };
    let mut t = format!("  {} {name}, needed by {needed}{outcome}\n", style.warn("not found:"));
    for tried in &m.tried {
        let path = printable(&tried.path.to_string_lossy());
        let _ = writeln!(t, "    {} ({}): {}", path, tried.by.name().replace('_', " "), printable(&tried.why));
    }
    t
}

/// Unresolved symbols that are listed; the rest is a number.
const MOST_UNRESOLVED: usize = 20;

fn unresolved(c: &Closure, style: Style, t: &mut String) {
    for u in c.unresolved.iter().take(MOST_UNRESOLVED) {
        let by = c.objects.get(u.object).map(|o| o.path.to_string_lossy().into_owned()).unwrap_or_default();
        let symbol = symbol(&u.symbol, u.version.as_deref());
        let _ = writeln!(t, "  {} {symbol}, referred to by {}", style.warn("unresolved:"), printable(&by));
    }
    if let Some(more) = c.unresolved.len().checked_sub(MOST_UNRESOLVED).filter(|n| *n > 0) {
        let _ = writeln!(t, "  and {} more", count(more as u64));
    }
}

/// A symbol with its version.
pub fn symbol(name: &[u8], version: Option<&[u8]>) -> String {
    let name = String::from_utf8_lossy(name);
    let version = version.map(|v| format!("@{}", String::from_utf8_lossy(v))).unwrap_or_default();
    printable(&format!("{name}{version}"))
}

/// The look-ups that cost most.
pub fn costly(c: &Closure, style: Style) -> String {
    let headers = ["symbol", "referred to by", "defined by", ">objects\nasked", ">false\nhits", ">chain\nsteps"];
    let mut table = Table::new(headers);
    let name = |index: Option<usize>| {
        let object = index.and_then(|i| c.objects.get(i));
        object.and_then(|o| o.path.file_name()).map_or_else(|| "-".to_string(), |n| n.to_string_lossy().into_owned())
    };
    for l in &c.costly {
        table.row([
            symbol(&l.symbol, l.version.as_deref()),
            name(Some(l.object)),
            name(l.bound_to),
            count(l.probes),
            count(l.false_hits),
            count(l.chain),
        ]);
    }
    format!("{}\n{}", style.bold("dearest look-ups"), indent(&table.render(style)))
}

/// Who needs whom; an object stands in full where it is first met.
pub fn tree(c: &Closure, style: Style) -> String {
    let mut t = String::new();
    let mut shown = vec![false; c.objects.len()];
    // A stack instead of recursion: closures may be deep, and cyclic.
    let mut stack = vec![(0usize, 0usize)];
    while let Some((index, depth)) = stack.pop() {
        let Some(object) = c.objects.get(index) else { continue };
        let seen = std::mem::replace(&mut shown[index], true);
        let path = printable(&object.path.to_string_lossy());
        let by = if depth == 0 { String::new() } else { format!(" ({})", object.found_by.name().replace('_', " ")) };
        let line = format!("{}{path}{by}", "  ".repeat(depth + 1));
        let _ = writeln!(t, "{}", if seen { style.dim(&line) } else { line });
        if !seen {
            stack.extend(object.needs.iter().rev().map(|n| (*n, depth + 1)));
        }
    }
    for (object, _) in c.objects.iter().zip(&shown).filter(|(_, shown)| !**shown) {
        let by = object.found_by.name().replace('_', " ");
        let _ = writeln!(t, "  {} ({by})", printable(&object.path.to_string_lossy()));
    }
    t
}
