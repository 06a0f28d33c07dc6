//! The JSON of a suite, schema `premain.suite/1`: a bench whose `commands[]` carry `case` and `bin` too.

use crate::json::Json;
use crate::record::suite::SuiteRecord;
use crate::report::bench_json;
use crate::report::export::{self, Arms};

/// The document.
pub fn document(s: &SuiteRecord) -> Json {
    let mut d = bench_json::document(&s.bench);
    if let Json::Object(fields) = &mut d {
        for (key, value) in fields.iter_mut() {
            match (key.as_str(), value) {
                ("schema", value) => *value = "premain.suite/1".into(),
                ("commands", Json::Array(list)) => {
                    for (j, (arm, command)) in list.iter_mut().zip(s.rows()) {
                        j.push("case", arm.case.as_str());
                        j.push("bin", arm.binary.as_str());
                        j.push("output_mark", s.output_mark(command).map(|m| m.word().to_lowercase()));
                    }
                }
                _ => {}
            }
        }
    }
    d.push("name", s.name.as_str());
    d
}

/// The same with every sample.
pub fn with_samples(document: Json, arms: &Arms) -> Json {
    export::with_samples(document, arms)
}
