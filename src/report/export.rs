//! What `bench` writes to files: the artifact with every sample, a row a sample, a table for a page.

use std::fmt::Write;

use crate::error::Result;
use crate::json::Json;
use crate::measure::log::Log;
use crate::measure::sample::Sample;
use crate::record::bench::{BenchRecord, CommandRecord, MAIN_METRIC, METRICS};
use crate::report::bench_json;

/// Samples by arm: the commands in order, then the control's two starts of each round.
pub type Arms = Vec<Vec<Sample>>;

/// Reads every arm's samples back.
///
/// # Errors
/// Where the store cannot be read.
pub fn arms(r: &BenchRecord, log: &mut Log) -> Result<Arms> {
    (0..r.commands.len() + 2).map(|arm| log.arm(arm)).collect()
}

/// Adds every sample to a `premain.bench/1` document: `commands[].samples`, and the control's as columns of their own.
pub fn with_samples(mut document: Json, arms: &Arms) -> Json {
    let (commands, controls) = arms.split_at(arms.len().saturating_sub(2));
    if let Json::Object(fields) = &mut document
        && let Some((_, Json::Array(list))) = fields.iter_mut().find(|(k, _)| k == "commands")
    {
        for (command, samples) in list.iter_mut().zip(commands) {
            command.push("samples", bench_json::samples(samples));
        }
    }
    document.push("control_samples", Json::array(controls.iter().map(|s| bench_json::samples(s))));
    document
}

/// Adds `results`: the fields of hyperfine's export, in seconds, for scripts that read those. Its `user` and `system`
/// are means, as there; they are tick-sampled on most kernels.
pub fn with_hyperfine(mut document: Json, r: &BenchRecord, arms: &Arms) -> Json {
    let results = r.commands.iter().zip(arms).map(|(c, samples)| hyperfine(c, samples));
    document.push("results", Json::array(results));
    document
}

fn hyperfine(c: &CommandRecord, samples: &[Sample]) -> Json {
    let seconds = |ns: f64| Json::Float(ns / 1e9);
    let s = c.metric(MAIN_METRIC);
    let mean = |name: &str| c.metric(name).map(|s| seconds(s.mean)).into();
    Json::object([
        ("command", c.name.as_str().into()),
        ("mean", s.map(|s| seconds(s.mean)).into()),
        ("stddev", s.and_then(|s| s.stddev).map(seconds).into()),
        ("median", s.map(|s| seconds(s.p50 as f64)).into()),
        ("user", mean("user_ns")),
        ("system", mean("system_ns")),
        ("min", s.map(|s| seconds(s.min as f64)).into()),
        ("max", s.map(|s| seconds(s.max as f64)).into()),
        ("times", Json::array(samples.iter().map(|s| seconds(s.spawn_to_exit_ns as f64)))),
        ("exit_codes", Json::array(samples.iter().map(|s| s.status.code()))),
    ])
}

/// One row a sample, with a header; absent values are empty.
pub fn csv(r: &BenchRecord, arms: &Arms) -> String {
    let mut t = String::from("command,role,round,position,exit_code,stdout_bytes,stderr_bytes");
    for (name, _) in METRICS {
        let _ = write!(t, ",{name}");
    }
    t.push('\n');
    let controls = std::iter::repeat_n(&r.control, 2);
    for (c, samples) in r.commands.iter().chain(controls).zip(arms) {
        for s in samples {
            let _ = write!(
                t,
                "{},{},{},{},{},{},{}",
                csv_field(&c.name),
                c.role.name(),
                s.round,
                s.position,
                s.status.code(),
                s.stdout_bytes,
                s.stderr_bytes
            );
            for (_, get) in METRICS {
                let _ = write!(t, ",{}", get(s).map_or(String::new(), |v| v.to_string()));
            }
            t.push('\n');
        }
    }
    t
}

/// RFC 4180: quoted where needed, quotes doubled.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

/// A Markdown table of commands and the floor, milliseconds with the interval of the median.
pub fn markdown(r: &BenchRecord) -> String {
    let mut t = String::from(
        "| command | first byte p50 [ms] | exit p50 [ms] | 95 % interval | p95 [ms] | max [ms] | against reference | starts |\n",
    );
    t.push_str("|:---|---:|---:|---:|---:|---:|---:|---:|\n");
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    for c in r.commands.iter().chain([&r.control]) {
        let s = c.metric(MAIN_METRIC);
        let of = |get: fn(&crate::stat::quantile::Summary) -> u64| s.map_or("-".to_string(), |s| ms(get(s)));
        let ci = s.and_then(|s| s.p50_ci95).map_or("-".to_string(), |[a, b]| format!("{} to {}", ms(a), ms(b)));
        let byte = c.metric("spawn_to_byte_ns").map_or("-".to_string(), |s| ms(s.p50));
        let versus = c.vs_reference.as_ref().map_or(c.role.name().to_string(), |v| {
            let ci = v.comparison.ratio_ci95.map_or(String::new(), |[a, b]| format!(" [{a:.3}, {b:.3}]"));
            format!("{:.3}{ci} {}", v.comparison.ratio, v.verdict.word())
        });
        let name = c.name.replace('|', "\\|");
        let _ = writeln!(
            t,
            "| `{name}` | {byte} | {} | {ci} | {} | {} | {versus} | {} |",
            of(|s| s.p50),
            of(|s| s.p95),
            of(|s| s.max),
            c.starts
        );
    }
    t
}
