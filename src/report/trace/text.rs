//! The page of `trace`: a timeline, phases, the longest stretches, objects, system calls. Fits 80 columns.

use std::fmt::Write;

use super::{TraceReport, TracedCommand, cause_text, short};
use crate::order;
use crate::output::Style;
use crate::report::table::Table;
use crate::report::width::{columns, cut, printable, wrap};
use crate::trace::analysis::{ListedCall, Syscalls};
use crate::trace::phases::Timeline;
use crate::trace::summary::{Means, PhaseDifference};
use crate::units::{bytes, count, counted, time, time_difference};

/// Which parts are printed in full.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// Every object, and every name in the table of system calls.
    pub all: bool,
    /// The list of system calls.
    pub list: bool,
}

/// Rows of objects and of system calls unless all are asked for.
const ROWS: usize = 10;
/// Columns of the bar that shows where a phase lies: as many as the figures beside it leave.
const BARS: [usize; 6] = [40, 32, 24, 16, 12, 6];

/// The whole page.
pub fn text(r: &TraceReport, detail: Detail, style: Style) -> String {
    let mut t = String::new();
    for (i, c) in r.commands.iter().enumerate() {
        if i > 0 {
            t.push('\n');
        }
        t.push_str(&command(c, detail, style));
    }
    if let [a, b] = &r.commands[..] {
        let _ = writeln!(t, "\n{}", style.bold("side by side"));
        t.push_str(&differences(&r.differences, a, b, style));
    }
    t
}

fn command(c: &TracedCommand, detail: Detail, style: Style) -> String {
    let mut t = format!("{}\n", style.bold(&printable(&c.name)));
    t.push_str(&headline(c, style));
    t.push_str(&images(c));
    let _ = writeln!(t, "\n{}", style.bold("phases"));
    t.push_str(&phases(c, style));
    if !c.summary.gaps.is_empty() {
        let _ = writeln!(t, "\n{}", style.bold("longest stretches, in the typical start"));
        t.push_str(&gaps(c, style));
    }
    if c.summary.objects.len() > 1 {
        let _ = writeln!(t, "\n{}", style.bold("objects"));
        t.push_str(&objects(c, detail.all, style));
    }
    if let Some(calls) = c.study.traced.as_ref().and_then(|t| t.syscalls.as_ref()) {
        let _ = writeln!(t, "\n{}", style.bold("system calls, in one fully traced start"));
        t.push_str(&syscalls(calls, detail, style));
    }
    t.push('\n');
    for note in notes(c) {
        for line in wrap(&note, style.width) {
            let _ = writeln!(t, "{}", style.dim(&line));
        }
    }
    t
}

fn headline(c: &TracedCommand, style: Style) -> String {
    let s = &c.summary;
    let starts = c.study.starts.len() as u64;
    let mut line = format!("{} from fork to reaped", time(s.total_ns as f64));
    if starts > 1 {
        let _ =
            write!(line, " (middle half of {}; median {})", counted(starts, "start"), time(s.total_median_ns as f64));
    }
    if let (Some(untraced), Some(share)) = (s.untraced_median_ns, c.distortion()) {
        let _ =
            write!(line, "; untraced beside them {}: observing costs {:+.1} %", time(untraced as f64), share * 100.0);
    }
    let mut t = String::new();
    for part in wrap(&line, style.width) {
        let _ = writeln!(t, "{part}");
    }
    if !c.study.status.is_success() {
        let _ = writeln!(t, "{} {}", style.warn("ended with"), c.study.status);
    }
    t
}

/// Script hops, and programs that executed another one: each image on its own line.
fn images(c: &TracedCommand) -> String {
    let mut t = String::new();
    if c.study.hops.len() > 1 {
        let hops: Vec<String> = c.study.hops.iter().map(|p| printable(&p.to_string_lossy())).collect();
        let _ = writeln!(t, "script: {}", hops.join(" -> "));
    }
    let Some(timeline) = c.study.typical.as_ref().map(|t| &t.start.timeline) else { return t };
    if timeline.images.len() < 2 {
        return t;
    }
    for (i, image) in timeline.images.iter().enumerate() {
        let spans = || timeline.spans.iter().filter(|s| s.image == i);
        let path = image.path.as_deref().map_or("?".into(), |p| p.to_string_lossy());
        let ns: u64 = spans().map(|s| s.ns()).sum();
        let parts: Vec<String> = spans().map(|s| format!("{} {}", s.name.name(), time(s.ns() as f64))).collect();
        let _ = writeln!(t, "image {}: {}, {}: {}", i + 1, printable(&path), time(ns as f64), parts.join(", "));
    }
    t
}

fn phases(c: &TracedCommand, style: Style) -> String {
    let fits = |t: &String| t.lines().all(|l| columns(l) <= style.width) && !t.contains("\n\n");
    let mut tables = BARS.iter().map(|bar| phase_table(c, *bar).render(style));
    tables.clone().find(fits).or_else(|| tables.next_back()).unwrap_or_default()
}

/// The table with a bar of so many columns.
fn phase_table(c: &TracedCommand, columns: usize) -> Table {
    let s = &c.summary;
    let unsorted = s.phases.iter().any(|p| p.faults.unsorted > 0);
    let mut table = Table::new([
        "phase",
        "",
        ">time",
        ">share",
        ">page\nfaults",
        ">file\nread",
        ">copy on\nwrite",
        ">zero\nfill",
        ">calls",
    ]);
    let mut begun = 0u64;
    for p in &s.phases {
        let kind = |n: u64| if unsorted || n == 0 { String::new() } else { count(n) };
        table.row([
            p.name.name().to_string(),
            bar(begun, p.ns, s.total_ns, columns),
            time(p.ns as f64),
            format!("{:.1} %", p.ns as f64 * 100.0 / s.total_ns.max(1) as f64),
            count(p.faults.total()),
            kind(p.faults.read),
            kind(p.faults.cow),
            kind(p.faults.zero),
            p.syscalls.map(count).unwrap_or_default(),
        ]);
        begun = begun.saturating_add(p.ns);
    }
    let sum = |pick: fn(&crate::trace::analysis::Faults) -> u64| s.phases.iter().map(|p| pick(&p.faults)).sum::<u64>();
    let kind = |n: u64| if unsorted { String::new() } else { count(n) };
    table.row([
        "all".to_string(),
        String::new(),
        time(s.total_ns as f64),
        String::new(),
        count(sum(|f| f.total())),
        kind(sum(|f| f.read)),
        kind(sum(|f| f.cow)),
        kind(sum(|f| f.zero)),
        c.study
            .traced
            .as_ref()
            .and_then(|t| t.syscalls.as_ref())
            .map(|x| count(x.by_phase.values().sum()))
            .unwrap_or_default(),
    ]);
    table.without_empty_columns()
}

/// Where a span lies within the whole: at least one mark wide.
fn bar(from: u64, ns: u64, total: u64, columns: usize) -> String {
    let scale = |at: u64| (at as f64 / total.max(1) as f64 * columns as f64).round() as usize;
    let start = scale(from).min(columns - 1);
    let len = scale(from.saturating_add(ns)).saturating_sub(start).clamp(1, columns - start);
    // A table drops blanks at the end of a cell, so only the ones in front are written.
    format!("{}{}", " ".repeat(start), "#".repeat(len))
}

fn gaps(c: &TracedCommand, style: Style) -> String {
    let mut t = String::new();
    for gap in c.summary.gaps.iter().take(ROWS) {
        let head = format!("{:>8}  {:<12}  ", time(gap.ns as f64), gap.phase.name());
        let lines = wrap(&printable(&cause_text(c, gap)), style.width.saturating_sub(24).max(20));
        for (i, line) in lines.iter().enumerate() {
            let front = if i == 0 { head.clone() } else { " ".repeat(24) };
            let _ = writeln!(t, "{front}{line}");
        }
    }
    t
}

fn objects(c: &TracedCommand, all: bool, style: Style) -> String {
    let rows = &c.summary.objects;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let weight = |i: &usize| {
        let o = &rows[*i].object;
        std::cmp::Reverse(o.mapping_ns + o.relocating_ns + o.constructing_ns)
    };
    if !all {
        order::by_key(&mut order, weight);
        order.truncate(ROWS);
    }
    let mut table =
        Table::new(["object", ">mapped\nat", ">map", ">relocate", ">construct", ">pages\nwritten", ">pre-\ndicted"]);
    for i in order {
        let o = &rows[i].object;
        let span = |ns: u64| if ns == 0 { String::new() } else { time(ns as f64) };
        table.row([
            cut(&printable(&short(&o.path)), 26),
            time(o.mapped_at as f64),
            span(o.mapping_ns),
            span(o.relocating_ns),
            span(o.constructing_ns),
            count(o.pages_written),
            c.predicted(&o.path).map(|p| count(p.pages_written)).unwrap_or_default(),
        ]);
    }
    let mut t = table.without_empty_columns().render(style);
    let hidden = rows.len().saturating_sub(ROWS);
    if !all && hidden > 0 {
        let _ = writeln!(
            t,
            "{}",
            style.dim(&format!("the dearest {ROWS} of {}; --all shows all in the order of mapping", rows.len()))
        );
    }
    t
}

fn syscalls(s: &Syscalls, detail: Detail, style: Style) -> String {
    let mut rows: Vec<_> = s.by_name.iter().collect();
    order::by_key(&mut rows, |(_, r)| std::cmp::Reverse((r.calls, r.ns)));
    let shown = if detail.all { rows.len() } else { ROWS };
    let mut table = Table::new(["call", ">calls", ">errors", ">time", ">by children"]);
    let some = |n: u64| if n == 0 { String::new() } else { count(n) };
    for (name, r) in rows.iter().take(shown) {
        table.row([name.to_string(), count(r.calls), some(r.errors), time(r.ns as f64), some(r.by_children)]);
    }
    let sum = |pick: fn(&crate::trace::analysis::CallRow) -> u64| s.by_name.values().map(pick).sum::<u64>();
    let name = if rows.len() > shown { format!("all ({} names)", rows.len()) } else { "all".to_string() };
    table.row([
        name,
        count(s.total()),
        some(sum(|r| r.errors)),
        time(sum(|r| r.ns) as f64),
        some(sum(|r| r.by_children)),
    ]);
    let mut t = table.without_empty_columns().render(style);
    let mut failed: Vec<_> = s.failed_by_directory.iter().collect();
    order::by_key(&mut failed, |(dir, n)| (std::cmp::Reverse(**n), *dir));
    let total: u64 = failed.iter().map(|(_, n)| **n).sum();
    if total > 0 {
        let dirs: Vec<String> =
            failed.iter().take(4).map(|(d, n)| format!("{} {}", count(**n), printable(&d.to_string_lossy()))).collect();
        let more = if failed.len() > 4 { format!(", {} more directories", failed.len() - 4) } else { String::new() };
        let line = format!("{} before the entry point: {}{more}", counted(total, "failed look-up"), dirs.join(", "));
        for part in wrap(&line, style.width) {
            let _ = writeln!(t, "{part}");
        }
    }
    if detail.list {
        t.push('\n');
        t.push_str(&list(s, style));
    }
    t
}

/// Every call with the time since the one before it, as strace -r.
fn list(s: &Syscalls, style: Style) -> String {
    let mut t = String::new();
    let mut calls: Vec<&ListedCall> = s.list.iter().collect();
    order::by_key(&mut calls, |c| c.at);
    let mut before = calls.first().map_or(0, |c| c.at);
    let first = calls.first().map_or(0, |c| c.task.1);
    for call in calls {
        let since = call.at.saturating_sub(before);
        before = call.at;
        let result = call.result.map_or("?".to_string(), |r| match r {
            -4095..0 => format!("error {}", -r),
            r if r.unsigned_abs() > 0xff_ffff => format!("{r:#x}"),
            r => r.to_string(),
        });
        let path = call.path.as_deref().map_or(String::new(), |p| format!(" {}", printable(&p.to_string_lossy())));
        let task = if call.task.1 == first { String::new() } else { format!("[{}] ", call.task.1) };
        let line = format!(
            "{:>9}  {:<12}  {task}{}{path} = {result} <{}>",
            time(since as f64),
            call.phase.map_or("child", |p| p.name()),
            call.name,
            time(call.ns as f64)
        );
        let _ = writeln!(t, "{}", cut(&line, style.width.max(40)));
    }
    t
}

fn notes(c: &TracedCommand) -> Vec<String> {
    let study = &c.study;
    let how = match study.means {
        Means::PerfUprobes => "perf events and uprobes: the program is never stopped",
        Means::PerfBreakpoints => "perf events, and a few ptrace breakpoints whose time is cut out",
        Means::Perf => "perf events alone: entry point and relocation are read off page faults",
        Means::Ptrace => "ptrace: breakpoints and the loader's system calls, with the time of each stop cut out",
    };
    let mut notes = vec![format!("observed by {how}")];
    if let Some(ns) = study.detailed_median_ns() {
        notes.push(format!(
            "page faults, stretches and objects are those of {} more, with a record of each page fault: {} each",
            counted(study.detailed.len() as u64, "start"),
            time(ns as f64)
        ));
    }
    notes.extend(study.reasons.iter().cloned());
    if let Some(t) = &study.traced {
        let mut line = format!(
            "{} at most, {}",
            counted(t.threads_max, "thread"),
            if t.children == 0 {
                "no child process".to_string()
            } else {
                counted(t.children, "child process").replace("processs", "processes")
            }
        );
        if let Some(rss) = t.peak_rss_bytes {
            let _ = write!(line, ", peak memory {}", bytes(rss));
        }
        let _ = write!(line, "; that start took {} with all its stops", time(t.elapsed_ns as f64));
        notes.push(line);
    }
    match c.summary.first_byte_ns {
        Some(ns) => notes.push(format!("first byte of output after {}", time(ns as f64))),
        None => notes.push("no output".to_string()),
    }
    if c.summary.child_faults > 0 {
        notes.push(format!("{} in child processes, not in the table", counted(c.summary.child_faults, "page fault")));
    }
    if study.lost > 0 {
        notes.push("the memory for records was too small in some starts: page faults are lower bounds".to_string());
    }
    notes
}

fn differences(rows: &[PhaseDifference], a: &TracedCommand, b: &TracedCommand, style: Style) -> String {
    let mut table = Table::new([
        "phase".to_string(),
        format!(">{}", cut(&printable(&a.name), 16)),
        format!(">{}", cut(&printable(&b.name), 16)),
        ">difference".to_string(),
        ">95 % interval".to_string(),
    ]);
    for d in rows {
        let [mine, theirs] = d.medians_ns.map(|ns| if ns == 0 { "-".to_string() } else { time(ns as f64) });
        let interval = d.ci95.map_or(String::new(), |ends| {
            let [low, high] = ends.map(|e| time_difference(e as f64));
            format!("{low} … {high}")
        });
        table.row([
            d.name.map_or("all", |n| n.name()).to_string(),
            mine,
            theirs,
            time_difference(d.difference_ns as f64),
            interval,
        ]);
    }
    let mut t = table.render(style);
    let _ = writeln!(t, "{}", style.dim("medians; differences are those within rounds, second minus first"));
    t
}

/// The phases of one start as one line each, for recorded streams.
pub fn timeline_lines(t: &Timeline) -> String {
    t.spans.iter().map(|s| format!("{:<12}  {:>10}  {}\n", s.name.name(), s.from, s.ns())).collect()
}
