//! The text of a bench: one table of all commands and the floor, verdicts, what to know before trusting it.

use std::fmt::Write;

use crate::measure::sample::Sample;
use crate::output::Style;
use crate::record::bench::{BenchRecord, CommandRecord, MAIN_METRIC, VersusReference};
use crate::record::course::Part;
use crate::record::probes::Probes;
use crate::report::plot::{self, Series, distributions};
use crate::report::table::Table;
use crate::report::warnings::warnings;
use crate::report::width::{paragraph, wrap};
use crate::stat::paired::IntervalMethod;
use crate::stat::quantile::Summary;
use crate::stat::verdict::Verdict;
use crate::units;

/// The whole report.
pub fn text(r: &BenchRecord, style: Style) -> String {
    let mut t = table(r, style);
    t.push('\n');
    t.push_str(&comparisons(r, style));
    t.push_str(&observed(r, style));
    t.push_str(&courses(r, style));
    for line in method_lines(r).lines().flat_map(|l| wrap(l, style.width)) {
        let _ = writeln!(t, "{}", style.dim(&line));
    }
    t.push_str(&warnings(&r.warnings, style));
    t
}

/// Long runs: tail, tenths, the slowest.
fn courses(r: &BenchRecord, style: Style) -> String {
    let mut t = String::new();
    for command in &r.commands {
        let Some(c) = &command.course else { continue };
        let time = |ns: u64| units::time(ns as f64);
        let range = |of: fn(&Part) -> u64, say: fn(f64) -> String| {
            let (low, high) = (c.parts.iter().map(of).min(), c.parts.iter().map(of).max());
            let (low, high) = (say(low.unwrap_or(0) as f64), say(high.unwrap_or(0) as f64));
            if low == high { format!("{low} in each") } else { format!("{low} to {high}") }
        };
        let [p90, p99, p999] = c.tail.map(time);
        let slow: Vec<String> = c.slowest.iter().map(|s| format!("{} in round {}", time(s.ns), s.round)).collect();
        let grows = |yes: bool| if yes { "rises" } else { "no rise shown" };
        let lines = [
            format!(
                "{}, {} starts: p90 {p90}, p99 {p99}, p99.9 {p999}; {}",
                command.name,
                units::count(command.starts),
                units::counted(command.failures, "failure")
            ),
            format!(
                "  tenths of the run: p50 {}; slowest {} ({}); peak memory {} ({})",
                range(|p| p.p50, units::time),
                range(|p| p.max, units::time),
                grows(c.worst_grows),
                range(|p| p.max_rss_bytes, |n| units::bytes(n as u64)),
                grows(c.memory_grows)
            ),
            format!("  slowest: {}", slow.join(", ")),
        ];
        lines.iter().for_each(|line| t.push_str(&paragraph(line, style.width)));
        t.push('\n');
    }
    t
}

fn time_of(s: Option<&Summary>, get: fn(&Summary) -> f64) -> String {
    s.map_or("-".to_string(), |s| units::time(get(s)))
}

/// A column: its header (two lines) and a command's cell.
type Column = (&'static str, fn(&CommandRecord) -> String);

const NARROW: &[Column] = &[FIRST_BYTE, EXIT, EXIT_INTERVAL, EXIT_P95, CPU, MINFLT, STARTS];
const MIDDLE: &[Column] = &[FIRST_BYTE, BYTE_P95, EXIT, EXIT_INTERVAL, EXIT_P95, CPU, MINFLT, STARTS];
const WIDE: &[Column] = &[
    FIRST_BYTE,
    BYTE_P95,
    BYTE_MEAN,
    EXIT,
    EXIT_INTERVAL,
    EXIT_P95,
    EXIT_MEAN,
    EXIT_MAX,
    CPU,
    THREADS,
    MINFLT,
    MAX_RSS,
    STARTS,
];

const FIRST_BYTE: Column = (">first byte\np50", |c| time_of(c.metric("spawn_to_byte_ns"), |s| s.p50 as f64));
const BYTE_P95: Column = (">\np95", |c| time_of(c.metric("spawn_to_byte_ns"), |s| s.p95 as f64));
const BYTE_MEAN: Column = (">\nmean", |c| time_of(c.metric("spawn_to_byte_ns"), |s| s.mean));
const EXIT: Column = (">exit\np50", |c| time_of(c.metric(MAIN_METRIC), |s| s.p50 as f64));
const EXIT_INTERVAL: Column = (">\n± 95 %", |c| {
    c.metric(MAIN_METRIC).and_then(half_width).map_or("-".to_string(), |w| format!("{:.1} %", w * 100.0))
});
const EXIT_P95: Column = (">\np95", |c| time_of(c.metric(MAIN_METRIC), |s| s.p95 as f64));
const EXIT_MEAN: Column = (">\nmean", |c| time_of(c.metric(MAIN_METRIC), |s| s.mean));
const EXIT_MAX: Column = (">\nmax", |c| time_of(c.metric(MAIN_METRIC), |s| s.max as f64));
const CPU: Column = (">\ncpu", |c| time_of(c.metric("cpu_ns"), |s| s.p50 as f64));
const THREADS: Column = (">max\nthreads", |c| {
    c.probes
        .as_ref()
        .map_or("-".to_string(), |p| format!("{}{}", if p.threads_exact { "" } else { "≥ " }, p.max_threads))
});
const MINFLT: Column = (">\nminflt", |c| c.metric("minflt").map_or("-".to_string(), |s| units::count(s.p50)));
const MAX_RSS: Column = (">max\nrss", |c| c.metric("max_rss_bytes").map_or("-".to_string(), |s| units::bytes(s.max)));
const STARTS: Column = (">\nstarts", |c| units::count(c.starts));

/// Half the width of the median's interval, as a share of the median.
fn half_width(s: &Summary) -> Option<f64> {
    let [a, b] = s.p50_ci95?;
    (s.p50 > 0).then(|| (b - a) as f64 / 2.0 / s.p50 as f64)
}

fn table(r: &BenchRecord, style: Style) -> String {
    let columns = || {
        if style.width >= 130 {
            WIDE
        } else if style.width >= 95 {
            MIDDLE
        } else {
            NARROW
        }
        .iter()
    };
    let mut table = Table::new(std::iter::once("command").chain(columns().map(|(header, _)| *header)));
    for c in r.commands.iter().chain([&r.control]) {
        let name = if c.argv.is_empty() { "floor (control)".to_string() } else { c.name.clone() };
        table.row(std::iter::once(name).chain(columns().map(|(_, cell)| cell(c))));
    }
    table.without_empty_columns().render(style)
}

fn comparisons(r: &BenchRecord, style: Style) -> String {
    let mut t = String::new();
    let span = if r.setting.until_first_byte { "spawn to first byte" } else { "spawn to exit" };
    for c in &r.commands {
        let Some(v) = &c.vs_reference else { continue };
        let reference = r.reference_of(c).map_or("", |c| c.name.as_str());
        for line in wrap(&compared(&c.name, reference, v, r.delta, span), style.width) {
            let _ = writeln!(t, "{line}");
        }
    }
    if !t.is_empty() {
        t.push('\n');
    }
    t
}

/// `B is slower than A: 1.42 times [1.40, 1.45], +0.31 ms at the median, p < 0.001`.
pub fn compared(name: &str, reference: &str, v: &VersusReference, delta: f64, span: &str) -> String {
    let c = &v.comparison;
    let said = match v.verdict {
        Verdict::Faster => format!("{name} is faster than {reference}"),
        Verdict::Slower => format!("{name} is slower than {reference}"),
        // On a noisy host delta is large, and an interval within it may still exclude 1: to say only "equivalent" would
        // hide what was seen.
        Verdict::Equivalent if v.comparison.ratio_ci95.is_some_and(|[a, b]| a > 1.0 || b < 1.0) => {
            format!("{name} differs from {reference} by less than the {:.1} % that count here", delta * 100.0)
        }
        Verdict::Equivalent => format!("{name} is equivalent to {reference} within {:.1} %", delta * 100.0),
        Verdict::NotDecided => format!("{name} against {reference}: not decided"),
    };
    let ci = c.ratio_ci95.map_or("no interval".to_string(), |[a, b]| format!("95 % interval {a:.3} to {b:.3}"));
    let p = if v.p_adjusted < 0.001 { "p < 0.001".to_string() } else { format!("p = {:.3}", v.p_adjusted) };
    let mut line = format!(
        "{said}: {span} {:.3} times ({ci}), {} a start, {p}, {} pairs",
        c.ratio,
        units::time_difference(v.difference_ns as f64),
        c.pairs
    );
    if c.interval == IntervalMethod::BlockBootstrap {
        let _ =
            write!(line, "; neighbouring rounds resemble each other, so the interval is a wider one (moving blocks)");
    }
    if let Some(n) = v.rounds_needed {
        let _ = write!(line, "; about {} rounds would decide", units::count(n));
    }
    line
}

/// What was observed of each command, apart from the timed starts, and what being watched cost.
fn observed(r: &BenchRecord, style: Style) -> String {
    let mut t = String::new();
    for c in &r.commands {
        let Some(p) = &c.probes else { continue };
        let p50 = c.metric(MAIN_METRIC).map_or(0, |s| s.p50);
        for line in wrap(&format!("{}: {}", c.name, observation(p, p50)), style.width) {
            let _ = writeln!(t, "{line}");
        }
    }
    if !t.is_empty() {
        t.push('\n');
    }
    t
}

/// One command's observation as a sentence.
fn observation(p: &Probes, untraced_ns: u64) -> String {
    let least = if p.threads_exact { "" } else { "at least " };
    let mut parts = vec![format!("{least}{} at once", units::counted(p.max_threads, "thread"))];
    if let Some(s) = &p.syscalls {
        let range = if s.total_min == s.total_max {
            units::count(s.total_min)
        } else {
            format!("{} to {}", units::count(s.total_min), units::count(s.total_max))
        };
        let first =
            s.to_first_byte.map_or(String::new(), |n| format!(", {} of them up to the first byte", units::count(n)));
        parts.push(format!("{range} system calls{first}"));
    }
    parts.extend(
        p.child_processes.filter(|n| *n > 0).map(|n| {
            if n == 1 { "1 child process".to_string() } else { format!("{} child processes", units::count(n)) }
        }),
    );
    parts.extend(p.peak_rss_bytes.map(|n| format!("peak memory {}", units::bytes(n))));
    let cost = p.elapsed_ns as f64 / untraced_ns.max(1) as f64;
    parts.push(format!("observed in {}, {cost:.1} times as long as a timed one", units::counted(p.starts, "start")));
    parts.extend(p.reason.clone());
    parts.join("; ")
}

/// What was measured and how, and what cannot be told apart.
pub fn method_lines(r: &BenchRecord) -> String {
    let mut t = measured_line(r);
    if let Some([a, b]) = r.noise.same_vs_same.as_ref().and_then(|c| c.ratio_ci95) {
        let _ = writeln!(
            t,
            "noise: the control against itself {a:.3} to {b:.3} (95 %); differences below {:.1} % are not called",
            r.delta * 100.0
        );
    }
    t
}

/// How the starts were made.
pub fn measured_line(r: &BenchRecord) -> String {
    let s = &r.setting;
    format!(
        "measured: {} interleaved rounds ({} order{}) in {}, {} + exec + wait4, stdout to {}; times are spawn to first byte and spawn to exit\n",
        units::count(s.rounds),
        s.order.name(),
        if s.prime > 0 {
            format!(", {} before each start", units::counted(s.prime, "priming start"))
        } else {
            String::new()
        },
        units::time(s.spent_ns as f64),
        s.method.name(),
        s.stdout.name()
    )
}

/// The distribution of each command and of the floor.
pub fn plots(r: &BenchRecord, arms: &[Vec<Sample>], style: Style) -> String {
    let (_, metric) = r.setting.main_metric();
    let values: Vec<Vec<u64>> = arms.iter().map(|a| a.iter().filter_map(metric).collect()).collect();
    let names = r.commands.iter().map(|c| c.name.as_str()).chain(["floor (control)"]);
    let series: Vec<Series<'_>> = names.zip(&values).map(|(name, values)| Series { name, values }).collect();
    let options =
        plot::Options { scale: plot::Scale::Auto, glyphs: plot::Glyphs::Unicode, height: 3, format: units::time };
    format!("\n{}", distributions(&series, &options, style))
}
