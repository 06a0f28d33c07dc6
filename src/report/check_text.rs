//! The text of a check: one row a gate, what else changed, what to know before believing it.

use std::fmt::Write;

use crate::output::Style;
use crate::record::bench::BenchRecord;
use crate::record::check::{Checked, Evidence, GateMetric, OldProgram, Outcome, Row, overall};
use crate::record::counts::Range;
use crate::report::bench_text;
use crate::report::table::{Cell, Table};
use crate::report::warnings::warnings;
use crate::report::width::paragraph;
use crate::units;

/// The whole report.
pub fn text(c: &Checked, r: &BenchRecord, style: Style) -> String {
    let mut t = format!("{}\n\n", headline(c));
    let mut table = Table::new(["<command", "<metric", ">baseline", ">now", ">change", ">allowed", "<gate"]);
    for row in c.rows.iter().filter(|r| r.gated) {
        let mut cells: Vec<Cell> = [&row.command, row.metric.name].map(Cell::from).to_vec();
        // The interval is in the sentence below; a narrow table has no room for it.
        let changed =
            if style.width >= 100 { change(row) } else { change(row).split(" [").next().unwrap_or("").to_string() };
        cells.extend([side(row, row.before), side(row, row.now), changed, allowed(row)].map(Cell::from));
        let word = gate_word(row);
        cells.push(match row.outcome {
            Outcome::Regression if row.fails() => Cell::warn(word.to_uppercase()),
            Outcome::Regression => Cell::warn(word),
            _ => Cell::from(word),
        });
        table.row(cells);
    }
    t.push_str(&table.render(style));
    t.push('\n');
    let mut line = |text: &str| t.push_str(&paragraph(text, style.width));
    c.rows.iter().filter(|r| r.gated).for_each(|row| line(&sentence(row)));
    let changed = c.rows.iter().filter(|r| !r.gated).map(|r| format!("{} {} {}", r.command, r.metric.name, change(r)));
    let changed: Vec<String> = changed.collect();
    if !changed.is_empty() {
        line(&format!("also changed, not gated (--metric): {}", changed.join("; ")));
    }
    line(&bench_text::measured_line(r));
    line(&rule(c, r));
    let all: Vec<String> = c.warnings.iter().chain(&r.warnings).cloned().collect();
    t.push_str(&warnings(&all, style));
    t
}

/// By what rule a time fails, and what the control showed of itself.
fn rule(c: &Checked, r: &BenchRecord) -> String {
    let control = r.noise.same_vs_same.as_ref().and_then(|c| c.ratio_ci95);
    let control =
        control.map_or(String::new(), |[a, b]| format!("; the control against itself {a:.3} to {b:.3} (95 %)"));
    let confidence = format!("{:.4}", c.confidence * 100.0);
    let confidence = confidence.trim_end_matches('0').trim_end_matches('.');
    format!(
        "rule: a time fails where its {confidence} % interval excludes no change and the median is past what is allowed{control}\n"
    )
}

/// What all gates say, in a line.
pub fn headline(c: &Checked) -> String {
    let mut gates = [0u64; 4];
    for row in c.rows.iter().filter(|r| r.gated) {
        let slot = match row.outcome {
            Outcome::Passed => 0,
            Outcome::Regression if row.fails() => 1,
            Outcome::Regression => 2,
            Outcome::NotDecided => 3,
        };
        gates[slot] += 1;
    }
    let said = match overall(&c.rows) {
        Outcome::Regression => "a regression is shown",
        Outcome::NotDecided if gates[2] > 0 => "no regression is shown; stored samples alone suggest one",
        Outcome::NotDecided => "no regression is shown, not everything is decided",
        Outcome::Passed => "no regression",
    };
    let words = ["passed", "regressed", "suspected", "not decided"];
    let counts = gates.iter().zip(words).filter(|(n, word)| **n > 0 || *word != "suspected");
    let counts: Vec<String> = counts.map(|(n, word)| format!("{n} {word}")).collect();
    format!("check of {}: {said} ({})", c.file.display(), counts.join(", "))
}

fn gate_word(row: &Row) -> String {
    match (&row.evidence, row.outcome) {
        (Evidence::Stored(_), Outcome::Regression) => "suspected (weak)".to_string(),
        (Evidence::Stored(_), o) => format!("{} (weak)", o.word()),
        (_, o) => o.word().to_string(),
    }
}

/// A value with its unit.
pub fn value(metric: GateMetric, range: Range) -> String {
    match metric.field {
        Some(_) => units::time(range.min as f64),
        None => range.to_string(),
    }
}

fn side(row: &Row, range: Option<Range>) -> String {
    range.map_or("-".to_string(), |r| value(row.metric, r))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn allowed(row: &Row) -> String {
    if row.limit > 0.0 { format!("+{}", percent(row.limit)) } else { "+0".to_string() }
}

/// How much a figure changed: with its interval for times.
pub fn change(row: &Row) -> String {
    let interval = |ci: Option<[f64; 2]>| ci.map_or(String::new(), |[a, b]| format!(" [{a:.3}, {b:.3}]"));
    match &row.evidence {
        Evidence::Paired(v, _) => format!("{:.3} times{}", v.comparison.ratio, interval(v.comparison.ratio_ci95)),
        Evidence::Stored(n) => format!("{:.3} times{}", n.ratio, interval(n.ci95)),
        Evidence::Counted(a, b) if a == b => "same".to_string(),
        Evidence::Counted(a, b) => format!("{a} → {b}"),
        Evidence::Missing(_) => "-".to_string(),
    }
}

/// One gate in a sentence, with all that it rests on.
pub fn sentence(row: &Row) -> String {
    let name = format!("{}, {}", row.command, row.metric.name);
    match &row.evidence {
        Evidence::Paired(v, _) => {
            let more = v.rounds_needed.filter(|_| row.outcome == Outcome::NotDecided);
            let more = more.map_or(String::new(), |n| format!("; about {} rounds would decide", units::count(n)));
            let p = if v.p_adjusted < 0.001 { "p < 0.001".to_string() } else { format!("p = {:.3}", v.p_adjusted) };
            format!(
                "{name}: {}: {}, {} a start, {p}, {} pairs{more}",
                row.outcome.word(),
                change(row),
                units::time_difference(v.difference_ns as f64),
                v.comparison.pairs
            )
        }
        Evidence::Stored(n) => format!(
            "{name}: {} by stored samples alone: {} once the control's own movement ({:.3} times) is taken out",
            row.outcome.word(),
            change(row),
            n.control_ratio
        ),
        Evidence::Counted(..) => format!("{name}: {}: {}", row.outcome.word(), change(row)),
        Evidence::Missing(why) => format!("{name}: {}: {why}", row.outcome.word()),
    }
}

/// A table for a page: what a CI job appends to its summary.
pub fn markdown(c: &Checked, r: &BenchRecord) -> String {
    let mut t = format!("**{}**\n\n", headline(c));
    t.push_str(
        "| command | metric | baseline | now | change | allowed | gate |\n|:---|:---|---:|---:|---:|---:|:---|\n",
    );
    for row in &c.rows {
        let gate = if row.gated { gate_word(row) } else { "not gated".to_string() };
        let gate = if row.gated && row.outcome == Outcome::Regression { format!("**{gate}**") } else { gate };
        let _ = writeln!(
            t,
            "| `{}` | {} | {} | {} | {} | {} | {gate} |",
            row.command.replace('|', "\\|"),
            row.metric.name,
            side(row, row.before),
            side(row, row.now),
            change(row),
            allowed(row)
        );
    }
    let _ = writeln!(t, "\n{}", (bench_text::measured_line(r) + &rule(c, r)).trim_end().replace('\n', "<br>\n"));
    for (c, old) in c.baseline.commands.iter().zip(&c.old) {
        if let OldProgram::Gone(why) = old {
            let _ = writeln!(t, "\n{}: {why}", c.name);
        }
    }
    t
}
