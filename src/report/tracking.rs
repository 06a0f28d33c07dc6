//! Figures for services that follow a benchmark from commit to commit.
//!
//! Such a service compares runs that were made apart, on whatever machine was free. So beside the times there is the
//! time over that of the control in the same rounds, which takes the machine's own speed out to a good part, and the
//! counts, which do not depend on it at all.

use crate::json::Json;
use crate::record::bench::{BenchRecord, CommandRecord, MAIN_METRIC, Role};
use crate::record::check::Checked;
use crate::record::counts::Range;

/// One figure of one benchmark. Smaller is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The command.
    pub benchmark: String,
    /// What was measured, as a word.
    pub measure: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// The value.
    pub value: f64,
    /// Its 95 % interval, or the range of a count.
    pub interval: Option<[f64; 2]>,
    /// How it came about.
    pub how: String,
}

/// Every measure of the commands of a bench.
pub fn of_bench(r: &BenchRecord) -> Vec<Point> {
    r.commands.iter().flat_map(|c| of_command(r, c)).collect()
}

/// Measures of the candidates of a check, and their counts.
pub fn of_check(c: &Checked, r: &BenchRecord) -> Vec<Point> {
    let is_old = |m: &CommandRecord| {
        m.role == Role::Reference
            && r.commands
                .iter()
                .any(|o| o.role == Role::Candidate && r.reference_of(o).is_some_and(|x| std::ptr::eq(x, m)))
    };
    let mut points: Vec<Point> = r.commands.iter().filter(|m| !is_old(m)).flat_map(|m| of_command(r, m)).collect();
    for row in c.rows.iter().filter(|row| row.metric.field.is_none()) {
        let Some(now) = row.now else { continue };
        points.push(count(&row.command, row.metric.name, now, row.gated));
    }
    points
}

fn count(benchmark: &str, measure: &'static str, now: Range, gated: bool) -> Point {
    Point {
        benchmark: benchmark.to_string(),
        measure,
        unit: "count",
        value: now.max as f64,
        interval: (now.min != now.max).then_some([now.min as f64, now.max as f64]),
        how: if gated { "counted, gated" } else { "counted" }.to_string(),
    }
}

fn of_command(r: &BenchRecord, c: &CommandRecord) -> Vec<Point> {
    let mut points = Vec::new();
    for (measure, field) in [("exit", r.setting.main_metric().0), ("first-byte", "spawn_to_byte_ns"), ("cpu", "cpu_ns")]
    {
        let Some(s) = c.metric(field) else { continue };
        points.push(Point {
            benchmark: c.name.clone(),
            measure,
            unit: "ns",
            value: s.p50 as f64,
            interval: s.p50_ci95.map(|ci| ci.map(|x| x as f64)),
            how: format!("median of {} starts", s.n),
        });
    }
    let floor = r.control.metric(MAIN_METRIC).map(|s| s.p50 as f64).filter(|f| *f > 0.0);
    if let (Some(s), Some(floor)) = (c.metric(r.setting.main_metric().0), floor) {
        points.push(Point {
            benchmark: c.name.clone(),
            measure: "exit-over-floor",
            unit: "times",
            value: s.p50 as f64 / floor,
            interval: s.p50_ci95.map(|ci| ci.map(|x| x as f64 / floor)),
            how: "median over that of the smallest program that can exit, same rounds".to_string(),
        });
    }
    points
}

/// The list that github-action-benchmark takes as `customSmallerIsBetter`: name, unit, value, range, extra.
pub fn benchmark_action(points: &[Point]) -> Json {
    Json::array(points.iter().map(|p| {
        let mut j = Json::object([
            ("name", Json::from(format!("{} / {}", p.benchmark, p.measure))),
            ("unit", p.unit.into()),
            ("value", p.value.into()),
        ]);
        if let Some([low, high]) = p.interval {
            j.push("range", format!("{low} to {high}"));
        }
        j.push("extra", p.how.as_str());
        j
    }))
}

/// The Bencher Metric Format: benchmark, then measure, then value with its bounds. `latency` is the measure that a
/// project has from the start, in nanoseconds.
pub fn bencher(points: &[Point]) -> Json {
    let mut names: Vec<&str> = Vec::new();
    for p in points {
        if !names.contains(&p.benchmark.as_str()) {
            names.push(&p.benchmark);
        }
    }
    let metric = |p: &Point| {
        let mut j = Json::object([("value", Json::from(p.value))]);
        if let Some([low, high]) = p.interval {
            j.push("lower_value", low);
            j.push("upper_value", high);
        }
        (if p.measure == "exit" { "latency" } else { p.measure }, j)
    };
    let of = |name: &str| Json::object(points.iter().filter(|p| p.benchmark == name).map(metric));
    Json::object(names.iter().map(|name| (*name, of(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms() {
        let time = Point {
            benchmark: "a --b".into(),
            measure: "exit",
            unit: "ns",
            value: 5.0,
            interval: Some([4.0, 6.0]),
            how: "median of 9 starts".into(),
        };
        let points = [time, count("a --b", "relocations", Range::exactly(7), true)];
        assert_eq!(
            benchmark_action(&points).to_string(),
            r#"[{"name":"a --b / exit","unit":"ns","value":5.0,"range":"4 to 6","extra":"median of 9 starts"},{"name":"a --b / relocations","unit":"count","value":7.0,"extra":"counted, gated"}]"#
        );
        assert_eq!(
            bencher(&points).to_string(),
            r#"{"a --b":{"latency":{"value":5.0,"lower_value":4.0,"upper_value":6.0},"relocations":{"value":7.0}}}"#
        );
    }
}
