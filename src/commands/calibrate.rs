//! `premain calibrate`: what each unit of load work costs on this host.

use super::common::Common;
use crate::error::{Exit, Result};
use crate::json::Json;
use crate::measure::plan::Rounds;
use crate::model::calibrate::{Row, rows};
use crate::model::gauge::Effort;
use crate::model::work::TERMS;
use crate::output::Output;
use crate::stat::quantile::median;
use crate::sys::start::Method;

/// Options of `calibrate`.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Under ten seconds, with wider intervals.
    pub quick: bool,
    /// x
    pub files: Vec<std::path::PathBuf>,
}

/// Calibrates and prints.
///
/// # Errors
/// Where programs cannot be written or started here.
pub fn run(options: &Options, common: &Common, output: &mut Output<'_>) -> Result<Exit> {
    let _ = common;
    let budget_ns = if options.quick { 7_000_000_000u64 } else { 40_000_000_000 };
    let budget_ns = std::env::var("BUDGET").ok().and_then(|b| b.parse::<u64>().ok()).map_or(budget_ns, |s| s * 1_000_000_000);
    let effort = Effort {
        warmup: 2,
        rounds: Rounds { min: 10, max: 2_000, budget_ns },
        seed: 1,
        method: Method::Vfork,
    };
    let (rows, skipped) = if options.files.is_empty() { rows(effort, &mut |_, _| {})? } else { crate::model::calibrate::check(&options.files, effort, &mut |_, _| {})? };
    for (n, w) in skipped { output.warn(&format!("{n}: {w}")); }
    output.text(&Json::array(rows.iter().map(row_json)).pretty())?;
    Ok(Exit::Done)
}

fn row_json(row: &Row) -> Json {
    let of = |f: fn(&crate::model::gauge::Reading) -> f64| {
        let mut values: Vec<f64> = row.readings.iter().map(f).collect();
        Json::Float(median(&mut values).unwrap_or(f64::NAN))
    };
    let mut j = Json::object([
        ("name", Json::Str(row.name.clone())),
        ("family", Json::Str(row.family.name().into())),
        ("entry", of(|r| r.to_entry_ns)),
        ("end", of(|r| r.to_end_ns)),
        ("minflt", of(|r| r.minflt)),
        ("n", Json::Uint(row.readings.len() as u64)),
    ]);
    let counts = TERMS.iter().zip(row.work.counts).map(|(t, n)| (t.name, Json::Float(n)));
    j.push("work", Json::object(counts));
    j
}
