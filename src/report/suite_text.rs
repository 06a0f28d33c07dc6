//! The table of a suite: a row for each case and binary.

use std::fmt::Write;

use crate::output::Style;
use crate::record::bench::{CommandRecord, MAIN_METRIC};
use crate::record::counts::Range;
use crate::record::suite::{Arm, OutputMark, SuiteRecord};
use crate::report::bench_text;
use crate::report::table::{Cell, Table};
use crate::report::warnings::warnings;
use crate::report::width::paragraph;
use crate::stat::quantile::Summary;
use crate::units;

/// A column: header, the least width of a terminal that shows it, cell.
struct Column {
    header: &'static str,
    from_width: usize,
    cell: fn(&CommandRecord) -> String,
}

const COLUMNS: &[Column] = &[
    Column { header: ">first byte\np50", from_width: 0, cell: |c| time(c, "spawn_to_byte_ns", |s| s.p50 as f64) },
    Column { header: ">\np95", from_width: 100, cell: |c| time(c, "spawn_to_byte_ns", |s| s.p95 as f64) },
    Column { header: ">\nmean", from_width: 130, cell: |c| time(c, "spawn_to_byte_ns", |s| s.mean) },
    Column { header: ">exit\np50", from_width: 0, cell: |c| time(c, MAIN_METRIC, |s| s.p50 as f64) },
    Column { header: ">\np95", from_width: 100, cell: |c| time(c, MAIN_METRIC, |s| s.p95 as f64) },
    Column { header: ">cpu\np50", from_width: 0, cell: |c| time(c, "cpu_ns", |s| s.p50 as f64) },
    Column { header: ">max\nthr", from_width: 0, cell: threads },
    Column {
        header: ">min\nflt",
        from_width: 0,
        cell: |c| c.metric("minflt").map_or("-".to_string(), |s| units::count(s.p50)),
    },
    Column { header: ">sys\ncalls", from_width: 0, cell: syscalls },
];

fn time(c: &CommandRecord, metric: &str, get: fn(&Summary) -> f64) -> String {
    c.metric(metric).map_or("-".to_string(), |s| units::time(get(s)))
}

fn threads(c: &CommandRecord) -> String {
    let Some(p) = c.probes.as_ref() else { return "-".to_string() };
    if p.threads_exact { p.max_threads.to_string() } else { format!("≥ {}", p.max_threads) }
}

/// The range over the probe starts: `541–550`.
fn syscalls(c: &CommandRecord) -> String {
    let range = c.probes.as_ref().and_then(|p| p.syscalls.as_ref());
    range.map_or("-".to_string(), |s| Range { min: s.total_min, max: s.total_max }.to_string().replace(" to ", "–"))
}

/// The whole report.
pub fn text(s: &SuiteRecord, style: Style) -> String {
    let mut t = format!("{}\n\n", style.bold(&s.name));
    t.push_str(&table(s, style));
    t.push('\n');
    let span = "spawn to exit";
    for (_, c) in s.rows() {
        let Some(v) = &c.vs_reference else { continue };
        let reference = s.bench.reference_of(c).map_or("", |r| r.name.as_str());
        t.push_str(&paragraph(&bench_text::compared(&c.name, reference, v, s.bench.delta, span), style.width));
    }
    let marks: Vec<OutputMark> = s.rows().filter_map(|(_, c)| s.output_mark(c)).collect();
    let compared = marks.contains(&OutputMark::Same);
    if compared && !marks.iter().any(|m| matches!(m, OutputMark::Differs | OutputMark::Varies)) {
        t.push_str("standard output: the same in each case, whatever the binary\n");
    }
    for line in outputs(s) {
        let _ = writeln!(t, "{} {line}", style.warn("output differs:"));
    }
    if let Some(reason) = s.bench.commands.iter().find_map(|c| c.probes.as_ref()?.reason.as_ref()) {
        let _ = writeln!(t, "threads and system calls: {reason}");
    }
    t.push_str(&paragraph(&bench_text::method_lines(&s.bench), style.width));
    t.push_str(&warnings(&s.bench.warnings, style));
    t
}

fn table(s: &SuiteRecord, style: Style) -> String {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|c| style.width >= c.from_width).collect();
    let headers = ["<case", "<bin"].into_iter().chain(columns.iter().map(|c| c.header)).chain(["<output"]);
    let mut table = Table::new(headers);
    for (arm, c) in s.rows() {
        let mut cells = vec![Cell::from(&arm.case), Cell::from(&arm.binary)];
        cells.extend(columns.iter().map(|column| Cell::from((column.cell)(c))));
        cells.push(match s.output_mark(c) {
            Some(mark @ OutputMark::Differs) => Cell::warn(mark.word()),
            Some(mark @ OutputMark::Varies) => Cell::from(mark.word()),
            Some(OutputMark::Reference | OutputMark::Same) | None => Cell::from(""),
        });
        table.row(cells);
    }
    let mut floor = vec![Cell::dim("floor"), Cell::dim("control")];
    floor.extend(columns.iter().map(|column| Cell::dim((column.cell)(&s.bench.control))));
    table.row(floor);
    table.without_empty_columns().render(style)
}

/// What of the outputs is not the same, in words.
fn outputs(s: &SuiteRecord) -> Vec<String> {
    let of = |(arm, c): (&Arm, &CommandRecord)| {
        let (own, theirs) = (c.output?, s.bench.reference_of(c)?.output?);
        let reference = s.rows().find(|(_, r)| s.bench.reference_of(c).is_some_and(|x| std::ptr::eq(x, *r)))?.0;
        (s.output_mark(c)? == OutputMark::Differs).then(|| {
            let sizes = (units::counted(own.bytes, "byte"), units::counted(theirs.bytes, "byte"));
            let content = if own.bytes == theirs.bytes { ", not the same ones" } else { "" };
            format!("{}: {} writes {}, {} {}{content}", arm.case, arm.binary, sizes.0, reference.binary, sizes.1)
        })
    };
    s.rows().filter_map(of).collect()
}

/// A Markdown table with all columns, for a page.
pub fn markdown(s: &SuiteRecord) -> String {
    let mut t = format!("**{}**\n\n| case | bin |", s.name);
    let mut group = String::new();
    for c in COLUMNS {
        // A header of two lines names a group over its columns; in one line each column carries both.
        let (over, under) = c.header.trim_start_matches('>').split_once('\n').unwrap_or(("", c.header));
        if !over.is_empty() {
            group = over.to_string();
        }
        let _ = write!(t, " {group} {under} |");
    }
    t.push_str(" against reference | output |\n|:---|:---|");
    t.extend(std::iter::repeat_n("---:|", COLUMNS.len()));
    t.push_str("---:|:---|\n");
    let escape = |text: &str| text.replace('|', "\\|");
    for (arm, c) in s.rows() {
        let _ = write!(t, "| {} | {} |", escape(&arm.case), escape(&arm.binary));
        COLUMNS.iter().for_each(|column| {
            let _ = write!(t, " {} |", (column.cell)(c));
        });
        let versus = c.vs_reference.as_ref().map_or("reference".to_string(), |v| {
            let ci = v.comparison.ratio_ci95.map_or(String::new(), |[a, b]| format!(" [{a:.3}, {b:.3}]"));
            format!("{:.3}{ci} {}", v.comparison.ratio, v.verdict.word())
        });
        let output = s.output_mark(c).map_or("-", OutputMark::word);
        let _ = writeln!(t, " {versus} | {output} |");
    }
    let _ = write!(t, "| floor | control |");
    COLUMNS.iter().for_each(|column| {
        let _ = write!(t, " {} |", (column.cell)(&s.bench.control));
    });
    t.push_str(" - | - |\n\n");
    t.push_str(bench_text::method_lines(&s.bench).trim_end());
    t.push('\n');
    t
}
