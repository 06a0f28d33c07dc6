//! Predictions beside measurements, on programs that took no part in the fit.

use std::path::PathBuf;

use super::calibrate::{Ground, Skipped, closure_of};
use super::design::Family;
use super::fit::{Span, median_of};
use super::gauge::Effort;
use super::predict::{Prediction, predict};
use super::store::Model;
use crate::error::Result;
use crate::loader::host::Host;
use crate::stat::quantile::{median, quantile};

/// One program, predicted and measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Its path.
    pub name: String,
    /// What the model says.
    pub prediction: Prediction,
    /// Median from execve to the entry point of its stamped copy, nanoseconds.
    pub measured_ns: f64,
    /// Median from there to the end.
    pub measured_end_ns: f64,
    /// Median of page faults of a start.
    pub page_faults: f64,
}

/// All of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// In the order given.
    pub programs: Vec<Program>,
    /// What could not be predicted or measured.
    pub skipped: Vec<Skipped>,
    /// The plain programs of the design, measured now over predicted: how much slower this host is now.
    pub drift: f64,
    /// Rounds.
    pub rounds: usize,
}

/// How predictions and measurements agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Median of absolute relative errors.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// Median of signed relative errors.
    pub bias: f64,
    /// Share of measurements inside their interval.
    pub coverage: f64,
}

impl Program {
    /// Predicted minus measured, over measured.
    pub fn error(&self) -> f64 {
        self.prediction.value_ns / self.measured_ns.max(1.0) - 1.0
    }

    /// The measurement lies in the interval.
    pub fn is_inside(&self) -> bool {
        let [low, high] = self.prediction.ci95;
        (low..=high).contains(&self.measured_ns)
    }
}

impl Checked {
    /// `None` without programs.
    pub fn summary(&self) -> Option<Summary> {
        let mut errors: Vec<f64> = self.programs.iter().map(Program::error).collect();
        let bias = median(&mut errors)?;
        let mut absolute: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        absolute.sort_unstable_by(f64::total_cmp);
        let inside = self.programs.iter().filter(|p| p.is_inside()).count();
        Some(Summary {
            median: quantile(&absolute, 0.5)?,
            p90: quantile(&absolute, 0.9)?,
            bias,
            coverage: inside as f64 / self.programs.len() as f64,
        })
    }
}

/// Measures stamped copies of programs, beside the design's plain programs that tell the host's drift.
///
/// # Errors
/// Where nothing can be measured here, or a signal asks us to stop.
pub fn check(model: &Model, paths: &[PathBuf], effort: Effort, progress: &mut dyn FnMut(u64, u64)) -> Result<Checked> {
    let mut ground = Ground::new(effort)?;
    ground.add_design()?;
    ground.subjects.retain(|s| s.about.name.ends_with(" plain"));
    let anchors = ground.subjects.len();
    for path in paths {
        ground.add_copy(path);
    }
    let (rows, mut skipped) = ground.measure(progress)?;
    let mut drifts = Vec::new();
    let mut programs = Vec::new();
    let rounds = rows.first().map_or(0, |r| r.readings.len());
    for (i, row) in rows.iter().enumerate() {
        let measured_ns = median_of(&row.readings, Span::Entry, None).unwrap_or(0.0);
        if i < anchors {
            let predicted = model.family(row.about.family).map(|f| f.entry.time(&row.about.work.counts));
            drifts.extend(predicted.filter(|_| row.about.family != Family::Static).map(|p| measured_ns / p));
            continue;
        }
        let mut faults: Vec<f64> = row.readings.iter().map(|r| r.minflt).collect();
        let closure = closure_of(std::path::Path::new(&row.about.name))?;
        match predict(model, &closure, &Host) {
            Ok(prediction) => programs.push(Program {
                name: row.about.name.clone(),
                prediction,
                measured_ns,
                measured_end_ns: median_of(&row.readings, Span::End, None).unwrap_or(0.0),
                page_faults: median(&mut faults).unwrap_or(0.0),
            }),
            Err(e) => skipped.push((row.about.name.clone(), e.to_string())),
        }
    }
    Ok(Checked { programs, skipped, drift: median(&mut drifts).unwrap_or(1.0), rounds })
}
