//! The JSON of a sweep, schema `premain.sweep/1`: a bench whose `commands[]` carry the parameter's value, and the line.

use crate::json::Json;
use crate::record::sweep::SweepRecord;
use crate::report::bench_json;
use crate::stat::sweep::{Departure, SweepLine};

/// The document.
pub fn document(s: &SweepRecord) -> Json {
    let mut d = bench_json::document(&s.bench);
    let p = &s.parameter;
    if let Json::Object(fields) = &mut d {
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                ("schema", value) => *value = "premain.sweep/1".into(),
                ("commands", Json::Array(list)) => {
                    for (i, (j, value)) in list.iter_mut().zip(&p.values).enumerate() {
                        j.push("parameters", Json::object([(p.name.as_str(), Json::from(value.as_str()))]));
                        j.push("x", p.x.as_ref().and_then(|x| x.get(i)).copied());
                    }
                }
                _ => {}
            }
        }
    }
    d.push("command", s.command.as_str());
    d.push(
        "parameter",
        Json::object([
            ("name", Json::from(p.name.as_str())),
            ("kind", p.kind.name().into()),
            ("values", Json::array(p.values.iter().map(String::as_str))),
        ]),
    );
    d.push("metric", s.field);
    d.push("line", s.line.as_ref().map(line));
    d
}

fn line(l: &SweepLine) -> Json {
    let ci = |ci: Option<[f64; 2]>| Json::from(ci.map(Json::array));
    let departure = |d: &Departure| {
        Json::object([("distance", Json::from(d.distance)), ("ci", ci(d.ci)), ("shown", d.is_shown().into())])
    };
    Json::object([
        ("rounds", Json::from(l.rounds)),
        ("slope", l.slope.into()),
        ("slope_ci95", ci(l.slope_ci95)),
        ("intercept", l.intercept.into()),
        ("intercept_ci95", ci(l.intercept_ci95)),
        ("straight", l.is_straight().into()),
        ("within", l.within().into()),
        ("departures", Json::array(l.departures.iter().map(departure))),
    ])
}
