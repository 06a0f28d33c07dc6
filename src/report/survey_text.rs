//! The ranking of a survey for people.

use crate::output::Style;
use crate::report::survey_json::{KEYS, Key, Row};
use crate::report::table::{Cell, Table};
use crate::units::{bytes, count, counted, time};

/// How many files were met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// All files.
    pub files: u64,
    /// Those that pass the filters.
    pub shown: u64,
    /// Those that cannot be read.
    pub bad: u64,
}

/// The table, and a line about the rest.
pub fn text(rows: &[Row], key: Key, outcome: &Outcome, style: Style) -> String {
    let name = KEYS.iter().find(|(_, k)| *k == key).map_or("", |(name, _)| name);
    let headers =
        ["program", "kind", ">objects", ">relocations", ">look-ups", ">pages\nwritten", ">size", ">predicted", "from"];
    let mut table = Table::new(headers);
    for row in rows {
        let [pages, relocations, lookups, objects, size, predicted] = row.figures;
        let show = |n: Option<u64>| Cell::from(n.map_or_else(|| "-".to_string(), count));
        let kind = if row.missing > 0 { format!("{}, {} missing", row.kind, row.missing) } else { row.kind.clone() };
        table.row([
            Cell::from(&row.path),
            Cell::from(kind),
            show(objects),
            show(relocations),
            show(lookups),
            show(pages),
            // One of the two: both would not fit 80 columns.
            Cell::from(size.filter(|_| predicted.is_none()).map_or_else(String::new, bytes)),
            Cell::from(predicted.map_or_else(String::new, |ns| time(ns as f64))),
            Cell::dim(row.source.as_deref().unwrap_or_default()),
        ]);
    }
    let mut text = if rows.is_empty() { String::new() } else { table.without_empty_columns().render(style) };
    let shown = rows.len() as u64;
    let of = if shown < outcome.shown { format!("the first {} of ", count(shown)) } else { String::new() };
    let unreadable = match outcome.bad {
        0 => String::new(),
        n => format!(", {} unreadable", count(n)),
    };
    let programs = counted(outcome.shown, "program");
    let files = counted(outcome.files, "file");
    text.push_str(&style.dim(&format!("{of}{programs} in {files}{unreadable}, by {name}")));
    text.push('\n');
    if key == Key::Predicted {
        text.push_str(&style.dim("predicted: from execve to the entry point on this host; 'premain predict PROGRAM' gives interval and terms"));
        text.push('\n');
    }
    text
}
