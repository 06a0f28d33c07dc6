//! The text of a sweep: a row a value, the line through them, how far they lie off it.

use std::fmt::Write;

use crate::output::Style;
use crate::record::sweep::{Kind, SweepRecord};
use crate::report::bench_text;
use crate::report::table::{Cell, Table};
use crate::report::warnings::warnings;
use crate::report::width::paragraph;
use crate::report::xy::{Plot, draw};
use crate::stat::sweep::SweepLine;
use crate::units;

/// The whole report.
pub fn text(s: &SweepRecord, style: Style) -> String {
    let mut t = format!("{}: {} to the {}\n\n", style.bold(&s.command), s.parameter.name, metric_words(s));
    t.push_str(&table(s).render(style));
    t.push('\n');
    let plot = plot(s, style);
    if !plot.is_empty() {
        let _ = writeln!(t, "{plot}");
    }
    for line in sentences(s) {
        t.push_str(&paragraph(&line, style.width));
    }
    t.push_str(&paragraph(&bench_text::measured_line(&s.bench), style.width));
    t.push_str(&warnings(&s.bench.warnings, style));
    t
}

fn metric_words(s: &SweepRecord) -> &str {
    match s.metric.as_str() {
        "byte" => "first byte",
        "cpu" => "processor time",
        "minflt" => "page faults",
        other => other,
    }
}

fn is_time(s: &SweepRecord) -> bool {
    s.field.ends_with("_ns")
}

/// A value of the metric with its unit.
fn value(s: &SweepRecord, v: f64) -> String {
    if is_time(s) {
        units::time(v)
    } else if s.field.ends_with("_bytes") {
        format!("{}{}", if v < 0.0 { "-" } else { "" }, units::bytes(v.abs() as u64))
    } else {
        units::three_digits(v)
    }
}

fn signed(s: &SweepRecord, v: f64) -> String {
    let text = value(s, v);
    if v >= 0.0 { format!("+{text}") } else { text }
}

fn table(s: &SweepRecord) -> Table {
    let p = &s.parameter;
    let first = p.values.first().map_or("", String::as_str);
    let headers = [
        format!(">{}", p.name),
        format!(">{}\np50", metric_words(s)),
        ">95 % of\nthe median".to_string(),
        ">\np95".to_string(),
        format!(">against\n{}={first}", p.name),
        ">off the\nline".to_string(),
    ];
    let mut table = Table::new(headers);
    for (i, (v, c)) in p.values.iter().zip(&s.bench.commands).enumerate() {
        let m = c.metric(s.field);
        let of =
            |get: fn(&crate::stat::quantile::Summary) -> u64| m.map_or("-".to_string(), |m| value(s, get(m) as f64));
        let ci = m.and_then(|m| m.p50_ci95).map_or("-".to_string(), |ci| {
            let [low, high] = ci.map(|x| value(s, x as f64));
            format!("{low} to {high}")
        });
        // The comparison of a bench is about its main metric; of others it says nothing.
        let versus = c.vs_reference.as_ref().filter(|_| s.field == s.bench.setting.main_metric().0);
        let versus = versus.map_or(String::new(), |v| format!("{:.3} times", v.comparison.ratio));
        let off = s.line.as_ref().and_then(|l| l.departures.get(i));
        let off = off.map_or(Cell::from(""), |d| {
            let text = signed(s, d.distance);
            if d.is_shown() { Cell::warn(format!("{text} *")) } else { Cell::from(text) }
        });
        let mut cells: Vec<Cell> = [v.clone(), of(|m| m.p50), ci, of(|m| m.p95), versus].map(Cell::from).to_vec();
        cells.push(off);
        table.row(cells);
    }
    table.without_empty_columns()
}

fn plot(s: &SweepRecord, style: Style) -> String {
    let (Some(x), Some(line)) = (&s.parameter.x, &s.line) else { return String::new() };
    let y = s.bench.commands.iter().map(|c| c.metric(s.field).map(|m| m.p50 as f64));
    let points: Vec<(f64, f64)> = x.iter().copied().zip(y).filter_map(|(x, y)| Some((x, y?))).collect();
    let label = |pick: fn(f64, f64) -> bool| {
        let best = x.iter().enumerate().reduce(|a, b| if pick(*b.1, *a.1) { b } else { a });
        best.and_then(|(i, _)| s.parameter.values.get(i)).map_or(String::new(), |v| format!("{}={v}", s.parameter.name))
    };
    let p = Plot {
        points: &points,
        line: Some((line.slope, line.intercept)),
        y_text: if is_time(s) {
            units::time
        } else if s.field.ends_with("_bytes") {
            |v| units::bytes(v as u64)
        } else {
            units::three_digits
        },
        x_text: [label(|a, b| a < b), label(|a, b| a > b)],
    };
    draw(&p, style.width.min(90), 10)
}

/// A slope in words: with times on both axes a plain number, as of round trips; else a time for a unit of the parameter.
fn slope(s: &SweepRecord, slope: f64) -> String {
    match s.parameter.kind {
        Kind::Time if is_time(s) => units::three_digits(slope),
        Kind::Bytes => value(s, slope * 1024.0),
        _ => value(s, slope),
    }
}

/// What the slope is of.
fn per(s: &SweepRecord) -> String {
    match s.parameter.kind {
        Kind::Time if is_time(s) => format!("times {}", s.parameter.name),
        Kind::Time => format!("for a nanosecond of {}", s.parameter.name),
        Kind::Bytes => format!("for a KiB of {}", s.parameter.name),
        _ => format!("for one more of {}", s.parameter.name),
    }
}

/// Slope, line and what is off it.
pub fn sentences(s: &SweepRecord) -> Vec<String> {
    let name = &s.parameter.name;
    let Some(l) = &s.line else {
        return vec![match s.parameter.kind {
            Kind::Word => format!("{name} is no number: no line is drawn"),
            _ => format!("not every start gave this figure ({}): no line is drawn", metric_words(s)),
        }];
    };
    let interval = |ci: Option<[f64; 2]>, show: &dyn Fn(f64) -> String| {
        ci.map_or("too few rounds for an interval".to_string(), |[a, b]| {
            format!("95 % interval {} to {}", show(a), show(b))
        })
    };
    let mut out = vec![format!(
        "slope: {} {} ({}); at {name} = 0: {} ({})",
        slope(s, l.slope),
        per(s),
        interval(l.slope_ci95, &|v| slope(s, v)),
        value(s, l.intercept),
        interval(l.intercept_ci95, &|v| value(s, v))
    )];
    out.push(straightness(s, l));
    out
}

fn straightness(s: &SweepRecord, l: &SweepLine) -> String {
    if l.departures.is_empty() {
        return "two values always lie on a line: give a third to see whether it is one".to_string();
    }
    let shown = l.departures.iter().zip(&s.parameter.values).filter(|(d, _)| d.is_shown());
    let worst = shown.max_by(|a, b| a.0.distance.abs().total_cmp(&b.0.distance.abs()));
    match (worst, l.within()) {
        (Some((d, v)), _) => {
            let ci = d.ci.map_or(String::new(), |[a, b]| format!(" ({} to {})", signed(s, a), signed(s, b)));
            format!(
                "not a straight line: at {}={v} it lies {}{ci} off it, so that the slope is only an average",
                s.parameter.name,
                signed(s, d.distance)
            )
        }
        (None, Some(within)) => {
            format!("a straight line fits: no value lies further off it than {} (95 %)", value(s, within))
        }
        (None, None) => "too few rounds to say whether it is a straight line".to_string(),
    }
}

/// A Markdown table for a page.
pub fn markdown(s: &SweepRecord) -> String {
    let mut t = format!(
        "| {} | {} p50 | 95 % of the median | p95 | off the line |\n|---:|---:|---:|---:|---:|\n",
        s.parameter.name,
        metric_words(s)
    );
    for (i, (v, c)) in s.parameter.values.iter().zip(&s.bench.commands).enumerate() {
        let m = c.metric(s.field);
        let show = |x: Option<u64>| x.map_or("-".to_string(), |x| value(s, x as f64));
        let ci = m
            .and_then(|m| m.p50_ci95)
            .map_or("-".to_string(), |[a, b]| format!("{} to {}", show(Some(a)), show(Some(b))));
        let off = s.line.as_ref().and_then(|l| l.departures.get(i)).map_or("-".to_string(), |d| signed(s, d.distance));
        let v = v.replace('|', "\\|");
        let _ = writeln!(t, "| {v} | {} | {ci} | {} | {off} |", show(m.map(|m| m.p50)), show(m.map(|m| m.p95)));
    }
    t.push('\n');
    for line in sentences(s) {
        let _ = writeln!(t, "{line}  ");
    }
    t
}
