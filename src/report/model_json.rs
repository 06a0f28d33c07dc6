//! The host model and its predictions as JSON.

use crate::json::Json;
use crate::model::calibrate::Row;
use crate::model::check::Checked;
use crate::model::fit::{COUNT, Costs, FamilyModel, Span, median_of};
use crate::model::predict::Prediction;
use crate::model::store::Model;
use crate::model::work::TERMS;

fn pair(values: [f64; 2]) -> Json {
    Json::array(values.iter().map(|x| Json::Float(*x)))
}

fn whole(ns: f64) -> Json {
    Json::Int(ns.round() as i64)
}

/// `calibrate --json`: the stored model, with its terms in one list, and the programs that it was fitted on.
pub fn calibrate(model: &Model, rows: &[Row], skipped: &[(String, String)]) -> Json {
    let mut stored = model.to_json();
    let terms = model.families.iter().flat_map(family_terms).collect::<Vec<_>>();
    stored.push("terms", Json::Array(terms));
    Json::object([
        ("schema", Json::Str("premain.calibrate/1".to_string())),
        ("model", stored),
        ("rows", Json::array(rows.iter().map(|r| row(model, r)))),
        ("skipped", skipped_json(skipped)),
    ])
}

/// A program of the fit: its work, what its start took and what the costs make of it, to the entry point and behind.
fn row(model: &Model, row: &Row) -> Json {
    let about = &row.about;
    let counts = TERMS.iter().zip(&about.work.counts).filter(|(_, n)| **n != 0.0);
    let measured = |span| median_of(&row.readings, span, None).map_or(Json::Null, whole);
    // Static programs are in the fit of every family; any family's costs say the same of them.
    let family = model.family(about.family).or(model.families.first());
    let fitted =
        |costs: fn(&FamilyModel) -> &Costs| family.map_or(Json::Null, |f| whole(costs(f).time(&about.work.counts)));
    Json::object([
        ("name", Json::Str(about.name.clone())),
        ("family", Json::Str(about.family.name().to_string())),
        ("library", about.library.as_ref().map_or(Json::Null, |p| Json::os(p.as_os_str()))),
        ("measured_ns", measured(Span::Entry)),
        ("fitted_ns", fitted(|f| &f.entry)),
        ("measured_end_ns", measured(Span::End)),
        ("fitted_end_ns", fitted(|f| &f.end)),
        ("counts", Json::object(counts.map(|(t, n)| (t.name, Json::Float(*n))))),
    ])
}

fn skipped_json(skipped: &[(String, String)]) -> Json {
    let one = |(what, why): &(String, String)| {
        Json::object([("name", Json::Str(what.clone())), ("reason", Json::Str(why.clone()))])
    };
    Json::array(skipped.iter().map(one))
}

fn family_terms(family: &FamilyModel) -> Vec<Json> {
    let term = |j: usize| {
        Json::object([
            ("family", Json::Str(family.family.name().to_string())),
            ("name", Json::Str(TERMS[j].name.to_string())),
            ("unit", Json::Str(TERMS[j].unit.to_string())),
            ("unit_ns", Json::Float(family.entry.unit_ns[j])),
            ("ci95", pair(family.entry.ci95[j])),
            ("end_unit_ns", Json::Float(family.end.unit_ns[j])),
            ("end_ci95", pair(family.end.ci95[j])),
        ])
    };
    (0..COUNT).filter(|j| family.known[*j]).map(term).collect()
}

/// One `files[]` entry of `predict --json`.
pub fn prediction(path: &std::path::Path, p: &Prediction) -> Json {
    let term = |s: &crate::model::predict::Share| {
        Json::object([
            ("name", Json::Str(s.name.clone())),
            ("unit", Json::Str(s.unit.clone())),
            ("count", Json::Float(s.count)),
            ("unit_ns", Json::Float(s.unit_ns)),
            ("ns", whole(s.ns)),
        ])
    };
    Json::object([
        ("path", Json::os(path.as_os_str())),
        ("family", Json::Str(p.family.name().to_string())),
        ("predicted_ns", predicted(p)),
        ("predicted_own_init_ns", whole(p.own_init_ns)),
        ("predicted_end_ns", whole(p.end_ns)),
        ("terms", Json::array(p.terms.iter().map(term))),
        ("unknown_init_functions", Json::Uint(p.unknown_init as u64)),
    ])
}

/// The prediction and its interval.
pub fn predicted(p: &Prediction) -> Json {
    Json::object([("value", whole(p.value_ns)), ("ci95", Json::array(p.ci95.iter().map(|x| whole(*x))))])
}

/// `predict --json`: files that were predicted, and those that were not.
pub fn predict(files: Vec<Json>) -> Json {
    Json::object([("schema", Json::Str("premain.predict/1".to_string())), ("files", Json::Array(files))])
}

/// `predict --check --json`.
pub fn checked(checked: &Checked) -> Json {
    let file = |row: &crate::model::check::Program| {
        let mut j = prediction(std::path::Path::new(&row.name), &row.prediction);
        j.push("measured_ns", whole(row.measured_ns));
        j.push("measured_end_ns", whole(row.measured_end_ns));
        j.push("page_faults", Json::Float(row.page_faults));
        j.push("error", Json::Float(row.error()));
        j.push("inside", Json::Bool(row.is_inside()));
        j
    };
    let mut document = predict(checked.programs.iter().map(file).collect());
    let summary = checked.summary().map_or(Json::Null, |s| {
        Json::object([
            ("programs", Json::Uint(checked.programs.len() as u64)),
            ("median_absolute_error", Json::Float(s.median)),
            ("p90_absolute_error", Json::Float(s.p90)),
            ("bias", Json::Float(s.bias)),
            ("coverage", Json::Float(s.coverage)),
            ("drift", Json::Float(checked.drift)),
            ("rounds", Json::Uint(checked.rounds as u64)),
        ])
    });
    document.push("summary", summary);
    document.push("skipped", skipped_json(&checked.skipped));
    document
}
