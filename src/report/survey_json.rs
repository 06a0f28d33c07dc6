//! One program of a survey as one JSON object, and what is read back from such a line to rank it.

use crate::facts::LinkFacts;
use crate::json::Json;
use crate::loader::Closure;
use crate::model::predict::Prediction;
use crate::report::survey_text::Outcome;
use crate::report::{closure_json, facts_json, model_json};

/// What programs are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Key {
    /// Pages that relocations write, over the closure.
    #[default]
    Pages,
    /// Relocations over the closure.
    Relocations,
    /// Symbol look-ups at start.
    Lookups,
    /// Objects mapped.
    Objects,
    /// Size of the file.
    Size,
    /// Predicted time from execve to the entry point.
    Predicted,
}

/// The keys by their names in flags.
pub const KEYS: [(&str, Key); 6] = [
    ("pages", Key::Pages),
    ("relocations", Key::Relocations),
    ("lookups", Key::Lookups),
    ("objects", Key::Objects),
    ("size", Key::Size),
    ("predicted", Key::Predicted),
];

/// A condition on a field of a line: `kind=pie,exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Name of the field, inner ones behind dots.
    pub field: String,
    /// Any of these words.
    pub values: Vec<String>,
}

impl Filter {
    /// Reads `field=value[,value…]`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Filter, String> {
        match text.split_once('=') {
            Some((field, values)) if !field.is_empty() => {
                Ok(Filter { field: field.to_string(), values: values.split(',').map(str::to_string).collect() })
            }
            _ => Err("expected FIELD=VALUE, such as kind=pie,exec".to_string()),
        }
    }

    fn holds(&self, line: &Json) -> bool {
        let mut value = Some(line);
        for part in self.field.split('.') {
            value = value.and_then(|v| v.get(part));
        }
        let is_wanted = |v: &Json| match v {
            Json::Str(s) => self.values.iter().any(|w| w == s),
            Json::Null => self.values.iter().any(|w| w == "null"),
            other => self.values.contains(&other.to_string()),
        };
        match value {
            Some(Json::Array(items)) => items.iter().any(is_wanted),
            Some(value) => is_wanted(value),
            None => false,
        }
    }
}

/// Kinds that are ranked where no filter names kinds: what can be started.
const PROGRAMS: [&str; 4] = ["static", "static-pie", "exec", "pie"];

/// True where a line is to be shown. `kind=any` takes all kinds.
pub fn passes(line: &Json, filters: &[Filter]) -> bool {
    let kind = line.get("kind").and_then(Json::as_str).unwrap_or_default();
    let names_kinds = filters.iter().any(|f| f.field == "kind");
    let any_kind = |f: &Filter| f.field == "kind" && f.values.iter().any(|v| v == "any");
    (names_kinds || PROGRAMS.contains(&kind)) && filters.iter().all(|f| any_kind(f) || f.holds(line))
}

/// The line of one file: its facts as `inspect` has them but for the segments, the sums of its closure, in `work` the
/// figures that rank it, and a prediction where one was asked for.
pub fn line(facts: &LinkFacts, closure: Option<&Closure>, prediction: Option<&Prediction>) -> Json {
    let mut j = facts_json::file(facts);
    drop_segments(&mut j);
    j.push("work", work(facts, closure));
    if let Some(p) = prediction {
        j.push("predicted_ns", model_json::predicted(p));
    }
    j.push("closure", closure.map_or(Json::Null, sums));
    j
}

fn drop_segments(line: &mut Json) {
    let Json::Object(fields) = line else { return };
    for (name, value) in fields {
        if let (true, Json::Object(inner)) = (name == "elf" || name == "macho", value) {
            inner.retain(|(name, _)| name != "segments");
        }
    }
}

fn work(facts: &LinkFacts, closure: Option<&Closure>) -> Json {
    let Some(c) = closure else {
        return Json::object([
            ("objects", Json::Null),
            ("relocations", facts.relocations.total().into()),
            ("lookups", Json::Null),
            ("pages_written", facts.pages_written.into()),
        ]);
    };
    let relocations = c.objects.iter().fold(0u64, |sum, o| sum.saturating_add(o.relocations.total()));
    Json::object([
        ("objects", Json::from(c.totals.objects)),
        ("relocations", relocations.into()),
        ("lookups", c.totals.lookups.into()),
        ("pages_written", c.totals.pages_written.into()),
    ])
}

fn sums(c: &Closure) -> Json {
    let missing = c.missing.iter().filter(|m| !m.ignored).map(|m| String::from_utf8_lossy(&m.name).into_owned());
    Json::object([
        ("loader", c.loader.as_ref().map_or(Json::Null, |l| l.path.as_os_str().into())),
        ("totals", closure_json::totals(&c.totals)),
        ("missing", Json::array(missing)),
        ("fatal", c.fatal.clone().into()),
    ])
}

/// What ranks a line, and the line itself where it is to be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Path, as text.
    pub path: String,
    /// Kind.
    pub kind: String,
    /// File of lines that it came from.
    pub source: Option<String>,
    /// Figures in the order of [`KEYS`].
    pub figures: [Option<u64>; KEYS.len()],
    /// Names of libraries that are not found.
    pub missing: u64,
    /// The line.
    pub line: Option<Json>,
}

impl Row {
    /// Reads a line. `keep` says whether the line itself is needed later.
    pub fn of(line: Json, source: Option<&str>, keep: bool) -> Row {
        let work = |name: &str| line.get("work").and_then(|w| w.get(name)).and_then(Json::as_u64);
        let missing = line.get("closure").and_then(|c| c.get("missing")).and_then(Json::as_array);
        Row {
            path: line.get("path").map(path_text).unwrap_or_default(),
            kind: line.get("kind").and_then(Json::as_str).unwrap_or_default().to_string(),
            source: source.map(str::to_string),
            figures: [
                work("pages_written"),
                work("relocations"),
                work("lookups"),
                work("objects"),
                line.get("size_bytes").and_then(Json::as_u64),
                line.get("predicted_ns").and_then(|p| p.get("value")).and_then(Json::as_u64),
            ],
            missing: missing.map_or(0, |m| m.len() as u64),
            line: keep.then_some(line),
        }
    }

    /// The figure of a key; absent ones rank last.
    pub fn figure(&self, key: Key) -> Option<u64> {
        let index = KEYS.iter().position(|(_, k)| *k == key);
        index.and_then(|i| self.figures[i])
    }
}

/// A path of a line as text: one that is not UTF-8 is an object with a lossy form.
pub fn path_text(path: &Json) -> String {
    let text = path.as_str().or_else(|| path.get("lossy").and_then(Json::as_str));
    text.unwrap_or_default().to_string()
}

/// The document of `survey --json`, schema `premain.survey/1`.
pub fn document(rows: &[Row], bad: Vec<Json>, outcome: &Outcome) -> Json {
    let files = rows.iter().map(|row| {
        let mut line = row.line.clone().unwrap_or(Json::Null);
        if let Some(source) = &row.source {
            line.push("source", source.as_str());
        }
        line
    });
    Json::object([
        ("schema", "premain.survey/1".into()),
        ("files_seen", outcome.files.into()),
        ("programs", outcome.shown.into()),
        ("files", Json::Array(files.collect())),
        ("bad", Json::Array(bad)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Json {
        Json::parse(
            r#"{"path":"/bin/x","kind":"pie","size_bytes":9,"bind_now":false,"relro":{"kind":"none"},
                "needed":["liba.so","libc.so.6"],"work":{"objects":3,"relocations":40,"lookups":null,"pages_written":7},
                "closure":{"missing":["libq.so"]}}"#,
        )
        .unwrap()
    }

    #[test]
    fn filters_read_fields_of_lines() {
        let line = sample();
        for (filter, holds) in [
            ("kind=pie", true),
            ("kind=exec,pie", true),
            ("kind=shared", false),
            ("kind=any", true),
            ("relro.kind=none", true),
            ("bind_now=true", false),
            ("bind_now=false", true),
            ("needed=liba.so", true),
            ("needed=liba", false),
            ("work.objects=3", true),
            ("work.lookups=null", true),
            ("no.such.field=1", false),
        ] {
            assert_eq!(passes(&line, &[Filter::parse(filter).unwrap()]), holds, "{filter}");
        }
        assert!(passes(&line, &[]));
        let mut library = line;
        if let Json::Object(fields) = &mut library {
            fields[1].1 = "shared".into();
        }
        assert!(!passes(&library, &[]));
        assert!(Filter::parse("kind").is_err() && Filter::parse("=x").is_err());
    }

    #[test]
    fn a_row_is_read_back_from_a_line() {
        let row = Row::of(sample(), Some("a.jsonl"), false);
        assert_eq!(row.figures, [Some(7), Some(40), None, Some(3), Some(9), None]);
        assert_eq!((row.path.as_str(), row.missing, row.line), ("/bin/x", 1, None));
    }
}
