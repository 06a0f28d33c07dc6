//! The page of `premain PROGRAM`: what it costs and its floor, where the time goes, the link facts that matter,
//! findings in order of weight.

use std::fmt::Write;

use crate::facts::{Fact, Kind, LinkFacts};
use crate::output::Style;
use crate::record::bench::{BenchRecord, CommandRecord, MAIN_METRIC};
use crate::report::accounting;
use crate::report::bench_text::method_lines;
use crate::report::explain::Explained;
use crate::report::table::Table;
use crate::report::warnings::warnings;
use crate::report::width::wrap;
use crate::stat::quantile::Summary;
use crate::trace::analysis::Faults;
use crate::units::{bytes, count, counted, time};

/// The whole page.
pub fn text(e: &Explained, style: Style) -> String {
    let mut t = title(e, style);
    let _ = writeln!(t, "\n{}", style.bold("what it costs"));
    t.push_str(&costs(&e.bench, style));
    let _ = writeln!(t, "\n{}", style.bold("where the time goes"));
    t.push_str(&phases(e, style));
    let _ = writeln!(t, "\n{}", style.bold("what the host model says"));
    match &e.accounted {
        Ok(a) => t.push_str(&accounting::text(a, style)),
        Err(why) => wrap(why, style.width).iter().for_each(|line| t.push_str(&format!("{line}\n"))),
    }
    let _ = writeln!(t, "\n{}", style.bold("what the files ask for"));
    t.push_str(&links(e, style));
    let _ = writeln!(t, "\n{}", style.bold("findings, heaviest first"));
    for (i, f) in e.findings.iter().enumerate() {
        let lines = wrap(&format!("{} ({})", f.text, f.source.name()), style.width.saturating_sub(5));
        for (j, line) in lines.iter().enumerate() {
            let number = if j == 0 { format!("{:>3}.", i + 1) } else { "    ".to_string() };
            let _ = writeln!(t, "{number} {line}");
        }
    }
    t.push('\n');
    for line in method_lines(&e.bench).lines() {
        for part in wrap(line, style.width) {
            let _ = writeln!(t, "{}", style.dim(&part));
        }
    }
    t.push_str(&warnings(&e.bench.warnings, style));
    t
}

fn title(e: &Explained, style: Style) -> String {
    let name = e.bench.commands.first().map_or("", |c| c.name.as_str());
    let mut t = format!("{}\n", style.bold(name));
    for f in &e.files {
        let mut line = format!("  {}  {}", f.path.display(), f.kind.name());
        if f.kind != Kind::Script {
            let _ = write!(line, ", {} bit {}, {}", f.bits, f.arch, bytes(f.size_bytes));
        }
        if let Some(libc) = &f.libc {
            let _ = write!(line, ", {libc}");
        }
        if let Fact::Value(interp) = &f.interp {
            let _ =
                write!(line, ", {} {}", if f.kind == Kind::Script { "runs" } else { "loaded by" }, interp.display());
        }
        for part in wrap(line.trim_start(), style.width.saturating_sub(2)) {
            let _ = writeln!(t, "  {part}");
        }
    }
    t
}

fn costs(b: &BenchRecord, style: Style) -> String {
    let mut table = Table::new(["", ">p50", ">95 % interval of p50", ">p5", ">p95", ">max"]);
    let Some(c) = b.commands.first() else { return String::new() };
    let rows = [
        ("spawn to exit", c.metric(MAIN_METRIC)),
        ("spawn to first byte", c.metric("spawn_to_byte_ns")),
        ("exec to exit", c.metric("exec_to_exit_ns")),
        ("floor: spawn to exit", b.control.metric(MAIN_METRIC)),
        ("cpu time", c.metric("cpu_ns")),
    ];
    for (name, summary) in rows {
        table.row(cost_row(name, summary));
    }
    let mut t = table.render(style);
    t.push_str(&memory_line(b, c));
    t
}

fn cost_row(name: &str, s: Option<&Summary>) -> Vec<String> {
    let Some(s) = s else {
        return vec![name.to_string(), "-".to_string(), "no output on stdout".to_string()];
    };
    let ci = s
        .p50_ci95
        .map_or("none below 6 starts".to_string(), |[a, b]| format!("{} to {}", time(a as f64), time(b as f64)));
    let f = |x: u64| time(x as f64);
    vec![name.to_string(), f(s.p50), ci, f(s.p5), f(s.p95), f(s.max)]
}

fn memory_line(b: &BenchRecord, c: &CommandRecord) -> String {
    let faults = c.metric("minflt").map_or(0, |s| s.p50);
    let floor_faults = b.control.metric("minflt").map_or(0, |s| s.p50);
    let major = c.metric("majflt").map_or(0, |s| s.max);
    let rss = c.metric("max_rss_bytes").map_or(0, |s| s.max);
    let floor = b.control.rss_floor_bytes();
    let rss = if rss <= floor {
        format!("≤ {}, the floor", bytes(floor))
    } else {
        format!("{} (floor {})", bytes(rss), bytes(floor))
    };
    let major = if major > 0 { format!(", up to {} from disk", count(major)) } else { String::new() };
    format!("page faults {} (floor {}){major}; peak memory {rss}; all measured\n", count(faults), count(floor_faults))
}

/// Characters of the longest bar.
const BAR: usize = 24;

fn phases(e: &Explained, style: Style) -> String {
    let observed = match &e.phases {
        Ok(o) => o,
        Err(why) => return format!("not known: {why}\n"),
    };
    let p = &observed.summary;
    let largest = p.phases.iter().map(|x| x.ns).max().unwrap_or(1).max(1);
    let mut table = Table::new(["phase", ">time", ">share", ">faults", ">predicted", ""]);
    for x in &p.phases {
        let bar = (x.ns as f64 / largest as f64 * BAR as f64).round() as usize;
        let share = format!("{:.1} %", x.ns as f64 * 100.0 / p.total_ns.max(1) as f64);
        let predicted = e.predicted(x.name).map_or_else(String::new, time);
        let name = x.name.name().to_string();
        table.row([name, time(x.ns as f64), share, faults(&x.faults), predicted, "#".repeat(bar)]);
    }
    let mut t = table.without_empty_columns().render(style);
    let study = &observed.study;
    let mut line =
        format!("measured in {} by {}", counted(study.starts.len() as u64, "observed start"), study.means.backend());
    if let (Some(untraced), Some(share)) = (p.untraced_median_ns, observed.distortion()) {
        line.push_str(&format!(
            ": {} each at the median, {:+.1} % against {} of untraced starts beside them",
            time(p.total_median_ns as f64),
            share * 100.0,
            time(untraced as f64)
        ));
    }
    let mut lines = vec![line];
    if p.phases.iter().any(|x| e.predicted(x.name).is_some()) {
        lines.push(
            "predicted: by the host model, of untraced starts (observing weighs most on exec); fork and the program's own work are not".to_string(),
        );
    }
    for reason in lines.iter().chain(&study.reasons) {
        for part in wrap(reason, style.width) {
            let _ = writeln!(t, "{}", style.dim(&part));
        }
    }
    t
}

/// Page faults of a phase; nothing where they are not known.
fn faults(f: &Faults) -> String {
    let all = f.total();
    if all == 0 { String::new() } else { count(all) }
}

fn links(e: &Explained, style: Style) -> String {
    let Some(f) = e.program() else { return String::new() };
    let mut table = Table::new(["", ">the file", ">with all it loads"]);
    let closure = e.closure.as_ref().ok();
    let total = closure.map(|c| {
        let mut r = crate::facts::RelocationCounts::default();
        c.objects.iter().for_each(|o| r.add(&o.relocations));
        r
    });
    let sums = total.map(|r| r.classes().map(|(_, n)| n));
    for (i, (class, n)) in f.relocations.classes().into_iter().enumerate() {
        let all = sums.and_then(|s| s.get(i).copied());
        if n > 0 || all.is_some_and(|n| n > 0) {
            table.row([format!("{class} relocations"), count(n), opt(all)]);
        }
    }
    let totals = closure.map(|c| &c.totals);
    table.row(["pages they write".to_string(), count(f.pages_written), opt(totals.map(|t| t.pages_written))]);
    let (own, all) = (bytes(f.relro.bytes), totals.map_or(String::new(), |t| bytes(t.relro_bytes)));
    table.row([format!("RELRO ({})", f.relro.kind.name()), own, all]);
    table.row(["init functions".to_string(), count(f.init.total()), opt(totals.map(|t| t.init_functions))]);
    let objects = totals.map(|t| t.objects);
    table.row(["objects".to_string(), "1".to_string(), opt(objects)]);
    if let Some(t) = totals.filter(|t| t.lookups.is_some()) {
        table.row(["symbol look-ups".to_string(), String::new(), opt(t.lookups)]);
        table.row(["tables searched".to_string(), String::new(), opt(t.probes)]);
    }
    let mut t = table.render(style);
    for line in wrap(&settings(f), style.width) {
        let _ = writeln!(t, "{line}");
    }
    if let Err(why) = &e.closure {
        let _ = writeln!(t, "what it loads is not known: {why}");
    }
    t.push_str(&warnings(&f.warnings, style));
    t
}

fn opt(n: Option<u64>) -> String {
    n.map_or("-".to_string(), count)
}

/// Link settings in one line.
fn settings(f: &LinkFacts) -> String {
    let mut words = vec![if f.bind_now { "binds at start (now)" } else { "binds lazily" }.to_string()];
    if matches!(f.kind, Kind::Static | Kind::StaticPie) {
        words = vec!["needs no loader".to_string()];
    } else {
        words.push(format!("hash style {}", if f.hash.is_empty() { "none".to_string() } else { f.hash.join("+") }));
        words.push(format!("needs {}", counted(f.needed.len() as u64, "library")));
    }
    if f.tls_bytes > 0 {
        words.push(format!("{} of thread-local storage", bytes(f.tls_bytes)));
    }
    if f.textrel {
        words.push("relocates its own code (TEXTREL)".to_string());
    }
    format!("{}; all counted", words.join(", "))
}
