//! The JSON of a bench: `commands[]` with the fields that other programs read, noise, setting, warnings.

use std::ffi::OsString;

use crate::json::Json;
use crate::measure::sample::Sample;
use crate::record::bench::{BenchRecord, CommandRecord, METRICS, VersusReference};
use crate::record::course::{Course, Part, Slow};
use crate::record::probes::Probes;
use crate::report::host_json;
use crate::stat::drift::Drift;
use crate::stat::quantile::Summary;

/// The document of `bench --json`, schema `premain.bench/1`.
pub fn document(r: &BenchRecord) -> Json {
    Json::object([
        ("schema", "premain.bench/1".into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("setting", setting(r)),
        ("commands", Json::array(r.commands.iter().map(|c| command(r, c)))),
        ("control", command(r, &r.control)),
        ("noise", noise(r)),
        ("host", host_json::record(&r.host)),
        ("warnings", Json::array(r.warnings.iter().map(String::as_str))),
    ])
}

/// How the run was made.
pub fn setting(r: &BenchRecord) -> Json {
    let s = &r.setting;
    Json::object([
        ("method", s.method.name().into()),
        ("stdout", s.stdout.name().into()),
        ("order", s.order.name().into()),
        ("seed", s.seed.into()),
        ("warmup_rounds", s.warmup.into()),
        ("priming_starts", s.prime.into()),
        ("rounds", s.rounds.into()),
        ("spent_ns", s.spent_ns.into()),
        ("interrupted", s.interrupted.into()),
        ("control_source", s.control_source.as_str().into()),
        ("busy_retries", s.busy_retries.into()),
        ("clock_rejects", s.clock_rejects.into()),
        ("left_behind", Json::array(s.left_behind.iter().map(String::as_str))),
        ("until_first_byte", s.until_first_byte.into()),
        ("main_metric", s.main_metric().0.into()),
        ("state", if s.evicted.is_empty() { "warm" } else { "cold" }.into()),
        (
            "evicted",
            Json::array(s.evicted.iter().take(r.commands.len()).map(|e| {
                Json::object([
                    ("pages_requested", Json::from(e.before)),
                    ("pages_evicted", (e.before - e.after.min(e.before)).into()),
                ])
            })),
        ),
        ("clock", "CLOCK_MONOTONIC".into()),
        ("clock_resolution_ns", r.clock_resolution_ns.into()),
        ("clock_read_ns", r.clock_read_ns.into()),
        ("own_max_rss_bytes", r.own_peak_rss_bytes.into()),
        ("delta", r.delta.into()),
    ])
}

/// argv, each word lossless.
pub fn argv(words: &[OsString]) -> Json {
    Json::array(words.iter().map(OsString::as_os_str))
}

/// One entry of `commands[]`.
pub fn command(r: &BenchRecord, c: &CommandRecord) -> Json {
    let mut j = Json::object([
        ("name", c.name.as_str().into()),
        ("argv", argv(&c.argv)),
        ("path", c.path.as_os_str().into()),
        ("kind", c.kind.into()),
        ("role", c.role.name().into()),
        ("starts", c.starts.into()),
        ("failures", c.failures.into()),
        ("exit_codes", Json::object(c.exit_codes.iter().map(|(code, n)| (code.to_string(), Json::from(*n))))),
    ]);
    for ((name, _), summary) in METRICS.iter().zip(&c.metrics) {
        j.push(name, summary.as_ref().map(summary_json));
        if *name == "max_rss_bytes" {
            j.push("max_rss_floor_bytes", r.control.metric("max_rss_bytes").map(summary_json));
        }
    }
    j.push("course", c.course.as_ref().map(course));
    j.push("vs_reference", c.vs_reference.as_ref().map(|v| versus(v, r.delta)));
    j.push("probes", c.probes.as_ref().map(probes));
    j.push(
        "output",
        c.output.map(|o| {
            let reference = r.reference_of(c);
            let same = reference.and_then(|f| f.output).map(|f| f.hash == o.hash && f.bytes == o.bytes);
            Json::object([
                ("bytes", o.bytes.into()),
                ("hash", format!("{:016x}", o.hash).into()),
                ("constant", o.constant.into()),
                ("same_as_reference", same.into()),
            ])
        }),
    );
    j.push("stdout_held_open", c.held_open);
    j
}

/// A long run's tail, tenths and slowest starts.
fn course(c: &Course) -> Json {
    let part = |p: &Part| {
        Json::object([
            ("from_round", p.from_round.into()),
            ("p50_ns", p.p50.into()),
            ("max_ns", p.max.into()),
            ("max_rss_bytes", p.max_rss_bytes.into()),
        ])
    };
    let slow = |s: &Slow| Json::object([("round", Json::from(s.round)), ("ns", s.ns.into())]);
    let [p90, p99, p999] = c.tail;
    Json::object([
        ("p90_ns", Json::from(p90)),
        ("p99_ns", p99.into()),
        ("p99_9_ns", p999.into()),
        ("tenths", Json::array(c.parts.iter().map(part))),
        ("slowest", Json::array(c.slowest.iter().map(slow))),
        ("memory_grows", c.memory_grows.into()),
        ("worst_grows", c.worst_grows.into()),
    ])
}

/// What was observed.
pub fn probes(p: &Probes) -> Json {
    let syscalls = p.syscalls.as_ref().map(|s| {
        Json::object([
            ("total_min", Json::from(s.total_min)),
            ("total_max", s.total_max.into()),
            ("to_first_byte", s.to_first_byte.into()),
            ("by_name", Json::object(s.by_name.iter().map(|(name, n)| (name.clone(), Json::from(*n))))),
        ])
    });
    Json::object([
        ("starts", Json::from(p.starts)),
        ("max_threads", p.max_threads.into()),
        ("threads_exact", p.threads_exact.into()),
        ("syscalls", syscalls.into()),
        ("page_faults", p.page_faults.into()),
        ("peak_rss_bytes", p.peak_rss_bytes.into()),
        ("child_processes", p.child_processes.into()),
        ("elapsed_ns", p.elapsed_ns.into()),
        ("reason", p.reason.as_deref().into()),
    ])
}

/// A summary with the contract's field names.
pub fn summary_json(s: &Summary) -> Json {
    Json::object([
        ("n", s.n.into()),
        ("min", s.min.into()),
        ("p5", s.p5.into()),
        ("p25", s.p25.into()),
        ("p50", s.p50.into()),
        ("p75", s.p75.into()),
        ("p90", s.p90.into()),
        ("p95", s.p95.into()),
        ("p99", s.p99.into()),
        ("max", s.max.into()),
        ("mean", s.mean.into()),
        ("stddev", s.stddev.into()),
        ("mad", s.mad.into()),
        ("p50_ci95", s.p50_ci95.map(Json::array).into()),
    ])
}

fn interval(ci: Option<[f64; 2]>) -> Json {
    ci.map(Json::array).into()
}

/// A comparison within rounds.
pub(super) fn versus(v: &VersusReference, delta: f64) -> Json {
    let c = &v.comparison;
    Json::object([
        ("pairs", c.pairs.into()),
        ("ratio", c.ratio.into()),
        ("ratio_ci95", interval(c.ratio_ci95)),
        ("hodges_lehmann_ratio", c.hodges_lehmann.into()),
        ("difference_ns", v.difference_ns.into()),
        ("p_value", c.p_value.into()),
        ("p_value_holm", v.p_adjusted.into()),
        ("test", c.test.name().into()),
        ("autocorrelation", c.autocorrelation.into()),
        ("correlation_time_rounds", c.correlation_time.into()),
        ("interval_method", c.interval.name().into()),
        ("delta", delta.into()),
        ("verdict", v.verdict.word().into()),
        ("rounds_needed", v.rounds_needed.into()),
    ])
}

fn drift(d: &Drift) -> Json {
    Json::object([
        ("last_third_over_first", d.thirds_ratio.into()),
        ("ci95", Json::array(d.thirds_ci95)),
        ("trend", d.trend_ratio.into()),
    ])
}

/// The control against itself, and its course.
pub fn noise(r: &BenchRecord) -> Json {
    let same = r.noise.same_vs_same.as_ref();
    Json::object([
        ("control_p50_ns", r.control.metric(crate::record::bench::MAIN_METRIC).map(|s| s.p50).into()),
        ("aa_ratio", same.map(|c| c.ratio).into()),
        ("aa_ratio_ci95", interval(same.and_then(|c| c.ratio_ci95))),
        ("aa_p_value", same.map(|c| c.p_value).into()),
        ("drift", r.noise.drift.as_ref().map(drift).into()),
        ("steal_ns", host_json::fact(&r.host.steal_ns())),
        ("throttled", host_json::fact(&r.host.throttled())),
        ("throttled_ns", host_json::fact(&r.host.throttled_ns())),
    ])
}

/// Every sample of one arm as columns; absent values are `null`.
pub fn samples(samples: &[Sample]) -> Json {
    let column = |get: &dyn Fn(&Sample) -> Json| Json::Array(samples.iter().map(get).collect());
    let mut j = Json::object([
        ("round", column(&|s| s.round.into())),
        ("position", column(&|s| s.position.into())),
        ("exit_code", column(&|s| s.status.code().into())),
    ]);
    for (name, get) in METRICS {
        j.push(name, column(&|s| get(s).into()));
    }
    j.push("first_output_ns", column(&|s| s.spawn_to_output.map(|(t, _)| t).into()));
    j.push("first_output_stream", column(&|s| s.spawn_to_output.map(|(_, stream)| stream.name()).into()));
    j.push("stdout_bytes", column(&|s| s.stdout_bytes.into()));
    j.push("stderr_bytes", column(&|s| s.stderr_bytes.into()));
    j
}
