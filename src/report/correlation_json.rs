//! A correlation as JSON.

use crate::json::Json;
use crate::record::correlation::{Correlation, Fitted, Term};
use crate::record::observations::{COUNTS, Collected, Observation};

/// The document, schema `premain.correlate/1`.
pub fn document(c: &Correlation, collected: &Collected) -> Json {
    let worst = c.worst_first().first().map(|f| f.name.as_str());
    Json::object([
        ("schema", "premain.correlate/1".into()),
        ("tool_version", env!("CARGO_PKG_VERSION").into()),
        ("metric", c.metric.as_str().into()),
        ("terms", Json::array(c.terms.iter().map(term))),
        ("constant_counts", Json::array(c.constant.iter().copied())),
        ("r_squared", c.r_squared.into()),
        ("condition", c.condition.into()),
        ("left_out_error_p50", c.left_out_error[0].into()),
        ("left_out_error_p90", c.left_out_error[1].into()),
        ("worst", worst.into()),
        ("programs", Json::array(c.programs.iter().zip(&collected.observations).map(program))),
        ("without_facts", Json::array(collected.without_facts.iter().map(|t| t.name.as_str()))),
        ("without_time", Json::array(collected.without_time.iter().map(String::as_str))),
    ])
}

fn term(t: &Term) -> Json {
    Json::object([
        ("name", t.name.into()),
        ("unit", t.unit.into()),
        ("unit_ns", t.unit_ns.into()),
        ("ci95", t.ci95.map(Json::array).into()),
        ("held", t.held.into()),
        ("programs", t.programs.into()),
        ("share", t.share.into()),
        ("rank_correlation", t.rank_correlation.into()),
    ])
}

fn program((f, o): (&Fitted, &Observation)) -> Json {
    let counts = COUNTS.iter().zip(&o.counts).map(|(c, n)| (c.name, Json::from(*n as u64)));
    let whole = |ns: f64| if ns.is_finite() { Json::from(ns.max(0.0).round() as u64) } else { Json::Null };
    Json::object([
        ("name", f.name.as_str().into()),
        ("measured_ns", whole(f.measured_ns)),
        ("measured_ci95", f.measured_ci95.map(|ci| Json::array(ci.map(whole))).into()),
        ("fitted_ns", whole(f.fitted_ns)),
        ("left_out_ns", whole(f.left_out_ns)),
        ("deviation", f.deviation().into()),
        ("left_out_deviation", f.left_out_deviation().into()),
        ("counts", Json::object(counts)),
    ])
}
