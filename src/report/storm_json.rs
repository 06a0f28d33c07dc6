//! The JSON of a storm, schema `premain.storm/1`.

use crate::json::Json;
use crate::record::storm::{Level, Observed, Side, StormRecord, knee};
use crate::report::bench_json::{self, summary_json};
use crate::report::host_json;
use crate::stat::quantile::Summary;
use crate::stat::verdict::MINIMUM_DELTA;

/// The document.
pub fn document(s: &StormRecord) -> Json {
    Json::object([
        ("schema", Json::from("premain.storm/1")),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("command", s.command.as_str().into()),
        ("argv", bench_json::argv(&s.argv)),
        (
            "setting",
            Json::object([
                ("rounds", Json::from(s.rounds)),
                ("spent_ns", s.spent_ns.into()),
                ("seed", s.seed.into()),
                ("interrupted", s.interrupted.into()),
                ("stdout", "null".into()),
                ("ends_noticed", s.noticing.name().into()),
                ("processors", s.processors.into()),
            ]),
        ),
        ("levels", Json::array(s.levels.iter().map(level))),
        ("scales_up_to", knee(&s.levels).and_then(|i| s.levels.get(i)).map(|l| l.concurrency).into()),
        ("host", host_json::record(&s.host)),
        ("warnings", Json::array(s.warnings.iter().map(String::as_str))),
    ])
}

fn level(l: &Level) -> Json {
    Json::object([
        ("concurrency", Json::from(l.concurrency)),
        ("command", side(&l.command, l.concurrency)),
        ("control", side(&l.control, l.concurrency)),
        ("vs_control", l.vs_control.as_ref().map(|v| bench_json::versus(v, MINIMUM_DELTA)).into()),
    ])
}

fn side(s: &Side, concurrency: u64) -> Json {
    let summary = |s: &Option<Summary>| Json::from(s.as_ref().map(summary_json));
    let rate = s.per_second(concurrency);
    Json::object([
        ("starts", Json::from(s.starts)),
        ("failures", s.failures.into()),
        ("exit_codes", Json::object(s.exit_codes.iter().map(|(code, n)| (code.to_string(), Json::from(*n))))),
        ("all_exited_ns", summary(&s.all_exited_ns)),
        ("starts_per_second", rate.map(|(r, _)| r).into()),
        ("starts_per_second_ci95", rate.and_then(|(_, ci)| ci).map(Json::array).into()),
        ("fork_all_ns", summary(&s.fork_ns)),
        ("start_to_exit_ns", summary(&s.start_ns)),
        ("cpu_ns", summary(&s.cpu_ns)),
        ("minflt", summary(&s.minflt)),
        ("majflt", summary(&s.majflt)),
        ("nvcsw", summary(&s.nvcsw)),
        ("nivcsw", summary(&s.nivcsw)),
        ("processors_busy", s.busy.into()),
        ("observed", s.observed.as_ref().map(observed).into()),
    ])
}

fn observed(o: &Observed) -> Json {
    Json::object([
        ("starts", Json::from(o.starts)),
        ("elapsed_ns", o.elapsed_ns.into()),
        ("running_ns", o.running_ns.into()),
        ("waiting_ns", o.waiting_ns.into()),
        ("blocked_ns", o.blocked_ns.into()),
        ("late_ns", o.late_ns.into()),
    ])
}
