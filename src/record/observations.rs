//! Programs with what was counted in their files and what their starts took, out of result documents: benches,
//! inspections, and the experiments of `linker-experiments/`, which hold both.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::json::Json;

/// A count that a start may pay for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Its name in output and on the command line.
    pub name: &'static str,
    /// What one unit is.
    pub unit: &'static str,
}

const fn count(name: &'static str, unit: &'static str) -> Count {
    Count { name, unit }
}

/// Everything counted, in the order of [`Observation::counts`].
pub const COUNTS: &[Count] = &[
    count("start", "a start of any program"),
    count("glibc", "glibc, dynamic or static"),
    count("loader", "a dynamic loader"),
    count("object", "an object beyond the program"),
    count("page written", "a page that relocations write"),
    count("relative", "a relative relocation with a record"),
    count("relr", "a packed relative relocation"),
    count("look-up", "a symbol looked up before main"),
    count("cached", "a relocation for the symbol of the one before"),
    count("probe", "a further object asked for a symbol"),
    count("failed open", "an open or stat that fails"),
    count("irelative", "a relocation through a resolver"),
    count("init function", "a function called before main"),
];

/// One program.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// As its document names it.
    pub name: String,
    /// Median of the metric, nanoseconds.
    pub time_ns: f64,
    /// Its 95 % interval.
    pub time_ci95: Option<[f64; 2]>,
    /// In the order of [`COUNTS`].
    pub counts: Vec<f64>,
}

/// What was found in all documents so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// Programs with both a time and counts.
    pub observations: Vec<Observation>,
    /// Commands whose facts no document has: name, path, time, interval.
    pub without_facts: Vec<Timed>,
    /// Commands without a value of the metric.
    pub without_time: Vec<String>,
}

/// A command of a bench.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Its name.
    pub name: String,
    /// The program.
    pub path: String,
    /// Median of the metric, nanoseconds.
    pub time_ns: f64,
    /// Its 95 % interval.
    pub time_ci95: Option<[f64; 2]>,
}

impl Timed {
    /// The observation, given an entry of an inspection's `files`.
    pub fn with_facts(&self, file: &Json) -> Option<Observation> {
        Some(Observation {
            name: self.name.clone(),
            time_ns: self.time_ns,
            time_ci95: self.time_ci95,
            counts: counts(file)?,
        })
    }
}

/// The documents of one file: a whole one, or one a line.
///
/// # Errors
/// Where it is neither.
pub fn documents(text: &str) -> Result<Vec<Json>> {
    match Json::parse(text) {
        Ok(document) => Ok(vec![document]),
        // The message for the whole text places the fault better, unless the first line stands alone.
        Err(whole) => {
            let lines = text.lines().filter(|l| !l.trim().is_empty());
            lines.map(Json::parse).collect::<Result<Vec<Json>>>().map_err(|_| whole)
        }
    }
}

/// Joins benches and inspections: facts within an experiment by position, else by the path of the program.
///
/// # Errors
/// A document of another kind, or none with commands.
pub fn collect(documents: &[(String, Json)], metric: &str) -> Result<Collected> {
    let mut collected = Collected::default();
    let mut files = BTreeMap::new();
    let mut benches = Vec::new();
    for (name, document) in documents {
        match document.get("schema").and_then(Json::as_str) {
            Some("premain.bench/1") => benches.push(document),
            Some("premain.inspect/1") => files.extend(by_path(document)),
            Some("premain.experiment/1") => experiment(document, metric, &mut collected),
            Some(other) => return Err(Error::new(format!("has schema {other}")).context(name.as_str())),
            // A line of `inspect --jsonl` is a file by itself.
            None => match path_of(document).filter(|_| document.get("relocations").is_some()) {
                Some(path) => drop(files.insert(path, document)),
                None => return Err(Error::new("is JSON of neither bench nor inspect").context(name.as_str())),
            },
        }
    }
    for bench in benches {
        for timed in timed_commands(bench, metric, &mut collected.without_time) {
            match files.get(&timed.path).and_then(|f| timed.with_facts(f)) {
                Some(observation) => collected.observations.push(observation),
                None => collected.without_facts.push(timed),
            }
        }
    }
    Ok(collected)
}

fn by_path(inspection: &Json) -> impl Iterator<Item = (String, &Json)> {
    let files = inspection.get("files").and_then(Json::as_array).unwrap_or_default();
    files.iter().filter_map(|f| Some((path_of(f)?, f)))
}

fn path_of(file: &Json) -> Option<String> {
    file.get("path").and_then(Json::as_str).map(str::to_string)
}

/// Both halves of an experiment list the same programs in the same order.
fn experiment(document: &Json, metric: &str, collected: &mut Collected) {
    let Some(bench) = document.get("bench") else { return };
    let files: BTreeMap<String, &Json> = document.get("inspect").map(|i| by_path(i).collect()).unwrap_or_default();
    for timed in timed_commands(bench, metric, &mut collected.without_time) {
        match files.get(&timed.path).and_then(|f| timed.with_facts(f)) {
            Some(observation) => collected.observations.push(observation),
            None => collected.without_facts.push(timed),
        }
    }
}

fn timed_commands(bench: &Json, metric: &str, without: &mut Vec<String>) -> Vec<Timed> {
    let mut out = Vec::new();
    for command in bench.get("commands").and_then(Json::as_array).unwrap_or_default() {
        let text = |key: &str| command.get(key).and_then(Json::as_str).unwrap_or("").to_string();
        let summary = command.get(metric);
        let value = summary.and_then(|s| s.get("p50")).and_then(Json::as_f64).filter(|t| *t > 0.0);
        let Some(time_ns) = value else {
            without.push(text("name"));
            continue;
        };
        let interval = summary.and_then(|s| s.get("p50_ci95")).and_then(Json::as_array);
        let ends = interval.map(|i| i.iter().filter_map(Json::as_f64).collect::<Vec<f64>>());
        let time_ci95 = ends.and_then(|e| <[f64; 2]>::try_from(e).ok());
        out.push(Timed { name: text("name"), path: text("path"), time_ns, time_ci95 });
    }
    out
}

/// Counts of one entry of an inspection's `files`; `None` where it has no closure that says what is loaded.
pub fn counts(file: &Json) -> Option<Vec<f64>> {
    let closure = file.get("closure")?;
    let totals = closure.get("totals")?;
    let of = |key: &str| totals.get(key).and_then(Json::as_f64).unwrap_or(0.0);
    let yes = |b: bool| if b { 1.0 } else { 0.0 };
    let is_text = |key: &str| file.get(key).is_some_and(|v| *v != Json::Null);
    let glibc = file.get("libc").and_then(Json::as_str) == Some("glibc");
    let values = [
        1.0,
        yes(glibc),
        yes(is_text("interp")),
        of("objects") - 1.0,
        of("pages_written"),
        of("relative"),
        of("relr"),
        of("lookups"),
        of("lookups_cached"),
        (of("probes") - of("lookups")).max(0.0),
        of("failed_opens"),
        irelative(file, closure),
        of("init_functions"),
    ];
    Some(values.to_vec())
}

/// Summed over the objects where they are listed; a kept experiment has the sum.
fn irelative(file: &Json, closure: &Json) -> f64 {
    let one = |f: &Json| f.get("relocations").and_then(|r| r.get("irelative")).and_then(Json::as_f64).unwrap_or(0.0);
    let kept = closure.get("totals").and_then(|t| t.get("irelative")).and_then(Json::as_f64);
    let objects = closure.get("objects").and_then(Json::as_array);
    kept.or_else(|| objects.map(|o| o.iter().map(one).sum())).unwrap_or_else(|| one(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"path":"/bin/a","interp":"/lib/ld.so","libc":"glibc","relocations":{"irelative":2},
        "closure":{"objects":[{"relocations":{"irelative":2}},{"relocations":{"irelative":40}}],
        "totals":{"objects":3,"relative":10,"relr":5,"lookups":80,"lookups_cached":7,"probes":200,"failed_opens":3,
        "failed_stats":2,"pages_written":12,"init_functions":4}}}"#;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn counts_are_the_closure_s() {
        let c = counts(&json(FILE)).unwrap();
        assert_eq!(c, [1.0, 1.0, 1.0, 2.0, 12.0, 10.0, 5.0, 80.0, 7.0, 120.0, 3.0, 42.0, 4.0]);
        assert_eq!(c.len(), COUNTS.len());
        assert_eq!(counts(&json(r#"{"closure":null}"#)), None);
    }

    #[test]
    fn a_bench_and_an_inspection_meet_by_path() {
        let bench = r#"{"schema":"premain.bench/1","commands":[
            {"name":"a","path":"/bin/a","exec_to_exit_ns":{"p50":500,"p50_ci95":[490,510]}},
            {"name":"b","path":"/bin/b","exec_to_exit_ns":{"p50":600,"p50_ci95":null}},
            {"name":"c","path":"/bin/a","exec_to_exit_ns":null}]}"#;
        let inspect = format!(r#"{{"schema":"premain.inspect/1","files":[{FILE}]}}"#);
        let docs = [("b".to_string(), json(bench)), ("i".to_string(), json(&inspect))];
        let c = collect(&docs, "exec_to_exit_ns").unwrap();
        assert_eq!((c.observations.len(), c.observations[0].time_ci95), (1, Some([490.0, 510.0])));
        assert_eq!((c.without_facts[0].path.as_str(), c.without_time.as_slice()), ("/bin/b", &["c".to_string()][..]));
        // A line of inspect --jsonl does as well.
        let docs = [("b".to_string(), json(bench)), ("l".to_string(), json(FILE))];
        assert_eq!(collect(&docs, "exec_to_exit_ns").unwrap().observations, c.observations);
    }

    #[test]
    fn experiments_hold_both_and_stand_one_a_line() {
        let one = format!(
            r#"{{"schema":"premain.experiment/1","bench":{{"commands":[{{"name":"x/a","path":"/bin/a",
            "cpu_ns":{{"p50":5,"p50_ci95":[4,6]}}}}]}},"inspect":{{"files":[{FILE}]}}}}"#
        )
        .replace('\n', " ");
        let documents = documents(&format!("{one}\n\n{one}\n")).unwrap();
        let named: Vec<(String, Json)> = documents.into_iter().map(|d| ("f".to_string(), d)).collect();
        assert_eq!(collect(&named, "cpu_ns").unwrap().observations.len(), 2);
        let e = collect(&[("f".to_string(), json(r#"{"schema":"premain.trace/1"}"#))], "cpu_ns").unwrap_err();
        assert_eq!(e.to_string(), "f: has schema premain.trace/1");
        assert!(collect(&[("f".to_string(), json("{}"))], "cpu_ns").is_err());
        assert!(super::documents("{\n").is_err());
    }
}
