//! Did the machine change while we measured? Looked for in the control, which cannot have changed itself.

use super::bootstrap::{affordable_resamples, block_length, block_resample, percentiles};
use super::dist::{normal_quantile, normal_upper};
use super::memory::{correlation_time, rank_autocorrelation};
use super::quantile::median;
use super::rng::Rng;

/// The trend is taken over the medians of at most this many equal stretches: rounds within a stretch are
/// not independent, and slopes are counted over all pairs.
const STRETCHES: usize = 60;
/// Below this many rounds neither thirds nor a trend mean anything.
const LEAST_ROUNDS: usize = 12;

/// What changed from the first rounds to the last.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Median of the last third over median of the first third.
    pub thirds_ratio: f64,
    /// Its 95 % interval by moving-block bootstrap within each third.
    pub thirds_ci95: [f64; 2],
    /// Change over the whole run along the Theil-Sen line of ln(value): 1.03 is 3 % slower at the end.
    pub trend_ratio: f64,
    /// Its 95 % interval (Sen 1968).
    pub trend_ci95: [f64; 2],
    /// Kendall's rank correlation of value and time.
    pub tau: f64,
    /// Two-sided p-value of "no trend".
    pub p_value: f64,
}

impl Drift {
    /// True where both looks agree that the run's ends differ by more than `fraction`, beyond noise.
    pub fn matters(&self, fraction: f64) -> bool {
        let shown = |ci: [f64; 2]| ci[0] > 1.0 || ci[1] < 1.0;
        let large = |r: f64| r.ln().abs() >= fraction.ln_1p();
        shown(self.thirds_ci95) && shown(self.trend_ci95) && (large(self.thirds_ratio) || large(self.trend_ratio))
    }
}

/// Looks for drift in values in the order in which they were measured. `None` below 12 values or where one
/// is zero.
pub fn drift(values: &[u64], seed: u64) -> Option<Drift> {
    if values.len() < LEAST_ROUNDS || values.contains(&0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|&v| (v as f64).ln()).collect();
    let (thirds, thirds_ci) = thirds(&logs, seed)?;
    let stretches = stretch_medians(&logs);
    let line = theil_sen(&stretches, 0.95)?;
    // From the middle of the first round to that of the last.
    let span = stretches.len() as f64 * (values.len() - 1) as f64 / values.len() as f64;
    Some(Drift {
        thirds_ratio: thirds.exp(),
        thirds_ci95: thirds_ci.map(f64::exp),
        trend_ratio: (line.slope * span).exp(),
        trend_ci95: line.ci.map(|s| (s * span).exp()),
        tau: line.tau,
        p_value: line.p_value,
    })
}

fn thirds(logs: &[f64], seed: u64) -> Option<(f64, [f64; 2])> {
    let third = logs.len() / 3;
    let (first, last) = (&logs[..third], &logs[logs.len() - third..]);
    let difference = |a: &mut [f64], b: &mut [f64]| Some(median(b)? - median(a)?);
    let rho = [first, last].iter().filter_map(|x| rank_autocorrelation(x)).fold(0.0, f64::max);
    let time = correlation_time(first).max(correlation_time(last));
    let block = block_length(third, rho).max((2.0 * time).ceil() as usize);
    let mut rng = Rng::new(seed);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for _ in 0..affordable_resamples(logs.len()) {
        block_resample(first, block, &mut rng, &mut a);
        block_resample(last, block, &mut rng, &mut b);
        found.push(difference(&mut a, &mut b)?);
    }
    Some((difference(&mut first.to_vec(), &mut last.to_vec())?, percentiles(found, 0.95)?))
}

/// Medians of equal stretches, about as many as asked.
fn stretch_medians(series: &[f64]) -> Vec<f64> {
    let count = series.len().min(STRETCHES);
    let edge = |i: usize| series.len() * i / count;
    (0..count).filter_map(|i| median(&mut series[edge(i)..edge(i + 1)].to_vec())).collect()
}

/// A robust line through values at 0, 1, 2, …
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RobustLine {
    /// Median of the slopes of all pairs.
    pub slope: f64,
    /// Its interval.
    pub ci: [f64; 2],
    /// Kendall's tau-b of value and position.
    pub tau: f64,
    /// Two-sided p-value of tau, by the normal approximation with tie correction.
    pub p_value: f64,
}

/// Theil and Sen's slope with Sen's interval (its ranks from the variance of Kendall's S, with ties), and
/// Kendall's test. Stores n(n-1)/2 slopes: for short series. `None` below 3 values.
pub fn theil_sen(values: &[f64], confidence: f64) -> Option<RobustLine> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut s = 0i64;
    for (i, early) in values.iter().enumerate() {
        for (j, late) in values.iter().enumerate().skip(i + 1) {
            slopes.push((late - early) / (j - i) as f64);
            s += i64::from(late > early) - i64::from(late < early);
        }
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ties: Vec<f64> = sorted.chunk_by(|a, b| a == b).map(|g| g.len() as f64).collect();
    let size = n as f64;
    let tied: f64 = ties.iter().map(|t| t * (t - 1.0) * (2.0 * t + 5.0)).sum();
    let deviation = ((size * (size - 1.0) * (2.0 * size + 5.0) - tied) / 18.0).max(0.0).sqrt();
    let z = normal_quantile(0.5 + confidence / 2.0);
    let pairs = slopes.len() as f64;
    let low = ((pairs - z * deviation) / 2.0).round().clamp(0.0, pairs) as usize;
    let high = ((pairs + z * deviation) / 2.0).round().clamp(0.0, pairs) as usize;
    let ci = [slopes[low.saturating_sub(1)], slopes[high.min(slopes.len() - 1)]];
    let tied_pairs: f64 = ties.iter().map(|t| t * (t - 1.0) / 2.0).sum();
    let scale = (pairs * (pairs - tied_pairs)).sqrt();
    Some(RobustLine {
        slope: median(&mut slopes)?,
        ci,
        tau: if scale > 0.0 { s as f64 / scale } else { 0.0 },
        p_value: if deviation > 0.0 { (2.0 * normal_upper(s.abs() as f64 / deviation)).min(1.0) } else { 1.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(n: usize, slope: f64, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        (0..n).map(|i| (1e6 * (1.0 + slope * i as f64 / n as f64) * (1.0 + 0.02 * rng.unit())) as u64).collect()
    }

    #[test]
    fn a_slow_rise_is_found_and_sized() {
        let d = drift(&noisy(300, 0.10, 1), 1).unwrap();
        assert!((1.08..1.12).contains(&d.trend_ratio), "{d:?}");
        assert!((1.05..1.08).contains(&d.thirds_ratio), "{d:?}");
        assert!(d.matters(0.02) && d.tau > 0.8 && d.p_value < 1e-6);
        let flat = drift(&noisy(300, 0.0, 2), 1).unwrap();
        assert!(!flat.matters(0.02), "{flat:?}");
        assert_eq!(drift(&noisy(300, 0.0, 2), 1), Some(flat));
    }

    #[test]
    fn too_little_or_unusable_data_say_nothing() {
        assert_eq!(drift(&[5; 11], 1), None);
        assert_eq!(drift(&[0; 30], 1), None);
        let flat = drift(&[5; 30], 1).unwrap();
        assert_eq!((flat.thirds_ratio, flat.trend_ci95, flat.tau, flat.p_value), (1.0, [1.0, 1.0], 0.0, 1.0));
        assert_eq!(theil_sen(&[1.0, 2.0], 0.95), None);
    }
}
