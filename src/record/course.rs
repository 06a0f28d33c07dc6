//! The course of a long run of one command: how far its tail reaches, whether its worst and its peak memory grow, and
//! when its slowest starts were.

use std::cmp::Reverse;

use crate::measure::sample::Sample;
use crate::order;
use crate::record::bench::Metric;
use crate::stat::drift::theil_sen;
use crate::stat::quantile::whole_quantile;

/// Starts from which on a run is long enough to have a course: its 99.9th percentile then lies within the samples.
pub const LONG_RUN: usize = 1000;
const PARTS: usize = 10;
const SLOWEST: usize = 5;

/// A tenth of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its first round, from 1.
    pub from_round: u32,
    /// Its median, nanoseconds.
    pub p50: u64,
    /// Its slowest start, nanoseconds.
    pub max: u64,
    /// The largest peak memory of its starts, bytes.
    pub max_rss_bytes: u64,
}

/// A start that took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Its round, from 1.
    pub round: u32,
    /// How long it took, nanoseconds.
    pub ns: u64,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// 90th, 99th and 99.9th percentile, nanoseconds.
    pub tail: [u64; 3],
    /// Tenths of the run, in order.
    pub parts: Vec<Part>,
    /// The slowest starts, slowest first.
    pub slowest: Vec<Slow>,
    /// Peak memory rises from tenth to tenth: the interval of Theil and Sen's slope (95 %) lies above 0.
    pub memory_grows: bool,
    /// So does the slowest start.
    pub worst_grows: bool,
}

/// The course of a command's starts, which stand in the order of rounds; `None` for a short run.
pub fn course(samples: &[Sample], (_, metric): Metric) -> Option<Course> {
    let starts: Vec<(u32, u64, u64)> =
        samples.iter().filter_map(|s| Some((s.round.saturating_add(1), metric(s)?, s.usage.max_rss_bytes))).collect();
    if starts.len() < LONG_RUN {
        return None;
    }
    let mut sorted: Vec<u64> = starts.iter().map(|(_, ns, _)| *ns).collect();
    sorted.sort_unstable();
    let mut slowest: Vec<Slow> = Vec::new();
    let least = sorted[sorted.len() - SLOWEST];
    slowest
        .extend(starts.iter().filter(|(_, ns, _)| *ns >= least).map(|(round, ns, _)| Slow { round: *round, ns: *ns }));
    order::by_key(&mut slowest, |s| Reverse(s.ns));
    slowest.truncate(SLOWEST);
    let parts: Vec<Part> = starts.chunks(starts.len().div_ceil(PARTS)).filter_map(part).collect();
    let grows = |of: fn(&Part) -> u64| {
        let values: Vec<f64> = parts.iter().map(|p| of(p) as f64).collect();
        theil_sen(&values, 0.95).is_some_and(|line| line.ci[0] > 0.0)
    };
    Some(Course {
        tail: [0.9, 0.99, 0.999].map(|p| whole_quantile(&sorted, p)),
        memory_grows: grows(|p| p.max_rss_bytes),
        worst_grows: grows(|p| p.max),
        slowest,
        parts,
    })
}

fn part(starts: &[(u32, u64, u64)]) -> Option<Part> {
    let mut times: Vec<u64> = starts.iter().map(|(_, ns, _)| *ns).collect();
    times.sort_unstable();
    Some(Part {
        from_round: starts.first()?.0,
        p50: whole_quantile(&times, 0.5),
        max: *times.last()?,
        max_rss_bytes: starts.iter().map(|(.., rss)| *rss).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::bench::METRICS;
    use crate::sys::wait::{Usage, WaitStatus};

    fn samples(n: u32, of: impl Fn(u32) -> (u64, u64)) -> Vec<Sample> {
        let one = |round: u32| {
            let (spawn_to_exit_ns, max_rss_bytes) = of(round);
            Sample {
                round,
                position: 0,
                arm: 0,
                fork_to_exec_ns: 10,
                spawn_to_exit_ns,
                spawn_to_byte_ns: None,
                spawn_to_output: None,
                spawn_to_eof_ns: None,
                stdout_bytes: 0,
                stderr_bytes: 0,
                stdout_hash: 0,
                status: WaitStatus(0),
                usage: Usage { max_rss_bytes, ..Usage::default() },
                held_open: false,
                timed_out: false,
                ended_at_first_byte: false,
            }
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn a_short_run_has_no_course() {
        assert_eq!(course(&samples(999, |_| (5, 5)), METRICS[0]), None);
    }

    #[test]
    fn tails_tenths_and_the_slowest_are_the_samples() {
        let c = course(&samples(2000, |i| (u64::from(i % 1000) + 1, 4096)), METRICS[0]).unwrap();
        assert_eq!(c.tail, [900, 990, 999]);
        assert_eq!(c.parts.len(), 10);
        assert_eq!(c.parts[1], Part { from_round: 201, p50: 301, max: 400, max_rss_bytes: 4096 });
        assert_eq!(c.slowest.iter().map(|s| (s.round, s.ns)).collect::<Vec<_>>()[..2], [(1000, 1000), (2000, 1000)]);
        assert!(!c.memory_grows);
    }

    #[test]
    fn growth_is_told_from_a_single_peak() {
        let grows = course(&samples(5000, |i| (100, 1_000_000 + u64::from(i) * 10)), METRICS[0]).unwrap();
        assert!(grows.memory_grows && !grows.worst_grows);
        let peak =
            course(&samples(5000, |i| (100, if i == 4990 { 9_000_000 } else { 1_000_000 })), METRICS[0]).unwrap();
        assert!(!peak.memory_grows);
        assert_eq!(peak.parts[9].max_rss_bytes, 9_000_000);
    }
}
