//! Samples out of the JSON that premain and hyperfine write.
//!
//! premain's artifacts keep whole nanoseconds with the round of each start; hyperfine's keep seconds, one
//! command after another. Both end as nanoseconds here.

use crate::error::{Error, Result};
use crate::json::Json;
use crate::order;

/// Samples of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// The command as its file names it.
    pub name: String,
    /// The metric, in its unit (nanoseconds for times), in the order of measuring.
    pub values: Vec<f64>,
    /// The round of each value, where the file has it: values of one round pair up.
    pub rounds: Option<Vec<u64>>,
}

/// One file of results.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRuns {
    /// What wrote it.
    pub writer: Writer,
    /// One a command.
    pub runs: Vec<StoredRun>,
    /// The control's samples, where the file has them.
    pub control: Option<StoredRun>,
    /// Which metric `values` holds.
    pub metric: String,
    /// Commands that have no value of the metric at all (they wrote nothing, say).
    pub without: Vec<String>,
    /// The smallest difference that the run itself would have named, where the file says.
    pub delta: Option<f64>,
}

/// The program that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// premain.
    Premain,
    /// hyperfine, or a program that writes its form.
    Hyperfine,
}

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// Reads `metric` (a field name such as `spawn_to_exit_ns`) of every command.
///
/// # Errors
/// A document of another kind, without samples, or without that metric.
pub fn stored_runs(document: &Json, metric: &str) -> Result<StoredRuns> {
    let schema = document.get("schema").and_then(Json::as_str);
    match (schema, document.get("commands"), document.get("results")) {
        (Some("premain.bench/1" | "premain.baseline/1"), Some(commands), _) => premain(document, commands, metric),
        (Some(other), ..) if other.starts_with("premain.") => {
            Err(Error::new(format!("holds no samples of a bench: its schema is {other}")))
        }
        (_, _, Some(results)) => hyperfine(results, metric),
        _ => Err(Error::new("is JSON of neither premain nor hyperfine")),
    }
}

fn premain(document: &Json, commands: &Json, metric: &str) -> Result<StoredRuns> {
    let mut runs = Vec::new();
    for command in commands.as_array().unwrap_or_default() {
        let run = premain_run(command, metric)?;
        runs.push(run.ok_or_else(|| Error::new("has summaries and no samples: write it with --export-json"))?);
    }
    let control = control_run(document, metric);
    let delta = document.get("setting").and_then(|s| s.get("delta")).and_then(Json::as_f64);
    some_runs(StoredRuns {
        writer: Writer::Premain,
        runs,
        control,
        metric: metric.to_string(),
        without: Vec::new(),
        delta,
    })
}

/// Both starts of the control in each round, one after the other; without rounds, since each round has two.
fn control_run(document: &Json, metric: &str) -> Option<StoredRun> {
    let starts = document.get("control_samples")?.as_array()?;
    let runs: Vec<StoredRun> = starts.iter().filter_map(|s| columns("control", s, metric).ok()).collect();
    let values: Vec<f64> = runs.into_iter().flat_map(|r| r.values).collect();
    (!values.is_empty()).then(|| StoredRun { name: "control".to_string(), values, rounds: None })
}

/// `None` where the command has no samples.
fn premain_run(command: &Json, metric: &str) -> Result<Option<StoredRun>> {
    let Some(samples) = command.get("samples").filter(|s| **s != Json::Null) else { return Ok(None) };
    let name = command.get("name").and_then(Json::as_str).unwrap_or("");
    columns(name, samples, metric).map(Some)
}

/// The values of command `i` (from 0) of a premain document, none where it has no such samples.
pub fn values_of_command(document: &Json, i: usize, metric: &str) -> Option<Vec<f64>> {
    let command = document.get("commands").and_then(Json::as_array)?.get(i)?;
    let values = premain_run(command, metric).ok()??.values;
    (!values.is_empty()).then_some(values)
}

/// One metric out of samples kept by columns.
fn columns(name: &str, samples: &Json, metric: &str) -> Result<StoredRun> {
    let column = |key: &str| samples.get(key).and_then(Json::as_array);
    let values = column(metric).ok_or_else(|| Error::new(format!("{name}: its samples have no {metric}")))?;
    let rounds = column("round").filter(|r| r.len() == values.len());
    let mut run = StoredRun { name: name.to_string(), values: Vec::new(), rounds: rounds.map(|_| Vec::new()) };
    for (i, value) in values.iter().enumerate() {
        // A start that has no such value (wrote nothing, say) is no sample of it.
        let Some(value) = value.as_f64() else { continue };
        run.values.push(value);
        if let (Some(kept), Some(round)) = (&mut run.rounds, rounds.and_then(|r| r.get(i)).and_then(Json::as_u64)) {
            kept.push(round);
        }
    }
    let complete = |r: &Vec<u64>| r.len() == run.values.len();
    run.rounds = run.rounds.take().filter(complete);
    Ok(run)
}

fn hyperfine(results: &Json, metric: &str) -> Result<StoredRuns> {
    let (key, scale) = match metric {
        "spawn_to_exit_ns" => ("times", SECOND),
        "max_rss_bytes" => ("memory_usage_byte", 1.0),
        other => return Err(Error::new(format!("hyperfine's results have no {other}"))),
    };
    let mut runs = Vec::new();
    for result in results.as_array().unwrap_or_default() {
        let name = result.get("command").and_then(Json::as_str).unwrap_or("").to_string();
        let Some(times) = result.get(key).and_then(Json::as_array) else {
            return Err(Error::new(format!("{name}: its result has no {key}")));
        };
        let values = times.iter().filter_map(Json::as_f64).map(|t| t * scale).collect();
        runs.push(StoredRun { name, values, rounds: None });
    }
    some_runs(StoredRuns {
        writer: Writer::Hyperfine,
        runs,
        control: None,
        metric: metric.to_string(),
        without: Vec::new(),
        delta: None,
    })
}

/// Sets commands without a value apart; at least one must remain.
fn some_runs(mut runs: StoredRuns) -> Result<StoredRuns> {
    if runs.runs.is_empty() {
        return Err(Error::new("holds no command"));
    }
    let (kept, empty): (Vec<StoredRun>, Vec<StoredRun>) = runs.runs.into_iter().partition(|r| !r.values.is_empty());
    runs.without = empty.into_iter().map(|r| r.name).collect();
    runs.runs = kept;
    if runs.runs.is_empty() {
        return Err(Error::new(format!("no command in it has a value of {}", runs.metric)));
    }
    Ok(runs)
}

/// Values of the rounds that both have, in order of rounds; `None` where a file keeps no rounds or a value is no
/// whole number.
pub fn paired_values(a: &StoredRun, b: &StoredRun) -> Option<(Vec<u64>, Vec<u64>)> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let by_round: std::collections::BTreeMap<u64, f64> =
        b.rounds.as_ref()?.iter().copied().zip(b.values.iter().copied()).collect();
    let mut first: Vec<(u64, f64)> = a.rounds.as_ref()?.iter().copied().zip(a.values.iter().copied()).collect();
    order::by_key(&mut first, |(round, _)| *round);
    for (round, x) in first {
        if let Some(y) = by_round.get(&round) {
            left.push(whole(x)?);
            right.push(whole(*y)?);
        }
    }
    Some((left, right))
}

fn whole(x: f64) -> Option<u64> {
    (x >= 0.0 && x < 2f64.powi(63) && x.fract() == 0.0).then_some(x as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperfine_seconds_become_nanoseconds() {
        let j = Json::parse(r#"{"results":[{"command":"true","mean":0.5,"times":[0.5e-3,1],"exit_codes":[0,0]}]}"#);
        let r = stored_runs(&j.unwrap(), "spawn_to_exit_ns").unwrap();
        assert_eq!((r.writer, r.runs[0].name.as_str()), (Writer::Hyperfine, "true"));
        assert_eq!(r.runs[0].values, [500_000.0, 1e9]);
    }

    #[test]
    fn premain_samples_pair_by_round_and_absent_values_are_no_samples() {
        let text = r#"{"schema":"premain.bench/1","commands":[
            {"name":"a","samples":{"round":[0,1,2],"spawn_to_byte_ns":[10,null,30]}},
            {"name":"b","samples":{"round":[2,0],"spawn_to_byte_ns":[33,11]}}],
            "control_samples":[{"round":[0],"spawn_to_byte_ns":[5]},{"round":[0],"spawn_to_byte_ns":[6]}]}"#;
        let r = stored_runs(&Json::parse(text).unwrap(), "spawn_to_byte_ns").unwrap();
        assert_eq!(r.runs[0].rounds, Some(vec![0, 2]));
        assert_eq!(paired_values(&r.runs[0], &r.runs[1]), Some((vec![10, 30], vec![11, 33])));
        assert_eq!(r.control.unwrap().values, [5.0, 6.0]);
        let silent = text.replace("[10,null,30]", "[null,null,null]");
        let r = stored_runs(&Json::parse(&silent).unwrap(), "spawn_to_byte_ns").unwrap();
        assert_eq!((r.runs.len(), r.without), (1, vec!["a".to_string()]));
    }

    #[test]
    fn each_fault_has_its_own_message() {
        for (text, part) in [
            ("{}", "neither premain nor hyperfine"),
            (r#"{"schema":"premain.trace/1","commands":[]}"#, "premain.trace/1"),
            (r#"{"schema":"premain.bench/1","commands":[{"name":"a"}]}"#, "--export-json"),
            (r#"{"schema":"premain.bench/1","commands":[]}"#, "holds no command"),
            (r#"{"schema":"premain.bench/1","commands":[{"name":"a","samples":{"round":[]}}]}"#, "have no spawn_to"),
            (r#"{"results":[{"command":"x"}]}"#, "has no times"),
            (r#"{"results":[{"command":"x","times":[]}]}"#, "no command in it has a value"),
        ] {
            let e = stored_runs(&Json::parse(text).unwrap(), "spawn_to_exit_ns").unwrap_err().to_string();
            assert!(e.contains(part), "{text}: {e}");
        }
    }
}
