//! The record of a storm: how long so many starts at once take, each and together, beside the control's.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::measure::log::Log;
use crate::measure::sample::Sample;
use crate::record::bench::{VersusReference, versus};
use crate::record::host::HostRecord;
use crate::stat::quantile::Summary;
use crate::sys::many::Noticing;

/// A storm that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct StormRecord {
    /// The command.
    pub command: String,
    /// Its words.
    pub argv: Vec<std::ffi::OsString>,
    /// By concurrency, rising.
    pub levels: Vec<Level>,
    /// Rounds: each makes one batch of the command and one of the control at every level.
    pub rounds: u64,
    /// Time they took.
    pub spent_ns: u64,
    /// Seed of orders.
    pub seed: u64,
    /// Ended by a signal.
    pub interrupted: bool,
    /// How ends were noticed.
    pub noticing: Noticing,
    /// Processors that the starts may use.
    pub processors: Option<u64>,
    /// Where, and what happened there meanwhile.
    pub host: HostRecord,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// So many at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// How many.
    pub concurrency: u64,
    /// The command.
    pub command: Side,
    /// The control, as many at once.
    pub control: Side,
    /// Command against control, by the time until all have exited, within rounds.
    pub vs_control: Option<VersusReference>,
}

/// The batches of one program at one level.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Starts.
    pub starts: u64,
    /// Of these, ended otherwise than with 0 or as expected.
    pub failures: u64,
    /// Starts by exit code (128 + signal).
    pub exit_codes: BTreeMap<i32, u64>,
    /// From the common start until the last one was waited for, a value a batch.
    pub all_exited_ns: Option<Summary>,
    /// Making them all before the common start: outside of everything else here.
    pub fork_ns: Option<Summary>,
    /// From the common start to the end of each.
    pub start_ns: Option<Summary>,
    /// Processor time of each.
    pub cpu_ns: Option<Summary>,
    /// Page faults of each.
    pub minflt: Option<Summary>,
    /// Page faults of each that read a disk.
    pub majflt: Option<Summary>,
    /// Times that each was taken off its processor.
    pub nivcsw: Option<Summary>,
    /// Times that each gave its processor up.
    pub nvcsw: Option<Summary>,
    /// Share of the time of all processors that these starts used until all had exited, in the batches observed.
    pub busy: Option<f64>,
    /// Where the time of a start went, from batches of their own.
    pub observed: Option<Observed>,
}

/// Where the time of a start's first thread went; medians over the starts observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// Starts observed.
    pub starts: u64,
    /// All of it, from the common start to its end.
    pub elapsed_ns: u64,
    /// On a processor.
    pub running_ns: u64,
    /// Ready, and waiting for a processor.
    pub waiting_ns: u64,
    /// Neither: held by a lock, a disk, a pipe; and what we took to notice its end.
    pub blocked_ns: u64,
    /// How long we waited for a processor ourselves while a whole batch ran, the most of all batches: no end was noticed
    /// later than that.
    pub late_ns: u64,
}

/// One batch, as it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Level times two, plus one for the control.
    pub arm: usize,
    /// Making them.
    pub fork_ns: u64,
    /// Until all had exited.
    pub all_exited_ns: u64,
}

impl Side {
    /// Starts a second, were batches to follow each other without a gap: concurrency over the median batch. With its
    /// interval.
    pub fn per_second(&self, concurrency: u64) -> Option<(f64, Option<[f64; 2]>)> {
        let s = self.all_exited_ns.as_ref().filter(|s| s.p50 > 0)?;
        let rate = |ns: u64| concurrency as f64 * 1e9 / (ns.max(1)) as f64;
        Some((rate(s.p50), s.p50_ci95.map(|[low, high]| [rate(high), rate(low)])))
    }
}

/// Summarises one side of a level, without what is observed. `failed` judges the end of a start.
///
/// # Errors
/// Where samples cannot be read back.
pub fn side(log: &mut Log, batches: &[Batch], arm: usize, failed: &dyn Fn(&Sample) -> bool) -> Result<Side> {
    let samples = log.arm(arm)?;
    let mut exit_codes = BTreeMap::new();
    for s in &samples {
        *exit_codes.entry(s.status.code()).or_insert(0) += 1;
    }
    let of = |get: fn(&Sample) -> u64| Summary::of(&mut samples.iter().map(get).collect::<Vec<_>>());
    let own: Vec<&Batch> = batches.iter().filter(|b| b.arm == arm).collect();
    let of_batches = |get: fn(&Batch) -> u64| Summary::of(&mut own.iter().map(|b| get(b)).collect::<Vec<_>>());
    Ok(Side {
        starts: samples.len() as u64,
        failures: samples.iter().filter(|s| failed(s)).count() as u64,
        exit_codes,
        all_exited_ns: of_batches(|b| b.all_exited_ns),
        fork_ns: of_batches(|b| b.fork_ns),
        start_ns: of(|s| s.spawn_to_exit_ns),
        cpu_ns: of(Sample::cpu_ns),
        minflt: of(|s| s.usage.minflt),
        majflt: of(|s| s.usage.majflt),
        nivcsw: of(|s| s.usage.nivcsw),
        nvcsw: of(|s| s.usage.nvcsw),
        busy: None,
        observed: None,
    })
}

/// Command against control at one level: batches of one round are a pair.
pub fn against_control(batches: &[Batch], level: usize, seed: u64, delta: f64) -> Option<VersusReference> {
    let of = |arm: usize| batches.iter().filter(move |b| b.arm == arm).map(|b| b.all_exited_ns).collect::<Vec<_>>();
    versus(&of(2 * level + 1), &of(2 * level), seed, delta)
}

/// A throughput that grows by less than this from one level to the next no longer scales.
const STILL_GROWS: f64 = 1.1;

/// Index of the level from which on more at once brings no more throughput; `None` where it grew to the end.
pub fn knee(levels: &[Level]) -> Option<usize> {
    let rates: Vec<f64> = levels.iter().filter_map(|l| l.command.per_second(l.concurrency)).map(|(r, _)| r).collect();
    if rates.len() != levels.len() {
        return None;
    }
    (0..rates.len().saturating_sub(1)).find(|i| rates[i + 1..].iter().all(|later| *later < rates[*i] * STILL_GROWS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(concurrency: u64, batch_ns: u64) -> Level {
        let side = Side {
            starts: 0,
            failures: 0,
            exit_codes: BTreeMap::new(),
            all_exited_ns: Summary::of(&mut [batch_ns; 8]),
            fork_ns: None,
            start_ns: None,
            cpu_ns: None,
            minflt: None,
            majflt: None,
            nivcsw: None,
            nvcsw: None,
            busy: None,
            observed: None,
        };
        Level { concurrency, control: side.clone(), command: side, vs_control: None }
    }

    #[test]
    fn the_rate_is_concurrency_over_the_batch() {
        let (rate, ci) = level(64, 1_310_000_000).command.per_second(64).unwrap();
        assert!((rate - 48.85).abs() < 0.01, "{rate}");
        assert_eq!(ci.map(|c| c.map(|r| r.round())), Some([49.0, 49.0]));
    }

    #[test]
    fn the_knee_is_where_more_at_once_brings_no_more() {
        // 1, 2, 4 scale; then a start of any size waits its turn.
        let levels = [level(1, 1_000), level(2, 1_000), level(4, 2_000), level(8, 4_000)];
        assert_eq!(knee(&levels), Some(1));
        assert_eq!(knee(&[level(1, 1_000), level(2, 1_000)]), None);
        // Worse later is a knee too, and a dip in between is none.
        assert_eq!(knee(&[level(1, 1_000), level(2, 5_000)]), Some(0));
        assert_eq!(knee(&[level(1, 1_000), level(2, 5_000), level(4, 1_000)]), None);
        assert_eq!(knee(&[level(1, 1_000)]), None);
        assert_eq!(knee(&[]), None);
    }
}
