//! The text of a storm: a row a concurrency, where it stops scaling, and why as far as counters tell.

use std::fmt::Write;

use crate::output::Style;
use crate::record::storm::{Level, Side, StormRecord, knee};
use crate::report::table::Table;
use crate::report::warnings::warnings;
use crate::report::width::paragraph;
use crate::stat::quantile::Summary;
use crate::units;

/// The whole report.
pub fn text(s: &StormRecord, style: Style) -> String {
    let mut t = format!("{}: so many at once\n\n", style.bold(&s.command));
    t.push_str(&table(s).render(style));
    t.push('\n');
    for line in sentences(s) {
        t.push_str(&paragraph(&line, style.width));
    }
    t.push_str(&paragraph(&method(s), style.width));
    t.push_str(&warnings(&s.warnings, style));
    t
}

const HEADERS: [&str; 9] = [
    ">at\nonce",
    ">all\nexited",
    ">starts\n/s",
    ">each\np50",
    ">each\np99",
    ">cpu\neach",
    ">busy",
    ">control\nexited",
    ">control\n/s",
];

fn time(s: &Option<Summary>, get: fn(&Summary) -> u64) -> String {
    s.as_ref().map_or("-".to_string(), |s| units::time(get(s) as f64))
}

fn rate(side: &Side, concurrency: u64) -> String {
    side.per_second(concurrency).map_or("-".to_string(), |(r, _)| {
        if r >= 100.0 { units::count(r.round() as u64) } else { units::three_digits(r) }
    })
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn cells(l: &Level) -> [String; 9] {
    let (n, c) = (l.concurrency, &l.command);
    [
        units::count(n),
        time(&c.all_exited_ns, |s| s.p50),
        rate(c, n),
        time(&c.start_ns, |s| s.p50),
        time(&c.start_ns, |s| s.p99),
        time(&c.cpu_ns, |s| s.p50),
        c.busy.map_or("-".to_string(), percent),
        time(&l.control.all_exited_ns, |s| s.p50),
        rate(&l.control, n),
    ]
}

fn table(s: &StormRecord) -> Table {
    let mut table = Table::new(HEADERS);
    for l in &s.levels {
        table.row(cells(l));
    }
    table
}

/// Processors busier than this are what limits.
const BUSY: f64 = 0.85;
/// A start that costs this many times the processor time of one alone has something to contend for.
const DEARER: f64 = 1.25;
/// Blocked for a larger share of its time than this: worth a word.
const BLOCKED: f64 = 0.3;

/// Where it stops scaling, and why.
pub fn sentences(s: &StormRecord) -> Vec<String> {
    let mut out = Vec::new();
    let (Some(first), Some(last)) = (s.levels.first(), s.levels.last()) else { return out };
    match knee(&s.levels).and_then(|i| s.levels.get(i)) {
        Some(l) => out.push(format!(
            "scales up to {} at once ({} starts a second); more at once bring no more",
            l.concurrency,
            rate(&l.command, l.concurrency)
        )),
        None if s.levels.len() > 1 => out.push(format!(
            "more at once brought more to the end: {} starts a second with {}",
            rate(&last.command, last.concurrency),
            last.concurrency
        )),
        None => {}
    }
    if let Some(o) = last.command.observed.filter(|o| o.elapsed_ns > 0) {
        let part = |ns: u64| format!("{} ({})", units::time(ns as f64), percent(ns as f64 / o.elapsed_ns as f64));
        out.push(format!(
            "with {} at once, of the {} of a start it ran {}, waited for a processor {}, was blocked {}; medians",
            last.concurrency,
            units::time(o.elapsed_ns as f64),
            part(o.running_ns),
            part(o.waiting_ns),
            part(o.blocked_ns)
        ));
    }
    out.extend(reasons(s, first, last));
    out
}

/// What limits at the highest level, as far as counters tell.
fn reasons(s: &StormRecord, first: &Level, last: &Level) -> Vec<String> {
    let mut out = Vec::new();
    let cpus = s.processors.map_or("the processors".to_string(), |n| units::counted(n, "processor"));
    let queued = last.command.observed.filter(|o| o.elapsed_ns > 0 && 2 * o.waiting_ns >= o.elapsed_ns).is_some();
    match last.command.busy {
        Some(busy) if busy >= BUSY => {
            out.push(format!("limit: {cpus}, of whose time these starts used {}", percent(busy)));
        }
        Some(busy) if queued => out.push(format!(
            "limit: {cpus}: starts queue for them, and used {} of their time; other programs had the rest",
            percent(busy)
        )),
        _ => {}
    }
    let median = |side: &Side| side.cpu_ns.as_ref().map(|c| c.p50 as f64).filter(|c| *c > 0.0);
    if let (Some(alone), Some(together)) = (median(&first.command), median(&last.command))
        && together / alone >= DEARER
        && first.concurrency < last.concurrency
    {
        out.push(format!(
            "a start costs {:.2} times the processor time that it costs with {} at once: they contend for what they share (caches, locks of memory and page cache)",
            together / alone,
            first.concurrency
        ));
    }
    if let Some(o) = last.command.observed.filter(|o| o.elapsed_ns > 0)
        && o.blocked_ns as f64 / o.elapsed_ns as f64 >= BLOCKED
    {
        out.push(
            "a good part of a start it neither ran nor waited for a processor: locks, disk or pipes held it"
                .to_string(),
        );
    }
    if last.command.majflt.as_ref().is_some_and(|m| m.p50 > 0) {
        out.push("pages were read from disk".to_string());
    }
    if out.is_empty() && knee(&s.levels).is_some() {
        out.push("what limits, these counters do not tell".to_string());
    }
    out
}

fn method(s: &StormRecord) -> String {
    let fork = s.levels.last().and_then(|l| l.command.fork_ns.as_ref().map(|f| (l.concurrency, f.p50)));
    let fork = fork.map_or(String::new(), |(n, ns)| format!("; making {n} took {} before", units::time(ns as f64)));
    format!(
        "measured: {} in {}, each with a batch of the command and of the control at every level; all of a batch are \
         forked, wait at a gate and exec when it opens{fork}; stdout to null\n",
        units::counted(s.rounds, "round"),
        units::time(s.spent_ns as f64)
    )
}

/// A Markdown table for a page.
pub fn markdown(s: &StormRecord) -> String {
    let mut t = format!("`{}`\n\n|", s.command.replace('`', "'"));
    for h in HEADERS {
        let _ = write!(t, " {} |", h.trim_start_matches('>').replace('\n', " "));
    }
    t.push_str("\n|");
    t.push_str(&"---:|".repeat(HEADERS.len()));
    t.push('\n');
    for l in &s.levels {
        let _ = writeln!(t, "| {} |", cells(l).join(" | "));
    }
    t.push('\n');
    for line in sentences(s) {
        let _ = writeln!(t, "{line}  ");
    }
    t.push_str(&method(s));
    t
}
