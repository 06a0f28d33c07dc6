//! Comparisons of stored samples as text.

use std::fmt::Write;

use super::bench_text::compared;
use super::columns_text::p_value;
use super::table::Table;
use crate::output::Style;
use crate::record::bench::{MAIN_METRIC, VersusReference};
use crate::record::stored::{Compared, Outcome, StoredComparison};
use crate::stat::unpaired::{Normalised, Unpaired};
use crate::stat::verdict::Verdict;
use crate::units;

/// The whole text.
pub fn text(c: &StoredComparison, style: Style) -> String {
    let mut t = table(c).render(style);
    t.push('\n');
    for one in &c.compared {
        t.push_str(&sentence(&c.metric, one));
    }
    for w in &c.warnings {
        let _ = writeln!(t, "{} {w}", style.warn("warning:"));
    }
    t
}

/// A value of the metric with its unit, which the end of the metric's name tells.
fn value(metric: &str, x: u64) -> String {
    match metric {
        m if m.ends_with("_ns") => units::time(x as f64),
        m if m.ends_with("_bytes") => units::bytes(x),
        _ => units::count(x),
    }
}

fn table(c: &StoredComparison) -> Table {
    let first = c.entries.first().map_or("", |e| e.file.as_str());
    let many = c.entries.iter().any(|e| e.file != first);
    let figures = ["command", ">starts", ">p50", ">95 % interval", ">p95", ">max"];
    let mut table = Table::new(many.then_some("file").into_iter().chain(figures));
    for e in &c.entries {
        let s = &e.summary;
        let v = |x| value(&c.metric, x);
        let interval = s.p50_ci95.map_or("-".to_string(), |[a, b]| format!("{} to {}", v(a), v(b)));
        let cells = [e.name.clone(), units::count(s.n as u64), v(s.p50), interval, v(s.p95), v(s.max)];
        table.row(many.then(|| e.file.clone()).into_iter().chain(cells));
    }
    table
}

fn sentence(metric: &str, c: &Compared) -> String {
    match &c.outcome {
        Outcome::Paired(v, delta) if metric == MAIN_METRIC => {
            format!("{}\n", compared(&c.candidate, &c.reference, v, *delta, "spawn to exit"))
        }
        Outcome::Paired(v, delta) => paired(metric, c, v, *delta),
        Outcome::NoRatio => format!("{} against {}: a value is zero, so there is no ratio\n", c.candidate, c.reference),
        Outcome::Unpaired(u, over) => {
            let mut t = unpaired(c, u, over.is_none());
            if let Some(n) = over {
                t.push_str(&over_control(n));
            }
            t
        }
    }
}

/// A metric that need be no time: its verdict is no "faster" or "slower".
fn paired(metric: &str, c: &Compared, v: &VersusReference, delta: f64) -> String {
    let word = match v.verdict {
        Verdict::Slower => "more",
        Verdict::Faster => "less",
        Verdict::Equivalent => "equivalent",
        Verdict::NotDecided => "not decided",
    };
    let size = value(metric, v.difference_ns.unsigned_abs());
    let sign = if v.difference_ns < 0 { '-' } else { '+' };
    format!(
        "{} against {}, {metric}: {:.3} times ({}), {sign}{size} a start, p = {}, {} pairs: {word} at delta {:.1} %\n",
        c.candidate,
        c.reference,
        v.comparison.ratio,
        interval(v.comparison.ratio_ci95),
        p_value(v.p_adjusted),
        v.comparison.pairs,
        delta * 100.0
    )
}

fn interval(ci: Option<[f64; 2]>) -> String {
    ci.map_or("no interval".to_string(), |[a, b]| format!("{a:.3} to {b:.3}"))
}

fn unpaired(c: &Compared, u: &Unpaired, alone: bool) -> String {
    let verdict = if alone { "; no verdict" } else { "" };
    format!(
        "{} against {}: medians {:.3} times; typical shift {:.3} times ({} if all starts were independent, p = {}){verdict}\n",
        c.candidate,
        c.reference,
        u.median_ratio,
        u.shift_ratio,
        interval(u.shift_ci95),
        p_value(u.p_value)
    )
}

fn over_control(n: &Normalised) -> String {
    format!(
        "  the control moved {:.3} times between the runs; over it the shift is {:.3} times ({}): {}, weakly, at delta {:.1} %\n",
        n.control_ratio,
        n.ratio,
        interval(n.ci95),
        n.verdict,
        n.delta * 100.0
    )
}
