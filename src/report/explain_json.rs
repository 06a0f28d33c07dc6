//! The JSON of `explain`: `facts` as in `inspect`, `command` as in `bench`, `phases[]`, `findings[]`.

use crate::json::Json;
use crate::report::accounting;
use crate::report::bench_json;
use crate::report::closure_json;
use crate::report::explain::Explained;
use crate::report::facts_json;
use crate::report::findings::Finding;
use crate::report::host_json;
use crate::report::model_json;
use crate::report::trace::json as trace_json;
use crate::trace::summary::PhaseRow;

/// The document of `explain --json`, schema `premain.explain/1`.
pub fn document(e: &Explained) -> Json {
    let mut facts = e.program().map_or(Json::Null, facts_json::file);
    facts.push(
        "closure",
        match &e.closure {
            Ok(c) => closure_json::closure(c),
            Err(why) => Json::unreadable(why.as_str()),
        },
    );
    let hops = e.files.split_last().map_or(&[][..], |(_, scripts)| scripts);
    let command = e.bench.commands.first().map_or(Json::Null, |c| bench_json::command(&e.bench, c));
    Json::object([
        ("schema", "premain.explain/1".into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("facts", facts),
        ("scripts", Json::array(hops.iter().map(facts_json::file))),
        ("command", command),
        ("control", bench_json::command(&e.bench, &e.bench.control)),
        ("noise", bench_json::noise(&e.bench)),
        ("host", host_json::record(&e.bench.host)),
        ("setting", bench_json::setting(&e.bench)),
        ("phases_backend", e.phases.as_ref().map_or(Json::Null, |p| p.study.means.backend().into())),
        ("phases_untraced_total_ns", e.phases.as_ref().ok().and_then(|p| p.summary.untraced_median_ns).into()),
        (
            "phases",
            match &e.phases {
                Ok(p) => Json::array(p.summary.phases.iter().map(|row| phase(e, row))),
                Err(why) => Json::unreadable(why.as_str()),
            },
        ),
        (
            "predicted",
            match &e.accounted {
                Ok(a) => {
                    let path = e.program().map_or(std::path::Path::new(""), |f| &f.path);
                    accounting::json(a, model_json::prediction(path, &a.prediction))
                }
                Err(why) => Json::unreadable(why.as_str()),
            },
        ),
        ("findings", Json::array(e.findings.iter().map(finding))),
        ("warnings", Json::array(e.bench.warnings.iter().map(String::as_str))),
    ])
}

/// A phase as in `trace`, with what the host model predicts for it.
fn phase(e: &Explained, row: &PhaseRow) -> Json {
    let mut json = trace_json::phase(row);
    json.push("predicted_ns", e.predicted(row.name).map_or(Json::Null, |ns| Json::Int(ns.round() as i64)));
    json
}

fn finding(f: &Finding) -> Json {
    Json::object([
        ("text", Json::from(f.text.as_str())),
        ("kind", f.source.name().into()),
        ("saving_ns", f.saving_ns.into()),
        ("weight_ns", f.weight_ns.into()),
    ])
}
