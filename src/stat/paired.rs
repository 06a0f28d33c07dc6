//! A candidate against the reference, paired within rounds.
//!
//! The data of a comparison are log ratios: of each round, ln(candidate / reference). What slows a whole
//! round cancels there. The estimate is their median; outliers move it little, and its interval holds
//! whatever the distribution.

use super::bootstrap::{affordable_resamples, block_interval, block_length};
use super::dist::{normal_quantile, normal_upper};
use super::memory::{self, correlation_time, rank_autocorrelation};
use super::quantile::{median, median_interval, median_ranks};
use super::rank::{Method, hodges_lehmann, sign_test, signed_rank};
use super::rng::Rng;
use crate::order;

/// Above this lag-1 autocorrelation rounds are not taken as independent.
pub const AUTOCORRELATION_LIMIT: f64 = 0.1;
/// Above this share of ties and zeros ranks say little, and the sign test is used.
pub const TIE_LIMIT: f64 = 0.2;

/// The log ratios of all usable rounds, in order, and how many rounds had a zero on a side.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRatios {
    /// ln(candidate / reference), one a round.
    pub values: Vec<f64>,
    /// Rounds left out since a side was zero: a ratio does not exist there.
    pub zero_rounds: usize,
}

/// Pairs by position; what the longer side has more is not used.
pub fn log_ratios(reference: &[u64], candidate: &[u64]) -> LogRatios {
    let mut values = Vec::with_capacity(reference.len().min(candidate.len()));
    let mut zero_rounds = 0;
    for (&r, &c) in reference.iter().zip(candidate) {
        if r == 0 || c == 0 {
            zero_rounds += 1;
        } else {
            values.push(log_ratio(r, c));
        }
    }
    LogRatios { values, zero_rounds }
}

/// ln(c / r) through the smaller side, so that equal ratios give equal bits (ties stay ties) and swapping
/// the sides only changes the sign.
fn log_ratio(r: u64, c: u64) -> f64 {
    let size = (r.abs_diff(c) as f64 / r.min(c) as f64).ln_1p();
    if c >= r { size } else { -size }
}

/// Which test gave the p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Wilcoxon's signed-rank test, exact or by normal approximation.
    SignedRank(Method),
    /// The sign test, since more than 20 % of the pairs tie.
    Sign,
}

impl Test {
    /// As printed beside a p-value.
    pub fn name(self) -> &'static str {
        match self {
            Test::SignedRank(Method::Exact) => "signed-rank, exact",
            Test::SignedRank(Method::Normal) => "signed-rank, normal approximation",
            Test::Sign => "sign test",
        }
    }
}

/// How the interval of the ratio was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalMethod {
    /// Order statistics: exact where rounds are independent.
    OrderStatistic,
    /// Neighbouring rounds resemble each other: the hull of the order-statistic interval, the same with as many
    /// values as there are independent rounds, and a moving-block bootstrap. Never narrower than the first.
    BlockBootstrap,
}

impl IntervalMethod {
    /// As printed beside an interval.
    pub fn name(self) -> &'static str {
        match self {
            IntervalMethod::OrderStatistic => "order statistics",
            IntervalMethod::BlockBootstrap => "moving-block bootstrap",
        }
    }
}

/// What the pairs say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Rounds with a ratio.
    pub pairs: usize,
    /// Rounds without, since a side was zero.
    pub zero_rounds: usize,
    /// Candidate over reference: e to the median log ratio.
    pub ratio: f64,
    /// Its 95 % interval; `None` below 6 pairs.
    pub ratio_ci95: Option<[f64; 2]>,
    /// How that interval was obtained.
    pub interval: IntervalMethod,
    /// The Hodges-Lehmann ratio, a second opinion: far from `ratio` where the pairs are skewed.
    pub hodges_lehmann: f64,
    /// Two-sided p-value of "no difference"; where rounds are correlated, that of its normal score divided by
    /// the root of the correlation time.
    pub p_value: f64,
    /// The test behind it.
    pub test: Test,
    /// Correlation of neighbouring rounds (of the ranks of their ratios); `None` where it is undefined.
    pub autocorrelation: Option<f64>,
    /// How many rounds one independent round is worth: 1 where rounds are taken as independent.
    pub correlation_time: f64,
}

/// Compares within rounds; `None` where no round has a ratio. `seed` drives the bootstrap.
pub fn compare(reference: &[u64], candidate: &[u64], seed: u64) -> Option<Comparison> {
    let LogRatios { values, zero_rounds } = log_ratios(reference, candidate);
    compare_log_ratios(&values, seed).map(|c| Comparison { zero_rounds, ..c })
}

/// The same from log ratios in round order.
pub fn compare_log_ratios(log_ratios: &[f64], seed: u64) -> Option<Comparison> {
    let ranks = signed_rank(log_ratios)?;
    let (p_value, test) = if ranks.tied_share > TIE_LIMIT {
        (sign_test(log_ratios), Test::Sign)
    } else {
        (ranks.p_value, Test::SignedRank(ranks.method))
    };
    let autocorrelation = rank_autocorrelation(log_ratios);
    let mut sorted = log_ratios.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let exact = median_interval(&sorted, 0.95);
    let correlated = autocorrelation.filter(|&rho| rho > AUTOCORRELATION_LIMIT);
    let correlation_time = correlated.map_or(1.0, |_| correlation_time(log_ratios));
    let (ci, interval) = match (correlated, exact) {
        (Some(rho), Some(exact)) => {
            (Some(widened(log_ratios, &sorted, exact, (rho, correlation_time), seed)), IntervalMethod::BlockBootstrap)
        }
        _ => (exact, IntervalMethod::OrderStatistic),
    };
    Some(Comparison {
        pairs: log_ratios.len(),
        zero_rounds: 0,
        ratio: median(&mut sorted)?.exp(),
        ratio_ci95: ci.map(|c| c.map(f64::exp)),
        interval,
        hodges_lehmann: hodges_lehmann(log_ratios)?.exp(),
        p_value: deflated(p_value, correlation_time),
        test,
        autocorrelation,
        correlation_time,
    })
}

/// The interval of the median ratio at any confidence: order statistics of as many independent rounds as there are
/// (`correlation_time` is the comparison's); `None` where these are too few for it.
pub fn ratio_interval(log_ratios: &[f64], correlation_time: f64, confidence: f64) -> Option<[f64; 2]> {
    median_of_correlated(log_ratios, correlation_time, confidence).map(|ci| ci.map(f64::exp))
}

/// The interval of the median of any series of rounds, in the same way.
pub fn median_of_correlated(series: &[f64], correlation_time: f64, confidence: f64) -> Option<[f64; 2]> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let independent = (sorted.len() as f64 / correlation_time.max(1.0)) as usize;
    let exact = median_ranks(independent, confidence)?;
    let correlated = correlation_time > 1.0;
    let ranks = if correlated { memory::median_ranks(sorted.len(), correlation_time, confidence)? } else { exact };
    let [low, high] = ranks.map(|i| sorted.get(i).copied());
    Some([low?, high?])
}

/// The hull of `exact` with what correlated rounds need: the order statistics of as many independent values as
/// there are (the extremes, where these are fewer than six), and a moving-block bootstrap.
fn widened(series: &[f64], sorted: &[f64], exact: [f64; 2], memory: (f64, f64), seed: u64) -> [f64; 2] {
    let (n, (rho, time)) = (series.len(), memory);
    let [low, high] = memory::median_ranks(n, time, 0.95).unwrap_or([0, n - 1]);
    // Twice the correlation time is the best block of a first-order autoregression in long runs.
    let block = block_length(n, rho).max((2.0 * time).ceil() as usize).min((n / 4).max(1));
    let boot = block_interval(series, block, affordable_resamples(n), 0.95, &mut Rng::new(seed), median);
    let all = [exact, [sorted[low], sorted[high]], boot.unwrap_or(exact)];
    all.iter().fold(exact, |hull, ci| [hull[0].min(ci[0]), hull[1].max(ci[1])])
}

/// The p-value that the same score has with fewer independent rounds.
fn deflated(p_value: f64, correlation_time: f64) -> f64 {
    if correlation_time <= 1.0 || p_value >= 1.0 {
        return p_value;
    }
    // A p-value that has underflowed to zero stays what it is.
    let score = -normal_quantile(p_value / 2.0);
    if score.is_finite() { 2.0 * normal_upper(score / correlation_time.sqrt()) } else { p_value }
}

/// The median of candidate - reference within rounds, to the nearest whole unit; `None` without rounds.
pub fn median_difference(reference: &[u64], candidate: &[u64]) -> Option<i64> {
    // Whole numbers: sorting is exact where f64 would lose the last digits.
    let mut d: Vec<i128> = reference.iter().zip(candidate).map(|(&r, &c)| i128::from(c) - i128::from(r)).collect();
    d.sort_unstable();
    let twice = d.get(d.len().checked_sub(1)? / 2)? + d.get(d.len() / 2)?;
    i64::try_from((twice + twice.signum()) / 2).ok()
}

/// Holm's step-down adjustment: with several candidates, the p-values to compare with the level as if each
/// stood alone. Same order as given.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order::by(&mut order, |&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut floor = 0.0_f64;
    for (i, &at) in order.iter().enumerate() {
        floor = floor.max((p_values.len() - i) as f64 * p_values[at]).min(1.0);
        adjusted[at] = floor;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_tie_exactly_in_both_directions() {
        assert_eq!(log_ratio(3, 7), log_ratio(300, 700));
        assert_eq!(log_ratio(3, 7), -log_ratio(7, 3));
        assert_eq!(log_ratio(5, 5), 0.0);
        assert!((log_ratio(1_000_000_007, 1_000_000_008) - 1e-9).abs() < 1e-17);
    }

    #[test]
    fn more_confidence_is_a_wider_interval_and_needs_more_rounds() {
        let series: Vec<f64> = (0..100).map(|i| f64::from(i) / 1000.0).collect();
        let at = |n: usize, time: f64, confidence: f64| ratio_interval(&series[..n], time, confidence);
        let [narrow, wide] = [0.95, 0.999].map(|c| at(100, 1.0, c).unwrap());
        assert_eq!(
            Some(narrow),
            compare_log_ratios(&series, 1).map(|_| median_interval(&series, 0.95).unwrap().map(f64::exp))
        );
        assert!(wide[0] < narrow[0] && wide[1] > narrow[1]);
        let slow = at(100, 4.0, 0.999).unwrap();
        assert!(slow[0] < wide[0] && slow[1] > wide[1]);
        // 2^-10 is the first power below 0.001.
        assert_eq!((at(10, 1.0, 0.999), at(11, 1.0, 0.999).is_some(), at(40, 4.0, 0.999)), (None, true, None));
    }

    #[test]
    fn a_zero_gives_no_ratio_and_is_counted() {
        let c = compare(&[0, 10, 10], &[5, 0, 20], 1).unwrap();
        assert_eq!((c.pairs, c.zero_rounds, c.ratio_ci95), (1, 2, None));
        assert!((c.ratio - 2.0).abs() < 1e-15);
        assert_eq!(compare(&[0], &[1], 1), None);
        assert_eq!(compare(&[], &[], 1), None);
    }

    #[test]
    fn equal_counts_use_the_sign_test_and_show_no_difference() {
        let c = compare(&[50; 30], &[50; 30], 1).unwrap();
        assert_eq!((c.ratio, c.ratio_ci95, c.p_value, c.test), (1.0, Some([1.0, 1.0]), 1.0, Test::Sign));
        assert_eq!(c.autocorrelation, None);
    }

    #[test]
    fn memory_between_rounds_widens_the_interval_and_never_narrows_it() {
        let mut rng = Rng::new(4);
        let mut level = 0.0;
        let series: Vec<f64> = (0..300)
            .map(|_| {
                level = 0.9 * level + rng.unit() - 0.5;
                level * 0.01
            })
            .collect();
        let c = compare_log_ratios(&series, 9).unwrap();
        assert_eq!(c.interval, IntervalMethod::BlockBootstrap);
        let mut sorted = series.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let exact = median_interval(&sorted, 0.95).unwrap().map(f64::exp);
        let [low, high] = c.ratio_ci95.unwrap();
        assert!(low <= exact[0] && high >= exact[1] && high - low > 1.2 * (exact[1] - exact[0]));
        assert_eq!(Some(c), compare_log_ratios(&series, 9));
    }

    #[test]
    fn differences_round_away_from_zero_and_do_not_overflow() {
        assert_eq!(median_difference(&[10, 10], &[11, 12]), Some(2));
        assert_eq!(median_difference(&[11, 12], &[10, 10]), Some(-2));
        assert_eq!(median_difference(&[], &[]), None);
        assert_eq!(median_difference(&[0], &[u64::MAX]), None);
    }
}
