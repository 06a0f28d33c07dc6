//! The JSON of `premain stat`, schema `premain.stat/1`.

use super::bench_json::{summary_json, versus};
use super::columns_text::DataSet;
use crate::json::Json;
use crate::record::stored::{Compared, Outcome, StoredComparison};
use crate::stat::ministat::{MeanDifference, pooled, welch};
use crate::stat::rank::rank_sum;
use crate::stat::unpaired::{Normalised, Unpaired};

fn head(kind: &str) -> Json {
    Json::object([("schema", "premain.stat/1".into()), ("kind", kind.into())])
}

fn interval(ci: Option<[f64; 2]>) -> Json {
    ci.map(Json::array).into()
}

/// Columns of numbers; the first is the reference.
pub fn document(sets: &[DataSet], confidence: f64) -> Json {
    let mut j = head("columns");
    j.push("confidence", confidence);
    j.push("sets", Json::array(sets.iter().map(set)));
    let compared =
        sets.split_first().map_or(Vec::new(), |(r, rest)| rest.iter().map(|s| difference(r, s, confidence)).collect());
    j.push("comparisons", Json::Array(compared));
    j
}

fn set(s: &DataSet) -> Json {
    let c = &s.column;
    Json::object([
        ("name", s.name.as_str().into()),
        ("n", c.n.into()),
        ("min", c.min.into()),
        ("max", c.max.into()),
        ("median", c.median.into()),
        ("mean", c.mean.into()),
        ("stddev", c.stddev().into()),
    ])
}

fn difference(reference: &DataSet, s: &DataSet, confidence: f64) -> Json {
    let rank = rank_sum(&reference.values, &s.values);
    Json::object([
        ("reference", reference.name.as_str().into()),
        ("candidate", s.name.as_str().into()),
        ("pooled", pooled(&reference.column, &s.column, confidence).map(|d| means(&d)).into()),
        ("welch", welch(&reference.column, &s.column, confidence).map(|d| means(&d)).into()),
        ("rank_sum_p_value", rank.map(|r| r.p_value).into()),
    ])
}

fn means(d: &MeanDifference) -> Json {
    Json::object([
        ("difference", d.difference.into()),
        ("half_width", d.half_width.into()),
        ("percent", d.percent.into()),
        ("percent_half_width", d.percent_half_width.into()),
        ("degrees_of_freedom", d.df.into()),
        ("p_value", d.p_value.into()),
        ("pooled_stddev", d.pooled_stddev.into()),
        ("difference_shown", d.shown().into()),
    ])
}

/// Stored samples.
pub fn stored(c: &StoredComparison) -> Json {
    let mut j = head("samples");
    j.push("metric", c.metric.as_str());
    let entry = |e: &crate::record::stored::Entry| {
        Json::object([
            ("file", e.file.as_str().into()),
            ("command", e.name.as_str().into()),
            ("summary", summary_json(&e.summary)),
        ])
    };
    j.push("commands", Json::array(c.entries.iter().map(entry)));
    j.push("comparisons", Json::array(c.compared.iter().map(outcome)));
    j.push("warnings", Json::array(c.warnings.iter().map(String::as_str)));
    j
}

fn outcome(c: &Compared) -> Json {
    let mut j = Json::object([("reference", c.reference.as_str().into()), ("candidate", c.candidate.as_str().into())]);
    match &c.outcome {
        Outcome::Paired(v, delta) => j.push("paired", versus(v, *delta)),
        Outcome::Unpaired(u, over) => {
            j.push("unpaired", unpaired(u));
            j.push("over_control", over.as_ref().map(over_control));
        }
        Outcome::NoRatio => j.push("reason", "a value is zero, so there is no ratio"),
    }
    j
}

fn unpaired(u: &Unpaired) -> Json {
    Json::object([
        ("median_ratio", u.median_ratio.into()),
        ("shift_ratio", u.shift_ratio.into()),
        ("shift_ratio_ci95", interval(u.shift_ci95)),
        ("p_value", u.p_value.into()),
    ])
}

fn over_control(n: &Normalised) -> Json {
    Json::object([
        ("control_ratio", n.control_ratio.into()),
        ("ratio", n.ratio.into()),
        ("ratio_ci95", interval(n.ci95)),
        ("delta", n.delta.into()),
        ("weak_verdict", n.verdict.word().into()),
    ])
}
