//! The JSON of a check, schema `premain.check/1`.

use crate::json::Json;
use crate::record::bench::BenchRecord;
use crate::record::check::{Checked, Evidence, Row, overall, verdict};
use crate::record::counts::Range;
use crate::report::bench_json;
use crate::stat::unpaired::Normalised;

/// The document.
pub fn document(c: &Checked, r: &BenchRecord) -> Json {
    let programs = c.baseline.commands.iter().zip(&c.old).map(|(stored, old)| {
        Json::object([
            ("name", Json::from(stored.name.as_str())),
            ("path", stored.path.as_os_str().into()),
            ("sha256", stored.sha256.as_str().into()),
            ("state", old.word().into()),
            ("run_from", old.path().map(|p| p.as_os_str()).into()),
        ])
    });
    let mut d = Json::object([
        ("schema", Json::from("premain.check/1")),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("outcome", overall(&c.rows).word().into()),
        (
            "baseline",
            Json::object([
                ("file", Json::from(c.file.as_os_str())),
                ("tool_version", c.baseline.tool_version.as_str().into()),
                (
                    "host",
                    Json::object([
                        ("kernel", Json::from(c.baseline.host.kernel.as_deref())),
                        ("cpu_model", c.baseline.host.cpu_model.as_deref().into()),
                        ("cpus_online", c.baseline.host.cpus.into()),
                    ]),
                ),
                ("programs", Json::array(programs)),
            ]),
        ),
        ("strict_confidence", c.confidence.into()),
        ("gates", Json::array(c.rows.iter().map(row))),
    ]);
    // The run itself, as `bench` would show it.
    for key in ["setting", "commands", "control", "noise", "host"] {
        if let Some(value) = bench_json::document(r).get(key) {
            d.push(key, value.clone());
        }
    }
    d.push("warnings", Json::array(c.warnings.iter().chain(&r.warnings).map(String::as_str)));
    d
}

fn range(r: Option<Range>) -> Json {
    r.map(|r| if r.min == r.max { Json::from(r.min) } else { Json::array([r.min, r.max]) }).into()
}

fn row(r: &Row) -> Json {
    let mut j = Json::object([
        ("command", Json::from(r.command.as_str())),
        ("metric", r.metric.name.into()),
        ("field", r.metric.field.into()),
        ("gated", r.gated.into()),
        ("outcome", r.outcome.word().into()),
        ("baseline", range(r.before)),
        ("now", range(r.now)),
        ("limit", r.limit.into()),
        ("verdict", verdict(r).map(|v| v.word()).into()),
    ]);
    let kind = match &r.evidence {
        Evidence::Paired(..) => "paired",
        Evidence::Stored(_) => "stored",
        Evidence::Counted(..) => "counted",
        Evidence::Missing(_) => "missing",
    };
    j.push("evidence", kind);
    match &r.evidence {
        Evidence::Paired(v, strict) => {
            let mut paired = bench_json::versus(v, r.limit);
            paired.push("strict_ratio_ci", strict.map(Json::array));
            j.push("paired", paired);
        }
        Evidence::Stored(n) => j.push("stored", stored(n)),
        Evidence::Missing(why) => j.push("reason", why.as_str()),
        Evidence::Counted(..) => {}
    }
    j
}

fn stored(n: &Normalised) -> Json {
    Json::object([
        ("ratio", Json::from(n.ratio)),
        ("ratio_ci95", n.ci95.map(Json::array).into()),
        ("control_ratio", n.control_ratio.into()),
        ("delta", n.delta.into()),
    ])
}
