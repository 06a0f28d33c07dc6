//! The record of a sweep: a bench whose commands are one command with the values of a parameter.

use crate::error::Result;
use crate::measure::log::Log;
use crate::record::bench::{BenchRecord, Metric};
use crate::stat::sweep::{SweepLine, fit};

/// What the values of a parameter are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Plain numbers.
    Number,
    /// Times with a unit, taken in nanoseconds.
    Time,
    /// Sizes with a unit, taken in bytes.
    Bytes,
    /// Words: there is no line through those.
    Word,
}

impl Kind {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Number => "number",
            Kind::Time => "time",
            Kind::Bytes => "bytes",
            Kind::Word => "word",
        }
    }
}

/// The parameter of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its values as they stand in the commands.
    pub values: Vec<String>,
    /// What they are.
    pub kind: Kind,
    /// Them as numbers, in the unit of the kind; `None` for words.
    pub x: Option<Vec<f64>>,
}

/// A sweep that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRecord {
    /// The command with the parameter's name in it.
    pub command: String,
    /// The parameter.
    pub parameter: Parameter,
    /// As typed: `exit`, `byte`, …
    pub metric: String,
    /// The field of the samples.
    pub field: &'static str,
    /// The line through all points; `None` for words, and where some starts gave no value.
    pub line: Option<SweepLine>,
    /// All of it.
    pub bench: BenchRecord,
}

/// The line of a run whose arms are the values of `x`, over the rounds in which every point has a value.
///
/// # Errors
/// Where samples cannot be read back.
pub fn line(log: &mut Log, x: &[f64], (_, get): Metric) -> Result<Option<SweepLine>> {
    let mut rounds: Vec<Vec<Option<f64>>> = Vec::new();
    log.for_each(|s| {
        let (round, arm) = (s.round as usize, usize::from(s.arm));
        if arm < x.len() {
            if rounds.len() <= round {
                rounds.resize_with(round + 1, || vec![None; x.len()]);
            }
            rounds[round][arm] = get(s).map(|v| v as f64);
        }
    })?;
    let complete: Vec<Vec<f64>> = rounds.into_iter().filter_map(|r| r.into_iter().collect()).collect();
    Ok(fit(x, &complete))
}
